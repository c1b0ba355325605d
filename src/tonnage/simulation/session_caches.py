"""
Caches of several tiers that sessions' turns pass through, as queues of runs of blocks. Compiled.

A turn uses all of its context at once, so the blocks of a session were all used last at the same time, and they leave
in the order of the engine's queue: the last block first (`prefix_cache`). A run of blocks therefore stands for its
blocks, and a tier is a queue of runs of which the first loses blocks from its end: exactly what a block for block LRU
does, at a cost that does not depend on the length of prompts. What branches off leaves the tail of its run behind.

Every tier is written at once (write-through), each forgets by itself. Per block, what a slower tier holds is loaded or
computed again, whichever is sooner.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tonnage.domain.sessions import CacheTier
from tonnage.simulation.kernel import kernel
from tonnage.simulation.session_turns import Turns, grown
from tonnage.simulation.simulated import Floats, Ints

ROUND_ROBIN, LEAST_LOADED, PREFIX_AWARE = range(3)
ROUTES: Final = ("round-robin", "least-loaded", "prefix-aware")
MATCH, UNEVEN = 0.3, 1.5
"""SGLang's router follows a prefix that is this much of the prompt, unless loads differ by this factor and by more than
UNEVEN_S (its thresholds count requests; here work is counted)."""
UNEVEN_S: Final = 1.0
"""Work by which replicas may differ before a prefix is left for the least loaded. [s]"""
SPARE: Final = 3
"""Runs that a turn may need of each queue: a tail left behind, its own, and the shared beginning."""
TOKEN_S: Final = 1e-5
"""What a computed token counts for the router where nobody says what it costs. [s]"""


class PrefillCost(NamedTuple):
    """Time of computing prompt tokens on one replica: (fixed + depth x tokens before it) for each. [s]"""

    token_s: float = 0.0
    depth_s: float = 0.0
    output_token_s: float = 0.0
    """Work of an output token, for the router that counts work. [s]"""


class Replicas(NamedTuple):
    """Who serves the turns."""

    number: int = 1
    route: str = "prefix-aware"
    """One of ROUTES."""
    block_tokens: int = 16
    prefill: PrefillCost | None = None
    """What computing costs; absent = whatever is held is loaded."""


class TierCaches(NamedTuple):
    """Queues of runs: one of each tier and replica. Run r belongs to a session, a shared beginning, or nobody."""

    after: Ints
    before: Ints
    blocks: Ints
    owner: Ints
    free: Ints
    counts: Ints
    """Free runs; the router's turn."""
    used: Ints
    """Blocks of each queue. [blocks]"""
    room: Ints
    of_session: Ints
    """The run of each session's place in each queue; -1 = none."""
    of_group: Ints
    tiers: Floats
    """A row a tier: seconds to load a block, shared, and sums: held, loaded blocks, seconds."""
    busy: Floats
    """Work that each replica has left, and when that was. [s]"""
    facts: Floats
    """Block tokens, token_s, depth_s, output_token_s, route, turns, prompt tokens, since, sessions that ended."""


def caches_of(tiers: tuple[CacheTier, ...], *, replicas: int, groups: int, places: int, facts: Floats) -> TierCaches:
    """Empty caches with room for so many open sessions (`places`) and shared beginnings (`groups`)."""
    queues = len(tiers) * replicas
    runs = queues * (1 + groups + SPARE) + 4 * places
    room = np.array([[max(0, tier.blocks)] * replicas for tier in tiers], np.int64).reshape(-1)
    after, free = np.arange(runs), np.zeros(runs, np.int64)
    free[: runs - queues] = np.arange(queues, runs)
    return TierCaches(
        after=after,
        before=after.copy(),
        blocks=np.zeros(runs, np.int64),
        owner=np.full(runs, -1, np.int64),
        free=free,
        counts=np.array([runs - queues, 0], np.int64),
        used=np.zeros(queues, np.int64),
        room=room,
        of_session=np.full((places, queues), -1, np.int64),
        of_group=np.full((max(1, groups), queues), -1, np.int64),
        tiers=np.array([[tier.load_s_per_block, float(tier.shared), 0.0, 0.0, 0.0] for tier in tiers]).reshape(-1, 5),
        busy=np.zeros((replicas, 2)),
        facts=facts,
    )


