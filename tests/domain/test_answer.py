"""Quantities are the sum of their parts and as founded as the weakest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.domain.answer import Basis, Quantity, weakest


def test_total_is_the_sum_and_basis_the_weakest() -> None:
    total = Quantity.of_parts(
        "bytes",
        [
            Quantity(name="weights", value=3.0, basis=Basis.MEASURED),
            Quantity(name="context", value=1.0, basis=Basis.ASSUMED),
            Quantity(name="nothing", value=0.0, basis=Basis.ASSUMED),
        ],
    )
    assert total.value == 4.0
    assert total.basis is Basis.ASSUMED
    assert [part.name for part in total.parts] == ["weights", "context"]


def test_a_part_that_adds_nothing_does_not_weaken_the_whole() -> None:
    parts = [Quantity(name="a", value=1.0, basis=Basis.MEASURED), Quantity(name="b", value=0.0, basis=Basis.ASSUMED)]
    assert Quantity.of_parts("s", parts).basis is Basis.MEASURED


@given(st.floats(1e-9, 1e15), st.floats(1.0, 100.0))
def test_interval_holds_the_value(value: float, factor: float) -> None:
    quantity = Quantity(value=value, unit="s").within(factor)
    assert quantity.low <= value <= quantity.high
    assert quantity.high / quantity.low == pytest.approx(factor**2)


def test_weakest_of_none_is_derived() -> None:
    assert weakest([]) is Basis.DERIVED
