"""Measured grids: how times are read between their points, and weaker rungs."""

from array import array
from math import log

import pytest
from msgspec.structs import replace

from tonnage.catalog import accelerator
from tonnage.catalog.efficiency import ladder
from tonnage.domain.efficiency import LOG_STEP, Grid, Machine
from tonnage.physics.efficiency import grid_s, model_s, smooth_max, weakest_rung
from tonnage.physics.grid_reading import prompt, stored_over
from tonnage.physics.operators import operator_evidence, operator_s, roofline_of
from tonnage.physics.work import Operator

MACHINE = Machine(peak_flop_per_s=1e15, memory_bytes_per_s=3e12)
FLOOR = 3e-6
SIDES = (1024.0, 4096.0)
ROWS = (1.0, 64.0, 4096.0)


def made_from(seconds: dict[tuple[float, float, float], float], **changes: object) -> Grid:
    """A grid of bf16 products through exactly these times."""
    excess = []
    for n in SIDES:
        for k in SIDES:
            for m in ROWS:
                demand = (2 * m * n * k, 2 * n * k + 2 * m * (n + k), 0.0)
                excess.append(round(log(seconds[n, k, m] / model_s(demand, MACHINE, floor_s=FLOOR)) / LOG_STEP))
    axes = tuple(tuple(log(value) for value in axis) for axis in (SIDES, SIDES, ROWS))
    fields = {"kind": "gemm", "axes": axes, "excess": array("h", excess), "floor_s": FLOOR} | changes
    return Grid(**fields)  # type: ignore[arg-type]


TIMES = {(n, k, m): 5e-6 + 1e-12 * n * k * (1 + m / 100) for n in SIDES for k in SIDES for m in ROWS}
GRID = made_from(TIMES)


def seconds(grid: Grid, n: float, k: float, m: float, machine: Machine = MACHINE) -> float:
    return grid_s(grid, (n, k, m), machine=machine, weights_bytes=2.0, width=1.0)


@pytest.mark.parametrize("point", sorted(TIMES))
def test_a_node_gives_what_was_measured_there(point: tuple[float, float, float]) -> None:
    assert seconds(GRID, *point) == pytest.approx(TIMES[point], rel=1e-3)


def test_between_two_nodes_lies_between_their_times() -> None:
    low, high = seconds(GRID, 4096, 4096, 64), seconds(GRID, 4096, 4096, 4096)
    assert low < seconds(GRID, 4096, 4096, 1000) < high


def test_beyond_the_grid_time_follows_the_roofline() -> None:
    assert seconds(GRID, 4096, 4096, 40960) / seconds(GRID, 4096, 4096, 4096) == pytest.approx(10, rel=0.15)


def test_below_the_grid_nothing_beats_the_floor_by_much() -> None:
    assert seconds(GRID, 1, 1, 1) >= 0.5 * FLOOR


def test_a_dip_in_the_measurements_is_lifted_to_what_came_before() -> None:
    dipped = made_from(TIMES | {(4096.0, 4096.0, 64.0): TIMES[4096.0, 4096.0, 1.0] / 2})
    assert seconds(dipped, 4096, 4096, 64) == pytest.approx(seconds(dipped, 4096, 4096, 1))


def test_twice_the_machine_halves_all_but_the_floor() -> None:
    twice = Machine(peak_flop_per_s=2e15, memory_bytes_per_s=6e12)
    big = seconds(GRID, 4096, 4096, 4096, twice) / seconds(GRID, 4096, 4096, 4096)
    small = seconds(GRID, 1024, 1024, 1, twice) / seconds(GRID, 1024, 1024, 1)
    assert 0.5 <= big < 0.6 < small < 1


def test_a_smaller_part_is_as_busy_with_less_to_do() -> None:
    # Twice as efficient at 4096 outputs than at 1024: half the multiprocessors get there at half the outputs.
    times = {p: t * (2 if p[0] == 1024.0 else 1) for p, t in TIMES.items()}
    plain, half = made_from(times), made_from(times, crowding=2.0)
    assert seconds(half, 2048, 4096, 4096) < seconds(plain, 2048, 4096, 4096)
    assert seconds(half, 4096, 4096, 4096) == pytest.approx(seconds(plain, 4096, 4096, 4096))


