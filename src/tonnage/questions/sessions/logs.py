"""What are the sessions of a request log, and how much of its prompts does a cache of some size have?"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog.traces import Trace, find_trace, read_trace
from tonnage.domain.sessions import CacheTier, HitsAt, SessionClass, SessionProfile, Spread, TraceSessions
from tonnage.errors import BadFact, echo
from tonnage.questions.simulate.traffic import full_blocks, licence_of
from tonnage.units import percent, show

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


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
        notes=trace.remarks,
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
        sentence=f"{sessions:,} sessions of {n / max(1, sessions):.2g} turns{apart}; {percent(whole[0], 1)} of "
        f"prompt tokens "
        "would be read from a prefix cache that holds everything",
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
    """
    Share of the second half's prompt tokens found again, by its blocks, and as sessions fitted to the first half
    predict (None where that is too short).
    """
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
    """
    Hits of the second half of a run of drawn sessions (`span_s` long), from an empty start; the mean of some runs. [-]
    """
    from tonnage.simulation.sessions import Replicas, simulate_sessions

    turns, served = max(2, round(turns_per_s * span_s)), Replicas(block_tokens=block_tokens)
    tier = (CacheTier(name="cache", blocks=blocks),)
    runs = [
        simulate_sessions(profile, tier, turns_per_s=turns_per_s, turns=turns, served=served, warm_share=0.5, seed=seed)
        for seed in range(SEEDS)
    ]
    return sum(run.hit_rate for run in runs) / SEEDS


def hits_over_size(trace: Trace, sizes: tuple[int, ...], *, since: int) -> tuple[float, ...]:
    """
    Share of the prompt tokens of the requests from `since` on that caches of so many blocks have; all requests fill
    them.
    """
    import numpy as np

    from tonnage.simulation.sessions import replay_hits
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


# The sessions behind block ids: who continues whom, how long later, and how much longer. A request continues the
# session whose blocks it begins with, beyond what many sessions share. What has not come back when the log ends may
# still do so: chances and gaps are those of Kaplan and Meier (1958), who count such cases for as long as they were
# watched. Sessions are put in classes by the length of their first prompt, because long ones come back more often.
# Left out: answers are not in such logs, so what is found again of them counts as new.

SHARED_SHARE: Final = 0.02
"""Requests that begin alike, from which on their beginning counts as shared by sessions. [-]"""
SHARED_LEAST: Final = 50
"""The same as a number. [requests]"""
CLASSES: Final = 4
PER_CLASS: Final = 150
"""Sessions of a class, at least."""
TURNS: Final = 3
"""Turns whose chance of a next one is told apart; the last is of all later ones."""
SHARES: Final = (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97, 0.99, 1.0)
"""Of the draws, at which a distribution is kept."""


class Links(NamedTuple):
    """For each request of a log: its session, and what it continues."""

    session: Array
    """The number of the request that began it."""
    turn: Array
    """0 = first."""
    gap_s: Array
    """Since the session's turn before; NaN for the first. [s]"""
    shared: Array
    """Tokens of a beginning that many sessions share. [tokens]"""
    kept: Array
    """Tokens of whole blocks that the session's turn before had, beyond what is shared. [tokens]"""
    before: Array
    """Tokens of the turn before, beyond what is shared. [tokens]"""


