"""Diffusion: denoisers of both kinds, text encoders and decoders, against counted work."""

import msgspec
import pytest

from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Tower
from tonnage.domain.offline import Unet
from tonnage.domain.precision import Precision
from tonnage.physics.diffusion import (
    GROUP_NORM,
    denoiser_transformer_work,
    latent_tokens,
    text_encoder_work,
    text_tokens,
    unet_work,
    vae_decoder_work,
)
from tonnage.physics.work import Work

FP16 = Precision(weights="fp16", kv="fp16", activations="fp16")


def flop(work: Work) -> float:
    return sum(op.flop * op.count for op in work)


def test_a_convolution_reads_its_input_once() -> None:
    work = vae_decoder_work(resolution=64, batch=1, precision=FP16)
    for op in work:
        if op.kind == "convolution":
            assert op.read_bytes == pytest.approx(2 * (op.n * op.k + op.m * op.k / 9))


def test_every_layer_of_a_small_net() -> None:
    """
    Two images of 8 x 8 latent pixels: 128 pixels of 64 channels at the top and 32 of 128 channels below, where one
    transformer layer stands beside each residual block. One block a level down, one in the middle's sides, two up.
    """
    unet = Unet(
        family="test",
        block_out_channels=(64, 128),
        transformer_layers_per_block=(0, 1),
        cross_attention_dim=20,
        layers_per_block=1,
        text_tokens=7,
    )
    work = unet_work(unet, resolution=64, batch=2, precision=FP16)

    def shapes(name: str) -> dict[tuple[float, float, float], float]:
        return {(op.m, op.n, op.k): op.count for op in work if op.name == name}

    assert shapes("convolution input") == {(128, 64, 36): 1}
    assert shapes("convolution output") == {(128, 4, 576): 1}
    assert shapes("convolution downsample") == {(32, 64, 576): 1}
    assert shapes("convolution upsample") == {(128, 128, 1152): 1}
    # Down 64 -> 64 and 64 -> 128, twice 128 in the middle, then the outputs of the down path are joined from the last:
    # 128 + 128 and 128 + 64 below; 128 + 64 and 64 + 64 at the top.
    assert shapes("convolution residual convolution") == {
        (128, 64, 576): 2 + 2,
        (32, 128, 576): 1,
        (32, 128, 1152): 1 + 4 + 2,
        (32, 128, 2304): 1,
        (32, 128, 1728): 1,
        (128, 64, 1728): 1,
        (128, 64, 1152): 1,
    }
    assert shapes("shortcut") == {
        (32, 128, 64): 1,
        (32, 128, 256): 1,
        (32, 128, 192): 1,
        (128, 64, 192): 1,
        (128, 64, 128): 1,
    }
    # Four transformer layers: one down, one in the middle, two up.
    assert shapes("projection in") == {(32, 128, 128): 4}
    assert shapes("query, key, value") == {(32, 384, 128): 4}
    assert shapes("cross key/value") == {(14, 256, 20): 4}
    assert shapes("gated up") == {(32, 1024, 128): 4}
    assert shapes("down") == {(32, 128, 512): 4}
    for name in ("attention output", "cross query", "cross output", "projection out"):
        assert shapes(name) == {(32, 128, 128): 4}
    # 16 pixels of each image see one another and 7 words, in two heads of 64.
    found = {
        op.context: (
            op.count,
            op.flop,
            op.read_bytes,
            op.write_bytes,
            op.m,
            op.n,
            op.batch,
            op.heads,
            op.kv_heads,
            op.head_dim,
        )
        for op in work
        if op.name == "attention"
    }
    assert found == {
        16: (4, 4 * 128 * 16 * 16 * 2, 2 * 2 * 128 * (16 + 32), 2 * 2 * 128 * 16, 32, 16, 2, 2, 2, 64),
        7: (4, 4 * 128 * 16 * 7 * 2, 2 * 2 * 128 * (16 + 14), 2 * 2 * 128 * 16, 32, 7, 2, 2, 2, 64),
    }
    passes = {(op.name, op.read_bytes, op.write_bytes): op.count for op in work if op.kind == "elementwise"}
    values = 2 * 32 * 128  # bytes of the lower level's values
    before, after = f"{GROUP_NORM} and activation", f"{GROUP_NORM} with activation and residual"
    assert passes == {
        # 128 pixels of 64 channels are as many values as 32 of 256: one operator, twice.
        (before, 4 * 128 * 64, 4 * 128 * 64): 1 + 1,
        (before, 4 * 32 * 64, 4 * 32 * 64): 1,
        (before, 4 * 32 * 128, 4 * 32 * 128): 2,
        (before, 4 * 32 * 192, 4 * 32 * 192): 1,
        (before, 4 * 128 * 192, 4 * 128 * 192): 1,
        (before, 4 * 128 * 128, 4 * 128 * 128): 1,
        (after, 4 * 128 * 64, 4 * 128 * 64): 3,
        (after, 4 * 32 * 128, 4 * 32 * 128): 5,
        (GROUP_NORM, 2 * values, values): 4,
        ("norm and residual", 2 * values, 2 * values): 12,
        ("gate", 8 * values, 4 * values): 4,
    }


