"""The serving loop, compiled: requests, clients, a router and an autoscaler around the replicas' own steps.

One loop over what happens next: a request, a sample of the timeline, a look of the autoscaler. Between
them each replica takes its steps (`loop_steps`), among those who run (`loop_running`) and those who wait
(`loop_waiting`). Imported by the function that simulates, because numba takes half a second to load.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tonnage.engine import kernel as kernel_module
from tonnage.engine import loop_running, loop_state, loop_steps, loop_waiting, prefix_cache
from tonnage.engine.kernel import door, kernel, stamp_of
from tonnage.engine.loop_state import LEAST_LOADED, PREFIX_AWARE, Script, State, World
from tonnage.engine.loop_steps import advance
from tonnage.engine.loop_waiting import enter
from tonnage.engine.prefix_cache import Pool, blocks_hit
from tonnage.engine.simulated import Floats

__all__ = ["play"]

UNEVEN_REQUESTS, UNEVEN_RATIO, MATCH = 64, 1.5, 0.3
"""SGLang's router: it leaves the prefix for the least loaded where replicas differ by so many requests and by so
much, or where less of the prompt than this is cached (balance_abs_threshold, balance_rel_threshold,
cache_threshold)."""


@kernel
def _replica(all_: State, k: int) -> State:
    """One row of the states of several replicas."""
    return State(
        all_.tally[k : k + 1], all_.running[k], all_.given[k], all_.seats[k], all_.waiting[k], all_.phase[k],
        all_.gaps[k], all_.stalls[k], all_.slots[k], all_.table[k], Pool(all_.pool.blocks[k], all_.pool.where[k]),
        Pool(all_.host.blocks[k], all_.host.where[k]),
    )  # fmt: skip


@kernel
def _flying(states: State, k: int) -> int:
    """Requests that a replica has."""
    return states.tally[k].running + states.tally[k].waiting


@kernel
def _sample(world: World, states: State, at: float, into: Floats) -> None:
    """Who runs, who waits, blocks in use and tokens said so far, at a time."""
    into[:] = 0.0
    into[0] = at
    for k in range(len(states.tally)):
        into[1] += states.tally[k].running
        into[2] += states.tally[k].waiting
        into[3] += world.rules.num_blocks - states.tally[k].free
        into[4] += states.tally[k].tokens


@kernel
def _power_on(states: State, script: Script, k: int, at: float) -> None:
    """Starts a replica: paid for from now on, of use after its cold start."""
    mine = script.power[k]
    mine.since_s, mine.drains = at, 0
    mine.ready_s = at + script.control.cold_s
    states.tally[k].now_s, states.tally[k].emitted_s = mine.ready_s, mine.ready_s


@kernel
def _scale(states: State, script: Script, at: float) -> None:
    """Starts or drains replicas so that each has about the wanted number of requests in flight."""
    power, c = script.power, script.control
    on, flying, idlest = 0, 0, -1
    for k in range(len(power)):
        mine = _flying(states, k)
        flying += mine
        if math.isnan(power[k].since_s):
            continue
        if power[k].drains > 0:
            if mine == 0:
                power[k].paid_s += at - power[k].since_s
                power[k].since_s = np.nan
            continue
        on += 1
        if idlest < 0 or mine < _flying(states, idlest):
            idlest = k
    wanted = min(max(math.ceil(flying / c.in_flight), c.fewest), c.most)
    for k in range(len(power)):
        if on < wanted and power[k].drains > 0 and not math.isnan(power[k].since_s):
            power[k].drains = 0
            on += 1
    for k in range(len(power)):
        if on < wanted and math.isnan(power[k].since_s):
            _power_on(states, script, k, at)
            on += 1
    if wanted >= on:
        c.low_since_s = np.nan
    elif math.isnan(c.low_since_s):
        c.low_since_s = at
    elif at - c.low_since_s >= c.keep_s:
        power[idlest].drains = 1
        c.low_since_s = at


@kernel
def _route(world: World, states: State, script: Script, r: int, at: float) -> int:
    """The replica that a request goes to: one that is ready, by the router's rule; else the next to be ready."""
    power, c, replicas = script.power, script.control, len(script.power)
    turn, least, most, longest, soonest, hits = -1, -1, -1, -1, -1, 0
    for j in range(replicas):
        k = (c.turn + j) % replicas
        if math.isnan(power[k].since_s) or power[k].drains > 0:
            continue
        if power[k].ready_s > at:
            if soonest < 0 or power[k].ready_s < power[soonest].ready_s:
                soonest = k
            continue
        turn = k if turn < 0 else turn
        least = k if least < 0 or _flying(states, k) < _flying(states, least) else least
        most = k if most < 0 or _flying(states, k) > _flying(states, most) else most
        if c.rule == PREFIX_AWARE and world.rules.hashed:
            pool = Pool(states.pool.blocks[k], states.pool.where[k])
            mine, _ = blocks_hit(pool, world.ids[world.asked[r].first_id : world.asked[r].end_id], 1 << 40)
            longest, hits = (k, mine) if mine > hits else (longest, hits)
    chosen = turn if c.rule < LEAST_LOADED else least
    if longest >= 0 and hits * world.rules.block_tokens > MATCH * world.asked[r].prompt:
        high, low = _flying(states, most), _flying(states, least)
        if high - low <= UNEVEN_REQUESTS or high <= low * UNEVEN_RATIO:
            chosen = longest
    if chosen < 0:
        c.cold += 1
        chosen = soonest
        if chosen < 0:
            chosen = 0
            for k in range(replicas):
                if math.isnan(power[k].since_s):
                    chosen = k
            _power_on(states, script, chosen, at)
    c.turn = (chosen + 1) % replicas
    return chosen


