"""Work lists: shapes agree with the parameter count, ranks divide what they should, bytes follow formats."""

import msgspec
import pytest

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe, StateSpace
from tonnage.domain.precision import Precision
from tonnage.physics.matrices import feed_forward_matrices, matrix_parameters, mixer_matrices
from tonnage.physics.transformer import Tokens, encode_work, step_work
from tonnage.physics.work import Work

BF16 = Precision()
ONE = Layout()
GQA = Attention(num_attention_heads=32, num_key_value_heads=8, head_dim=128)
MLA = LatentAttention(
    num_attention_heads=128,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
    q_lora_rank=1536,
)
DSA = msgspec.structs.replace(MLA, index_heads=64, index_head_dim=128, index_topk=2048)
SPARSE = Attention(
    num_attention_heads=64,
    num_key_value_heads=4,
    head_dim=128,
    qk_norm=True,
    index_heads=4,
    index_head_dim=128,
    index_topk=2048,
)
FOLDED = LatentAttention(
    num_attention_heads=64,
    kv_lora_rank=448,
    qk_rope_head_dim=64,
    qk_nope_head_dim=448,
    v_head_dim=512,
    q_lora_rank=1024,
    absorbed=True,
    o_lora_rank=1024,
    o_groups=8,
    window=128,
    compress_ratio=128,
)
CHOSEN = msgspec.structs.replace(FOLDED, compress_ratio=4, index_heads=64, index_head_dim=128, index_topk=512)
MAMBA = StateSpace(kind="mamba2", num_heads=64, head_dim=64, state_size=128, num_groups=8)
DENSE = Mlp(intermediate_size=14336)
EXPERTS = Moe(num_experts=64, num_experts_per_tok=8, moe_intermediate_size=1024, shared_intermediate_size=2048)


def decode_work(
    model: Model, *, sequences: float, context: float, drafted: float = 1.0, precision: Precision, layout: Layout
) -> Work:
    """One decode step of sequences with so many tokens cached each."""
    tokens = Tokens(decodes=sequences, context=context, drafted=drafted, emitted=sequences * drafted)
    return step_work(model, tokens, precision=precision, layout=layout)


def prefill_work(
    model: Model, *, prompts: float, chunk: float, cached: float = 0.0, precision: Precision, layout: Layout
) -> Work:
    """Chunks of prompts after cached tokens; each emits one row."""
    tokens = Tokens(prompts=prompts, chunk=chunk, cached=cached, emitted=prompts)
    return step_work(model, tokens, precision=precision, layout=layout)


def model(mixer=GQA, feed_forward=DENSE, hidden=4096, count=32):
    layer = LayerGroup(count=count, mixer=mixer, feed_forward=feed_forward)
    return Model(id="m", family="m", kind="llm", hidden_size=hidden, vocab_size=128256, layers=(layer,))


def of(work: Work, *kinds: str) -> Work:
    return tuple(op for op in work if op.kind in kinds)


def flop(work: Work) -> float:
    return sum(op.flop * op.count for op in work)


GATED = Attention(num_attention_heads=16, num_key_value_heads=16, head_dim=64, gated=True)


@pytest.mark.parametrize("mixer", [GQA, MLA, DSA, SPARSE, FOLDED, CHOSEN, MAMBA, GATED])
@pytest.mark.parametrize("feed_forward", [DENSE, EXPERTS])
def test_products_of_a_long_prefill_are_two_flop_per_active_parameter(mixer, feed_forward) -> None:
    shape = model(mixer, feed_forward)
    rows = 4096.0
    work = prefill_work(shape, prompts=1, chunk=rows, precision=BF16, layout=ONE)
    products = flop(tuple(op for op in of(work, "gemm", "grouped_gemm") if op.name != "head"))
    matrices = [m for m in mixer_matrices(mixer, 4096) if m.name != "conv"] + list(
        feed_forward_matrices(feed_forward, 4096)
    )
    expected = 2 * rows * 32 * matrix_parameters(matrices, active=True)
    assert products == pytest.approx(expected, rel=1e-9)


