"""Bills: instances, spares and energy."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.domain.answer import Verdict
from tonnage.domain.money import Contract, Offer, Price
from tonnage.domain.plan import Bill
from tonnage.pricing.bills import bill, contract_hours, instances_needed, with_spares
from tonnage.pricing.energy import busy_share, carbon_kg, energy_kwh, tokens_per_joule

OFFER = Offer(
    provider="aws",
    instance_type="p5.48xlarge",
    accelerator="h100-sxm5-80gb",
    count=8,
    prices=(Price(term="on-demand", usd_per_hour=55.04),),
    as_of="2026-07-20",
    as_of_kind="exact",
)
TODAY = date(2026, 11, 21)


@given(st.integers(1, 500), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_instances_hold_all_replicas_and_no_instance_is_idle(replicas: int, ranks: int) -> None:
    count = instances_needed(replicas=replicas, ranks=ranks, per_instance=8)
    assert count * 8 >= replicas * ranks
    if ranks <= 8:
        assert (count - 1) * (8 // ranks) < replicas


@given(st.integers(1, 500), st.sampled_from([1, 2, 4, 8]))
def test_cost_is_the_sum_of_its_lines_to_the_last_digit(replicas: int, ranks: int) -> None:
    made = bill(OFFER, replicas=replicas, ranks=ranks, term="on-demand", today=TODAY)
    assert isinstance(made, Bill)
    assert made.usd_per_hour == sum(line.value for line in made.lines) == made.instances * 55.04


def test_a_term_that_is_not_listed_is_an_answer() -> None:
    verdict = bill(OFFER, replicas=1, ranks=8, term="spot", today=TODAY)
    assert isinstance(verdict, Verdict)
    assert verdict.limit == "term" and verdict.nearest == "on-demand"


def test_the_age_of_a_price_is_counted_from_the_day_of_the_plan() -> None:
    fresh = bill(OFFER, replicas=1, ranks=8, term="on-demand", today=date(2026, 8, 1))
    old = bill(OFFER, replicas=1, ranks=8, term="on-demand", today=TODAY)
    assert isinstance(fresh, Bill) and isinstance(old, Bill)
    assert not fresh.stale and old.stale


def test_spares_are_a_line_of_the_bill() -> None:
    made = bill(OFFER, replicas=2, ranks=8, term="on-demand", today=TODAY)
    assert isinstance(made, Bill)
    more = with_spares(made, spares=1)
    assert more.instances == 3 and more.usd_per_hour == pytest.approx(3 * 55.04)
    assert "spare" in more.lines[-1].name
    assert with_spares(made, spares=0) is made


def test_a_kilowatt_for_a_month_is_730_kwh() -> None:
    assert energy_kwh(power_w=1000) == 730
    assert energy_kwh(power_w=1000, hours=1, pue=1.5) == 1.5
    assert carbon_kg(kwh=730, grams_per_kwh=100) == 73


def test_a_server_with_many_requests_is_always_at_work() -> None:
    assert busy_share(mean_requests=0) == 0
    assert busy_share(mean_requests=20) == pytest.approx(1, abs=1e-8)
    assert busy_share(mean_requests=1) < busy_share(mean_requests=2)


def test_performance_per_watt() -> None:
    assert tokens_per_joule(tokens_per_s=500, power_w=250) == 2


@given(used=st.floats(0, 200), minimum=st.integers(0, 200), share=st.floats(0, 1))
def test_take_or_pay_is_the_larger_of_use_and_commitment(used: float, minimum: int, share: float) -> None:
    found = contract_hours(Contract(name="", hours=8760, minimum=minimum, take_or_pay=share), used=used)
    assert found == (used, max(used, share * minimum), 0.0)


@given(used=st.integers(1, 100), share=st.floats(0, 1))
def test_a_ramp_lacks_what_has_not_come_and_charges_what_is_there(used: int, share: float) -> None:
    ramp = Contract(name="", hours=12 * 730.0, ramp=((1, 10), (7, 100)), take_or_pay=share)
    found = contract_hours(ramp, used=used)
    assert found.used + found.lacking == pytest.approx(used)
    assert found.paid >= found.used - 1e-9 and found.paid >= share * 55 - 1e-9  # mean of what is there
    assert (found.lacking == 0) is (used <= 10)
