"""
Which waiting request joins a replica next, what would it get, and is it let in? Compiled.

Nobody overtakes the head of the queue. Batches that start together open the door once and shut it behind them.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

import math

from tonnage.simulation.kernel import at, inline, kernel, offset
from tonnage.simulation.loop_running import blocks_held, goes_before, table_row, take_blocks
from tonnage.simulation.loop_state import State, World
from tonnage.simulation.prefix_cache import block_note, blocks_hit, blocks_share, host_hit, host_put

CLIP_TOKENS = 4096
"""SGLang counts no more of an answer when it admits."""


@kernel
def enter(world: World, s: State, r: int, now_s: float) -> None:
    """A request reaches the scheduler; an idle replica's clock moves on to that time."""
    t = s.tally
    if t.running + t.waiting == 0 and t.now_s < now_s:
        t.now_s = now_s
        t.emitted_s = now_s
    s.waiting[(t.head + t.waiting) % (world.rules.num_requests + 1)] = r
    t.waiting += 1
    at(world.asked, r).entered_s = now_s


@kernel
def due_s(world: World, s: State) -> float:
    """When the batch that is being gathered starts, full or not. [s]"""
    return at(world.asked, s.waiting[s.tally.head]).entered_s + world.rules.gather_s


@kernel
def is_open(world: World, s: State) -> bool:
    """Whether waiting requests may join: always, or only while a batch that starts together is filled."""
    t, gather = s.tally, world.rules.gather
    if gather == 0 or t.taking > 0:
        return True
    if t.running > 0 or t.waiting == 0:
        return False
    return t.waiting >= gather or t.now_s >= due_s(world, s)


@kernel
def _next_place(world: World, s: State) -> int:
    """Place in the ring of the request that is admitted next."""
    t, rules, size = s.tally, world.rules, world.rules.num_requests + 1
    best = t.head
    for k in range(1, t.waiting if rules.ranked else 0):
        place = (t.head + k) % size
        if goes_before(world.asked, s.waiting[place], s.waiting[best]):
            best = place
    return best


@inline
def is_late(world: World, s: State) -> bool:
    """Whether the next step was prepared before the next request came; no step is while nobody runs."""
    t = s.tally
    if world.rules.ahead == 0 or t.running == 0 or t.waiting == 0:
        return False
    return at(world.asked, s.waiting[_next_place(world, s)]).entered_s > t.began_s


