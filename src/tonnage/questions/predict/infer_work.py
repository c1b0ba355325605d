"""
Which passes answer one batch of a case? A model and its input -> stages of work, each with how often it runs.

A vision model or an encoder is one pass. A diffusion model is text encoders once, the denoiser in every step (on
twice the images under guidance), and a decoder. A speech recogniser is an encoder pass per window of audio and a
decoder step per token. A model that reads images is its vision tower, a prompt of image and text tokens, and a decoder
step per token of the answer. A recommender gathers embedding rows and runs small products.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import ceil
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import model_name
from tonnage.catalog.fitted import offline, shape_of, unet_of
from tonnage.domain.case import InferCase
from tonnage.domain.layout import Layout
from tonnage.domain.model import Model
from tonnage.domain.offline import Shape
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.profile import Profile
from tonnage.errors import BadRequest, Unmeasured
from tonnage.physics.diffusion import (
    clip_frames,
    denoiser_transformer_work,
    text_encoder_work,
    text_tokens,
    unet_work,
    vae_decoder_work,
)
from tonnage.physics.network import element_bytes, network_work, patch_tokens, profile_work, scaled_to
from tonnage.physics.parameters import parameters
from tonnage.physics.shares import Tokens
from tonnage.physics.transformer import encode_work, step_work
from tonnage.physics.vision import WINDOW_S, decoder_step_work, encoder_model, speech_encoder_work
from tonnage.physics.work import Operator, Work
from tonnage.record import Record

_DISTILLED: Final = ("turbo", "lightning", "schnell", "lcm", "hyper", "flash")
"""Words in the names of models that need few steps and no guidance."""
_GUIDED_INSIDE: Final = ("flux", "hunyuanvideo")
"""Families that take the guidance scale as an input: one call a step."""
_STEPS: Final = {"distilled": 4, "transformer": 28, "unet": 50}
"""Steps when the case gives none: defaults of the pipelines in diffusers."""
_TEXT_LENGTH: Final = 128
_DECODED_TOKENS: Final = 140
"""Tokens of a window of speech: 170 words a minute, 1.4 tokens a word, two time stamps for each of ten phrases."""
_UNEVEN_WINDOWS: Final = 0.15
"""Standard deviation of a window's tokens over their mean: pauses and pace of one recording (assumed). [-]"""
_ANSWER_TOKENS: Final = 128
_QUESTION_TOKENS: Final = 32
"""Assumed about an image that is asked about: a short question, an answer of a few sentences. [tokens]"""
_MERGED: Final = 4.0
"""Patches that towers without a fixed number of tokens merge into one token (Qwen-VL, Pixtral of Mistral 3)."""
_USUAL_PX: Final = frozenset({224, 256, 336, 384, 448, 512, 518, 1024})
"""Sides of square images that vision transformers are trained at."""
_RECOMMENDER: Final = {"lookups": 214.0, "width": 128.0, "dense_parameters": 1.6e7}
"""MLPerf DLRM-DCNv2: rows gathered for a sample, their width, and parameters of the dense part."""


class Stage(Record, kw_only=True):
    """Passes of one kind: their work for the whole batch, and how often they run."""

    name: str
    work: Work
    times: float = 1.0


class Stages(Record, kw_only=True):
    """Everything that answers one batch."""

    stages: tuple[Stage, ...]
    per_sample: float = 1.0
    """What one sample counts as in the rate: 1, or its seconds of audio."""
    notes: tuple[str, ...] = ()


def precision_of(name: str) -> Precision:
    """Formats of a network run in one precision; activations of weight-only formats stay at 16 bits."""
    stored = number_format(name)
    if stored.weight_only:
        return Precision(weights=stored.name, kv="fp16", activations="fp16")
    wide = stored.name if stored.bits >= 16 else "fp16"
    return Precision(weights=stored.name, kv=wide, activations=stored.name)


def stages_of(model: Model, case: InferCase, *, batch: int) -> Stages:
    """
    The passes of one batch of `batch` samples.

    Raises
    ------
    BadRequest, Unmeasured
        The case lacks what its model needs, such as the FLOP of a network nobody counted.
    """
    # What runs it and where is no part of the work.
    return _stages(model, replace(case, model=None, accelerator="", engine="", batch=batch))