def links_of(trace: Trace) -> Links:
    """
    Which session each request continues, by the block ids of prompts.

    It joins the session of the request that last held its deepest known block; turn and gap count from that session's
    latest request. Blocks that many requests hold (the first `shared` tokens) do not count. A request that joins none
    begins a session: its session is its own index, its gap NaN.

    Raises
    ------
    BadFact
        The log has no block ids.
    """
    import numpy as np

    size = trace.hash_tokens
    if not size:
        raise BadFact(
            f"'{echo(trace.source)}' has no block ids (hash_ids), so nothing says which prompts begin alike; "
            "give a log with them, or describe the sessions"
        )
    offsets, ids = trace.offsets, trace.blocks
    n = len(trace.sent_s)
    least = max(SHARED_LEAST, SHARED_SHARE * n)
    common = {block for block, users in Counter(ids).items() if users >= least}
    columns = {name: np.zeros(n) for name in Links._fields}
    last: dict[int, int] = {}
    latest: dict[int, int] = {}
    for i in range(n):
        blocks = ids[offsets[i] : offsets[i + 1]]
        whole = blocks[: trace.prompt[i] // size]
        shared = next((k for k, block in enumerate(whole) if block not in common), len(whole))
        depth = shared
        while depth < len(whole) and whole[depth] in last:
            depth += 1
        session = i
        if depth > shared:
            session = int(columns["session"][last[whole[depth - 1]]])
            past = latest[session]
            columns["turn"][i] = columns["turn"][past] + 1
            columns["gap_s"][i] = trace.sent_s[i] - trace.sent_s[past]
            columns["kept"][i] = (depth - shared) * size
            columns["before"][i] = max(trace.prompt[past] - shared * size, (depth - shared) * size)
        else:
            columns["gap_s"][i] = np.nan
        columns["session"][i], columns["shared"][i] = session, shared * size
        latest[session] = i
        for block in whole[shared:]:
            last[block] = i
    return Links(**columns)


def fit_sessions(trace: Trace, *, name: str = "", what: str = "", links: Links | None = None) -> SessionProfile:
    """
    The sessions of a log, as a profile that more of them can be drawn from.

    Raises
    ------
    BadFact
        The log has no block ids, or too few requests.
    """
    import numpy as np

    found = links or links_of(trace)
    first = np.isnan(found.gap_s)
    if len(first) < 2:
        raise BadFact(f"'{echo(trace.source)}' holds one request; sessions need more than that")
    sent, prompt, output = (
        np.frombuffer(column, kind)
        for column, kind in ((trace.sent_s, np.float64), (trace.prompt, np.int64), (trace.output, np.int64))
    )
    own = prompt - found.shared
    begins = own[found.session.astype(int)]
    number = max(1, min(CLASSES, int(first.sum()) // PER_CLASS))
    edges = np.quantile(own[first], np.linspace(0.0, 1.0, number + 1)[1:-1])
    kind = np.searchsorted(edges, begins, side="left")
    follows, watched = _following(found, sent)
    classes = []
    for k in range(number):
        mine = kind == k
        if not (mine & first).any():
            continue
        later = mine & ~first
        branches = later & (found.kept + (trace.hash_tokens or 0) < found.before)
        classes.append(
            SessionClass(
                share=float((mine & first).sum() / first.sum()),
                go_on=_chances(follows[mine], watched[mine], turn=found.turn[mine]),
                gap_s=_gaps(follows[mine], watched[mine]),
                first_tokens=_spread(own[mine & first]),
                growth_tokens=_spread((own - np.where(branches, found.kept, found.before))[later]),
                output_tokens=_spread(output[mine]),
                branch_share=float(branches.sum() / max(1, later.sum())),
                branch_kept=_spread((found.kept / np.maximum(1.0, found.before))[branches], least=0.0)
                if branches.any()
                else (),
            )
        )
    return SessionProfile(
        name=name or "fitted",
        what=what or f"sessions of {trace.source}",
        source=trace.source,
        shared=_beginnings(found.shared[first]),
        answers_kept=False,
        classes=tuple(classes),
    )


def _beginnings(shared: Array) -> tuple[tuple[float, float], ...]:
    """Lengths of what sessions share, with their shares; 0 is nothing."""
    counts = Counter(float(tokens) for tokens in shared if tokens > 0)
    return tuple((tokens, count / len(shared)) for tokens, count in counts.most_common())


def _following(found: Links, sent: Array) -> tuple[Array, Array]:
    """
    For each request, seconds to the next turn of its session (NaN = none seen), and how long the log went on after it.
    [s]
    """
    import numpy as np

    follows = np.full(len(sent), np.nan)
    latest: dict[int, int] = {}
    for i, session in enumerate(found.session.astype(int)):
        if session in latest:
            follows[latest[session]] = sent[i] - sent[latest[session]]
        latest[session] = i
    return follows, sent[-1] - sent


def _survival(follows: Array, watched: Array) -> tuple[Array, Array]:
    """
    Kaplan and Meier: gaps that were seen, and the share that has not come back by each; none and ones where nothing
    came back.
    """
    import numpy as np

    came = ~np.isnan(follows)
    times = np.where(came, follows, watched)
    at = np.unique(times[came])
    if not len(at):
        return at, np.ones(0)
    ordered = np.sort(times)
    exposed = len(times) - np.searchsorted(ordered, at, side="left")
    events = (
        np.array([(follows[came] == gap).sum() for gap in at]) if len(at) < 400 else _count_between(follows[came], at)
    )
    return at, np.cumprod(1.0 - events / exposed)


def _count_between(gaps: Array, at: Array) -> Array:
    import numpy as np

    return np.bincount(np.searchsorted(at, gaps), minlength=len(at))


def _chances(follows: Array, watched: Array, *, turn: Array) -> tuple[float, ...]:
    """Chance of a next turn after the first, second, and later ones."""
    chances: list[float] = []
    for k in range(TURNS):
        mine = turn == k if k < TURNS - 1 else turn >= k
        _, left = _survival(follows[mine], watched[mine])
        chances.append(min(0.98, float(1.0 - left[-1])) if len(left) else (chances[-1] if chances else 0.0))
    return tuple(chances)


def _gaps(follows: Array, watched: Array) -> Spread:
    """Distribution of seconds to a next turn, of those that have one; 1 s where nobody has."""
    import numpy as np

    at, left = _survival(follows, watched)
    if not len(at):
        return ((0.0, 1.0),)
    up_to = (1.0 - left) / (1.0 - left[-1])
    values = at[np.minimum(np.searchsorted(up_to, SHARES, side="left"), len(at) - 1)]
    return tuple(zip(SHARES, (float(max(1e-3, value)) for value in values), strict=True))


def _spread(values: Array | Sequence[float], *, least: float = 1.0) -> Spread:
    """The distribution of values, `least` at least, by their quantiles; all at one value where there are none."""
    import numpy as np

    if not len(values):
        return ((0.0, max(1.0, least)),)
    found = np.quantile(np.maximum(least, values), SHARES)
    return tuple(zip(SHARES, (float(value) for value in found), strict=True))
