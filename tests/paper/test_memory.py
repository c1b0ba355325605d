"""Published memory figures: engine start logs, weight files, and the numbers the guides quote."""

import msgspec
import pytest
from tests.shipped import tables

from tonnage import catalog
from tonnage.domain.accelerator import Accelerator, Fact, Link
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe
from tonnage.domain.precision import Precision
from tonnage.engines.registry import defaults, resolve_engine
from tonnage.physics.memory import checkpoint_precision, kv_bytes_per_token, stored_bytes, weight_bytes
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.simulation.kvcache import Demand, Device, KvPool, kv_pool
from tonnage.units import GB, GiB, MiB


def dense(
    layers: int, hidden: int, width: int, *, heads: tuple[int, int], vocab: int, tied: bool = False, bias: bool = False
) -> Model:
    mixer = Attention(num_attention_heads=heads[0], num_key_value_heads=heads[1], head_dim=128, bias=bias)
    group = LayerGroup(count=layers, mixer=mixer, feed_forward=Mlp(intermediate_size=width))
    return Model(
        id="test",
        family="test",
        kind="llm",
        hidden_size=hidden,
        vocab_size=vocab,
        layers=(group,),
        tie_word_embeddings=tied,
        max_context=131072,
    )


def gpt_oss(layers: int, experts: int) -> Model:
    def group(window: int | None) -> LayerGroup:
        mixer = Attention(
            num_attention_heads=64,
            num_key_value_heads=8,
            head_dim=64,
            bias=True,
            output_bias=True,
            sinks=True,
            window=window,
        )
        moe = Moe(num_experts=experts, num_experts_per_tok=4, moe_intermediate_size=2880, bias=True, router_bias=True)
        return LayerGroup(count=layers // 2, mixer=mixer, feed_forward=moe)

    return Model(
        id="gpt-oss",
        family="gpt-oss",
        kind="llm-moe",
        hidden_size=2880,
        vocab_size=201088,
        layers=(group(128), group(None)),
        experts_dtype="mxfp4",
        max_context=131072,
    )


LLAMA_8B = dense(32, 4096, 14336, heads=(32, 8), vocab=128256)
LLAMA_70B = dense(80, 8192, 28672, heads=(64, 8), vocab=128256)
LLAMA2_7B = dense(32, 4096, 11008, heads=(32, 32), vocab=32000)
LLAMA2_70B = dense(80, 8192, 28672, heads=(64, 8), vocab=32000)
QWEN3_06B = dense(28, 1024, 3072, heads=(16, 8), vocab=151936, tied=True)
QWEN3_32B = dense(64, 5120, 25600, heads=(64, 8), vocab=151936)
QWEN25_3B = dense(36, 2048, 11008, heads=(16, 2), vocab=151936, tied=True, bias=True)


def card(gib: float, *, name: str = "H100", domain: int = 8) -> Accelerator:
    return Accelerator(
        id=name.lower(),
        vendor="NVIDIA",
        name=name,
        architecture="Hopper",
        segment="datacenter",
        memory_bytes=gib * GiB,
        memory_bytes_per_s=3.35e12,
        peaks={"bf16": 989e12},
        link=Link(kind="nvlink4", bytes_per_s=450e9, domain=domain),
        host_link=Link(kind="pcie5"),
        fact=Fact(source="start log"),
    )


BF16 = Precision()
FP8 = Precision(weights="fp8", activations="fp8")
MXFP4 = Precision(experts="mxfp4")


def start(
    model: Model, gib: float, engine: Engine, *, precision: Precision = BF16, tp: int = 1, beyond: float | None = None
) -> KvPool:
    """The pool of an engine that started on a device whose log gives its total memory."""
    accelerator, layout = card(gib), Layout(tp=tp)
    filled = defaults(engine, accelerator, model=model, layout=layout)
    return kv_pool(
        model,
        accelerator,
        precision=precision,
        engine=resolve_engine(filled),
        layout=layout,
        device=Device(total_bytes=gib * GiB, beyond_torch_bytes=None if beyond is None else beyond * GiB),
    )


def v1(**settings: object) -> Engine:
    return Engine(version="0.11", memory_fraction=0.9, max_num_seqs=1024, max_num_batched_tokens=8192, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "precision", "tp", "weights", "pool"),
    [
        pytest.param(QWEN3_06B, BF16, 1, 1.12, 64.45, id="Qwen3-0.6B"),
        pytest.param(LLAMA_8B, BF16, 1, 14.99, 51.38, id="Llama-3.1-8B"),
        pytest.param(gpt_oss(24, 32), MXFP4, 1, 13.47, 50.28, id="gpt-oss-20b"),
        pytest.param(QWEN3_32B, BF16, 1, 61.03, 4.45, id="Qwen3-32B"),
        pytest.param(LLAMA_70B, FP8, 2, 33.88, 32.0, id="Llama-3.3-70B FP8 TP2"),
    ],
)
def test_v1_starts_on_h100(model: Model, precision: Precision, tp: int, weights: float, pool: float) -> None:
    """llm-d benchmark logs, vLLM V1, share 0.90 of 79.18 GiB."""
    found = start(model, 79.18, v1(), precision=precision, tp=tp)
    assert weight_bytes(model, precision, layout=Layout(tp=tp)).value / GiB == pytest.approx(weights, rel=0.03)
    assert found.bytes / GiB == pytest.approx(pool, rel=0.03)


