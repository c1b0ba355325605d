"""Shapes of load: a day or a week of hours whose mean is one."""

import pytest
from tests.asked import Refused, printed
from tests.shipped import table

SHAPES = {row["shape"]: row for row in table("traffic/shapes.csv")}


def hours(name: str) -> list[float]:
    return [float(rate) for rate in SHAPES[name]["rates"].split()]


@pytest.mark.parametrize("name", SHAPES)
def test_hours_are_relative_to_their_mean(name: str) -> None:
    found = hours(name)
    assert len(found) == int(SHAPES[name]["hours"]) and len(found) in {24, 168} and min(found) > 0
    assert sum(found) / len(found) == pytest.approx(1.0, abs=0.005)
    assert SHAPES[name]["source"] and SHAPES[name]["what"]


def test_the_published_extremes_are_there() -> None:
    # ServeGen's average days: m-small troughs at 0.66 and peaks at 1.46, deepseek-r1 spans 0.45-2.19.
    assert (min(hours("consumer")), max(hours("consumer"))) == (0.66, 1.46)
    assert (min(hours("reasoning")), max(hours("reasoning"))) == (0.45, 2.19)


def test_an_unknown_shape_names_the_nearest() -> None:
    with pytest.raises(Refused, match="did you mean 'consumer'"):
        printed("plan", "serve", "8B", "--rate", "1/s", "--day", "consumr")
