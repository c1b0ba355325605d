"""Below a fleet plan: candidates of a site, what simulations show, hours that are alike, fleets beside the answer."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
from datetime import date
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.questions.fleet import test_confidence as confidence
from tests.questions.fleet.test_plan import AGENT, CHAT

from tonnage import catalog
from tonnage.domain.layout import Layout
from tonnage.optimize.fleet import Fleet, FleetProblem, cheapest_fleet
from tonnage.questions.answers import show
from tonnage.questions.fleet import alternatives, plan
from tonnage.questions.fleet.answer import FleetAlternative, FleetRequest
from tonnage.questions.fleet.candidate import Candidate, _best, candidates
from tonnage.questions.fleet.capacities import simulate
from tonnage.questions.fleet.hours import hours_of, ranges
from tonnage.questions.fleet.near_least import NEAR
from tonnage.questions.fleet.plan import plan_fleet
from tonnage.questions.fleet.problem import FleetContext, Solution, problem_of
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.fleet.stock import stock

CODE = {"model": "Qwen/Qwen2.5-Coder-7B", "rate": "2/s", "traffic": "code", "ttft": "500 ms", "tpot": "40 ms"}


def _found(**more: Any) -> FleetContext:
    asked = {"provider": "aws", "region": "us-east-1", "accelerator": "L40S,H100", "term": "on-demand"}
    request = fleet_request({**asked, "workloads": [CODE], "confidence": "50 %", **more})
    held, _ = stock(request, additions=catalog.NOTHING)
    found, _, _ = candidates(request, 0, held=held, additions=catalog.NOTHING)
    return FleetContext(request=request, hours=hours_of(request), held=held, chances=tuple(found), raised=(1.0,))


@pytest.fixture(scope="module")
def one() -> tuple[FleetRequest, Candidate]:
    found = _found(accelerator="H100", workloads=[{**AGENT, "ttft": "1 s", "tpot": "60 ms"}])
    return found.request, found.chances[0]


def test_a_bucket_keeps_the_curve_of_its_own_lengths_when_it_is_simulated() -> None:
    short = {"share": "50 %", "prompt_tokens": 200, "output_tokens": 100}
    long = {"share": "50 %", "prompt_tokens": 8000, "output_tokens": 800}
    chat = {"model": "meta-llama/Llama-3.1-8B-Instruct", "rate": 4.0, "ttft": "2 s", "tpot": "60 ms"}
    asked = _found(accelerator="H100", workloads=[{**chat, "buckets": [short, long]}])
    first = asked.chances[0]
    seen = next(one for one in simulate(asked, names={first.name}).chances if one.name == first.name)
    assert seen.simulated and seen.points == first.points
    assert [odds.curve is own.curve for odds, own in zip(seen.odds, first.odds, strict=True) if odds and own] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("each", "kept"),
    [
        ({8: 15.0, 4: 14.0, 2: 6.0, 1: 5.0}, [8, 4, 2, 1]),  # ever smaller ones stay
        ({4: 14.0, 2: 6.0, 1: 7.0}, [4, 1]),  # a smaller one outdoes the larger
        ({8: 3.0, 4: 4.0, 1: 5.0}, [1]),
    ],
)
def test_ever_smaller_replicas_stay_that_no_smaller_one_outdoes(
    one: tuple[FleetRequest, Candidate], each: dict[int, float], kept: list[int]
) -> None:
    request, first = one
    here = [
        replace(
            first,
            configuration=replace(first.configuration, layout=Layout(tp=ranks)),
            rates=(rate * ranks,),
            capacities=(rate * ranks,),
        )
        for ranks, rate in each.items()
    ]
    assert [c.ranks for c in _best(request.workloads[0], here)] == kept


def _ratio(one: Candidate) -> float:
    return one.capacities[0] / one.points[0].rate_per_s


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_what_is_not_simulated_is_not_taken_at_its_average_where_simulations_find_a_fraction_of_it(
    share: float,
) -> None:
    asked = _found()
    first, *others = asked.chances
    assert others
    mine = first.carrying(asked.request.workloads[0], (first.points[0].rate_per_s * share,))
    learnt = simulate(replace(asked, chances=(replace(mine, simulated=True), *others)), names=set())
    seen = learnt.chances
    assert seen[0].simulated and _ratio(seen[0]) == pytest.approx(share)
    for one in seen[1:]:
        assert not one.simulated and _ratio(one) == pytest.approx(min(1.0, share * NEAR))
        assert 0.0 < one.rates[0] <= one.capacities[0]
    again = simulate(learnt, names=set())
    assert [one.rates for one in again.chances] == [one.rates for one in seen]


def test_one_simulation_bounds_the_others_by_what_it_found() -> None:
    asked = _found()
    name = asked.chances[0].name
    seen = simulate(asked, names={name}).chances
    mine = next(one for one in seen if one.name == name)
    others = [one for one in seen if one.name != mine.name]
    assert mine.simulated and 0.0 < _ratio(mine) != 1.0 and others
    for one in others:
        assert not one.simulated and _ratio(one) == pytest.approx(min(1.0, _ratio(mine) * NEAR))


def test_like_hours_become_one_period_and_none_is_too_small() -> None:
    request = fleet_request({"workloads": [{**AGENT, "day": "consumer"}, {**CHAT, "day": "assistant-week"}]})
    hours = hours_of(request)
    assert hours.total_h == 168 and len(hours.spans) <= 24
    for w, workload in enumerate(request.workloads):
        relative = workload.shape.hours
        for hour in range(168):
            asked = workload.rate_per_s * relative[hour % len(relative)]
            assert hours.loads[w][hours.period_of[hour]] >= asked - 1e-12
    runs = ranges(hours, tuple(float(i) for i in range(len(hours.spans))))
    assert runs[0].start == 0 and runs[-1].stop == 168
    assert all(a.stop == b.start for a, b in itertools.pairwise(runs))


def test_what_may_be_had_is_enough_with_less_confidence() -> None:
    """What is owned carries the load as predicted, but not with 97 %, and no quota alone stands in the way."""
    own = [{"accelerator": "L40S", "count": 2}]
    limits = [{"most": 0, "provider": "aws"}, {"most": 0, "region": "us-east-1"}]
    asked = {"own": own, "quotas": limits, "quick": True}
    likely, sure = (_most_on_two(sure) for sure in (0.5, 0.97))
    assert sure < 0.9 * likely
    load = {**confidence.CHAT, "rate": math.sqrt(likely * sure), "headroom": 0.0}
    assert confidence.planned(load, **asked, confidence=0.5).feasible
    plan = confidence.planned(load, **asked, confidence=0.97)
    assert not plan.feasible and plan.binding.limit == "confidence"
    assert "97 % asked for" in plan.sentence
    assert not confidence.planned({**load, "rate": 1.1 * likely}, **asked, confidence=0.5).feasible
    assert confidence.planned({**load, "rate": 0.9 * sure}, **asked, confidence=0.97).feasible


def _most_on_two(sure: float) -> float:
    """What two L40S carry of the chat at a confidence, on one configuration. [1/s]"""
    one = {**confidence.CHAT, "rate": "6/s", "ttft": "1 s", "tpot": "60 ms", "headroom": 0.0}
    request = fleet_request({**confidence.OFFERS, "accelerator": "L40S", "workloads": [one], "confidence": sure})
    held, _ = stock(request, additions=catalog.NOTHING)
    found, _, _ = candidates(request, 0, held=held, additions=catalog.NOTHING)
    return max(2 // each.ranks * each.rates[0] for each in found)


MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ASKED = {
    "provider": "aws",
    "region": "us-east-1",
    "accelerator": "L4,A10G",
    "term": "on-demand,spot",
    "confidence": "50 %",  # the least parts keep 500 ms with 61 % at best
    "workloads": [
        {
            "name": "agent",
            "model": MODEL,
            "rate": "1/s",
            "traffic": "chat",
            "ttft": "500 ms",
            "tpot": "60 ms",
            "spot_share": "50 %",
        },
    ],
}
RELAXED = {**ASKED, "workloads": [{**ASKED["workloads"][0], "rate": "20/s", "ttft": "3 s"}]}
"""More instances than one, each of one accelerator: spot may carry half of them."""
DEAR = 100.0
"""Over the price, what the search that stops early takes firm capacity to cost. [-]"""


def stopped_early(problem: FleetProblem, **effort: Any) -> Fleet:
    """A fleet that carries everything at no small cost: as much on spot as may be, however dear."""

    def pretended(firm: bool) -> float:
        return 1e-3 if not firm else DEAR

    machines = tuple(
        replace(m, terms=tuple(replace(t, cost_per_hour=t.cost_per_hour * pretended(t.firm)) for t in m.terms))
        for m in problem.machines
    )
    fleet = cheapest_fleet(replace(problem, machines=machines), **effort)
    prices = {(m, t.name): t.cost_per_hour for m, machine in enumerate(problem.machines) for t in machine.terms}
    # Three machines where one will do: the search saw no reason to leave them out.
    instances = {key: tuple(3 * count for count in counts) for key, counts in fleet.instances.items()}
    cost = sum(
        prices[key] * count * span
        for key, counts in instances.items()
        for count, span in zip(counts, problem.hours, strict=True)
    )
    return replace(fleet, instances=instances, cost=cost, bound=cheapest_fleet(problem).bound)


def nothing_of_one_kind(beside: alternatives.Beside, used: list[str]) -> alternatives.Other:
    return alternatives.Other(FleetAlternative(name="one kind", what="not looked for"))


def test_a_cheaper_fleet_under_a_stricter_condition_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the search missed, the search among one kind alone found: it takes the answer's place, checked like it."""
    whole = plan.plan_fleet(fleet_request(ASKED))
    monkeypatch.setattr(plan, "cheapest_fleet", stopped_early)
    early = plan.plan_fleet(fleet_request(ASKED))
    assert early.bill.value == pytest.approx(whole.bill.value, rel=alternatives.GAP)
    assert early.checks and all(check.meets for check in early.checks)
    assert 0.0 <= early.gap <= alternatives.GAP
    assert all(one.more is None or one.more >= 0.0 for one in early.alternatives)