def test_decode_streams_every_matrix_once_and_no_input_embedding() -> None:
    work = decode_work(model(), sequences=1, context=1, precision=BF16, layout=ONE)
    weights = sum(2 * op.n * op.k * op.count for op in of(work, "gemm"))
    layers = 32 * matrix_parameters([*mixer_matrices(GQA, 4096), *feed_forward_matrices(DENSE, 4096)])
    assert weights == pytest.approx(2 * (layers + 128256 * 4096))
    assert of(work, "embedding")[0].read_bytes == 2 * 4096


def test_key_value_heads_are_replicated_when_fewer_than_ranks() -> None:
    cache = [
        of(decode_work(model(), sequences=4, context=1000, precision=BF16, layout=Layout(tp=tp)), "attention_decode")[
            0
        ].kv_heads
        for tp in (1, 2, 8, 16)
    ]
    assert cache == [8, 4, 1, 1]


def test_a_layer_that_reuses_a_choice_scores_nothing() -> None:
    reused = msgspec.structs.replace(DSA, index_heads=0, index_head_dim=0)
    work = decode_work(model(reused), sequences=1, context=100_000, precision=BF16, layout=ONE)
    assert not [op for op in work if op.name.startswith("index")]
    assert next(op for op in work if op.name == "attention decode").context == 2048


def test_experts_read_grow_with_tokens_until_all_are_hit() -> None:
    def groups(tokens):
        return of(
            decode_work(model(feed_forward=EXPERTS), sequences=tokens, context=1, precision=BF16, layout=ONE),
            "grouped_gemm",
        )[0].groups

    assert groups(1) == pytest.approx(8)
    assert groups(4) < 4 * 8
    assert groups(1000) == pytest.approx(64)


def test_norms_over_all_heads_sum_squares_over_the_ranks_that_share_them() -> None:
    whole = msgspec.structs.replace(GQA, qk_norm_all_heads=True)

    def added(layout: Layout, kind: str) -> list[tuple[str, float, float]]:
        plain, normed = (
            of(decode_work(model(mixer), sequences=8, context=1, precision=BF16, layout=layout), kind)
            for mixer in (GQA, whole)
        )
        names = {op.name for op in plain}
        return [(op.name, op.message_bytes or op.read_bytes, op.count) for op in normed if op.name not in names]

    values = 8 * (32 + 8) * 128 * 2
    assert added(ONE, "elementwise") == [("query and key norm", values, 32)]
    assert added(ONE, "all_reduce") == []
    pair = Layout(tp=2)
    assert added(pair, "all_reduce") == [("query and key norm all-reduce", 8 * 2 * 4, 32)]
    assert [(name, read) for name, read, _ in added(pair, "elementwise")] == [
        ("sums of squares", values / 2), ("query and key norm", values / 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("weights", "activations", "compute", "bits"),
    [("awq", "bf16", "bf16", 4.15625), ("fp8", "fp8", "fp8", 8), ("fp8", "bf16", "bf16", 8),
     ("nvfp4", "nvfp4", "fp4", 4.5),
     ("bf16", "fp8", "bf16", 16), ("gguf-q4_k_m", "fp16", "fp16", 4.85)],
)  # fmt: skip
def test_formats_set_the_peak_and_the_bytes(weights, activations, compute, bits) -> None:
    precision = Precision(weights=weights, activations=activations)
    work = decode_work(model(), sequences=1, context=1, precision=precision, layout=ONE)
    up = next(op for op in work if op.name == "feed-forward up")
    assert up.compute == compute
    assert up.read_bytes == pytest.approx(bits / 8 * up.n * up.k, rel=0.01)


def test_an_encoder_attends_everything_and_has_no_head() -> None:
    work = encode_work(model(), sequences=8, length=128, precision=BF16, layout=ONE)
    core = of(work, "attention_prefill")[0]
    assert core.flop == 4 * 32 * 128 * 8 * 128 * 128
    assert not [op for op in work if op.name == "head"]


def named(work: Work, name: str):
    return next(op for op in work if op.name == name)


def names(work: Work) -> list[str]:
    return [op.name for op in work]


SMALL_MIXER = Attention(num_attention_heads=4, num_key_value_heads=2, head_dim=8)
SMALL_EXPERTS = Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=12)
DECODING = Tokens(decodes=7, context=11, emitted=5)


