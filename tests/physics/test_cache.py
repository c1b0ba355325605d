"""The cache of a sequence: growing, windowed, latent and recurrent layers."""

import pytest

from tonnage import catalog
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LayerGroup, Model, StateSpace
from tonnage.physics.memory import (
    cache_bytes_per_sequence,
    cross_cache_bytes_per_sequence,
    kv_bytes_per_token,
    latent_cache_bytes_per_token,
    state_bytes_per_sequence,
)


def windowed(window: int | None) -> LayerGroup:
    mixer = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128, window=window)
    return LayerGroup(count=8, mixer=mixer)


def model(*groups: LayerGroup) -> Model:
    return Model(id="x", family="x", kind="llm", hidden_size=4096, vocab_size=32000, layers=groups)


def test_a_windowed_cache_stops_growing_at_the_window() -> None:
    local = model(windowed(4096))
    at = [cache_bytes_per_sequence(local, "bf16", context=n) for n in (1024, 4096, 8192, 131072)]
    assert at[0] == at[1] / 4
    assert at[1] == at[2] == at[3]


def test_an_engine_without_window_support_keeps_everything() -> None:
    local = model(windowed(4096))
    kept = cache_bytes_per_sequence(local, "bf16", context=8192, windows=False)
    assert kept == 2 * cache_bytes_per_sequence(local, "bf16", context=8192)


def test_mixed_layers_grow_with_the_full_ones_only() -> None:
    """gpt-oss: one full layer to one of 128 tokens."""
    mixed = model(windowed(128), windowed(None))
    long, longer = (cache_bytes_per_sequence(mixed, "bf16", context=n) for n in (10_000, 20_000))
    assert longer - long == 10_000 * 8 * 2 * 8 * 128 * 2


def test_layers_that_share_a_cache_keep_none() -> None:
    shared = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128, kv_shared=True)
    assert kv_bytes_per_token(model(LayerGroup(count=8, mixer=shared)), "bf16").value == 0


def test_formats_and_their_scales() -> None:
    full = model(windowed(None))
    wide = kv_bytes_per_token(full, "bf16").value
    assert kv_bytes_per_token(full, "fp8").value == wide / 2
    # 16-bit scale and zero point per token and head, for keys and values
    assert kv_bytes_per_token(full, "int8").value == wide / 2 + 8 * 8 * 2 * 4


def test_a_sparse_latent_cache_in_8_bits_takes_656_bytes_and_an_index_key() -> None:
    assert latent_cache_bytes_per_token(kv_lora_rank=512, rope_dim=64, element_bytes=1, index_dim=128) == 656 + 132


def test_recurrent_layers_keep_a_state_whatever_the_length() -> None:
    mixer = StateSpace(kind="mamba2", num_heads=64, head_dim=64, state_size=128, num_groups=8)
    mamba = model(LayerGroup(count=4, mixer=mixer))
    assert kv_bytes_per_token(mamba, "bf16").value == 0
    state = state_bytes_per_sequence(mamba)
    assert state == 4 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 2 * 8 * 128) * 2)
    assert cache_bytes_per_sequence(mamba, "bf16", context=10) == cache_bytes_per_sequence(mamba, "bf16", context=10**6)
    assert state_bytes_per_sequence(mamba, Layout(tp=8)) == pytest.approx(state / 8)


def test_a_decoder_keeps_its_encoder_s_keys_and_values() -> None:
    cross = Attention(num_attention_heads=20, num_key_value_heads=20, head_dim=64, causal=False)
    decoder = model(LayerGroup(count=32, mixer=windowed(None).mixer, cross_attention=cross))
    found = cross_cache_bytes_per_sequence(decoder, "fp16", source_tokens=1500)
    assert found == 32 * 2 * 20 * 64 * 2 * 1500


def test_a_stage_caches_for_its_own_layers() -> None:
    llama = catalog.model("meta-llama/Meta-Llama-3.1-70B")
    assert kv_bytes_per_token(llama, "bf16", layout=Layout(pp=4)).value == 320 * 1024 / 4


def test_published_figures_of_the_catalogue() -> None:
    """DeepSeek-V2 paper, table 1 counts; Gemma 3 keeps one full layer in six."""
    assert kv_bytes_per_token(catalog.model("deepseek-ai/DeepSeek-V3"), "bf16").value == 70272
    assert kv_bytes_per_token(catalog.model("mistralai/Mixtral-8x7B-v0.1"), "bf16").value == 128 * 1024


def test_deepseek_v4_keeps_a_window_and_folded_entries() -> None:
    """
    The count of ai-dynamo/aiconfigurator sdk/models/deepseek_v4.py at 8 bits and 128k tokens, layer by layer.

    2 layers keep a window alone, 21 fold 4 tokens and index them in 4 bits, 20 fold 128; compressors keep fp32 states.
    """
    window, entry = 128 * 512, 512
    indexed = 131_072 // 4 * (entry + 64) + 2 * 4 * 2 * (512 + 128) * 4
    folded = 131_072 // 128 * entry + 2 * 128 * 512 * 4
    flash = catalog.model("deepseek-ai/DeepSeek-V4-Flash")
    found = cache_bytes_per_sequence(flash, "fp8", context=131_072)
    assert found == 43 * window + 21 * indexed + 20 * folded == 421_011_456
    assert state_bytes_per_sequence(flash) == 21 * 2 * 4 * 2 * 640 * 4 + 20 * 2 * 128 * 512 * 4


def test_deepseek_v4_caches_a_twelfth_of_deepseek_v3_at_a_long_context() -> None:
    at = [
        cache_bytes_per_sequence(catalog.model(f"deepseek-ai/{name}"), "bf16", context=1_000_000)
        for name in ("DeepSeek-V4-Flash", "DeepSeek-V3")
    ]
    assert 10 < at[1] / at[0] < 14


def test_an_indexer_over_plain_attention_keeps_a_key_beside_keys_and_values() -> None:
    """MiniMax M3: 60 layers of 4 heads of 128, 57 of them with index keys of 128."""
    parts = {p.name: p.value for p in kv_bytes_per_token(catalog.model("MiniMaxAI/MiniMax-M3"), "bf16").parts}
    assert parts == {"full_attention": 60 * 2 * 4 * 128 * 2, "index_keys": 57 * 128 * 2}


def test_index_keys_and_latents_are_on_every_rank() -> None:
    v4, m3 = (catalog.model(name) for name in ("deepseek-ai/DeepSeek-V4-Flash", "MiniMaxAI/MiniMax-M3"))
    assert kv_bytes_per_token(v4, "fp8", layout=Layout(tp=8)).value == kv_bytes_per_token(v4, "fp8").value
    halved = {p.name: p.value for p in kv_bytes_per_token(m3, "bf16", layout=Layout(tp=4)).parts}
    assert halved == {"full_attention": 60 * 2 * 128 * 2, "index_keys": 57 * 128 * 2}
