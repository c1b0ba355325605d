"""Accelerator-hours from a measured run: the arithmetic by hand, scaling measured and assumed, the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.asked import Refused, printed, told

SCHEMA = "tonnage.train_measurement/1"


def run(devices: int, step_s: float, efficiency: float | None = None) -> dict[str, Any]:
    return {
        "devices": devices,
        "steps": 50,
        "step_s": step_s,
        "parts": {"forward_s": step_s / 3, "backward_s": 2 * step_s / 3},
        "tokens_per_step": 4096.0 * devices,
        "samples_per_step": 4.0 * devices,
        "efficiency": efficiency,
    }


ONE = (run(1, 0.50, 1.0), run(2, 0.50, 1.0), run(4, 0.625, 0.8), run(8, 0.78125, 0.64))


def measured(folder: Path, *runs: dict[str, Any]) -> str:
    """The file of a measurement."""
    path = folder / "run.json"
    checkpoint = {"writes": 2, "write_s": 3.0}
    path.write_text(json.dumps({"schema": SCHEMA, "tool": "tonnage", "runs": runs, "checkpoint": checkpoint}))
    return str(path)


def budget_of(file: str, *work: str) -> Any:
    return told("measure", "capacity", file, *work)


def test_hours_are_devices_times_steps_times_step_with_headroom(tmp_path: Path) -> None:
    headroom = ("--retries", "10%", "--validation", "5%", "--experiments", "25%")
    found = budget_of(measured(tmp_path, *ONE), "--tokens", "32.768M", *headroom)
    assert (found.devices, found.steps, found.basis) == (8, 1000, "measured")
    assert found.run_s == pytest.approx(781.25)
    assert found.total_s == pytest.approx(781.25 * 1.4)
    assert found.accelerator_hours == pytest.approx(8 * 781.25 * 1.4 / 3600)
    assert sum(phase.accelerator_hours for phase in found.phases) == pytest.approx(found.accelerator_hours)
    assert found.phases[-1].end_s == pytest.approx(found.total_s)


def test_beyond_what_was_measured_the_last_loss_goes_on_and_is_said(tmp_path: Path) -> None:
    work = ("--tokens", "65.536M", "--devices", "16")
    found = budget_of(measured(tmp_path, *ONE), *work)
    assert found.basis == "assumed" and found.scaling == pytest.approx(0.64 * 0.8)
    assert found.step_s == pytest.approx(0.5 / (0.64 * 0.8))
    assert found.steps == 1000 and any("not measured" in reason for reason in found.reasons)
    alone = budget_of(measured(tmp_path, run(8, 0.5)), *work)
    assert alone.step_s == pytest.approx(0.5) and any("perfect scaling" in reason for reason in alone.reasons)


def test_a_deadline_takes_the_fewest_devices_that_meet_it(tmp_path: Path) -> None:
    file, work = measured(tmp_path, *ONE), ("--tokens", "409.6M", "--deadline", "20000 s")
    found = budget_of(file, *work)
    assert found.fits_deadline and found.total_s <= 20_000.0
    fewer = budget_of(file, *work, "--devices", str(found.devices // 2))
    assert not fewer.fits_deadline
    halves = measured(tmp_path, run(1, 0.5, 1.0), run(2, 1.0, 0.5))
    never = budget_of(halves, "--tokens", "4096B", "--deadline", "60 s")
    assert never.fits_deadline is False


def test_a_timeline_has_dates_and_part_of_a_day_takes_longer_for_the_same_hours(tmp_path: Path) -> None:
    file, work = measured(tmp_path, *ONE), ("--steps", "100000", "--start", "2026-12-01")
    whole, half = budget_of(file, *work), budget_of(file, *work, "--share-of-day", "50%")
    assert whole.phases[0].begin == "2026-12-01T00:00" and whole.phases[0].name == "experiments"
    assert half.total_s == pytest.approx(2 * whole.total_s)
    assert half.accelerator_hours == pytest.approx(whole.accelerator_hours)


@pytest.mark.parametrize(
    ("work", "says"),
    [
        ((), "give one of .*--tokens"),
        (("--tokens", "-5"), "--tokens"),
        (("--rate", "4/s"), "--tokens"),
        (("--steps", "10", "--devices", "0"), "--devices"),
    ],
)
def test_what_cannot_be_answered_is_said(work: tuple[str, ...], says: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=says):
        budget_of(measured(tmp_path, *ONE), *work)


def test_what_a_file_does_not_say_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="tokens"):
        budget_of(measured(tmp_path, {"devices": 1, "steps": 5, "step_s": 0.5, "parts": {}}), "--tokens", "1M")
    with pytest.raises(Refused, match="--rate"):
        budget_of(str(Path(__file__).parents[1] / "data" / "measure" / "guidellm_0.8.1.json"))


def test_the_command_tells_a_training_run_from_a_server(tmp_path: Path) -> None:
    path = measured(tmp_path, *ONE)
    shown, _ = printed("measure", "capacity", path, "--tokens", "1B", "--start", "2026-12-01")
    assert "accelerator-hours: 8 accelerators" in shown
    assert "2026-12-" in shown and "reserve for retries" in shown
    assert budget_of(path, "--tokens", "1B").schema == "tonnage.train_budget/1"
