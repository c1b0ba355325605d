"""Laws of money: parts sum, break-even moves the right way for every input, nothing is lost in rounding."""

from datetime import date
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage.domain.cost import OwnedMachine, Rent
from tonnage.domain.money import Offer, Price
from tonnage.domain.plan import Bill
from tonnage.pricing.bills import bill
from tonnage.pricing.owning import (
    break_even_utilisation,
    mean_price_factor,
    owned_usd,
    owned_usd_per_used_hour,
    payback_years,
    resale_share,
)
from tonnage.pricing.terms import billed_hours, useful_share
from tonnage.questions.cost.rents import meeting_point

MACHINES = st.builds(
    OwnedMachine,
    accelerators=st.sampled_from([1.0, 4.0, 8.0, 72.0]),
    purchase=st.floats(1e3, 4e6),
    power=st.floats(300.0, 1.4e5),
    years=st.floats(1.0, 7.0),
    load=st.floats(0.5, 1.0),
    idle=st.floats(0.0, 0.4),
    pue=st.floats(1.0, 2.0),
    electricity=st.floats(0.03, 0.4),
    hosting=st.floats(0.0, 400.0),
    network=st.floats(0.0, 5e4),
    storage=st.floats(0.0, 1e5),
    staff=st.floats(0.0, 5e4),
    spares=st.floats(0.0, 0.1),
    support=st.floats(0.0, 0.15),
    insurance=st.floats(0.0, 0.03),
    interest=st.floats(0.0, 0.15),
    resale_3y=st.floats(0.0, 0.6),
    interruptions=st.floats(0.0, 2.0),
    repair=st.floats(0.0, 3e5),
)
PRICES = st.floats(0.05, 20.0)
SHARES = st.floats(0.05, 1.0)

DEARER_WITH_MORE = (
    "purchase", "power", "pue", "electricity", "hosting", "network", "storage", "staff", "spares", "support",
    "insurance", "interest", "load", "idle",
)  # fmt: skip
"""Inputs of which more makes owning dearer, so that break-even needs more use."""
CHEAPER_WITH_MORE = ("resale_3y",)


def rented(price: float, **changes: object) -> Rent:
    return replace(Rent(provider="p", term="on-demand", usd_per_accelerator_hour=price, paid="used"), **changes)


def even(machine: OwnedMachine, price: float, **changes: object) -> float:
    """Break-even share; infinite where there is none."""
    found = meeting_point(machine, rented(price, **changes), utilisation=0.7).break_even
    return float("inf") if found is None else found


@settings(max_examples=30)
@given(MACHINES, SHARES)
def test_the_cost_of_owning_is_the_sum_of_its_lines(machine: OwnedMachine, share: float) -> None:
    cost = owned_usd(machine, utilisation=share)
    assert sum(part.value for part in cost.parts) == pytest.approx(cost.value, rel=1e-12)
    assert cost.value > 0


@pytest.mark.parametrize("name", DEARER_WITH_MORE)
@settings(max_examples=25)
@given(machine=MACHINES, more=st.floats(1.01, 1.5), price=PRICES)
def test_break_even_rises_with_every_cost(name: str, machine: OwnedMachine, more: float, price: float) -> None:
    dearer = replace(machine, **{name: getattr(machine, name) * more})
    if name == "idle":
        # Idle power also makes an hour of work cost less extra: beyond full use the two effects change places.
        assume(even(machine, price) <= 1.0)
    assert even(dearer, price) >= even(machine, price) * (1 - 1e-12)


@settings(max_examples=30)
@given(MACHINES, st.floats(1.01, 2.0), PRICES)
def test_break_even_falls_with_the_years_a_machine_is_kept(machine: OwnedMachine, more: float, price: float) -> None:
    """What is bought once is spread over more years, and it loses less value every further year."""
    assert even(replace(machine, years=machine.years * more), price) <= even(machine, price) * (1 + 1e-12)


def test_every_input_of_a_machine_has_its_law() -> None:
    """A new input without a law below fails here."""
    elsewhere = {"years", "interruptions", "repair", "accelerators"}
    assert {*DEARER_WITH_MORE, *CHEAPER_WITH_MORE, *elsewhere} == set(OwnedMachine.__struct_fields__)


