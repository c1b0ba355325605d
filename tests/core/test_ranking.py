"""The order said once for all kinds, the choices named, the frontier; losers counted by reason, constraints dropped."""

from datetime import date
from math import inf
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tonnage.catalog import NOTHING
from tonnage.core.header import (
    Infeasible,
    by_reason,
    nearest_of_each,
    nearness,
    relaxations,
    what_binds,
    what_relaxing_buys,
)
from tonnage.core.ranking import (
    NEAR,
    STALE,
    UPKEEP_USD_PER_H,
    Traits,
    at_risk,
    choices,
    frontier,
    recommended,
    surely_cheapest,
    tie_with_first,
    weighed_usd_per_h,
    with_verdicts,
)
from tonnage.core.reading import build
from tonnage.core.sites import sites
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Configuration, Rejection, RejectionCount, ServePlan
from tonnage.domain.precision import Precision
from tonnage.domain.requests.common import Filters, Lengths, Slo
from tonnage.domain.requests.field import Field, Group
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.errors import BadRequest
from tonnage.questions.ask import answer
from tonnage.record import Record


@pytest.fixture(scope="module")
def option() -> BatchOption:
    plan = answer(
        "batch",
        {"model": "Qwen/Qwen3-8B", "items": "10k", "prompt_tokens": 100, "output_tokens": 10, "accelerator": ["L40S"]},
        today=date(2026, 7, 1),
    )
    assert isinstance(plan, BatchPlan)
    return plan.options[0]


def costing(option: BatchOption, usd: float, *, factor: float = 1.2, sure: bool = True, on: str = "") -> BatchOption:
    run = replace(option.configuration, accelerator=on or option.configuration.accelerator)
    cost = Quantity(value=usd, unit="USD").within(factor)
    return replace(option, cost=cost, sure=sure, configuration=run)


def test_the_sure_before_the_cheap(option: BatchOption) -> None:
    ranked = sorted([costing(option, 1.0, sure=False), costing(option, 3.0), costing(option, 2.0)], key=surely_cheapest)
    assert [one.cost.value for one in ranked] == [2.0, 3.0, 1.0]
    risky = at_risk(ranked)
    assert risky.cost.value == 1.0
    assert at_risk(ranked[:2]) is None and at_risk(ranked[2:]) is None and at_risk(()) is None


def test_where_none_has_the_confidence_the_likeliest_leads(option: BatchOption) -> None:
    doubtful = [
        replace(costing(option, usd, sure=False), chance=chance) for usd, chance in ((1.0, 0.4), (9.0, 0.7), (2.0, 0.7))
    ]
    assert [one.cost.value for one in sorted(doubtful, key=surely_cheapest)] == [2.0, 9.0, 1.0]
    assert sorted([*doubtful, costing(option, 50.0)], key=surely_cheapest)[0].cost.value == 50.0


def test_each_place_has_its_reason_and_ties_are_said(option: BatchOption) -> None:
    options = (
        costing(option, 10.0),
        costing(option, 10.5, on="h100-sxm5-80gb"),
        costing(option, 90.0, on="h100-sxm5-80gb"),
        costing(option, 9.0, sure=False),
    )
    said = with_verdicts(
        options,
        lead=lambda o: "cheapest",
        arithmetic=lambda o: f"${o.cost.value:g}",
        risk=lambda o: "" if o.sure else "late",
    )
    assert said[0].verdict == "cheapest; $10" and not said[0].ties
    assert said[1].ties and "1.05x the first's cost (" in said[1].verdict and "within error)" in said[1].verdict
    assert not said[2].ties and said[2].verdict == "9.00x the first's cost; $90"
    assert not said[3].ties and said[3].verdict == "0.90x the first's cost; late; $9"
    assert tie_with_first(options[3], options[0]) is None
    assert with_verdicts((), lead=str, arithmetic=str, risk=str) == ()


EIGHT = "meta-llama/Llama-3.1-8B-Instruct"


def test_pools_and_old_prices_weigh_and_the_cheapest_stays_beside_what_is_recommended() -> None:
    plan = answer(
        "serve",
        {
            "model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "10/s", "traffic": "chat", "tpot": "40ms",
            "accelerator": ["rtx-a4000", "rtx-6000-ada"],
        },
        today=date(2026, 7, 1),
    )  # fmt: skip
    assert isinstance(plan, ServePlan)
    first, second = plan.options[:2]
    assert first.configuration.pools is None and second.configuration.pools is not None
    assert second.cost.value < first.cost.value < second.cost.value * STALE + UPKEEP_USD_PER_H
    assert [choice.name for choice in plan.choices[:2]] == ["recommended", "cheapest"]
    assert "for the cheapest (" in first.verdict and "pools" in first.verdict
    at_hand = [option for option in plan.options if option.sure]
    assert weighed_usd_per_h(first) == min(map(weighed_usd_per_h, at_hand))
    assert recommended(sorted(at_hand, key=lambda one: one.cost.value)) is first


