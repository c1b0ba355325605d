"""Five planted faults: each is found, and its money is what the simulator says when it is asked count by count."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import fields, replace
from tests.questions.adopt.test_advise import GOOD, MODEL, advice, named

import tonnage
from tonnage.adopt import read_running
from tonnage.domain.diagnosis import Evidence
from tonnage.domain.requests.serve import Serve
from tonnage.measure.diagnose.sources import judge
from tonnage.questions.adopt.advise import advise
from tonnage.questions.adopt.question import Action, Adopt, Advice, Seen
from tonnage.questions.adopt.replayed import DRAWN, ServiceTraffic, hourly_bounds
from tonnage.simulation.simulated import requests_of

HEADROOM: float = next(field.default for field in fields(Serve) if field.name == "headroom")
EVEN = {"confidence": "50%"}
"""The simulator knows no errors of its own."""
FP8 = {"weights": "fp8", "activations": "fp8"}


@cache
def truth(*, rate: float, most: int = 12, reuse: float = 0.0) -> int:
    """
    Fewest replicas whose simulated requests meet the objectives with the plan's headroom; from one upwards.

    Twice as many as the advice draws, from another seed: at 93 % of capacity queues grow over thousands of requests,
    and a shorter run would take a count for enough that a longer one does not.
    """
    for count in range(1, most):
        seen = tonnage.simulate(
            model=MODEL,
            accelerator="h100-sxm5-80gb",
            engine="vllm",
            replicas=count,
            capacity=False,
            traffic={
                "rate": f"{rate / (1.0 - HEADROOM)}/s",
                "prompt_tokens": 1024,
                "output_tokens": 256,
                "requests": 2 * DRAWN,
                "cached_share": reuse,
                "seed": 7,
            },
            slo={"ttft": "1 s", "tpot": "30 ms", "percentile": 95},
            router="least-loaded",
            precision=FP8,
        )
        assert seen.tpot_s is not None
        if seen.ttft_s.p95 <= 1.0 and seen.tpot_s.p95 <= 0.03:  # type: ignore[operator]
            return count
    return most


def holds(found: Advice, action: Action | None, count: int) -> None:
    """Money of an action within 10 % of so many replicas at what one costs today; the traffic was played on it."""
    assert action.state.replayed.keeps and action.state.keeps
    each = found.today.usd_per_month / found.today.replicas
    assert action.state.usd_per_month == pytest.approx(count * each, rel=0.1)
    assert action.usd_per_month == pytest.approx(found.today.usd_per_month - count * each, rel=0.1, abs=0.1 * each)


def test_a_small_batch_limit() -> None:
    found = advice(f"{GOOD} --max-num-seqs 4", replicas=12, rate=40.0, **EVEN)
    assert not found.today.keeps or found.today.replayed is not None
    holds(found, named(found, "batch limit"), truth(rate=40.0))


def test_an_oversized_fleet() -> None:
    found = advice(GOOD, replicas=8, rate=40.0, **EVEN)
    holds(found, named(found, "replicas"), truth(rate=40.0))


def test_a_missing_prefix_cache() -> None:
    asked = {"replicas": 8, "rate": 80.0, "reuse": "80%"}
    found, surer = (advice(f"{GOOD} --no-enable-prefix-caching", **asked, **more) for more in (EVEN, {}))
    action, more = named(found, "prefix cache"), named(surer, "prefix cache")
    holds(found, action, truth(rate=80.0, reuse=0.8))
    assert action.state.chance < 0.8 <= more.state.chance and more.state.replicas > action.state.replicas


def test_sixteen_bits_where_eight_would_do() -> None:
    found = advice(f"vllm serve {MODEL} --max-model-len 32768", replicas=6, rate=60.0, **EVEN)
    action = named(found, "number format")
    holds(found, action, truth(rate=60.0))
    assert action.state.precision.weights == "fp8" and "quality" in action.risk


@pytest.mark.parametrize(("first_s", "cold"), [(4.0, True), (0.5, False)])
def test_cold_replicas_are_warmed_which_costs_no_money(first_s: float, cold: bool) -> None:
    seen, evidence = Seen(rate_per_s=10.0, prompt_tokens=1024, output_tokens=256), Evidence(kinds=("serving",))
    found = judge(replace(evidence, first_s=first_s, later_s=0.3))
    request = Adopt(file=GOOD, accelerator="h100-sxm5-80gb", replicas=1, providers=("lambda",))
    action = named(advise(request, read_running(GOOD, name="serve.sh"), diagnosis=found, seen=seen), "warm-up")
    assert (action is not None) is cold
    assert action is None or (action.usd_per_month == 0.0 and "4 s" in action.change)


def test_the_hours_of_a_log_bound_an_autoscaler() -> None:
    """Two busy hours of eight need three replicas, the others one: 1.5 on average of the three that run."""
    busy = np.arange(0.0, 7200.0, 1.0 / 12.0)
    quiet = np.arange(7200.0, 8 * 3600.0 + 1.0, 0.5)
    sent = np.concatenate([busy, quiet])
    one = np.ones(len(sent), np.int64)
    traffic = ServiceTraffic(requests_of(sent, one, output=one), 5.0, 1.0, 1.0, None, "")
    now = advice(GOOD, replicas=3).today
    base = replace(now, most_per_s=3 * 6.25)
    (action,) = hourly_bounds(traffic, base, now=now, headroom=0.2, worth=0.02)
    assert "between 1 and 3 replicas" in action.change and "1.5 on average" in action.change
    assert action.usd_per_month == pytest.approx(now.usd_per_month / 2)
    even = traffic._replace(requests=requests_of(sent[::5], one[::5], output=one[::5]))
    assert not hourly_bounds(even, replace(base, most_per_s=300.0), now=now, headroom=0.2, worth=0.02)


def test_a_log_is_replayed_before_what_a_page_says(tmp_path: Path) -> None:
    """Eight hours, of which two are busy: what the log has is taken before what the page says."""
    command, page, log = tmp_path / "serve.sh", tmp_path / "page.prom", tmp_path / "log.csv"
    command.write_text(f"{GOOD} --max-num-seqs 64\n")
    page.write_text("vllm:num_requests_running 8\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.1\n")
    lines, moment = ["TIMESTAMP,ContextTokens,GeneratedTokens"], 0.0
    for hour in range(8):
        for _ in range(14_400 if hour in (3, 4) else 1_440):
            moment += 3600.0 / (14_400 if hour in (3, 4) else 1_440)
            clock = f"{int(moment // 3600):02d}:{int(moment // 60 % 60):02d}:{moment % 60:09.6f}"
            lines.append(f"2026-11-20 {clock}0,1024,256")
    log.write_text("\n".join(lines) + "\n")
    found = tonnage.advise(
        str(command), str(page), look={"log": str(log)}, accelerator="H100", replicas=4, ttft="1 s", tpot="30 ms",
        provider="lambda",
    )  # type: ignore[arg-type]  # fmt: skip
    assert found.seen.prompt_tokens == pytest.approx(1024) and found.seen.log == str(log)
    assert found.seen.rate_per_s == pytest.approx((2 * 14_400 + 6 * 1_440) / 8 / 3600, rel=0.05)
    assert "37,440 requests of" in found.replayed
    assert found.today.replayed.requests == 37_440
