"""
Turns of sessions, drawn in the order in which they are sent. Compiled.

Open sessions wait in a heap for their next turn; new ones come at random times. Places of ended sessions are used
again, so memory depends on the sessions that are open, not on the length of the run. Random numbers are made here,
because compiled code and plain Python must draw the same.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from tonnage.domain.sessions import SessionProfile, Spread
from tonnage.errors import BadRequest
from tonnage.simulation.kernel import inline, kernel
from tonnage.simulation.simulated import Floats, Ints
from tonnage.units import percent

STEPS: Final = 1024
"""Points of a table that a distribution is drawn from."""
GAP, FIRST, GROWTH, OUTPUT, KEPT = range(5)


class Turns(NamedTuple):
    """A piece of the turns of all sessions, in the order in which they are sent."""

    sent_s: Floats
    gap_s: Floats
    """Since the session's turn before; infinite for the first. [s]"""
    session: Ints
    """Place of the session; used again after its last turn."""
    group: Ints
    """Which shared beginning; -1 = none."""
    shared: Ints
    """Tokens of it. [tokens]"""
    kept: Ints
    """Leading tokens that the cache may hold: shared ones, and what is kept of the session's own. [tokens]"""
    prompt: Ints
    output: Ints
    context: Ints
    """Tokens whose cache later turns may find: the prompt, and the answer where it is kept. [tokens]"""
    last: Ints
    """1 = the session's last turn."""


class Drawing(NamedTuple):
    """What the drawing knows: tables of each class, open sessions, and the heap of their next turns."""

    tables: Floats
    """By class, quantity, and share of draws."""
    go_on: Floats
    """By class and turn."""
    branches: Floats
    """Share of turns that branch, by class."""
    up_to: Floats
    """Share of the sessions up to and with each class."""
    groups: Floats
    """Tokens of each shared beginning, then the share of sessions up to it."""
    facts: Floats
    """Turns per second, longest context, answers kept, time of the next tick, turns ahead of the ticks."""
    counts: Ints
    """Heap's length, free places."""
    state: Any
    """Of the random numbers."""
    heap_s: Floats
    heap: Ints
    free: Ints
    turn: Ints
    owns: Ints
    """Tokens of its own that a session has. [tokens]"""
    group: Ints
    kind: Ints
    """Its class."""
    before_s: Floats


def _table(spread: Spread, *, whole: bool) -> Floats:
    """Values at even shares, linear in the logarithm between quantiles where all are above 0."""
    shares, values = (np.array(column, float) for column in zip(*spread, strict=True))
    at = np.linspace(0.0, 1.0, STEPS + 1)
    if len(values) == 1 or (np.diff(values) < 0).any() or (np.diff(shares) < 0).any():
        if len(values) > 1:
            raise BadRequest(f"a distribution falls: {spread}; give (share, value) pairs that rise")
        return np.full(STEPS + 1, values[0])
    logs = values.min() > 0
    found = np.interp(at, shares, np.log(values) if logs else values)
    found = np.exp(found) if logs else found
    return np.asarray(np.maximum(1.0, found) if whole else found)


def drawing_of(profile: SessionProfile, *, turns_per_s: float, seed: int, places: int) -> Drawing:
    """
    The state before the first draw, with room for so many open sessions (`places`).

    Raises
    ------
    BadRequest
        A rate, a chance or a distribution that cannot be.
    """
    if not turns_per_s > 0:
        raise BadRequest(f"turns per second {turns_per_s:g} must be above 0")
    kinds = profile.classes
    if not kinds or not all(one.go_on and all(0.0 <= chance < 1.0 for chance in one.go_on) for one in kinds):
        raise BadRequest(f"sessions '{profile.name}': go_on must be chances of at least 0 and below 1, one a turn")
    tables = np.zeros((len(kinds), 5, STEPS + 1))
    go_on = np.zeros((len(kinds), max(len(one.go_on) for one in kinds)))
    for row, one in zip(tables, kinds, strict=True):
        kept = one.branch_kept or ((0.0, 1.0), (1.0, 1.0))
        spreads = (one.gap_s, one.first_tokens, one.growth_tokens, one.output_tokens, kept)
        for quantity, spread in enumerate(spreads):
            row[quantity] = _table(spread, whole=quantity not in {GAP, KEPT})
    for row, one in zip(go_on, kinds, strict=True):
        row[:] = [*one.go_on, *[one.go_on[-1]] * (len(row) - len(one.go_on))]
    shared = profile.shared or ((0.0, 0.0),)
    groups = np.array([[float(int(tokens)) for tokens, _ in shared], np.cumsum([share for _, share in shared])])
    if groups[1, -1] > 1.0 + 1e-9:
        raise BadRequest(
            f"shared beginnings are of {percent(groups[1, -1])} of the sessions; at most 100 % begin with one"
        )
    shares = np.cumsum([one.share for one in kinds])
    whole = np.zeros((5, places), np.int64)
    return Drawing(
        tables=tables,
        go_on=go_on,
        branches=np.array([one.branch_share for one in kinds]),
        up_to=shares / shares[-1],
        groups=groups,
        facts=np.array([turns_per_s, profile.max_context, float(profile.answers_kept), 0.0, 0.0]),
        counts=np.array([0, places], np.int64),
        state=np.array([(seed * 2654435761 + 88172645463325252) % (1 << 62) | 1], np.uint64),
        heap_s=np.zeros(places),
        heap=whole[0],
        free=np.arange(places)[::-1].copy(),
        turn=whole[1],
        owns=whole[2],
        group=whole[3],
        kind=whole[4],
        before_s=np.zeros(places),
    )


