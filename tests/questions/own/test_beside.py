"""Machines side by side: each is what it is alone, prices and power are sums that are said, nothing is substituted."""

from __future__ import annotations

from typing import Any

import pytest
from tests.command import told

import tonnage
from tonnage.errors import TonnageError

QWEN = {"model": "Qwen/Qwen3.6-27B", "context": "32k"}


def test_each_machine_is_what_it_is_alone() -> None:
    names = ["2 x RTX 3090", "RTX 5090", "M4 Max 64GB", "2 RTX 3090 + 1 RTX 4090", "RTX 3090"]
    found = tonnage.local(names[0], beside=names[1:], **QWEN).beside
    assert [one.row for one in found] == [tonnage.local(name, **QWEN).rows[0] for name in names]
    cards, mac, mixed, card = found[0], found[2], found[3], found[4]
    assert card.price_usd and cards.price_usd == 2 * card.price_usd and not cards.whole
    assert mac.whole and mixed.price_usd is None and mixed.watts is None
    prices = []
    for one in (cards, found[1], mac):
        assert one.watts and one.row and one.row.board_w and one.watts > one.row.board_w.value
        prices.append(one.usd_per_million / (one.watts / one.row.decode_per_s.value / 3.6))
    said = told("local", "-a", names[0], "--beside", names[1], "--model", QWEN["model"]).output
    assert prices == pytest.approx([0.085] * 3, abs=5e-4) and "electricity at $0.085/kWh" in said


def test_stated_host_memory_is_that_of_every_machine_with_a_host_of_its_own() -> None:
    asked: dict[str, Any] = {"model": "openai/gpt-oss-120b", "memory": "128 GB"}
    found = tonnage.local("RTX 3090", beside=["RTX 5090", "M4 Max 128GB"], **asked).beside
    assert found[1].row == tonnage.local("RTX 5090", **asked).rows[0]
    assert found[2].row == tonnage.local("M4 Max 128GB", model="openai/gpt-oss-120b").rows[0]


def test_what_does_not_hold_the_model_says_why_and_the_lead_is_the_fastest() -> None:
    shown = told("local", "-a", "RTX 3060", "--beside", "M4 Max 64GB", "--model", "openai/gpt-oss-120b").output
    assert "does not fit M4 Max" in shown and "None of these is faster than GeForce RTX 3060" in shown
    shown = told("local", "-a", "2 x RTX 3090", "--beside", "RTX 5090", "--model", "Qwen/Qwen3.6-27B").output
    assert "Fastest: GeForce RTX 5090 for $2,800" in shown and "estimated street prices" in shown


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"beside": ["RTX 5090"]}, "none is named"),
        ({"beside": ["RTX 5090"], "model": "qwen"}, "'qwen' names"),
        ({"beside": ["RTX 509"], **QWEN}, "did you mean 'rtx-5090'"),
    ],
)
def test_what_cannot_be_compared_is_said(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(TonnageError, match=said):
        tonnage.local("RTX 3090", **fields)