def test_v1_start_of_gpt_oss_120b() -> None:
    """The same logs at share 0.95: 64.38 GiB of weights leave a twentieth of that, so errors show twentyfold."""
    engine = msgspec.structs.replace(v1(), memory_fraction=0.95)
    found = start(gpt_oss(36, 128), 79.18, engine, precision=MXFP4)
    assert found.bytes / GiB == pytest.approx(3.33, abs=0.25)


V06 = Engine(version="0.6.6", memory_fraction=0.9, max_num_seqs=256, chunked_prefill=False)


@pytest.mark.parametrize(
    ("model", "gib", "tokens", "version", "beyond", "pool"),
    [
        pytest.param(LLAMA_8B, 23.58, 20000, "0.6.4", 0.35, 3.81, id="8B, RTX 3090, 20k"),
        pytest.param(LLAMA_8B, 23.58, 29000, "0.6.4", 0.35, 2.89, id="8B, RTX 3090, 29k"),
        pytest.param(LLAMA_8B, 79.22, 8192, "0.6.5", 1.79, 53.29, id="8B, 80 GB"),
        pytest.param(QWEN25_3B, 14.56, 4096, "0.6.6", None, 5.79, id="Qwen2.5-3B, T4"),
        pytest.param(LLAMA_8B, 23.52, 2048, "0.19", None, 5.05, id="8B, RTX 4090"),
    ],
)
def test_other_vllm_starts(
    model: Model, gib: float, tokens: int, version: str, beyond: float | None, pool: float
) -> None:
    """Start logs; the last one is the open row (-3.6 %)."""
    engine = msgspec.structs.replace(V06, version=version, max_num_batched_tokens=tokens)
    found = start(model, gib, engine, beyond=beyond)
    assert found.bytes / GiB == pytest.approx(pool, rel=0.04 if version == "0.19" else 0.03)


def test_tensor_parallel_weights_of_8b() -> None:
    """vLLM pull request 10511: 7.48 GiB on each of two ranks."""
    assert weight_bytes(LLAMA_8B, BF16, layout=Layout(tp=2)).value / GiB == pytest.approx(7.48, rel=0.002)


def test_a_2023_start_on_a100() -> None:
    """vLLM pull request 2031: 7,351 blocks for Llama-2-7B on A100-80, share 0.9."""
    found = start(LLAMA2_7B, 79.25, Engine(version="0.2.5", max_model_len=4096))
    assert found.blocks == pytest.approx(7351, rel=0.03)


def test_a_2023_start_on_four_a100() -> None:
    """The same pull request: 20,865 blocks for Llama-2-70B at TP 4, 13 GiB a rank more than torch allocates."""
    found = start(LLAMA2_70B, 79.25, Engine(version="0.2.5", max_model_len=4096), tp=4)
    assert found.blocks == pytest.approx(20865, rel=0.10)


