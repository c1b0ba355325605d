"""Laws of memory that hold for every shape: more work never needs less, sharing never loses anything."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe
from tonnage.domain.precision import Precision
from tonnage.engines.registry import defaults, resolve_engine
from tonnage.optimize.largest import largest_whole
from tonnage.physics.memory import (
    cache_bytes_per_sequence,
    kv_bytes_per_token,
    state_bytes_per_sequence,
    weight_bytes,
)
from tonnage.physics.transformer import Tokens, step_work
from tonnage.simulation.kvcache import Demand, KvPool, kv_pool

H100 = catalog.accelerator("h100-sxm5-80gb")
FORMATS = st.sampled_from(["bf16", "fp8", "int8", "awq", "nvfp4", "gguf-q4_k_m", "gguf-q8_0", "fp32"])
ENGINE = st.sampled_from(["vllm", "sglang", "trtllm", "lmdeploy", "tgi", "hf", "llamacpp"])
DEGREES = st.sampled_from([1, 2, 4, 8])


@st.composite
def models(draw: st.DrawFn) -> Model:
    """A decoder of any usual shape: grouped heads, windows, experts."""
    kv_heads = draw(st.sampled_from([1, 2, 4, 8]))
    mixer = Attention(
        num_attention_heads=kv_heads * draw(st.sampled_from([1, 4, 8])),
        num_key_value_heads=kv_heads,
        head_dim=draw(st.sampled_from([64, 128, 256])),
        window=draw(st.sampled_from([None, 128, 4096])),
    )
    width = draw(st.sampled_from([1024, 4096, 11008]))
    dense = Mlp(intermediate_size=width)
    mixture = Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=width)
    group = LayerGroup(
        count=draw(st.integers(1, 40)), mixer=mixer, feed_forward=draw(st.sampled_from([dense, mixture]))
    )
    return Model(
        id="drawn",
        family="drawn",
        kind="llm",
        hidden_size=draw(st.sampled_from([512, 2048, 5120])),
        vocab_size=draw(st.integers(1000, 200_000)),
        layers=(group,),
        tie_word_embeddings=draw(st.booleans()),
        max_context=131072,
    )


def pool(model: Model, *, name: str, demand: Demand, weights: str = "bf16", layout: Layout | None = None) -> KvPool:
    layout = layout or Layout()
    engine = defaults(Engine(name=name), H100, model=model, layout=layout)
    return kv_pool(
        model, H100, precision=Precision(weights=weights), engine=resolve_engine(engine), layout=layout, demand=demand
    )


@st.composite
def latent_models(draw: st.DrawFn) -> Model:
    """Latent layers of every age: plain, indexed, and folded with a window."""
    folded = draw(st.booleans())
    mixer = LatentAttention(
        num_attention_heads=draw(st.sampled_from([16, 64, 128])),
        kv_lora_rank=draw(st.sampled_from([256, 448, 512])),
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        q_lora_rank=1024,
        absorbed=folded,
        index_heads=draw(st.sampled_from([0, 32])),
        index_head_dim=128,
        index_topk=512,
        window=128 if folded else None,
        compress_ratio=draw(st.sampled_from([0, 4, 128])) if folded else 0,
    )
    group = LayerGroup(count=draw(st.integers(1, 60)), mixer=mixer, feed_forward=Mlp(intermediate_size=4096))
    return Model(id="drawn", family="drawn", kind="llm", hidden_size=2048, vocab_size=1000, layers=(group,))


@given(latent_models(), st.integers(0, 300_000), st.integers(0, 300_000), DEGREES)
def test_a_latent_cache_grows_with_the_context_and_not_past_its_tokens(model: Model, a: int, b: int, tp: int) -> None:
    layout = Layout(tp=tp)
    few, many = (cache_bytes_per_sequence(model, "fp8", context=n, layout=layout) for n in sorted((a, b)))
    state = state_bytes_per_sequence(model, layout)
    assert state <= few <= many <= state + max(a, b) * kv_bytes_per_token(model, "fp8", layout=layout).value + 1e-6


@given(latent_models(), st.integers(1, 300_000))
def test_folding_and_choosing_never_read_more_than_is_kept(model: Model, context: int) -> None:
    one = Tokens(decodes=1.0, context=context, emitted=1.0)
    work = step_work(model, one, precision=Precision(kv="fp8"), layout=Layout())
    read = sum(op.read_bytes * op.count for op in work if op.kind == "mla_decode")
    queries = sum(2 * op.m * op.heads * op.head_dim * op.count for op in work if op.name == "attention decode")
    fold = model.layers[0].mixer.compress_ratio or 1  # a last stretch not yet full counts by its share
    kept = cache_bytes_per_sequence(model, "fp8", context=context + fold)
    assert read - queries <= kept * (1 + 1e-9)


@given(models(), FORMATS, DEGREES)
def test_ranks_together_hold_at_least_the_model(model: Model, weights: str, tp: int) -> None:
    precision = Precision(weights=weights)
    whole = weight_bytes(model, precision).value
    rank = weight_bytes(model, precision, layout=Layout(tp=tp)).value
    assert rank <= whole * 1.2  # padding of the vocabulary, at most
    assert rank * tp >= whole * 0.999


@given(models(), st.integers(1, 100_000), st.integers(1, 100_000), DEGREES)
def test_a_longer_context_never_needs_less_cache(model: Model, a: int, b: int, tp: int) -> None:
    sizes = [cache_bytes_per_sequence(model, "bf16", context=n, layout=Layout(tp=tp)) for n in sorted((a, b))]
    assert sizes[0] <= sizes[1]
    assert sizes[1] <= max(a, b) * kv_bytes_per_token(model, "bf16", layout=Layout(tp=tp)).value


@given(models(), ENGINE, st.integers(1, 200), st.integers(16, 32768))
def test_more_requests_never_need_less(model: Model, name: str, concurrency: int, context: int) -> None:
    few = pool(model, name=name, demand=Demand(concurrency=concurrency, context_tokens=context))
    more = pool(model, name=name, demand=Demand(concurrency=concurrency + 1, context_tokens=context))
    assert more.need.value >= few.need.value
    assert few.verdict.ok or not more.verdict.ok


@given(models(), ENGINE, FORMATS, st.integers(16, 32768))
def test_the_verdict_agrees_with_the_stack(model: Model, name: str, weights: str, context: int) -> None:
    found = pool(model, name=name, weights=weights, demand=Demand(concurrency=4, context_tokens=context))
    assert found.verdict.ok == (found.need.value <= found.limit_bytes * (1 + 1e-9))
    if not found.verdict.ok:
        assert found.verdict.short_by > 0
    assert all(part.value > 0 for part in found.need.parts)


@given(models(), st.integers(16, 32768))
def test_the_pool_holds_the_sequences_it_says(model: Model, context: int) -> None:
    found = pool(model, name="vllm", demand=Demand(concurrency=1, context_tokens=context))
    whole = int(found.sequences)
    if 1 <= whole < 10**6:
        assert pool(model, name="vllm", demand=Demand(concurrency=whole, context_tokens=context)).verdict.ok
        assert not pool(model, name="vllm", demand=Demand(concurrency=whole + 1, context_tokens=context)).verdict.ok


@given(models(), st.sampled_from(["gemma", "plain"]))
def test_a_smaller_window_never_needs_more(model: Model, _kind: str) -> None:
    (group,) = model.layers
    assert isinstance(group.mixer, Attention)
    narrow = msgspec.structs.replace(group, mixer=msgspec.structs.replace(group.mixer, window=64))
    small = msgspec.structs.replace(model, layers=(narrow,))
    assert cache_bytes_per_sequence(small, "bf16", context=9000) <= cache_bytes_per_sequence(
        model, "bf16", context=9000
    )


@given(st.integers(0, 5000), st.integers(1, 4000))
def test_the_largest_whole_number_is_found(limit: int, most: int) -> None:
    assert largest_whole(lambda n: n <= limit, most=most) == min(limit, most)
