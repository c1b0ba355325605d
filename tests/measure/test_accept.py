"""What is bought is tried: faults that are put in are found, good boxes pass, and this processor runs the protocol."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tools.benchmarks import acceptance as study

from tests.command import told
from tonnage.domain.acceptance import Probe
from tonnage.measure.accept import accepted, expected_of, judge


@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("fault", study.FAULTS[1:])
def test_a_fault_is_found(count: int, fault: str) -> None:
    if count == 1 and fault == "degraded link":
        pytest.skip("one device has no link to others")
    assert study.failing(count, fault=fault, boxes=50, reference=True) >= study.CAUGHT


@pytest.mark.parametrize(("count", "reference"), [(1, True), (2, True), (8, True), (4, False), (8, False)])
def test_good_boxes_pass(count: int, reference: bool) -> None:
    assert study.failing(count, fault="none", boxes=500, reference=reference) <= study.FALSE


@pytest.mark.parametrize("count", [4, 8])
def test_a_slower_device_is_found_among_the_others(count: int) -> None:
    assert study.failing(count, fault="slower device", boxes=50, reference=False) >= study.CAUGHT


def test_what_noise_hides_is_not_told() -> None:
    draw = random.Random(3)
    expected = expected_of(study.box(draw, 8), source="good ones")
    found = accepted(study.box(draw, 2, noise=0.3), expected)
    assert {one.verdict for one in found.findings} <= {"not told", "fail"}
    assert any(one.verdict == "not told" for one in found.findings) and "cannot see a tenth" in " ".join(found.notes)
    assert not found.feasible and not found.sentence.startswith("Accepted")


def test_the_worst_finding_is_worth_its_share() -> None:
    draw = random.Random(5)
    expected = expected_of(study.box(draw, 8), source="a good node")
    found = accepted(study.box(draw, 4, fault="slower device"), expected, usd_per_month=1000.0)
    assert not found.feasible and found.worth_usd_per_month == pytest.approx(1000.0 * found.short)
    assert 0.06 < found.short < 0.14 and "of device" in found.sentence and "a month" in found.sentence


def test_a_lowered_limit_fails_whatever_the_rates() -> None:
    found = accepted(study.box(random.Random(2), 4), {}, reasons=("card 0 is limited to 220 W of 350 W",))
    assert not found.feasible and "220 W of 350 W" in found.sentence


def test_two_devices_without_a_reference_are_held_against_nothing() -> None:
    found = accepted(study.box(random.Random(2), 2), {})
    assert not found.findings and "held against nothing" in found.sentence


def test_a_median_is_held_against_the_others() -> None:
    rows = tuple((rate,) * 7 for rate in (1.0, 1.0, 1.0, 0.8))
    found = judge((Probe(name="products", unit="FLOP/s", rounds=rows),), {})
    assert [one.verdict for one in found] == ["pass", "pass", "pass", "fail"]
    assert found[3].short == pytest.approx(0.2) and found[3].expected == 1.0


def test_the_processor_here_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONNAGE_HISTORY", "off")
    own = tmp_path / "own.toml"
    own.write_text(
        '[[accelerator]]\nid = "own-cores"\nname = "Own cores"\nsegment = "cpu"\nmemory = "8 GiB"\n'
        'memory_bw = "10 GB/s"\npeak.fp32 = "0.1 TFLOP/s"\nsource = "a test"\nchecked = "2026-11-29"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("TONNAGE_CATALOG", str(tmp_path))
    file = tmp_path / "good.json"
    command = ["measure", "accept", "own-cores", "--device", "cpu", "--count", "1", "--time", "6 s"]
    done = told(*command, "--storage", str(tmp_path), "--out", str(file))
    assert done.exit_code == 0, done.output
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["name"] == "Own cores" and found["duration_s"] < 30
    probes = {probe["name"]: probe for probe in found["probes"]}
    assert set(probes) == {"products", "memory", "storage write", "storage read"}
    assert all(len(probe["rounds"][0]) == 7 and min(probe["rounds"][0]) > 0 for probe in probes.values())
    for probe in found["probes"]:
        probe["rounds"] = [[20.0 * rate for rate in row] for row in probe["rounds"]]
    file.write_text(json.dumps(found), encoding="utf-8")
    again = told(*command, "--reference", str(file))
    # Which of the two is further below, the noise of this machine decides.
    assert again.exit_code == 3 and "Not accepted: " in again.output, again.output
    assert again.output.count("%  fail  ") == 2, again.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such-part", "--count", "1"], "no accelerator"),
        (["H100"], "say how many"),
        (["H100", "--count", "1", "--device", "tpu"], "cpu or cuda"),
        (["H100", "--count", "1000", "--device", "cpu"], "--count: 1000 of"),
        (["H100", "--count", "1", "--time", "1 h"], "20 min"),
    ],
)
def test_what_cannot_be_tried_is_refused(arguments: list[str], says: str) -> None:
    done = told("measure", "accept", *arguments)
    assert done.exit_code == 2 and says in done.output, done.output
