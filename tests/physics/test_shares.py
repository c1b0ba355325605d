"""Shares of ranks: products, and feed-forward layers with experts."""

from math import log, sqrt

import pytest

from tonnage.domain.layout import Layout
from tonnage.domain.model import Mlp, Moe
from tonnage.domain.precision import Precision
from tonnage.physics.shares import Share, gemm, share
from tonnage.physics.transformer import experts_hit, feed_forward_work, load_imbalance, skewed_experts_hit
from tonnage.physics.work import Operator, Work

ROWS, WIDTH, DEPTH = 3, 5, 7


@pytest.mark.parametrize(
    ("precision", "head", "compute"),
    [
        (Precision(weights="bf16", activations="bf16", kv="bf16"), "bf16", "bf16"),
        (Precision(weights="fp16", activations="fp16", kv="fp16"), "fp16", "fp16"),
        (Precision(weights="fp8", activations="fp8", kv="fp8"), "bf16", "fp8"),
        (Precision(weights="awq", activations="fp16", kv="fp16"), "fp16", "fp16"),
        (Precision(weights="gguf-q4_k_m", activations="fp16", kv="fp16"), "gguf-q4_k_m", "fp16"),
        (Precision(weights="fp32", activations="fp32", kv="fp32"), "fp32", "fp32"),
    ],
)
def test_quantised_weights_leave_the_head_in_its_format_unless_whole_files_are(
    precision: Precision, head: str, compute: str
) -> None:
    at = share(hidden=64, layout=Layout(), precision=precision)
    assert (at.head, at.compute) == (head, compute)


@pytest.mark.parametrize(
    ("activations", "weights", "compute", "read", "written"),
    [
        ("bf16", "bf16", "bf16", 2 * WIDTH * DEPTH + 2 * ROWS * DEPTH, 2 * ROWS * WIDTH),
        ("fp32", "fp32", "fp32", 4 * WIDTH * DEPTH + 4 * ROWS * DEPTH, 4 * ROWS * WIDTH),
        ("bf16", "fp8", "fp8", 1 * WIDTH * DEPTH + 1 * ROWS * DEPTH, 2 * ROWS * WIDTH),
    ],
)
def test_a_product_reads_its_weights_once_and_its_rows_in_the_format_it_multiplies(
    activations: str, weights: str, compute: str, read: float, written: float
) -> None:
    at = share(hidden=64, layout=Layout(), precision=Precision(weights=weights, activations=activations, kv="bf16"))
    op = gemm("x", at, m=ROWS, n=WIDTH, k=DEPTH, count=1, weights=weights, compute=compute)
    assert op.flop == 2 * ROWS * WIDTH * DEPTH
    assert (op.read_bytes, op.write_bytes) == (read, written)


def test_four_bit_activations_are_read_at_four_bits() -> None:
    precision = Precision(weights="nvfp4", activations="nvfp4", kv="fp8")
    at = share(hidden=64, layout=Layout(), precision=precision)
    op = gemm("x", at, m=ROWS, n=WIDTH, k=DEPTH, count=1, weights="nvfp4", compute=at.compute)
    four_bits = 0.5 + 1 / 16  # a scale of 8 bits for 16 values
    assert op.read_bytes == pytest.approx(four_bits * (WIDTH * DEPTH + ROWS * DEPTH))


def test_a_cache_in_fp8_is_multiplied_so_by_the_kinds_of_attention_that_do_it_and_by_no_encoder() -> None:
    def attended(kv: str, *, encoder: bool = False) -> list[str]:
        narrow = ("attention_prefill",)
        at = share(hidden=64, layout=Layout(), precision=Precision(kv=kv), encoder=encoder, attends=narrow)
        return [at.attended_in(kind) for kind in ("attention_prefill", "attention_decode")]

    assert attended("fp8") == ["fp8", "bf16"]
    assert attended("bf16") == attended("int8") == attended("fp8", encoder=True) == ["bf16", "bf16"]


MOE = Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=12)


def rank(layout: Layout, precision: Precision = Precision()) -> Share:  # noqa: B008
    return share(hidden=10, layout=layout, precision=precision)


def counted(work: Work) -> list[tuple[str, object]]:
    """Executions, FLOP, bytes read and written of each operator."""
    return [(op.name, (op.count, op.flop, op.read_bytes, op.write_bytes)) for op in work]


def product(m: float, n: float, k: float) -> object:
    """A 16-bit product of three layers: 2 m n k FLOP; reads the n x k matrix and m x k values, writes m x n."""
    return pytest.approx((3, 2 * m * n * k, 2 * n * k + 2 * m * k, 2 * m * n))


def named(work: Work, name: str) -> Operator:
    return next(op for op in work if op.name == name)


@pytest.mark.parametrize(("gated", "matrices"), [(True, 2), (False, 1)])
def test_two_or_three_matrices_over_two_ranks(gated: bool, matrices: int) -> None:
    work = feed_forward_work(Mlp(intermediate_size=12, gated=gated), rank(Layout(tp=2)), rows=20, count=3)
    assert counted(work) == [
        ("feed-forward up", product(20, 6 * matrices, 10)),
        ("activation", pytest.approx((3, 0, 2 * 20 * 6 * matrices, 2 * 20 * 6))),
        ("feed-forward down", product(20, 10, 6)),
    ]


