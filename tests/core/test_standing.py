"""Parts that are only announced never lead; parts without a published throughput are refused in one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command import answered

import tonnage
from tonnage.errors import BadRequest

MODEL = "meta-llama/Meta-Llama-3.1-8B"
OFFERS = """
[[offer]]
provider = "cellar"
accelerator = "mi455x"
count = 4
on_demand = "$0.01/h"
country = "fr"
as_of = 2026-11-01
source = "own list"
"""
CHAT = {"plan": "serve", "model": MODEL, "rate": "1/s", "traffic": "chat", "quick": True}


def fit(**where: str) -> Any:
    return tonnage.fit(MODEL, **where)


def predicted(part: str, kind: str = "serve", **case: Any) -> Any:
    served = {"model": MODEL, "traffic": {"concurrency": 4}, "isl": 1024, "osl": 256}
    return tonnage.predict({"kind": kind, "accelerator": part, **(case or served)})


def test_no_part_that_is_not_on_sale_is_put_forward() -> None:
    assert all(tonnage.accelerator(row.accelerator).status == "released" for row in fit().rows)


def test_an_offer_far_too_cheap_does_not_make_an_announced_part_lead(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OFFERS, encoding="utf-8")
    found = answered("plan", "-", "--all", "--additions", tmp_path / "own.toml", given=CHAT)
    parts = {option["configuration"]["accelerator"] for option in found["options"]}
    assert parts and all(tonnage.accelerator(part).status == "released" for part in parts)
    assert [one["verdict"]["limit"] for one in found["rejected"] if one["what"] == "mi455x"] == ["announced"]
    named = answered("plan", "-", "--additions", tmp_path / "own.toml", given={**CHAT, "accelerator": "mi455x"})
    assert {option["configuration"]["accelerator"] for option in named["options"]} == {"mi455x"}


def test_a_named_part_that_is_announced_is_answered_and_said_to_be() -> None:
    assert any("MI455X is announced, not measured" in told for told in fit(accelerator="MI455X").assumed)
    assert any("is announced, not measured" in note for note in predicted("mi455x").notes)
    assert not any("announced" in told for told in fit(accelerator="mi355x").assumed)


@pytest.mark.parametrize(
    "ask",
    [
        lambda part: fit(accelerator=part),
        predicted,
        lambda part: predicted(part, "train", model=MODEL, count=8, seq_len=1024, global_batch=8),
        lambda part: predicted(part, "infer", model="resnet50"),
        lambda part: tonnage.plan_serve(MODEL, rate="1/s", traffic="chat", accelerator=part),
    ],
)
@pytest.mark.parametrize("part", ["cerebras-wse-3", "groq", "Corsair", "n300"])
def test_nothing_is_predicted_without_a_published_throughput(ask: Callable[[str], object], part: str) -> None:
    with pytest.raises(BadRequest, match=r"is not published, so nothing is predicted for it; `tonnage catalog") as told:
        ask(part)
    assert "\n" not in str(told.value)
    assert tonnage.accelerator(part).id in str(told.value)