def test_w8a8_70b_on_one_card() -> None:
    """Start log, V1, share 0.98, 2,048 tokens: 22,096 tokens of cache beside 67.72 GiB of weights."""
    precision = Precision(weights="int8", activations="int8")
    assert weight_bytes(LLAMA_70B, precision).value / GiB == pytest.approx(67.72, rel=0.01)


@pytest.mark.parametrize(
    ("model", "level", "gib"),
    [
        (LLAMA_8B, "gguf-q4_k_m", 4.58),
        (LLAMA_8B, "gguf-f16", 14.96),
        (LLAMA_8B, "gguf-q8_0", 7.95),
        (LLAMA_8B, "gguf-q6_k", 6.14),
        (LLAMA_8B, "gguf-q5_k_m", 5.33),
        (LLAMA_70B, "gguf-q4_k_m", 39.59),
        (LLAMA_70B, "gguf-f16", 131.42),
    ],
)
def test_gguf_files(model: Model, level: str, gib: float) -> None:
    """llama.cpp's own table of Llama-3 files (llama-bench prints the size)."""
    assert weight_bytes(model, Precision(weights=level)).value / GiB == pytest.approx(gib, rel=0.005)


def test_llama_70b_weighs_141_gb_and_caches_320_kib_per_token() -> None:
    assert weight_bytes(LLAMA_70B, BF16).value / GB == pytest.approx(141, rel=0.005)
    assert kv_bytes_per_token(LLAMA_70B, "bf16").value == 320 * 1024


DEEPSEEK = LatentAttention(
    num_attention_heads=128, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128
)


def test_deepseek_v3_caches_70_272_bytes_per_token_on_every_rank() -> None:
    layers = (LayerGroup(count=61, mixer=DEEPSEEK),)
    model = Model(id="v3", family="DeepSeek", kind="llm-moe", hidden_size=7168, layers=layers)
    assert kv_bytes_per_token(model, "bf16").value == 70272
    assert kv_bytes_per_token(model, "bf16", layout=Layout(tp=8)).value == 70272


def test_mixtral_needs_memory_for_all_and_speed_for_active_parameters() -> None:
    """arXiv 2401.04088: 46.7 B in all, 12.9 B per token; not 56 and 14."""
    moe = Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=14336)
    mixer = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    layers = (LayerGroup(count=32, mixer=mixer, feed_forward=moe),)
    model = Model(id="mixtral", family="Mixtral", kind="llm-moe", hidden_size=4096, vocab_size=32000, layers=layers)
    assert weight_bytes(model, BF16).value / 2e9 == pytest.approx(46.7, rel=0.002)
    assert parameters(model).value / 1e9 == pytest.approx(46.7, rel=0.002)
    assert active_parameters(model).value / 1e9 == pytest.approx(12.9, rel=0.005)


def test_70b_int8_on_one_a100_leaves_about_8_gb() -> None:
    """Popular claim: "70B INT8 fits one 80 GB A100". It does, with a handful of short requests."""
    weights = weight_bytes(LLAMA2_70B, Precision(weights="int8", activations="int8")).value
    assert (80e9 - weights) / GB == pytest.approx(10.5, abs=2.5)
    found = start(
        LLAMA2_70B, 79.25, Engine(max_model_len=4096), precision=Precision(weights="int8", activations="int8")
    )
    assert found.bytes / GB < 8


def test_sglang_pool_of_qwen3_235b() -> None:
    """vLLM issue 21348: SGLang, share 0.93 of four H100, 367,404 tokens (16.46 GiB on each)."""
    moe = Moe(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=1536)
    mixer = Attention(num_attention_heads=64, num_key_value_heads=4, head_dim=128, qk_norm=True)
    layers = (LayerGroup(count=94, mixer=mixer, feed_forward=moe),)
    model = Model(id="q", family="Qwen3", kind="llm-moe", hidden_size=4096, vocab_size=151936, layers=layers)
    engine = Engine(name="sglang", version="2025-07", memory_fraction=0.93)
    found = start(model, 79.18, engine, precision=Precision(weights="fp8_block", activations="fp8"), tp=4)
    assert found.tokens == pytest.approx(367404, rel=0.05)


