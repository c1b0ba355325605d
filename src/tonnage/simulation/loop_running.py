"""
What does one step give to the requests that run on a replica? Compiled: their blocks, who leaves, who is preempted.

Most steps follow one pattern: every decode gets a token, and the one unfinished prompt behind them what is left of the
budget. `schedule_together` books such a step without looking at each request. What breaks the pattern (too few blocks,
a budget that ends amid the decodes, cached blocks) goes through `schedule_in_turn`: the running requests one by
one, in the engine's order.

Two counters make the short way possible. `tally.step` counts the tokens of decode steps, one a step or, with drafts, as
many as are kept on average (`growth`: all sequences move alike, and what sets one apart from another is in its length,
`loop_state.paced_lengths`). A decoding request stores what it has computed *less* that counter (`base`), so that all
contexts grow when the counter does. `State.phase[p]` counts the decoding requests with base = p modulo the block size:
those at p = -step have filled their last block, and each needs one more. Both hold after every step for every request
(`leave` and `_note_decodes` keep them so). Blocks of drafts that are not kept are not counted.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

from tonnage.simulation.kernel import at, inline, kernel, offset
from tonnage.simulation.loop_state import LEAST, UNIT, WORST, Record, State, World
from tonnage.simulation.prefix_cache import block_take, blocks_free
from tonnage.simulation.simulated import Ints

RETRACT_STEPS = 20
"""SGLang makes room for so many steps when it retracts."""


@kernel
def goes_before(asked: Record, a: int, b: int) -> bool:
    """Whether request a goes before b: by priority, then by arrival."""
    if at(asked, a).priority != at(asked, b).priority:
        return at(asked, a).priority < at(asked, b).priority
    return a < b


@kernel
def table_row(world: World, s: State, r: int) -> Ints:
    """The blocks of a running request in order, where blocks have identity."""
    return offset(s.table, at(world.asked, r).row * world.rules.table_width)


@kernel
def blocks_held(world: World, s: State, r: int) -> int:
    """Blocks that a running request holds: noted where that varies, else counted from its tokens."""
    rules, mine = world.rules, at(world.asked, r)
    if rules.hashed:
        return mine.blocks
    if rules.reserve_output:
        return -(-(mine.prompt + mine.output) // rules.block_tokens)
    tokens = mine.base + s.tally.step if mine.decoding else mine.base
    return -(-tokens // rules.block_tokens)


@kernel
def growth(world: World, s: State) -> int:
    """Tokens by which every decode moves in the next decode step: the pace, its fractions carried over."""
    return (s.tally.carried + world.rules.pace) // UNIT


@kernel
def blocks_to_grow(world: World, s: State) -> int:
    """Blocks that all decodes together lack for the next decode step."""
    size, more = world.rules.block_tokens, 0
    for k in range(growth(world, s)):
        more += s.phase[-(s.tally.step + k) % size]
    return more


@kernel
def take_blocks(world: World, s: State, r: int, tokens: int) -> bool:
    """Gives a request blocks for so many tokens in all; False, and none, where not all of them are free."""
    rules, mine = world.rules, at(world.asked, r)
    if rules.reserve_output and not rules.hashed:
        return True
    held = blocks_held(world, s, r)
    more = -(-tokens // rules.block_tokens) - held
    if more <= 0:
        return True
    if more > s.tally.free:
        return False
    s.tally.free -= more
    if rules.hashed:
        row = table_row(world, s, r)
        for k in range(held, held + more):
            row[k] = block_take(s.pool)
    mine.blocks = held + more
    return True


@kernel
def leave(world: World, s: State, r: int) -> None:
    """Takes a running request out of the replica: its blocks, its share of the sums, its place."""
    t, rules, mine = s.tally, world.rules, at(world.asked, r)
    if rules.hashed:
        t.free += blocks_free(s.pool, table_row(world, s, r), mine.blocks)
        at(s.seats, t.free_rows).free_row = mine.row
        t.free_rows += 1
    else:
        t.free += blocks_held(world, s, r)
    if mine.decoding:
        s.phase[mine.base % rules.block_tokens] -= 1
        t.context -= mine.base + t.step + 1
        t.ends -= mine.end
        if mine.end == t.next_end:
            t.next_end = -1  # looked up again when it is asked for
    else:
        t.prefilling -= 1
    place = 0
    while s.running[place] != r:
        place += 1
    for k in range(place, t.running - 1):
        s.running[k] = s.running[k + 1]
        s.given[k] = s.given[k + 1]
    t.running -= 1


@kernel
def _preempt(world: World, s: State, r: int) -> None:
    """
    Back to the front of the waiting (a retracted request to their end).

    Everything is computed again, unless host memory has room for what was.
    """
    t, rules, mine = s.tally, world.rules, at(world.asked, r)
    if rules.swaps:
        tokens = mine.base + t.step if mine.decoding else mine.base
        blocks = -(-tokens // rules.block_tokens)
        if blocks <= t.host_free:
            t.host_free -= blocks
            t.stored += tokens
            mine.swapped = tokens
    if mine.decoding:
        mine.said = mine.output - (mine.end - t.step)
        mine.paused_s = t.emitted_s
    leave(world, s, r)
    mine.base, mine.decoding, mine.blocks = 0, 0, 0
    mine.preempted += 1
    t.preempted += 1
    size = rules.num_requests + 1  # of the ring of the waiting
    if rules.victim == LEAST:
        s.waiting[(t.head + t.waiting) % size] = r
    else:
        t.head = (t.head - 1) % size
        s.waiting[t.head] = r
    t.waiting += 1


@kernel
def _victim(world: World, s: State) -> int:
    """Place among the running of the request to preempt: of the decodes who have said least, if any, else the last."""
    t, asked, rules = s.tally, world.asked, world.rules
    worst = t.running - 1
    if rules.victim == WORST:
        for k in range(t.running):
            if goes_before(asked, s.running[worst], s.running[k]):
                worst = k
    elif rules.victim == LEAST:
        worst = -1
        for k in range(t.running):
            r = s.running[k]
            if not at(asked, r).decoding:
                continue
            if worst < 0:
                worst = k
                continue
            w = s.running[worst]
            # Tokens said so far are output - (end - step): the counter is the same for both.
            mine, others = at(asked, r).output - at(asked, r).end, at(asked, w).output - at(asked, w).end
            if mine < others or (mine == others and at(asked, r).prompt > at(asked, w).prompt):
                worst = k
        if worst < 0:
            worst = t.running - 1
    return worst


@kernel
def schedule_together(world: World, s: State) -> tuple[int, int]:
    """
    All decodes and the one unfinished prompt behind them, without looking at each decode.

    Returns the budget that is left [tokens] and the prompts in the step, or (-1, 0) and nothing taken where the
    requests have to be looked at in turn.
    """
    t, rules = s.tally, world.rules
    decoding = t.running - t.prefilling
    left, chunks, need = rules.budget - decoding * (1 + rules.speculative), 0, 0
    if rules.hashed or t.prefilling > 1 or left < 0:
        return -1, 0
    more = 0 if rules.reserve_output else blocks_to_grow(world, s)
    if t.prefilling == 1:
        # Who joined last is last; a prompt in front of a decode would have the first claim on budget and blocks.
        r = s.running[t.running - 1]
        mine = at(world.asked, r)
        if mine.decoding or left == 0:
            return -1, 0
        need = min(mine.target - mine.base, left)
        if rules.threshold > 0:
            need = min(need, rules.threshold)
        if not rules.reserve_output:
            size = rules.block_tokens
            more += -(-(mine.base + need) // size) - (-(-mine.base // size))
        seat = at(s.seats, 0)
        seat.chunk, seat.chunk_tokens = r, need
        chunks = 1
    if more > t.free:
        return -1, 0
    t.free -= more
    return left - need, chunks


@kernel
def schedule_in_turn(world: World, s: State, decode: bool) -> tuple[int, int, bool]:
    """
    The running requests one by one, as vLLM's scheduler walks them; without `decode`, unfinished prompts only.

    Each takes its tokens off the budget and its blocks off the free ones. Who finds no block has others preempted until
    there is one; if the victim is the request itself, the walk ends there, and nobody behind it gets anything. At every
    turn the requests before place i have what they get in this step (`given`).

    Returns the budget that is left [tokens], prompts in the step, and whether someone was preempted.
    """
    t, rules = s.tally, world.rules
    for k in range(t.running):
        s.given[k] = 0
    left, i, preempted = rules.budget, 0, False
    if decode and rules.victim == LEAST and not rules.reserve_output:
        preempted = _retract(world, s)
    while i < t.running and left > 0:
        r = s.running[i]
        mine = at(world.asked, r)
        if mine.decoding == 1 and not decode:
            i += 1
            continue
        done = mine.base + t.step if mine.decoding == 1 else mine.base
        need = 1 + rules.speculative if mine.decoding == 1 else mine.target - done
        if rules.threshold > 0:
            need = min(need, rules.threshold)
        need = min(need, left)
        tokens = done + (growth(world, s) if mine.decoding == 1 else need)
        if not take_blocks(world, s, r, tokens):
            preempted = True
            i, back, stays = _make_room(world, s, i, tokens)
            left += back
            if not stays:
                break
        s.given[i] = need
        left -= need
        i += 1
    for k in range(i, t.running):
        s.given[k] = 0
    return left, _note_chunks(world, s), preempted


@inline
def _retract(world: World, s: State) -> bool:
    """
    SGLang looks ahead: where the next decode step lacks blocks, those who have said least go until there are blocks for
    twenty steps.

    The share of remaining output that admission keeps room for (`ratio`) is set anew from those who stay. Returns
    whether someone went.
    """
    t, rules, asked, before = s.tally, world.rules, world.asked, s.tally.preempted
    if blocks_to_grow(world, s) <= t.free:
        return False
    while t.running - t.prefilling > 1 and t.free * rules.block_tokens < RETRACT_STEPS * (t.running - t.prefilling):
        _preempt(world, s, s.running[_victim(world, s)])
    said, whole = 0, 0
    for k in range(t.running):
        mine = at(asked, s.running[k])
        whole += mine.output
        if mine.decoding:
            said += mine.output - (mine.end - t.step)
    t.ratio = min(1.0, (said + RETRACT_STEPS * t.running) / (whole + 1.0))
    return t.preempted > before


@inline
def _make_room(world: World, s: State, i: int, tokens: int) -> tuple[int, int, bool]:
    """
    Preempts until the request at place i has blocks for so many tokens, or is itself the victim.

    Returns its place now (one less for each victim before it), tokens of the budget that victims give back, and whether
    it still runs.
    """
    r, back = s.running[i], 0
    while not take_blocks(world, s, r, tokens):
        k = _victim(world, s)
        victim = s.running[k]
        if k < i:  # it has had its turn
            if s.given[k] > 0:
                back += s.given[k]
                _return_blocks(world, s, victim, s.given[k])
            i -= 1
        _preempt(world, s, victim)
        if victim == r:
            return i, back, False
    return i, back, True


@inline
def _return_blocks(world: World, s: State, r: int, given: int) -> None:
    """The blocks that this step gave to a request, where blocks are counted from the tokens computed."""
    rules, mine = world.rules, at(world.asked, r)
    if rules.hashed:
        return  # noted with the request: `leave` returns them
    tokens = mine.base + s.tally.step + growth(world, s) if mine.decoding else mine.base + given
    s.tally.free += -(-tokens // rules.block_tokens) - blocks_held(world, s, r)


@inline
def _note_chunks(world: World, s: State) -> int:
    """Lists the prompts of this step with their tokens; how many they are."""
    chunks = 0
    for k in range(s.tally.running):
        if not at(world.asked, s.running[k]).decoding and s.given[k] > 0:
            seat = at(s.seats, chunks)
            seat.chunk, seat.chunk_tokens = s.running[k], s.given[k]
            chunks += 1
    return chunks