def names(*options: Traits) -> dict[str, int]:
    return {choice.name: choice.option for choice in choices(options)}


def test_nothing_to_choose_from() -> None:
    assert choices(()) == ()


def test_of_a_service_cheapest_fastest_near_its_price_and_one_that_survives() -> None:
    found = names(
        Traits(usd=10.0, seconds=9.0, survives=False),
        Traits(usd=10.9, seconds=5.0, survives=False),
        Traits(usd=11.1, seconds=1.0, survives=False),
        Traits(usd=14.0, seconds=8.0, survives=True),
        Traits(usd=13.0, seconds=9.0, survives=True, sure=False),
    )
    assert found == {"cheapest": 0, "fastest": 1, "resilient": 3}


def test_a_price_of_third_parties_is_no_choice_beside_a_seller_s() -> None:
    first = Traits(usd=10.0, seconds=9.0, survives=False)
    doubted = Traits(usd=7.0, seconds=5.0, survives=True, listed=False)
    listed = Traits(usd=12.0, seconds=9.0, survives=True)
    assert names(first, doubted, listed) == {"cheapest": 0, "resilient": 2}
    first = Traits(usd=10.0, seconds=9.0, survives=False, listed=False)
    assert names(first, replace(doubted, usd=11.0)) == {"cheapest": 0, "fastest": 1}


def test_the_cheapest_as_sure_as_asked_and_with_an_even_chance_stand_beside_what_is_recommended() -> None:
    first = Traits(usd=10.0, seconds=9.0, chance=0.9)
    cheaper, even = Traits(usd=8.0, seconds=9.0, chance=0.96), Traits(usd=5.0, seconds=9.0, chance=0.66, sure=False)
    unlikely = Traits(usd=2.0, seconds=9.0, chance=0.4, sure=False)
    assert names(first, cheaper, even, unlikely) == {"recommended": 0, "cheapest": 1, "even": 2}
    assert names(first, even, unlikely) == {"cheapest": 0, "even": 1}
    assert names(first, replace(even, usd=9.9)) == {"cheapest": 0}  # which a price's next move undoes
    assert names(first, replace(cheaper, late=True), replace(even, listed=False)) == {"cheapest": 0}
    assert names(replace(first, sure=False), even) == {"cheapest": 0}  # where nothing is as sure as asked


def test_of_a_job_the_soonest_at_any_price() -> None:
    found = names(Traits(usd=10.0, seconds=9.0), Traits(usd=10.5, seconds=8.0), Traits(usd=90.0, seconds=1.0))
    assert found == {"cheapest": 0, "fastest": 1, "soonest": 2}


def test_one_option_that_has_it_all_is_one_choice() -> None:
    assert names(Traits(usd=1.0, seconds=1.0, survives=True), Traits(usd=1.05, seconds=2.0, survives=True)) == {
        "cheapest": 0
    }


options = st.lists(
    st.builds(
        Traits,
        usd=st.sampled_from([1.0, 1.05, 1.1, 2.0, inf]),
        seconds=st.sampled_from([1.0, 2.0, 3.0]),
        sure=st.booleans(),
        chance=st.sampled_from([0.3, 0.7]),
        survives=st.booleans(),
    ),
    max_size=6,
)


@given(options, st.booleans())
def test_choices_differ_and_hold_what_their_names_say(ranked: list[Traits], job: bool) -> None:
    if job:
        ranked = [Traits(usd=one.usd, seconds=one.seconds, sure=one.sure, chance=one.chance) for one in ranked]
    found = choices(ranked)
    assert len({choice.option for choice in found}) == len({choice.name for choice in found}) == len(found) <= 5
    assert [choice.name in {"cheapest", "recommended"} for choice in found[:1]] == ([True] if ranked else [])
    named = {choice.name: ranked[choice.option] for choice in found}
    for choice in found[1:]:
        option, first = ranked[choice.option], ranked[0]
        assert option.sure or not first.sure or choice.name == "even"
        assert choice.name not in {"fastest", "soonest"} or option.seconds < first.seconds
        assert choice.name != "cheapest" or option.usd == min(one.usd for one in ranked if one.sure) < first.usd
        assert choice.name != "even" or (option.chance == 0.7 and option.usd < named["cheapest"].usd)
        assert choice.name != "fastest" or option.usd <= NEAR * first.usd
        assert choice.name != "resilient" or (option.survives and not first.survives)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_the_frontier_is_as_defined(points: list[tuple[int, int, int]]) -> None:
    kept = frontier(points, objectives=(lambda p: p[0], lambda p: p[1], lambda p: p[2]))

    def dominated(i: int) -> bool:
        return any(p != points[i] and all(a <= b for a, b in zip(p, points[i], strict=True)) for p in points)

    assert [i for i in range(len(points)) if not dominated(i)] == list(kept)


