"""Factors of the 90 % interval: every quantity has a row for an unknown rung, and weaker rungs are no narrower."""

import pytest

from tonnage.catalog import fitted
from tonnage.errors import UnknownName


@pytest.mark.parametrize("kind", fitted.KINDS)
def test_every_quantity_has_a_factor_for_any_rung(kind: str) -> None:
    rows = fitted.factors(kind)
    quantities = {quantity for quantity, _ in rows}
    assert quantities
    assert all((quantity, "any") in rows for quantity in quantities)
    assert all(1 <= value < 100 for value in rows.values())


def test_a_rung_without_its_own_row_takes_the_row_any() -> None:
    assert fitted.factor("serve", "ttft_s", rung="no such rung") == fitted.factor("serve", "ttft_s")


def test_what_has_no_row_takes_the_row_of_anything() -> None:
    assert fitted.factor("serve", "tpot_s", rung="unheard-of:steady") == fitted.factors("serve")["tpot_s", "any"]


@pytest.mark.parametrize("kind", fitted.KINDS)
def test_causes_leave_each_number_an_error_of_its_own(kind: str) -> None:
    found = fitted.causes(kind)
    assert {cause.name for cause in found} == {"kernels", "host", "stack"}
    assert 0.0 < sum(cause.share for cause in found) < 1.0


def test_an_engine_behind_a_colon_falls_back_to_its_rung() -> None:
    assert fitted.factor("serve", "tpot_s", rung="calibrated:no such engine") == fitted.factor(
        "serve", "tpot_s", rung="calibrated"
    )


def test_an_unknown_kind_or_quantity_is_named() -> None:
    with pytest.raises(UnknownName, match="served"):
        fitted.factor("served", "ttft_s")
    with pytest.raises(UnknownName, match="ttft_ms"):
        fitted.factor("serve", "ttft_ms")


@pytest.mark.parametrize("load", ["light", "crowded"])
def test_a_load_nobody_measured_is_as_sure_as_a_steady_one(load: str) -> None:
    rows = {
        ("tpot_s", "any"): 9.0,
        ("tpot_s", "assumed"): 4.0,
        ("tpot_s", "assumed:steady:dense"): 3.0,
        ("tpot_s", "assumed:steady:dense:llamacpp"): 2.0,
    }
    asked = f"assumed:{load}:dense:llamacpp"
    assert fitted.factor_of(rows, "tpot_s", rung=asked) == 2.0
    assert fitted.factor_of(rows, "tpot_s", rung=f"assumed:{load}:dense:another") == 3.0
    assert fitted.factor_of(rows, "tpot_s", rung="assumed:saturated:dense:llamacpp") == 4.0
    assert fitted.factor_of(rows | {("tpot_s", f"assumed:{load}"): 2.5}, "tpot_s", rung=asked) == 2.5
