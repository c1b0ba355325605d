"""Files of calibrations that others wrote: each condition on which one is refused."""

from pathlib import Path

import pytest
from tests.asked import Refused, printed, told

GOOD = """
[[calibration]]
schema = "tonnage.calibration/3"
accelerator = "l4"
engine = "vllm"
memory = 1.0
compute = 1.0
step = "10 us"

[[calibration.learnt]]
model = "8B"
quantity = "tpot"
place = [1, 1, 1, 1, 1, 1, 1]
shares = [0, 0, 0, 0, 0, 0, 0]
left = 0.1
noise = 1.1
"""
LEARNT = "learnt: 7 positive numbers of a place, 7 shares and a logarithm are expected"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("", "", ""),
        ("calibration/3", "calibration/9", "schema 'tonnage.calibration/9' is none of"),
        ("memory =", "memroy =", "no field 'memroy'; did you mean 'memory'"),
        ("memory = 1.0\n", "", "memory is missing; `tonnage calibrate` writes a whole file"),
        ("memory = 1.0", "memory = true", "memory is 'True', but a positive factor is expected"),
        ("memory = 1.0", 'memory = "1"', "memory is '1', but a positive factor is expected"),
        ("memory = 1.0", "memory = 0", "memory is '0', but a positive factor is expected"),
        ("memory = 1.0", "memory = 1e5", "memory is '100000.0', but a positive factor is expected"),
        ("place = [1, ", "place = [0, ", LEARNT),
        ("place = [1, ", "place = [1, 1, ", LEARNT),
        ("shares = [0, ", "shares = [200, ", LEARNT),
        ("shares = [0, ", "shares = [", LEARNT),
        ("left = 0.1", "left = -1e3", LEARNT),
        ("noise = 1.1", "noise = -1", "learnt.noise is '-1.0', but a positive factor is expected"),
        ("noise = 1.1", 'noise = "x"', "learnt: .*`tonnage calibrate` writes a whole file"),
        ("step =", 'date = "\\u202e"\nstep =', r"holds the character U\+202E"),
        ("[[calibration]]", "[calibration]", "'calibration' must be a list of tables"),
    ],
)
def test_a_calibration_is_read_or_refused(tmp_path: Path, before: str, after: str, says: str) -> None:
    path = tmp_path / "own.toml"
    assert before in GOOD
    path.write_text(GOOD.replace(before, after), encoding="utf-8")
    asked = ("fit", "8B", "--accelerator", "L4", "--calibration", str(path))
    if not says:
        assert told(*asked).fits
        return
    with pytest.raises(Refused, match=says):
        told(*asked)


def test_only_a_calibration_that_is_there_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(Refused, match="there is no such calibration to take back"):
        printed("history", "undo", "L4", "vllm")
