"""Laws of a choice on a small seeded sample of questions (`make laws` asks many)."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sweeps import examples
from tools import choices
from tools.choices import DEAREST, KINDS, Cost, cost, dearer_than, kind_of, planned, sweep


def test_a_sample_of_questions_breaks_no_law() -> None:
    counts, broken = sweep(examples(4, full=60), seed=20261122)
    assert {"objective", "confidence", "load", "wider"} <= set(counts) and sum(counts.values()) >= 20
    assert not broken, "\n".join(map(str, broken))


@pytest.mark.parametrize("kind", ["train", "finetune"])
def test_a_sample_of_runs_breaks_no_law(kind: str) -> None:
    counts, broken = sweep(examples(2, full=60), seed=20261123, draws=KINDS[kind])
    assert {"objective", "confidence", "wider"} <= set(counts)
    assert not broken, "\n".join(map(str, broken))


@pytest.mark.parametrize("kind", ["batch", "infer", "rl"])
def test_a_sample_of_other_kinds_breaks_no_law(kind: str) -> None:
    counts, broken = sweep(examples(1, full=40), seed=20261124, draws=KINDS[kind])
    assert {"confidence", "load", "wider"} <= set(counts)
    assert not broken, "\n".join(map(str, broken))


def test_questions_are_of_the_kind_that_they_are_drawn_for() -> None:
    for kind, draws in KINDS.items():
        assert {kind_of(draws(random.Random(seed))) for seed in range(20)} == {kind}


def test_plans_that_grow_dearer_with_what_is_asked_less_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(asked: dict[str, Any]) -> Any:
        usd = float(str(asked.get("tpot", asked.get("ttft"))).split()[0])
        bill = SimpleNamespace(trust="primary", usd_per_hour=usd)
        return (SimpleNamespace(sure=True, bill=bill, configuration=SimpleNamespace(accelerator="h100")),)

    monkeypatch.setattr(choices, "planned", backwards)
    counts, broken = sweep(10, seed=3, law="objective")
    assert 0 < len(broken) <= counts["objective"] and {bad.law for bad in broken} == {"objective"}


def test_nothing_is_dearer_than_no_plan_and_trust_and_patience_come_before_cost() -> None:
    def usd(amount: float, *, secondary: bool = False, late: bool = False) -> Cost:
        return Cost(secondary, late, amount)

    assert cost(()) == DEAREST
    assert dearer_than(cost(()), usd(5.0, secondary=True))
    assert dearer_than(usd(1.0, secondary=True), usd(9.0, late=True))
    assert dearer_than(usd(1.0, late=True), usd(9.0)) and not dearer_than(usd(5.0), usd(5.0 * (1 + 1e-12)))


def test_a_budget_alone_asks_for_the_cheapest_that_does_it_within_patience() -> None:
    run = {"model": "8B", "tokens": "20B", "accelerator": ["H100", "B200", "tpu-v6e"]}
    free, within = (cost(planned(run | limit) or ()) for limit in ({}, {"budget": "50000 USD"}))
    assert within == free != DEAREST
    assert choices.patience_of(run | {"budget": "1e5 USD"}) == 30 * 86400.0
    assert choices.patience_of(run | {"deadline": "3 days"}) == float("inf")


def test_a_count_that_is_far_too_late_hides_no_larger_one() -> None:
    # 64 of them hold the states and little else, ten months long; 128 do it in less than one.
    asked = {"model": "meta-llama/Meta-Llama-3.1-70B", "tokens": 13.2e9, "global_batch": 1024, "confidence": 0.9}
    options = planned(asked | {"accelerator": ["A10G"]})
    assert options and options[0].sure and options[0].accelerators > 64  # type: ignore[union-attr]


def test_larger_counts_are_looked_at_until_one_costs_more() -> None:
    # Memory left free makes twice the parts more than twice as fast: less confidence found the first two counts only.
    asked = {"model": "7B", "tokens": "10B", "accelerator": ["A10G"], "global_batch": 256}
    costs = [cost(planned(asked | {"confidence": confidence}) or ()) for confidence in (0.9, 0.78)]
    assert not dearer_than(costs[1], costs[0])