@kernel
def _unlink(c: TierCaches, run: int) -> None:
    c.after[c.before[run]], c.before[c.after[run]] = c.after[run], c.before[run]


@kernel
def _append(c: TierCaches, queue: int, run: int) -> None:
    """Behind all others: forgotten last. The queue's own number is the place before the first."""
    tail = c.before[queue]
    c.after[tail], c.before[run], c.after[run], c.before[queue] = run, tail, queue, run


@kernel
def _new_run(c: TierCaches, blocks: int, owner: int) -> int:
    c.counts[0] -= 1
    run = c.free[c.counts[0]]
    c.blocks[run], c.owner[run] = blocks, owner
    return int(run)


@kernel
def _evict(c: TierCaches, queue: int, wanted: int) -> None:
    """Blocks from the end of the runs used longest ago, until so many are free."""
    while c.room[queue] - c.used[queue] < wanted and c.after[queue] != queue:
        run = c.after[queue]
        taken = min(c.blocks[run], wanted - (c.room[queue] - c.used[queue]))
        c.blocks[run] -= taken
        c.used[queue] -= taken
        if c.blocks[run] == 0:
            _unlink(c, run)
            owner = c.owner[run]
            if owner >= 0:
                c.of_session[owner, queue] = -1
            elif owner < -1:
                c.of_group[-2 - owner, queue] = -1
            c.free[c.counts[0]] = run
            c.counts[0] += 1


@kernel
def _blocks_held(c: TierCaches, queue: int, session: int, group: int, shared: int, most: int) -> int:
    """Leading blocks of a prompt that a queue holds without a gap, at most `most`."""
    found = 0
    if shared > 0 and c.of_group[group, queue] >= 0:
        found = c.blocks[c.of_group[group, queue]]
    if found >= shared and c.of_session[session, queue] >= 0:
        found = shared + c.blocks[c.of_session[session, queue]]
    return min(found, most)


@kernel
def _cut(c: TierCaches, session: int, keeps: int) -> None:
    """A context that branches off leaves the end of its runs behind, in their place and for nobody."""
    for queue in range(len(c.used)):
        run = c.of_session[session, queue]
        if run < 0 or c.blocks[run] <= keeps:
            continue
        c.owner[run] = -1
        c.of_session[session, queue] = -1
        if keeps > 0:
            c.blocks[run] -= keeps
            mine = _new_run(c, keeps, session)
            c.of_session[session, queue] = mine
            following = c.after[run]
            c.after[run], c.before[mine], c.after[mine], c.before[following] = mine, run, following, mine


@kernel
def _touch(c: TierCaches, queue: int, session: int, group: int, shared: int, whole: int) -> None:
    """A prompt's blocks are used: those there become the newest, the others come in."""
    run = c.of_session[session, queue]
    base = c.of_group[group, queue] if shared > 0 else -1
    had = c.blocks[run] if run >= 0 else 0
    held = c.blocks[base] if base >= 0 else 0
    if run >= 0:
        _unlink(c, run)
    if base >= 0:
        _unlink(c, base)
    first = max(held, min(shared, c.room[queue]))
    own = max(had, min(whole, c.room[queue]) - first)
    _evict(c, queue, own - had + first - held)
    c.used[queue] += own - had + first - held
    if own > 0:
        run = run if run >= 0 else _new_run(c, own, session)
        c.blocks[run] = own
        _append(c, queue, run)
    c.of_session[session, queue] = run
    if first > 0:
        base = base if base >= 0 else _new_run(c, first, -2 - group)
        c.blocks[base] = first
        _append(c, queue, base)
        c.of_group[group, queue] = base


@kernel
def _release(c: TierCaches, session: int) -> None:
    """An ended session's runs stay until they are forgotten, and belong to nobody."""
    for queue in range(len(c.used)):
        run = c.of_session[session, queue]
        if run >= 0:
            c.owner[run] = -1
            c.of_session[session, queue] = -1


@kernel
def _queue(c: TierCaches, tier: int, replica: int) -> int:
    """The queue of a tier on a replica; a tier that replicas share has one."""
    return tier * len(c.busy) + (0 if c.tiers[tier, 1] > 0.0 else replica)