def small(feed_forward=Mlp(intermediate_size=12), **changes):  # noqa: B008
    layer = LayerGroup(count=3, mixer=SMALL_MIXER, feed_forward=feed_forward)
    return Model(id="m", family="m", kind="llm", hidden_size=10, vocab_size=100, layers=(layer,), **changes)


def test_a_step_of_two_tensor_ranks_and_three_stages() -> None:
    """Seven rows of width 10 through three layers; five of them through a head of 100 / 2 columns; 16-bit values."""
    work = step_work(small(), DECODING, precision=BF16, layout=Layout(tp=2, pp=3), domain=4)
    assert names(work) == [
        "embedding",
        "norm and residual",
        "attention input",
        "rotary and cache",
        "attention decode",
        "attention output",
        "attention all-reduce",
        "feed-forward up",
        "activation",
        "feed-forward down",
        "feed-forward all-reduce",
        "stage transfer",
        "head",
        "gather logits",
        "sampling",
    ]
    moved = {op.name: (op.count, op.read_bytes, op.write_bytes) for op in work if op.kind == "elementwise"}
    assert moved["norm and residual"] == (6, 2 * 2 * 70, 2 * 2 * 70)  # two a layer: value and residual
    assert moved["sampling"] == (2, 2 * 3 * 500, 2 * 5)
    embedding = named(work, "embedding")
    assert (embedding.read_bytes, embedding.write_bytes) == (140, 140)
    for name in ("attention all-reduce", "feed-forward all-reduce"):
        sum_ = named(work, name)
        assert (sum_.count, sum_.message_bytes, sum_.ranks, sum_.inter_node) == (3, 140, 2, False)
    handed = named(work, "stage transfer")
    assert (handed.count, handed.message_bytes, handed.ranks, handed.inter_node) == (2, 140, 2, True)
    head = named(work, "head")
    assert (head.m, head.n, head.k, head.count) == (5, 50, 10, 1)
    logits = named(work, "gather logits")
    assert (logits.message_bytes, logits.ranks, logits.inter_node) == (1000, 2, False)


def test_one_rank_gathers_and_hands_on_nothing() -> None:
    work = step_work(small(), DECODING, precision=BF16, layout=ONE)
    assert not of(work, "all_reduce", "all_gather", "point_to_point")
    silent = step_work(small(has_head=False), DECODING, precision=BF16, layout=ONE)
    assert "head" not in names(silent)
    assert "head" not in names(step_work(small(), Tokens(decodes=7, context=11), precision=BF16, layout=ONE))


def test_a_narrow_embedding_is_gathered_and_multiplied_in_its_own_width() -> None:
    work = step_work(small(embedding_size=6), DECODING, precision=BF16, layout=ONE)
    assert named(work, "embedding").read_bytes == 2 * 7 * 6
    assert named(work, "head").k == 6


def test_layers_of_their_own_width_and_without_norms() -> None:
    plain = small()
    layer = msgspec.structs.replace(plain.layers[0], hidden_size=14, norms=0, feed_forward=None)
    work = step_work(msgspec.structs.replace(plain, layers=(layer,)), DECODING, precision=BF16, layout=Layout(tp=2))
    assert named(work, "attention output").n == 14
    assert named(work, "attention all-reduce").message_bytes == 2 * 7 * 14
    assert not {"norm and residual", "feed-forward up", "feed-forward all-reduce"} & set(names(work))


@pytest.mark.parametrize(("weights", "dispatched"), [("bf16", 2), ("fp8", 1)])
def test_tokens_travel_once_to_each_group_of_experts(weights, dispatched) -> None:
    precision = Precision(weights=weights, activations=weights)
    work = step_work(small(SMALL_EXPERTS), DECODING, precision=precision, layout=Layout(tp=2, dp=4, ep=4), domain=7)
    # Each of two tensor ranks sends half of 7 rows to the 4 (1 - (3/4)^2) groups that two choices reach.
    sent = 7 / 2 * 4 * (1 - 0.75**2) * 10
    for name, size in (("dispatch", dispatched), ("combine", 2)):
        exchange = named(work, name)
        assert exchange.message_bytes == pytest.approx(size * sent)
        assert (exchange.count, exchange.ranks, exchange.inter_node) == (3, 4, True)
    assert "feed-forward all-reduce" not in names(work)