BY = nearness({"ttft": 0, "memory": 1})


def loser(accelerator: str, limit: str, short_by: float) -> Infeasible:
    run = Configuration(
        accelerator=accelerator, layout=Layout(), precision=Precision(weights="fp8"), engine=Engine(name="vllm")
    )
    return Infeasible(configuration=run, verdict=Verdict(ok=False, limit=limit, short_by=short_by))


def test_the_nearest_try_of_each_accelerator_that_does_nothing_else() -> None:
    losers = [loser("a", "memory", 1.0), loser("a", "ttft", 9.0), loser("b", "memory", 5.0), loser("c", "ttft", 1.0)]
    found = nearest_of_each(losers, doing={"c"}, by=BY)
    assert [(one.what.split()[0], one.verdict.limit) for one in found] == [("a", "ttft"), ("b", "memory")]
    assert what_binds(losers, (), by=BY) is losers[3].verdict
    assert nearest_of_each([], doing=(), by=BY) == ()


def test_an_unknown_limit_is_the_farthest() -> None:
    assert what_binds([loser("a", "weather", 0.0), loser("b", "memory", 1e12)], (), by=BY).limit == "memory"


def test_rejections_are_counted_by_reason_and_none_is_lost() -> None:
    lines = [
        Rejection(what=one.what, verdict=one.verdict)
        for one in (loser("a", "ttft", 1), loser("b", "memory", 1), loser("c", "tpot", 1), loser("d", "weather", 1))
    ]
    found = by_reason(lines)
    assert found[0] == RejectionCount(reason="too slow", count=2, example=lines[0].what)
    assert {one.reason: one.count for one in found[1:]} == {"too small": 1, "excluded by 'weather'": 1}
    assert sum(one.count for one in found) == len(lines)


def test_what_a_filter_excludes_is_counted_under_its_name() -> None:
    _, excluded = sites(Filters(regions=("nowhere",), exclude_accelerators=("l4",)), additions=NOTHING)
    counts = {one.reason: one.count for one in by_reason(excluded)}
    assert counts["not in the region"] > 10 and counts["excluded by 'exclude'"] == 1
    assert sum(counts.values()) == len(excluded)


class Warmup(Record, kw_only=True):
    deadline_s: Annotated[float, Field("longest time to load the weights: 30 s", "s", name="within")]
    filters: Annotated[Filters, Group()] = Filters()


def test_a_limit_that_no_request_goes_without_is_asked_for_and_never_dropped() -> None:
    with pytest.raises(BadRequest, match="within is missing: longest time to load the weights: 30 s"):
        build(Warmup, {})
    assert "--within" not in dict(relaxations(build(Warmup, {"within": 1.0})))


def test_each_constraint_is_dropped_alone() -> None:
    request = Serve(
        model=EIGHT,
        lengths=Lengths(prompt_tokens=10, output_tokens=10),
        rate_per_s=1.0,
        slo=Slo(ttft_s=1.0),
        quality_floor=0.99,
        budget_usd_per_h=1.0,
        filters=Filters(eu=True, providers=("verda",), terms=("spot",)),
    )
    found = dict(relaxations(request))
    assert {"--eu", "--provider", "--term", "--ttft", "--quality", "--budget"} <= set(found)
    assert found["--eu"].filters.eu is None and found["--eu"].filters.providers == ("verda",)
    assert found["--ttft"].slo.ttft_s is None and found["--ttft"].filters == request.filters
    assert set(found["--term"].filters.terms) > {"spot", "on-demand"}


def test_one_that_buys_nothing_is_not_named() -> None:
    request = Batch(model=EIGHT, items=1.0, lengths=Lengths(prompt_tokens=1, output_tokens=1), deadline_s=1.0)
    assert what_relaxing_buys(request, lambda other: None) == ()
    assert what_relaxing_buys(request, lambda other: "x" if other.deadline_s is None else None) == (
        "without --deadline: x",
    )
