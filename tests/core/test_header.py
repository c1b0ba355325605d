"""A request that nothing meets says what dropping each constraint buys; a plan that works names its choices (D7-9)."""

import re
from typing import Any

import pytest
from tests.command import rented

import tonnage

EIGHT = "meta-llama/Llama-3.1-8B-Instruct"
CHAT = {"model": EIGHT, "traffic": "chat", "quick": True}


def plan(kind: str, **fields: Any) -> Any:
    return getattr(tonnage, f"plan_{kind}")(**fields)


GCP = {"provider": "gcp", "accelerator": "H100"}
"""Each constraint is dropped in turn: without either of these the market is still a small one."""


@pytest.mark.parametrize(
    ("kind", "fields", "limit", "buys"),
    [
        ("serve", {**CHAT, "rate": "4/s", "eu": True, "accelerator": "Gaudi2"}, "eu",
         "--eu"),
        ("serve", {**CHAT, **GCP, "rate": "40/s", "budget": "$0.2/h"}, "budget", "--budget"),
        ("serve", {**CHAT, **GCP, "rate": "4/s", "tpot": "50 us"}, "tpot", "--tpot"),
        ("serve", {**CHAT, "rate": "4/s", "vendor": "amd", "max_power": "100 W",
                   "accelerator": "MI300X,MI325X"},
         None, "--max-power"),
        ("batch", {"model": EIGHT, "items": "50M", "deadline": "5 min", **GCP}, "deadline", "--deadline"),
        ("batch", {"model": EIGHT, "items": "50M", "budget": "$1", **GCP}, "budget", "--budget"),
        ("batch", {"model": EIGHT, "items": "1M", "certification": "hipaa", "provider": "verda",
                   "accelerator": "H100"}, "certification",
         "--certification"),
        ("batch", {"model": EIGHT, "items": "1M", "precision": "int4", "quality": "99 %", **GCP}, "quality",
         "--quality"),
        ("train", {"model": "7B", "tokens": "100B", "deadline": "2 days", "max_accelerators": 8, **GCP}, "deadline",
         "--max-accelerators"),
        ("finetune", {"model": EIGHT, "method": "full", "tokens": "40M", "count": 1, "accelerator": "L4"}, "memory",
         "--count"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_and_what_dropping_it_buys(
    kind: str, fields: dict[str, Any], limit: str | None, buys: str
) -> None:
    made = plan(kind, **fields)
    assert not made.feasible and made.binding.reason
    assert limit is None or made.binding.limit == limit
    told = [text for text in made.relaxing if text.startswith(f"without {buys}:")]
    assert told and "$" in told[0] and " x " in told[0], made.relaxing
    named = {"budget": ("budget $",), "deadline": ("deadline",), "tpot": ("TTFT", "TPOT")}.get(limit or "", ())
    assert all(word in (made.binding.nearest or "") for word in named), "the nearest that works"


def test_objectives_that_exclude_each_other_are_answered_by_the_least_that_work_together() -> None:
    fields = {"model": EIGHT, "rate": "1/s", "traffic": "chat", "accelerator": "L4,L40S", "quick": True}
    made = plan("serve", **fields, ttft="10 ms", tpot="2 ms")
    (told,) = made.relaxing
    limits = dict(re.findall(r"--(\w+) '([^']+)'", told))
    assert told.startswith("with ") and set(limits) == {"ttft", "tpot"} and " at $" in told
    assert plan("serve", **fields, **limits).feasible
    assert "tp1" not in made.sentence and "TP" in (made.binding.nearest or "")


def test_what_is_bought_is_the_plan_without_the_constraint() -> None:
    asked: dict[str, Any] = {"model": EIGHT, "items": "50M", "deadline": "5 min", **GCP}
    made = plan("batch", **asked)
    free = plan("batch", **{**asked, "deadline": None})
    assert any(f"{rented(free)} for $" in text for text in made.relaxing)


def test_a_plan_that_works_relaxes_nothing() -> None:
    assert plan("batch", model=EIGHT, items="1M", accelerator="H100").relaxing == ()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("serve", {"rate": "4/s", "traffic": "chat", "ttft": "1 s", "accelerator": ["H100", "L40S"], "quick": True}),
        ("batch", {"items": "1M", "prompt_tokens": "800", "output_tokens": "150", "accelerator": ["H100", "L40S"]}),
    ],
)
def test_plans_name_their_choices(kind: str, fields: dict[str, object]) -> None:
    made = plan(kind, model=EIGHT, **fields)
    assert (made.choices[0].name, made.choices[0].option) == ("cheapest", 0)
    assert all(choice.option < len(made.options) for choice in made.choices)
    if kind == "serve":
        safe = [made.options[choice.option] for choice in made.choices if choice.name == "resilient"]
        for option in safe:
            peak = 4.0 * made.request.shape.peak_to_mean
            lost = -(-option.replicas // option.bill.instances)
            assert peak <= (option.replicas - lost) * option.capacity.max_rate_per_s.value * (1 + 1e-9)
