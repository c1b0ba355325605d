"""
guidellm 0.8 (`guidellm run --output kind=json`): a list of benchmarks, each one load.

By definition: its `inter_token_latency` is (last token - first token) / (n - 1) of a request, which is
our TPOT, but its statistics weight each request by its tokens; its `time_per_output_token` divides the
request's time, first token included, by all tokens, and is nothing of ours. It keeps no gaps, so ITL is absent.
Its `request_latency` runs to the end of the connection, a little beyond the last token. Where every request
is in the report (`requests`), TTFT, TPOT and E2E are computed from their times and need no conversion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point
from tonnage.measure.summary import cached_notes, stated_latency, times_of, with_latencies

NAMES = {"mean": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "most": "max"}


def recognise(document: Any) -> bool:
    """Whether guidellm names itself in the metadata."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("metadata"), dict)
        and "guidellm_version" in document["metadata"]
        and isinstance(document.get("benchmarks"), list)
    )


def read(document: dict[str, Any]) -> Measurement:
    """A point for each benchmark."""
    benchmarks = document["benchmarks"]
    backend = benchmarks[0]["config"].get("backend") or {} if benchmarks else {}
    start = benchmarks[0].get("start_time") if benchmarks else None
    sampled = [one for one in benchmarks if not _keeps_all(one)]
    notes = []
    if sampled:
        notes.append(
            "guidellm kept a sample of the requests: E2E includes the end of the connection, TPOT weights requests by "
            "their tokens, and ITL is not in the report."
        )
    delays = [one["scheduler_metrics"].get("request_targeted_start_delay_avg") for one in benchmarks]
    late = max((delay for delay in delays if delay is not None), default=0.0)
    if late > 1e-3:
        notes.append(f"guidellm itself sent {late * 1e3:.1f} ms late on average, which its latencies leave out.")
    points = tuple(_point(one) for one in benchmarks)
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="guidellm",
        tool_version=document["metadata"]["guidellm_version"],
        model=backend.get("model"),
        url=backend.get("target"),
        date=datetime.fromtimestamp(start, UTC).isoformat(timespec="seconds") if start is not None else None,
        points=points,
        notes=(*cached_notes(points), *notes),
    )


def _keeps_all(benchmark: Mapping[str, Any]) -> bool:
    """Whether every answered request of a benchmark is in the report, and not a sample of them."""
    kept = benchmark.get("requests", {}).get("successful") or []
    return len(kept) == int(benchmark["metrics"]["request_totals"]["successful"])


def _point(benchmark: Mapping[str, Any]) -> Point:
    """
    One benchmark as a load: latencies from its requests where all are kept, else as its statistics have them.

    Requests that were under way at its end count neither as answered nor as failed.
    """
    metrics, strategy = benchmark["metrics"], benchmark["config"]["strategy"]
    totals = metrics["request_totals"]
    kind = strategy["type_"]
    streams = 1 if kind == "synchronous" else strategy.get("streams", strategy.get("max_concurrency"))
    rate = strategy.get("rate")
    failures = {kind: totals[kind] for kind in ("errored",) if totals.get(kind)}
    point = Point(
        rate_per_s=rate,
        concurrency=streams if rate is None else None,
        requests=totals["successful"] + sum(failures.values()),
        completed=totals["successful"],
        failures=failures,
        duration_s=benchmark["duration"],
        prompt_tokens=_mean(metrics, "prompt_token_count"),
        output_tokens=_mean(metrics, "output_token_count"),
        requests_per_s=_mean(metrics, "requests_per_second"),
        output_tokens_per_s=_mean(metrics, "output_tokens_per_second"),
        total_tokens_per_s=_mean(metrics, "tokens_per_second"),
        cached_share=_cached_share(benchmark["requests"].get("successful") or ()),
    )
    if _keeps_all(benchmark):
        return with_latencies(point, times_of(_answers(benchmark["requests"]["successful"])))
    return replace(
        point,
        ttft_s=_latency(metrics.get("time_to_first_token_ms"), 1e3),
        tpot_s=_latency(metrics.get("inter_token_latency_ms"), 1e3),
        e2e_s=_latency(metrics.get("request_latency"), 1.0),
    )


def _cached_share(requests: Sequence[Mapping[str, Any]]) -> float | None:
    """Of the prompt tokens of the requests that were kept, those from the server's prefix cache, as it said."""
    read = [(one["cached_tokens"], one["prompt_tokens"]) for one in requests if one.get("cached_tokens") is not None]
    return sum(cached for cached, _ in read) / sum(whole for _, whole in read) if read else None


def _mean(metrics: Mapping[str, Any], name: str) -> float | None:
    found = (metrics.get(name) or {}).get("successful")
    return found["mean"] if found and found["count"] else None


def _latency(metric: Mapping[str, Any] | None, unit: float) -> Latency | None:
    found = (metric or {}).get("successful")
    if not found or not found["count"]:
        return None
    return stated_latency({**found, **found["percentiles"]}, NAMES, unit=unit, count=found["count"])


def _answers(requests: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, float, float, float]]:
    """When each was due, its first and its last token, and its output tokens."""
    for request in requests:
        times = request["info"]["timings"]
        sent = times["targeted_start"] if times.get("targeted_start") is not None else times["request_start"]
        first, last = times["first_token_iteration"], times["last_token_iteration"]
        if first is not None and last is not None:
            yield sent, first, last, request["output_tokens"] or 1