def test_a_pool_is_quantised_by_half_when_the_cache_is_8_bit() -> None:
    whole = start(LLAMA_8B, 79.18, v1())
    half = start(LLAMA_8B, 79.18, v1(), precision=Precision(kv="fp8"))
    assert half.tokens == pytest.approx(2 * whole.tokens, rel=1e-3)


def test_demand_beyond_the_pool_is_refused_with_the_shortfall() -> None:
    accelerator = card(79.18)
    engine = defaults(v1(), accelerator, model=LLAMA_8B)
    found = kv_pool(
        LLAMA_8B,
        accelerator,
        precision=BF16,
        engine=resolve_engine(engine),
        demand=Demand(concurrency=64, context_tokens=8192),
    )
    short = 64 * 8192 * 128 * 1024 - found.bytes
    assert not found.verdict.ok
    assert found.verdict.limit == "memory"
    assert found.verdict.short_by == pytest.approx(short, rel=1e-6)
    assert short > 100 * MiB


@pytest.mark.parametrize(
    ("name", "gigabytes", "within"),
    [
        # gpt-oss model card (arXiv 2508.10925), table 1: checkpoints of 60.8 and 12.8 GiB.
        ("openai/gpt-oss-120b", 60.8 * GiB / GB, 0.002),
        ("openai/gpt-oss-20b", 12.8 * GiB / GB, 0.002),
        # Sizes of the repositories, transcribed and not re-read. DeepSeek-V3's includes 3.7 GB of copies of embedding
        # and head in its multi-token-prediction layer; NVFP4 of R1 leaves that layer and some of attention alone.
        ("deepseek-ai/DeepSeek-V3", 688.6, 0.007),
        ("moonshotai/Kimi-K2-Instruct", 1029.0, 0.005),
        ("moonshotai/Kimi-K2.5", 595.0, 0.005),
        ("nvidia/DeepSeek-R1-NVFP4", 400.0, 0.04),
    ],
)
def test_checkpoints_of_mixtures_weigh_what_their_makers_publish(name: str, gigabytes: float, within: float) -> None:
    model = catalog.model(name)
    assert stored_bytes(model, checkpoint_precision(model)) / GB == pytest.approx(gigabytes, rel=within)


SIZED = [row for row in tables("models")["checkpoints"] if row["gb"]]
WIDER = {"nvidia/Qwen3-Next-80B-A3B-Thinking-NVFP4": 1.12}
"""Above what its format says: which of its tensors stay in sixteen bits was not read."""


@pytest.mark.parametrize("row", SIZED, ids=lambda row: str(row["checkpoint"]))
def test_files_of_published_checkpoints_hold_all_weights_in_their_format(row: dict[str, str]) -> None:
    model, read = catalog.model(row["model"]), float(row["gb"])
    own = stored_bytes(model, Precision(weights=row["format"])) / GB
    tied = 2 * model.vocab_size * model.hidden_size * model.tie_word_embeddings / GB  # some hold a tied head once more
    most = WIDER.get(row["checkpoint"], 1.0) * own
    assert own < read < most or any(read == pytest.approx(size, rel=0.01) for size in (own, own + tied))


def test_ranks_hold_mxfp4_padded_and_files_do_not() -> None:
    """gpt-oss' experts are 2,880 wide; engines pad them to 3,072."""
    model = catalog.model("openai/gpt-oss-120b")
    precision = checkpoint_precision(model)
    held, kept = weight_bytes(model, precision).value, stored_bytes(model, precision)
    experts = next(part.value for part in weight_bytes(model, precision).parts if part.name == "experts")
    assert held - kept == pytest.approx(experts * (1 - 2880 / 3072), rel=0.02)


def test_a_checkpoint_whose_size_is_known_scales_what_ranks_hold() -> None:
    model = catalog.model("deepseek-ai/DeepSeek-V3")
    precision = checkpoint_precision(model)
    known = msgspec.structs.replace(model, stored_weight_bytes=1.01 * stored_bytes(model, precision))
    assert stored_bytes(known, precision) == known.stored_weight_bytes
    assert weight_bytes(known, precision).value == pytest.approx(1.01 * weight_bytes(model, precision).value)
