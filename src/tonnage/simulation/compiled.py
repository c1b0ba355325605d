"""
What happens next, compiled: requests, clients, a router and an autoscaler around the replicas' own steps.

One loop over events: a request reaches the scheduler, a sample of the timeline is due, the autoscaler looks. Between
two events each replica takes the steps that begin before the second (`loop_steps`), among those who run
(`loop_running`) and those who wait (`loop_waiting`). Events at one time come in the order look, sample, request.
Imported by the function that simulates, because numba takes half a second to load.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tonnage.simulation import kernel as kernel_module
from tonnage.simulation import loop_running, loop_state, loop_steps, loop_waiting, prefix_cache
from tonnage.simulation.kernel import announce, at, entry, inline, kernel, offset, pointer, stamp_of
from tonnage.simulation.loop_state import GAP_BINS, LEAST_LOADED, PREFIX_AWARE, STALLS, Script, State, World
from tonnage.simulation.loop_steps import advance
from tonnage.simulation.loop_waiting import enter
from tonnage.simulation.prefix_cache import Pool, blocks_hit

UNEVEN_REQUESTS, UNEVEN_RATIO, MATCH = 64, 1.5, 0.3
"""SGLang's router: it leaves the prefix for the least loaded where replicas differ by so many requests and by so
much, or where less of the prompt than this is cached (balance_abs_threshold, balance_rel_threshold,
cache_threshold)."""
REQUEST, SAMPLE, LOOK, NOTHING = range(4)
"""Kinds of events."""


@kernel
def _pool(pools: Pool, k: int, num_ids: int) -> Pool:
    """The blocks of one replica."""
    return Pool(offset(pools.blocks, k * (pools.root + 1)), offset(pools.where, k * num_ids), pools.root)


@inline
def _replica(world: World, states: State, k: int) -> State:
    """One of several replicas: each list begins behind those of the replicas before it."""
    rules, seats = world.rules, k * world.rules.max_num_seqs
    return State(
        at(states.tally, k),
        offset(states.running, seats),
        offset(states.given, seats),
        offset(states.seats, seats),
        offset(states.waiting, k * (rules.num_requests + 1)),
        offset(states.phase, k * rules.block_tokens),
        offset(states.gaps, k * GAP_BINS),
        offset(states.stalls, k * STALLS),
        offset(states.table, seats * rules.table_width),
        _pool(states.pool, k, rules.num_ids),
        _pool(states.host, k, rules.num_host_ids),
    )


@kernel
def _load(states: State, k: int) -> int:
    """Requests that a replica has."""
    return at(states.tally, k).running + at(states.tally, k).waiting


@inline
def _sample(world: World, states: State, script: Script, now_s: float) -> None:
    """Notes a time, and over all replicas who runs, who waits, blocks in use and tokens said so far."""
    c = script.control
    into = offset(script.samples, 5 * c.sampled)
    into[0], into[1], into[2], into[3], into[4] = now_s, 0.0, 0.0, 0.0, 0.0
    for k in range(c.replicas):
        t = at(states.tally, k)
        into[1] += t.running
        into[2] += t.waiting
        into[3] += world.rules.num_blocks - t.free
        into[4] += t.tokens
    c.sampled += 1


@kernel
def _power_on(states: State, script: Script, k: int, now_s: float) -> None:
    """Starts a replica: paid for from now on, of use after its cold start."""
    mine, t = at(script.power, k), at(states.tally, k)
    mine.since_s, mine.drains = now_s, 0
    mine.ready_s = now_s + script.control.cold_s
    t.now_s, t.emitted_s = mine.ready_s, mine.ready_s


@inline
def _scale(states: State, script: Script, now_s: float) -> None:
    """Starts or drains replicas so that each has about the wanted number of requests in flight."""
    c = script.control
    on, in_flight, idlest = 0, 0, -1
    for k in range(c.replicas):
        power, mine = at(script.power, k), _load(states, k)
        in_flight += mine
        if math.isnan(power.since_s):
            continue
        if power.drains > 0:
            if mine == 0:
                power.paid_s += now_s - power.since_s
                power.since_s = np.nan
            continue
        on += 1
        if idlest < 0 or mine < _load(states, idlest):
            idlest = k
    wanted = min(max(math.ceil(in_flight / c.in_flight), c.fewest), c.most)
    _start(states, script, wanted - on, now_s)
    if wanted >= on:
        c.low_since_s = np.nan
    elif math.isnan(c.low_since_s):
        c.low_since_s = now_s
    elif now_s - c.low_since_s >= c.keep_s:
        at(script.power, idlest).drains = 1
        c.low_since_s = now_s


@inline
def _start(states: State, script: Script, more: int, now_s: float) -> None:
    """So many replicas more: those that drain stay on, for they are warm; then those that are off."""
    for k in range(script.control.replicas):
        power = at(script.power, k)
        if more > 0 and power.drains > 0 and not math.isnan(power.since_s):
            power.drains = 0
            more -= 1
    for k in range(script.control.replicas):
        if more > 0 and math.isnan(at(script.power, k).since_s):
            _power_on(states, script, k, now_s)
            more -= 1


@kernel
def _route(world: World, states: State, script: Script, r: int, now_s: float) -> int:
    """
    The replica that a request goes to, by the router's rule among those that are ready.

    Who finds none ready waits for the next to be ready; who finds none on has one started.
    """
    c = script.control
    turn, least, most, soonest = -1, -1, -1, -1
    for j in range(c.replicas):
        k = (c.turn + j) % c.replicas
        power = at(script.power, k)
        if math.isnan(power.since_s) or power.drains > 0:
            continue
        if power.ready_s > now_s:
            if soonest < 0 or power.ready_s < at(script.power, soonest).ready_s:
                soonest = k
            continue
        turn = k if turn < 0 else turn
        least = k if least < 0 or _load(states, k) < _load(states, least) else least
        most = k if most < 0 or _load(states, k) > _load(states, most) else most
    chosen = turn if c.rule < LEAST_LOADED else least
    if chosen >= 0 and c.rule == PREFIX_AWARE and world.rules.hashed:
        high, low = _load(states, most), _load(states, least)
        if high - low <= UNEVEN_REQUESTS or high <= low * UNEVEN_RATIO:
            longest = _longest_prefix(world, states, script, r, now_s)
            chosen = longest if longest >= 0 else chosen
    if chosen < 0:
        c.cold += 1
        chosen = soonest
    if chosen < 0:
        chosen = _off(script)
        _power_on(states, script, chosen, now_s)
    c.turn = (chosen + 1) % c.replicas
    return chosen


@inline
def _longest_prefix(world: World, states: State, script: Script, r: int, now_s: float) -> int:
    """The ready replica that holds most of a prompt; -1 = none holds enough of it to be worth an uneven load."""
    c, mine = script.control, at(world.asked, r)
    longest, hits = -1, 0
    for j in range(c.replicas):
        k = (c.turn + j) % c.replicas
        power = at(script.power, k)
        if math.isnan(power.since_s) or power.drains > 0 or power.ready_s > now_s:
            continue
        pool = _pool(states.pool, k, world.rules.num_ids)
        held, _ = blocks_hit(pool, offset(world.ids, mine.first_id), mine.end_id - mine.first_id)
        longest, hits = (k, held) if held > hits else (longest, hits)
    return longest if hits * world.rules.block_tokens > MATCH * mine.prompt else -1


@inline
def _off(script: Script) -> int:
    """The last replica that is off; the first, if all are on and drain."""
    found = 0
    for k in range(script.control.replicas):
        if math.isnan(at(script.power, k).since_s):
            found = k
    return found


@inline
def _reply(world: World, s: State, script: Script, ended: int) -> None:
    """Clients whose requests have just ended think, and send the next."""
    c = script.control
    for k in range(ended, s.tally.finished):
        was = at(world.asked, at(s.seats, k % world.rules.max_num_seqs).ended)
        if c.arrived < world.rules.num_requests:
            following, client = at(world.asked, c.arrived), at(script.clients, was.owner)
            following.sent_s = was.last_s + was.think_s
            following.owner = was.owner
            client.due = c.arrived
            client.ready_s = following.sent_s + c.delivery_s
            c.arrived += 1


@inline
def _next_client(script: Script) -> int:
    """Whose request comes next."""
    soonest = 0
    for k in range(script.control.clients):
        if at(script.clients, k).ready_s < at(script.clients, soonest).ready_s:
            soonest = k
    return soonest


@inline
def _seat_clients(world: World, script: Script) -> None:
    """Every client has its first request; once, at the start."""
    c = script.control
    if c.arrived > 0:
        return
    for k in range(c.clients):
        client, first = at(script.clients, k), at(world.asked, k)
        client.due, first.owner = k, k
        client.ready_s = first.sent_s + c.delivery_s
        c.arrived += 1


@inline
def _next_event(world: World, script: Script) -> tuple[float, int, int]:
    """When something happens next [s], of which kind, and to which client (0 in an open loop)."""
    c, client, when, kind = script.control, 0, np.inf, NOTHING
    if c.clients > 0:
        client = _next_client(script)
        when = at(script.clients, client).ready_s
    elif c.arrived < world.rules.num_requests:
        when = at(world.asked, c.arrived).sent_s + c.delivery_s
    if when < np.inf:
        kind = REQUEST
    if c.sampled < c.samples and c.sampled * c.every_s <= when:
        when, kind = c.sampled * c.every_s, SAMPLE
    if c.look_s < when:
        when, kind = c.look_s, LOOK
    return when, kind, client


@inline
def _hand_in(world: World, states: State, script: Script, client: int, now_s: float) -> None:
    """The next request reaches a scheduler: its client's, or the one that the router chooses."""
    c, k = script.control, 0
    if c.clients > 0:
        r = at(script.clients, client).due
        at(script.clients, client).ready_s = np.inf
    else:
        r = c.arrived
        c.arrived += 1
        if c.replicas > 1 or c.look_s < np.inf:
            k = _route(world, states, script, r, now_s)
            at(world.asked, r).owner = k
    enter(world, _replica(world, states, k), r, now_s)