@kernel
def _find_cached(world: World, s: State, r: int) -> tuple[int, int, int]:
    """
    Tokens of a waiting request that need not be computed, and their blocks in the accelerator's pool and the host's.

    Both are 0 where blocks have no identity: the tokens are then those stated with the request, or moved to the host.
    """
    rules, mine = world.rules, at(world.asked, r)
    target = mine.prompt + mine.said
    if rules.hashed:
        # The last token is always computed: what follows it cannot be known otherwise.
        most = min((target - 1) // rules.block_tokens, mine.end_id - mine.first_id)
        ids = offset(world.ids, mine.first_id)
        hits, _ = blocks_hit(s.pool, ids, most)
        more = host_hit(s.host, ids, hits, most) if rules.host_blocks > 0 else 0
        return (hits + more) * rules.block_tokens, hits, more
    if mine.swapped > 0:
        return mine.swapped, 0, 0
    return min(mine.cached, target - 1) if mine.preempted == 0 or rules.cached_again else 0, 0, 0


@inline
def _blocks_wanted(world: World, r: int, tokens: int) -> int:
    """Blocks that must be free before a request joins, those of its cached prefix included: all it will ever fill, all
    of its prompt, or those of so many tokens."""
    rules, mine = world.rules, at(world.asked, r)
    if rules.reserve_output:
        tokens = mine.prompt + mine.output
    elif rules.whole_prompt or not rules.mixed:
        tokens = mine.prompt + mine.said
    return -(-tokens // rules.block_tokens)


@kernel
def _need_of(world: World, s: State, r: int, left: int) -> tuple[int, bool]:
    """
    Tokens that a waiting request would get of `left`, and whether it is admitted.

    (0, not admitted) where only the budget is too small for a prompt that may not be cut; otherwise a request that is
    not admitted lacks blocks.
    """
    rules, mine, t = world.rules, at(world.asked, r), s.tally
    target = mine.prompt + mine.said
    found, hits, _ = _find_cached(world, s, r)
    need = target - found
    if rules.threshold > 0:
        need = min(need, rules.threshold)
    if need > left and not rules.chunked:
        return 0, False
    need = min(need, left)
    wanted = _blocks_wanted(world, r, found + need) - hits
    # Cached blocks that nobody uses are among the free ones until this request takes them.
    _, unused = blocks_hit(s.pool, offset(world.ids, mine.first_id), hits)
    fits = wanted <= t.free - unused - rules.watermark
    if fits and rules.ratio > 0.0:
        remaining = t.ends - (t.running - t.prefilling) * t.step
        room = target + min(mine.output - mine.said, CLIP_TOKENS) + t.ratio * remaining
        fits = t.running == 0 or room <= t.free * rules.block_tokens
    return need, fits


@kernel
def may_admit(world: World, s: State) -> bool:
    """Whether the next step would take someone in, before its decodes have taken their blocks."""
    t, rules = s.tally, world.rules
    if t.waiting == 0 or t.running >= rules.max_num_seqs or not is_open(world, s):
        return False
    left = rules.budget - (t.running * (1 + rules.speculative) if rules.mixed else 0)
    return left > 0 and not is_late(world, s) and _need_of(world, s, s.waiting[_next_place(world, s)], left)[1]


@kernel
def admit(world: World, s: State, left: int, chunks: int) -> tuple[int, int]:
    """
    Waiting requests in order, until one does not fit: nobody overtakes it.

    Returns the budget that is left [tokens] and the prompts in the step. Where batches start together, `taking` counts
    the places that are still to be filled: who does not fit closes the batch, for it runs to its end before the next
    begins; who only lacks budget joins with the next step.
    """
    t, rules = s.tally, world.rules
    idle = t.running == 0
    if rules.gather > 0 and t.taking == 0 and idle and is_open(world, s):
        t.taking = min(t.waiting, rules.gather)
        t.ghosts, t.ghost_context = 0, 0
    while t.waiting > 0 and left > 0 and t.running < rules.max_num_seqs:
        if rules.gather > 0 and t.taking == 0:
            break
        if not idle and is_late(world, s):
            break
        place = _next_place(world, s)
        need, fits = _need_of(world, s, s.waiting[place], left)
        if not fits:
            t.taking = 0 if need > 0 else t.taking
            break
        t.taking -= 1 if rules.gather > 0 else 0
        r = s.waiting[place]
        _take_place(world, s, place)
        s.given[t.running - 1] = need
        seat = at(s.seats, chunks)
        seat.chunk, seat.chunk_tokens = r, need
        chunks += 1
        left -= need
        _take_room(world, s, r, need)
    return left, chunks


@kernel
def _take_place(world: World, s: State, place: int) -> None:
    """The request at a place of the ring goes from the waiting to the end of the running."""
    t, size = s.tally, world.rules.num_requests + 1
    r = s.waiting[place]
    mine = at(world.asked, r)
    while place != t.head:  # close the gap of one taken from the middle
        s.waiting[place] = s.waiting[(place - 1) % size]
        place = (place - 1) % size
    t.head = (t.head + 1) % size
    t.waiting -= 1
    if math.isnan(mine.started_s):
        mine.started_s = t.now_s
    s.running[t.running] = r
    t.running += 1
    t.prefilling += 1


@kernel
def _take_room(world: World, s: State, r: int, need: int) -> None:
    """The blocks of an admitted request, those found and those that this step fills."""
    t, rules, mine = s.tally, world.rules, at(world.asked, r)
    found, hits, more = _find_cached(world, s, r)
    mine.target = mine.prompt + mine.said
    mine.base, mine.blocks = found, 0
    tokens = mine.prompt + mine.output if rules.reserve_output else found + need
    if rules.hashed:
        t.free_rows -= 1
        mine.row = at(s.seats, t.free_rows).free_row
        ids, row = offset(world.ids, mine.first_id), table_row(world, s, r)
        mine.blocks = hits
        t.free -= blocks_share(s.pool, ids, row, hits)
        take_blocks(world, s, r, tokens)
        for place in range(hits, hits + more):
            host_put(s.host, ids[place])
            block_note(s.pool, ids[place], row[place])
        t.recalled += more * rules.block_tokens
    elif rules.reserve_output:
        t.free -= blocks_held(world, s, r)
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