def test_the_middle_has_a_transformer_layer_even_where_its_level_has_none() -> None:
    unet = Unet(family="test", block_out_channels=(32,), transformer_layers_per_block=(0,), cross_attention_dim=20)
    work = unet_work(unet, resolution=64, batch=1, precision=FP16)
    assert sum(op.count for op in work if op.name == "projection in") == 1
    own = next(op for op in work if op.name == "attention" and op.context == 64)
    assert (own.heads, own.head_dim) == (1, 32)  # no whole head of 64: one head of the width
    double = unet_work(msgspec.structs.replace(unet, control=True), resolution=64, batch=1, precision=FP16)
    assert sum(op.count for op in double if op.name == "projection in") == 2
    assert sum(op.count for op in double if op.name == "convolution input") == 2
    assert sum(op.count for op in double if op.name == "convolution output") == 1


def test_every_layer_of_the_decoder() -> None:
    """One latent image of 8 x 8 pixels: 64, 256, 1024 and 4096 pixels of 512, 512, 256 and 128 channels."""
    work = vae_decoder_work(resolution=64, batch=1, precision=FP16)

    def shapes(name: str) -> dict[tuple[float, float, float], float]:
        return {(op.m, op.n, op.k): op.count for op in work if op.name == name}

    assert shapes("convolution input") == {(64, 512, 36): 1}
    assert shapes("convolution output") == {(4096, 3, 1152): 1}
    assert shapes("convolution upsample") == {(256, 512, 4608): 1, (1024, 512, 4608): 1, (4096, 256, 2304): 1}
    assert shapes("convolution residual convolution") == {
        (64, 512, 4608): 2 * (2 + 3),
        (256, 512, 4608): 2 * 3,
        (1024, 256, 4608): 1,
        (1024, 256, 2304): 5,
        (4096, 128, 2304): 1,
        (4096, 128, 1152): 5,
    }
    assert shapes("shortcut") == {(1024, 256, 512): 1, (4096, 128, 256): 1}
    core = next(op for op in work if op.name == "attention")
    assert (core.flop, core.batch, core.heads, core.head_dim) == (4 * 512 * 64 * 64, 1, 1, 512)
    pair = vae_decoder_work(resolution=64, batch=2, precision=FP16)
    both = next(op for op in pair if op.name == "attention")
    assert (both.flop, both.m, both.context) == (2 * core.flop, 128, 64)


LOOK = Attention(num_attention_heads=4, num_key_value_heads=4, head_dim=64, causal=False)
BLOCK = LayerGroup(count=2, mixer=LOOK, feed_forward=Mlp(intermediate_size=1024, gated=False), norms=0)
WEIGHTS = 4 * 256 * 256 + 2 * 256 * 1024


def diffuser(**changes: object) -> Model:
    group = msgspec.structs.replace(BLOCK, **changes)
    return Model(id="test", family="test", kind="diffusion", hidden_size=256, layers=(group,), max_context=64)


def call(model: Model, batch: float = 1) -> Work:
    return denoiser_transformer_work(model, resolution=256, batch=batch, precision=FP16)


def test_one_stream_sees_image_and_text() -> None:
    tokens = 256 + 64
    assert flop(call(diffuser())) == pytest.approx(2 * (2 * WEIGHTS * tokens + 4 * 256 * tokens**2))


def test_each_of_two_streams_sees_its_own_tokens() -> None:
    two = diffuser(extra_parameters=float(WEIGHTS))
    assert flop(call(two)) == pytest.approx(flop(call(diffuser())))
    assert {op.m for op in call(two) if op.name == "down"} == {256, 64}


def test_modulation_reads_its_weights_for_one_row_per_image() -> None:
    modulated = diffuser(extra_parameters=float(3 * 256**2))
    (op,) = (op for op in call(modulated, batch=4) if op.name == "modulation")
    assert (op.m, op.n * op.k) == (4, 3 * 256**2)


def test_cross_attention_keeps_the_text_out_of_the_stream() -> None:
    crossed = diffuser(cross_attention=LOOK)
    assert {op.m for op in call(crossed) if op.name == "down"} == {256}
    assert any(op.name == "cross key/value" and op.m == 64 for op in call(crossed))


def test_a_clip_has_the_tokens_of_its_frames() -> None:
    assert latent_tokens(resolution=480, frames=81) == pytest.approx(32760)


def test_only_text_towers_encode_the_prompt() -> None:
    towers = (Tower(name="text encoder", parameters=1e6), Tower(name="VAE", parameters=5e6))
    (op,) = text_encoder_work(towers, tokens=77, batch=2, precision=FP16)
    assert op.flop == 2 * 1e6 * 77 * 2


def test_text_tokens_default_to_clip() -> None:
    assert text_tokens(Model(id="m", family="m", kind="diffusion")) == 77
