"""Advice on a service with a planted fault: it is found, its money is what the simulator says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.command import told

import tonnage
from tonnage.errors import BadRequest

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
LENGTHS = """\
vllm:num_requests_running 0
vllm:request_success_total 5000
vllm:prompt_tokens_total 5120000
vllm:generation_tokens_total 1280000
"""
GOOD = f"vllm serve {MODEL} --max-model-len 32768 --quantization fp8"
SERVICE = {"accelerator": "h100-sxm5-80gb", "ttft": "1 s", "tpot": "30 ms", "provider": "lambda"}


def advice(command: str, *, replicas: int, rate: float = 10.0, **more: Any) -> Any:
    """Advice on a command whose page shows 1,024 prompt and 256 answer tokens a request."""
    with TemporaryDirectory() as folder:
        file, page = Path(folder, "serve.sh"), Path(folder, "page.prom")
        file.write_text(f"{command}\n", encoding="utf-8")
        page.write_text(LENGTHS, encoding="utf-8")
        asked = {**SERVICE, "replicas": replicas, "rate": rate, **more}
        return tonnage.advise(str(file), str(page), calibrate=False, **asked)


def named(found: Any, name: str) -> Any:
    return next((action for action in found.actions if action.name == name), None)


def test_a_small_batch_limit_is_found_and_its_money_is_what_the_simulator_says() -> None:
    found = advice(f"{GOOD} --max-num-seqs 4", replicas=4)
    action = named(found, "batch limit")
    assert action.state.replicas < found.today.replicas
    load = {"rate": 10, "prompt_tokens": 1024, "output_tokens": 256, "ttft": 1.0, "tpot": 0.03}
    where = {"accelerator": "H100", "engine": "vllm", "precision": "fp8", "provider": "lambda", "confidence": "50%"}
    (chart,) = tonnage.charts(found)
    shown = {one["name"]: one["y"] for one in chart.body["data"]["values"]}
    assert shown["today"] == found.today.usd_per_month and shown["batch limit"] == action.state.usd_per_month
    plan = tonnage.plan_serve(MODEL, **load, **where)
    option = next(one for one in plan.options if one.configuration.layout == action.state.layout)
    assert action.state.usd_per_month == pytest.approx(option.usd_per_month, rel=0.1)


@pytest.mark.parametrize(("command", "reuse"), [(f"{GOOD} --no-enable-prefix-caching", None), (GOOD, "80%")])
def test_a_prefix_cache_needs_prompts_that_repeat_and_an_engine_without_one(command: str, reuse: str | None) -> None:
    found = advice(command, replicas=1, rate=24.0, reuse=reuse)
    assert named(found, "prefix cache") is None and named(found, "number format") is None, "its weights have eight bits"


def test_what_repairs_a_service_comes_before_what_saves() -> None:
    found = advice(f"{GOOD} --max-num-seqs 4", replicas=1)
    assert not found.today.keeps and found.actions[0].state.keeps
    assert "does not carry" in found.sentence


def test_training_jobs_are_for_adopt() -> None:
    with pytest.raises(BadRequest, match="tonnage adopt"):
        advice("torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096", replicas=1)


PAGE = """\
vllm:num_requests_running 8
vllm:num_requests_waiting 3
vllm:kv_cache_usage_perc 0.1
vllm:request_success_total 5000
vllm:prompt_tokens_total 5120000
vllm:generation_tokens_total 1280000
vllm:time_to_first_token_seconds_sum 4500
vllm:time_to_first_token_seconds_count 5000
vllm:request_queue_time_seconds_sum 4300
vllm:request_queue_time_seconds_count 5000
vllm:inter_token_latency_seconds_sum 10455
vllm:inter_token_latency_seconds_count 1275000
vllm:e2e_request_latency_seconds_sum 15000
vllm:e2e_request_latency_seconds_count 5000
"""


def test_a_page_calibrates_and_its_queue_is_not_blamed_on_the_engine(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(f"vllm serve {MODEL} --max-model-len 32768 --max-num-seqs 8\n")
    (tmp_path / "page.prom").write_text(PAGE)
    argv = ["advise", str(tmp_path / "serve.sh"), str(tmp_path / "page.prom"), "-a", "H100", "--replicas", "4",
            "--ttft", "1 s", "--tpot", "30 ms", "--provider", "lambda", "--today", "2026-11-22"]  # fmt: skip
    lacking = told(*argv)
    assert lacking.exit_code == 2 and "--rate" in lacking.output
    done = told(*argv, "--rate", "10/s")
    assert done.exit_code == 0, done.output
    assert "batch limit" in done.output and "calibrated by its own latencies" in done.output
    assert len(done.output.splitlines()) <= 24
    slow = PAGE.replace("seconds_sum 4500", "seconds_sum 45000")
    (tmp_path / "page.prom").write_text(slow.replace("queue_time_seconds_sum 4300", "queue_time_seconds_sum 44000"))
    slow = told(*argv, "--rate", "10/s").output
    assert "! TTFT of 9 s on average was seen, beyond the 1 s asked for, where" in " ".join(slow.split())
    assert "was seen, beyond" not in done.output


@pytest.mark.parametrize(
    ("flag", "shown", "differ"),
    [("", "fp8_e4m3", True), ("fp8", "auto", True), ("", "auto", False), ("fp8", "fp8_e5m2", False)],
)
def test_a_cache_of_other_bits_than_the_files_is_said_first(
    flag: str, shown: str, differ: bool, tmp_path: Path
) -> None:
    cache = f" --kv-cache-dtype {flag}" if flag else ""
    (tmp_path / "serve.sh").write_text(f"vllm serve {MODEL} --max-model-len 32768{cache}\n")
    (tmp_path / "page.prom").write_text(f'{PAGE}vllm:cache_config_info{{block_size="16",cache_dtype="{shown}"}} 1.0\n')
    files = [str(tmp_path / "serve.sh"), str(tmp_path / "page.prom")]
    text = told("advise", *files, "-a", "H100", "--rate", "10/s", "--provider", "lambda").output
    assert (f"! the metrics page shows a cache in {shown}, the file starts {flag or 'bf16'}" in text) is differ


def test_an_upgrade_says_what_moves_with_its_interval_and_to_measure_again() -> None:
    command = GOOD.replace("vllm serve", "docker run vllm/vllm-openai:v0.9.0")
    action = named(
        advice(command.replace(f" {MODEL}", f" --model {MODEL}"), replicas=2, upgrade="vllm@0.32"), "upgrade"
    )
    moved = re.search(r"TPOT ([+-]\d+) % \(([+-]\d+) % to ([+-]\d+) %\)", action.change)
    assert moved is not None and "0.32 instead of 0.9.0" in action.change and "measure again" in action.risk
    value, low, high = (1 + float(text) / 100 for text in moved.groups())
    assert low * 1.33 == pytest.approx(value, abs=0.01) and high == pytest.approx(value * 1.33, abs=0.02)


def test_a_move_is_played_as_today_is_and_everything_has_its_chance() -> None:
    found = advice(f"vllm serve {MODEL} --max-model-len 32768", replicas=2, provider="lambda,verda")
    moved = named(found, "accelerator").state
    assert moved.replayed.requests == found.today.replayed.requests and moved.replayed.keeps
    states = [found.today, *(action.state for action in found.actions if action.state is not None)]
    assert all(0.0 < state.chance < 1.0 for state in states)


def test_what_runs_and_what_should_run_are_simulated_alike_and_have_their_chances(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(f"{GOOD} --tensor-parallel-size 2\n")
    asked = ["adopt", str(tmp_path / "serve.sh"), "-a", "H100", "--provider", "lambda", "--json", "--rate"]
    for rate, options in (("30/s", ()), ("30/s", ("--quick",)), ("300/s", ())):
        sides = json.loads(told(*asked, rate, *options).output)["serve"]
        now, better = (sides[side]["options"][0] for side in ("current", "better"))
        assert ("simulated" in now["capacity"]) is ("simulated" in better["capacity"]) is (not options)
        assert better["chance"] >= 0.8 > now["chance"] and (now["chance"] < 0.01) is (rate == "300/s")


def test_a_release_is_told_without_metrics_too(tmp_path: Path) -> None:
    (tmp_path / "serve.sh").write_text(f"docker run vllm/vllm-openai:v0.9.0 --model {MODEL} --quantization fp8\n")
    asked = ("adopt", str(tmp_path / "serve.sh"), "-a", "H100", "--rate", "4/s", "--quick", "--upgrade")
    screen = " ".join(told(*asked, "vllm@0.32").output.split())
    assert re.search(r"upgrade: vllm 0.32 instead of 0.9.0: p95 TTFT .* p95 TPOT [+-]\d+ % \(", screen)
    assert told(*asked, "sglang@0.5").exit_code == 2


@pytest.mark.parametrize("upgrade", ["sglang@0.5", "vllm", "vllm@newest"])
def test_an_upgrade_names_a_release_of_the_engine_that_runs(upgrade: str) -> None:
    with pytest.raises(BadRequest, match="no release of the engine that runs"):
        advice(GOOD, replicas=1, upgrade=upgrade)