@kernel
def _play(world: World, states: State, script: Script, most: int) -> None:
    """
    Requests as they are sent, or by clients that wait for their answers; at most `most` arrivals and rounds a call.

    Every turn takes all steps before the next event, then the event. Two things put it off. An answer may bring a
    client's next request before it: clients have one replica, which stops at the first end. And the call may have done
    its share: the event then waits for the next call, so that what a run tells does not depend on how it is divided.
    """
    c, n, finished = script.control, world.rules.num_requests, 0
    for k in range(c.replicas):
        finished += at(states.tally, k).finished
    _seat_clients(world, script)
    while most > 0 and finished < n:
        when, kind, client = _next_event(world, script)
        ended, finished = at(states.tally, 0).finished, 0
        for k in range(c.replicas):
            t = at(states.tally, k)
            rounds = t.rounds
            advance(world, _replica(world, states, k), when, c.clients > 0, most)
            most -= t.rounds - rounds
            finished += t.finished
        if c.clients > 0 and finished > ended:
            _reply(world, _replica(world, states, 0), script, ended)
        elif (most <= 0 and finished < n) or kind == NOTHING:
            return
        elif kind == LOOK:
            c.look_s += c.look_every_s
            _scale(states, script, when)
        elif kind == SAMPLE:
            _sample(world, states, script, when)
        else:
            most -= 1
            _hand_in(world, states, script, client, when)


