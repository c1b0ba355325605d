"""The run over time: conservation, spread, spot, and laws that hold for any run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage.simulation.run import Cluster, RunSpec, run_over_time, spot_mix

CLUSTER = Cluster(
    nodes=64,
    per_node_day=0.009,
    per_node_day_low=0.003,
    per_node_day_high=0.024,
    restart_s=240,
    restart_low_s=60,
    restart_high_s=900,
    start_s=180,
)
SPEC = RunSpec(
    steps=50000,
    step_s=10.0,
    step_factor=1.2,
    validation=0.01,
    headroom=0.1,
    checkpoint_bytes=1e12,
    blocking_s=2.0,
    write_s=30.0,
    cluster=CLUSTER,
)


def test_wall_time_is_the_sum_of_what_it_is_spent_on() -> None:
    run = run_over_time(SPEC)
    work = run.training_s + run.validation_s
    middle = work / run.useful_time_fraction.value
    assert run.wall_s.value == pytest.approx(middle + run.start_s + run.headroom_s + run.waiting_s)
    assert run.interruptions == pytest.approx(middle / run.between_s)
    assert run.billed_s == pytest.approx(run.wall_s.value)


def test_the_interval_is_ordered_and_wider_than_the_step_alone() -> None:
    run = run_over_time(SPEC)
    useful = run.useful_time_fraction
    assert useful.low <= run.useful_p90 <= useful.value <= useful.high < 1
    assert run.wall_s.value < run.wall_p90_s < (run.wall_s.high or 0)
    assert (run.wall_s.high or 0) / run.wall_s.value >= SPEC.step_factor


def test_a_short_run_is_mostly_never_interrupted() -> None:
    run = run_over_time(replace(SPEC, steps=10, cluster=replace(CLUSTER, nodes=1)))
    assert run.interruptions < 0.01
    assert run.useful_time_fraction.value > 0.97


@given(st.floats(1.1, 20))
def test_more_nodes_never_keep_more(factor: float) -> None:
    few = run_over_time(SPEC)
    many = run_over_time(replace(SPEC, cluster=replace(CLUSTER, nodes=CLUSTER.nodes * factor)))
    assert many.useful_time_fraction.value <= few.useful_time_fraction.value + 1e-9
    assert many.checkpoint_interval_s <= few.checkpoint_interval_s + 1e-9


@given(st.floats(1.1, 10))
def test_blocking_longer_never_ends_sooner(factor: float) -> None:
    slow = run_over_time(replace(SPEC, blocking_s=SPEC.blocking_s * factor))
    assert slow.wall_s.value >= run_over_time(SPEC).wall_s.value * 0.999


def test_spot_adds_stops_and_waiting_that_nobody_bills() -> None:
    run = run_over_time(replace(SPEC, cluster=replace(CLUSTER, spot_up_s=7200.0, spot_down_s=3600.0)))
    assert run.between_s < 7200
    assert run.waiting_s == pytest.approx((run.wall_s.value - run.waiting_s - run.headroom_s - run.start_s) / 2)
    assert run.billed_s == pytest.approx(run.wall_s.value - run.waiting_s)


def test_capacity_that_never_lasts_gets_nowhere() -> None:
    run = run_over_time(replace(SPEC, write_s=300.0, cluster=replace(CLUSTER, spot_up_s=2.0)))
    assert run.useful_time_fraction.value == 0.0


def test_a_mix_does_the_work_by_the_deadline() -> None:
    mix = spot_mix(
        work_s=36e3, deadline_s=72e3, spot_share=0.4, up_share=0.5, spot_usd_per_h=1.0, on_demand_usd_per_h=3.0
    )
    done = mix.on_demand_s + (72e3 - mix.on_demand_s) * 0.4
    assert done == pytest.approx(36e3)


@given(st.floats(0.05, 0.9), st.floats(1.0, 3.0))
def test_a_mix_never_costs_more_than_on_demand_when_spot_is_worth_it(share: float, slack: float) -> None:
    mix = spot_mix(
        work_s=36e3,
        deadline_s=36e3 * slack,
        spot_share=share,
        up_share=share,
        spot_usd_per_h=1.0,
        on_demand_usd_per_h=3.0,
    )
    assert 0.0 <= mix.on_demand_s <= 36e3 * slack * (1 + 1e-9)
    done = mix.on_demand_s + (36e3 * slack - mix.on_demand_s) * share
    assert done >= 36e3 * (1 - 1e-9)  # by the deadline
    assert mix.usd <= 36e3 / 3600 * 3.0 * (1 + 1e-9)


def test_more_work_than_time_cannot_be_mixed() -> None:
    mix = spot_mix(work_s=2.0, deadline_s=1.0, spot_share=0.5, up_share=0.5, spot_usd_per_h=1, on_demand_usd_per_h=2)
    assert mix is None
