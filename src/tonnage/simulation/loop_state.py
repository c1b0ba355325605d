"""
What does the compiled loop keep in memory? A record for each request, each seat and each replica, in NumPy arrays.

`World`, `State` and `Script` are three tuples of such arrays. Python makes them (`new_world`, `new_states`) with one
row for each replica; the compiled loop sees the same tuples with pointers in the place of arrays (`kernel.pointer`),
and one replica at a time. Pointers know no length, so `RULES` and `CONTROL` count what is there. Records, not columns:
a compiled function takes each array as an argument, and the time to compile it goes with their count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tonnage.simulation.prefix_cache import Pool, empty_pools
from tonnage.simulation.simulated import Floats, Ints, Limits, Requests, StepArrays

Record = Any
"""Numbers by name; an array of such; or, in compiled code, a pointer to such."""

# Values of Limits.victim
LAST, WORST, LEAST = range(3)
# Values of Control.rule
ROUND_ROBIN, LEAST_LOADED, PREFIX_AWARE = range(3)

GAP_LEAST, GAP_RATIO, GAP_BINS = 1e-6, 0.01, 2600
STALLS = 256
FOREVER = 1 << 62
UNIT = 1 << 20
"""Parts of a token in which a pace is counted, exactly."""


def _numbers(floats: str, whole: str) -> np.dtype[Any]:
    return np.dtype([*((name, "f8") for name in floats.split()), *((name, "i8") for name in whole.split())])


ASKED = _numbers(
    "sent_s think_s entered_s started_s first_s last_s paused_s",
    "prompt output cached priority first_id end_id base end target said decoding blocks row swapped preempted owner",
)
"""
A request, and what is known of it while and after it runs.

output: its answer, as `paced_lengths` has it. base: tokens computed; of a decoding request, less the counter `step`.
end: that counter when its last token is there. target: tokens to compute before it decodes: prompt, and what it had
said before a preemption. row: of State.table. swapped: tokens that wait in host memory. owner: its client; with
several replicas, who answered it. entered_s: when it reached the scheduler. paused_s: when it was preempted after its
first token.
"""
TALLY = _numbers(
    "now_s began_s busy_s host_s prompts_s kv_s seats_s emitted_s ratio",
    "step carried running prefilling head waiting free context next_end finished rounds steps preempted hit prompt ends"
    " tokens taking ghosts ghost_context free_rows host_free recalled stored recalled_all stalled",
)
"""
The counters of a replica.

began_s: start of the last step. step: tokens by which decodes have moved, carried: the parts of one that the pace is
ahead of them. taking: places left in a batch that is being formed; ghosts: its seats whose answers
have ended. recalled, stored: tokens that move from and to host memory in this step. stalled: filled places of
State.stalls.
"""
SEAT = _numbers("", "chunk chunk_tokens free_row ended")
"""
Lists with as many places as there are seats.

chunk: whose prompts are in the step. free_row:
rows of State.table that nobody uses. ended: a ring of who ended last.
"""
POWER = _numbers("since_s paid_s ready_s", "drains")
"""A replica: paid for since (NaN = off), what was paid before, when it can answer, whether it takes no more."""
CLIENT = _numbers("ready_s", "due")
"""When a client's next request reaches the scheduler, never while it waits; and which that is."""
CONTROL = _numbers(
    "every_s delivery_s look_every_s in_flight cold_s keep_s look_s low_since_s",
    "arrived sampled turn cold rule fewest most samples clients replicas",
)
"""
What happens from outside: samples, router, autoscaler.

every_s: distance of the samples. look_s: the autoscaler's next look (inf = none), look_every_s: their distance.
in_flight: requests that it wants on each replica. cold_s: from power to readiness. keep_s: how long too little load is
watched before a replica goes; low_since_s: since when it is seen (NaN = it is not). arrived, sampled: requests handed
in and samples taken so far. turn: the replica whose turn it is. cold: requests that found no replica ready. samples,
clients, replicas: how many there are.
"""
CONSTANTS = ("chunk_s", "chunk_token_s", "chunk_square_s", "host_s", "host_sequence_s", "host_prompt_s", "hidden_s",
             "ranks", "uneven", "mixed_attention")  # fmt: skip
_FLOATS = tuple(
    name for name, kind in Limits.__annotations__.items() if getattr(kind, "__forward_arg__", kind) == "float"
)
RULES = _numbers(
    " ".join((*_FLOATS, *CONSTANTS)),
    " ".join(name for name in Limits._fields if name not in _FLOATS)
    + " pace hashed swaps num_requests num_rows table_width num_ids num_host_ids num_host_blocks",
)
"""
The scheduler's `Limits`, the constants of a step, and how many there are of what.

pace: tokens by which decodes move in a step, in parts (`UNIT`). hashed: blocks have identity (a prefix cache). swaps:
what is preempted moves to host memory, if there is room.
num_rows: entries of World.by_rows. table_width: blocks in a row of State.table.
num_ids, num_host_ids: ids by which the accelerator's blocks and the host's can be found. num_host_blocks: of them.
"""
BY_BATCH = _numbers("decode_s context_s attend_s", "")
BY_ROWS = _numbers("mixed_s head_s", "")


