"""Terms and commitments: what is billed, and when a commitment pays."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage import catalog
from tonnage.domain.money import Commitment, PriceFall, Provider
from tonnage.pricing.commitments import break_even_fall, fall_until, weigh
from tonnage.pricing.owning import mean_price_factor
from tonnage.pricing.terms import (
    billed_hours,
    billing_rules,
    charged_hours,
    egress_usd,
    idle_usd,
    mean_between_reclaims_s,
    run_lines,
    stated_step_s,
    unit_costs,
    useful_share,
)

RATES = st.floats(-1.5, 1.5, allow_nan=False)
YEARS = st.floats(0.1, 6.0, allow_nan=False)


@given(rate=RATES, years=YEARS)
def test_the_break_even_is_the_rate_whose_mean_price_is_the_committed_one(rate: float, years: float) -> None:
    committed = 3.0 * mean_price_factor(decline_per_year=rate, years=years)
    found = break_even_fall(committed_usd=committed, on_demand_usd=3.0, years=years)
    assert found == pytest.approx(rate, abs=1e-7)


@given(ratio=st.floats(0.01, 50.0, allow_nan=False), years=YEARS)
def test_any_two_prices_meet_at_some_rate(ratio: float, years: float) -> None:
    rate = break_even_fall(committed_usd=ratio, on_demand_usd=1.0, years=years)
    assert mean_price_factor(decline_per_year=rate, years=years) == pytest.approx(ratio, rel=1e-9)


def seen(rate: float, *, committed: float = 2.0, years: float = 1.0, asked: float | None = 3.0) -> Commitment:
    fall = PriceFall(per_year=rate, low=rate - 0.2, high=rate + 0.2, rates=(rate - 0.3, rate, rate + 2.0), whose="x")
    return weigh(term="reserved-1y", years=years, usd_per_hour=committed, on_demand_usd_per_hour=asked, fall=fall)


def test_a_commitment_is_weighed_with_its_spread() -> None:
    still, falling = seen(0.0), seen(0.5)
    assert still.compared_usd_per_hour == 2.0 and still.saves == pytest.approx(1 / 3)
    assert falling.compared_usd_per_hour > 2.0 and falling.saves < still.saves  # prices fall: it is worth less
    assert falling.saves_low < falling.saves < falling.saves_high
    assert falling.falls == pytest.approx(1 - math.exp(-0.5)) and falling.falls_low < falling.falls < falling.falls_high
    assert still.stops_paying == falling.stops_paying  # what it takes does not hang on what is expected
    assert still.stops_paying == pytest.approx(fall_until(0.874, years=1.0), abs=1e-3)
    assert still.pays_with == (2, 3)


def test_no_price_on_demand_leaves_only_the_comparison() -> None:
    alone = seen(0.2, asked=None)
    assert alone.stops_paying is None and alone.pays_with is None and alone.compared_usd_per_hour > 2.0


@given(rate=st.floats(0.0, 0.8), one=st.floats(0.5, 2.0), three=st.floats(0.5, 2.0))
def test_the_lower_compared_price_costs_less_over_the_longer_term(rate: float, one: float, three: float) -> None:
    """A year renewed twice at prices that fall as fast, against three years at once."""
    renewed = one * (1.0 + math.exp(-rate) + math.exp(-2.0 * rate)) / 3.0
    by_price = (
        seen(rate, committed=one).compared_usd_per_hour - seen(rate, committed=three, years=3.0).compared_usd_per_hour
    )
    if abs(renewed - three) > 1e-6:
        assert (by_price < 0) is (renewed < three)


@pytest.mark.parametrize(
    ("provider", "step_s", "least_s"),
    [
        ("aws", 1, 60), ("lambda", 60, 60), ("verda", 600, 600), ("ibm", 3600, 3600), ("ovhcloud", 3600, 3600),
        ("digitalocean", 1, 300), ("aws-capacity-blocks", 86400, 86400), ("hetzner", 730 * 3600, 730 * 3600),
        ("runpod-serverless", 1, 1),
    ],
)  # fmt: skip
def test_the_words_of_a_provider_become_steps(provider: str, step_s: float, least_s: float) -> None:
    rules = billing_rules(catalog.providers()[provider])
    assert (rules.step_s, rules.least_s) == (step_s, least_s)
    assert rules.stated and rules.source


def test_every_provider_with_offers_has_rules() -> None:
    for name in {offer.provider for offer in catalog.offers()}:
        rules = billing_rules(catalog.providers().get(name))
        assert rules.step_s >= 1 and rules.least_s >= 0 and rules.stated


def test_an_unknown_provider_is_billed_by_the_hour_and_says_so() -> None:
    rules = billing_rules(None)
    assert rules.step_s == 3600 and "assumed" in rules.stated


def test_a_run_is_charged_in_whole_steps_and_at_least_the_minimum() -> None:
    assert billed_hours(600, step_s=3600) == 1
    assert billed_hours(3600, step_s=3600) == 1
    assert billed_hours(90, step_s=1, least_s=60) == pytest.approx(90 / 3600)
    assert billed_hours(10, step_s=1, least_s=86400) == 24


def test_interruptions_take_their_share() -> None:
    assert useful_share(between_s=9 * 3600, lost_s=3600) == pytest.approx(0.9)
    assert useful_share(between_s=3600, lost_s=0) == 1
    five = mean_between_reclaims_s(monthly_fraction=0.05)
    twenty = mean_between_reclaims_s(monthly_fraction=0.2)
    assert five > twenty
    assert mean_between_reclaims_s(monthly_fraction=1.0) is None


def test_egress_and_idle_hours() -> None:
    assert egress_usd(out_bytes=1e12, usd_per_gb=0.09) == pytest.approx(90)
    assert egress_usd(out_bytes=1e9, usd_per_gb=0.09, free_bytes=1e11) == 0
    assert idle_usd(usd_per_hour=10, busy_share=0.3) == pytest.approx(5110)


def test_unit_costs_agree_with_each_other() -> None:
    """3.6 USD/h at one request a second is a tenth of a cent a request."""
    costs = unit_costs(
        usd_per_hour=3.6,
        requests_per_s=1,
        prompt_tokens=750,
        output_tokens=250,
        prompt_share=0.25,
        max_requests_per_s=2,
    )
    assert costs.usd_per_request == pytest.approx(0.001)
    assert costs.usd_per_million_output_tokens == pytest.approx(4)
    assert costs.usd_per_million_blended_tokens == pytest.approx(1)
    both = costs.usd_per_million_input_share * 750 + costs.usd_per_million_answer_share * 250
    assert both / 1e6 == pytest.approx(costs.usd_per_request)
    assert costs.requests_per_usd == pytest.approx(1000)
    assert costs.max_requests_per_s_per_usd_hour == pytest.approx(2 / 3.6)


@pytest.mark.parametrize(
    ("provider", "term", "run_s", "hours"),
    [
        ("gcp", "on-demand", 1.0, 60 / 3600),
        ("gcp", "on-demand", 90.0, 90 / 3600),
        ("verda", "spot", 61.0, 1 / 6),
        ("seeweb", "on-demand", 3601.0, 2.0),
        ("aws", "reserved-1y", 3600.0, 8760.0),
        ("aws-capacity-blocks", "block", 3600.0, 24.0),
        ("nobody", "on-demand", 1.0, 1.0),
    ],
)
def test_providers_charge_their_steps_and_terms_their_length(
    provider: str, term: str, run_s: float, hours: float
) -> None:
    rules = billing_rules(catalog.providers().get(provider))
    assert charged_hours(run_s, rules=rules, term=term) == pytest.approx(hours)


def test_a_run_that_never_ends_is_never_paid_off() -> None:
    assert charged_hours(float("inf"), rules=billing_rules(None), term="on-demand") == float("inf")


def test_rounding_is_a_line_and_the_lines_are_the_bill() -> None:
    lines = run_lines({"work": 5000.0, "start": 100.0, "nothing": 0.0}, charged_h=2.0, usd_per_hour=3.0)
    assert [line.name for line in lines] == ["work", "start", "rounding of hours"]
    assert sum(line.value for line in lines) == pytest.approx(6.0, rel=1e-12)


def test_only_a_step_that_a_provider_publishes_is_stated() -> None:
    """What nobody says is billed by the hour to be safe, and yet no answer to "billed by the hour"."""
    known = catalog.providers()
    silent = Provider(id="silent", kind="neocloud", facts={"billing_granularity": "contract"})
    assert stated_step_s(None) is None and stated_step_s(silent) is None
    assert billing_rules(silent).step_s == 3600.0
    assert [stated_step_s(known[name]) for name in ("aws", "verda", "seeweb")] == [1, 600, 3600]
