"""
What does an image cost to generate? The layers of a U-Net and a VAE; denoiser calls, text encoders and decoder once.

A U-Net halves the latent image level by level and doubles it again. Each level has residual blocks (two 3x3
convolutions) and, where the shape says so, transformer layers over the level's pixels with cross-attention to the text.
The layers are those of diffusers' UNet2DConditionModel and AutoencoderKL decoder.

A step calls the denoiser once, or on twice the images under classifier-free guidance; distilled models fold guidance
into an input. Diffusion transformers work on latent patches. A layer of two streams
(MMDiT) has weights for image tokens and others for text tokens, and attends over both; a layer of one stream sees all
tokens; a layer with cross-attention reads the text apart. Modulation (adaLN) multiplies one row per image: its weights
are read, its FLOP vanish.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Network, Tower
from tonnage.domain.offline import Unet
from tonnage.domain.precision import Precision, number_format
from tonnage.physics.parameters import feed_forward_parameters, mixer_parameters
from tonnage.physics.shares import Share, elementwise_pass, gemm, share, whole_attention
from tonnage.physics.work import Operator, Work

GROUP_NORM: Final = "group norm"
"""How names of passes begin that need every pixel of a group before they can write one."""
_SCALE: Final = 8
"""Pixels of the image per pixel of the latent image, along a side."""
_VAE_CHANNELS: Final = (512, 512, 256, 128)
"""Widths of the decoder of AutoencoderKL, from the latent image to the image."""
_VAE_BLOCKS: Final = 3


def unet_work(unet: Unet, *, resolution: float, batch: float, precision: Precision) -> Work:
    """
    One call of the denoiser on `batch` latent images (two for each image under guidance).

    A control network is a second copy of the way down and the middle.
    """
    at = share(hidden=unet.block_out_channels[0], layout=Layout(), precision=precision, encoder=True)
    pixels = batch * (resolution / _SCALE) ** 2
    work = [*_down(unet, at, pixels, batch), *_middle(unet, at, pixels, batch)]
    if unet.control:
        work *= 2
    work += _up(unet, at, pixels, batch)
    first = unet.block_out_channels[0]
    work.append(_convolution("output", at, pixels, first, unet.latent_channels))
    return _merge_operators(work)


def vae_decoder_work(*, resolution: float, batch: float, precision: Precision, latent_channels: int = 4) -> Work:
    """The decoder of a latent autoencoder on `batch` latent images of factor 8, up to images of `resolution` pixels."""
    at = share(hidden=_VAE_CHANNELS[0], layout=Layout(), precision=precision, encoder=True)
    pixels, width = batch * (resolution / _SCALE) ** 2, _VAE_CHANNELS[0]
    work = [_convolution("input", at, pixels, latent_channels, width)]
    work += [*_residual(at, pixels, width, width), *_residual(at, pixels, width, width)]
    work += _self_attention(at, pixels / batch, batch, width, width)
    for level, wide in enumerate(_VAE_CHANNELS):
        for _ in range(_VAE_BLOCKS):
            work += _residual(at, pixels, width, wide)
            width = wide
        if level < len(_VAE_CHANNELS) - 1:
            pixels *= 4
            work.append(_convolution("upsample", at, pixels, width, width))
    return _merge_operators([*work, _convolution("output", at, pixels, width, 3)])


def _down(unet: Unet, at: Share, pixels: float, batch: float) -> Iterator[Operator]:
    """The way down: every level's blocks on a quarter of the pixels of the level before (`pixels`, of the batch)."""
    width = unet.block_out_channels[0]
    yield _convolution("input", at, pixels, unet.latent_channels, width)
    for level, wide in enumerate(unet.block_out_channels):
        for _ in range(unet.layers_per_block):
            yield from _residual(at, pixels, width, wide)
            yield from _transformer(unet, at, pixels, batch, level)
            width = wide
        if level < len(unet.block_out_channels) - 1:
            pixels /= 4
            yield _convolution("downsample", at, pixels, width, width)


def _middle(unet: Unet, at: Share, pixels: float, batch: float) -> Iterator[Operator]:
    last = len(unet.block_out_channels) - 1
    width, pixels = unet.block_out_channels[last], pixels / 4**last
    yield from _residual(at, pixels, width, width)
    depth = max(unet.transformer_layers_per_block[last], 1)
    yield from _transformer(unet, at, pixels, batch, last, depth)
    yield from _residual(at, pixels, width, width)


