"""Laws of operator times: a better part is never slower, more work is never faster, splitting never saves."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage.catalog import accelerator
from tonnage.catalog.efficiency import ladder
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import Ladder
from tonnage.physics.operators import operator_s
from tonnage.physics.work import Operator

PARTS = ["h100-sxm5-80gb", "b200-sxm-180gb", "rtx-4090", "a10", "t4", "mi300x"]
parts = st.sampled_from(PARTS)
sizes = st.integers(32, 65536)
rows = st.integers(1, 40000)
formats = st.sampled_from([("bf16", "bf16"), ("fp8", "fp8"), ("awq", "bf16"), ("nvfp4", "fp4")])
factors = st.floats(1.0, 8.0)
ROUNDING = 1 + 1e-9


@cache
def known(part: str) -> tuple[Accelerator, Ladder]:
    there = accelerator(part)
    return there, ladder(there)


def seconds(op: Operator, part: str, **changes: object) -> float:
    there, grids = known(part)
    return operator_s(op, accelerator=replace(there, **changes), ladder=grids)[0]  # type: ignore[arg-type]


def gemm(m: float, n: float, k: float, weights: str = "bf16", compute: str = "bf16") -> Operator:
    return Operator(
        kind="gemm",
        name="gemm",
        weights=weights,
        compute=compute,
        flop=2.0 * m * n * k,
        m=m,
        n=n,
        k=k,
        read_bytes=2.0 * n * k + 2.0 * m * k,
        write_bytes=2.0 * m * n,
    )


def decode(batch: float, context: float) -> Operator:
    return Operator(
        kind="attention_decode",
        name="decode",
        flop=16384.0 * batch * context,
        m=batch,
        batch=batch,
        read_bytes=4096.0 * batch * context,
        context=context,
        heads=32,
        kv_heads=8,
        head_dim=128,
    )


def prefill(batch: float, query: float, cached: float) -> Operator:
    tokens = batch * query
    return Operator(
        kind="attention_prefill",
        name="prefill",
        flop=16384.0 * tokens * (cached + query / 2),
        m=tokens,
        batch=batch,
        read_bytes=tokens * 12288.0,
        write_bytes=tokens * 8192.0,
        context=cached,
        heads=32,
        kv_heads=8,
        head_dim=128,
    )


@given(parts, rows, sizes, sizes, formats, factors, factors)
def test_more_bandwidth_or_compute_never_slows_a_product(
    part: str, m: int, n: int, k: int, pair: tuple[str, str], bandwidth: float, compute: float
) -> None:
    op, there = gemm(m, n, k, *pair), known(part)[0]
    base = seconds(op, part)
    faster = {dtype: peak * compute for dtype, peak in there.peaks.items()}
    assert seconds(op, part, memory_bytes_per_s=there.memory_bytes_per_s * bandwidth) <= base * ROUNDING
    assert seconds(op, part, peaks=faster) <= base * ROUNDING


@given(parts, st.integers(1, 1024), st.integers(1, 200000), factors)
def test_more_bandwidth_never_slows_attention(part: str, batch: int, context: int, bandwidth: float) -> None:
    faster = known(part)[0].memory_bytes_per_s * bandwidth
    for op in (decode(batch, context), prefill(1, context, 0)):
        assert seconds(op, part, memory_bytes_per_s=faster) <= seconds(op, part) * ROUNDING


@given(parts, st.sampled_from([2, 4, 8]), st.floats(1, 1e9), factors,
       st.sampled_from(["all_reduce", "all_gather", "all_to_all", "point_to_point"]))  # fmt: skip
def test_a_faster_link_never_slows(part: str, ranks: int, message: float, faster: float, kind: str) -> None:
    there, grids = known(part)
    op = Operator(kind=kind, name="exchange", message_bytes=message, ranks=ranks)  # type: ignore[arg-type]
    better = replace(
        there,
        link=replace(there.link, bytes_per_s=there.link.bytes_per_s and there.link.bytes_per_s * faster),
        host_link=replace(there.host_link, bytes_per_s=(there.host_link.bytes_per_s or 0.0) * faster or None),
    )
    base, *_ = operator_s(op, accelerator=there, ladder=grids)
    assert operator_s(op, accelerator=better, ladder=grids)[0] <= base * ROUNDING
    assert (
        operator_s(replace(op, message_bytes=message * faster), accelerator=there, ladder=grids)[0] >= base / ROUNDING
    )


@given(parts, rows, factors, sizes, sizes, formats)
def test_more_tokens_are_never_faster(part: str, m: int, more: float, n: int, k: int, pair: tuple[str, str]) -> None:
    assert seconds(gemm(m * more, n, k, *pair), part) >= seconds(gemm(m, n, k, *pair), part) / ROUNDING


@given(parts, st.integers(1, 512), st.integers(1, 100000), factors)
def test_more_context_is_never_faster(part: str, batch: int, context: int, more: float) -> None:
    assert seconds(decode(batch, context * more), part) >= seconds(decode(batch, context), part) / ROUNDING


@given(parts, st.integers(1, 16), st.integers(1, 30000), st.integers(0, 100000), factors)
def test_a_longer_prompt_or_prefix_is_never_faster(part: str, batch: int, query: int, cached: int, more: float) -> None:
    base = seconds(prefill(batch, query, cached), part) / ROUNDING
    assert seconds(prefill(batch, query * more, cached), part) >= base
    assert seconds(prefill(batch, query, cached * more), part) >= base


@given(parts, rows, sizes, sizes, st.sampled_from([2, 4, 8]))
def test_splitting_a_product_over_ranks_never_saves_work_in_total(part: str, m: int, n: int, k: int, tp: int) -> None:
    there, bare = known(part)[0], Ladder()
    whole, *_ = operator_s(gemm(m, n, k), accelerator=there, ladder=bare)
    for split in (gemm(m, n / tp, k), gemm(m, n, k / tp)):
        assert tp * operator_s(split, accelerator=there, ladder=bare)[0] >= whole / ROUNDING


@pytest.mark.parametrize(("m", "low", "high"), [(1, 1.10, 1.60), (32, 1.10, 1.60), (8192, 0.85, 1.15)])
def test_h200_beats_h100_where_memory_binds_and_only_there(m: int, low: float, high: float) -> None:
    op = gemm(m, 8192, 8192)
    assert low < seconds(op, "h100-sxm5-80gb") / seconds(op, "h200-sxm-141gb") < high


@given(st.sampled_from(["jetson-thor-t5000", "rtx-4090", "h20-sxm-96gb"]), st.integers(2, 8), sizes, sizes)
def test_one_token_reads_its_experts_on_a_part_that_borrows_its_table(part: str, chosen: int, n: int, k: int) -> None:
    there, least = known(part)[0], 2.0 * chosen * n * k
    op = Operator(
        kind="grouped_gemm",
        name="experts",
        flop=2.0 * chosen * n * k,
        m=chosen,
        n=n,
        k=k,
        groups=chosen,
        read_bytes=least,
        write_bytes=0.0,
        skewed=True,
    )
    assert seconds(op, part) >= least / there.memory_bytes_per_s
