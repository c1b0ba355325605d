"""The chance of keeping every limit is never above that of one of them, in the terminal and on the page."""

import html
import json
import re
from collections.abc import Callable
from math import floor
from pathlib import Path
from typing import Any

import pytest
from tests.command import told

import tonnage

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LIMITS = {"ttft": "500 ms", "tpot": "20 ms"}
CHAT = {"model": MODEL, "traffic": "chat", **LIMITS}
RUN = {"model": "1B", "tokens": "20B", "seq_len": "2048", "accelerator": "H100"}
NIGHT = {"model": MODEL, "prompt_tokens": "800", "output_tokens": "150", "accelerator": "B200"}
TUNE = {"method": "lora", "tokens": "4M", "accelerator": "L40S"}
STEPS = {"steps": "50", "prompts_per_step": "16", "responses_per_prompt": "8", "response_tokens": "1000"}

Options = list[dict[str, Any]]


def first(plan: dict[str, Any]) -> Options:
    return [plan["options"][0]]


Asked = tuple[dict[str, Any], Callable[[dict[str, Any]], Options]]
ASKED: dict[str, Asked] = {
    "serve": ({**CHAT, "rate": "20/s", "accelerator": "L40S", "quick": True}, first),
    "budget": ({**CHAT, "amount": "$3,000/month", "accelerator": "L40S,H100"}, lambda p: [p["models"][0]["option"]]),
    "lifecycle": (
        {"model": MODEL, "months": "12", "finetune": TUNE, "quick": True,
         "serve": {"rate": "30/s", "traffic": "chat", "accelerator": "RTX PRO 6000 Blackwell Server", **LIMITS}},
        lambda p: [p["make"]["options"][0], p["serve"]["options"][0]],
    ),
    "batch": ({**NIGHT, "items": "5M", "deadline": "4 h", "budget": "$150"}, first),
    "batch soon": ({**NIGHT, "items": "20k", "deadline": "10 min"}, first),
    "train": ({**RUN, "deadline": "2 days", "budget": "$700"}, first),
    "finetune": ({"model": MODEL, **TUNE, "deadline": "2 h"}, first),
    "rl": ({"model": MODEL, **STEPS, "accelerator": "H100", "count": "8", "deadline": "2 h"}, first),
}  # fmt: skip
SURE = re.compile(r"([<>]?)(\d+) % sure")


def stated(text: str) -> list[float]:
    """Chances of single limits: "<1" counts as none, ">99" as all."""
    return [{"<": 0.0, ">": 100.0}.get(sign, float(number)) for sign, number in SURE.findall(text)]


@pytest.mark.parametrize("kind", ASKED)
def test_no_limit_alone_is_less_likely_than_all(kind: str, tmp_path: Path) -> None:
    fields, options = ASKED[kind]
    plan, page = tmp_path / "plan.json", tmp_path / "plan.html"
    done = told("plan", "-", "-o", plan, "--plot", page, given={"plan": kind.split(maxsplit=1)[0], **fields})
    least = min(floor(100 * option["chance"] + 1e-2) for option in options(json.loads(plan.read_text())))
    shown = html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))
    for text in (done.stdout, shown):
        assert all(alone >= least for alone in stated(text)), (least, text[:2000])
    assert stated(done.stdout) or "chance of meeting all objectives" in done.stdout


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