def _entry(stamp: int) -> Callable[[World, State, Script, int], None]:
    """The function that Python calls, which makes pointers of the arrays; it encloses a stamp (`kernel.stamp_of`)."""

    def play(world: World, states: State, script: Script, most: int) -> None:
        announce()
        if stamp == 0:  # never: that it is enclosed makes it part of what a kept result is found by
            return
        pools, hosts = states.pool, states.host
        _play(
            World(
                at(pointer(world.rules), 0),
                pointer(world.by_batch),
                pointer(world.by_rows),
                pointer(world.asked),
                pointer(world.ids),
            ),
            State(
                pointer(states.tally),
                pointer(states.running),
                pointer(states.given),
                pointer(states.seats),
                pointer(states.waiting),
                pointer(states.phase),
                pointer(states.gaps),
                pointer(states.stalls),
                pointer(states.table),
                Pool(pointer(pools.blocks), pointer(pools.where), pools.root),
                Pool(pointer(hosts.blocks), pointer(hosts.where), hosts.root),
            ),
            Script(
                at(pointer(script.control), 0), pointer(script.samples), pointer(script.clients), pointer(script.power)
            ),
            most,
        )

    return entry(play)


_PARTS = (kernel_module, loop_running, loop_state, loop_steps, loop_waiting, prefix_cache)
play = _entry(stamp_of(__file__, *(part.__file__ for part in _PARTS)))
"""Requests as they are sent, or by clients who wait for their answers; at most so many arrivals and rounds a call."""