@kernel
def _route(c: TierCaches, now: float, session: int, group: int, shared: int, most: int) -> int:
    """
    The replica that a turn goes to: by turns, the one with least work left, or the one with most of its prefix.

    The last rule follows a prefix only if it is enough of the prompt (`most` blocks) and work is not too uneven.
    """
    replicas, route = len(c.busy), int(c.facts[4])
    if replicas == 1:
        return 0
    if route == ROUND_ROBIN:
        c.counts[1] = (c.counts[1] + 1) % replicas
        return int(c.counts[1])
    least, busiest, longest, found = 0, 0.0, -1, 0
    for k in range(replicas):
        c.busy[k, 0] = max(0.0, c.busy[k, 0] - (now - c.busy[k, 1]))
        c.busy[k, 1] = now
        least = k if c.busy[k, 0] < c.busy[least, 0] else least
        busiest = max(busiest, c.busy[k, 0])
        if route == PREFIX_AWARE:
            held = 0
            for tier in range(len(c.tiers)):
                if c.tiers[tier, 1] == 0.0:
                    held = max(held, _blocks_held(c, _queue(c, tier, k), session, group, shared, most))
            if held > found or (held == found > 0 and c.busy[k, 0] < c.busy[longest, 0]):
                longest, found = k, held
    even = busiest - c.busy[least, 0] <= UNEVEN_S or busiest <= UNEVEN * c.busy[least, 0]
    return longest if longest >= 0 and even and found > MATCH * most else least


@kernel
def serve(c: TierCaches, turns: Turns, first: int, end: int, hits: Ints) -> int:
    """
    Turns of a piece, from `first` to before `end`, through all tiers; how many tokens each loads goes to `hits`.

    Returns the first turn not served: `end`, or one before it where runs may run out.
    """
    size = int(c.facts[0])
    tiers = len(c.tiers)
    for k in range(first, end):
        if c.counts[0] < SPARE * len(c.used):
            return k
        session, group, now = turns.session[k], turns.group[k], turns.sent_s[k]
        shared, whole = turns.shared[k] // size, turns.context[k] // size
        most = min(turns.kept[k], turns.prompt[k] - 1) // size
        _cut(c, session, max(0, turns.kept[k] // size - shared))
        replica = _route(c, now, session, group, shared, max(1, turns.prompt[k] // size))
        counted = now >= c.facts[7]
        found, loaded_all = 0, 0
        for tier in range(tiers):
            queue = _queue(c, tier, replica)
            held = _blocks_held(c, queue, session, group, shared, most)
            if held > found:
                load = c.tiers[tier, 0]
                # Blocks whose computing takes less than loading them come first: attention grows with depth.
                begin = found
                if load > 0.0 and c.facts[1] > 0.0:
                    rest = load / size - c.facts[1]
                    depth = held if rest >= 0.0 else 0
                    if c.facts[2] > 0.0 and rest >= 0.0:
                        depth = int(min(float(held), 1.0 + rest / c.facts[2] / size))
                    begin = min(held, max(found, depth))
                if counted:
                    c.tiers[tier, 2] += held - found
                    c.tiers[tier, 3] += held - begin
                    c.tiers[tier, 4] += load * (held - begin)
                loaded_all += held - begin
                found = held
            _touch(c, queue, session, group, shared, whole)
        hits[k] = loaded_all * size
        computed = turns.prompt[k] - hits[k]
        token_s = c.facts[1] if c.facts[1] > 0.0 else TOKEN_S
        deep = c.facts[2] * computed * (turns.prompt[k] + hits[k]) / 2.0
        c.busy[replica, 0] += token_s * computed + deep + c.facts[3] * turns.output[k]
        if counted:
            c.facts[5] += 1.0
            c.facts[6] += turns.prompt[k]
            c.facts[8] += turns.last[k]
        if turns.last[k] == 1:
            _release(c, session)
    return end


def with_more_runs(c: TierCaches) -> TierCaches:
    """Twice as many runs."""
    old, new = len(c.after), 2 * len(c.after)
    free = np.zeros(new, np.int64)
    free[: c.counts[0]] = c.free[: c.counts[0]]
    free[c.counts[0] : c.counts[0] + old] = np.arange(old, new)
    c.counts[0] += old
    return c._replace(
        free=free, **{name: grown(getattr(c, name), new) for name in ("after", "before", "blocks", "owner")}
    )
