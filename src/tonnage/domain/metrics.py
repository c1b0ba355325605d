"""Metrics of answers: each is declared once, with its name in JSON, its unit and what tables and axes call it."""

from __future__ import annotations

from typing import Final, NamedTuple

from tonnage.domain.requests.common import Slo
from tonnage.units import show


class Metric(NamedTuple):
    """A number that options, predictions, simulations and measurements have."""

    name: str
    """Of the field that holds it, which ends with its unit."""
    title: str
    """Over columns, before meters and along axes."""
    unit: str = ""
    """That `units.show` writes; empty = a plain number, whose unit the title says."""
    words: str = ""
    """Its title written out; empty = as it is."""
    less_is_better: bool = True


METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric("ttft_s", "TTFT", "s", "Time to first token"),
        Metric("tpot_s", "TPOT", "s", "Time per output token"),
        Metric("itl_s", "ITL", "s", "Inter-token latency"),
        Metric("e2e_s", "E2E", "s", "End-to-end latency"),
        Metric("output_tokens_per_s", "output tokens/s", less_is_better=False),
        Metric("step_s", "step", "s"),
        Metric("tokens_per_s_per_accelerator", "tokens/s each", less_is_better=False),
        Metric("samples_per_s", "samples/s", less_is_better=False),
        Metric("samples_per_s_per_accelerator", "samples/s each", less_is_better=False),
        Metric("latency_s", "latency", "s"),
        Metric("board_w", "power each", "W"),
        Metric("requests_per_s", "req/s", less_is_better=False),
        Metric("memory_peak_bytes", "peak memory", "bytes"),
        Metric("memory_beside_states_bytes", "memory beside weights and states", "bytes"),
    )
}
"""Every metric by its name, in the order of columns."""
OBJECTIVES: Final = tuple(METRICS[name] for name in ("ttft_s", "tpot_s", "e2e_s"))
"""Latencies that may be limited."""
SPEEDS: Final = OBJECTIVES[:2]
"""Those that every answer has."""
LATENCIES: Final = tuple(METRICS[name] for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"))
"""Those that a simulation or a measurement has percentiles of."""


def objectives(slo: Slo) -> list[tuple[Metric, float]]:
    """Latencies that are limited, each with its limit. [s]"""
    limits = ((metric, getattr(slo, metric.name)) for metric in OBJECTIVES)
    return [(metric, limit) for metric, limit in limits if limit is not None]


def objectives_text(slo: Slo) -> str:
    """ "p95 TTFT <= 1 s, TPOT <= 50 ms"; empty where nothing is limited."""
    told = ", ".join(f"{metric.title} <= {show(limit, metric.unit)}" for metric, limit in objectives(slo))
    return f"p{slo.percentile:g} {told}" if told else ""
