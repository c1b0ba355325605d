"""
How well do sessions fitted to the first half of a log predict the hits of its second half, over the size of a cache?

    python -m tools.sessions.halves FOLDER_OF_TRACES

Beside them what no fit is needed for: the hits that were measured in the first half, and in its later part. Where those
are far from the second half's too, the log changes its traffic, and what it was says little of what it becomes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tonnage.catalog.traces import Trace, find_trace, read_trace
from tonnage.domain.sessions import HitsAt
from tonnage.questions.sessions.logs import first_half, hits_over_size, links_of, trace_sessions


def main() -> None:
    """A table for each of Mooncake's two logs."""
    for name in ("conversation", "synthetic"):
        path = str(Path(sys.argv[1]) / f"mooncake_fast25_{name}.jsonl.gz")
        found, trace = trace_sessions(path), read_trace(find_trace(path))
        first, later = measured_before(trace, found.curve)
        print(f"{name}: {found.requests:,} requests, {found.unbounded:.1%} with room for everything; {found.licence}")
        shares = ", ".join(f"{share:.0%}" for share in new_sessions(trace))
        print(f"  requests that begin a session, by quarter: {shares}")
        print("          tokens   second half   fitted sessions   first half measured   its later part")
        for at, own, own_later in zip(found.curve, first, later, strict=True):
            assert at.predicted is not None
            print(f"  {at.tokens:>14,.0f} {at.hit_rate:>13.1%} {at.predicted:>17.1%} {own:>21.1%} {own_later:>16.1%}")
        fitted = [at.predicted or 0.0 for at in found.curve]
        furthest = (f"{100 * largest_gap(found.curve, way):.1f}" for way in (fitted, first, later))
        print(f"  furthest, points {'':>11} {next(furthest):>17} {next(furthest):>21} {next(furthest):>16}")


def measured_before(trace: Trace, curve: tuple[HitsAt, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Hits of the first half from an empty cache, and of its later part on a cache that the part before has filled."""
    half, size = first_half(trace), trace.hash_tokens or 1
    sizes = tuple(round(at.tokens / size) for at in curve)
    since = int(np.searchsorted(np.frombuffer(half.sent_s), trace.sent_s[-1] / 4.0))
    return hits_over_size(half, sizes, since=0), hits_over_size(half, sizes, since=since)


def new_sessions(trace: Trace) -> list[float]:
    """Share of the requests that continue nothing, in each quarter of the log's time. [-]"""
    begins, sent = np.isnan(links_of(trace).gap_s), np.frombuffer(trace.sent_s)
    quarter = np.minimum(3, (4.0 * sent / sent[-1]).astype(int))
    return [float(begins[quarter == k].mean()) for k in range(4)]


def largest_gap(curve: tuple[HitsAt, ...], predicted: Sequence[float]) -> float:
    """Between a prediction and the second half's hits, over all sizes. [-]"""
    return max(abs(at.hit_rate - one) for at, one in zip(curve, predicted, strict=True))


if __name__ == "__main__":
    main()
