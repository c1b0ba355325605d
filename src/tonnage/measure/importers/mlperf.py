"""
MLPerf inference logs of LoadGen: `mlperf_log_summary.txt`, or the keys of `mlperf_log_detail.txt`.

By definition: LoadGen times from when a query was SCHEDULED (Server) to its tokens, so TTFT holds the queue, as ours;
time per output token is (last - first) / (n - 1) of each sample, our TPOT. Server is an open loop of Poisson arrivals
at `target_qps`; Offline hands everything in at once, so its latencies are places in the queue and are left out.
Completed tokens are output tokens. A run that LoadGen calls INVALID says so in the notes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Measurement, Point
from tonnage.measure.summary import ratio, stated_latency

_HEADING: Final = "MLPerf Results Summary"
_RANKS: Final = {"p50": "50.00", "p90": "90.00", "p95": "95.00", "p99": "99.00"}
_NAMES: Final = {name: name for name in ("mean", *_RANKS)}
_NANO: Final = 1e9
"""A second. [ns]"""


def recognise(document: Any) -> bool:
    """Whether it is a summary, or lines of a detail log."""
    if isinstance(document, str):
        return _HEADING in document[:400]
    return isinstance(document, list) and any(
        isinstance(x, dict) and x.get("key") == "loadgen_version" for x in document
    )


def read(document: Any) -> Measurement:
    """One point."""
    return _measurement(_of_summary(document) if isinstance(document, str) else _of_detail(document))


def _of_summary(text: str) -> dict[str, Any]:
    """What the summary says, under the names of the detail log."""
    said = dict(
        (name.strip().lower(), value.strip()) for name, value in re.findall(r"^\s*([^:\n=*]+?)\s*: *(.+)$", text, re.M)
    )

    def number(*names: str) -> float | None:
        return next((float(said[name]) for name in names if name in said), None)

    found: dict[str, Any] = {
        "name": said.get("sut name"),
        "scenario": said.get("scenario"),
        "validity": said.get("result is"),
        "target": number("target_qps"),
        "scheduled": number("scheduled samples per second"),
        "completed": number("completed samples per second", "samples per second"),
        "tokens": number("completed tokens per second", "tokens per second"),
        "queries": None,
        "least_s": (number("min_duration (ms)") or 0.0) / 1e3,
    }
    for ours, mean, percentile in (
        ("ttft", "mean first token latency (ns)", "percentile first token latency (ns)"),
        ("tpot", "mean time to output token (ns)", "percentile time to output token (ns)"),
        ("e2e", "mean latency (ns)", "percentile latency (ns)"),
    ):
        found[ours] = {"mean": number(mean), **{p: number(f"{rank} {percentile}") for p, rank in _RANKS.items()}}
    return found


def _of_detail(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same of the lines of a detail log, the last of each key."""
    said = {line["key"]: line.get("value") for line in lines if "key" in line}
    found: dict[str, Any] = {
        "name": said.get("sut_name"),
        "scenario": said.get("effective_scenario") or said.get("requested_scenario"),
        "validity": said.get("result_validity"),
        "target": said.get("effective_target_qps"),
        "scheduled": said.get("result_scheduled_samples_per_sec"),
        "completed": said.get("result_completed_samples_per_sec") or said.get("result_samples_per_second"),
        "tokens": said.get("result_completed_tokens_per_second") or said.get("result_tokens_per_second"),
        "queries": said.get("result_query_count"),
        "version": said.get("loadgen_version"),
    }
    for ours, mean, percentile in (
        ("ttft", "result_first_token_mean_latency_ns", "result_first_token_{}_percentile_latency_ns"),
        ("tpot", "result_time_to_output_token_mean", "result_time_per_output_token_{}_percentile_ns"),
        ("e2e", "result_mean_latency_ns", "result_{}_percentile_latency_ns"),
    ):
        found[ours] = {"mean": said.get(mean), **{p: said.get(percentile.format(r)) for p, r in _RANKS.items()}}
    return found


def _measurement(found: Mapping[str, Any]) -> Measurement:
    """
    One point: of Server an open loop, at the rate that arrived or else was the target; of other scenarios rates alone.

    Where nothing says how many samples ran, `completed` is a lower bound, which a note says.
    """
    server = str(found["scenario"] or "").lower() == "server"
    rate, tokens = found["completed"], found["tokens"]
    notes = []
    if found["validity"] != "VALID":
        notes.append(
            f"LoadGen calls this run {found['validity'] or 'neither valid nor invalid'}: its rules were not met."
        )
    if not server:
        notes.append(
            f"{found['scenario'] or 'This scenario'} hands everything in at once: its latencies are places in a queue "
            "and are left out."
        )
    if rate is None and tokens is None:
        raise ValueError("no completed samples or tokens per second")
    queries = found["queries"]
    if queries is None:
        queries = max(1.0, (rate or 0.0) * (found.get("least_s") or 0.0))
        notes.append("The summary does not say how many samples ran: at least its rate over its shortest duration.")
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="MLPerf LoadGen",
        tool_version=str(found["version"]) if found.get("version") else None,
        model=found["name"],
        points=(
            Point(
                rate_per_s=(found["scheduled"] or found["target"]) if server else None,
                completed=int(queries),
                output_tokens=ratio(tokens or None, rate),
                requests_per_s=rate,
                output_tokens_per_s=tokens,
                ttft_s=stated_latency(found["ttft"], _NAMES, unit=_NANO) if server else None,
                tpot_s=stated_latency(found["tpot"], _NAMES, unit=_NANO) if server else None,
                e2e_s=stated_latency(found["e2e"], _NAMES, unit=_NANO) if server else None,
            ),
        ),
        notes=tuple(notes),
    )
