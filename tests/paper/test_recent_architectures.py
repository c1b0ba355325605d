"""Architectures of 2026 against what their makers count: totals, caches, and what one token uses."""

import pytest

from tonnage import catalog
from tonnage.domain.model import Attention, LatentAttention, Model, Moe, StateSpace
from tonnage.physics.cache import kv_bytes_per_token
from tonnage.physics.memory import checkpoint_precision, stored_bytes
from tonnage.physics.parameters import active_parameters, embedding_parameters, head_parameters, parameters
from tonnage.units import GB


def mixers(model: Model, kind: type) -> int:
    """Layers whose mixer is of a kind."""
    return sum(group.count for group in model.layers if isinstance(group.mixer, kind))


def windowed(model: Model) -> int:
    return sum(g.count for g in model.layers if isinstance(g.mixer, Attention) and g.mixer.window is not None)


@pytest.mark.parametrize(
    ("name", "published", "within"),
    [
        # Totals of the index of the safetensors, less what stands beside the model (multi-token prediction).
        ("mistralai/Mistral-Small-4-119B-2603", 119_401_317_952, 1e-4),
        ("mistralai/Mistral-Medium-3.5-128B", 127_704_210_176, 2e-4),
        ("IFM/K2-Horizon-7B", 8_999_178_240, 1e-5),
        ("IFM/K2-Horizon-MoVA-36B-A4B", 37_444_792_020, 2e-5),
        ("inclusionAI/Ling-3.0-flash", 248_836_487_408 / 2, 1e-4),  # bytes of its bf16 files
        ("meta-models/Muse-Glimmer-30B", 29_776_626_688, 0.005),
        ("XiaomiMiMo/MiMo-V2.5-Pro", 1_023_244_718_976, 0.003),
        # Totals of model cards.
        ("tencent/Hy3", 295e9, 1e-3),
        ("poolside/Laguna-XS.2", 33.4e9, 2e-3),
        ("poolside/Laguna-S-2.1", 118e9, 5e-3),
        ("arcee-ai/Trinity-Large-Thinking", 398e9, 2e-3),
        ("tencent/Hunyuan-A13B-Instruct", 80.4e9, 1e-3),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", 8.89e9, 1e-3),
        ("tiiuae/Falcon-H1-34B-Base", 33.64e9, 1e-3),
        ("LiquidAI/LFM2.5-8B-A1B", 8.34e9, 1e-3),
    ],
)
def test_the_total_is_what_the_maker_counts(name: str, published: float, within: float) -> None:
    assert parameters(catalog.model(name)).value == pytest.approx(published, rel=within)


@pytest.mark.parametrize(
    ("name", "active"),
    [
        ("tencent/Hy3", 21e9),
        ("poolside/Laguna-S-2.1", 8e9),
        ("poolside/Laguna-M.1", 23e9),
        ("XiaomiMiMo/MiMo-V2.5-Pro", 42e9),
        ("Qwen/Qwen3.8-2.4T-A95B", 95e9),
        ("inclusionAI/Ling-3.0-flash", 5.5e9),
        ("arcee-ai/Trinity-Large-Thinking", 13e9),
        ("thinkingmachines/Inkling", 41e9),
    ],
)
def test_a_token_uses_what_the_maker_says(name: str, active: float) -> None:
    assert active_parameters(catalog.model(name)).value == pytest.approx(active, rel=0.06)


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("tencent/Hy3", 80 * 2 * 8 * 128 * 2),
        ("IFM/K2-Horizon-MoVA-36B-A4B", 48 * 2 * 8 * 128 * 2),  # routed values are cached as any others: 192 KiB
        ("mistralai/Mistral-Small-4-119B-2603", 36 * (256 + 64) * 2),
        ("mistralai/Mistral-Large-3-675B-Instruct-2512", 61 * (512 + 64) * 2),
        ("poolside/Laguna-M.1", 70 * 2 * 8 * 128 * 2),
        ("Qwen/Qwen3.8-2.4T-A95B", 23 * 2 * 4 * 256 * 2),  # the other 69 layers keep a state
        ("inclusionAI/Ling-3.0-flash", 7 * (512 + 64) * 2),
    ],
)
def test_a_token_of_context_keeps_the_bytes_its_layers_cache(name: str, bytes_per_token: int) -> None:
    assert kv_bytes_per_token(catalog.model(name), "bf16").value == pytest.approx(bytes_per_token)