@kernel
def _uniform(state: Any) -> float:
    """Even in [0, 1): xorshift64 of Marsaglia (2003), whose state is one number; its upper 53 bits."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return float(x >> np.uint64(11)) / 9007199254740992.0


@kernel
def _draw(tables: Floats, kind: int, quantity: int, state: Any) -> float:
    u = _uniform(state) * STEPS
    k = int(u)
    low = tables[kind, quantity, k]
    return low + (u - k) * (tables[kind, quantity, k + 1] - low)


@kernel
def _push(heap_s: Floats, heap: Ints, counts: Ints, when: float, place: int) -> None:
    k = counts[0]
    counts[0] = k + 1
    while k > 0 and heap_s[(k - 1) // 2] > when:
        heap_s[k], heap[k] = heap_s[(k - 1) // 2], heap[(k - 1) // 2]
        k = (k - 1) // 2
    heap_s[k], heap[k] = when, place


@kernel
def _pop(heap_s: Floats, heap: Ints, counts: Ints) -> None:
    """Takes the earliest turn off."""
    n = counts[0] - 1
    counts[0] = n
    when, place, k = heap_s[n], heap[n], 0
    while True:
        child = 2 * k + 1
        if child >= n:
            break
        if child + 1 < n and heap_s[child + 1] < heap_s[child]:
            child += 1
        if heap_s[child] >= when:
            break
        heap_s[k], heap[k] = heap_s[child], heap[child]
        k = child
    heap_s[k], heap[k] = when, place


@kernel
def _place_in(shares: Floats, u: float) -> int:
    """The first whose share is above u; -1 = none."""
    for k in range(len(shares)):
        if u < shares[k]:
            return k
    return -1


@inline
def _begin(d: Drawing) -> int:
    """A new session's place, with its class and its shared beginning."""
    place = d.free[d.counts[1] - 1]
    d.counts[1] -= 1
    d.turn[place], d.owns[place] = 0, 0
    d.before_s[place] = -np.inf
    d.group[place] = _place_in(d.groups[1], _uniform(d.state))
    d.kind[place] = max(0, _place_in(d.up_to, _uniform(d.state)))
    return int(place)


@inline
def _tick(d: Drawing) -> bool:
    """
    The next tick of the clock that counts turns: whether it begins a session.

    Turns of open sessions that came before it have used it up. So turns come at the rate that is asked for from the
    start, and new sessions begin as far as open ones leave room.
    """
    d.facts[3] += -np.log(1.0 - _uniform(d.state)) / d.facts[0]
    begins = d.facts[4] < 1.0
    d.facts[4] = max(0.0, d.facts[4] - 1.0)
    return begins


@kernel
def draw(d: Drawing, out: Turns, first: int) -> int:
    """Fills a piece from turn `first` on; returns the first turn not filled, before its end where places ran out."""
    k = first
    while k < len(out.sent_s):
        if d.counts[0] == 0 or d.facts[3] <= d.heap_s[0]:
            if d.counts[1] == 0:
                return k
            now = d.facts[3]
            if not _tick(d):
                continue
            place = _begin(d)
        else:
            now, place = d.heap_s[0], d.heap[0]
            _pop(d.heap_s, d.heap, d.counts)
            d.facts[4] += 1.0
        turn, group, kind, kept = d.turn[place], d.group[place], d.kind[place], d.owns[place]
        shared = int(d.groups[0, group]) if group >= 0 else 0
        if turn > 0 and d.branches[kind] > 0.0 and _uniform(d.state) < d.branches[kind]:
            kept = int(kept * min(1.0, _draw(d.tables, kind, KEPT, d.state)))
        fresh = int(_draw(d.tables, kind, FIRST if turn == 0 else GROWTH, d.state))
        output = int(_draw(d.tables, kind, OUTPUT, d.state))
        own = kept + fresh + (output if d.facts[2] > 0.0 else 0)
        out.sent_s[k], out.gap_s[k] = now, now - d.before_s[place]
        out.session[k], out.group[k], out.shared[k] = place, group, shared
        out.kept[k], out.prompt[k], out.output[k] = shared + kept, shared + kept + fresh, output
        out.context[k] = shared + own
        ends = _uniform(d.state) >= d.go_on[kind, min(turn, d.go_on.shape[1] - 1)] or shared + own > d.facts[1]
        out.last[k] = 1 if ends else 0
        d.turn[place], d.owns[place], d.before_s[place] = turn + 1, own, now
        if ends:
            d.free[d.counts[1]] = place
            d.counts[1] += 1
        else:
            _push(d.heap_s, d.heap, d.counts, now + _draw(d.tables, kind, GAP, d.state), place)
        k += 1
    return k


def grown(array: Any, places: int, *, fill: float = 0) -> Any:
    """The array with so many places, the old ones first."""
    more = np.full((places, *array.shape[1:]), fill, array.dtype)
    more[: len(array)] = array
    return more


def with_more_places(d: Drawing) -> Drawing:
    """Twice as many open sessions."""
    old, new = len(d.turn), 2 * len(d.turn)
    free = np.zeros(new, np.int64)
    free[: d.counts[1]] = d.free[: d.counts[1]]
    free[d.counts[1] : d.counts[1] + old] = np.arange(old, new)
    d.counts[1] += old
    names = ("heap_s", "heap", "turn", "owns", "group", "kind", "before_s")
    return d._replace(free=free, **{name: grown(getattr(d, name), new) for name in names})


def empty_turns(n: int) -> Turns:
    """Room for so many turns."""
    times, counts = np.zeros((2, n)), np.zeros((8, n), np.int64)
    return Turns(times[0], times[1], *counts)
