"""Batch plans: done in time, cheapest first, nothing lost on the bill, and the nearest deadline when there is none."""

import math
import re
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest

LARGEST_FLEET = 256
NIGHTLY: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "items": "50M",
    "prompt_tokens": "800",
    "output_tokens": "150",
    "deadline": "8 h",
    "accelerator": "H100,A100,L40S,L4",
}


@cache
def plan(**changes: Any) -> Any:
    return tonnage.plan_batch(**NIGHTLY | changes)


@pytest.fixture(scope="module")
def nightly() -> Any:
    return plan()


def test_every_option_is_done_in_time_and_they_are_ranked_by_cost(nightly: Any) -> None:
    assert nightly.feasible and nightly.options[0].sure
    tens = [0.0 if option.sure else -math.floor(10.0 * (option.chance or 0.0) + 1e-3) for option in nightly.options]
    ranks = [(not option.sure, likely, option.cost.value) for option, likely in zip(nightly.options, tens, strict=True)]
    assert ranks == sorted(ranks)
    for option in nightly.options:
        assert option.wall_s.value <= 8 * 3600
        assert option.wall_s.low < option.wall_s.value < option.wall_s.high
        assert option.sure is (option.chance >= 0.8 - 1e-4)
        assert (option.chance >= 0.95) is (option.wall_s.high <= 8 * 3600 * (1 + 1e-3))
        assert option.replicas * option.configuration.layout.ranks == option.accelerators


def test_more_confidence_never_costs_less() -> None:
    """But for what is charged in whole units of time: 102 instances may leave less of theirs unused than 84."""
    first = [plan(confidence=f"{asked} %", accelerator="H100,L40S").options[0] for asked in (50, 80, 95)]
    assert all(one.sure for one in first)
    used = [one.cost.value - sum(p.value for p in one.cost.parts if p.name == "rounding of hours") for one in first]
    assert used == sorted(used) and used[0] < used[-1]
    assert [one.chance for one in first] == sorted(one.chance or 0.0 for one in first)


def test_a_later_deadline_is_never_dearer() -> None:
    # Verda charges steps of ten minutes: 12 instances for 77.17 h were dearer than 15 for 61.67.
    made = [
        tonnage.plan_batch(
            model="meta-llama/Llama-3.1-8B-Instruct", items="30M", prompt_tokens=1000, output_tokens=800,
            accelerator="H100", provider="verda", precision="bf16", confidence=0.9, deadline=f"{days} days",
        )
        for days in (5.0, 7.0, 8.691, 12.0, 20.0)
    ]  # fmt: skip
    costs = [one.options[0].cost.value for one in made]
    assert all(one.options[0].sure for one in made)
    assert costs == sorted(costs, reverse=True), costs


def test_the_bill_is_the_sum_of_its_parts_and_of_its_hours(nightly: Any) -> None:
    for option in nightly.options:
        assert sum(part.value for part in option.cost.parts) == pytest.approx(option.cost.value, rel=1e-9)
        hourly = option.bill.instances * option.bill.usd_per_instance_hour
        assert option.cost.value == pytest.approx(hourly * option.billed_hours, rel=1e-9)
        assert option.usd_per_thousand_items == pytest.approx(option.cost.value / 50_000)
        assert option.usd_per_million_output_tokens == pytest.approx(option.cost.value / 7500)


def test_replicas_run_at_the_rate_that_predict_calls_saturated(nightly: Any) -> None:
    option = nightly.options[0]
    run = option.configuration
    case = {"model": NIGHTLY["model"], "accelerator": run.accelerator, "traffic": {"saturated": True}, "isl": 800,
            "osl": 150, "precision": tonnage.to_dict(run.precision), "layout": tonnage.to_dict(run.layout)}  # fmt: skip
    found: Any = tonnage.predict({"kind": "serve", **case})
    tokens = found.output_tokens_per_s
    assert option.items_per_s.value * 150 == pytest.approx(tokens.value, rel=1e-6)
    assert (option.items_per_s.low or 0) * 150 == pytest.approx(tokens.low, rel=1e-6)


def test_the_frontier_pays_more_for_every_hour_saved(nightly: Any) -> None:
    points = nightly.frontier
    assert len(points) >= 5
    assert points[0].times_the_price == points[0].times_faster == 1.0
    for before, after in pairwise(points):
        assert after.usd > before.usd and after.wall_s < before.wall_s


def test_spot_saves_money_and_says_what_it_risks(nightly: Any) -> None:
    assert "lost to spot preemptions" in nightly.spot_against
    spot = next(option for option in nightly.options if option.bill.term == "spot")
    assert spot.useful < 1 and spot.available < 1
    assert "lost to spot preemptions" in {part.name for part in spot.cost.parts}
    steady = plan(term="on-demand")
    assert all(option.bill.term == "on-demand" and option.useful == 1 for option in steady.options)
    assert steady.options[0].cost.value > nightly.options[0].cost.value


