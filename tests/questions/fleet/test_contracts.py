"""A fleet signs a contract that binds where its whole bill is the least, and pays what is due unused."""

from __future__ import annotations

from typing import Any

import pytest

import tonnage

CHAT = {"name": "chat", "model": "meta-llama/Llama-3.1-8B-Instruct", "traffic": "chat", "ttft": "1 s", "tpot": "60 ms"}
QUOTE = {"provider": "acme", "accelerator": "H100", "count": 8, "term": "1 year"}


def planned(rate: str, **quote: Any) -> Any:
    asked = {"provider": "lambda", "accelerator": "H100", "term": "on-demand", "quick": True}
    return tonnage.plan_fleet(**asked, quotes=[{**QUOTE, **quote}], workloads=[{**CHAT, "rate": rate}])


def monthly(plan: Any) -> float:
    assert plan.bill.value == pytest.approx(sum(one.usd_per_month for one in plan.instances), rel=1e-9)
    return plan.bill.value


def test_a_minimum_is_paid_in_full_or_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched to the end: within a tenth of the least a seventh instance may stand with nothing on it."""
    monkeypatch.setattr("tonnage.questions.fleet.plan.QUICK_GAP", 0.0)
    bound = {"price": "$1.10/h", "minimum": 64, "take_or_pay": "80 %"}
    small, large = planned("60/s", **bound), planned("750/s", **bound)
    assert {one.provider for one in small.instances} == {"lambda"}
    assert {one.provider for one in large.instances} == {"acme"}
    assert monthly(large) == pytest.approx(1.10 * 0.8 * 64 * 730.0, rel=1e-4)
    assert "due unused" in large.bill.parts[0].source


def test_what_a_ramp_has_not_brought_is_rented_on_demand() -> None:
    ramped, there = (planned("900/s", price="$2.20/h", **more) for more in ({"ramp": "1=8, 7=64"}, {"maximum": 64}))
    assert monthly(there) < monthly(ramped) < monthly(there) * 2.0