def _up(unet: Unet, at: Share, pixels: float, batch: float) -> Iterator[Operator]:
    """The way up: one block a level more than down, each joined with an output of the way down."""
    channels = unet.block_out_channels
    last = len(channels) - 1
    skips = _skips(unet)
    width, pixels = channels[last], pixels / 4**last
    for level in range(last, -1, -1):
        for _ in range(unet.layers_per_block + 1):
            yield from _residual(at, pixels, width + skips.pop(), channels[level])
            yield from _transformer(unet, at, pixels, batch, level)
            width = channels[level]
        if level:
            pixels *= 4
            yield _convolution("upsample", at, pixels, width, width)


def _skips(unet: Unet) -> list[int]:
    """Widths of the down path's outputs that the up path joins, in the order they were made."""
    widths = [unet.block_out_channels[0]]
    for level, wide in enumerate(unet.block_out_channels):
        widths += [wide] * unet.layers_per_block
        if level < len(unet.block_out_channels) - 1:
            widths.append(wide)
    return widths


def _residual(at: Share, pixels: float, inputs: float, outputs: float) -> Iterator[Operator]:
    for name, width in (("and activation", inputs), ("with activation and residual", outputs)):
        yield elementwise_pass(f"{GROUP_NORM} {name}", at, read=2 * pixels * width)
    yield _convolution("residual convolution", at, pixels, inputs, outputs)
    yield _convolution("residual convolution", at, pixels, outputs, outputs)
    if inputs != outputs:
        yield _product("shortcut", at, pixels, outputs, inputs)


def _transformer(
    unet: Unet, at: Share, pixels: float, batch: float, level: int, depth: int | None = None
) -> Iterator[Operator]:
    """Transformer layers over a level's pixels, `depth` of them or the level's own number, which may be none."""
    layers = unet.transformer_layers_per_block[level] if depth is None else depth
    if not layers:
        return
    width = float(unet.block_out_channels[level])
    tokens = pixels / batch
    yield elementwise_pass(GROUP_NORM, at, read=2 * pixels * width, write=pixels * width)
    yield _product("projection in", at, pixels, width, width)
    for _ in range(layers):
        yield elementwise_pass("norm and residual", at, read=2 * pixels * width, count=3.0)
        yield from _self_attention(at, tokens, batch, width, 64.0 if width % 64 == 0 else width)
        yield _product("cross query", at, pixels, width, width)
        yield _product("cross key/value", at, batch * unet.text_tokens, 2 * width, unet.cross_attention_dim)
        text = float(unet.text_tokens)
        yield whole_attention(at, queries=tokens, keys=text, batch=batch, heads=width / 64.0, head_dim=64.0)
        yield _product("cross output", at, pixels, width, width)
        yield _product("gated up", at, pixels, 8 * width, width)
        yield elementwise_pass("gate", at, read=8 * pixels * width, write=4 * pixels * width)
        yield _product("down", at, pixels, width, 4 * width)
    yield _product("projection out", at, pixels, width, width)


def _self_attention(at: Share, tokens: float, batch: float, width: float, head: float) -> Iterator[Operator]:
    rows = tokens * batch
    yield _product("query, key, value", at, rows, 3 * width, width)
    yield whole_attention(at, queries=tokens, keys=tokens, batch=batch, heads=width / head, head_dim=head)
    yield _product("attention output", at, rows, width, width)


def _product(name: str, at: Share, rows: float, outputs: float, inputs: float) -> Operator:
    return gemm(name, at, m=rows, n=outputs, k=inputs)


def _convolution(name: str, at: Share, pixels: float, inputs: float, outputs: float) -> Operator:
    """A 3x3 convolution: the product of its pixels, with inputs read once and not nine times."""
    whole = _product(name, at, pixels, outputs, 9.0 * inputs)
    spare = (whole.read_bytes - number_format(at.weights).bytes * whole.n * whole.k) * 8.0 / 9.0
    return msgspec.structs.replace(
        whole, kind="convolution", name=f"convolution {name}", read_bytes=whole.read_bytes - spare
    )


def _merge_operators(work: list[Operator]) -> Work:
    """Equal operators once, with their counts added."""
    counts: dict[Operator, float] = {}
    for op in work:
        one = msgspec.structs.replace(op)
        counts[one] = counts.get(one, 0.0) + op.count
    return tuple(msgspec.structs.replace(op, count=count) for op, count in counts.items())


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
    """
    One call of a diffusion transformer on `batch` latent images, or clips of so many frames.

    Layers that have no attention or no dense feed-forward are left out.
    """
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
    """
    Every text encoder once over the prompt, from its parameters (embeddings are a few per cent).

    Text encoders are the towers that have "text" in their name.
    """
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
    """All layers of a group on so many tokens of an image and of its text, for every image of the batch."""
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
