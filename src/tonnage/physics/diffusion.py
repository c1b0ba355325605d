"""
What does an image cost to generate? Denoiser calls, text encoders once, decoder once.

A step calls the denoiser once, or on twice the images under classifier-free guidance; distilled models fold guidance
into an input. U-Nets are in `unet.py`; here are diffusion transformers over latent patches. A layer of two streams
(MMDiT) has weights for image tokens and others for text tokens, and attends over both; a layer of one stream sees all
tokens; a layer with cross-attention reads the text apart. Modulation (adaLN) multiplies one row per image: its weights
are read, its FLOP vanish.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Network, Tower
from tonnage.domain.precision import Precision, number_format
from tonnage.physics.parameters import feed_forward_parameters, mixer_parameters
from tonnage.physics.shares import Share, elementwise_pass, gemm, share, whole_attention
from tonnage.physics.work import Operator, Work

_CLIP_FRAMES: Final = 81
"""Of a clip whose model does not say how many (Wan 2.1)."""
_VIDEO_ASPECT: Final = 832 / 480
_TEXT_TOKENS: Final = 77
"""Tokens of CLIP's context."""


def latent_tokens(
    *, resolution: float, latent_px: float = 16, frames: float = 0, frame_stride: float = 4, aspect: float = 832 / 480
) -> float:
    """
    Tokens that a diffusion transformer makes of an image or a clip.

    n = (side / p)^2; a clip has 1 + (frames - 1) / stride latent frames of its aspect.

    Parameters
    ----------
    resolution : number
        Side of the square image; height of a clip. [px]
    latent_px : number, optional
        p, pixels per token along a side: factor of the autoencoder times the patch. [px]
    frames : number, optional
        Of a clip; 0 = an image. [-]
    frame_stride : number, optional
        Frames of the clip per latent frame, after the first. [-]
    aspect : number, optional
        Width over height of a clip. [-]

    Returns
    -------
    number
        Latent tokens. [tokens]

    Valid
    -----
    Autoencoders of factor 8 with patches of 2 x 2 (FLUX, SD3, Wan, CogVideoX, HunyuanVideo); others by `latent_px`.

    Source
    ------
    docs/physics.md 7; Wan 2.1 (arXiv 2503.20314).

    Examples
    --------
    >>> latent_tokens(resolution=1024), latent_tokens(resolution=480, frames=81)
    (4096.0, 32760.0)
    """
    frame = (resolution / latent_px) ** 2
    return frame * aspect * (1 + (frames - 1) / frame_stride) if frames else frame


def clip_frames(model: Model, frames: int | None = None) -> float:
    """Frames of a clip: those asked for, else the model's own; 0 for a model of images."""
    if not model.kind.startswith("video"):
        return 0.0
    known = model.network
    return float(frames or (known.frames if known is not None else None) or _CLIP_FRAMES)


def text_tokens(model: Model) -> float:
    """Text tokens a diffusion model attends to: its own context, else CLIP's."""
    return float(model.max_context or _TEXT_TOKENS)


def denoiser_transformer_work(
    model: Model, *, resolution: float, batch: float, precision: Precision, frames: int | None = None
) -> Work:
    """One call of a diffusion transformer on `batch` latent images, or clips of so many frames."""
    at = share(hidden=model.hidden_size, layout=Layout(), precision=precision, encoder=True)
    known = model.network or Network(flop=0.0)
    image = latent_tokens(
        resolution=resolution,
        latent_px=known.latent_px,
        frames=clip_frames(model, frames),
        frame_stride=known.frame_stride,
        aspect=known.aspect or _VIDEO_ASPECT,
    )
    text = text_tokens(model)
    work: list[Operator] = []
    for group in model.layers:
        if isinstance(group.mixer, Attention) and isinstance(group.feed_forward, Mlp):
            work += _block(group, group.mixer, at, image=image, text=text, batch=batch)
    return tuple(work)


def text_encoder_work(towers: tuple[Tower, ...], *, tokens: float, batch: float, precision: Precision) -> Work:
    """Every text encoder once over the prompt, from its parameters (embeddings are a few per cent)."""
    stored = number_format(precision.weights)
    return tuple(
        Operator(
            kind="gemm",
            name=tower.name,
            weights=stored.name,
            compute=stored.compute,
            flop=2.0 * tower.parameters * tokens * batch,
            read_bytes=tower.parameters * stored.bytes,
            m=tokens * batch,
            n=tower.parameters**0.5,
            k=tower.parameters**0.5,
        )
        for tower in towers
        if "text" in tower.name
    )


def _streams(group: LayerGroup, hidden: int) -> int:
    """Two when the layer's other parameters hold a second set of its weights."""
    own = mixer_parameters(group.mixer, hidden) + feed_forward_parameters(group.feed_forward, hidden)
    return 2 if group.extra_parameters >= 0.9 * own else 1


def _block(group: LayerGroup, look: Attention, at: Share, *, image: float, text: float, batch: float) -> Work:
    count, streams = float(group.count), _streams(group, at.hidden)
    crossed = group.cross_attention is not None
    both = image if crossed else image + text
    rows = (image, text) if streams == 2 else (both,)
    width = float(look.num_attention_heads * look.head_dim)
    work: list[Operator] = []

    def attention(queries: float, keys: float) -> Operator:
        heads, wide = look.num_attention_heads, look.head_dim
        return whole_attention(at, queries=queries, keys=keys, batch=batch, heads=heads, head_dim=wide, count=count)

    for tokens in rows:
        work += _stream(group, look, at, rows=tokens * batch, count=count)
    work.append(attention(both, both))
    if group.cross_attention is not None:
        work += [
            _linear("cross query and output", at, image * batch, width, at.hidden, 2.0 * count),
            _linear("cross key/value", at, text * batch, 2.0 * width, at.hidden, count),
            attention(image, text),
        ]
    own = mixer_parameters(group.mixer, at.hidden) + feed_forward_parameters(group.feed_forward, at.hidden)
    modulation = group.extra_parameters - (streams - 1) * own
    if modulation > at.hidden**2:
        work.append(_linear("modulation", at, batch, modulation / at.hidden, at.hidden, count))
    return tuple(work)


def _stream(group: LayerGroup, look: Attention, at: Share, *, rows: float, count: float) -> Work:
    """One set of weights over its own tokens: projections, feed-forward, and two modulated norms."""
    width = float(look.num_attention_heads * look.head_dim)
    feed = group.feed_forward
    inner = float(feed.intermediate_size) if isinstance(feed, Mlp) else 0.0
    gated = isinstance(feed, Mlp) and feed.gated
    touched = rows * at.hidden
    return (
        elementwise_pass("norm, modulation and residual", at, read=2 * touched, count=2 * count),
        _linear("query, key, value", at, rows, 3.0 * width, at.hidden, count),
        elementwise_pass("query and key norm, rotary", at, read=2 * rows * width, count=count),
        _linear("attention output", at, rows, at.hidden, width, count),
        _linear("up", at, rows, inner * (2.0 if gated else 1.0), at.hidden, count),
        elementwise_pass(
            "activation", at, read=rows * inner * (2.0 if gated else 1.0), write=rows * inner, count=count
        ),
        _linear("down", at, rows, at.hidden, inner, count),
    )


def _linear(name: str, at: Share, rows: float, outputs: float, inputs: float, count: float) -> Operator:
    return gemm(name, at, m=rows, n=outputs, k=inputs, count=count)