class World(NamedTuple):
    """All that the replicas share."""

    rules: Record
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
    """What all replicas share at the start of a run: step times, the scheduler's rules, and requests not yet sent."""
    n, hashed = len(requests.prompt), len(requests.offsets) > 1
    by_batch, by_rows = np.zeros(len(table.decode_s), BY_BATCH), np.zeros(len(table.mixed_s), BY_ROWS)
    for name in BY_BATCH.names or ():
        by_batch[name] = getattr(table, name)
    for name in BY_ROWS.names or ():
        by_rows[name] = getattr(table, name)[: len(by_rows)]
    asked = np.zeros(n, ASKED)
    for name in ("sent_s", "think_s", "prompt", "cached", "priority"):
        asked[name] = getattr(requests, name)
    asked["output"] = paced_lengths(requests, limits)
    for name in ("entered_s", "started_s", "first_s", "last_s", "paused_s"):
        asked[name] = np.nan
    if hashed:
        asked["first_id"], asked["end_id"] = requests.offsets[:-1], requests.offsets[1:]
    rules = np.zeros(1, RULES)
    for name in Limits._fields:
        rules[name] = getattr(limits, name)
    for name in CONSTANTS:
        rules[name] = getattr(table, name)
    longest = int((asked["prompt"] + asked["output"]).max(initial=1)) + limits.speculative
    counts = {
        "pace": round(_gains(limits)[0] * UNIT),
        "hashed": hashed,
        "swaps": limits.host_blocks > 0 and not hashed,
        "num_requests": n,
        "num_rows": len(by_rows),
        "table_width": -(-longest // limits.block_tokens) + 1 if hashed else 1,
        "num_ids": max(1, requests.num_ids),
        "num_host_ids": max(1, requests.num_ids if limits.host_blocks else 1),
        "num_host_blocks": max(1, limits.host_blocks if hashed else 0),
    }
    for name, count in counts.items():
        rules[name] = count
    return World(rules, by_batch, by_rows, asked, np.ascontiguousarray(requests.blocks, np.int64))


def paced_lengths(requests: Requests, limits: Limits) -> Ints:
    """
    Lengths of answers at the pace that all decodes share: as many tokens as the batch moves on while a request says its
    own, with the luck that its own drafts have. The same request has the same luck in every run. [tokens]

    Without drafts they are the lengths asked for. With them the steps of an answer are nearly normal: a sum of
    independent gains is passed (renewal theory). None becomes longer than the cache takes.
    """
    if not limits.speculative:
        return requests.output
    mean, variance = _gains(limits)
    left = requests.output - 1
    luck = np.random.default_rng(0).standard_normal(len(left))
    most = (limits.num_blocks - limits.watermark) * limits.block_tokens
    most = most if limits.chunked else min(most, limits.budget + 1)
    said: Ints = left + np.rint(luck * np.sqrt(variance * left / mean)).astype(np.int64)
    room = np.maximum(most - requests.prompt - limits.speculative - 1, 0)
    paced: Ints = 1 + np.minimum(np.maximum(said, left > 0), room)
    return paced


def _gains(limits: Limits) -> tuple[float, float]:
    """Mean and variance of the tokens that a step yields to a sequence: drafts are kept up to the first that is not."""
    beyond = np.arange(limits.speculative + 1)
    kept = float(limits.acceptance) ** beyond
    mean = float(kept.sum())
    return mean, float(((2 * beyond + 1) * kept).sum()) - mean * mean


def new_states(world: World, replicas: int) -> State:
    """So many replicas with all seats and blocks free, in one set of arrays."""
    rules = {name: int(world.rules[name][0]) for name in RULES.names or () if RULES[name].kind == "i"}
    n, seats, hashed = rules["num_requests"], rules["max_num_seqs"], bool(rules["hashed"])
    tally = np.zeros(replicas, TALLY)
    tally["free"], tally["next_end"], tally["ratio"] = rules["num_blocks"], FOREVER, world.rules["ratio"][0]
    tally["free_rows"], tally["host_free"] = seats, rules["host_blocks"]
    places = np.zeros((replicas, seats), SEAT)
    places["free_row"] = np.arange(seats)
    return State(
        tally=tally,
        running=np.zeros((replicas, seats), np.int64),
        given=np.zeros((replicas, seats), np.int64),
        seats=places,
        waiting=np.zeros((replicas, n + 1), np.int64),
        phase=np.zeros((replicas, rules["block_tokens"]), np.int64),
        gaps=np.zeros((replicas, GAP_BINS), np.int64),
        stalls=np.zeros((replicas, STALLS)),
        table=np.zeros((replicas, seats * rules["table_width"]), np.int64),
        pool=empty_pools(replicas, num_blocks=rules["num_blocks"] if hashed else 1, num_ids=rules["num_ids"]),
        host=empty_pools(replicas, num_blocks=rules["num_host_blocks"], num_ids=rules["num_host_ids"]),
    )
