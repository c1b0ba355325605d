"""Neither *cheapest* gets dearer where less is asked, or more may be chosen from (`python -m tools.monotone`)."""

import random
from typing import Any

import pytest
from tests.sweeps import examples
from tools import monotone
from tools.choices import TODAY, Cost
from tools.monotone import DRAWS, Cheapest, cheapest, compared, looser, narrowed

from tonnage.questions.ask import answer

SERVED = {"model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "10/s", "traffic": "chat", "tpot": "40 ms"}
TUNED = {"model": "13B", "method": "full", "tokens": "50M", "accelerator": "H100", "count": "8"}


@pytest.mark.parametrize("kind", ["batch", "finetune", "train", "rl"])
def test_a_sample_of_pairs_gets_no_dearer(kind: str) -> None:
    counts, dearer = compared(DRAWS[kind], pairs=examples(3, full=60), seed=20261129)
    assert counts.total() == examples(3, full=60) and not dearer, "\n".join(map(monotone.line, dearer))


def test_a_sample_of_services_gets_no_dearer() -> None:
    draws = DRAWS["serve"]
    counts, dearer = compared(lambda d: draws(d) | {"quick": True}, pairs=examples(6, full=120), seed=20261129)
    assert counts and not dearer, "\n".join(map(monotone.line, dearer))


def test_a_fine_tune_asked_for_with_less_confidence_costs_no_more() -> None:
    found = {
        confidence: answer("finetune", TUNED | {"confidence": confidence}, today=TODAY)
        for confidence in (0.5, 0.8, 0.95)
    }
    prices = {confidence: cheapest(plan) for confidence, plan in found.items()}
    assert prices[0.5].asked.amount <= prices[0.8].asked.amount <= prices[0.95].asked.amount
    assert len({price.even for price in prices.values()}) == 1  # an even chance is the same whatever is asked for
    named = {choice.name: found[0.8].options[choice.option] for choice in found[0.8].choices}
    assert named["recommended"].configuration.software == "eager"
    assert named["even"].cost.value < named["cheapest"].cost.value < named["recommended"].cost.value


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_cheapest_with_an_even_chance_is_an_option_and_the_same_at_any_confidence(quick: bool) -> None:
    asked = {**SERVED, "ttft": "650 ms", "accelerator": "RTX-6000-Ada,L40S,H100", "quick": quick}
    plans = [answer("serve", asked | {"confidence": confidence}, today=TODAY) for confidence in (0.7, 0.8, 0.9)]
    assert len({cheapest(plan).even for plan in plans}) == 1
    for plan in plans:
        even = min(o.bill.usd_per_hour for o in plan.options if (o.chance or 0.0) >= 0.5)
        assert even == min(price.usd_per_hour for price in plan.confidence_prices)
    (shown,) = [plans[2].options[c.option] for c in plans[2].choices if c.name == "even"]
    assert not shown.sure and shown.cost.low <= shown.cost.value <= shown.cost.high
    assert shown.bill.usd_per_hour < plans[2].options[0].bill.usd_per_hour


def test_pairs_ask_less_or_leave_more_to_choose_from() -> None:
    seen: set[str] = set()
    for seed in range(60):
        draw = random.Random(seed)
        asked = narrowed(DRAWS[("serve", "finetune", "fleet")[seed % 3]](draw), draw)
        for changed, other in looser(asked, draw):
            seen.add(changed)
            for name, value in asked.items():
                if isinstance(value, list) and name != "workloads" and name in other:
                    assert set(value) <= set(other[name])
                if name in {"deadline", "budget", "ttft", "tpot"}:
                    assert float(value.split()[0]) <= float(other[name].split()[0])
    assert seen >= {"ttft", "deadline", "confidence", "count", "accelerator", "provider", "precision", "engine", "term"}


def test_a_pair_that_gets_dearer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(asked: dict[str, Any]) -> Cheapest:
        price = Cost(False, False, float(len(asked["accelerator"])))
        return Cheapest(price, price)

    monkeypatch.setattr(monotone, "prices_of", backwards)
    _, dearer = compared(DRAWS["serve"], pairs=4, seed=1, told=["accelerator"])
    assert [found.price for found in dearer] == ["at 50 %", "as asked"] * 4