def test_the_indexer_of_sparse_attention_keeps_its_own_key() -> None:
    model = catalog.model("zai-org/GLM-5.3-Flash")
    assert (mixers(model, StateSpace), mixers(model, LatentAttention)) == (34, 11)
    kept = kv_bytes_per_token(model, "bf16").value
    assert kept == pytest.approx(11 * (512 + 128) * 2, rel=0.12)


@pytest.mark.parametrize(
    ("name", "layers", "slide"),
    [
        ("poolside/Laguna-XS.2", 40, 30),
        ("poolside/Laguna-S-2.1", 48, 36),
        ("meta-models/Muse-Glimmer-30B", 52, 39),
        ("arcee-ai/Trinity-Large-Thinking", 60, 45),
        ("thinkingmachines/Inkling", 66, 55),
        ("XiaomiMiMo/MiMo-V2.5-Pro", 70, 60),
        ("google/gemma-4-E2B-it", 35, 28),
        ("google/gemma-4-E4B-it", 42, 35),
        ("google/gemma-4-12B-it", 48, 40),
    ],
)
def test_layers_with_a_window_are_as_many_as_published(name: str, layers: int, slide: int) -> None:
    model = catalog.model(name)
    assert (mixers(model, Attention), windowed(model)) == (layers, slide)


def test_windowed_layers_of_laguna_have_more_query_heads() -> None:
    heads = {
        (group.mixer.window is not None, group.mixer.num_attention_heads)
        for group in catalog.model("poolside/Laguna-S-2.1").layers
        if isinstance(group.mixer, Attention)
    }
    assert heads == {(False, 48), (True, 72)}


def test_small_gemma_keeps_caches_in_its_first_layers_only() -> None:
    """Gemma 4 E2B: the last 20 of 35 layers reuse a cache; without its per-layer embeddings it has 2.3 B."""
    model = catalog.model("google/gemma-4-E2B-it")
    reuse = sum(g.count for g in model.layers if isinstance(g.mixer, Attention) and g.mixer.kv_shared)
    assert reuse == 20
    per_layer_embeddings = 35 * 256 * 262_144
    language = parameters(model).value - sum(tower.parameters for tower in model.towers)
    assert language - per_layer_embeddings == pytest.approx(2.3e9, rel=0.02)


def test_mixtures_of_value_projections_count_all_of_them_and_use_four() -> None:
    model = catalog.model("IFM/K2-Horizon-MoVA-36B-A4B")
    routed = [g for g in model.layers if g.mixer is None and isinstance(g.feed_forward, Moe)]
    ((count, moe),) = {(g.count, g.feed_forward) for g in routed}
    assert isinstance(moe, Moe)
    assert (count, moe.num_experts + 1, moe.num_experts_per_tok + 1) == (45, 64, 4)
    assert 2 * moe.moe_intermediate_size == 8 * 128
    without = active_parameters(model).value - embedding_parameters(model) - head_parameters(model)
    assert 4.4e9 < without < 4.9e9  # "A4B"


@pytest.mark.parametrize(
    ("name", "experts"),
    [("moonshotai/Kimi-K2.6", "int4_g32"), ("moonshotai/Kimi-K2.7-Code", "int4_g32"), ("moonshotai/Kimi-K3", "mxfp4"),
     ("XiaomiMiMo/MiMo-V2.6-Flash-RL", "mxfp4")],
)  # fmt: skip
def test_experts_released_in_four_bits_are_kept_in_four_bits(name: str, experts: str) -> None:
    model = catalog.model(name)
    assert (model.quantization, model.experts_dtype) == (None, experts)


@pytest.mark.parametrize(
    ("name", "gigabytes", "within"),
    [
        # Bytes of the files on the hub.
        ("moonshotai/Kimi-K3", 1560.936, 0.002),
        ("mistralai/Mistral-Small-4-119B-2603", 120.923, 0.002),
        ("XiaomiMiMo/MiMo-V2.6-Flash-RL", 173.0, 0.01),
        ("meta-models/Muse-Glimmer-30B", 59.553, 0.006),
    ],
)
def test_checkpoints_weigh_what_their_files_do(name: str, gigabytes: float, within: float) -> None:
    model = catalog.model(name)
    assert stored_bytes(model, checkpoint_precision(model)) / GB == pytest.approx(gigabytes, rel=within)
