"""Numbers of one answer agree, in its fields, on its first screen and on its page (`python -m tools.consistent`)."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.report.examples import answered, names
from tests.sweeps import examples
from tools.choices import KINDS, TODAY, kind_of
from tools.consistent import asked, contradictions, contradictions_on, screen_of
from tools.rendered import contradictions_between, page_of

from tonnage.domain.plan import PlanHeader
from tonnage.questions.ask import answer


def said_of(answer: Any) -> list[str]:
    return [*(contradictions(answer) if isinstance(answer, PlanHeader) else ()), *contradictions_on(screen_of(answer))]


@pytest.mark.parametrize("name", names())
def test_an_example_contradicts_itself_nowhere(name: str) -> None:
    assert not said_of(answered(name))


def test_answers_drawn_at_random_contradict_themselves_nowhere() -> None:
    found = list(asked(examples(2, full=34), seed=20261129))
    assert len(found) >= len(KINDS)
    assert not [f"{kind} {fields}: {one}" for kind, fields, plan in found for one in said_of(plan)]
    assert not [
        f"{kind} {fields}: {one}"
        for kind, fields, plan in found
        for one in contradictions_between(plan, path=f"plan/{kind_of(fields)}", given=fields)
    ]


def test_what_was_found_once_stays_mended() -> None:
    waiting = {"model": "13B", "traffic": "rag", "quick": True, "accelerator": ["A6000"], "confidence": 0.6,
               "rate": "3.0/s", "tpot": "20 ms"}  # fmt: skip
    short_answers = {"model": "Qwen/Qwen3-32B", "traffic": "code", "quick": True, "confidence": 0.9, "rate": "60.0/s",
                     "tpot": "80 ms", "accelerator": ["H200", "RTX-4090", "L4"]}  # fmt: skip
    plans = [(fields, answer("serve", fields, today=TODAY)) for fields in (waiting, short_answers)]
    assert any(option.capacity.ttft_s.value > 100 for option in plans[0][1].options), "first tokens after minutes"
    for fields, plan in plans:
        assert not said_of(plan) and not [*contradictions_between(plan, path="plan/serve", given=fields)]


def test_a_page_that_says_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"model": "8B", "traffic": "chat", "rate": "4/s", "ttft": "1 s", "tpot": "50 ms", "accelerator": ["L40S"],
              "quick": True}  # fmt: skip
    plan = answer("serve", fields, today=TODAY)
    first, shown = plan.options[0], page_of(plan, path="plan/serve", given=fields, option=1)
    for old, new, word in (
        (f"<b>${first.bill.usd_per_hour:,.2f}/h</b>", "<b>$1.00/h</b>", "price"),
        (f"<span>{first.replicas} replica", "<span>99 replica", "replicas"),
        (f"<b>{int(100 * (first.chance or 0.0))} %</b>", "<b>12 %</b>", "chance"),
        ("req/s", "req/min", "terminal"),
    ):
        assert old in shown
        monkeypatch.setattr("tools.rendered.page_of", lambda *_, old=old, new=new, **__: shown.replace(old, new))
        assert any(word in said for said in contradictions_between(plan, path="plan/serve", given=fields)), new


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