def test_split_experts_gather_all_tokens() -> None:
    work = step_work(small(SMALL_EXPERTS), DECODING, precision=BF16, layout=Layout(tp=2, dp=4))
    for name in ("gather tokens", "scatter results"):
        exchange = named(work, name)
        assert (exchange.count, exchange.message_bytes, exchange.ranks) == (3, 2 * 7 * 4 * 10, 8)
        assert not exchange.inter_node
    alone = step_work(small(SMALL_EXPERTS), DECODING, precision=BF16, layout=Layout(tp=2))
    assert named(alone, "feed-forward all-reduce").message_bytes == 140
    dense = step_work(small(), DECODING, precision=BF16, layout=Layout(tp=2, dp=4))
    assert named(dense, "feed-forward all-reduce").ranks == 2


def test_an_encoder_reads_the_prompt_and_the_decoder_starts_with_one_token() -> None:
    layer = LayerGroup(count=3, mixer=SMALL_MIXER, cross_attention=SMALL_MIXER, feed_forward=Mlp(intermediate_size=12))
    both = msgspec.structs.replace(small(), encoder=(LayerGroup(count=2, mixer=SMALL_MIXER),), layers=(layer,))
    work = step_work(both, Tokens(prompts=2, chunk=9, emitted=2), precision=BF16, layout=Layout(tp=2))
    whole, first = of(work, "attention_prefill")
    assert (whole.count, whole.m, whole.flop) == (2, 18, 4 * 2 * 8 * 18 * 9)  # every token sees all nine
    assert (first.count, first.m, first.flop) == (3, 2, 4 * 2 * 8 * 2 * 1)
    cross = named(work, "cross attention")
    assert (cross.m, cross.context) == (2, 9)
    assert named(work, "cross-attention all-reduce").message_bytes == 2 * 2 * 10
    assert named(work, "embedding").read_bytes == 2 * 2 * 10
    later = step_work(both, Tokens(decodes=7, context=11, emitted=7), precision=BF16, layout=ONE)
    assert [op.count for op in of(later, "attention_decode")] == [3, 3]
    assert {op.name: op.context for op in of(later, "attention_decode")} == {
        "attention decode": 1,
        "cross attention": 11,
    }
    assert named(later, "head").m == 7
    alone = step_work(msgspec.structs.replace(both, layers=()), Tokens(prompts=2, chunk=9), precision=BF16, layout=ONE)
    assert of(alone, "attention_prefill")[0].flop == 4 * 4 * 8 * 18 * 5
    without = step_work(small(), Tokens(prompts=2, chunk=9), precision=BF16, layout=ONE)
    assert len(of(without, "attention_prefill")) == 1


def test_prompts_emit_one_row_each_and_training_every_row() -> None:
    one = prefill_work(small(), prompts=2, chunk=9, cached=4, precision=BF16, layout=ONE)
    assert named(one, "head").m == 2
    assert of(one, "attention_prefill")[0].flop == 4 * 4 * 8 * 18 * (4 + 5)
    every = Tokens(prompts=2.0, chunk=9.0, emitted=18.0)
    assert named(step_work(small(), every, precision=BF16, layout=ONE), "head").m == 18
    assert named(decode_work(small(), sequences=2, context=9, drafted=3, precision=BF16, layout=ONE), "head").m == 6
    encoded = encode_work(small(), sequences=2, length=9, precision=BF16, layout=Layout(pp=2))
    assert encoded[0].name == "embedding"
    assert encoded[-1].name == "stage transfer"
    assert (
        of(
            encode_work(
                msgspec.structs.replace(small(), layers=(), encoder=small().layers),
                sequences=2,
                length=9,
                precision=BF16,
                layout=ONE,
            ),
            "attention_prefill",
        )[0].m
        == 18
    )
