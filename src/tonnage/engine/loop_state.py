"""What the compiled loop keeps in memory: a record for each request, each seat and each replica.

Records, not columns: compiled code takes an array as seven numbers, whatever it holds, and the time it takes
to compile goes with their count.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from tonnage.engine.prefix_cache import Pool, empty_pools
from tonnage.engine.simulated import Floats, Ints, Limits, Requests, StepArrays

Record = Any
"""Numbers by name, or an array of such."""

# Values of Limits.victim
LAST, WORST, LEAST = range(3)
# Values of Control.rule
ROUND_ROBIN, LEAST_LOADED, PREFIX_AWARE = range(3)

GAP_LEAST, GAP_RATIO, GAP_BINS = 1e-6, 0.01, 2600
STALLS = 256
FOREVER = 1 << 62


def _numbers(floats: str, whole: str) -> np.dtype[Any]:
    return np.dtype([*((name, "f8") for name in floats.split()), *((name, "i8") for name in whole.split())])


ASKED = _numbers(
    "sent_s think_s entered_s started_s first_s last_s paused_s",
    "prompt output cached priority adapter first_id end_id base end target said decoding blocks row swapped preempted"
    " owner",
)
"""
A request, and what is known of it while and after it runs.

base: tokens computed; of a decoding request, less the step counter. end: the step counter at which its last
token is there. target: tokens to compute before it decodes: prompt, and what it had said before a preemption.
row: of State.table. swapped: tokens that wait in host memory. owner: its client; with several replicas, who
answered it. entered_s: when it reached the scheduler. paused_s: when it was preempted after its first token.
"""
TALLY = _numbers(
    "now_s busy_s host_s prompts_s kv_s seats_s emitted_s ratio loading_s",
    "step running prefilling head waiting free context next_end finished rounds steps preempted hit prompt ends tokens"
    " taking ghosts ghost_context free_rows host_free recalled stored recalled_all stalled uses",
)
"""
The counters of a replica.

taking: places left in a batch that is being formed; ghosts: its seats whose answers have ended. recalled, stored:
tokens that move from and to host memory in this step. loading_s: adapters on their way. stalled: filled places
of State.stalls.
"""
SEAT = _numbers("", "chunk chunk_tokens free_row ended")
"""
Lists with as many places as there are seats.

chunk: whose prompts are in the step. free_row:
rows of State.table that nobody uses. ended: a ring of who ended last.
"""
SLOT = _numbers("", "adapter users used")
"""An adapter in the accelerator's memory: how many run with it, and when it was used last."""
POWER = _numbers("since_s paid_s ready_s", "drains")
"""A replica: paid for since (NaN = off), what was paid before, when it can answer, whether it takes no more."""
CLIENT = _numbers("ready_s", "due")
"""When a client's next request reaches the scheduler, never while it waits; and which that is."""
CONTROL = _numbers(
    "every_s delivery_s look_every_s in_flight cold_s keep_s look_s low_since_s",
    "arrived sampled turn cold rule fewest most",
)
"""What happens from outside: samples, router, autoscaler; how many requests were handed in, or found nobody ready."""
CONSTANTS = ("chunk_s", "chunk_token_s", "chunk_square_s", "host_s", "host_sequence_s", "host_prompt_s", "hidden_s",
             "ranks", "uneven", "mixed_attention")  # fmt: skip
_RULES = (*Limits._fields, *CONSTANTS, "hashed", "swaps")
Rules: Any = namedtuple("Rules", _RULES)  # type: ignore[misc]
"""The scheduler's limits and the constants of a step, by value: compiled code need not look again after each store."""
BY_BATCH = _numbers("decode_s context_s attend_s", "")
BY_ROWS = _numbers("mixed_s head_s", "")


class World(NamedTuple):
    """All that the replicas share."""

    rules: Any
    by_batch: Record
    by_rows: Record
    asked: Record
    ids: Ints
    """Of the full blocks of all requests, one request after the other."""


