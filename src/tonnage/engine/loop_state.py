"""What the compiled loop keeps in memory: arrays by request and by replica, and the places in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tonnage.engine.prefix_cache import Pool, empty_pool
from tonnage.engine.simulated import Floats, Ints, Limits, Requests, StepArrays

# Places in State.clock
NOW, BUSY, HOST, PROMPTS, KV, SEATS, EMITTED, RATIO = range(8)
# Places in State.count
(STEP, RUNNING, PREFILLING, HEAD, WAITING, FREE, CONTEXT, NEXT, FINISHED, ROUNDS, STEPS, PREEMPTED, HIT, PROMPT,
 ENDS, TOKENS, TAKING, GHOSTS, GHOST_CONTEXT) = range(19)  # fmt: skip
# Places in Limits.victim
LAST, WORST, LEAST = range(3)

# Places in Script.cursor
ARRIVED, SAMPLED, TURN, COLD = range(4)
# Places in a row of Script.power: since when a replica is paid for (NaN = off), what it was paid for before, whether
# it takes no more requests, from when on it can answer
SINCE, PAID, DRAINS, READY = range(4)
# Places in Script.scaling
INTERVAL, TARGET, COLD_S, FEWEST, MOST, KEEP_S, CHECK, LOW_SINCE = range(8)
# Places in Script.rule
ROUND_ROBIN, LEAST_LOADED = range(2)

GAP_LEAST, GAP_RATIO, GAP_BINS = 1e-6, 0.01, 2600
FOREVER = 1 << 62


class Book(NamedTuple):
    """What is known of each request while and after it runs."""

    base: Ints
    """Tokens computed; of a decoding request, less the step counter."""
    end: Ints
    """Step counter at which its last token is there."""
    target: Ints
    """Tokens to compute before it decodes: prompt, and what it had said before a preemption."""
    said: Ints
    decoding: Ints
    blocks: Ints
    row: Ints
    paused_s: Floats
    first_s: Floats
    last_s: Floats
    started_s: Floats
    entered_s: Floats
    """When it reached the scheduler."""
    preempted: Ints


class State(NamedTuple):
    """One replica."""

    clock: Floats
    tally: Ints
    running: Ints
    given: Ints
    """Tokens that the step gives to each running request."""
    waiting: Ints
    """A ring: WAITING requests from HEAD on."""
    phase: Ints
    """Decoding requests by what their context leaves over whole blocks, less the step counter."""
    chunk: Ints
    """Requests whose prompts are in the step."""
    chunk_tokens: Ints
    gaps: Ints
    """Gaps between tokens, by the logarithm of their length."""
    stalls: Floats
    """When those joined that have had one token only, in steps without decodes."""
    table: Ints
    """Blocks of each running request, where blocks have identity."""
    rows: Ints
    """Free rows of `table`; the last place counts them."""
    pool: Pool
    ended: Ints
    """A ring of the requests that ended last, as many as can end between two looks."""


class Script(NamedTuple):
    """What happens to the replica from outside."""

    cursor: Ints
    """Requests handed in, samples taken, whose turn it is, requests that found no replica ready."""
    samples: Floats
    every_s: float
    delivery_s: float
    ready: Floats
    """When each client's next request reaches the scheduler, never while it waits; empty in an open loop. [s]"""
    due: Ints
    """Which request that is."""
    owner: Ints
    """Whose client a request is; with several replicas, who answered it."""
    rule: int
    """Of the router."""
    power: Floats
    """A row for each replica: when it is paid for and when it can answer."""
    scaling: Floats
    """Autoscaling: seconds between looks, requests in flight wanted per replica, cold start, fewest and most
    replicas, seconds of too little load before one goes; then its memory."""


class World(NamedTuple):
    """All that the loop reads or writes."""

    table: StepArrays
    limits: Limits
    requests: Requests
    book: Book


def new_states(world: World, replicas: int, *, clients: int = 0) -> State:
    """Empty replicas."""
    limits, n = world.limits, len(world.requests.prompt)
    hashed = len(world.requests.offsets) > 1
    seats = limits.max_num_seqs
    longest = int((world.requests.prompt + world.requests.output).max(initial=1))
    wide = -(-longest // limits.block_tokens) + 1 if hashed else 1
    count = np.zeros((replicas, GHOST_CONTEXT + 1), np.int64)
    count[:, FREE], count[:, NEXT] = limits.num_blocks, FOREVER
    clock = np.zeros((replicas, RATIO + 1))
    clock[:, RATIO] = limits.ratio
    rows = np.tile(np.arange(seats + 1), (replicas, 1)) if hashed else np.zeros((replicas, 1), np.int64)
    rows[:, -1] = seats
    return State(
        clock=clock,
        tally=count,
        running=np.zeros((replicas, seats), np.int64),
        given=np.zeros((replicas, seats), np.int64),
        waiting=np.zeros((replicas, n + 1), np.int64),
        phase=np.zeros((replicas, limits.block_tokens), np.int64),
        chunk=np.zeros((replicas, seats), np.int64),
        chunk_tokens=np.zeros((replicas, seats), np.int64),
        gaps=np.zeros((replicas, GAP_BINS), np.int64),
        stalls=np.zeros((replicas, 256)),
        table=np.zeros((replicas, seats if hashed else 1, wide), np.int64),
        rows=rows,
        pool=empty_pool(replicas, num_blocks=limits.num_blocks if hashed else 1, num_ids=world.requests.num_ids),
        ended=np.zeros((replicas, max(1, clients)), np.int64),
    )


def new_book(n: int) -> Book:
    """A book of requests of which nothing is known yet."""
    zeros = [np.zeros(n, np.int64) for _ in range(8)]
    absent = [np.full(n, np.nan) for _ in range(5)]
    base, end, target, said, decoding, blocks, row, preempted = zeros
    paused, first, last, started, entered = absent
    return Book(
        base=base, end=end, target=target, said=said, decoding=decoding, blocks=blocks, row=row,
        paused_s=paused, first_s=first, last_s=last, started_s=started, entered_s=entered, preempted=preempted,
    )  # fmt: skip
