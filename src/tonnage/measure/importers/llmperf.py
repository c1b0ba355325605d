"""
llmperf (Ray): `…_summary.json`, or the per-request `…_individual_responses.json`.

By definition: its `inter_token_latency` is the time of the whole answer, first token included, over ALL output tokens
of a request; that is neither our ITL (gaps between tokens, pooled) nor our TPOT (time after the first token over
tokens after the first). TPOT is computed anew from the requests, and absent where only the summary is given. Its
`ttft` is from sending to the first piece of text, as ours. Tokens are counted by its own tokenizer, always a Llama's.
Concurrency is of a closed loop; a failed request counts as none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Measurement, Point
from tonnage.measure.summary import ratio, stated_latency, times_of, with_latencies

_NAMES = {
    "mean": "mean",
    "p50": "quantiles_p50",
    "p90": "quantiles_p90",
    "p95": "quantiles_p95",
    "p99": "quantiles_p99",
    "most": "max",
}
_REQUEST = {"ttft_s", "end_to_end_latency_s", "number_output_tokens"}
_COUNTED = "llmperf counts tokens with a Llama tokenizer of its own, whatever the model: rates are by that count."


def recognise(document: Any) -> bool:
    """Whether it is llmperf's summary or its list of requests."""
    if isinstance(document, list):
        return bool(document) and isinstance(document[0], dict) and document[0].keys() >= _REQUEST
    return isinstance(document, dict) and "results_end_to_end_latency_s_mean" in document


def read(document: Any) -> Measurement:
    """One point, from the summary or from the requests."""
    return _from_requests(document) if isinstance(document, list) else _from_summary(document)


def _from_summary(document: Mapping[str, Any]) -> Measurement:
    """The summary as one closed loop, without TPOT."""
    errors = int(document.get("results_number_errors") or 0)
    completed = int(document["results_num_completed_requests"])
    tokens = document.get("results_number_output_tokens_mean")
    version = document.get("version")
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="llmperf",
        tool_version=str(version) if version is not None else None,
        model=document.get("model"),
        points=(
            Point(
                concurrency=document.get("num_concurrent_requests"),
                requests=document.get("results_num_requests_started"),
                completed=completed,
                failures={"errors": errors} if errors else {},
                prompt_tokens=document.get("results_number_input_tokens_mean"),
                output_tokens=tokens,
                output_least=document.get("results_number_output_tokens_min"),
                output_most=document.get("results_number_output_tokens_max"),
                requests_per_s=ratio(document.get("results_num_completed_requests_per_min"), 60.0),
                output_tokens_per_s=document.get("results_mean_output_throughput_token_per_s"),
                ttft_s=stated_latency(document, _NAMES, at="results_ttft_s_{}", count=completed),
                e2e_s=stated_latency(document, _NAMES, at="results_end_to_end_latency_s_{}", count=completed),
            ),
        ),
        notes=(
            _COUNTED,
            "llmperf's inter-token latency holds the first token's wait; the per-request file gives TPOT.",
        ),
    )


def _from_requests(rows: Sequence[Mapping[str, Any]]) -> Measurement:
    """The requests as one load without rates; those with an error or without output tokens count as failed."""
    good = [row for row in rows if row.get("error_code") is None and row.get("number_output_tokens")]
    written = [float(row["number_output_tokens"]) for row in good]
    rows_s = [(float(row["ttft_s"]), float(row["end_to_end_latency_s"])) for row in good]
    times = times_of((0.0, *row, tokens) for row, tokens in zip(rows_s, written, strict=True))
    read_in = [float(row["number_input_tokens"]) for row in good if row.get("number_input_tokens") is not None]
    failed = len(rows) - len(good)
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="llmperf",
        points=(
            with_latencies(
                Point(
                    requests=len(rows),
                    completed=len(good),
                    failures={"errors": failed} if failed else {},
                    prompt_tokens=ratio(sum(read_in), len(read_in)),
                    output_tokens=ratio(sum(written), len(written)),
                    output_least=min(written, default=None),
                    output_most=max(written, default=None),
                ),
                times,
            ),
        ),
        notes=(_COUNTED, "The per-request file says neither how many ran at once nor how long it took: no rates."),
    )
