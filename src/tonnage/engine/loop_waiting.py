"""The requests that wait for a replica, compiled: who is next, what would it get, and is it let in?

Nobody overtakes the head of the queue; only who asks for an adapter that has no place waits aside, as in
vLLM. Batches that start together open the door once and shut it behind them.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

import math

from tonnage.engine.kernel import kernel
from tonnage.engine.loop_running import before, blocks_of, slot_of, take_blocks
from tonnage.engine.loop_state import State, World
from tonnage.engine.prefix_cache import block_note, blocks_hit, blocks_share, host_hit, host_put

__all__ = ["admit", "due_s", "enter", "is_open", "may_admit"]

CLIP_TOKENS = 4096
"""SGLang counts no more of an answer when it admits."""


@kernel
def enter(world: World, s: State, r: int, at: float) -> None:
    """A request reaches the scheduler."""
    t = s.tally[0]
    if t.running + t.waiting == 0 and t.now_s < at:
        t.now_s = at
        t.emitted_s = at
    s.waiting[(t.head + t.waiting) % len(s.waiting)] = r
    t.waiting += 1
    world.asked[r].entered_s = at


@kernel
def due_s(world: World, s: State) -> float:
    """When the batch that is being gathered starts, full or not."""
    return world.asked[s.waiting[s.tally[0].head]].entered_s + world.rules.gather_s


@kernel
def is_open(world: World, s: State) -> bool:
    """Whether waiting requests may join: always, or only while a batch that starts together is filled."""
    t, gather = s.tally[0], world.rules.gather
    if gather == 0 or t.taking > 0:
        return True
    if t.running > 0 or t.waiting == 0:
        return False
    return t.waiting >= gather or t.now_s >= due_s(world, s)


@kernel
def _head(world: World, s: State) -> int:
    """Place in the ring of the request that is admitted next; -1 = nobody's adapter has a place."""
    t, rules, asked, size = s.tally[0], world.rules, world.asked, len(s.waiting)
    if not rules.ranked and rules.max_loras == 0:
        return t.head
    best = -1
    for k in range(t.waiting):
        at = (t.head + k) % size
        adapter = asked[s.waiting[at]].adapter
        if rules.max_loras > 0 and adapter > 0 and slot_of(s, adapter) < 0:
            continue
        if best < 0 or before(asked, s.waiting[at], s.waiting[best]):
            best = at
        if not rules.ranked:
            break
    return best


@kernel
def _found(world: World, s: State, r: int) -> tuple[int, int, int]:
    """Tokens of a waiting request that need not be computed; blocks of the accelerator's and of the host's with them"""
    rules, mine = world.rules, world.asked[r]
    target = mine.prompt + mine.said
    if rules.hashed:
        most = (target - 1) // rules.block_tokens
        ids = world.ids[mine.first_id : mine.end_id]
        hits, _ = blocks_hit(s.pool, ids, most)
        more = host_hit(s.host, ids, hits, most) if rules.host_blocks > 0 else 0
        return (hits + more) * rules.block_tokens, hits, more
    if mine.swapped > 0:
        return mine.swapped, 0, 0
    return min(mine.cached, target - 1) if mine.preempted == 0 or rules.cached_again else 0, 0, 0