def test_without_a_deadline_the_cheapest_is_taken_without_dawdling() -> None:
    patient = plan(deadline=None, term="on-demand")
    hurried = plan(term="on-demand")
    best = patient.options[0]
    assert best.cost.value <= hurried.options[0].cost.value * 1.05
    assert best.accelerators > 1  # one machine would cost as much and take weeks


def test_an_impossible_deadline_names_the_nearest_and_that_one_works() -> None:
    few = {"accelerator": "H100", "provider": "gcp", "term": "on-demand", "max_accelerators": "64"}
    answer = plan(deadline="20 min", **few)
    assert not answer.feasible and answer.binding.limit == "deadline"
    assert "Nearest: deadline" in answer.sentence
    nearest = answer.binding.nearest.removeprefix("deadline ")
    again = plan(deadline=nearest, **few)
    assert again.feasible and not again.options[0].sure


def test_a_budget_binds_and_the_nearest_one_works() -> None:
    answer = plan(budget="$10", accelerator="H100", provider="gcp")
    assert not answer.feasible and answer.binding.limit == "budget"
    nearest = (answer.binding.nearest or "").removeprefix("budget ")
    assert plan(budget=nearest, accelerator="H100", provider="gcp").feasible


def test_a_model_that_fits_nowhere_names_the_memory() -> None:
    answer = plan(model="meta-llama/Llama-3.1-405B", accelerator="L4", max_accelerators="1")
    assert not answer.feasible
    assert answer.binding.limit in {"memory", "count", "offer"}


def test_a_network_without_tokens_is_refused() -> None:
    with pytest.raises(BadRequest, match="decodes no text"):
        plan(model="timm/resnet50.a1_in1k")


def test_energy_follows_the_hours(nightly: Any) -> None:
    for option in nightly.options:
        if option.kwh is None or option.energy is None:
            continue
        most = option.energy.power_w / 1000 * option.billed_hours
        assert 0 < option.kwh <= most * (1 + 1e-9)
        assert option.kg_co2 is None or option.kg_co2 == pytest.approx(
            option.kwh * (option.energy.grams_per_kwh or 0) / 1000
        )


def test_fleets_stay_within_the_stated_limit() -> None:
    large, small = plan(items="5B", accelerator="H100"), plan(items="1M", accelerator="L4", max_accelerators="16")
    assert all(option.accelerators <= LARGEST_FLEET for option in large.options)
    assert small.options and all(option.accelerators <= 16 for option in small.options)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"items": None}, "items"), ({"items": "0.2"}, "items"), ({"model": None}, "model"),
        ({"deadline": "8 GB"}, "is bytes"), ({"precision": "fp7"}, "fp7"), ({"prompt_tokens": "2M"}, "context"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_field(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        plan(**fields)


def test_each_dearer_kind_is_weighed_against_the_cheapest_by_the_hour(nightly: Any) -> None:
    """Times the price and times the speed are those of the options; who is cheaper per item follows from both."""
    kinds: dict[str, Any] = {}
    for option in sorted(nightly.options, key=lambda o: o.cost.value):
        if option.bill.term == "on-demand":
            kinds.setdefault(option.configuration.accelerator, option)
    hourly = {name: o.bill.usd_per_instance_hour / o.bill.accelerators_per_instance for name, o in kinds.items()}
    rate = {name: o.items_per_s.value / o.configuration.layout.ranks for name, o in kinds.items()}
    base = min(hourly, key=lambda name: hourly[name])
    assert nightly.card_for_card
    for told in nightly.card_for_card:
        name, price, of, faster = re.fullmatch(
            r"(.+): ([\d.]+)x the hourly price of (.+), ([\d.]+)x \(.*\) as fast: .*", told
        ).groups()  # type: ignore[union-attr]
        name, of = (tonnage.accelerator(shown).id for shown in (name, of))
        assert of == base and name != base
        assert float(price) == pytest.approx(hourly[name] / hourly[base], rel=0.06)
        assert float(faster) == pytest.approx(rate[name] / rate[base], rel=0.06)
        assert ("cheaper per item" in told) is (rate[name] / rate[base] > hourly[name] / hourly[base])


def test_one_kind_is_weighed_against_nothing() -> None:
    assert plan(accelerator="H100", deadline=None).card_for_card == ()


def test_the_same_configuration_elsewhere_ties_only_where_its_price_does() -> None:
    """As fast in both, whatever that is: 1.5 times the price is 1.5 times the cost, however wide the intervals."""
    found = plan(accelerator="H100", term="on-demand,spot", provider="hyperstack,nebius")
    first = found.options[0]
    same = [option for option in found.options[1:] if option.configuration == first.configuration]
    assert any(option.cost.value > 1.2 * first.cost.value for option in same)
    for option in same:
        assert option.cost.low is not None and first.cost.high is not None
        if option.cost.value > 1.2 * first.cost.value:
            assert not option.ties
    overlapping = [o for o in same if (o.cost.low or 0.0) <= (first.cost.high or 0.0)]
    assert any(not option.ties for option in overlapping)
