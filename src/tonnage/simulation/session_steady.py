"""
What do caches find again in the steady state, without playing turn after turn?

Che, Tung and Wang (2002): a least-recently-used cache keeps what was used within a time T that is nearly the same for
all it holds, and T follows from its size: what T keeps must fill it. A turn finds its context if its session's turn
before is no longer ago. Sessions are drawn one by one for it, in arrays; `sessions` plays the same caches block by
block (the two agree within two points, tests/simulation/test_session_steady.py).

Of a slower tier a token costs what loading or computing it takes, whichever is less; it counts as that share of a token
to compute, so that everything downstream prices computed tokens alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tonnage.domain.sessions import SessionClass, SessionProfile, Spread

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


SESSIONS: Final = 3_000
"""Drawn; their means are within 2 or 3 % of the truth. [sessions]"""
MAX_TURNS: Final = 400
HALVINGS: Final = 50
LONGEST_S: Final = 1e9
"""Stands for a cache that never fills. [s]"""


class SteadyTurns(NamedTuple):
    """Turns of drawn sessions as columns: class by class, all sessions' first turns before all second ones."""

    prompt: Array
    output: Array
    shared: Array
    kept: Array
    """Leading tokens that a cache may hold, those shared by sessions included. [tokens]"""
    gap_s: Array
    """Since the session's turn before; infinite for the first. [s]"""
    until_s: Array
    """Until the next turn; infinite for the last. [s]"""
    own: Array
    """Context after the turn, beyond what is shared. [tokens]"""
    left: Array
    """Of it, what the next turn does not keep. [tokens]"""
    whole: Array
    """1 = a later turn that keeps all of its context."""
    before: Array
    """Prompt of the session's turn before; 0 for the first. [tokens]"""
    sessions: int
    beginnings: tuple[tuple[float, float], ...]
    """What sessions share: tokens, share of the turns."""


class Found(NamedTuple):
    """What a replica's tiers give, by turn and tier."""

    saved: Array
    """Tokens that need not be computed. [tokens]"""
    given: tuple[Array, ...]
    """Tokens that each tier gives. [tokens]"""
    kept_s: tuple[float, ...]
    """How long each tier keeps what nobody uses. [s]"""


class SteadyTier(NamedTuple):
    """A cache of one replica, or its part of a shared one."""

    tokens: float
    load_s: float = 0.0
    """Of a token. [s]"""


def _draws(rng: np.random.Generator, spread: Spread, n: int) -> Array:
    """Draws from quantiles, linear in the logarithm where all are above 0, as `session_turns` draws them."""
    import numpy as np

    shares, values = (np.array(column, float) for column in zip(*spread, strict=True))
    if len(values) == 1:
        return np.full(n, values[0])
    logs = values.min() > 0
    found = np.interp(rng.random(n), shares, np.log(values) if logs else values)
    return np.asarray(np.exp(found) if logs else found)


