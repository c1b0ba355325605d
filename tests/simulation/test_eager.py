"""Steps launched kernel by kernel, and steps of two batches at once."""

from bisect import bisect_left

import pytest
from msgspec.structs import replace

from tonnage.core.deployment import Deployment, resolve
from tonnage.core.replica import replica_of
from tonnage.core.serving_traffic import grid_of
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Lengths
from tonnage.simulation.step_parts import decode_attention_work, launched_apart, parts_of, rows_work
from tonnage.simulation.steps import step_grid, step_table


def deployed(model: str, weights: str = "fp16", engine: str = "hf", activations: str = "fp16") -> Deployment:
    """One request after another on one A100."""
    return resolve(
        ServeCase(
            model=model,
            accelerator="a100-sxm4-80gb",
            engine=engine,
            isl=16,
            osl=512,
            traffic=Traffic(batch=1),
            precision=Precision(weights=weights, kv="fp16", activations=activations),
        )
    )


@pytest.mark.parametrize(("weights", "further"), [("fp16", 0), ("awq", 0), ("nf4", 2), ("int8_weight", 8)])
def test_each_of_the_seven_matrices_of_a_layer_is_launched_with_what_its_format_needs(
    weights: str, further: int
) -> None:
    # Llama 2: query, key, value, output, gate, up, down where the work list has four products.
    at = deployed("meta-llama/Llama-2-7b-hf", weights)
    assert launched_apart(at.placement) == 32 * (3 + 7 * further)


def test_a_loop_over_experts_launches_every_expert_and_each_matrix_of_it_in_fp8() -> None:
    sixteen = launched_apart(deployed("Qwen/Qwen3-30B-A3B", "bf16").placement)
    eight = launched_apart(deployed("Qwen/Qwen3-30B-A3B", "fp8_block").placement)
    assert sixteen == 48 * (2 * 127 + 2)  # and query, key, value apart
    assert eight - sixteen == 48 * 2 * (4 + 1 + 3 * 128)  # attention, router, three matrices of each expert


def test_other_engines_group_their_products_and_read_the_cache_once() -> None:
    eager, grouped = (deployed("Qwen/Qwen3-8B", engine=engine).placement for engine in ("hf", "vllm"))
    assert launched_apart(grouped) == 0.0
    work = decode_attention_work(eager, 1.0, context=4096.0)
    fused = parts_of(work, replace(eager, eager=None)).attention
    # Four query heads share one of the cache: 3 + 3 x 4 passes.
    assert parts_of(work, eager).attention == pytest.approx(15.0 * fused)


def test_awq_through_its_own_library_launches_fewer_kernels_than_transformers() -> None:
    plain, fused = (deployed("mistralai/Mistral-7B-v0.1", "awq", engine=e) for e in ("hf", "autoawq"))
    assert grid_of(fused).launches == grid_of(plain).launches - 32 * 3


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
