"""Half of a step's rows compute while the others are exchanged between nodes: wide expert parallelism."""

from bisect import bisect_left

import pytest
from msgspec.structs import replace

from tonnage.core.deployment import resolve
from tonnage.core.replica import replica_of
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.domain.requests.common import Lengths
from tonnage.simulation.step_parts import parts_of, rows_work
from tonnage.simulation.steps import step_grid, step_table

PUBLISHED_TOKENS_PER_S = 22_282 / 8
"""Of one H100: DeepSeek decode over nine nodes of eight, 256 sequences a GPU that began with 2,000 tokens, SGLang with
DeepEP and two-batch overlap (lmsys.org/blog/2025-05-05-large-scale-ep). No number here was fitted to it. [tokens/s]"""
EACH, CONTEXT = 256.0, 2050.0

AT = resolve(
    ServeCase(
        model="deepseek-ai/DeepSeek-R1",
        accelerator="h100-sxm5-80gb",
        traffic=Traffic(concurrency=72 * EACH),
        isl=2000.0,
        osl=100.0,
        layout=Layout(dp=72, ep=72),
        engine="sglang",
        engine_version="0.4.6",
    )
)


def decode_s(two_batches: bool, sequences: float) -> float:
    placement = replace(AT.placement, two_batches=two_batches)
    grid = step_grid(placement, batch=72 * EACH, context=CONTEXT, chunk=8192.0, prompt=2000.0)
    return step_table(grid, AT.overheads).decode_s(72 * sequences, CONTEXT)


def test_wide_expert_parallelism_decodes_as_fast_as_was_published() -> None:
    assert AT.placement.two_batches
    assert any("--enable-two-batch-overlap" in note for note in AT.notes)
    assert 0.85 < EACH / decode_s(True, EACH) / PUBLISHED_TOKENS_PER_S < 1.15


def test_the_exchange_hides_beside_products_and_never_costs_more() -> None:
    assert decode_s(True, EACH) < 0.8 * decode_s(False, EACH)
    for sequences in (1.0, 16.0, 64.0):
        assert decode_s(True, sequences) <= decode_s(False, sequences)


def test_nothing_is_hidden_inside_a_node() -> None:
    inside = replace(AT.placement, layout=Layout(dp=8, ep=8))
    grid = step_grid(inside, batch=8 * EACH, context=CONTEXT, chunk=8192.0, prompt=2000.0)
    assert step_table(grid, Overheads()).beside_s == ()


def test_steady_states_hide_the_exchange_as_tables_do() -> None:
    lengths = Lengths(prompt_tokens=2000.0, output_tokens=100.0)
    replica = replica_of(AT, lengths)
    assert replica.times is not None
    at = bisect_left(replica.times.batches, 4096.0)
    grid = step_grid(AT.placement, batch=72 * EACH, context=2100.0, chunk=8192.0, prompt=2000.0)
    table = step_table(grid, AT.overheads)
    assert replica.times.batches[at] == 4096.0
    assert replica.times.decode_s[at] == pytest.approx(table.decode_s(4096.0, CONTEXT), rel=0.1)
    alone = replace(AT, placement=replace(AT.placement, two_batches=False))
    assert replica.times.decode_s[-1] < 0.8 * replica_of(alone, lengths).times.decode_s[-1]  # type: ignore[union-attr]


def test_skew_of_routers_costs_until_busy_experts_are_copied() -> None:
    rows = rows_work(AT.placement, 256.0)[0]
    assert {op.skewed for op in rows if op.kind == "grouped_gemm"} == {True}

    def experts_s(**changed: object) -> float:
        placement = replace(AT.placement, **changed)
        return parts_of(rows_work(placement, 256.0)[0], placement).experts_compute

    assert AT.placement.balanced
    assert experts_s() < experts_s(balanced=False)
    narrow = Layout(dp=8, ep=8)
    assert experts_s(layout=narrow) == experts_s(layout=narrow, balanced=False)
