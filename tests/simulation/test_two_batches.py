"""Half of a step's rows compute while the others are exchanged between nodes: wide expert parallelism."""

from msgspec.structs import replace

from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.layout import Layout
from tonnage.planning.deployment import resolve
from tonnage.simulation.overheads import Overheads
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
