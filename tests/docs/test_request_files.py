"""Every request file of examples/ answers, and what its first comment asks is answered as it should be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.command import told
from tests.report.examples import TODAY, answered
from tests.sweeps import FULL

import tonnage

EXAMPLES = Path(__file__).parents[2] / "examples"
REQUESTS = sorted(
    path.name for path in EXAMPLES.glob("*.yaml") if "plan" in yaml.safe_load(path.read_text(encoding="utf-8"))
)

EU = {"AT", "BE", "DE", "ES", "FI", "FR", "IE", "IT", "LU", "NL", "PL", "PT", "SE", "DK", "CZ", "EE"}
# The 20 simulations of five workloads take as long as all other documents; `make laws` runs them. Budgets search the
# market at every rate and size: over few kinds of accelerator they are answered alike.
SIMULATED = {"chat-70b", "chat-70b-eu", "intermittent-7b", "lifecycle-13b", "fleet-slices"}
"""Those that are asked as they stand; of others, the answer that tests of reports read is the same or enough."""
Check = Callable[[dict[str, Any]], bool]


def first(plan: dict[str, Any]) -> dict[str, Any]:
    option: dict[str, Any] = plan["options"][0]
    return option


def hours(plan: dict[str, Any]) -> float:
    return float(first(plan)["run"]["wall_s"]["value"]) / 3600


def usd(plan: dict[str, Any]) -> float:
    return float(first(plan)["cost"]["value"])


def monthly(plan: dict[str, Any], accelerator: str) -> float:
    """The least that serving costs on one kind of accelerator. [USD/month]"""
    kind = [o["usd_per_month"] for o in plan["options"] if o["configuration"]["accelerator"].startswith(accelerator)]
    return min(map(float, kind))


def cheapest_way(plan: dict[str, Any]) -> dict[str, Any]:
    """The way to follow the day's load that the plan calls the cheapest."""
    (best,) = (way for way in plan["day"]["ways"] if way["name"] == plan["day"]["best"])
    found: dict[str, Any] = best
    return found