def test_an_answer_found_without_spot_says_that_it_needs_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan, "cheapest_fleet", stopped_early)
    monkeypatch.setattr(alternatives, "_of_one_kind", nothing_of_one_kind)
    early = plan.plan_fleet(fleet_request(RELAXED))
    (spotless,) = (one for one in early.alternatives if one.name == alternatives.WITHOUT_SPOT)
    assert {one.term for one in early.instances} == {"on-demand"}
    assert spotless.more == 0.0
    assert spotless.usd_per_month == pytest.approx(early.bill.value)
    show(early, why=True)
    assert "no more expensive (this fleet)" in " ".join(capsys.readouterr().out.split())


def test_what_misses_in_simulation_does_not_become_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheaper fleet whose objectives do not hold stays beside the answer, and says why."""
    monkeypatch.setattr(plan, "cheapest_fleet", stopped_early)
    seen_first: list[Fleet] = []
    real = plan.checks_of

    def severe(solution: Solution) -> Any:
        seen = real(solution)
        seen_first.append(solution.fleet)
        return seen if solution.fleet.cost == seen_first[0].cost else tuple(replace(one, meets=False) for one in seen)

    monkeypatch.setattr(plan, "checks_of", severe)
    answer = plan.plan_fleet(fleet_request(ASKED))
    assert len(seen_first) > 1
    assert answer.bill.value == pytest.approx(seen_first[0].cost / 24.0 * 730.0)
    below = [one for one in answer.alternatives if one.more is not None and one.more < 0.0]
    assert below and all("agent may miss" in one.what for one in below)


@pytest.mark.parametrize("reckoned", [2.0, 0.2])
def test_what_is_only_reckoned_is_simulated_before_it_is_the_answer(
    monkeypatch: pytest.MonkeyPatch, reckoned: float
) -> None:
    """Capacities reckoned at twice the simulated ones undercut nothing; at a fifth of them, all is looked for again."""
    caught: list[Solution] = []

    def catching(solution: Solution) -> tuple[Solution, tuple[FleetAlternative, ...]]:
        caught.append(solution)
        return solution, ()

    monkeypatch.setattr(plan, "_add_alternatives", catching)
    plan.plan_fleet(fleet_request(ASKED))
    (solution,) = caught
    asked, best = solution.asked, solution.fleet
    guessed = replace(
        asked,
        chances=tuple(
            replace(one, simulated=False, rates=tuple(rate * reckoned for rate in one.rates)) for one in asked.chances
        ),
    )
    problem, behind = problem_of(guessed)
    fleet = cheapest_fleet(problem)
    old = replace(fleet, cost=1.01 * max(best.cost, fleet.cost), bound=fleet.bound)
    settled = Solution(guessed, problem, behind, old, solution.checks)
    cheaper, why = plan._adopt_cheaper(settled, fleet)
    found = cheaper.fleet
    assert not why and not plan._unsure(cheaper)
    if reckoned > 1.0:
        assert found.cost == old.cost
    else:
        assert found.cost == pytest.approx(best.cost, rel=plan.GAP) and found.bound <= found.cost < fleet.cost


SCRIPT = """
import json, sys
from datetime import date
import msgspec
from tonnage.questions.fleet.plan import plan_fleet
from tonnage.questions.fleet.question import fleet_request
from tonnage.questions.fleet.plan import plan_fleet
answer = plan_fleet(fleet_request(json.loads(sys.argv[1])), today=date(2026, 11, 21))
sys.stdout.buffer.write(msgspec.json.encode(answer))
"""


def test_the_same_question_has_the_same_answer_in_another_process() -> None:
    """Neither the order of a set of names nor the clock is part of an answer: it is the same to the last digit."""
    night = {"name": "night", "kind": "batch", "model": MODEL, "items": "200k", "window": "22-6"}
    chat = {**ASKED["workloads"][0], "name": "chat", "day": [1] * 12 + [2] * 12, "survives": "50 %"}
    cores = {"name": "parse", "kind": "cpu", "rate": "4/s", "cpu_time": "1 s"}
    asked = {
        "provider": "gcp",
        "region": "europe-west4",
        "accelerator": "L4,A100 40GB",
        "zones": 2,
        "term": "on-demand,spot,reserved-1y,reserved-3y",
        "workloads": [chat, night, cores],
    }
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    there = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(asked)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
    ).stdout
    here = plan_fleet(fleet_request(asked), today=date(2026, 11, 21))
    assert msgspec.json.encode(here) == there and here.feasible
