"""What do files say of a system: a measurement of a server, of a training run, a trace of kernels?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from msgspec.structs import replace

from tonnage.domain.diagnosis import Evidence, Fact, LoadLevel
from tonnage.domain.measurement import Latency, Measurement, Point, ServerState
from tonnage.domain.train_measurement import DeviceActivity, StepTimes, TrainMeasurement, TrainRun
from tonnage.measure.diagnose.limits import fact
from tonnage.measure.diagnose.window import evidence_of, merge_readings
from tonnage.measure.knee import objective_missed
from tonnage.measure.records import Log
from tonnage.measure.summary import stated_values


def evidence_of_measurement(measurement: Measurement, *, source: str = "") -> Evidence:
    """A measurement of a server: its loads, and what is true of the highest of them."""
    points = sorted((point for point in measurement.points if point.completed), key=lambda point: point.level)
    if not points:
        failed = next((point for point in measurement.points if point.failed), None)
        return Evidence(
            kinds=("serving",),
            sources=(source,),
            model=measurement.model,
            requests=None if failed is None else float(failed.failed),
            failed_share=None if failed is None else 1.0,
        )
    top = points[-1]
    missed = objective_missed(top, measurement.slo)
    state = top.server or ServerState(engine="")
    ttft, tpot, e2e = (found or Latency() for found in (top.ttft_s, top.tpot_s, top.e2e_s))
    found = {
        "requests": float(top.completed),
        "failed_share": top.failed / (top.completed + top.failed),
        "requests_per_s": top.requests_per_s,
        "prompt_tokens": top.prompt_tokens,
        "output_tokens": top.output_tokens,
        "ttft_s": ttft.mean,
        "ttft_p95_s": ttft.p95,
        "tpot_s": tpot.mean,
        "e2e_s": e2e.mean,
        "e2e_p95_s": e2e.p95,
        "queue_s": _client_queue_s(points),
        "levels": _levels(points),
        "slo_missed": (missed,) if missed else (),
        "client_delay_s": top.client_delay_s,
        "running_most": state.running,
        "waiting_most": state.waiting,
        "kv_used_most": state.kv_used,
        "cached_share": top.cached_share,
        "preemptions": state.preemptions,
        "engine": state.engine or None,
    }
    return replace(Evidence(kinds=("serving",), sources=(source,), model=measurement.model), **stated_values(found))


def evidence_of_log(log: Log, measurement: Measurement, *, source: str) -> Evidence:
    """The same from a file of results, with the server's own numbers over the highest load, and the first requests."""
    whole = evidence_of_measurement(measurement, source=source)
    points = [point for point in measurement.points if point.completed]
    if not points:
        return whole
    highest = max(points, key=lambda point: point.level)
    stage = next((one.stage for one in log.segments if one.load.level == highest.level), 0)
    parts = {one.segment for one in log.segments if one.stage == stage}
    readings = [scrape.reading for scrape in log.scrapes if scrape.segment in parts]
    if readings:
        client = replace(whole, **dict.fromkeys(_BY_SERVER))
        whole = merge_readings([client, evidence_of(readings), replace(whole, sources=())])
    return replace(whole, **_first_and_later(log))


_BY_SERVER: Final = ("engine", "running_most", "waiting_most", "kv_used_most", "preemptions", "queue_s")
"""What the server's own pages say better than the client's summary of them."""


def _first_and_later(log: Log) -> dict[str, float]:
    """Time to first token of the very first requests, and of those after, at the first load."""
    good = sorted(
        (o for o in log.outcomes if o.failure is None and o.first_s is not None and o.segment == 0),
        key=lambda outcome: outcome.intended_s,
    )
    at_once = max((int(one.load.concurrency or 1) for one in log.segments if one.segment == 0), default=1)
    first = good[: min(at_once, 4)]
    later = [o for o in good if o.intended_s > max((f.last_s or f.end_s for f in first), default=0.0)]
    if not first or len(later) < 10:
        return {}
    took = [(o.first_s or 0.0) - o.intended_s for o in later]
    return {"first_s": max((o.first_s or 0.0) - o.intended_s for o in first), "later_s": median(took)}


def _client_queue_s(points: Sequence[Point]) -> float | None:
    """Waiting at the highest load as seen from outside: time to first token beyond that of the lowest load."""
    low, high = points[0].ttft_s, points[-1].ttft_s
    if len(points) < 2 or low is None or high is None or low.p50 is None or high.mean is None:
        return None
    return max(0.0, high.mean - low.p50)


def _levels(points: Sequence[Point]) -> tuple[LoadLevel, ...] | None:
    found = [
        LoadLevel(
            level=point.level,
            requests_per_s=point.requests_per_s,
            p95_s=point.e2e_s.p95,
            requests=float(point.completed),
        )
        for point in points
        if point.requests_per_s and point.e2e_s is not None and point.e2e_s.p95
    ]
    return tuple(found) or None


def evidence_of_training(measurement: TrainMeasurement, *, source: str = "") -> Evidence:
    """A measured training run: the one with the most devices."""
    run = measurement.runs[-1]
    seen = run.activity or DeviceActivity()
    memory = run.memory
    found: dict[str, Any] = {
        "accelerator": measurement.device,
        "model": measurement.model,
        "step_s": run.step_s,
        "hidden_communication_s": run.hidden_communication_s,
        "devices": run.devices,
        "scaling_efficiency": run.efficiency,
        "slowest_share": _slowest(run),
        "memory_peak_bytes": memory.peak_bytes,
        "memory_reserved_bytes": memory.reserved_bytes,
        "memory_capacity_bytes": memory.capacity_bytes,
        "alloc_retries": None if memory.alloc_retries is None else float(memory.alloc_retries),
        "samples": run.steps,
        "busy_s": seen.busy_s,
        "kernel_s": seen.kernel_s,
        "copies_s": seen.copies_s,
        "utilisation": seen.utilisation,
        "flop_per_s": seen.flop_per_s,
        "memory_bytes_per_s": seen.memory_bytes_per_s,
        "throttle_reasons": seen.throttle_reasons,
    }
    return replace(Evidence(kinds=("training",), sources=(source,), parts=run.parts), **stated_values(found))


def _computing_s(parts: StepTimes) -> float | None:
    own = (parts.forward_s, parts.backward_s, parts.optimizer_s)
    return None if all(value is None for value in own) else sum(value for value in own if value is not None)


def _slowest(run: TrainRun) -> float | None:
    times = [value for rank in run.ranks if (value := _computing_s(rank.parts)) is not None]
    if len(times) < 2 or not median(times):
        return None
    return max(times) / median(times) - 1.0


def compare_with_record(now: Measurement, before: Measurement) -> tuple[Fact, ...]:
    """How much worse the same loads are than they were: longer latency, lower throughput, as shares."""
    old = {(point.rate_per_s, point.concurrency): point for point in before.points}
    found: list[Fact] = []
    for point in now.points:
        other = old.get((point.rate_per_s, point.concurrency))
        if other is None:
            continue
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            later, earlier = getattr(point, name), getattr(other, name)
            if later is not None and earlier is not None and later.p50 and earlier.p50:
                found.append(fact(f"median {name[:-2].upper()} at {point.level:g}", later.p50 / earlier.p50 - 1.0))
        if point.requests_per_s and other.requests_per_s:
            change = other.requests_per_s / point.requests_per_s - 1.0
            found.append(fact(f"fewer requests/s at {point.level:g}", change))
    return tuple(found)