@settings(max_examples=30)
@given(MACHINES, st.floats(1.01, 4.0), PRICES)
def test_break_even_falls_with_the_accelerators_in_a_machine(machine: OwnedMachine, more: float, price: float) -> None:
    """For the same money; that they do not stop each other is left out, for that is the law of failures."""
    steady = replace(machine, interruptions=0.0)
    assert even(replace(steady, accelerators=steady.accelerators * more), price) <= even(steady, price) * (1 + 1e-12)


@pytest.mark.parametrize("name", (*DEARER_WITH_MORE, *CHEAPER_WITH_MORE, "years", "interruptions", "repair"))
def test_every_input_moves_the_break_even_of_a_usual_machine(name: str) -> None:
    """Eight H100 with every input above nothing: a fifth more of any of them is seen, not merely allowed."""
    usual = OwnedMachine(
        accelerators=8.0,
        purchase=280e3,
        power=10_200.0,
        years=4.0,
        load=0.8,
        idle=0.25,
        pue=1.4,
        electricity=0.085,
        hosting=184.0,
        network=35e3,
        storage=5e3,
        staff=3_250.0,
        spares=0.03,
        support=0.05,
        insurance=0.01,
        interest=0.08,
        resale_3y=0.3,
        interruptions=0.173,
        repair=4 * 3600.0,
    )
    before, after = even(usual, 2.5), even(replace(usual, **{name: getattr(usual, name) * 1.2}), 2.5)
    falls = name in {*CHEAPER_WITH_MORE, "years"}
    assert after < before * (1 - 1e-6) if falls else after > before * (1 + 1e-6)


@pytest.mark.parametrize("name", CHEAPER_WITH_MORE)
@settings(max_examples=25)
@given(machine=MACHINES, more=st.floats(1.01, 1.5), price=PRICES)
def test_break_even_falls_with_resale(name: str, machine: OwnedMachine, more: float, price: float) -> None:
    better = replace(machine, **{name: min(1.0, getattr(machine, name) * more)})
    assert even(better, price) <= even(machine, price) * (1 + 1e-12)


@settings(max_examples=30)
@given(MACHINES, PRICES, st.floats(1.01, 3.0))
def test_break_even_falls_with_the_rent(machine: OwnedMachine, price: float, more: float) -> None:
    assert even(machine, price * more) <= even(machine, price) * (1 + 1e-12)


@settings(max_examples=30)
@given(MACHINES, PRICES, st.floats(0.2, 0.99))
def test_break_even_falls_when_rented_hours_are_lost(machine: OwnedMachine, price: float, useful: float) -> None:
    assert even(machine, price, useful=useful) <= even(machine, price) * (1 + 1e-12)


@settings(max_examples=30)
@given(MACHINES, PRICES, st.floats(1.1, 10.0))
def test_break_even_rises_with_failures_and_repairs(machine: OwnedMachine, price: float, more: float) -> None:
    for name in ("interruptions", "repair"):
        worse = replace(machine, **{name: getattr(machine, name) * more})
        assert even(worse, price) >= even(machine, price) * (1 - 1e-12)


@settings(max_examples=30)
@given(MACHINES, PRICES, st.floats(0.01, 1.0))
def test_break_even_rises_when_rents_fall(machine: OwnedMachine, price: float, fall: float) -> None:
    falling = meeting_point(machine, rented(price), utilisation=0.7, decline=fall).break_even
    assert (float("inf") if falling is None else falling) >= even(machine, price) * (1 - 1e-12)


@settings(max_examples=30)
@given(MACHINES, PRICES)
def test_at_break_even_both_cost_the_same(machine: OwnedMachine, price: float) -> None:
    share = even(machine, price)
    if 0.0 < share <= 1.0:
        at = meeting_point(machine, rented(price), utilisation=share)
        assert at.owned_usd == pytest.approx(at.rent_usd, rel=1e-9)


@settings(max_examples=30)
@given(MACHINES, PRICES, SHARES)
def test_owning_wins_exactly_above_break_even(machine: OwnedMachine, price: float, share: float) -> None:
    at = meeting_point(machine, rented(price), utilisation=share)
    if at.break_even is not None and abs(at.break_even - share) > 1e-6:
        assert (at.owned_usd <= at.rent_usd) is (share >= at.break_even)


