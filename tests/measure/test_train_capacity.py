"""Accelerator-hours from a measured run: the arithmetic by hand, scaling measured and assumed, the command."""

import json
from datetime import date
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tonnage.cli import root
from tonnage.domain.train_measurement import (
    TRAIN_MEASUREMENT_SCHEMA,
    CheckpointTimes,
    StepTimes,
    TrainMeasurement,
    TrainRun,
)
from tonnage.errors import BadRequest, Unmeasured
from tonnage.measure.capacity import Work, budget_of


def run(devices: int, step_s: float, efficiency: float | None = None) -> TrainRun:
    return TrainRun(
        devices=devices,
        steps=50,
        step_s=step_s,
        parts=StepTimes(forward_s=step_s / 3, backward_s=2 * step_s / 3),
        tokens_per_step=4096.0 * devices,
        samples_per_step=4.0 * devices,
        efficiency=efficiency,
    )


def measured(*runs: TrainRun) -> TrainMeasurement:
    return TrainMeasurement(
        schema=TRAIN_MEASUREMENT_SCHEMA, tool="tonnage", runs=runs, checkpoint=CheckpointTimes(writes=2, write_s=3.0)
    )


ONE = measured(run(1, 0.50, 1.0), run(2, 0.50, 1.0), run(4, 0.625, 0.8), run(8, 0.78125, 0.64))


def test_hours_are_devices_times_steps_times_step_with_headroom() -> None:
    found = budget_of(ONE, Work(tokens=8 * 4096 * 1000.0, retries=0.1, validation=0.05, experiments=0.25))
    assert (found.devices, found.steps, found.basis) == (8, 1000, "measured")
    assert found.run_s == pytest.approx(781.25)
    assert found.total_s == pytest.approx(781.25 * 1.4)
    assert found.accelerator_hours == pytest.approx(8 * 781.25 * 1.4 / 3600)
    assert sum(phase.accelerator_hours for phase in found.phases) == pytest.approx(found.accelerator_hours)
    assert found.phases[-1].end_s == pytest.approx(found.total_s)


def test_beyond_what_was_measured_the_last_loss_goes_on_and_is_said() -> None:
    found = budget_of(ONE, Work(tokens=16 * 4096 * 1000.0, devices=16))
    assert found.basis == "assumed" and found.scaling == pytest.approx(0.64 * 0.8)
    assert found.step_s == pytest.approx(0.5 / (0.64 * 0.8))
    assert found.steps == 1000 and any("not measured" in reason for reason in found.reasons)
    alone = budget_of(measured(run(8, 0.5)), Work(tokens=16 * 4096 * 1000.0, devices=16))
    assert alone.step_s == pytest.approx(0.5) and any("perfect scaling" in reason for reason in alone.reasons)


def test_a_deadline_takes_the_fewest_devices_that_meet_it() -> None:
    work = Work(tokens=4096 * 1e5, deadline_s=20_000.0)
    found = budget_of(ONE, work)
    assert found.fits_deadline and found.total_s <= 20_000.0
    fewer = budget_of(ONE, msgspec.structs.replace(work, devices=found.devices // 2))
    assert not fewer.fits_deadline
    never = budget_of(measured(run(1, 0.5, 1.0), run(2, 1.0, 0.5)), Work(tokens=4096 * 1e9, deadline_s=60.0))
    assert never.fits_deadline is False


def test_a_timeline_has_dates_and_part_of_a_day_takes_longer_for_the_same_hours() -> None:
    whole = budget_of(ONE, Work(steps=100_000, start=date(2026, 12, 1)))
    half = budget_of(ONE, Work(steps=100_000, start=date(2026, 12, 1), share_of_day=0.5))
    assert whole.phases[0].begin == "2026-12-01T00:00" and whole.phases[0].name == "experiments"
    assert half.total_s == pytest.approx(2 * whole.total_s)
    assert half.accelerator_hours == pytest.approx(whole.accelerator_hours)


def test_what_cannot_be_answered_is_said() -> None:
    with pytest.raises(BadRequest, match="give one of"):
        budget_of(ONE, Work())
    with pytest.raises(BadRequest, match="--devices"):
        budget_of(ONE, Work(steps=10, devices=0))
    bare = measured(TrainRun(devices=1, steps=5, step_s=0.5, parts=StepTimes()))
    with pytest.raises(Unmeasured, match="tokens"):
        budget_of(bare, Work(tokens=1e6))


def test_the_command_tells_a_training_run_from_a_server(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(msgspec.json.encode(ONE))
    shown = CliRunner().invoke(root, ["measure", "capacity", str(path), "--tokens", "1B", "--start", "2026-12-01"])
    assert shown.exit_code == 0 and "accelerator-hours: 8 accelerators" in shown.stdout, shown.stderr
    assert "2026-12-" in shown.stdout and "reserve for retries" in shown.stdout
    found = json.loads(CliRunner().invoke(root, ["measure", "capacity", str(path), "--tokens", "1B", "--json"]).stdout)
    assert found["schema"] == "tonnage.train_budget/1"
    for arguments, says in (([], "--tokens"), (["--tokens", "-5"], "--tokens"), (["--rate", "4/s"], "--tokens")):
        wrong = CliRunner().invoke(root, ["measure", "capacity", str(path), *arguments])
        assert wrong.exit_code == 2 and says in wrong.stderr and wrong.stderr.count("\n") == 1
    report = Path(__file__).parents[1] / "data" / "measure" / "guidellm_0.8.1.json"
    without = CliRunner().invoke(root, ["measure", "capacity", str(report)])
    assert without.exit_code == 2 and "--rate" in without.stderr
