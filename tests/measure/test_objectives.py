"""What a measured load says of objectives: met or missed, and how many replicas follow."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import told

LOAD = {
    "concurrency": 4, "requests": 100, "completed": 100, "requests_per_s": 2.0,
    "ttft_s": {"p90": 0.5, "p95": 0.762, "p99": 2.0}, "tpot_s": {"p95": 0.015},
}  # fmt: skip
TAIL = {
    "rate_per_s": 5.0, "requests": 200, "completed": 200, "duration_s": 45.4, "arrivals_s": 40.0, "requests_per_s": 4.4,
    "ttft_s": {"p95": 0.2}, "e2e_s": {"p50": 5.0},
}  # fmt: skip
"""200 requests came in 40 s at 5/s, and the last was answered 5.4 s later: 4.4/s are counted."""


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_HISTORY", "off")


def measured(folder: Path, *points: dict[str, Any], **fields: Any) -> str:
    """A file that says what was measured."""
    path = folder / "found.json"
    path.write_text(
        json.dumps({"schema": "tonnage.measurement/1", "tool": "tonnage", "points": points, **fields}), "utf-8"
    )
    return str(path)


def test_a_rate_that_was_kept_up_with_is_sustained_whole(tmp_path: Path) -> None:
    def sized(**changes: Any) -> Any:
        file = measured(tmp_path, {**TAIL, **changes})
        done = told("measure", "capacity", file, "--rate", "5/s", "--headroom", "0%", "--slo-ttft", "1 s", "--json")
        return json.loads(done.stdout) if done.exit_code == 0 else done.stderr

    assert (sized()["replicas"], sized()["sustained_per_s"]) == (1, 5.0)
    assert sized(arrivals_s=None)["replicas"] == 2, "no one says that it kept up"
    assert "no load in this measurement is sustained" in sized(duration_s=90.0, requests_per_s=2.2)


def test_no_replicas_follow_from_a_run_that_disowns_itself(tmp_path: Path) -> None:
    done = told("measure", "capacity", measured(tmp_path, TAIL, notes=["Not to be used: heat."]), "--rate", "5/s")
    said = "measure again, since the measurement's own note forbids its numbers: Not to be used: heat"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"tonnage: {said}\n")


@pytest.mark.parametrize(
    ("changes", "limits", "said"),
    [
        ({}, {"ttft_s": 1.0, "tpot_s": 0.033}, "met: p95 TTFT 762 ms of 1 s, TPOT 15 ms of 33 ms."),
        ({}, {"ttft_s": 1.0, "tpot_s": 0.01}, "missed: p95 TTFT 762 ms of 1 s, TPOT 15 ms of 10 ms (missed)."),
        ({}, {"ttft_s": 1.0, "percentile": 99.0}, "missed: p99 TTFT 2 s of 1 s (missed)."),
        ({}, {"e2e_s": 1.0}, "not judged: p95 E2E not measured of 1 s."),
        ({"failures": {"timeout": 6}}, {"ttft_s": 1.0},
         "missed: p95 TTFT 762 ms of 1 s, 6 requests failed (missed)."),
        ({"failures": {"timeout": 5}}, {"ttft_s": 1.0}, "met: p95 TTFT 762 ms of 1 s."),
        ({"stopped": "over-saturated"}, {"ttft_s": 1.0}, "not judged: p95 TTFT 762 ms of 1 s."),
        ({"notes": ["Not to be used: heat."]}, {"ttft_s": 1.0}, "not judged: p95 TTFT 762 ms of 1 s."),
    ],
)  # fmt: skip
def test_the_last_line_says_whether_the_objectives_were_met(
    changes: dict[str, Any], limits: dict[str, float], said: str, tmp_path: Path
) -> None:
    notes = changes.get("notes", [])
    load = LOAD | {name: value for name, value in changes.items() if name != "notes"}
    shown = told("measure", "import", measured(tmp_path, load, slo=limits, notes=notes)).stdout
    assert shown.rstrip().splitlines()[-1].strip() == f"Objectives {said}"
    several = measured(tmp_path, load, LOAD | {"concurrency": 8}, slo=limits)
    assert "Objectives: p9" in told("measure", "import", several).stdout
