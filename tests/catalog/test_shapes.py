"""Shapes of load: a day or a week of hours whose mean is one."""

import pytest

from tonnage.catalog.traffic import shape, shapes
from tonnage.errors import UnknownName


@pytest.mark.parametrize("name", shapes())
def test_hours_are_relative_to_their_mean(name: str) -> None:
    found = shape(name)
    assert len(found.hours) in {24, 168} and min(found.hours) > 0
    assert sum(found.hours) / len(found.hours) == pytest.approx(1.0, abs=0.005)
    assert found.source and found.what


def test_the_published_extremes_are_there() -> None:
    # ServeGen's average days: m-small troughs at 0.66 and peaks at 1.46, deepseek-r1 spans 0.45-2.19.
    assert (min(shape("consumer").hours), max(shape("consumer").hours)) == (0.66, 1.46)
    assert (min(shape("reasoning").hours), max(shape("reasoning").hours)) == (0.45, 2.19)


def test_an_unknown_shape_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="consumer"):
        shape("consumr")