@lru_cache(maxsize=1024)
def _stages(model: Model, case: InferCase) -> Stages:
    """
    `stages_of` with the batch in the case. Kept by model and case: the caller empties the case's accelerator and
    engine, on which the work does not depend.
    """
    precision = precision_of(case.precision)
    _check(model, case)
    if case.tp > 1 and (not model.layers or model.kind in {"asr", "diffusion", "video-diffusion"}):
        raise BadRequest(f"tp: {model.kind} models run whole on each accelerator; set tp to 1 and use count")
    if model.profile is not None:
        return _traced_stages(model.profile, case, precision)
    if _is_of_size_only(model):
        return _network(model, case)
    if "diffusion" in model.kind:
        return _diffusion(model, case, precision)
    if model.kind == "asr" and model.network is None:
        return _speech(model, case, precision)
    if model.kind == "vlm":
        return _vision_stages(model, case, precision)
    if model.kind == "recommender":
        return _recommender(case.batch, precision)
    return _transformer(model, case, precision) if model.layers or model.encoder else _network(model, case)


def _is_of_size_only(model: Model) -> bool:
    """Weights are all that is published of it, and the model says so."""
    known = model.layers or model.encoder or model.towers or model.network
    return bool(model.assumed) and not known


def _check(model: Model, case: InferCase) -> None:
    """Refuses clip frames, recordings and beams where the model has no use for them."""
    if case.frames is not None and not model.kind.startswith("video"):
        raise BadRequest(f"frames: {model.id} makes no clips; frames belong to video models such as Wan2.1-T2V-1.3B")
    if case.audio_s is not None and model.kind != "asr":
        raise BadRequest(f"audio_s: {model.id} reads no audio; recordings belong to models such as whisper-large-v3")
    if case.beams > 1 and (model.kind != "asr" or not model.encoder):
        raise BadRequest(f"beams: {model.id} has no speech decoder; beams belong to models such as whisper-large-v3")


def _traced_stages(profile: Profile, case: InferCase, precision: Precision) -> Stages:
    """A traced module as it was traced: its operators hold for the shapes of its example inputs alone."""
    sizes = {size for given in profile.inputs for size in given.shape}
    for name, wanted in (("resolution", case.resolution), ("seq_len", case.seq_len)):
        if wanted is not None and wanted not in sizes:
            shapes = ", ".join("x".join(map(str, given.shape)) for given in profile.inputs)
            raise BadRequest(
                f"{name}: {profile.name} was traced on inputs of {shapes}, not at {wanted}; trace it again at that size"
            )
    work = profile_work(profile, batch=case.batch, precision=precision)
    return Stages(stages=(Stage(name="network", work=work),), notes=profile.notes)


def _network(model: Model, case: InferCase) -> Stages:
    """
    One pass of a network that is known by its totals. FLOP and layer outputs go with the resolution; outputs that
    nobody counted are estimated from the family.
    """
    shape, depth = shape_of(offline(), model)
    known = model.network
    at_px = known.input_px if known is not None and known.input_px else shape.input_px
    flop_at = known.flop if known is not None else shape.flop
    values_at = known.activation_values if known is not None and known.activation_values else shape.activation_values
    ratio = scaled_to(total=1.0, input_px=at_px, resolution=case.resolution) if at_px and case.resolution else 1.0
    total = case.flop or (flop_at * ratio if flop_at else None)
    if not total:
        why = f"{model.assumed[0]}; " if _is_of_size_only(model) else ""
        raise Unmeasured(f"model {model.id}: {why}FLOP of one sample is not known; give it in the case as 'flop'")
    counted = case.activation_values or (values_at * ratio if values_at else None)
    outputs = counted or total * (shape.activations_per_flop or 1.5e-3)
    work = network_work(
        flop=total,
        activation_values=outputs,
        parameters=parameters(model).value or total / 300.0,
        kernels=_kernels(model, shape, depth),
        batch=case.batch,
        precision=case.precision,
        style=shape.style,
    )
    notes = () if counted else (f"{model_name(model.id)}: layer outputs estimated from its family",)
    if model.kind == "cnn-detect":
        notes = (*notes, "the network alone: choosing among overlapping boxes is not counted")
    audio = known.sample_s if known is not None and known.sample_s else 1.0
    if audio != 1.0:
        notes = (*notes, f"a sample is {audio:g} s of audio; the rate is in seconds of audio")
    return Stages(stages=(Stage(name="network", work=work),), per_sample=audio, notes=notes)


def _kernels(model: Model, shape: Shape, depth: float | None) -> float:
    """Kernels of one pass: counted, else by the family's depth, else a usual number."""
    if model.network is not None and model.network.kernels:
        return float(model.network.kernels)
    if depth and shape.kernels_per_depth:
        return depth * shape.kernels_per_depth
    return shape.kernels or 80.0


