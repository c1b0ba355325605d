"""The steps of one replica, compiled: iteration-exact continuous batching with jumps over runs of decode steps.

While nobody joins or leaves, every running request gains as many tokens a step as any other. Its context, its blocks
and the step at which it ends therefore follow from one counter, and a step costs a few arithmetic
operations whatever the batch: times are added one step after the other, in the order in which the
plain twin (tests/reference_loop.py) adds them, so both agree to the last bit. Blocks are counted by phase: of the
sequences whose context is a multiple of the block size, each needs one more.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

import math

from tonnage.simulation.kernel import at, inline, kernel
from tonnage.simulation.loop_running import growth, leave, schedule_in_turn, schedule_together, table_row
from tonnage.simulation.loop_state import FOREVER, GAP_BINS, GAP_LEAST, GAP_RATIO, STALLS, UNIT, State, World
from tonnage.simulation.loop_waiting import admit, due_s, is_late, is_open, may_admit
from tonnage.simulation.prefix_cache import block_note, host_put
from tonnage.simulation.simulated import Ints


@kernel
def advance(world: World, s: State, until: float, one: bool, most: int) -> None:
    """
    Every step that begins before `until`, in at most so many rounds; with `one`, to the first end of a request.

    A run of steps is never cut, so that what a run tells does not depend on how it is divided.
    """
    t, rules = s.tally, world.rules
    ended, last = t.finished, t.rounds + most
    while t.now_s < until and t.running + t.waiting > 0 and t.rounds < last:
        steps, preempted = t.steps, t.preempted
        alone = t.prefilling == 0 and 0 < t.running * (1 + rules.speculative) <= rules.budget
        if alone and t.taking == 0 and t.recalled + t.stored == 0 and not may_admit(world, s):
            _run(world, s, until)
        if t.steps == steps:
            _step(world, s)
        _retire(world, s)
        if one and t.finished > ended:
            return
        if t.steps == steps and t.preempted == preempted:
            if rules.gather > 0 and t.running == 0 and not is_open(world, s):
                t.now_s = min(until, due_s(world, s))  # the batch is still being gathered
                continue
            return  # nobody fits and nobody can make room; requests that never fit do not get here


@kernel
def _step(world: World, s: State) -> None:
    """
    One step in the engine's order: running requests, then waiting ones, then what they cost and say.

    Where prompts come first (not mixed), the first try is a step of prompts alone, and only if there are none a second
    one of decodes alone. Who was preempted in this step made room for others who run: nobody is admitted then. The loop
    has each part called from one place, for the compiler copies a function to every place that calls it.
    """
    mixed, t = world.rules.mixed, s.tally
    t.rounds += 1
    for attempt in range(2):
        decode = mixed or attempt == 1
        left, chunks, preempted, in_turn = world.rules.budget, 0, False, not decode and t.prefilling > 0
        if decode:
            left, chunks = schedule_together(world, s)
            in_turn = left < 0
        if in_turn:
            left, chunks, preempted = schedule_in_turn(world, s, decode)
        if attempt == 0 and not preempted:
            left, chunks = admit(world, s, left, chunks)
        if decode or chunks > 0:
            _finish(world, s, chunks, decode, in_turn and decode)
            return


@kernel
def _finish(world: World, s: State, chunks: int, decoded: bool, in_turn: bool) -> None:
    """
    Prices the step that `given` and `chunk` describe, lets it pass, and books what was said.

    decoded: decodes are part of the step. in_turn: they were looked at one by one, and some may have got nothing.
    """
    rules, t = world.rules, s.tally
    decodes, drafted, context, ghosts = 0, 0, 0, 0
    if decoded:
        decodes, context, ghosts = t.running - t.prefilling, t.context + t.ghost_context, t.ghosts
        drafted = decodes * (1 + rules.speculative)
    if in_turn:
        decodes, drafted, context = _given_decodes(world, s)
    if drafted == 0 and chunks == 0:
        return
    batch = decodes + ghosts
    last, whole = _last_tokens(world, s, chunks), batch + chunks
    if chunks == 0 or (last >= 0 and drafted == decodes):
        # Prompts whose cache lacks their last token alone are rows as decodes are, in the same captured step.
        busy = at(world.by_batch, whole).decode_s + at(world.by_batch, whole).context_s * (context + last)
    else:
        busy = _mixed_s(world, s, chunks, drafted, ghosts)
        if batch > 0:
            seen = context * rules.mixed_attention
            busy += at(world.by_batch, batch).attend_s + at(world.by_batch, batch).context_s * seen
    host = rules.host_s + rules.host_sequence_s * batch + rules.host_prompt_s * chunks
    # While the accelerator works, the host prepares the next step (hidden_s) and the cache moves to and fro.
    taken = max(busy, rules.hidden_s, rules.recall_token_s * max(t.recalled, t.stored)) + host
    t.recalled_all += t.recalled
    t.recalled, t.stored = 0, 0
    t.began_s = t.now_s
    t.now_s += taken
    t.busy_s += taken
    t.host_s += taken - busy
    t.steps += 1
    if chunks > 0:
        t.prompts_s += taken
    if t.waiting > 0:
        if t.running >= rules.max_num_seqs:
            t.seats_s += taken
        else:
            t.kv_s += taken
    if decoded:
        _note_decodes(world, s, decodes, in_turn)
    _note_prompts(world, s, chunks)


@inline
def _last_tokens(world: World, s: State, chunks: int) -> int:
    """Tokens that the prompts of a step attend to where each computes a single one, 0 without prompts; -1 otherwise."""
    attended = 0
    for k in range(chunks):
        if at(s.seats, k).chunk_tokens != 1:
            return -1
        attended += at(world.asked, at(s.seats, k).chunk).base + 1
    return attended


@inline
def _given_decodes(world: World, s: State) -> tuple[int, int, int]:
    """Decodes that got something, their rows (drafts included), and the context that they and ghosts attend to."""
    t, rows = s.tally, 0
    decodes, context = t.running - t.prefilling, t.context + t.ghost_context
    for k in range(t.running):
        mine = at(world.asked, s.running[k])
        if mine.decoding:
            rows += s.given[k]
            if s.given[k] == 0:
                decodes -= 1
                context -= mine.base + t.step + 1
    return decodes, rows, context


@inline
def _mixed_s(world: World, s: State, chunks: int, drafted: int, ghosts: int) -> float:
    """
    The accelerator's time for a step that carries prompts, attention of its decodes apart. [s]

    Data-parallel ranks end together. Products and prompt attention are therefore priced for the rank that got most of
    the prompts, `full` times an even share; decodes are taken as evenly spread. The head sees only the rows that say a
    token: decodes with their drafts, and prompts that this step completes.
    """
    rules = world.rules
    rows, completing, attended = drafted, 0, 0.0
    for k in range(chunks):
        mine, q = at(world.asked, at(s.seats, k).chunk), at(s.seats, k).chunk_tokens
        rows += q
        completing += 1 if mine.base + q == mine.target else 0
        # Token i of the piece attends to base + i tokens: to base + q/2 on average.
        attended += q * (rules.chunk_token_s + rules.chunk_square_s * (mine.base + q / 2.0))
    emitted_s = at(world.by_rows, drafted + completing).head_s
    full = min(rules.ranks, max(rules.ranks / chunks, 1.0 + rules.uneven / math.sqrt(chunks)))
    fullest = min(rows + int((rows - drafted) * (full - 1.0)) + ghosts, rules.num_rows - 1)
    return at(world.by_rows, fullest).mixed_s + emitted_s + rules.chunk_s + attended * full


@kernel
def _note_decodes(world: World, s: State, decodes: int, in_turn: bool) -> None:
    """Every decode that was given tokens moves on; the others fall one step behind the counter."""
    asked, t, rules = world.asked, s.tally, world.rules
    size, grown = rules.block_tokens, growth(world, s)
    for k in range(t.stalled):
        _note_gaps(s.gaps, t.now_s - s.stalls[k], t.now_s - s.stalls[k], 1)
    _note_gaps(s.gaps, t.now_s - t.emitted_s, t.now_s - t.emitted_s, decodes - t.stalled)
    t.stalled = 0
    t.emitted_s = t.now_s
    t.ratio = max(rules.ratio_least, t.ratio - rules.ratio_decay)
    for k in range(t.running if in_turn and rules.hashed else 0):
        mine = at(asked, s.running[k])
        if mine.decoding and s.given[k] > 0:
            # What an answer filled is noted when the next block is taken.
            done = mine.base + t.step
            for full in range(-(-done // size), -(-(done + grown) // size)):
                _note_block(world, s, s.running[k], full - 1)
    t.step += grown
    t.carried += rules.pace - grown * UNIT
    t.context += grown * (t.running - t.prefilling)
    t.ghost_context += grown * t.ghosts
    t.tokens += grown * decodes
    for k in range(t.running if in_turn else 0):
        mine = at(asked, s.running[k])
        if mine.decoding and s.given[k] == 0:
            s.phase[mine.base % size] -= 1
            mine.base -= grown
            s.phase[mine.base % size] += 1
            mine.end += grown
            t.ends += grown
            t.context -= grown
            t.next_end = -1


@kernel
def _note_prompts(world: World, s: State, chunks: int) -> None:
    """Prompts move on; those that are whole say their next token and decode from then on."""
    t, rules = s.tally, world.rules
    for k in range(chunks):
        r, q = at(s.seats, k).chunk, at(s.seats, k).chunk_tokens
        mine = at(world.asked, r)
        first = mine.base // rules.block_tokens
        mine.base += q
        t.prompt += q
        if rules.hashed:
            _note_blocks(world, s, r, first)
        if mine.base < mine.target:
            continue
        mine.said += 1
        t.tokens += 1
        if math.isnan(mine.first_s):
            mine.first_s = t.now_s
        elif not math.isnan(mine.paused_s):
            _note_gaps(s.gaps, t.now_s - mine.paused_s, t.now_s - mine.paused_s, 1)
        if not rules.mixed and t.stalled < STALLS:
            s.stalls[t.stalled] = t.now_s
            t.stalled += 1
        mine.decoding = 1
        mine.base -= t.step
        mine.end = t.step + mine.output - mine.said
        s.phase[mine.base % rules.block_tokens] += 1
        t.prefilling -= 1
        t.context += mine.target + 1
        t.ends += mine.end
        if t.next_end >= 0:
            t.next_end = min(t.next_end, mine.end)


@inline
def _note_blocks(world: World, s: State, r: int, first: int) -> None:
    """Blocks of a prompt that have become full."""
    for place in range(first, at(world.asked, r).base // world.rules.block_tokens):
        _note_block(world, s, r, place)


@kernel
def _note_block(world: World, s: State, r: int, place: int) -> None:
    """A full block can be found from now on, in host memory too."""
    mine = at(world.asked, r)
    if place < mine.end_id - mine.first_id:
        name = world.ids[mine.first_id + place]
        block_note(s.pool, name, table_row(world, s, r)[place])
        if world.rules.host_blocks > 0 and host_put(s.host, name):
            s.tally.stored += world.rules.block_tokens


@kernel
def _next_end(world: World, s: State) -> int:
    """The step counter at which the first running request ends."""
    t = s.tally
    if t.next_end < 0:
        soonest = FOREVER
        for k in range(t.running):
            mine = at(world.asked, s.running[k])
            if mine.decoding:
                soonest = min(soonest, mine.end)
        t.next_end = soonest
    return t.next_end


@kernel
def _retire(world: World, s: State) -> None:
    """Those who have said all leave; in a batch that ends together their seats are computed on."""
    t = s.tally
    if _next_end(world, s) > t.step:
        return
    k = 0
    while k < t.running:
        r = s.running[k]
        mine = at(world.asked, r)
        if mine.decoding and mine.end <= t.step:
            mine.last_s = t.now_s
            mine.said = mine.output
            at(s.seats, t.finished % world.rules.max_num_seqs).ended = r
            t.finished += 1
            if world.rules.gather > 0:
                t.ghosts += 1
                t.ghost_context += mine.base + t.step + 1
            leave(world, s, r)
        else:
            k += 1
    t.next_end = -1


@kernel
def _run(world: World, s: State, until: float) -> None:
    """Decode steps in which nobody joins or leaves, up to the first end, the last free block, or `until`."""
    rules, t = world.rules, s.tally
    batch, size, ghosts = t.running, rules.block_tokens, t.ghosts
    seats = batch + ghosts
    left, steps = _next_end(world, s) - t.step, FOREVER
    if rules.ratio > 0.0 and t.waiting > 0 and batch < rules.max_num_seqs:
        steps = 1  # the room that admission keeps shrinks with every step
    if is_late(world, s):
        steps = 1  # the one that was prepared before it came
    fixed, slope = at(world.by_batch, seats).decode_s, at(world.by_batch, seats).context_s
    host, hidden = rules.host_s + rules.host_sequence_s * seats, rules.hidden_s
    counted, exact = rules.hashed or not rules.reserve_output, rules.hashed
    now, context, free, phase = t.now_s, t.context + t.ghost_context, t.free, (-t.step) % size
    began, waited = now, now - t.emitted_s
    first, taken, busy_sum, k, grown, carried = 0.0, 0.0, 0.0, 0, 0, t.carried
    while grown < left and k < steps and now < until:
        moved, more, place = (carried + rules.pace) // UNIT, 0, phase
        for _ in range(moved):
            more += s.phase[place] if counted else 0
            place = place - 1 if place > 0 else size - 1
        if more > free or (exact and more > 0):
            break
        free, phase = free - more, place
        carried += rules.pace - moved * UNIT
        grown += moved
        busy = fixed + slope * context
        taken = max(busy, hidden) + host
        if k == 0:
            first = taken
        t.began_s = now
        now += taken
        busy_sum += busy
        context += moved * seats
        k += 1
    t.now_s, t.free, t.carried = now, free, carried
    t.context += grown * batch
    t.ghost_context += grown * ghosts
    t.step += grown
    t.steps += k
    t.rounds += 1
    t.busy_s += now - began
    t.host_s += now - began - busy_sum
    t.ratio = max(rules.ratio_least, t.ratio - k * rules.ratio_decay)
    t.tokens += grown * batch
    if t.waiting > 0:
        if batch >= rules.max_num_seqs:
            t.seats_s += now - began
        else:
            t.kv_s += now - began
    if k > 0:
        for j in range(t.stalled):
            _note_gaps(s.gaps, began - s.stalls[j] + first, began - s.stalls[j] + first, 1)
        _note_gaps(s.gaps, waited + first, waited + first, batch - t.stalled)
        _note_gaps(s.gaps, first, taken, (k - 1) * batch)
        t.stalled = 0
        t.emitted_s = now


@kernel
def _note_gaps(gaps: Ints, shortest: float, longest: float, weight: int) -> None:
    """Counts `weight` gaps spread evenly between two lengths, in bins of one per cent; gaps of no length not at all."""
    if longest <= 0.0 or weight <= 0:
        return
    shortest = max(shortest, GAP_LEAST)
    longest = max(longest, shortest)
    pieces = min(weight, 1 + int(math.log(longest / shortest) / GAP_RATIO))
    for i in range(pieces):
        length = shortest + (longest - shortest) * (i + 0.5) / pieces
        place = int(math.log(length / GAP_LEAST) / GAP_RATIO)
        gaps[min(max(place, 0), GAP_BINS - 1)] += weight // pieces + (1 if i < weight % pieces else 0)
