"""What the search for unsound answers would find; `make fuzz ARGS=--answers` asks thousands of questions."""

import math
from pathlib import Path

import msgspec
import pytest
from tools.fuzz.answers import question, wrong_in
from tools.fuzz.large import SHAPES, write


class Said(msgspec.Struct):
    value: float | None = None
    low: float | None = None
    high: float | None = None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Said(value=math.nan), "nan"),
        (Said(value=math.inf), "inf"),
        (Said(value=-1.0), "is -1"),
        (Said(value=2.0, low=3.0, high=1.0), "from 3"),
        (Said(value=9.0, low=1.0, high=2.0), "outside"),
        (Said(value=1.5, low=1.0, high=2.0), None),
    ],
)
def test_what_is_unsound_is_found(answer: Said, told: str | None) -> None:
    found = wrong_in(answer)
    assert found is None if told is None else told in str(found)


@pytest.mark.parametrize(("saturated", "told"), [(True, None), (False, "high is inf")])
def test_only_a_queue_without_end_has_no_upper_end(saturated: bool, told: str | None) -> None:
    found = wrong_in({"saturated": saturated, "ttft_s": {"mean": 1.0, "low": 0.5, "high": math.inf}})
    assert found is None if told is None else told in str(found)


def test_questions_are_the_same_for_the_same_seed() -> None:
    assert [question(1, n)[0] for n in range(40)] == [question(1, n)[0] for n in range(40)]


def test_large_files_are_as_large_as_asked(tmp_path: Path) -> None:
    for shape in SHAPES:
        write(shape, 1_000_000, tmp_path / "file")
        size = (tmp_path / "file").stat().st_size
        assert size < 200_000 if shape.packed else 500_000 < size < 2_200_000, shape.name
