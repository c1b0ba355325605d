"""Factors of the 90 % interval: every quantity has a row for an unknown rung, and weaker rungs are no narrower."""

import pytest

from tonnage.catalog import intervals
from tonnage.errors import UnknownName


@pytest.mark.parametrize("kind", intervals.KINDS)
def test_every_quantity_has_a_factor_for_any_rung(kind: str) -> None:
    rows = intervals.table(kind)
    quantities = {quantity for quantity, _ in rows}
    assert quantities
    assert all((quantity, "any") in rows for quantity in quantities)
    assert all(1 <= value < 100 for value in rows.values())


def test_a_rung_without_its_own_row_takes_the_row_any() -> None:
    assert intervals.factor("serve", "ttft_s", rung="no such rung") == intervals.factor("serve", "ttft_s")


def test_a_step_of_the_ladder_takes_the_basis_it_amounts_to() -> None:
    rows = intervals.table("serve")
    expected = rows.get(("tpot_s", "generic"), rows.get(("tpot_s", "assumed"), rows["tpot_s", "any"]))
    assert intervals.factor("serve", "tpot_s", rung="generic") == expected


def test_an_engine_behind_a_colon_falls_back_to_its_rung() -> None:
    assert intervals.factor("serve", "tpot_s", rung="calibrated:no such engine") == intervals.factor(
        "serve", "tpot_s", rung="calibrated"
    )


def test_an_unknown_kind_or_quantity_is_named() -> None:
    with pytest.raises(UnknownName, match="served"):
        intervals.factor("served", "ttft_s")
    with pytest.raises(UnknownName, match="ttft_ms"):
        intervals.factor("serve", "ttft_ms")


def test_a_light_load_nobody_measured_is_as_sure_as_a_steady_one() -> None:
    steady = intervals.factor("serve", "tpot_s", rung="assumed:steady:dense:llamacpp")
    assert ("tpot_s", "assumed:light") not in intervals.table("serve")
    assert intervals.factor("serve", "tpot_s", rung="assumed:light:dense:llamacpp") == steady