@settings(max_examples=30)
@given(MACHINES, SHARES, st.floats(1.01, 3.0))
def test_a_used_hour_costs_less_the_more_are_used(machine: OwnedMachine, share: float, more: float) -> None:
    higher = min(1.0, share * more)
    assert owned_usd_per_used_hour(machine, utilisation=higher) <= owned_usd_per_used_hour(
        machine, utilisation=share
    ) * (1 + 1e-12)


@given(st.floats(0.1, 20.0), st.floats(0.1, 20.0), st.floats(0.0, 1.0))
def test_resale_never_rises_with_age(young: float, old: float, after_3_years: float) -> None:
    early, late = sorted((young, old))
    found = [resale_share(years=years, after_3_years=after_3_years) for years in (early, late)]
    assert 0 <= found[1] <= found[0] <= 1


@given(st.floats(1e3, 1e6), st.floats(0.0, 1e5), st.floats(0.0, 1e5), st.floats(1e3, 1e6), st.floats(1.0, 7.0))
def test_at_payback_the_rent_saved_equals_what_was_spent(
    upfront: float, running: float, interest: float, rent: float, years: float
) -> None:
    t = payback_years(
        upfront_usd=upfront,
        running_usd_per_year=running,
        interest_usd_per_year=interest,
        rent_usd_per_year=rent,
        years=years,
    )
    spent = lambda when: upfront + running * when + interest * (when - when**2 / (2 * years))  # noqa: E731
    if t is None:
        assert rent * years < spent(years) * (1 + 1e-9)
    else:
        assert rent * t == pytest.approx(spent(t), rel=1e-6)


@given(st.floats(0.0, 2.0), st.floats(0.1, 10.0))
def test_a_falling_price_lies_between_its_ends(decline: float, years: float) -> None:
    factor = mean_price_factor(decline_per_year=decline, years=years)
    assert 0 < factor <= 1 + 1e-12
    assert factor >= 1 / (1 + decline * years) - 1e-9


def test_a_price_that_hardly_falls_is_todays() -> None:
    assert all(mean_price_factor(decline_per_year=g, years=4.0) == pytest.approx(1 - 2 * g) for g in (0.0, 1e-13, 1e-9))


@given(st.floats(1.0, 1e7), st.sampled_from([1.0, 60.0, 600.0, 3600.0, 86400.0]), st.floats(0.0, 1e5))
def test_billed_time_covers_the_run_by_less_than_a_step(run_s: float, step_s: float, least_s: float) -> None:
    hours = billed_hours(run_s, step_s=step_s, least_s=least_s)
    assert hours * 3600 >= min(run_s, max(run_s, least_s)) * (1 - 1e-9)
    assert hours * 3600 <= max(run_s + step_s, least_s) * (1 + 1e-9)


@given(st.floats(1.0, 1e6), st.floats(0.0, 1e6))
def test_useful_share_is_a_share_and_falls_with_losses(between_s: float, lost_s: float) -> None:
    share = useful_share(between_s=between_s, lost_s=lost_s)
    assert 0 < share <= 1
    assert useful_share(between_s=between_s, lost_s=lost_s + 1) < share


@given(st.floats(0.01, 200.0), st.integers(1, 500), st.sampled_from([1, 2, 4, 8]))
def test_a_bill_is_instances_times_the_listed_price(price: float, replicas: int, ranks: int) -> None:
    offer = Offer(
        provider="p",
        instance_type="i",
        accelerator="a",
        count=8,
        prices=(Price(term="spot", usd_per_hour=price),),
        as_of="2026-10-01",
    )
    made = bill(offer, replicas=replicas, ranks=ranks, term="spot", today=date(2026, 11, 21))
    assert isinstance(made, Bill)
    assert made.usd_per_hour == pytest.approx(float(Fraction(price) * made.instances), rel=1e-15)


def test_energy_dearer_than_rent_never_breaks_even() -> None:
    assert break_even_utilisation(fixed_usd=1.0, full_use_usd=10.0, rent_usd=9.0) is None
