"""
aiperf 0.13 (`profile_export_aiperf.json`, or the per-request `profile_export.jsonl`).

By definition: its `inter_token_latency` is (request latency - TTFT) / (n - 1) of each request, our TPOT; its
`inter_chunk_latency` is the raw gaps, our ITL, but the summary file averages it within each request first,
so that only the per-request file gives ITL. It counts output tokens with its own tokenizer:
`usage_completion_tokens`, where the server sent it, is what we count, and TPOT is computed anew from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Latency, Measurement, Point
from tonnage.measure.summary import cached_notes, ratio, stated_latency, times_of, with_latencies

NAMES = {"mean": "avg", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "most": "max"}


def recognise(document: Any) -> bool:
    """Whether it is aiperf's summary, or its lines of requests."""
    if isinstance(document, list):
        return any(map(_is_line, document[:1]))
    return _is_line(document) or (isinstance(document, dict) and "aiperf_version" in document)


def _is_line(document: Any) -> bool:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    return isinstance(metadata, dict) and "credit_issued_ns" in metadata


def read(document: Any) -> Measurement:
    """One point, from the summary or from the requests."""
    if isinstance(document, list):
        return _from_lines(document)
    return _from_lines([document]) if _is_line(document) else _from_summary(document)


def _from_summary(document: Mapping[str, Any]) -> Measurement:
    """The summary's averages as one load, open where it states a rate; tokens by the server's count, if stated."""
    config = document.get("input_config") or {}
    endpoint = config.get("endpoint") or {}
    models = (config.get("models") or {}).get("items") or [{}]
    concurrency, rate = _load(config)
    completed = int(_average(document, "request_count") or 0)
    errors = int(_average(document, "error_request_count") or 0)
    theirs, servers = _average(document, "output_sequence_length"), _average(document, "usage_completion_tokens")
    notes = []
    differs = theirs is not None and servers is not None and abs(theirs / servers - 1.0) > 0.01
    seconds = _average(document, "benchmark_duration")
    written = _average(document, "total_usage_completion_tokens")
    if differs:
        notes.append(
            f"aiperf counts {theirs:.1f} output tokens a request where the server counts {servers:.1f}: rates here are "
            "the server's, and its TPOT, which divides by its own count, is left out (the per-request file gives it)."
        )
    own_rate = ratio(written, seconds)
    urls = endpoint.get("urls") or [None]
    prompt = _average(document, "usage_prompt_tokens") or _average(document, "input_sequence_length")
    cached = _average(document, "usage_prompt_cache_read_tokens")
    point = Point(
        rate_per_s=rate,
        concurrency=concurrency if rate is None else None,
        requests=completed + errors,
        completed=completed,
        failures={"errors": errors} if errors else {},
        duration_s=seconds,
        prompt_tokens=prompt,
        output_tokens=servers or theirs,
        requests_per_s=_average(document, "request_throughput"),
        output_tokens_per_s=_average(document, "output_token_throughput") if own_rate is None else own_rate,
        goodput_per_s=_average(document, "goodput"),
        ttft_s=_latency(document, "time_to_first_token"),
        tpot_s=None if differs else _latency(document, "inter_token_latency"),
        e2e_s=_latency(document, "request_latency"),
        cached_share=ratio(cached, prompt),
    )
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="aiperf",
        tool_version=document.get("aiperf_version"),
        model=models[0].get("name"),
        url=urls[0],
        date=document.get("start_time"),
        points=(point,),
        notes=(*cached_notes((point,)), *notes),
    )


def _load(config: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Concurrency and rate, wherever this version keeps them: the first that is met; None = not stated."""
    found: dict[str, float] = {}

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for name, inside in value.items():
                if name in {"concurrency", "request_rate", "rate"} and isinstance(inside, int | float):
                    found.setdefault("concurrency" if name == "concurrency" else "rate", float(inside))
                look(inside)
        elif isinstance(value, list):
            for inside in value:
                look(inside)

    look(config.get("phases") or config.get("loadgen") or config)
    return found.get("concurrency"), found.get("rate")


def _average(document: Mapping[str, Any], name: str) -> float | None:
    found = document.get(name)
    return found.get("avg") if isinstance(found, dict) else None


def _latency(document: Mapping[str, Any], name: str) -> Latency | None:
    found = document.get(name)
    if not isinstance(found, dict) or found.get("unit") != "ms":
        return None
    return stated_latency(found, NAMES, unit=1e3, count=found.get("count"))


def _from_lines(lines: Sequence[Mapping[str, Any]]) -> Measurement:
    """The requests of the measured phase as one load of unknown kind; cancelled ones and errors have failed."""
    counted = [line for line in lines if line["metadata"].get("benchmark_phase", "profiling") == "profiling"]
    good = [line for line in counted if not line.get("error") and not line["metadata"].get("was_cancelled")]
    answers, itl, written, read_ = [], [], 0, 0
    for line in good:
        # Times count from the credit, when the load said the request was due, not from when it was sent.
        late = (line["metadata"]["request_start_ns"] - line["metadata"]["credit_issued_ns"]) / 1e9
        first, whole = (_value(line, name) / 1e3 for name in ("time_to_first_token", "request_latency"))
        tokens = int(_value(line, "usage_completion_tokens", "output_sequence_length"))
        answers.append((-late, first, whole, tokens))
        itl += [gap / 1e3 for gap in _values(line, "inter_chunk_latency")]
        written += tokens
        read_ += int(_value(line, "usage_prompt_tokens", "input_sequence_length"))
    span = (
        max(line["metadata"]["request_end_ns"] for line in counted)
        - min(line["metadata"]["credit_issued_ns"] for line in counted)
    ) / 1e9
    failed = len(counted) - len(good)
    cached = [_value(line, name) for line in good if (name := "usage_prompt_cache_read_tokens") in line["metrics"]]
    point = Point(
        requests=len(counted),
        completed=len(good),
        failures={"errors": failed} if failed else {},
        duration_s=span,
        prompt_tokens=ratio(read_, len(good)),
        output_tokens=ratio(written, len(good)),
        requests_per_s=len(good) / span,
        output_tokens_per_s=written / span,
        total_tokens_per_s=(written + read_) / span,
        cached_share=sum(cached) / read_ if cached else None,
    )
    point = with_latencies(point, {**times_of(answers), "itl_s": itl})
    notes = (*cached_notes((point,)), "The per-request file does not say which load was applied.")
    return Measurement(schema=MEASUREMENT_SCHEMA, tool="aiperf", points=(point,), notes=notes)


def _value(line: Mapping[str, Any], *names: str) -> float:
    """The first of these metrics that a request has."""
    for name in names:
        found = line["metrics"].get(name)
        if found is not None:
            return float(found["value"])
    raise KeyError(names[0])


def _values(line: Mapping[str, Any], name: str) -> list[float]:
    found = line["metrics"].get(name)
    return list(found["value"]) if found is not None else []
