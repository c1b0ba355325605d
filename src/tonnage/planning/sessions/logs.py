"""What are the sessions of a request log, and how much of its prompts does a cache of some size have?"""

from __future__ import annotations

from array import array
from typing import Final

from msgspec.structs import replace

from tonnage.catalog.traces import Trace, find_trace, read_trace
from tonnage.domain.sessions import CacheTier, HitsAt, SessionProfile, TraceSessions
from tonnage.errors import BadFact
from tonnage.planning.sessions.fit import fit_sessions, links_of
from tonnage.planning.simulate.traffic import full_blocks, licence_of
from tonnage.units import show

__all__ = ["SESSIONS_SCHEMA", "first_half", "hits_over_size", "trace_sessions"]

SESSIONS_SCHEMA: Final = "tonnage.sessions/1"
SIZES: Final = (0.002, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Sizes of cache that are looked at, as shares of all different blocks. [-]"""
SEEDS: Final = 6
"""Runs that a prediction is the mean of."""
MIN_REQUESTS: Final = 200
"""Of a log whose halves are compared."""


def trace_sessions(path: str) -> TraceSessions:
    """
    The sessions of a log, and its hits over the size of a cache; of one without block ids lengths alone.

    Raises
    ------
    BadFact
        The log is missing, empty or damaged, or holds a single request.
    """
    import numpy as np

    trace = read_trace(find_trace(path))
    prompt, n = np.frombuffer(trace.prompt, np.int64), len(trace.sent_s)
    if n < 2:
        raise BadFact(f"{trace.source}: one request, of which nothing can come back; give a log of two or more")
    told = TraceSessions(
        schema=SESSIONS_SCHEMA,
        source=trace.source,
        requests=n,
        span_s=float(trace.sent_s[-1]),
        prompt_tokens=float(prompt.mean()),
        output_tokens=float(np.frombuffer(trace.output, np.int64).mean()),
        licence=licence_of(trace),
    )
    if not trace.hash_tokens:
        lacks = "No block ids (hash_ids): lengths and times are known, and not which prompts begin alike."
        return replace(told, sentence=lacks)
    links = links_of(trace)
    gaps = links.gap_s[~np.isnan(links.gap_s)]
    most = len(set(trace.blocks)) + 1
    whole = hits_over_size(trace, (most,), since=0)
    sizes = tuple(sorted({max(1, round(most * share)) for share in SIZES}))
    sessions, gap_s = int(np.isnan(links.gap_s).sum()), float(np.median(gaps)) if len(gaps) else None
    apart = f", {show(gap_s, 's')} apart (median)" if gap_s is not None else ""
    return replace(
        told,
        sentence=f"{sessions:,} sessions of {n / max(1, sessions):.2g} turns{apart}; {whole[0]:.1%} of prompt tokens "
        "are found again with room for everything",
        sessions=sessions,
        gap_s=gap_s,
        shared=float(links.shared.sum() / prompt.sum()),
        unbounded=whole[0],
        block_tokens=trace.hash_tokens,
        curve=_curve(trace, sizes) if n >= MIN_REQUESTS else (),
        profile=fit_sessions(trace, links=links),
    )


def first_half(trace: Trace) -> Trace:
    """The requests of the first half of a log's time."""
    import bisect

    n = bisect.bisect_left(trace.sent_s, trace.sent_s[-1] / 2.0)
    return replace(
        trace,
        sent_s=trace.sent_s[:n],
        prompt=trace.prompt[:n],
        output=trace.output[:n],
        offsets=trace.offsets[: n + 1],
        blocks=trace.blocks[: trace.offsets[n]] if len(trace.offsets) else array("q"),
    )


def _curve(trace: Trace, sizes: tuple[int, ...]) -> tuple[HitsAt, ...]:
    """Hits of the second half: by its blocks, and by sessions fitted to the first."""
    half = first_half(trace)
    size = trace.hash_tokens or 1
    known = hits_over_size(trace, sizes, since=len(half.sent_s))
    if len(half.sent_s) < 2 or half.sent_s[-1] <= 0:
        return tuple(
            HitsAt(tokens=float(blocks * size), hit_rate=hits) for blocks, hits in zip(sizes, known, strict=True)
        )
    # Over the half itself, not up to its last request: a burst before a long silence is no rate that goes on.
    fitted, rate = fit_sessions(half), len(half.sent_s) / (trace.sent_s[-1] / 2.0)
    return tuple(
        HitsAt(
            tokens=float(blocks * size),
            hit_rate=hits,
            predicted=predicted_hits(fitted, blocks, turns_per_s=rate, span_s=trace.sent_s[-1], block_tokens=size),
        )
        for blocks, hits in zip(sizes, known, strict=True)
    )


def predicted_hits(
    profile: SessionProfile, blocks: int, *, turns_per_s: float, span_s: float, block_tokens: int
) -> float:
    """Hits of the second half of so long a run of drawn sessions, from an empty start; the mean of some runs."""
    from tonnage.simulation.sessions import Replicas, simulate_sessions

    turns, served = max(2, round(turns_per_s * span_s)), Replicas(block_tokens=block_tokens)
    tier = (CacheTier(name="cache", blocks=blocks),)
    runs = [
        simulate_sessions(profile, tier, turns_per_s=turns_per_s, turns=turns, served=served, warm_share=0.5, seed=seed)
        for seed in range(SEEDS)
    ]
    return sum(run.hit_rate for run in runs) / SEEDS


def hits_over_size(trace: Trace, sizes: tuple[int, ...], *, since: int) -> tuple[float, ...]:
    """Share of the prompt tokens of the requests from `since` on that caches of so many blocks have, which all fill."""
    import numpy as np

    from tonnage.simulation.session_replay import replay_hits
    from tonnage.simulation.simulated import requests_of

    sent, prompt = np.frombuffer(trace.sent_s, np.float64), np.frombuffer(trace.prompt, np.int64)
    requests = requests_of(
        sent, prompt, output=np.frombuffer(trace.output, np.int64), blocks=full_blocks(trace, prompt)
    )
    whole = float(prompt[since:].sum())
    size = trace.hash_tokens or 1
    return tuple(
        float(replay_hits(requests, block_tokens=size, blocks=blocks)[since:].sum()) / whole for blocks in sizes
    )
