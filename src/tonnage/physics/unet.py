"""
What does one call of a denoising U-Net compute, and what a VAE decoder? Their layers -> operators.

A U-Net halves the latent image level by level and doubles it again. Each level has residual blocks (two 3x3
convolutions) and, where the shape says so, transformer layers over the level's pixels with cross-attention to the text.
The layers are those of diffusers' UNet2DConditionModel and AutoencoderKL decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tonnage.domain.layout import Layout
from tonnage.domain.offline import Unet
from tonnage.domain.precision import Precision, number_format
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
    """One call of the denoiser on `batch` latent images (two for each image under guidance)."""
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
    """The decoder of a latent autoencoder: from the latent image to the image."""
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
