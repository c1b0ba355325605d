"""Every kind of plan is read back as written, and opens into its parts: samples, fleets and whole lives as texts do."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import told as command

import tonnage

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
SERVE = {"rate": "2/s", "traffic": "chat", "accelerator": "L40S"}
FINETUNE = {"method": "lora", "tokens": "4M", "accelerator": "L40S"}
ASKED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "serve": ({"model": MODEL, **SERVE, "quick": True},
              ("Memory of one accelerator", "Capacity of one replica", "Replicas", "Bill", "Decisions")),
    "batch": ({"model": MODEL, "items": "100k", "deadline": "8 h", "prompt_tokens": "400",
                                   "output_tokens": "60", "accelerator": "L40S"},
              ("Cost of the job", "Memory of one accelerator", "Electricity and carbon", "billing:")),
    "train": ({"model": "1B", "tokens": "2B", "deadline": "30 days", "seq_len": "2048",
                                   "accelerator": "H100"}, ("One step", "Cost of the run")),
    "finetune": ({"model": MODEL, **FINETUNE},
                 ("Memory of one accelerator", "One step", "The run", "Cost of the run", "Scaling", "Decisions")),
    "infer": ({"model": "ultralytics/yolov8m", "streams": "20", "fps": "25"},
              ("Memory of one accelerator", "parameters x bytes", "What one does, and how many that takes")),
    "lifecycle": ({"model": MODEL, "months": "12", "finetune": FINETUNE, "serve": SERVE,
                                           "quick": True},
                  ("The whole bill, opened", "One step", "Capacity of one replica", "730", "\nstep: ",
                   "\nmean TPOT: ")),
    "rl": ({"model": MODEL, "steps": "50", "prompts_per_step": "16", "responses_per_prompt": "8",
                             "response_tokens": "1000", "accelerator": "H100", "count": "8"},
           ("One step", "Cost of the run")),
    "fleet": ({"workloads": [{"name": "chat", "model": "8B", "rate": "2/s", "traffic": "chat"}],
                                   "provider": "gcp", "accelerator": "L4", "quick": True},
              ("The month's bill, opened", "Instances, by the hour")),
    "own": ({"own": "2 x L40S, RTX 3060", "min_speed": "20"},
            ("Electricity, opened", "Every group", "Power and money")),
    "budget": ({"amount": "$900/month", "model": MODEL, "traffic": "chat", "accelerator": "L40S"},
               ("Bill of the first, opened", "Assumptions")),
}  # fmt: skip


def test_every_kind_of_plan_is_here() -> None:
    functions = {name for name in tonnage.__all__ if name.startswith("plan_")} - {"plan_from_file"}
    assert {f"plan_{kind}" for kind in ASKED} == functions


@pytest.mark.parametrize("kind", ASKED)
def test_a_plan_of_every_kind_is_opened(kind: str, tmp_path: Path) -> None:
    fields, told = ASKED[kind]
    plan = getattr(tonnage, f"plan_{kind}")(**fields)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=type(plan)) == plan and plan.schema == "tonnage.plan/2"
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(tonnage.to_dict(plan)))
    opened = command("explain", str(path), "--why", width=160)
    assert opened.exit_code == 0, opened.output
    assert plan.feasible and opened.output.splitlines()[0]
    assert all(text in opened.output for text in told)
    assert f"Made {json.loads(path.read_text())['provenance']['made']}" in opened.output
    first = command("explain", str(path)).output.splitlines()
    assert len(first) <= 24 and max(map(len, first)) <= 100 and "--why" in " ".join(first), first
    assert any("largest parts" in line for line in first)
    if kind != "fleet":
        none = command("explain", str(path), "--option", "999")
        assert none.exit_code == 2 and "choose 1" in none.stderr