@kernel
def _reply(world: World, s: State, script: Script, ended: int) -> None:
    """Clients whose requests have just ended think, and send the next."""
    asked, c = world.asked, script.control
    for k in range(ended, s.tally[0].finished):
        was = s.seats[k % len(s.seats)].ended
        if c.arrived < len(asked):
            r, owner = c.arrived, asked[was].owner
            c.arrived += 1
            asked[r].sent_s = asked[was].last_s + asked[was].think_s
            asked[r].owner = owner
            script.clients[owner].due = r
            script.clients[owner].ready_s = asked[r].sent_s + c.delivery_s


@kernel
def _next_client(script: Script) -> int:
    """Whose request comes next."""
    soonest = 0
    for c in range(len(script.clients)):
        if script.clients[c].ready_s < script.clients[soonest].ready_s:
            soonest = c
    return soonest


@kernel
def _play(world: World, states: State, script: Script, most: int) -> None:
    """
    Requests as they are sent, or by clients that wait for their answers; at most `most` arrivals and rounds a call.

    Clients have one replica. What comes next waits for all steps before it, in the next call if need be.
    """
    asked, c, clients = world.asked, script.control, len(script.clients)
    n, replicas, finished = len(asked), len(script.power), 0
    for k in range(replicas):
        finished += states.tally[k].finished
    for i in range(clients if c.arrived == 0 else 0):
        script.clients[i].due, asked[i].owner = i, i
        script.clients[i].ready_s = asked[i].sent_s + c.delivery_s
        c.arrived += 1
    while most > 0 and finished < n:
        i, at, sample = 0, np.inf, False
        if clients > 0:
            i = _next_client(script)
            at = script.clients[i].ready_s
        elif c.arrived < n:
            at = asked[c.arrived].sent_s + c.delivery_s
        if c.sampled < len(script.samples) and c.sampled * c.every_s <= at:
            at, sample = c.sampled * c.every_s, True
        look = c.look_s < at
        if look:
            at, sample = c.look_s, False
        ended = states.tally[0].finished
        finished = 0
        for k in range(replicas):
            most += states.tally[k].rounds
            advance(world, _replica(states, k), at, clients > 0, most - states.tally[k].rounds)
            most -= states.tally[k].rounds
            finished += states.tally[k].finished
        if clients > 0 and finished > ended:
            _reply(world, _replica(states, 0), script, ended)
        elif most <= 0 and finished < n:
            return
        elif look:
            c.look_s += c.look_every_s
            _scale(states, script, at)
        elif sample:
            _sample(world, states, at, script.samples[c.sampled])
            c.sampled += 1
        elif at < np.inf:
            most -= 1
            r, k = (script.clients[i].due, 0) if clients > 0 else (c.arrived, 0)
            if clients > 0:
                script.clients[i].ready_s = np.inf
            else:
                c.arrived += 1
                if replicas > 1 or c.look_s < np.inf:
                    k = _route(world, states, script, r, at)
                    asked[r].owner = k
            enter(world, _replica(states, k), r, at)
        else:
            return


def _door(stamp: int) -> Callable[[World, State, Script, int], None]:
    def play(world: World, states: State, script: Script, most: int) -> None:
        if stamp != 0:
            _play(world, states, script, most)

    return door(play)


_PARTS = (kernel_module, loop_running, loop_state, loop_steps, loop_waiting, prefix_cache)
play = _door(stamp_of(__file__, *(part.__file__ for part in _PARTS)))
"""Requests as they are sent, or by clients who wait for their answers; at most so many arrivals and rounds a call."""
