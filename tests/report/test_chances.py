"""The chance of keeping every limit is never above that of one of them, in the terminal and on the page."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest

import tonnage
from tonnage.questions.answers import show
from tonnage.units import whole_percent

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LIMITS = {"ttft": "500 ms", "tpot": "20 ms"}
CHAT = {"model": MODEL, "traffic": "chat", **LIMITS}
RUN = {"model": "1B", "tokens": "20B", "seq_len": "2048", "accelerator": "H100"}
NIGHT = {"model": MODEL, "prompt_tokens": "800", "output_tokens": "150", "accelerator": "B200"}
TUNE = {"method": "lora", "tokens": "4M", "accelerator": "L40S"}
STEPS = {"steps": "50", "prompts_per_step": "16", "responses_per_prompt": "8", "response_tokens": "1000"}

Asked = tuple[Callable[..., Any], dict[str, Any], Callable[[Any], tuple[Any, ...]]]
ASKED: dict[str, Asked] = {
    "serve": (tonnage.plan_serve, {**CHAT, "rate": "20/s", "accelerator": "L40S", "quick": True},
              lambda p: p.options[:1]),
    "budget": (tonnage.plan_budget, {**CHAT, "amount": "$3,000/month", "accelerator": "L40S,H100"},
               lambda p: (p.models[0].option,)),
    "lifecycle": (
        tonnage.plan_lifecycle,
        {"model": MODEL, "months": "12", "finetune": TUNE, "quick": True,
         "serve": {"rate": "30/s", "traffic": "chat", "accelerator": "RTX PRO 6000 Blackwell Server", **LIMITS}},
        lambda p: (p.make.options[0], p.serve.options[0]),
    ),
    "batch": (tonnage.plan_batch, {**NIGHT, "items": "5M", "deadline": "4 h", "budget": "$150"},
              lambda p: p.options[:1]),
    "soon": (tonnage.plan_batch, {**NIGHT, "items": "20k", "deadline": "10 min"}, lambda p: p.options[:1]),
    "train": (tonnage.plan_train, {**RUN, "deadline": "2 days", "budget": "$700"}, lambda p: p.options[:1]),
    "finetune": (tonnage.plan_finetune, {"model": MODEL, **TUNE, "deadline": "2 h"}, lambda p: p.options[:1]),
    "rl": (tonnage.plan_rl, {"model": MODEL, **STEPS, "accelerator": "H100", "count": "8", "deadline": "2 h"},
           lambda p: p.options[:1]),
}  # fmt: skip
SURE = re.compile(r"([<>]?)(\d+) % sure")


def stated(text: str) -> list[float]:
    """Chances of single limits: "<1" counts as none, ">99" as all."""
    return [{"<": 0.0, ">": 100.0}.get(sign, float(number)) for sign, number in SURE.findall(text)]


@pytest.mark.parametrize("kind", ASKED)
def test_no_limit_alone_is_less_likely_than_all(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, fields, first = ASKED[kind]
    plan = function(**fields)
    joint = [float(whole_percent(option.chance).strip("<>% ")) for option in first(plan)]
    show(plan)
    terminal, page = capsys.readouterr().out, html.unescape(re.sub(r"<[^>]+>", "", plan._repr_html_()))
    for text in (terminal, page):
        assert all(alone >= min(joint) for alone in stated(text)), (joint, text[:2000])
    assert stated(terminal) or "chance of meeting all objectives" in terminal


@pytest.mark.parametrize("alone", LIMITS)
def test_a_further_objective_makes_an_option_no_likelier(alone: str) -> None:
    asked = {**CHAT, "rate": "20/s", "accelerator": "L40S,H100", "quick": True}

    def chances(**fields: Any) -> dict[Any, float]:
        options = tonnage.plan_serve(**fields).options
        return {(o.configuration, o.replicas, o.bill.instance_type): o.chance or 0.0 for o in options}

    fewer = {name: value for name, value in asked.items() if name == alone or name not in LIMITS}
    both, one = chances(**asked), chances(**fewer)
    assert both.keys() & one.keys()
    assert all(both[option] <= one[option] + 1e-9 for option in both.keys() & one.keys())
