"""Grids: what was measured comes back, what lies between stays between, other machines are rescaled."""

from array import array
from math import log

import pytest

from tonnage.domain.efficiency import LOG_STEP, Grid, Ladder, Machine
from tonnage.physics.efficiency import grid_s, model_s, smooth_max, weakest_rung

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


def test_a_borrowed_rung_is_less_sure_than_an_own_one() -> None:
    ladder = Ladder(spread={"gemm": {"own": 0.1, "generation": 0.5}})
    assert ladder.half_width("gemm", "own") == 0.1
    assert ladder.half_width("convolution", "generation") == 0.5
    assert ladder.half_width("gemm", "generic") >= 0.5
