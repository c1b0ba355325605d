"""The bill of a run: rounded up as the provider counts, spares as their own line."""

import math

import pytest

from tonnage.money.runs import billed_hours, with_spares
from tonnage.nouns.answer import Part
from tonnage.nouns.plan import Bill

BILL = Bill(
    provider="p", instance_type="8x", region="r", term="on-demand", instances=2, accelerators_per_instance=8,
    usd_per_instance_hour=10.0, lines=(Part(name="2 x 8x", value=20.0),), as_of="2026-11",
)  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "granularity", "hours"),
    [(1, "second", 1 / 3600), (61, "minute", 2 / 60), (3601, "hour", 2.0), (3600, "hour", 1.0), (1, "block (day)", 24),
     (5, "", 1.0), (5, "purchase", 1.0)],
)  # fmt: skip
def test_whole_units_are_billed(seconds: float, granularity: str, hours: float) -> None:
    assert billed_hours(seconds, granularity=granularity) == pytest.approx(hours)


def test_a_run_that_never_ends_is_never_paid_off() -> None:
    assert billed_hours(math.inf, granularity="second") == math.inf


def test_spares_are_a_line_of_the_bill() -> None:
    more = with_spares(BILL, spares=1)
    assert more.instances == 3 and more.usd_per_hour == pytest.approx(30.0)
    assert "spare" in more.lines[-1].name
    assert with_spares(BILL, spares=0) is BILL
