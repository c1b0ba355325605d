"""
Situations and their verdicts: pages as engines print them, reports, training runs. The whole way, from bytes.

Synthesised unless the name says recorded. A situation without a verdict is one that lacks evidence, or has no limit.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.measure.diagnose import pages
from tonnage.domain.diagnosis import Diagnosis
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point
from tonnage.domain.requests.common import Slo
from tonnage.domain.train_measurement import (
    TRAIN_MEASUREMENT_SCHEMA,
    DeviceActivity,
    RankSteps,
    StepTimes,
    TrainMeasurement,
    TrainMemory,
    TrainRun,
)
from tonnage.measure.diagnose.sources import diagnose, evidence_of_measurement, evidence_of_training, judge
from tonnage.measure.diagnose.window import evidence_of, merge_readings
from tonnage.measure.metrics import reading_of

DATA = Path(__file__).parents[2] / "data" / "measure"


def over(*looks: str, every_s: float = 10.0, **stated: Any) -> Diagnosis:
    """The diagnosis of pages read one after another."""
    readings = [reading_of(page, at_s=every_s * number) for number, page in enumerate(looks)]
    assert all(reading is not None for reading in readings)
    found = evidence_of([reading for reading in readings if reading is not None], source="pages")
    return judge(msgspec.structs.replace(found, **stated))


def both(engine: list[str], device: list[str], every_s: float = 10.0) -> Diagnosis:
    """An engine's pages and its accelerators', read beside one another."""
    parts = [
        evidence_of([r for n, page in enumerate(looks) if (r := reading_of(page, at_s=every_s * n)) is not None])
        for looks in (engine, device)
    ]
    return judge(merge_readings(parts))


def busy(count: int, **rest: Any) -> str:
    """vLLM with healthy latencies after so many requests."""
    return pages.vllm(e2e=[2.0] * count, ttft=[0.2] * count, queue=[0.01] * count, **rest)


def sweep(*loads: tuple[float, float, float], slo: Slo | None = None, **rest: Any) -> Diagnosis:
    """Loads as (concurrency, requests/s, p95 of the whole answer)."""
    points = tuple(
        Point(
            concurrency=level,
            requests=200,
            completed=200,
            requests_per_s=rate,
            prompt_tokens=400.0,
            output_tokens=100.0,
            e2e_s=Latency(mean=p95 * 0.8, p50=p95 * 0.8, p95=p95),
            ttft_s=Latency(mean=0.1, p50=0.1, p95=0.2),
            **rest,
        )
        for level, rate, p95 in loads
    )
    return judge(
        evidence_of_measurement(Measurement(schema=MEASUREMENT_SCHEMA, tool="t", points=points, slo=slo or Slo()))
    )


def training(
    parts: dict[str, float],
    *,
    memory: TrainMemory | None = None,
    activity: DeviceActivity | None = None,
    ranks: tuple[RankSteps, ...] = (),
    devices: int = 2,
) -> Diagnosis:
    step = StepTimes(**{f"{name}_s": value for name, value in parts.items()})
    run = TrainRun(
        devices=devices,
        steps=50,
        step_s=step.sum_s,
        parts=step,
        memory=memory or TrainMemory(),
        activity=activity,
        ranks=ranks,
    )
    return judge(evidence_of_training(TrainMeasurement(schema=TRAIN_MEASUREMENT_SCHEMA, tool="t", runs=(run,))))


CALM = {"forward": 0.1, "backward": 0.2, "optimizer": 0.02, "input": 0.002, "communication": 0.01, "other": 0.002}
GIB = 2.0**30


def rank(number: int, computing: float) -> RankSteps:
    return RankSteps(rank=number, step_s=0.4, parts=StepTimes(forward_s=computing / 3, backward_s=computing * 2 / 3))


def cold() -> Diagnosis:
    found = evidence_of([reading_of(busy(30), at_s=0.0), reading_of(busy(60), at_s=10.0)])  # type: ignore[list-item]
    return judge(msgspec.structs.replace(found, first_s=9.0, later_s=0.2))


SITUATIONS: dict[str, tuple[Any, str | None]] = {
    "vllm: cache full, preempting": (
        lambda: over(busy(100, kv=0.97, waiting=12, preemptions=5), busy(200, kv=0.99, waiting=15, preemptions=40)),
        "memory-capacity bound",
    ),
    "vllm: cache full, the queue waits for it": (
        lambda: over(
            pages.vllm(e2e=[8.0] * 50, ttft=[6.0] * 50, queue=[5.5] * 50, kv=0.98, waiting=20),
            pages.vllm(e2e=[8.0] * 90, ttft=[6.0] * 90, queue=[5.5] * 90, kv=0.97, waiting=25),
        ),
        "memory-capacity bound",
    ),
    "sglang: retractions": (
        lambda: over(
            pages.sglang(running=40, waiting=3, kv=0.99, retracted=2, e2e=[9.0] * 40, ttft=[1.0] * 40),
            pages.sglang(running=40, waiting=5, kv=0.98, retracted=30, e2e=[9.0] * 90, ttft=[1.0] * 90),
        ),
        "memory-capacity bound",
    ),
    "triton: all blocks used, requests wait": (
        lambda: over(
            pages.triton(scheduled=60, most=512, waiting=9, used=6100, requests=100, queue_s=3.0, e2e_s=9.0),
            pages.triton(scheduled=60, most=512, waiting=11, used=6200, requests=180, queue_s=3.0, e2e_s=9.0),
        ),
        "memory-capacity bound",
    ),
    "vllm: queueing with room in the cache": (
        lambda: over(
            pages.vllm(e2e=[4.0] * 50, ttft=[2.0] * 50, queue=[1.8] * 50, kv=0.4, waiting=6),
            pages.vllm(e2e=[4.0] * 120, ttft=[2.0] * 120, queue=[1.8] * 120, kv=0.45, waiting=8),
        ),
        "queueing",
    ),
    "triton: all seats taken": (
        lambda: over(
            pages.triton(scheduled=64, most=64, waiting=9, used=2000, requests=100, queue_s=3.0, e2e_s=5.0),
            pages.triton(scheduled=64, most=64, waiting=8, used=2100, requests=180, queue_s=3.0, e2e_s=5.0),
        ),
        "queueing",
    ),
    "tgi: queueing": (
        lambda: over(
            pages.tgi(running=32, waiting=10, e2e=[6.0] * 40, queue=[4.0] * 40),
            pages.tgi(running=32, waiting=12, e2e=[6.0] * 90, queue=[4.0] * 90),
        ),
        "queueing",
    ),
    "llama.cpp: deferred requests": (
        lambda: over(*[pages.llamacpp(processing=4, deferred=5)] * 3),
        "queueing",
    ),
    "sweep: past the knee": (
        lambda: sweep((1, 1.0, 1.0), (8, 7.0, 1.15), (32, 20.0, 1.6), (128, 21.0, 6.2)),
        "p95 growing faster than throughput",
    ),
    "prometheus-like window: load rises past the knee": (
        lambda: over(*_rising(), every_s=10.0),
        "p95 growing faster than throughput",
    ),
    "sweep: all below the knee": (lambda: sweep((1, 1.0, 1.0), (8, 7.0, 1.15), (32, 20.0, 1.6)), None),
    "dcgm: memory at its limit under decode": (
        lambda: both([busy(100), busy(200)], [pages.dcgm(tensor=0.12, dram=0.71, power_s=0.0)] * 2),
        "bandwidth-bound",
    ),
    "dcgm: matrix units at their limit": (
        lambda: both([busy(100), busy(200)], [pages.dcgm(tensor=0.68, dram=0.35, power_s=0.0)] * 2),
        "compute-bound",
    ),
    "vllm's own counts against the catalogue: bandwidth": (
        lambda: over(
            busy(100, flop=1e12, read_bytes=1e12),
            busy(200, flop=1e12 + 10 * 4e13, read_bytes=1e12 + 10 * 2.4e12),
            peak_flop_per_s=989e12, peak_memory_bytes_per_s=3.35e12,
        ),
        "bandwidth-bound",
    ),
    "utilisation 99 %, tensor and memory idle": (
        lambda: both([busy(100, running=2), busy(200, running=2)],
                     [pages.dcgm(tensor=0.02, dram=0.1, power_s=0.0)] * 2),
        "under-utilised",
    ),
    "dcgm: power cap": (
        lambda: over(pages.dcgm(tensor=0.4, dram=0.4, power_s=0), pages.dcgm(tensor=0.4, dram=0.4, power_s=4)),
        "throttled",
    ),
    "dcgm: power cap, an older exporter in microseconds": (
        lambda: over(
            pages.dcgm(tensor=0.4, dram=0.4, power_s=0, unit="us"),
            pages.dcgm(tensor=0.4, dram=0.4, power_s=4, unit="us")
        ),
        "throttled",
    ),
    "dcgm: heat, by the reasons of the clock": (
        lambda: over(*[pages.dcgm(tensor=0.4, dram=0.4, reasons=0x40, temp=92)] * 2),
        "throttled",
    ),
    "dcgm: an idle clock is no throttling": (
        lambda: over(*[pages.dcgm(util=0, tensor=0.0, dram=0.0, reasons=0x1)] * 2),
        None,
    ),
    "dcgm: links full": (
        lambda: over(
            pages.dcgm(tensor=0.3, dram=0.3, power_s=0, link_bytes=0),
            pages.dcgm(tensor=0.3, dram=0.3, power_s=0, link_bytes=10 * 400e9),
            link_peak_bytes_per_s=450e9,
        ),
        "communication-bound",
    ),
    "node and dcgm: processors full, accelerator waits": (
        lambda: both([pages.node(idle_s=0, busy_s=0), pages.node(idle_s=0.5, busy_s=9.5)],
                     [pages.dcgm(util=30, tensor=0.03, dram=0.05, power_s=0)] * 2),
        "input-bound",
    ),
    "node and dcgm: a disk full, accelerator waits": (
        lambda: both([pages.node(idle_s=0, busy_s=0), pages.node(idle_s=8, busy_s=1, iowait_s=1, disk_s=9.8)],
                     [pages.dcgm(util=30, tensor=0.03, dram=0.05, power_s=0)] * 2),
        "input-bound",
    ),
    "vllm: hardly any load": (
        lambda: over(*[busy(10 + n, running=n % 2, kv=0.02) for n in range(8)], every_s=600.0),
        "over-provisioned",
    ),
    "vllm: cold start": (cold, "cold start"),
    "client late": (
        lambda: sweep((8, 7.0, 1.15), client_delay_s=0.05),
        "client-bound",
    ),
    "half of the requests fail": (
        lambda: sweep((8, 7.0, 1.15), failures={"http 500": 150}),
        "failing",
    ),
    "training: input stalls": (lambda: training({**CALM, "input": 0.2}), "input-bound"),
    "training: slow links": (lambda: training({**CALM, "communication": 0.3}), "communication-bound"),
    "training: one slow rank": (
        lambda: training({**CALM, "communication": 0.12},
                         ranks=(rank(0, 0.3), rank(1, 0.2), rank(2, 0.2), rank(3, 0.2))),
        "straggler",
    ),
    "training: checkpoints": (lambda: training({**CALM, "checkpoint": 0.1}), "checkpoint-bound"),
    "training: launches": (
        lambda: training(CALM, activity=DeviceActivity(busy_s=0.15, kernel_s=4e-6, utilisation=0.97)),
        "under-utilised",
    ),
    "training: fragmentation": (
        lambda: training(CALM, memory=TrainMemory(
            peak_bytes=50 * GIB, reserved_bytes=78 * GIB, capacity_bytes=80 * GIB, alloc_retries=3)),
        "fragmentation",
    ),
    "training: memory full": (
        lambda: training(CALM, memory=TrainMemory(
            peak_bytes=77 * GIB, reserved_bytes=78 * GIB, capacity_bytes=80 * GIB, alloc_retries=3)),
        "memory-capacity bound",
    ),
    "training: nothing wrong": (
        lambda: training(CALM, memory=TrainMemory(
            peak_bytes=40 * GIB, reserved_bytes=44 * GIB, capacity_bytes=80 * GIB, alloc_retries=0)),
        None,
    ),
    "utilisation alone": (lambda: over(*[pages.dcgm(util=100)] * 5), None),
    "one page, few requests": (lambda: over(busy(3)), None),
    "recorded: vLLM on a processor, five requests": (
        lambda: diagnose(str(DATA / "vllm_0.32.0_cpu_metrics.prom")), None,
    ),
    "recorded: node exporter alone": (lambda: diagnose(str(DATA / "node_exporter_1.5.0.prom")), None),
    "recorded: one look at llama.cpp with four deferred": (
        lambda: diagnose(str(DATA / "llamacpp_2026.10_metrics.prom")), None,
    ),
    "recorded: guidellm, four at once on one slot": (lambda: diagnose(str(DATA / "guidellm_0.8.1.json")), "queueing"),
}  # fmt: skip


def _rising() -> list[str]:
    """Two minutes: first 4 at once at 2/s and 1 s each, then 60 at once at 3/s and 20 s each."""
    took: list[float] = []
    looks = []
    for number in range(31):
        late = number >= 16
        looks.append(
            pages.vllm(
                running=56 if late else 4,
                waiting=0,
                kv=0.5,
                e2e=list(took),
                ttft=[0.2] * len(took),
                queue=[0.01] * len(took),
            )
        )
        took += [20.0] * 30 if late else [0.9] * 20
    return looks


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_verdict_is_the_right_one(name: str) -> None:
    make, expected = SITUATIONS[name]
    found = make()
    names = [verdict.name for verdict in found.verdicts]
    assert (names[0] if names else None) == expected, (names, found.missing)


def test_there_are_at_least_twenty() -> None:
    assert len(SITUATIONS) >= 20
    named = {expected for _, expected in SITUATIONS.values()}
    assert {
        "input-bound",
        "communication-bound",
        "memory-capacity bound",
        "bandwidth-bound",
        "compute-bound",
        "queueing",
        "under-utilised",
        "over-provisioned",
        "fragmentation",
        "cold start",
        "throttled",
        "p95 growing faster than throughput",
    } <= named


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_verdict_cites_numbers_and_a_next_step(name: str) -> None:
    found = SITUATIONS[name][0]()
    for verdict in found.verdicts:
        assert verdict.facts and verdict.next_step and not verdict.next_step.endswith(".")
        assert any(fact.limit is not None and fact.why for fact in verdict.facts) or verdict.name == "throttled"
    if not found.verdicts and found.missing:
        assert all(one.needs and one.how for one in found.missing)
    assert found.sentence.endswith(".")
