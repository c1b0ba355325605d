"""What do TTFT, TPOT, ITL, end-to-end latency and goodput mean here? One definition, from the times of tokens.

The simulator and the measuring client both report in these words, so that predicted and measured
compare. All times are seconds on one clock; arguments may be numbers or arrays.

- **TTFT**: from sending the request to its first token; waiting in queues is part of it.
- **TPOT**: from the first to the last token, by the tokens after the first; a request's own mean. It is
  undefined for an answer of one token.
- **ITL**: each gap between consecutive tokens, pooled over all gaps: long answers weigh more.
- **E2E**: from sending to the last token; TTFT + (n - 1) TPOT.
- **goodput**: requests per second that met all objectives at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.record import SparseRecord
from tonnage.simulation.capacity import stated

__all__ = ["stated"]

PERCENTILES = (50.0, 90.0, 95.0, 99.0)


class Summary(SparseRecord, kw_only=True):
    """A latency over many requests or gaps. [s]"""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    most: float


def ttft_s(*, sent_s: Any, first_s: Any) -> Any:
    """Time to first token. [s]"""
    return first_s - sent_s


def e2e_s(*, sent_s: Any, last_s: Any) -> Any:
    """End-to-end latency. [s]"""
    return last_s - sent_s


def tpot_s(*, first_s: Any, last_s: Any, output_tokens: Any) -> Any:
    """
    Time per output token after the first; NaN for one-token answers. [s]

    Examples
    --------
    >>> tpot_s(first_s=1.0, last_s=3.0, output_tokens=101)
    0.02
    """
    gaps = output_tokens - 1
    if isinstance(gaps, int | float):
        return (last_s - first_s) / gaps if gaps > 0 else math.nan
    import numpy as np

    return np.divide(last_s - first_s, gaps, out=np.full(len(gaps), np.nan), where=gaps > 0)


def goodput_per_s(latencies: Mapping[str, Any], slo: Slo, *, span_s: float) -> float:
    """
    Requests per second of the span that met every objective at once, by their latencies of each name (`ttft_s`, …).

    A request of one token has no TPOT and cannot miss it; one that never answered meets nothing.
    """
    if span_s <= 0:
        raise BadRequest(f"span_s {span_s:g} must be above 0 to count requests per second")
    import numpy as np

    good = np.isfinite(np.asarray(latencies["e2e_s"], float))
    for name, limit in stated(slo).items():
        good &= ~(np.asarray(latencies[name], float) > limit)
    return float(good.sum()) / span_s


def quantile(ordered: Any, share: float) -> float:
    """
    A quantile of sorted values, linear between them (NumPy's and vLLM's own reading).

    Examples
    --------
    >>> quantile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.5
    """
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def summary(values: Any) -> Summary | None:
    """Mean and percentiles of the values that are there (NaN = not defined, left out); absent when none is."""
    import numpy as np

    found = np.asarray(values, float)
    found = np.sort(found[~np.isnan(found)])
    if not len(found):
        return None
    p50, p90, p95, p99 = (quantile(found, p / 100.0) for p in PERCENTILES)
    return Summary(
        count=len(found), mean=float(found.mean()), p50=p50, p90=p90, p95=p95, p99=p99, most=float(found[-1])
    )