@pytest.mark.parametrize(("gated", "matrices"), [(True, 2), (False, 1)])
def test_a_mixture_on_one_rank(gated: bool, matrices: int) -> None:
    moe = Moe(
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=12,
        gated=gated,
        shared_intermediate_size=4,
        dense_intermediate_size=7,
    )
    work = feed_forward_work(moe, rank(Layout()), rows=20, count=3)
    # 40 token-expert pairs reach 8 (1 - (3/4)^20) experts of 12 x 10 matrices.
    hit = 8 * (1 - 0.75**20)
    up = 12 * matrices
    assert counted(work) == [
        ("router", product(20, 8, 10)),
        ("top-k", pytest.approx((6, 0, 2 * 2 * 20 * 8, 2 * 20 * 2))),
        ("experts up", pytest.approx((3, 2 * 40 * up * 10, 2 * hit * up * 10 + 2 * 40 * 10, 2 * 40 * up))),
        ("experts down", pytest.approx((3, 2 * 40 * 10 * 12, 2 * hit * 10 * 12 + 2 * 40 * 12, 2 * 40 * 10))),
        ("feed-forward up", product(20, 4 * matrices, 10)),
        ("activation", pytest.approx((3, 0, 2 * 20 * 4 * matrices, 2 * 20 * 4))),
        ("feed-forward down", product(20, 10, 4)),
        ("feed-forward up", product(20, 7 * matrices, 10)),
        ("activation", pytest.approx((3, 0, 2 * 20 * 7 * matrices, 2 * 20 * 7))),
        ("feed-forward down", product(20, 10, 7)),
    ]


def test_whole_experts_and_split_ones_over_four_ranks() -> None:
    # Two groups of two ranks: of all 2 x 20 tokens' 80 pairs a group takes half, the fuller one
    # sqrt(2 ln 2 x 2 / 80) more; its ranks split widths of 12 to 6.
    work = feed_forward_work(MOE, rank(Layout(tp=2, dp=2, ep=2)), rows=20, count=3)
    up, down = named(work, "experts up"), named(work, "experts down")
    mine, hit = 40 * (1 + sqrt(log(2) / 20)), 8 * (1 - 0.75**40) / 2
    assert (up.m, up.n, up.k, up.groups) == pytest.approx((mine, 12, 10, hit))
    assert (down.m, down.n, down.k, down.groups) == pytest.approx((mine, 10, 6, hit))
    # One group: every rank computes all pairs in a quarter of the width.
    cut = named(feed_forward_work(MOE, rank(Layout(tp=2, dp=2)), rows=20, count=3), "experts up")
    assert (cut.m, cut.n, cut.k, cut.groups) == pytest.approx((80, 6, 10, 8 * (1 - 0.75**40)))
    # More groups than ranks: as many as there are ranks.
    all_ = named(feed_forward_work(MOE, rank(Layout(tp=2, ep=16)), rows=20, count=3), "experts down")
    assert (all_.m, all_.k) == pytest.approx((20 * (1 + sqrt(2 * log(2) * 2 / 40)), 12))


def test_experts_in_a_latent_width() -> None:
    moe = Moe(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=12, latent_size=5)
    work = feed_forward_work(moe, rank(Layout()), rows=20, count=3)
    found = dict(counted(work))
    assert found["latent down"] == product(20, 5, 10)
    assert found["latent up"] == product(20, 10, 5)
    assert named(work, "experts up").flop == 2 * 40 * 24 * 5
    assert named(work, "experts down").flop == 2 * 40 * 5 * 12


@pytest.mark.parametrize(
    ("weights", "activations", "weight_bytes", "input_bytes"),
    [
        ("fp8", "fp8", 1, 1),
        ("fp8", "bf16", 1, 2),
        ("nvfp4", "nvfp4", 4.5 / 8, 4.5 / 8),
        ("awq", "bf16", 4.15625 / 8, 2),
    ],
)
def test_bytes_of_narrow_experts(weights: str, activations: str, weight_bytes: float, input_bytes: float) -> None:
    at = rank(Layout(), Precision(weights=weights, activations=activations))
    up = named(feed_forward_work(MOE, at, rows=20, count=3), "experts up")
    hit = 8 * (1 - 0.75**20)
    assert up.read_bytes == pytest.approx(weight_bytes * hit * 24 * 10 + input_bytes * 40 * 10)
    assert up.write_bytes == 2 * 40 * 24


def test_a_token_reaches_its_own_experts_and_many_reach_all() -> None:
    assert experts_hit(num_experts=8, num_experts_per_tok=2, tokens=0.5) == 2  # at least one token
    assert experts_hit(num_experts=8, num_experts_per_tok=2, tokens=2) == 8 * (1 - 9 / 16)


def test_the_fullest_rank_holds_at_most_twice_the_mean() -> None:
    assert load_imbalance(rows=100, ranks=1) == load_imbalance(rows=0, ranks=4) == 1
    assert load_imbalance(rows=1, ranks=8) == 2
    assert load_imbalance(rows=1, ranks=1.5) == 1.5
    assert load_imbalance(rows=1000, ranks=4) == pytest.approx(1 + sqrt(2 * log(4) * 4 / 1000))


def test_skewed_routing_reaches_fewer_experts_and_each_token_its_own() -> None:
    assert skewed_experts_hit(128, 8, tokens=1.0) == pytest.approx(8.0)
    reached = [skewed_experts_hit(128, 8, tokens=float(tokens)) for tokens in (1, 2, 4, 16, 64, 4096)]
    assert reached == sorted(reached)
    assert all(
        found <= experts_hit(num_experts=128, num_experts_per_tok=8, tokens=tokens) + 1e-9
        for found, tokens in zip(reached, (1, 2, 4, 16, 64, 4096), strict=True)
    )
    assert reached[-1] > 127.0
    assert skewed_experts_hit(8, 8, tokens=5.0) == pytest.approx(8.0)