def _transformer(model: Model, case: InferCase, precision: Precision) -> Stages:
    """One encoder pass over images or texts; a text without a stated length has a usual one."""
    notes: tuple[str, ...] = ()
    if model.kind.startswith("vision"):
        length, notes = _image_tokens(model, case.resolution)
    else:
        length = float(case.seq_len or min(_TEXT_LENGTH, model.max_context or _TEXT_LENGTH))
        if case.seq_len is None:
            notes = (f"{length:.0f} tokens assumed for each text",)
    work = encode_work(model, sequences=case.batch, length=length, precision=precision, layout=Layout(tp=case.tp))
    return Stages(stages=(Stage(name="encoder", work=work),), notes=notes)


def _image_tokens(model: Model, resolution: int | None) -> tuple[float, tuple[str, ...]]:
    """
    Tokens of an image at a resolution, and a note where its patch size is assumed; without a resolution those of the
    model's position table.
    """
    own = float(model.learned_positions or model.max_context or 0)
    if not own:
        raise BadRequest(f"model {model.id}: its position table is not known, so an image's tokens are not either")
    side = int(own**0.5)
    extra = own - side**2
    at_px = model.network.input_px if model.network is not None else None
    if resolution is None or at_px == resolution:
        return own, ()
    if at_px:
        return patch_tokens(resolution=resolution, patch_px=at_px / side, extra=extra), ()
    named = re.search(r"patch_?(\d+)", model.id)
    usual = [patch for patch in (16, 14, 32, 8) if side * patch in _USUAL_PX]
    patch = int(named.group(1)) if named is not None else next(iter(usual), 16)
    notes = () if named is not None else (f"patches of {patch} px assumed for {model_name(model.id)}",)
    return patch_tokens(resolution=resolution, patch_px=patch, extra=extra), notes


def _diffusion(model: Model, case: InferCase, precision: Precision) -> Stages:
    """
    Text encoders once, the denoiser in every step, and the decoder once or for each frame. Guidance, unless the model
    is distilled or has it inside, doubles the images.
    """
    known = model.network
    side = float(case.resolution or (known.input_px if known is not None and known.input_px else 1024))
    named = f"{model.family} {model.id}".lower()
    distilled = any(word in named for word in _DISTILLED)
    guided = not distilled and not any(word in named for word in _GUIDED_INSIDE)
    unet = unet_of(offline(), model)
    calls = case.steps or (known.denoiser_calls if known is not None else None)
    notes: tuple[str, ...] = ()
    if calls is None:
        calls = _STEPS["distilled" if distilled else "transformer" if model.layers else "unet"]
        notes = (f"{calls} denoising steps assumed",)
    images = case.batch * (2 if guided else 1)
    if unet is not None:
        denoiser = unet_work(unet, resolution=side, batch=images, precision=precision)
    elif model.layers:
        denoiser = denoiser_transformer_work(
            model, resolution=side, batch=images, precision=precision, frames=case.frames
        )
    else:
        denoiser = _counted_denoiser(model, side=side, images=images, precision=precision)
    sixteen = precision_of("fp16") if number_format(precision.weights).bits < 16 else precision
    channels = unet.latent_channels if unet is not None else 16
    tokens = unet.text_tokens if unet is not None else text_tokens(model)
    text = text_encoder_work(model.towers, tokens=tokens, batch=images, precision=sixteen)
    frames = clip_frames(model, case.frames)
    decoder = vae_decoder_work(resolution=side, batch=case.batch, precision=sixteen, latent_channels=channels)
    if frames:
        notes = (*notes, f"a sample is a clip of {frames:.0f} frames, decoded one after another")
    stages = [
        Stage(name="denoiser", work=denoiser, times=float(calls)),
        Stage(name="image decoder", work=decoder, times=max(frames, 1.0)),
    ]
    if text:
        stages.append(Stage(name="text encoder", work=text))
    if guided:
        notes = (*notes, "classifier-free guidance: the denoiser sees every image twice")
    return Stages(stages=tuple(stages), notes=notes)


def _counted_denoiser(model: Model, *, side: float, images: float, precision: Precision) -> Work:
    """
    One step of a denoiser known only by its FLOP at one size, scaled to images of `side` pixels, `images` of them at
    once. Activation values that are not published are taken from the FLOP; refuses a model without a known FLOP.
    """
    known = model.network
    if known is None:
        raise Unmeasured(f"model {model.id}: neither its denoiser's shape nor its FLOP are known")
    ratio = scaled_to(total=1.0, input_px=known.input_px or side, resolution=side)
    values = known.activation_values or known.flop * 1.5e-3
    size = model.extra_parameters if model.extra_parameters > 0 else parameters(model).value
    return network_work(
        flop=known.flop * ratio,
        activation_values=values * ratio,
        parameters=size,
        kernels=300,
        batch=images,
        precision=precision.weights,
    )


