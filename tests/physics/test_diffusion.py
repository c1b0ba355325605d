"""Streams, modulation and cross-attention of diffusion transformers."""

import msgspec
import pytest

from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Tower
from tonnage.domain.precision import Precision
from tonnage.physics.diffusion import denoiser_transformer_work, latent_tokens, text_encoder_work, text_tokens
from tonnage.physics.work import Work

FP16 = Precision(weights="fp16", kv="fp16", activations="fp16")
LOOK = Attention(num_attention_heads=4, num_key_value_heads=4, head_dim=64, causal=False)
BLOCK = LayerGroup(count=2, mixer=LOOK, feed_forward=Mlp(intermediate_size=1024, gated=False), norms=0)
WEIGHTS = 4 * 256 * 256 + 2 * 256 * 1024


def diffuser(**changes: object) -> Model:
    group = msgspec.structs.replace(BLOCK, **changes)
    return Model(id="test", family="test", kind="diffusion", hidden_size=256, layers=(group,), max_context=64)


def flop(work: Work) -> float:
    return sum(op.flop * op.count for op in work)


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