def test_smooth_max_is_never_below_the_roofline_and_rounds_its_knee() -> None:
    assert smooth_max(compute_s=3.0, memory_s=1e-6) == 3.0
    assert smooth_max(compute_s=1.0, memory_s=1.0) == pytest.approx(2**0.25)


def test_the_weakest_rung_is_the_one_a_sum_rests_on() -> None:
    assert weakest_rung(("own", "generation", "architecture")) == "generation"
    assert weakest_rung(()) == "own"


QUERY = 16384.0
PROMPT = Operator(
    kind="attention_prefill",
    name="prefill",
    weights="fp8",
    compute="fp8",
    flop=2.0 * 32 * 128 * QUERY * QUERY,
    read_bytes=2.0 * 8 * 128 * QUERY,
    m=QUERY,
    batch=1,
    heads=32,
    kv_heads=8,
    head_dim=128,
)


def key(op: Operator, part: str, family: str) -> tuple[str, str]:
    there = accelerator(part)
    _, evidence = operator_evidence(op, accelerator=there, ladder=ladder(there, family=family))
    return evidence.grid, evidence.file.split(".")[-2]


def test_an_engine_reads_its_own_table_of_such_a_cache_before_anothers_of_the_same_arithmetic() -> None:
    h100 = "h100-sxm5-80gb"
    assert key(PROMPT, h100, "trtllm") == ("attention_prefill/fp8/fp8/128", "trtllm")
    assert key(PROMPT, h100, "sglang") == ("attention_prefill/fp8/fp8/128", "sglang")
    assert key(PROMPT, h100, "vllm") == ("attention_prefill/bf16/fp8/128", "vllm")
    assert key(replace(PROMPT, compute="bf16"), h100, "trtllm") == ("attention_prefill/bf16/fp8/128", "trtllm")
    assert key(replace(PROMPT, weights="bf16", compute="bf16"), h100, "sglang")[0] == "attention_prefill/bf16/bf16/128"


def test_no_part_borrows_a_16_bit_cache_where_one_of_8_bits_was_timed() -> None:
    a100 = accelerator("a100-sxm4-80gb")
    found = prompt(replace(PROMPT, compute="bf16"), ladder(a100, family="vllm"))
    assert found[0].weights_bytes == 1.0


def test_a_grid_is_read_over_the_arithmetic_it_was_stored_over() -> None:
    h100 = accelerator("h100-sxm5-80gb")
    known = ladder(h100, family="trtllm")
    step = Operator(
        kind="attention_decode", name="a", weights="fp8", compute="fp8", flop=4.0 * 32 * 128 * 64 * 4096,
        read_bytes=2.0 * 8 * 128 * 64 * 4096, m=64, batch=64, context=4096, heads=32, kv_heads=8, head_dim=128,
    )  # fmt: skip
    assert stored_over(PROMPT, known.grids["attention_prefill/fp8/fp8/128"]) == "fp8"
    assert stored_over(PROMPT, known.grids["attention_prefill/bf16/fp8/128"]) == "bf16"
    assert stored_over(step, known.grids["attention_decode/fp8/128"]) == "bf16"
    # What was timed is what comes out, whatever an operator says of its arithmetic; its roofline follows it.
    wide = replace(step, compute="bf16")
    assert operator_s(step, accelerator=h100, ladder=known) == operator_s(wide, accelerator=h100, ladder=known)
    narrow_s, _ = roofline_of(PROMPT, accelerator=h100, ladder=known)
    wide_s, _ = roofline_of(replace(PROMPT, compute="bf16"), accelerator=h100, ladder=known)
    assert wide_s > 1.9 * narrow_s


def test_prompts_in_fp8_take_less_time_without_tables_and_less_than_half_is_not_gained() -> None:
    part = accelerator("mi300x")
    known = ladder(part)
    narrow, *_ = operator_s(PROMPT, accelerator=part, ladder=known)
    wide, *_ = operator_s(replace(PROMPT, compute="bf16"), accelerator=part, ladder=known)
    assert 0.5 < narrow / wide < 0.95
