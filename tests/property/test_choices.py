"""Laws of a choice on a small seeded sample of questions (`python -m tools.choices` asks many)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.sweeps import examples
from tools import choices
from tools.choices import cost, dearer_than, drawn_run, sweep


def test_a_sample_of_questions_breaks_no_law() -> None:
    counts, broken = sweep(examples(4, full=60), seed=20261122)
    assert {"objective", "confidence", "load", "wider"} <= set(counts) and sum(counts.values()) >= 20
    assert not broken, "\n".join(map(str, broken))


def test_a_sample_of_runs_breaks_no_law() -> None:
    counts, broken = sweep(examples(2, full=60), seed=20261123, draws=drawn_run)
    assert {"objective", "confidence", "wider"} <= set(counts)
    assert not broken, "\n".join(map(str, broken))


def test_plans_that_grow_dearer_with_what_is_asked_less_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(asked: dict[str, Any]) -> Any:
        usd = float(str(asked.get("tpot", asked.get("ttft"))).split()[0])
        bill = SimpleNamespace(trust="primary", usd_per_hour=usd)
        return (SimpleNamespace(sure=True, bill=bill, configuration=SimpleNamespace(accelerator="h100")),)

    monkeypatch.setattr(choices, "planned", backwards)
    counts, broken = sweep(10, seed=3, law="objective")
    assert 0 < len(broken) <= counts["objective"] and {bad.law for bad in broken} == {"objective"}


def test_nothing_is_dearer_than_no_plan_and_trust_comes_before_cost() -> None:
    assert cost(()) == (True, float("inf"))
    assert dearer_than(cost(()), (True, 5.0)) and dearer_than((True, 1.0), (False, 9.0))
    assert not dearer_than((False, 5.0), (False, 5.0 * (1 + 1e-12)))
