"""Times that follow a day or a week, and replicas whose start is opened into its parts."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.command import told

import tonnage
from tonnage.errors import BadRequest, TonnageError


@pytest.mark.parametrize(
    ("name", "hours", "source"),
    [
        ("consumer", 24, "ServeGen, 10-minute request rates of language/m-small, 14 days"),
        ("assistant-week", 168, "ServeGen, 10-minute request rates of language/m-large, mean of 2 weeks"),
    ],
)
def test_named_shapes_bring_so_many_by_the_hour(name: str, hours: int, source: str, tmp_path: Path) -> None:
    traffic = {"prompt_tokens": 10, "output_tokens": 10, "rate": f"{400 / 3600}/s", "shape": name, "process": "even",
               "requests": 400 * hours}  # fmt: skip
    case = {"model": "meta-llama/Llama-3.2-1B", "accelerator": "H100", "traffic": traffic}
    done = told("simulate", "-", "--json", "--requests", tmp_path / "rows.csv", given=case)
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        counts = Counter(int(float(row["sent_s"]) // 3600) for row in csv.DictReader(file))
    plan = tonnage.plan_serve("1B", rate="1/s", prompt_tokens=10, output_tokens=10, day=name, accelerator="H100",
                              quick=True)  # fmt: skip
    wanted = plan.request.shape.hours
    mean = sum(wanted) / len(wanted)
    assert [counts[hour] / 400 for hour in range(hours)] == pytest.approx([each / mean for each in wanted], abs=0.02)
    assert any("rate by the hour as" in told and source in told for told in json.loads(done.stdout)["assumed"])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"shape": "office"}, "no shape of load 'office'"),
        ({"shape": "consumer", "hours": [1] * 24}, "contradict"),
        ({"shape": "consumer", "rate": None, "concurrency": "4"}, "of a mean rate"),
    ],
)
def test_shapes_that_contradict_the_rest(changes: dict[str, Any], named: str) -> None:
    traffic = {"profile": "chat", "rate": "1/s", **changes}
    fields = {"model": "8B", "accelerator": "L4", "traffic": {k: v for k, v in traffic.items() if v is not None}}
    with pytest.raises(TonnageError, match=named):
        tonnage.simulate(**fields)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"prompt_tokens": 0, "output_tokens": 10}, "prompt_tokens 0 must be at least 1"),
        ({"prompt_tokens": 10, "output_tokens": 0}, "output_tokens 0 must be at least 1"),
        ({"profile": "chat", "rate": "1e9/s"}, "above 0 and below 1,000,000,000/s"),
    ],
)
def test_lengths_of_nothing_and_rates_beyond_the_clock(changes: dict[str, Any], named: str) -> None:
    fields = {"model": "8B", "accelerator": "L4", "traffic": {"rate": "1/s", **changes}}
    with pytest.raises(BadRequest, match=named):
        tonnage.simulate(**fields)


def test_a_log_says_how_it_was_read(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("timestamp,prompt_tokens,output_tokens\n1000,0,10\n2000,100,0\n4600,100,10")
    case = {"model": "8B", "accelerator": "L4", "traffic": {"trace": str(log)}}
    done = told("simulate", "-", "--json", "--requests", tmp_path / "rows.csv", given=case)
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        lengths = [(row["prompt_tokens"], row["output_tokens"]) for row in csv.DictReader(file)]
    assert lengths == [("1", "10"), ("100", "1"), ("100", "10")]
    remarks = [
        "its times are read as seconds, so it lasts 1 h",
        "2 without a prompt or an answer count as one token of it",
        "its last line has no end, so its last number may be cut",
    ]
    assert [text for text in json.loads(done.stdout)["assumed"] if text in remarks] == remarks
    log.write_text(log.read_text() + "\n")
    done = told("simulate", "-", "--json", given=case)
    assert [text for text in json.loads(done.stdout)["assumed"] if text in remarks] == remarks[:2]


def started(**scaling: Any) -> Any:
    traffic = {
        "profile": "chat",
        "rate": "0.2/s",
        "requests": "400",
        "process": "on-off",
        "on_for": "5 min",
        "off_for": "60 min",
    }
    fields = {
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "accelerator": "L40S",
        "traffic": traffic,
        "replicas": 2,
        "scaling": {"in_flight": 16, "fewest": 0, "keep": "5 min", **scaling},
    }
    return tonnage.simulate(**fields)


def test_a_start_is_the_machine_the_weights_and_the_warm_up_unless_given() -> None:
    fetched, on_disk, kept = (started(start_from=place, provider="runpod") for place in ("network", "disk", "cached"))
    given = started(cold_start="20 s")
    slowest = [found.ttft_s.p99 for found in (fetched, on_disk, kept, given) if found.ttft_s and found.ttft_s.p99]
    assert len(slowest) == 4 and slowest == sorted(slowest, reverse=True) and slowest[0] > 2 * slowest[2]
    assert any("weights over the network" in note and "RunPod states" in note for note in fetched.assumed)
    assert not any("replica starts in" in note for note in given.assumed)


def test_a_given_start_and_its_parts_contradict() -> None:
    with pytest.raises(BadRequest, match="nothing to say"):
        started(cold_start="20 s", provider="runpod")


def test_a_pipeline_passes_a_prompt_from_stage_to_stage() -> None:
    def first(layout: dict[str, int]) -> float:
        traffic = {"prompt_tokens": "2k", "output_tokens": "8", "rate": "0.05/s", "requests": "50", "process": "even"}
        fields = {
            "model": "meta-llama/Llama-3.1-70B-Instruct",
            "accelerator": "H200",
            "layout": layout,
            "precision": {"weights": "fp8", "kv": "fp8"},
            "traffic": traffic,
        }
        return float(tonnage.simulate(**fields).ttft_s.mean)

    one, two, split = first({"tp": 1}), first({"tp": 1, "pp": 2}), first({"tp": 2})
    assert two == pytest.approx(one, rel=0.15)
    assert split < 0.75 * two


def test_what_was_preempted_is_found_again_under_a_prefix_cache() -> None:
    def seen(caching: bool) -> Any:
        traffic = {"prompt_tokens": "1k", "output_tokens": "3k", "rate": "2/s", "requests": "300"}
        fields = {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "accelerator": "RTX 4090",
            "traffic": traffic,
            "engine_options": {"prefix_caching": caching, "max_model_len": 8192},
        }
        return tonnage.simulate(**fields)

    kept, again = seen(True), seen(False)
    assert again.preemptions > 100 and kept.preemptions > 100
    assert again.cached_share == 0.0 and kept.cached_share > 0.02
    assert kept.span_s < again.span_s
    assert kept.requests == again.requests == 300