class State(NamedTuple):
    """One replica, or, with one axis more, several."""

    tally: Record
    running: Ints
    """Who runs, in order."""
    given: Ints
    """Tokens of this step for each of them."""
    seats: Record
    waiting: Ints
    """A ring: `waiting` requests from `head` on."""
    phase: Ints
    """Decoding requests by what their context leaves over whole blocks, less the step counter."""
    gaps: Ints
    """Gaps between tokens, by the logarithm of their length."""
    stalls: Floats
    """When those joined that have had one token only, in steps without decodes."""
    slots: Record
    table: Ints
    """Blocks of each running request, where blocks have identity."""
    pool: Pool
    host: Pool


class Script(NamedTuple):
    """What happens to the replicas from outside."""

    control: Record
    samples: Floats
    clients: Record
    """Empty in an open loop."""
    power: Record


def new_world(table: StepArrays, limits: Limits, *, requests: Requests) -> World:
    """Requests of which nothing is known yet, and what they will be served by."""
    n = len(requests.prompt)
    hashed = len(requests.offsets) > 1
    kinds = {"int": int, "float": float, "bool": bool}
    said = {name: str(getattr(kind, "__forward_arg__", kind)) for name, kind in Limits.__annotations__.items()}
    # Compiled code is kept by type, and 0 is another type than 0.0.
    limited = [kinds[said[name]](getattr(limits, name)) for name in Limits._fields]
    constants = [float(getattr(table, name)) for name in CONSTANTS]
    rules = Rules._make([*limited, *constants, hashed, limits.host_blocks > 0 and not hashed])
    by_batch, by_rows = np.zeros(len(table.decode_s), BY_BATCH), np.zeros(len(table.mixed_s), BY_ROWS)
    for name in BY_BATCH.names or ():
        by_batch[name] = getattr(table, name)
    for name in BY_ROWS.names or ():
        by_rows[name] = getattr(table, name)[: len(by_rows)]
    asked = np.zeros(n, ASKED)
    for name in ("sent_s", "think_s", "prompt", "output", "cached", "priority", "adapter"):
        asked[name] = getattr(requests, name)
    for name in ("entered_s", "started_s", "first_s", "last_s", "paused_s"):
        asked[name] = np.nan
    if hashed:
        asked["first_id"], asked["end_id"] = requests.offsets[:-1], requests.offsets[1:]
    return World(rules, by_batch, by_rows, asked, requests.blocks)


def new_states(world: World, replicas: int, *, num_ids: int) -> State:
    """Empty replicas."""
    n, hashed = len(world.asked), bool(world.rules.hashed)
    names = ("max_num_seqs", "block_tokens", "num_blocks", "host_blocks", "max_loras", "speculative")
    seats, size, blocks, host_blocks, loras, drafts = (int(getattr(world.rules, name)) for name in names)
    longest = int((world.asked["prompt"] + world.asked["output"]).max(initial=1)) + drafts
    wide = -(-longest // size) + 1 if hashed else 1
    tally = np.zeros(replicas, TALLY)
    tally["free"], tally["next_end"], tally["ratio"] = blocks, FOREVER, world.rules.ratio
    tally["free_rows"], tally["host_free"] = seats, host_blocks
    host_blocks = host_blocks if hashed else 0
    places = np.zeros((replicas, seats), SEAT)
    places["free_row"] = np.arange(seats)
    return State(
        tally=tally,
        running=np.zeros((replicas, seats), np.int64),
        given=np.zeros((replicas, seats), np.int64),
        seats=places,
        waiting=np.zeros((replicas, n + 1), np.int64),
        phase=np.zeros((replicas, size), np.int64),
        gaps=np.zeros((replicas, GAP_BINS), np.int64),
        stalls=np.zeros((replicas, STALLS)),
        slots=np.zeros((replicas, max(1, loras)), SLOT),
        table=np.zeros((replicas, seats if hashed else 1, wide), np.int64),
        pool=empty_pools(replicas, num_blocks=blocks if hashed else 1, num_ids=num_ids),
        host=empty_pools(replicas, num_blocks=max(1, host_blocks), num_ids=num_ids if host_blocks else 1),
    )
