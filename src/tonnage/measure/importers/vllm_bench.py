"""
`vllm bench serve --save-result`: one flat object.

Its `tpot` is (latency - TTFT) / (n - 1) of each request, as ours, but counts a one-token answer as 0;
`itl` is the raw gaps, as ours; `e2el` the whole answer. Percentiles are those that were asked for
(`p99_…` by default) and the median. `max_concurrency` is a bound, `request_rate` "inf" is no schedule
at all: every request at once, held back by that bound.
"""

from __future__ import annotations

import math
from typing import Any

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Measurement, Point
from tonnage.measure.summary import ratio, stated_latency

NAMES = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
"""Our statistic -> its own word; one that was not asked for is absent."""


def recognise(document: Any) -> bool:
    """Whether the object has the fields that only vLLM's benchmark writes together."""
    return isinstance(document, dict) and {"request_rate", "mean_ttft_ms", "total_output_tokens"} <= document.keys()


def read(document: dict[str, Any]) -> Measurement:
    """One point: an open loop of a finite rate, else a closed one of the bound; without either it has no level."""
    completed = int(document["completed"])
    failed = int(document.get("failed") or 0)
    rate = float(document["request_rate"])
    bound = document.get("max_concurrency")
    notes = []
    if bound is not None and math.isfinite(rate):
        notes.append(f"Arrivals at {rate:g}/s were held back at {bound} at once: latencies leave that wait out.")
    if math.isinf(rate) and bound is None:
        notes.append("All requests were sent at once (no rate, no bound on concurrency).")
    outputs = document.get("output_lens")
    if not isinstance(outputs, list) or len(outputs) < completed or 1 in outputs:
        notes.append("vLLM counts the TPOT of an answer of one token as 0; ours leaves such answers out.")
    prompts, written = document.get("total_input_tokens"), document["total_output_tokens"]
    version = document.get("vllm_version")
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="vllm bench",
        tool_version=str(version) if version is not None else None,
        model=document.get("model_id"),
        date=_date(document.get("date")),
        points=(
            Point(
                rate_per_s=rate if math.isfinite(rate) else None,
                concurrency=bound if math.isinf(rate) else None,
                requests=completed + failed,
                completed=completed,
                failures={"failed": failed} if failed else {},
                duration_s=document["duration"],
                prompt_tokens=ratio(prompts, completed),
                output_tokens=ratio(written, completed),
                requests_per_s=document["request_throughput"],
                output_tokens_per_s=document["output_throughput"],
                total_tokens_per_s=document.get("total_token_throughput"),
                goodput_per_s=document.get("request_goodput"),
                ttft_s=stated_latency(document, NAMES, at="{}_ttft_ms", unit=1e3, count=completed),
                tpot_s=stated_latency(document, NAMES, at="{}_tpot_ms", unit=1e3),
                itl_s=stated_latency(document, NAMES, at="{}_itl_ms", unit=1e3),
                e2e_s=stated_latency(document, NAMES, at="{}_e2el_ms", unit=1e3, count=completed),
            ),
        ),
        notes=tuple(notes),
    )


def _date(text: Any) -> str | None:
    """20261120-154632 as 2026-11-20T15:46:32."""
    if not isinstance(text, str) or len(text) != 15:
        return None
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[9:11]}:{text[11:13]}:{text[13:]}"
