"""
What do encoders of images and of speech compute? An image to a language model; a window of audio, decoded by token.

Each model has its own rule for an image's size: keep it, in squares of merged patches, between a least and a most
number of pixels (Qwen-VL, Pixtral, Kimi); scale it to one square (Gemma 3, LLaVA); or cut it into tiles of one size
beside a small copy of the whole (InternVL, Llama 4). `image_of` applies the rule, `encoder_work` lists the operators:
the tower's layers on all patches of a tile, and its patch embedding and projector on the tokens.

The rules are those of the published processors (Hugging Face transformers: `smart_resize` of Qwen2-VL,
`get_best_fit` of Llama 4; `find_closest_aspect_ratio` of InternVL), which the tests hold to their own examples. Left
out: video, pan-and-scan of Gemma 3, separators between tiles.

Whisper cuts audio into windows of 30 s: 3,000 mel frames, halved by a convolution of stride 2 to 1,500 encoder
tokens, whatever is said. The decoder writes up to 448 tokens, each over what it wrote before and over the 1,500.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
from msgspec.structs import replace

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, Model, Tower
from tonnage.domain.precision import Precision
from tonnage.domain.requests.groups import Images, pixels_of
from tonnage.errors import BadRequest
from tonnage.physics.mixers import cross_attention_work
from tonnage.physics.shares import Tokens, gemm, share
from tonnage.physics.transformer import encode_work, step_work
from tonnage.physics.work import Operator, Work

_SIXTEEN = 2.0


def encoder_of(model: Model) -> Tower:
    """
    The vision encoder.

    Raises
    ------
    BadRequest
        The model has none whose layers are known.
    """
    tower = next((one for one in model.towers if one.layers), None)
    if tower is None:
        known = any("vision" in one.name for one in model.towers)
        what = "its vision encoder is known by its size alone" if known else "it has no vision encoder that is known"
        raise BadRequest(f"images: {model.id}: {what}; leave images out, or name a model such as Qwen2.5-VL-7B")
    return tower


def image_of(tower: Tower, *, width: float, height: float, per_request: float = 1.0) -> Images:
    """Tiles, patches and tokens of an image of so many pixels, by the model's own rule."""
    patch, merge = tower.patch_size or 14, tower.merge
    if tower.tile_px is None:
        if tower.tokens_per_input is not None:
            tokens = float(tower.tokens_per_input)
            return Images(per_request=per_request, tiles=1.0, patches=tokens * merge**2, tokens=tokens)
        high, wide = _own_size(width, height, unit=patch * merge, tower=tower)
        patches = high * wide / patch**2
        return Images(per_request=per_request, tiles=1.0, patches=patches, tokens=patches / merge**2)
    patches = float((tower.tile_px // patch) ** 2)
    each = float(tower.tokens_per_input or patches / merge**2)
    cut = _grid(width, height, tower)
    # A small copy of the whole comes with an image that was cut.
    tiles = float(cut + 1 if cut > 1 else 1)
    return Images(per_request=per_request, tiles=tiles, patches=patches, tokens=each * tiles)


def known_images(model: Model, images: Images, *, isl: float) -> Images:
    """
    Images of a case as the model cuts them up, by their size or as stated.

    Raises
    ------
    BadRequest
        The model sees no images, nothing or two things say how large they are, or the prompt has no room for them.
    """
    tower = encoder_of(model)
    if images.size is not None:
        if images.patches or images.tokens:
            raise BadRequest("images.size and patches or tokens contradict: these follow from the size; leave out one")
        width, height = pixels_of(images.size)
        cut = image_of(tower, width=width, height=height, per_request=images.per_request)
        images = replace(cut, hits=images.hits, distinct=images.distinct)
    if not (images.patches and images.tokens):
        raise BadRequest("images: how large are they? give size ('1024x768'), or patches and tokens of an image")
    if images.prompt_tokens > isl:
        raise BadRequest(
            f"isl {isl:,.0f} is less than the {images.prompt_tokens:,.0f} tokens of its images; give a prompt that"
            " holds them, and the text beside them"
        )
    return images


def _own_size(width: float, height: float, *, unit: int, tower: Tower) -> tuple[float, float]:
    """Sides in whole units, within the bounds of pixels."""
    high, wide = (max(1, round(side / unit)) * unit for side in (height, width))
    if tower.most_px is not None and high * wide > tower.most_px:
        shrink = math.sqrt(height * width / tower.most_px)
        high, wide = (max(1, math.floor(side / shrink / unit)) * unit for side in (height, width))
    elif high * wide < tower.least_px:
        grow = math.sqrt(tower.least_px / (height * width))
        high, wide = (math.ceil(side * grow / unit) * unit for side in (height, width))
    return float(high), float(wide)


def _grid(width: float, height: float, tower: Tower) -> int:
    """
    Tiles that an image is cut into, of the grids with at most the model's number of tiles.

    On a canvas the grid that enlarges the image least, or shrinks it least; else the one nearest to its shape.
    """
    most, side = tower.max_tiles, float(tower.tile_px or 0)
    grids = sorted(((c, r) for c in range(1, most + 1) for r in range(1, most // c + 1)), key=lambda g: g[0] * g[1])
    if tower.tiling == "canvas":
        scales = {g: min(g[0] * side / width, g[1] * side / height) for g in grids}
        larger = [g for g in grids if scales[g] >= 1.0]
        chosen = min(larger, key=lambda g: scales[g]) if larger else max(grids, key=lambda g: scales[g])
        return chosen[0] * chosen[1]
    best, nearest = (1, 1), math.inf
    for columns, rows in grids:
        far = abs(width / height - columns / rows)
        # Of grids alike in shape the larger is taken where the image has more than half of its pixels.
        if far < nearest or (far == nearest and width * height > 0.5 * side**2 * columns * rows):
            best, nearest = (columns, rows), far
    return best[0] * best[1]


def encoder_model(model: Model, tower: Tower) -> Model:
    """The tower as a model of its own, for work lists of whole passes."""
    return replace(
        model,
        kind="vision",
        hidden_size=tower.hidden_size or model.hidden_size,
        layers=tower.layers,
        towers=(),
        vocab_size=0,
        has_head=False,
        encoder=(),
    )


def encoder_work(model: Model, images: Images, *, count: float, precision: Precision, layout: Layout) -> Work:
    """One pass of the encoder over `count` images, patch embedding and projector included."""
    tower = encoder_of(model)
    tiles = count * images.tiles
    layers = encode_work(
        encoder_model(model, tower), sequences=tiles, length=images.patches, precision=precision, layout=layout
    )
    inside = sum(op.k * op.n * op.count for op in layers if op.kind == "gemm") * layout.tp
    rest = max(0.0, tower.parameters - inside)
    rows, width = count * images.tokens, float(model.hidden_size * tower.outputs)
    project = Operator(
        kind="gemm",
        name="patch embedding and projector",
        weights=precision.weights,
        compute=precision.activations,
        flop=2.0 * rows * rest / layout.tp,
        read_bytes=_SIXTEEN * rest / layout.tp,
        write_bytes=_SIXTEEN * rows * width,
        m=rows,
        n=width / layout.tp,
        k=rest / width,
    )
    return (*layers, project) if rest else layers


def token_bytes(model: Model) -> float:
    """The encoding of one token, 16 bits: what is kept and moved. [bytes]"""
    return _SIXTEEN * model.hidden_size * encoder_of(model).outputs


WINDOW_S: Final = 30.0
"""Audio of one window. [s]"""
WINDOW_TOKENS: Final = 1500
"""Encoder tokens of one window. [tokens]"""
_FRAMES: Final = 3000
_KERNEL: Final = 3
_MEL_BINS: Final = 128


def speech_encoder_work(model: Model, *, windows: float, precision: Precision) -> Work:
    """Both convolutions, the encoder's layers, and the keys and values that all decoder steps read."""
    at = share(hidden=model.hidden_size, layout=Layout(), precision=precision, encoder=True)
    rows = windows * WINDOW_TOKENS
    stem = (
        gemm("mel convolution", at, m=windows * _FRAMES, n=at.hidden, k=_KERNEL * _MEL_BINS),
        gemm("strided convolution", at, m=rows, n=at.hidden, k=_KERNEL * at.hidden),
    )
    encoder = msgspec.structs.replace(model, layers=model.encoder, encoder=(), vocab_size=0)
    body = encode_work(encoder, sequences=windows, length=WINDOW_TOKENS, precision=precision, layout=Layout())
    memory = [
        gemm(
            "cross key/value", at, m=rows, n=2.0 * look.num_key_value_heads * look.head_dim, k=at.hidden,
            count=float(group.count),
        )
        for group in model.layers
        if (look := group.cross_attention) is not None
    ]  # fmt: skip
    return (*stem, *(op for op in body if op.kind != "embedding"), *memory)


def decoder_step_work(
    model: Model, *, windows: float, context: float, precision: Precision, beams: float = 1.0
) -> Work:
    """
    One decoder step over `windows` sequences that hold `context` tokens each, and their windows.

    Every beam is a sequence of its own; the beams of a window read its keys and values once (CTranslate2 packs them).
    """
    alone = msgspec.structs.replace(
        model, encoder=(), layers=tuple(msgspec.structs.replace(group, cross_attention=None) for group in model.layers)
    )
    tokens = Tokens(decodes=windows, context=context, emitted=windows)
    written = msgspec.structs.replace(tokens, decodes=windows * beams, emitted=windows * beams)
    own = step_work(alone, written, precision=precision, layout=Layout())
    at = share(hidden=model.hidden_size, layout=Layout(), precision=precision)
    looks = [(group.cross_attention, group.count) for group in model.layers]
    crossed: list[Operator] = []
    for look, count in looks:
        if isinstance(look, Attention):
            crossed += cross_attention_work(look, at, tokens=tokens, source=float(WINDOW_TOKENS), count=float(count))
    return (*own, *crossed)
