"""Advice on a service with a planted fault: it is found, its money is what the simulator says."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import tonnage
from tonnage.adopt import read_running
from tonnage.cli import root
from tonnage.domain.diagnosis import DIAGNOSIS_SCHEMA, Diagnosis, Evidence
from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.questions.adopt.advise import advise
from tonnage.questions.adopt.question import Adopt, Advice, Seen

TODAY = date(2026, 11, 22)
MODEL = "meta-llama/Llama-3.1-8B-Instruct"
GOOD = f"vllm serve {MODEL} --max-model-len 32768 --quantization fp8"


def advice(command: str, *, replicas: int, rate: float = 10.0, reuse: float | None = None, **evidence: Any) -> Advice:
    request = Adopt(
        file=command,
        accelerator="h100-sxm5-80gb",
        replicas=replicas,
        slo=Slo(ttft_s=1.0, tpot_s=0.03),
        providers=("lambda",),
    )
    seen = Seen(rate_per_s=rate, prompt_tokens=1024, output_tokens=256, reused_share=reuse)
    diagnosis = Diagnosis(
        schema=DIAGNOSIS_SCHEMA, sentence="", sources=(), verdicts=(), evidence=Evidence(kinds=("serving",), **evidence)
    )
    return advise(request, read_running(command, name="serve.sh"), diagnosis=diagnosis, seen=seen, today=TODAY)


def named(found: Advice, name: str) -> Any:
    return next((action for action in found.actions if action.name == name), None)


def test_a_small_batch_limit_is_found_and_its_money_is_what_the_simulator_says() -> None:
    found = advice(f"{GOOD} --max-num-seqs 4", replicas=4)
    action = named(found, "batch limit")
    assert action is not None and action.state.replicas < found.today.replicas
    plan = tonnage.plan_serve(
        MODEL,
        rate=10,
        prompt_tokens=1024,
        output_tokens=256,
        ttft=1.0,
        tpot=0.03,
        accelerator="H100",
        engine="vllm",
        precision="fp8",
        provider="lambda",
        confidence="50%",
    )
    option = next(one for one in plan.options if one.configuration.layout == action.state.layout)
    assert action.state.usd_per_month == pytest.approx(option.usd_per_month, rel=0.1)


def test_cold_replicas_are_warmed_which_costs_no_money() -> None:
    action = named(advice(GOOD, replicas=1, first_s=4.0, later_s=0.3), "warm-up")
    assert action is not None and action.usd_per_month == 0.0 and "4 s" in action.change
    assert named(advice(GOOD, replicas=1, first_s=0.5, later_s=0.3), "warm-up") is None


@pytest.mark.parametrize(("command", "reuse"), [(f"{GOOD} --no-enable-prefix-caching", None), (GOOD, 0.8)])
def test_a_prefix_cache_needs_prompts_that_repeat_and_an_engine_without_one(command: str, reuse: float | None) -> None:
    found = advice(command, replicas=1, rate=24.0, reuse=reuse)
    assert named(found, "prefix cache") is None and named(found, "number format") is None, "its weights have eight bits"


def test_what_repairs_a_service_comes_before_what_saves() -> None:
    found = advice(f"{GOOD} --max-num-seqs 4", replicas=1)
    assert not found.today.keeps and found.actions[0].state is not None and found.actions[0].state.keeps
    assert "does not carry" in found.sentence


def test_training_jobs_are_for_adopt() -> None:
    running = replace(read_running(GOOD, name="serve.sh"), kind="train")
    seen = Seen(rate_per_s=1.0, prompt_tokens=10, output_tokens=10)
    diagnosis = Diagnosis(schema=DIAGNOSIS_SCHEMA, sentence="", sources=(), verdicts=(), evidence=Evidence())
    with pytest.raises(BadRequest, match="tonnage adopt"):
        advise(Adopt(file=""), running, diagnosis=diagnosis, seen=seen)


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
    lacking = CliRunner().invoke(root, argv)
    assert lacking.exit_code == 2 and "--rate" in lacking.output
    done = CliRunner().invoke(root, [*argv, "--rate", "10/s"])
    assert done.exit_code == 0, done.output
    assert "batch limit" in done.output and "calibrated by its own latencies" in done.output
    assert len(done.output.splitlines()) <= 24


@pytest.mark.parametrize("upgrade", ["sglang@0.5", "vllm", "vllm@newest"])
def test_an_upgrade_names_a_release_of_the_engine_that_runs(upgrade: str) -> None:
    seen, found = Seen(rate_per_s=10.0, prompt_tokens=1024, output_tokens=256), Evidence(kinds=("serving",))
    request = Adopt(file=GOOD, accelerator="h100-sxm5-80gb", providers=("lambda",))
    diagnosis = Diagnosis(schema=DIAGNOSIS_SCHEMA, sentence="", sources=(), verdicts=(), evidence=found)
    with pytest.raises(BadRequest, match="no release of the engine that runs"):
        advise(
            request, read_running(GOOD, name="serve.sh"), diagnosis=diagnosis, seen=seen, upgrade=upgrade, today=TODAY
        )