def steady_turns(profile: SessionProfile, *, seed: int = 0) -> SteadyTurns:
    """
    The turns of about `SESSIONS` drawn sessions, each from its first turn to its last; classes by their share. They
    stand in the order of the time until the next turn.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    whole = sum(one.share for one in profile.classes)
    parts = [_class_turns(rng, profile, one, round(SESSIONS * one.share / whole)) for one in profile.classes]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(columns["until_s"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    beginnings = []
    for tokens, _ in profile.shared:
        beginnings.append((tokens, float((columns["shared"] == tokens).mean())))
    first = np.isinf(columns["gap_s"])
    return SteadyTurns(**columns, sessions=int(first.sum()), beginnings=tuple(beginnings))


def _class_turns(rng: np.random.Generator, profile: SessionProfile, one: SessionClass, n: int) -> dict[str, Array]:
    """Columns of `SteadyTurns` of n sessions of a class, all first turns before all second ones."""
    import numpy as np

    tokens, shares = (np.array(column, float) for column in zip(*(profile.shared or ((0.0, 0.0),)), strict=True))
    pick = np.searchsorted(np.cumsum(shares), rng.random(n), side="right")
    shared = np.concatenate((tokens, [0.0]))[pick]
    names = ("prompt", "output", "shared", "kept", "gap_s", "until_s", "own", "left", "whole", "before")
    rows: dict[str, list[Array]] = {name: [] for name in names}
    own, gap, goes, last = np.zeros(n), np.full(n, np.inf), np.ones(n, bool), np.zeros(n)
    for turn in range(MAX_TURNS):
        n = len(own)
        if n == 0:
            break
        kept, before = own, own
        if turn and one.branch_share > 0.0:
            part = np.minimum(1.0, _draws(rng, one.branch_kept or ((0.0, 1.0),), n))
            kept = np.where(rng.random(n) < one.branch_share, np.floor(own * part), own)
        if turn:
            rows["left"][-1][goes] = own - kept
        whole = (kept == before) & (turn > 0)
        fresh = np.floor(np.maximum(1.0, _draws(rng, one.growth_tokens if turn else one.first_tokens, n)))
        output = np.floor(np.maximum(1.0, _draws(rng, one.output_tokens, n)))
        own = kept + fresh + (output if profile.answers_kept else 0.0)
        goes = rng.random(n) < one.go_on[min(turn, len(one.go_on) - 1)]
        goes &= (shared + own <= profile.max_context) & (turn + 1 < MAX_TURNS)
        until = np.where(goes, np.maximum(1e-3, _draws(rng, one.gap_s, n)), np.inf)
        prompt = shared + kept + fresh
        columns = (prompt, output, shared, shared + kept, gap, until, own, np.zeros(n), whole, last)
        for name, column in zip(names, columns, strict=True):
            rows[name].append(np.asarray(column, float))
        shared, own, gap, last = shared[goes], own[goes], until[goes], prompt[goes]
    return {name: np.concatenate(columns) for name, columns in rows.items()}


def without_answers(turns: SteadyTurns) -> SteadyTurns:
    """The turns where caches hold prompts alone: workers that hand them over for another to answer from."""
    import numpy as np

    own = np.minimum(turns.own, turns.prompt - turns.shared)
    kept = np.minimum(turns.kept, np.maximum(turns.before, turns.shared))
    lost = turns.own - own
    return turns._replace(kept=kept, own=own, left=np.maximum(0.0, turns.left - lost))


class _Filling(NamedTuple):
    """What a cache holds that keeps what was used within a time, at any time: sums over turns in the order of gaps."""

    until_s: Array
    sums: Array
    """Sums up to each turn: own x until, left x until, left; and what is after it of own."""


def _filling(turns: SteadyTurns) -> _Filling:
    """Sums over the turns in the order of the time until the next, from which `_cache_fill` reads any cache."""
    import numpy as np

    until, own, left = turns.until_s, turns.own, turns.left
    known = np.where(np.isfinite(until), until, 0.0)
    sums = np.zeros((4, len(until) + 1))
    for row, column in zip(sums, (own * known, left * known, left, own), strict=True):
        np.cumsum(column, out=row[1:])
    sums[3] = sums[3, -1] - sums[3]
    return _Filling(until, sums)


def _cache_fill(filling: _Filling, turns: SteadyTurns, *, turns_per_s: float, kept_s: float) -> float:
    """Tokens that a cache holds which keeps what was used within so many seconds. [tokens]"""
    k = int(filling.until_s.searchsorted(kept_s, side="right"))
    came, tails, left, waiting = filling.sums[:, k].tolist()
    held = came + kept_s * waiting + kept_s * left - tails
    common = sum(tokens * -math.expm1(-turns_per_s * share * kept_s) for tokens, share in turns.beginnings)
    return float(turns_per_s * held / len(filling.until_s) + common)


def _kept_for_s(turns: SteadyTurns, filling: _Filling, *, turns_per_s: float, tokens: float) -> float:
    """How long a cache of so many tokens keeps what nobody uses, T of Che's approximation. [s]"""
    if _cache_fill(filling, turns, turns_per_s=turns_per_s, kept_s=LONGEST_S) <= tokens:
        return LONGEST_S
    low, high = -6.0, math.log10(LONGEST_S)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        less = _cache_fill(filling, turns, turns_per_s=turns_per_s, kept_s=10.0**middle) < tokens
        low, high = (middle, high) if less else (low, middle)
    return float(10.0**low)


def found_in(
    turns: SteadyTurns, tiers: tuple[SteadyTier, ...], *, turns_per_s: float, token_s: float = math.inf
) -> Found:
    """
    For each turn, tokens that need not be computed, and tokens that each tier gives, at so many turns a second on the
    one replica that the tiers belong to.

    What is loaded counts less the share that loading takes of computing it (`token_s` a token); where loading takes
    longer, the tier gives nothing.
    """
    import numpy as np

    saved = np.zeros(len(turns.prompt))
    filling = _filling(turns)
    kept: list[float] = []
    given: list[Array] = []
    found = np.zeros(len(turns.prompt))
    for tier in tiers:
        kept_s = _kept_for_s(turns, filling, turns_per_s=turns_per_s, tokens=tier.tokens)
        kept.append(kept_s)
        held = np.zeros(len(turns.prompt))
        if tier.tokens > 0:
            begins = np.zeros(len(turns.prompt))
            for tokens, share in turns.beginnings:
                # The chance that another session began so within T.
                begins[turns.shared == tokens] = tokens * -math.expm1(-turns_per_s * share * kept_s)
            held = np.where(turns.gap_s <= kept_s, turns.kept, begins)
        more = np.maximum(0.0, np.minimum(held, turns.prompt - 1.0) - found)
        worth = max(0.0, 1.0 - tier.load_s / token_s) if tier.load_s else 1.0
        given.append(more if worth > 0 else np.zeros(len(more)))
        saved += more * worth
        found += more
    return Found(saved, tuple(given), tuple(kept))