@kernel
def _need_of(world: World, s: State, r: int, left: int) -> tuple[int, bool]:
    """Tokens that a waiting request would get of `left`, and whether it is admitted."""
    rules, mine, t = world.rules, world.asked[r], s.tally[0]
    target, size = mine.prompt + mine.said, rules.block_tokens
    found, hits, _ = _found(world, s, r)
    need = target - found
    if rules.threshold > 0:
        need = min(need, rules.threshold)
    if need > left and not rules.chunked:
        return 0, False
    need = min(need, left)
    if rules.reserve_output:
        wanted = -(-(mine.prompt + mine.output) // size) - hits
    elif rules.whole_prompt or not rules.mixed:
        wanted = -(-target // size) - hits
    else:
        wanted = -(-(found + need) // size) - hits
    _, unused = blocks_hit(s.pool, world.ids[mine.first_id : mine.end_id], hits)
    fits = wanted <= t.free - unused - rules.watermark
    if fits and rules.ratio > 0.0:
        remaining = t.ends - (t.running - t.prefilling) * t.step
        room = target + min(mine.output - mine.said, CLIP_TOKENS) + t.ratio * remaining
        fits = t.running == 0 or room <= t.free * size
    return need, fits


@kernel
def may_admit(world: World, s: State) -> bool:
    """Whether the next step would take someone in, before its decodes have taken their blocks."""
    t, rules = s.tally[0], world.rules
    if t.waiting == 0 or t.running >= rules.max_num_seqs or not is_open(world, s):
        return False
    left = rules.budget - (t.running if rules.mixed else 0)
    at = _head(world, s) if left > 0 else -1
    return at >= 0 and _need_of(world, s, s.waiting[at], left)[1]


@kernel
def admit(world: World, s: State, left: int, chunks: int) -> tuple[int, int]:
    """Waiting requests in order, until one does not fit; budget left and prompts in the step."""
    t, rules = s.tally[0], world.rules
    if rules.gather > 0 and t.taking == 0 and t.running == 0 and is_open(world, s):
        t.taking = min(t.waiting, rules.gather)
        t.ghosts, t.ghost_context = 0, 0
    while t.waiting > 0 and left > 0 and t.running < rules.max_num_seqs:
        if rules.gather > 0 and t.taking == 0:
            break
        at = _head(world, s)
        need, fits = (1, False) if at < 0 else _need_of(world, s, s.waiting[at], left)
        if not fits:
            t.taking = 0 if need > 0 else t.taking
            break
        t.taking -= 1 if rules.gather > 0 else 0
        r = s.waiting[at]
        _take_place(world, s, at)
        s.given[t.running - 1] = need
        s.seats[chunks].chunk, s.seats[chunks].chunk_tokens = r, need
        chunks += 1
        left -= need
        _take_room(world, s, r, need)
    return left, chunks


@kernel
def _take_place(world: World, s: State, at: int) -> None:
    """From the waiting to the running, with the adapter."""
    t, rules, size = s.tally[0], world.rules, len(s.waiting)
    r = s.waiting[at]
    mine = world.asked[r]
    while at != t.head:  # close the gap of one taken from the middle
        s.waiting[at] = s.waiting[(at - 1) % size]
        at = (at - 1) % size
    t.head = (t.head + 1) % size
    t.waiting -= 1
    if math.isnan(mine.started_s):
        mine.started_s = t.now_s
    s.running[t.running] = r
    t.running += 1
    t.prefilling += 1
    if rules.max_loras > 0 and mine.adapter > 0:
        k = slot_of(s, mine.adapter)
        if s.slots[k].adapter != mine.adapter:
            s.slots[k].adapter = mine.adapter
            t.loading_s += rules.lora_load_s
        s.slots[k].users += 1


@kernel
def _take_room(world: World, s: State, r: int, need: int) -> None:
    """The blocks of an admitted request, those found and those that this step fills."""
    t, rules, mine = s.tally[0], world.rules, world.asked[r]
    found, hits, more = _found(world, s, r)
    mine.target = mine.prompt + mine.said
    mine.base, mine.blocks = found, 0
    tokens = mine.prompt + mine.output if rules.reserve_output else found + need
    if rules.hashed:
        ids = world.ids[mine.first_id : mine.end_id]
        t.free_rows -= 1
        mine.row = s.seats[t.free_rows].free_row
        row = s.table[mine.row]
        mine.blocks = hits
        t.free -= blocks_share(s.pool, ids, row, hits)
        take_blocks(world, s, r, tokens)
        for place in range(hits, hits + more):
            host_put(s.host, ids[place])
            block_note(s.pool, ids, row, place)
        t.recalled += more * rules.block_tokens
    elif rules.reserve_output:
        t.free -= blocks_of(world, s, r)
    else:
        # Cached tokens outside the pool's own accounting still need room in it.
        mine.base = 0
        take_blocks(world, s, r, tokens)
        mine.base = found
    if mine.swapped > 0:
        t.host_free += -(-mine.swapped // rules.block_tokens)
        t.recalled += mine.swapped
        mine.swapped = 0
    else:
        t.hit += found
