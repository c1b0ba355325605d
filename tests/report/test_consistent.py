"""Numbers of one answer agree, in its fields and on its first screen (`python -m tools.consistent`)."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.report.examples import answered, names
from tests.sweeps import examples
from tools.choices import KINDS
from tools.consistent import asked, contradictions, contradictions_on, screen_of

from tonnage.domain.plan import PlanHeader


def said_of(answer: Any) -> list[str]:
    return [*(contradictions(answer) if isinstance(answer, PlanHeader) else ()), *contradictions_on(screen_of(answer))]


@pytest.mark.parametrize("name", names())
def test_an_example_contradicts_itself_nowhere(name: str) -> None:
    assert not said_of(answered(name))


def test_answers_drawn_at_random_contradict_themselves_nowhere() -> None:
    found = list(asked(examples(2, full=34), seed=20261129))
    assert len(found) >= len(KINDS)
    assert not [f"{question}: {one}" for question, plan in found for one in said_of(plan)]


def test_contradictions_are_found() -> None:
    plan = answered("pretrain-8b")
    first = plan.options[0]

    def with_first(**fields: Any) -> list[str]:
        return contradictions(replace(plan, options=(replace(first, **fields), *plan.options[1:])))

    assert any("MFU" in said for said in with_first(mfu=1.2))
    assert any("memory alone" in said for said in with_first(limit_bytes=first.memory.value, chance=0.99))
    assert any("outside" in said for said in with_first(cost=replace(first.cost, high=first.cost.value / 2)))
    assert any("parts" in said for said in with_first(cost=replace(first.cost, value=first.cost.value * 1.01)))
    assert any("cheapest" in said for said in with_first(cost=replace(first.cost, value=1e9, high=2e9, parts=())))
    assert any("before one that is" in said for said in with_first(sure=False))


def test_products_and_exponents_on_a_screen_are_read() -> None:
    assert not contradictions_on("$8 in 24.2 min (25 min at $19.20/h)")
    assert not contradictions_on("$840,000 in 85 days (84.2 days at $410/h + $11,472 storage)")
    assert contradictions_on("$8 in 24.2 min (50 min at $19.20/h)") == [
        "$8 in 24.2 min (50 min at $19.20/h) comes to $16.00"
    ]
    assert contradictions_on("cost $69M (1e+02M)")