def leading_bills(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The bill of the first option, of each part of a lifecycle; fleets have lines of their own kind."""
    parts = [plan, *(plan[name] for name in ("train", "serve") if isinstance(plan.get(name), dict))]
    bills = [part["options"][0].get("bill", {}) for part in parts if part.get("options")]
    return [bill for bill in bills if isinstance(bill, dict)]


# What a person who knows the job would check. Prices move; these do not.
FACTS: dict[str, Check] = {
    "bert-base-finetune.yaml": lambda p: first(p)["accelerators"] == 1 and hours(p) < 2 and usd(p) < 1,
    "lora-7b.yaml": lambda p: first(p)["accelerators"] == 1 and hours(p) < 24,
    "qlora-70b.yaml": lambda p: first(p)["accelerators"] == 1 and 35e9 < first(p)["memory"]["value"] < 150e9,
    "finetune-13b.yaml": lambda p: first(p)["accelerators"] >= 2 and hours(p) < 8,
    "pretrain-8b.yaml": lambda p: hours(p) < 720 and 8 <= first(p)["accelerators"] <= 64,
    "pretrain-405b.yaml": lambda p: (
        first(p)["accelerators"] == 16384
        and 50 * 24 < hours(p) < 100 * 24
        and first(p)["run"]["useful_time_fraction"]["value"] > 0.9
        and first(p)["run"]["interruptions"] > 300
    ),
    "fleet-of-five.yaml": lambda p: (
        (not FULL or all(check["meets"] for check in p["checks"]))
        and len(p["instances"]) > 1
        and abs(p["bill"]["value"] - sum(part["value"] for part in p["bill"]["parts"])) < 1e-6
    ),
    "fleet-slices.yaml": lambda p: (
        all(check["meets"] for check in p["checks"])
        and p["bill"]["value"] == 0
        and sum(1 for one in p["replicas"] if one.get("slice")) >= 2
    ),
    "video-streams.yaml": lambda p: (
        first(p)["count"] == 1
        and first(p)["streams_per_accelerator"] >= 20
        and first(p)["capacity_per_s"]["value"] >= 500 / 0.8
        and first(p)["chance"] >= 0.8
        and first(p)["latency_s"]["value"] < 0.2
    ),
    "transcribe.yaml": lambda p: first(p)["capacity_per_s"]["value"] * first(p)["count"] > 100,
    "images-sdxl.yaml": lambda p: first(p)["latency_s"]["value"] < 30 and first(p)["used"] < 0.8,
    "embed-texts.yaml": lambda p: first(p)["count"] <= 4 and first(p)["latency_s"]["value"] < 0.25,
    "traced-unet.yaml": lambda p: first(p)["capacity_per_s"]["low"] * first(p)["count"] >= 60 and p["model"]["id"],
    "traced-graph.yaml": lambda p: first(p)["latency_s"]["value"] < 0.1 and first(p)["precision"] == "fp32",
    "video-clips.yaml": lambda p: first(p)["latency_s"]["value"] < 1200 and first(p)["memory"]["value"] > 28e9,
    "ask-images.yaml": lambda p: 1 <= first(p)["count"] <= 4 and first(p)["memory"]["value"] > 16e9,
    "speak.yaml": lambda p: first(p)["capacity_per_s"]["value"] * first(p)["count"] > 500,
    "rerank.yaml": lambda p: first(p)["latency_s"]["value"] < 0.5 and first(p)["count"] <= 8,
    "edge-battery.yaml": lambda p: (
        first(p)["accelerator"].startswith("jetson") and first(p)["battery_h"] > 4 and 0 < first(p)["decode_used"] < 1
    ),
    "intermittent-7b.yaml": lambda p: (
        cheapest_way(p)["name"] == "scale-to-zero"
        and first(p)["usd_per_month"] < 0.7 * monthly(p, "a100")
        and cheapest_way(p)["usd_per_month"] < 0.1 * min(monthly(p, "a100"), monthly(p, "h100"))
    ),
    "chat-70b-eu.yaml": lambda p: (
        {o["bill"]["country"] for o in p["options"]} <= EU
        and all(change.get("passes") is not False for change in p["quality"])
    ),
    "nightly-batch.yaml": lambda p: (
        first(p)["wall_s"]["value"] < 8 * 3600
        and usd(p) < 1000
        and p["frontier"][-1]["times_faster"] > 1.5 * p["frontier"][-1]["times_the_price"]
    ),
    "lifecycle-13b.yaml": lambda p: (
        p["serve_share"] > 0.8
        and p["one_type_text"].startswith(("yes", "no"))
        and 1.0 <= p["one_type"][0]["times_the_mix"] < 2.0  # cards that serve it cheapest train nothing
        and p["bill"]["value"] == pytest.approx(sum(part["value"] for part in p["bill"]["parts"]))
    ),
    "pretrain-moe.yaml": lambda p: hours(p) < 60 * 24 and first(p)["configuration"]["layout"].get("ep", 1) > 1,
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_request_is_answered(name: str) -> None:
    stem = name.removesuffix(".yaml")
    if FULL or stem in SIMULATED:
        result = told("plan", str(EXAMPLES / name), "--json", "--today", str(TODAY))
        assert result.exit_code == 0, result.output
        plan = json.loads(result.output)
    else:
        plan = json.loads(msgspec.json.encode(answered(stem)))
    assert plan["schema"] == "tonnage.plan/2" and plan["feasible"] and plan["sentence"]
    assert name not in FACTS or FACTS[name](plan), plan["sentence"]
    # A price that is the default, from its seller, is left out of the file.
    assert [bill for bill in leading_bills(plan) if "trust" in bill] == []


def test_every_fact_has_its_file() -> None:
    assert set(FACTS) <= set(REQUESTS)


def test_the_page_of_cases_names_every_field_of_every_prediction() -> None:
    page = (EXAMPLES.parent / "docs" / "reference" / "cases.md").read_text(encoding="utf-8")
    cases: dict[str, dict[str, Any]] = {
        "serve": {"model": "8B", "traffic": {"concurrency": 1}, "isl": 64, "osl": 8},
        "train": {"model": "8B", "count": 8, "seq_len": 512, "global_batch": 8},
        "infer": {"model": "timm/resnet50.a1_in1k", "batch": 1},
    }
    for kind, case in cases.items():
        fields = tonnage.predict({"kind": kind, "accelerator": "H100", **case}).__struct_fields__
        assert len(fields) > 8 and [name for name in fields if f"`{name}`" not in page] == [], kind