def _speech(model: Model, case: InferCase, precision: Precision) -> Stages:
    """
    An encoder pass and decoder steps for one window of audio a sample; `seq_len` is the tokens of a window, and a
    recording is as many batches of windows as it takes.
    """
    tokens, batch = case.seq_len or _DECODED_TOKENS, case.batch
    passes = ceil(case.audio_s / WINDOW_S / batch) if case.audio_s else 1
    if not model.encoder or not model.layers:
        raise BadRequest(f"model {model.id}: a speech model needs an encoder and decoder layers")
    encoder = speech_encoder_work(model, windows=batch, precision=precision)
    step = decoder_step_work(model, windows=batch, context=tokens / 2.0, precision=precision, beams=case.beams)
    return Stages(
        stages=(
            Stage(name="audio encoder", work=encoder, times=passes),
            Stage(name="decoder", work=step, times=tokens * _longest(batch) * passes),
        ),
        per_sample=case.audio_s / batch if case.audio_s else WINDOW_S,
        notes=(
            f"a sample is a window of {WINDOW_S:.0f} s of audio with {tokens} tokens; the rate is in seconds of audio",
        ),
    )


def _longest(windows: int) -> float:
    """Tokens of the longest of some windows over the mean: a batch is decoded until its last window ends."""
    if windows <= 1:
        return 1.0
    from statistics import NormalDist  # ten milliseconds that `fit` need not wait for

    # The mean of the largest of n normal numbers (Blom 1958, Statistical Estimates and Transformed Beta-Variables).
    return 1.0 + _UNEVEN_WINDOWS * NormalDist().inv_cdf((windows - 0.375) / (windows + 0.25))


def _vision_stages(model: Model, case: InferCase, precision: Precision) -> Stages:
    """
    One image and a short question each: the tower, the prompt, and a step for each token of the answer, whose number
    `seq_len` is. Refuses a case without a resolution.
    """
    tower = next((t for t in model.towers if t.layers), None)
    if tower is None or case.resolution is None:
        lacks = "its vision tower's layers are not known" if tower is None else "give resolution, the image's side"
        raise BadRequest(f"model {model.id} reads images: {lacks}; for text alone ask `tonnage plan serve`")
    patches = patch_tokens(resolution=case.resolution, patch_px=tower.patch_size or 14, extra=0.0)
    shown = float(tower.tokens_per_input or patches / _MERGED)
    written, batch = case.seq_len or _ANSWER_TOKENS, case.batch
    prompt = shown + _QUESTION_TOKENS
    at = Layout(tp=case.tp)
    looked = encode_work(encoder_model(model, tower), sequences=batch, length=patches, precision=precision, layout=at)
    read = step_work(model, Tokens(prompts=batch, chunk=prompt, emitted=batch), precision=precision, layout=at)
    wrote = step_work(
        model, Tokens(decodes=batch, context=prompt + written / 2.0, emitted=batch), precision=precision, layout=at
    )
    return Stages(
        stages=(
            Stage(name="vision tower", work=looked),
            Stage(name="prompt", work=read),
            Stage(name="decoder", work=wrote, times=float(written)),
        ),
        notes=(f"a sample is an image of {shown:.0f} tokens, {_QUESTION_TOKENS} of text, {written} of answer",),
    )


def _recommender(batch: int, precision: Precision) -> Stages:
    """A user-item pair through MLPerf's DLRM-DCNv2, whichever recommender is asked for."""
    stored = number_format(precision.weights)
    rows, width, dense = _RECOMMENDER["lookups"], _RECOMMENDER["width"], _RECOMMENDER["dense_parameters"]
    moved = batch * rows * width * stored.bytes
    gather = Operator(
        kind="embedding",
        name="embedding rows",
        weights=stored.name,
        compute=stored.compute,
        read_bytes=moved,
        write_bytes=batch * 26.0 * width * element_bytes(stored.name),
    )
    side = (dense / 12.0) ** 0.5
    products = Operator(
        kind="gemm",
        name="dense layers",
        count=12.0,
        weights=stored.name,
        compute=stored.compute,
        flop=2.0 * dense * batch / 12.0,
        read_bytes=dense / 12.0 * stored.bytes + batch * side * stored.bytes,
        write_bytes=batch * side * stored.bytes,
        m=float(batch),
        n=side,
        k=side,
    )
    return Stages(
        stages=(Stage(name="recommender", work=(gather, products)),), notes=("a sample is one user-item pair",)
    )
