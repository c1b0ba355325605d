"""Buying tokens against renting what makes them (G11): prices of the list, and a load from which renting wins."""

import csv
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tonnage

DEAR = "deepseek-ai/DeepSeek-R1"
MODEL = "meta-llama/Llama-3.3-70B-Instruct"


PRICES = Path(__file__).parents[3] / "src/tonnage/catalog/data/tokens"


def rows_of(table: str) -> set[tuple[str, str]]:
    with (PRICES / table).open(encoding="utf-8", newline="") as file:
        return {(row["provider"], row["name"]) for row in csv.DictReader(file)}


@cache
def planned(rate_per_s: float, model: str = MODEL, **changes: str) -> Any:
    asked = {"prompt_tokens": 1000, "output_tokens": 200, "accelerator": "h200-sxm-141gb", "provider": "nebius"}
    return tonnage.plan_serve(model, rate=rate_per_s, quick=True, **asked | changes)


def test_the_load_costs_its_tokens_at_the_listed_prices() -> None:
    instead = planned(1.0).tokens
    for one in instead.options:
        assert one.usd_per_hour == pytest.approx(
            3600 * (1000 * one.usd_per_million_input + 200 * one.usd_per_million_output) / 1e6
        )
        assert one.page.startswith("https://")
    costs = [one.usd_per_request for one in instead.options]
    assert costs == sorted(costs)
    assert {(one.provider, one.name) for one in instead.options} <= rows_of("prices.csv") - rows_of("doubts.csv")
    assert instead.times == pytest.approx(planned(1.0).options[0].bill.usd_per_hour / instead.options[0].usd_per_hour)


def test_renting_wins_from_the_stated_load_and_not_below() -> None:
    small = planned(0.01, DEAR).tokens
    assert small.wins_from_per_s is not None
    assert small.times > 3
    above, below = (planned(small.wins_from_per_s * factor, DEAR).tokens for factor in (1.02, 0.9))
    assert above.times <= 1.0 < below.times


def test_a_price_that_no_load_reaches_is_said_to_win() -> None:
    instead = tonnage.plan_serve(
        MODEL, rate=1.0, prompt_tokens=1000, output_tokens=200, quick=True, accelerator="t4"
    ).tokens
    assert instead.wins_from_per_s is None
    assert "renting wins at no load" in instead.sentence


def test_others_tunes_and_unlisted_models_have_no_price_of_theirs() -> None:
    named = planned(1.0, "meta-llama/Meta-Llama-3.1-8B").tokens
    assert not any("distill" in one.name.lower() for one in named.options)
    assert planned(1.0, "13B").tokens is None
