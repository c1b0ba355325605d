"""The requests that run on a replica, compiled: their blocks, who leaves, who is preempted, what a step gives each.

A mixed step takes all decodes and the prompt behind them without looking at each (`plain`); only what
breaks the pattern (too few blocks, a budget that ends amid the decodes, drafts, cached blocks) walks the
running requests one by one, in the engine's order (`walk`).
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

from tonnage.engine.kernel import kernel
from tonnage.engine.loop_state import LEAST, WORST, Record, State, World
from tonnage.engine.prefix_cache import block_take, blocks_free

__all__ = ["before", "blocks_of", "leave", "plain", "slot_of", "take_blocks", "walk"]

RETRACT_STEPS = 20
"""SGLang makes room for so many steps when it retracts."""


@kernel
def before(asked: Record, a: int, b: int) -> bool:
    """Whether a goes before b by priority, then by arrival."""
    if asked[a].priority != asked[b].priority:
        return asked[a].priority < asked[b].priority
    return a < b


@kernel
def blocks_of(world: World, s: State, r: int) -> int:
    """Blocks that a running request holds."""
    rules, mine = world.rules, world.asked[r]
    if rules.hashed:
        return mine.blocks
    if rules.reserve_output:
        return -(-(mine.prompt + mine.output) // rules.block_tokens)
    if rules.speculative > 0:
        return mine.blocks
    tokens = mine.base + s.tally[0].step if mine.decoding else mine.base
    return -(-tokens // rules.block_tokens)


@kernel
def take_blocks(world: World, s: State, r: int, tokens: int) -> bool:
    """Gives a request blocks for so many tokens in all, if they are free."""
    rules, mine = world.rules, world.asked[r]
    if rules.reserve_output and not rules.hashed:
        return True
    held = blocks_of(world, s, r)
    more = -(-tokens // rules.block_tokens) - held
    if more <= 0:
        return True
    if more > s.tally[0].free:
        return False
    s.tally[0].free -= more
    if rules.hashed:
        for k in range(held, held + more):
            s.table[mine.row, k] = block_take(s.pool)
    mine.blocks = held + more
    return True


@kernel
def slot_of(s: State, adapter: int) -> int:
    """Where an adapter is, or the slot it can have: unused for longest; -1 = all are in use."""
    found = -1
    for k in range(len(s.slots)):
        if s.slots[k].adapter == adapter:
            return k
        if s.slots[k].users == 0 and (found < 0 or s.slots[k].used < s.slots[found].used):
            found = k
    return found


@kernel
def leave(world: World, s: State, r: int) -> None:
    """Takes a running request out of the replica: its place, its blocks, its share of the sums."""
    t, rules, mine = s.tally[0], world.rules, world.asked[r]
    if rules.hashed:
        t.free += blocks_free(s.pool, s.table[mine.row], mine.blocks)
        s.seats[t.free_rows].free_row = mine.row
        t.free_rows += 1
    else:
        t.free += blocks_of(world, s, r)
    if rules.max_loras > 0 and mine.adapter > 0:
        k = slot_of(s, mine.adapter)
        t.uses += 1
        s.slots[k].users -= 1
        s.slots[k].used = t.uses
    if mine.decoding:
        s.phase[mine.base % rules.block_tokens] -= 1
        t.context -= mine.base + t.step + 1
        t.ends -= mine.end
        if mine.end == t.next_end:
            t.next_end = -1
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
    t, rules, mine = s.tally[0], world.rules, world.asked[r]
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
    size = len(s.waiting)
    if rules.victim == LEAST:
        s.waiting[(t.head + t.waiting) % size] = r
    else:
        t.head = (t.head - 1) % size
        s.waiting[t.head] = r
    t.waiting += 1


@kernel
def _victim(world: World, s: State) -> int:
    """Place among the running of the request to preempt."""
    t, asked, rules = s.tally[0], world.asked, world.rules
    worst = t.running - 1
    if rules.victim == WORST:
        for k in range(t.running):
            if before(asked, s.running[worst], s.running[k]):
                worst = k
    elif rules.victim == LEAST:
        worst = -1
        for k in range(t.running):
            r = s.running[k]
            if not asked[r].decoding:
                continue
            if worst < 0:
                worst = k
                continue
            w = s.running[worst]
            mine, others = asked[r].output - asked[r].end, asked[w].output - asked[w].end
            if mine < others or (mine == others and asked[r].prompt > asked[w].prompt):
                worst = k
    return worst


@kernel
def walk(world: World, s: State, decode: bool) -> tuple[int, int, bool]:
    """
    The running requests one by one, as vLLM's scheduler walks them; without `decode`, unfinished prompts only.

    Returns the budget that is left, prompts in the step, and whether someone was preempted.
    """
    t, rules, asked = s.tally[0], world.rules, world.asked
    left, chunks, preempted = rules.budget, 0, False
    extra, size = rules.speculative, rules.block_tokens
    for k in range(t.running):
        s.given[k] = 0
    i, stop = 0, False
    retract = decode and rules.victim == LEAST and not rules.reserve_output and s.phase[(-t.step) % size] > t.free
    retracted = retract
    while i < t.running and left > 0 and not stop:
        retract = retract and t.running > 1 and t.free * size < RETRACT_STEPS * t.running
        r = s.running[i]
        decoding = asked[r].decoding == 1
        if decoding and not decode:
            i += 1
            continue
        done = asked[r].base + t.step if decoding else asked[r].base
        need = 1 + extra if decoding else asked[r].target - done
        if rules.threshold > 0:
            need = min(need, rules.threshold)
        need = min(need, left)
        while retract or not take_blocks(world, s, r, done + need):
            k = _victim(world, s)
            victim = s.running[k]
            back = s.given[k] if k < i else 0
            if back > 0:
                left += back
                _return_blocks(world, s, victim, back)
            _preempt(world, s, victim)
            preempted = True
            if retract:
                break
            if k < i:
                i -= 1
            if victim == r:
                stop = True
                break
        if not stop and not retract:
            s.given[i] = need
            left -= need
            i += 1
    if retracted:
        said, whole = 0, 0
        for k in range(t.running):
            r = s.running[k]
            whole += asked[r].output
            said += asked[r].output - (asked[r].end - t.step)
        t.ratio = min(1.0, (said + RETRACT_STEPS * t.running) / (whole + 1.0))
    for k in range(i, t.running):
        s.given[k] = 0
    for k in range(t.running):
        if not asked[s.running[k]].decoding and s.given[k] > 0:
            s.seats[chunks].chunk, s.seats[chunks].chunk_tokens = s.running[k], s.given[k]
            chunks += 1
    return left, chunks, preempted


@kernel
def _return_blocks(world: World, s: State, r: int, given: int) -> None:
    """The blocks that this step gave to a request, where blocks are counted from the tokens computed."""
    rules, mine = world.rules, world.asked[r]
    if rules.hashed or rules.speculative > 0:
        return
    tokens = mine.base + s.tally[0].step + 1 if mine.decoding else mine.base + given
    s.tally[0].free += -(-tokens // rules.block_tokens) - blocks_of(world, s, r)


@kernel
def plain(world: World, s: State) -> tuple[int, int]:
    """All decodes and the one unfinished prompt behind them, without a walk; budget left, or -1 where a walk is due."""
    t, rules = s.tally[0], world.rules
    decoding = t.running - t.prefilling
    if rules.speculative > 0 or rules.hashed or t.prefilling > 1 or decoding > rules.budget:
        return -1, 0
    more = 0 if rules.reserve_output else s.phase[(-t.step) % rules.block_tokens]
    left, chunks, need = rules.budget - decoding, 0, 0
    if t.prefilling == 1:
        r = s.running[t.running - 1]
        mine = world.asked[r]
        if mine.decoding or left == 0:
            return -1, 0
        need = min(mine.target - mine.base, left)
        if rules.threshold > 0:
            need = min(need, rules.threshold)
        if not rules.reserve_output:
            size = rules.block_tokens
            more += -(-(mine.base + need) // size) - (-(-mine.base // size))
        s.seats[0].chunk, s.seats[0].chunk_tokens = r, need
        chunks = 1
    if more > t.free:
        return -1, 0
    t.free -= more
    return left - need, chunks
