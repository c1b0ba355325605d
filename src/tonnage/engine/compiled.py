"""The serving loop, compiled: iteration-exact continuous batching with jumps over runs of decode steps.

While nobody joins or leaves, every running request gains a token a step. Its context, its blocks and
the step at which it ends therefore follow from one step counter, and a step costs a few arithmetic
operations whatever the batch: times are added one step after the other, in the order in which the
plain twin (`reference`) adds them, so both agree to the last bit. Blocks are counted by phase: of the
sequences whose context is a multiple of the block size, each needs one more.

A mixed step takes all decodes and the prompts behind them without looking at each; only what breaks
the pattern (too few blocks, a budget that ends amid the decodes, drafts, cached blocks) walks the
running requests one by one, in the engine's order (`_walk`).

Imported by the function that simulates, because numba takes half a second to load.
"""

# mypy: disable-error-code="no-any-return"
# Elements of arrays are Any to the type checker; numba knows better.

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tonnage.engine import kernel as kernel_module
from tonnage.engine import prefix_cache
from tonnage.engine.kernel import door, kernel, stamp_of
from tonnage.engine.loop_state import (
    ARRIVED,
    BUSY,
    CHECK,
    COLD,
    COLD_S,
    CONTEXT,
    DRAINS,
    EMITTED,
    ENDS,
    FEWEST,
    FINISHED,
    FOREVER,
    FREE,
    GAP_BINS,
    GAP_LEAST,
    GAP_RATIO,
    GHOST_CONTEXT,
    GHOSTS,
    HEAD,
    HIT,
    HOST,
    INTERVAL,
    KEEP_S,
    KV,
    LEAST,
    LEAST_LOADED,
    LOW_SINCE,
    MOST,
    NEXT,
    NOW,
    PAID,
    PREEMPTED,
    PREFILLING,
    PROMPT,
    PROMPTS,
    RATIO,
    READY,
    ROUNDS,
    RUNNING,
    SAMPLED,
    SEATS,
    SINCE,
    STEP,
    STEPS,
    TAKING,
    TARGET,
    TOKENS,
    TURN,
    WAITING,
    WORST,
    Script,
    State,
    World,
)  # fmt: skip
from tonnage.engine.prefix_cache import Pool, block_note, block_take, blocks_free, blocks_hit, blocks_share
from tonnage.engine.simulated import Floats, Ints, Requests

__all__ = ["play"]

RETRACT_STEPS = 20
"""SGLang makes room for so many steps when it retracts."""
CLIP_TOKENS = 4096
"""SGLang counts no more of an answer when it admits."""


@kernel
def _blocks(world: World, count: Ints, r: int) -> int:
    """Blocks that a running request holds."""
    book, limits = world.book, world.limits
    if limits.reserve_output:
        return -(-(world.requests.prompt[r] + world.requests.output[r]) // limits.block_tokens)
    if limits.speculative > 0 or len(world.requests.offsets) > 1:
        return book.blocks[r]
    tokens = book.base[r] + count[STEP] if book.decoding[r] else book.base[r]
    return -(-tokens // limits.block_tokens)


@kernel
def _note_gaps(gaps: Ints, shortest: float, longest: float, weight: int) -> None:
    """Counts `weight` gaps spread evenly between two lengths."""
    if longest <= 0.0 or weight <= 0:
        return
    shortest = max(shortest, GAP_LEAST)
    longest = max(longest, shortest)
    pieces = min(weight, 1 + int(math.log(longest / shortest) / GAP_RATIO))
    for i in range(pieces):
        length = shortest + (longest - shortest) * (i + 0.5) / pieces
        place = int(math.log(length / GAP_LEAST) / GAP_RATIO)
        gaps[min(max(place, 0), GAP_BINS - 1)] += weight // pieces + (1 if i < weight % pieces else 0)


@kernel
def _head(world: World, s: State) -> int:
    """Place in the ring of the request that is admitted next."""
    count, size = s.tally, len(s.waiting)
    if not world.limits.ranked:
        return count[HEAD]
    best = count[HEAD]
    for k in range(1, count[WAITING]):
        at = (count[HEAD] + k) % size
        if _before(world.requests, s.waiting[at], s.waiting[best]):
            best = at
    return best


@kernel
def _before(requests: Requests, a: int, b: int) -> bool:
    """Whether a goes before b by priority, then by arrival."""
    if requests.priority[a] != requests.priority[b]:
        return requests.priority[a] < requests.priority[b]
    return a < b


@kernel
def _need_of(world: World, s: State, r: int, left: int) -> tuple[int, int, bool]:
    """Tokens that a waiting request would get of `left`, what it finds cached, and whether it is admitted."""
    limits, requests, book, count = world.limits, world.requests, world.book, s.tally
    target = requests.prompt[r] + book.said[r]
    size = limits.block_tokens
    unused = 0
    if len(requests.offsets) > 1:
        hits, unused = blocks_hit(requests, s.pool, r, (target - 1) // size)
        found = hits * size
    else:
        found = min(requests.cached[r], target - 1) if book.preempted[r] == 0 or limits.cached_again else 0
        hits = 0
    need = target - found
    if limits.threshold > 0:
        need = min(need, limits.threshold)
    if need > left and not limits.chunked:
        return 0, found, False
    need = min(need, left)
    if limits.reserve_output:
        wanted = -(-(requests.prompt[r] + requests.output[r]) // size)
    elif limits.whole_prompt or not limits.mixed:
        wanted = -(-target // size) - hits
    else:
        wanted = -(-(found + need) // size) - hits
    fits = wanted <= count[FREE] - unused - limits.watermark
    if fits and limits.ratio > 0.0:
        decoding = count[RUNNING] - count[PREFILLING]
        remaining = count[ENDS] - decoding * count[STEP]
        room = target + min(requests.output[r] - book.said[r], CLIP_TOKENS) + s.clock[RATIO] * remaining
        fits = count[RUNNING] == 0 or room <= count[FREE] * size
    return need, found, fits


@kernel
def _due_s(world: World, s: State) -> float:
    """When the batch that is being gathered starts, full or not."""
    return world.book.entered_s[s.waiting[s.tally[HEAD]]] + world.limits.gather_s


@kernel
def _open(world: World, s: State) -> bool:
    """Whether waiting requests may join: always, or only while a batch that starts together is filled."""
    count, limits = s.tally, world.limits
    if limits.gather == 0 or count[TAKING] > 0:
        return True
    if count[RUNNING] > 0 or count[WAITING] == 0:
        return False
    return count[WAITING] >= limits.gather or s.clock[NOW] >= _due_s(world, s)


@kernel
def _may_admit(world: World, s: State) -> bool:
    """Whether the next step would take someone in, before its decodes have taken their blocks."""
    count, limits = s.tally, world.limits
    if count[WAITING] == 0 or count[RUNNING] >= limits.max_num_seqs or not _open(world, s):
        return False
    left = limits.budget - (count[RUNNING] if limits.mixed else 0)
    if left <= 0:
        return False
    return _need_of(world, s, s.waiting[_head(world, s)], left)[2]


@kernel
def _leave(world: World, s: State, r: int) -> None:
    """Takes a running request out of the replica: its place, its blocks, its share of the sums."""
    book, count, size = world.book, s.tally, world.limits.block_tokens
    if len(world.requests.offsets) > 1:
        count[FREE] += blocks_free(s.table, s.pool, book.row[r], book.blocks[r])
        s.rows[s.rows[-1]] = book.row[r]
        s.rows[-1] += 1
    else:
        count[FREE] += _blocks(world, count, r)
    if book.decoding[r]:
        s.phase[book.base[r] % size] -= 1
        count[CONTEXT] -= book.base[r] + count[STEP] + 1
        count[ENDS] -= book.end[r]
        if book.end[r] == count[NEXT]:
            count[NEXT] = -1
    else:
        count[PREFILLING] -= 1
    place = 0
    while s.running[place] != r:
        place += 1
    for k in range(place, count[RUNNING] - 1):
        s.running[k] = s.running[k + 1]
        s.given[k] = s.given[k + 1]
    count[RUNNING] -= 1


@kernel
def _preempt(world: World, s: State, r: int) -> None:
    """Back to the front of the waiting (a retracted request to their end); everything is computed again."""
    book, count, limits = world.book, s.tally, world.limits
    if book.decoding[r]:
        book.said[r] = world.requests.output[r] - (book.end[r] - count[STEP])
        book.paused_s[r] = s.clock[EMITTED]
    _leave(world, s, r)
    book.base[r], book.decoding[r], book.blocks[r] = 0, 0, 0
    book.preempted[r] += 1
    count[PREEMPTED] += 1
    size = len(s.waiting)
    if limits.victim == LEAST:
        s.waiting[(count[HEAD] + count[WAITING]) % size] = r
    else:
        count[HEAD] = (count[HEAD] - 1) % size
        s.waiting[count[HEAD]] = r
    count[WAITING] += 1


@kernel
def _victim(world: World, s: State) -> int:
    """Place in `running` of the request to preempt."""
    count, book, requests = s.tally, world.book, world.requests
    worst = count[RUNNING] - 1
    if world.limits.victim == WORST:
        for k in range(count[RUNNING]):
            if _before(requests, s.running[worst], s.running[k]):
                worst = k
    elif world.limits.victim == LEAST:
        worst = -1
        for k in range(count[RUNNING]):
            r = s.running[k]
            if not book.decoding[r]:
                continue
            if worst < 0:
                worst = k
                continue
            w = s.running[worst]
            mine, others = requests.output[r] - book.end[r], requests.output[w] - book.end[w]
            if mine < others or (mine == others and requests.prompt[r] > requests.prompt[w]):
                worst = k
    return worst


@kernel
def _take_blocks(world: World, s: State, r: int, tokens: int) -> bool:
    """Gives a request blocks for so many tokens in all, if they are free."""
    held = _blocks(world, s.tally, r)
    more = -(-tokens // world.limits.block_tokens) - held
    if world.limits.reserve_output or more <= 0:
        return True
    if more > s.tally[FREE]:
        return False
    s.tally[FREE] -= more
    if len(world.requests.offsets) > 1:
        row = world.book.row[r]
        for k in range(held, held + more):
            s.table[row, k] = block_take(s.pool)
    world.book.blocks[r] = held + more
    return True


@kernel
def _walk(world: World, s: State, decode: bool) -> tuple[int, int, bool]:
    """
    The running requests one by one, as vLLM's scheduler walks them; without `decode`, unfinished prompts only.

    Returns the budget that is left, prompts in the step, and whether someone was preempted.
    """
    book, count, limits = world.book, s.tally, world.limits
    left, chunks, preempted = limits.budget, 0, False
    extra = limits.speculative
    for k in range(count[RUNNING]):
        s.given[k] = 0
    i = 0
    stop = False
    retract = decode and limits.victim == LEAST and not limits.reserve_output
    retract = retract and s.phase[(-count[STEP]) % limits.block_tokens] > count[FREE]
    retracted = retract
    while i < count[RUNNING] and left > 0 and not stop:
        retract = (
            retract and count[RUNNING] > 1 and (count[FREE] * limits.block_tokens < RETRACT_STEPS * count[RUNNING])
        )
        r = s.running[i]
        decoding = book.decoding[r] == 1
        if decoding and not decode:
            i += 1
            continue
        done = book.base[r] + count[STEP] if decoding else book.base[r]
        need = 1 + extra if decoding else book.target[r] - done
        if limits.threshold > 0:
            need = min(need, limits.threshold)
        need = min(need, left)
        while retract or not _take_blocks(world, s, r, done + need):
            k = _victim(world, s)
            victim = s.running[k]
            back = s.given[k] if k < i else 0
            if back > 0:
                left += back
                if book.decoding[victim] and extra == 0 and len(world.requests.offsets) <= 1:
                    # Its block of this step is not yet in the phases.
                    count[FREE] += -(-(book.base[victim] + count[STEP] + 1) // limits.block_tokens) - _blocks(
                        world, count, victim
                    )
                elif not book.decoding[victim]:
                    count[FREE] += -(-(book.base[victim] + back) // limits.block_tokens) - _blocks(world, count, victim)
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
        for k in range(count[RUNNING]):
            r = s.running[k]
            whole += world.requests.output[r]
            said += world.requests.output[r] - (book.end[r] - count[STEP])
        s.clock[RATIO] = min(1.0, (said + RETRACT_STEPS * count[RUNNING]) / (whole + 1.0))
    for k in range(i, count[RUNNING]):
        s.given[k] = 0
    for k in range(count[RUNNING]):
        r = s.running[k]
        if not book.decoding[r] and s.given[k] > 0:
            s.chunk[chunks], s.chunk_tokens[chunks] = r, s.given[k]
            chunks += 1
    return left, chunks, preempted


@kernel
def _plain(world: World, s: State) -> tuple[int, int]:
    """All decodes and the one unfinished prompt behind them, without a walk; budget left, or -1 where a walk is due."""
    book, count, limits = world.book, s.tally, world.limits
    decoding = count[RUNNING] - count[PREFILLING]
    exact = limits.speculative > 0 or len(world.requests.offsets) > 1
    if exact or count[PREFILLING] > 1 or decoding > limits.budget:
        return -1, 0
    more = 0 if limits.reserve_output else s.phase[(-count[STEP]) % limits.block_tokens]
    left, chunks, need = limits.budget - decoding, 0, 0
    if count[PREFILLING] == 1:
        r = s.running[count[RUNNING] - 1]
        if book.decoding[r] or left == 0:
            return -1, 0
        need = min(book.target[r] - book.base[r], left)
        if limits.threshold > 0:
            need = min(need, limits.threshold)
        if not limits.reserve_output:
            size = limits.block_tokens
            more += -(-(book.base[r] + need) // size) - (-(-book.base[r] // size))
        s.chunk[0], s.chunk_tokens[0] = r, need
        chunks = 1
    if more > count[FREE]:
        return -1, 0
    count[FREE] -= more
    return left - need, chunks


@kernel
def _admit(world: World, s: State, left: int, chunks: int) -> tuple[int, int]:
    """Waiting requests in order, until one does not fit; budget left and prompts in the step."""
    book, count, limits, requests = world.book, s.tally, world.limits, world.requests
    size = len(s.waiting)
    if limits.gather > 0 and count[RUNNING] == 0 and _open(world, s):
        count[TAKING] = min(count[WAITING], limits.gather)
        count[GHOSTS], count[GHOST_CONTEXT] = 0, 0
    while count[WAITING] > 0 and left > 0 and count[RUNNING] < limits.max_num_seqs:
        if limits.gather > 0 and count[TAKING] == 0:
            break
        at = _head(world, s)
        r = s.waiting[at]
        need, found, fits = _need_of(world, s, r, left)
        if not fits:
            count[TAKING] = 0 if need > 0 else count[TAKING]
            break
        count[TAKING] -= 1 if limits.gather > 0 else 0
        while at != count[HEAD]:  # close the gap of one taken from the middle
            s.waiting[at] = s.waiting[(at - 1) % size]
            at = (at - 1) % size
        count[HEAD] = (count[HEAD] + 1) % size
        count[WAITING] -= 1
        book.target[r] = requests.prompt[r] + book.said[r]
        book.base[r], book.blocks[r] = found, 0
        if math.isnan(book.started_s[r]):
            book.started_s[r] = s.clock[NOW]
        if len(requests.offsets) > 1:
            s.rows[-1] -= 1
            book.row[r] = s.rows[s.rows[-1]]
            book.blocks[r] = found // limits.block_tokens
            count[FREE] -= blocks_share(requests, s.table, s.pool, r, book.row[r], book.blocks[r])
        elif limits.reserve_output:
            count[FREE] -= _blocks(world, count, r)
        else:
            # Cached tokens outside the pool's own accounting still need room in it.
            book.base[r] = 0
        s.running[count[RUNNING]] = r
        count[RUNNING] += 1
        count[PREFILLING] += 1
        _take_blocks(world, s, r, found + need)
        book.base[r] = found
        s.given[count[RUNNING] - 1] = need
        s.chunk[chunks], s.chunk_tokens[chunks] = r, need
        chunks += 1
        left -= need
        count[HIT] += found
    return left, chunks


@kernel
def _step(world: World, s: State) -> None:
    """
    One step in the engine's order: running requests, then waiting ones, then what they cost and say.

    Where prompts come first, a step of decodes alone is the second try. Every part is called from one
    place, because compiled code is copied to where it is called.
    """
    mixed, count = world.limits.mixed, s.tally
    count[ROUNDS] += 1
    for attempt in range(2):
        decode = mixed or attempt == 1
        left, chunks, preempted, walk = world.limits.budget, 0, False, not decode and count[PREFILLING] > 0
        if decode:
            left, chunks = _plain(world, s)
            walk = left < 0
        if walk:
            left, chunks, preempted = _walk(world, s, decode)
        if attempt == 0 and not preempted:
            left, chunks = _admit(world, s, left, chunks)
        if decode or chunks > 0:
            _finish(world, s, chunks, decode, walk and decode)
            return


@kernel
def _finish(world: World, s: State, chunks: int, decoded: bool, walked: bool) -> None:
    """Prices the step that `given` and `chunk` describe, lets it pass, and books what was said."""
    table, limits, book, count = world.table, world.limits, world.book, s.tally
    decodes, rows, context, completing, ghosts = 0, 0, 0, 0, 0
    if decoded:
        decodes, context, ghosts = (
            count[RUNNING] - count[PREFILLING],
            count[CONTEXT] + count[GHOST_CONTEXT],
            count[GHOSTS],
        )
        rows = decodes
    if walked:
        rows = 0
        for k in range(count[RUNNING]):
            if book.decoding[s.running[k]]:
                rows += s.given[k]
                if s.given[k] == 0:
                    decodes -= 1
                    context -= book.base[s.running[k]] + count[STEP] + 1
    drafted = rows
    attended = 0.0
    for k in range(chunks):
        r, q = s.chunk[k], s.chunk_tokens[k]
        rows += q
        completing += 1 if book.base[r] + q == book.target[r] else 0
        attended += q * (table.chunk_token_s + table.chunk_square_s * (book.base[r] + q / 2.0))
    if rows == 0:
        return
    batch = decodes + ghosts
    if chunks == 0:
        busy = table.decode_s[batch] + table.context_s[batch] * context
    else:
        busy = table.mixed_s[rows + ghosts] + table.head_s[drafted + completing] + table.chunk_s + attended
        if batch > 0:
            busy += table.attend_s[batch] + table.context_s[batch] * context
    host = table.host_s + table.host_sequence_s * batch + table.host_prompt_s * chunks
    taken = max(busy, table.hidden_s) + host
    s.clock[NOW] += taken
    s.clock[BUSY] += taken
    s.clock[HOST] += taken - busy
    count[STEPS] += 1
    if chunks > 0:
        s.clock[PROMPTS] += taken
    if count[WAITING] > 0:
        s.clock[SEATS if count[RUNNING] >= limits.max_num_seqs else KV] += taken
    if decoded:
        _note_decodes(world, s, decodes, walked)
    _note_prompts(world, s, chunks)


@kernel
def _note_decodes(world: World, s: State, decodes: int, walked: bool) -> None:
    """Every decode that was given tokens moves on; the others fall one step behind the counter."""
    book, count, limits = world.book, s.tally, world.limits
    size = limits.block_tokens
    now = s.clock[NOW]
    if s.stalls[0] > 0.0:
        for k in range(int(s.stalls[0])):
            _note_gaps(s.gaps, now - s.stalls[1 + k], now - s.stalls[1 + k], 1)
    _note_gaps(s.gaps, now - s.clock[EMITTED], now - s.clock[EMITTED], decodes - int(s.stalls[0]))
    s.stalls[0] = 0.0
    s.clock[EMITTED] = now
    s.clock[RATIO] = max(limits.ratio_least, s.clock[RATIO] - limits.ratio_decay)
    if walked and len(world.requests.offsets) > 1:
        for k in range(count[RUNNING]):
            r = s.running[k]
            done = book.base[r] + count[STEP]
            # What was full is noted when the next block is taken.
            if book.decoding[r] and s.given[k] > 0 and done % size == 0:
                block_note(world.requests, s.table, s.pool, r, book.row[r], done // size - 1)
    count[STEP] += 1
    count[CONTEXT] += count[RUNNING] - count[PREFILLING]
    count[GHOST_CONTEXT] += count[GHOSTS]
    count[TOKENS] += decodes
    for k in range(count[RUNNING] if walked else 0):
        r = s.running[k]
        if not book.decoding[r]:
            continue
        moved = 1 if s.given[k] > 0 else 0
        if s.given[k] > 1:
            left = book.end[r] - (count[STEP] - 1)
            moved = min(left, 1 + _accepted(world, r, world.requests.output[r] - left, s.given[k] - 1))
            count[TOKENS] += moved - 1
        if moved != 1:
            s.phase[book.base[r] % size] -= 1
            book.base[r] += moved - 1
            s.phase[book.base[r] % size] += 1
            book.end[r] -= moved - 1
            count[ENDS] -= moved - 1
            count[CONTEXT] += moved - 1
            count[NEXT] = -1


@kernel
def _accepted(world: World, r: int, said: int, drafts: int) -> int:
    """Draft tokens accepted in a row: a coin for each, thrown from request and position, the same in every run."""
    for k in range(drafts):
        mixed = (r * 2654435761 + (said + k) * 40503 + 12345) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 16)) * 73244475) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 16)) * 73244475) & 0xFFFFFFFF
        mixed = mixed ^ (mixed >> 16)
        if mixed / 4294967296.0 >= world.limits.acceptance:
            return k
    return drafts


@kernel
def _note_prompts(world: World, s: State, chunks: int) -> None:
    """Prompts move on; those that are whole say their next token and decode from then on."""
    book, count, limits, requests = world.book, s.tally, world.limits, world.requests
    now = s.clock[NOW]
    for k in range(chunks):
        r, q = s.chunk[k], s.chunk_tokens[k]
        before = book.base[r]
        book.base[r] += q
        count[PROMPT] += q
        if len(requests.offsets) > 1:
            size = limits.block_tokens
            for place in range(before // size, book.base[r] // size):
                block_note(requests, s.table, s.pool, r, book.row[r], place)
        if book.base[r] < book.target[r]:
            continue
        book.said[r] += 1
        count[TOKENS] += 1
        if math.isnan(book.first_s[r]):
            book.first_s[r] = now
        elif not math.isnan(book.paused_s[r]):
            _note_gaps(s.gaps, now - book.paused_s[r], now - book.paused_s[r], 1)
        if not limits.mixed and int(s.stalls[0]) + 1 < len(s.stalls):
            s.stalls[1 + int(s.stalls[0])] = now
            s.stalls[0] += 1.0
        book.decoding[r] = 1
        book.base[r] -= count[STEP]
        book.end[r] = count[STEP] + requests.output[r] - book.said[r]
        s.phase[book.base[r] % limits.block_tokens] += 1
        count[PREFILLING] -= 1
        count[CONTEXT] += book.target[r] + 1
        count[ENDS] += book.end[r]
        if count[NEXT] >= 0:
            count[NEXT] = min(count[NEXT], book.end[r])


@kernel
def _next_end(world: World, s: State) -> int:
    """The step counter at which the first running request ends."""
    if s.tally[NEXT] < 0:
        soonest = FOREVER
        for k in range(s.tally[RUNNING]):
            r = s.running[k]
            if world.book.decoding[r]:
                soonest = min(soonest, world.book.end[r])
        s.tally[NEXT] = soonest
    return s.tally[NEXT]


@kernel
def _retire(world: World, s: State) -> None:
    """Those who have said all leave."""
    count = s.tally
    if _next_end(world, s) > count[STEP]:
        return
    k = 0
    while k < count[RUNNING]:
        r = s.running[k]
        if world.book.decoding[r] and world.book.end[r] <= count[STEP]:
            world.book.last_s[r] = s.clock[NOW]
            world.book.said[r] = world.requests.output[r]
            s.ended[count[FINISHED] % len(s.ended)] = r
            count[FINISHED] += 1
            if world.limits.gather > 0:  # its seat is computed until the batch ends
                count[GHOSTS] += 1
                count[GHOST_CONTEXT] += world.book.base[r] + count[STEP] + 1
            _leave(world, s, r)
        else:
            k += 1
    count[NEXT] = -1


@kernel
def _run(world: World, s: State, until: float) -> None:
    """Decode steps in which nobody joins or leaves, up to the first end, the last free block, or `until`."""
    table, limits, count, clock = world.table, world.limits, s.tally, s.clock
    batch, size, ghosts = count[RUNNING], limits.block_tokens, count[GHOSTS]
    seats = batch + ghosts
    steps = _next_end(world, s) - count[STEP]
    if limits.ratio > 0.0 and count[WAITING] > 0 and batch < limits.max_num_seqs:
        steps = 1  # the room that admission keeps shrinks with every step
    fixed, slope = table.decode_s[seats], table.context_s[seats]
    host, hidden = table.host_s + table.host_sequence_s * seats, table.hidden_s
    counted = not limits.reserve_output
    exact = len(world.requests.offsets) > 1
    now, context, free, phase = clock[NOW], count[CONTEXT] + count[GHOST_CONTEXT], count[FREE], (-count[STEP]) % size
    began, waited = now, now - clock[EMITTED]
    first, taken, busy_sum, k = 0.0, 0.0, 0.0, 0
    while k < steps and now < until:
        more = s.phase[phase] if counted else 0
        if more > free or (exact and more > 0):
            break
        free -= more
        busy = fixed + slope * context
        taken = max(busy, hidden) + host
        if k == 0:
            first = taken
        now += taken
        busy_sum += busy
        context += seats
        phase = phase - 1 if phase > 0 else size - 1
        k += 1
    clock[NOW], count[FREE] = now, free
    count[CONTEXT] += k * batch
    count[GHOST_CONTEXT] += k * ghosts
    count[STEP] += k
    count[STEPS] += k
    count[ROUNDS] += 1
    clock[BUSY] += now - began
    clock[HOST] += now - began - busy_sum
    clock[RATIO] = max(limits.ratio_least, clock[RATIO] - k * limits.ratio_decay)
    count[TOKENS] += k * batch
    if count[WAITING] > 0:
        clock[SEATS if batch >= limits.max_num_seqs else KV] += now - began
    if k > 0:
        stalled = int(s.stalls[0])
        for j in range(stalled):
            _note_gaps(s.gaps, began - s.stalls[1 + j] + first, began - s.stalls[1 + j] + first, 1)
        s.stalls[0] = 0.0
        _note_gaps(s.gaps, waited + first, waited + first, batch - stalled)
        _note_gaps(s.gaps, first, taken, (k - 1) * batch)
        clock[EMITTED] = now


@kernel
def _advance(world: World, s: State, until: float, one: bool) -> None:
    """Every step that begins before `until`; with `one`, no further than the first end of a request."""
    count, limits = s.tally, world.limits
    ended = count[FINISHED]
    while s.clock[NOW] < until and count[RUNNING] + count[WAITING] > 0:
        steps, preempted = count[STEPS], count[PREEMPTED]
        alone = count[PREFILLING] == 0 and count[RUNNING] > 0 and limits.speculative == 0 and count[TAKING] == 0
        if alone and count[RUNNING] <= limits.budget and not _may_admit(world, s):
            _run(world, s, until)
        if count[STEPS] == steps:
            _step(world, s)
        _retire(world, s)
        if one and count[FINISHED] > ended:
            return
        if count[STEPS] == steps and count[PREEMPTED] == preempted:
            if limits.gather > 0 and count[RUNNING] == 0 and not _open(world, s):
                s.clock[NOW] = min(until, _due_s(world, s))  # the batch is still being gathered
                continue
            return  # nobody fits and nobody can make room; requests that never fit do not get here


@kernel
def _enter(s: State, entered_s: Floats, r: int, at: float) -> None:
    """A request reaches the scheduler."""
    count = s.tally
    if count[RUNNING] + count[WAITING] == 0 and s.clock[NOW] < at:
        s.clock[NOW] = at
        s.clock[EMITTED] = at
    s.waiting[(count[HEAD] + count[WAITING]) % len(s.waiting)] = r
    count[WAITING] += 1
    entered_s[r] = at


@kernel
def _sample(world: World, states: State, at: float, into: Floats) -> None:
    """Who runs, who waits, blocks in use, tokens said so far and replicas that are on, at a time."""
    into[:] = 0.0
    into[0] = at
    for k in range(len(states.clock)):
        into[1] += states.tally[k, RUNNING]
        into[2] += states.tally[k, WAITING]
        into[3] += world.limits.num_blocks - states.tally[k, FREE]
        into[4] += states.tally[k, TOKENS]


@kernel
def _replica(all_: State, k: int) -> State:
    """One row of the states of several replicas."""
    p = all_.pool
    pool = Pool(p.after[k], p.before[k], p.users[k], p.id_of[k], p.where[k])
    return State(
        all_.clock[k], all_.tally[k], all_.running[k], all_.given[k], all_.waiting[k], all_.phase[k], all_.chunk[k],
        all_.chunk_tokens[k], all_.gaps[k], all_.stalls[k], all_.table[k], all_.rows[k], pool, all_.ended[k],
    )  # fmt: skip


@kernel
def _power(states: State, script: Script, k: int, at: float) -> None:
    """Starts a replica: paid for from now on, of use after its cold start."""
    script.power[k, SINCE], script.power[k, DRAINS] = at, 0.0
    script.power[k, READY] = at + script.scaling[COLD_S]
    states.clock[k, NOW] = script.power[k, READY]
    states.clock[k, EMITTED] = script.power[k, READY]


@kernel
def _scale(states: State, script: Script, at: float) -> None:
    """Starts or drains replicas so that each has about the wanted number of requests in flight."""
    power, scaling = script.power, script.scaling
    on, flying, idlest = 0, 0, -1
    for k in range(len(power)):
        mine = states.tally[k, RUNNING] + states.tally[k, WAITING]
        flying += mine
        if math.isnan(power[k, SINCE]):
            continue
        if power[k, DRAINS] > 0.0:
            if mine == 0:
                power[k, PAID] += at - power[k, SINCE]
                power[k, SINCE] = np.nan
            continue
        on += 1
        if idlest < 0 or mine < states.tally[idlest, RUNNING] + states.tally[idlest, WAITING]:
            idlest = k
    wanted = min(max(math.ceil(flying / scaling[TARGET]), scaling[FEWEST]), scaling[MOST])
    for k in range(len(power)):
        if on < wanted and power[k, DRAINS] > 0.0 and not math.isnan(power[k, SINCE]):
            power[k, DRAINS] = 0.0
            on += 1
    for k in range(len(power)):
        if on < wanted and math.isnan(power[k, SINCE]):
            _power(states, script, k, at)
            on += 1
    if wanted >= on:
        scaling[LOW_SINCE] = np.nan
    elif math.isnan(scaling[LOW_SINCE]):
        scaling[LOW_SINCE] = at
    elif at - scaling[LOW_SINCE] >= scaling[KEEP_S]:
        power[idlest, DRAINS] = 1.0
        scaling[LOW_SINCE] = at


@kernel
def _route(states: State, script: Script, at: float) -> int:
    """The replica that a request goes to: one that is ready, by the router's rule; else the next to be ready."""
    power, chosen, soonest, replicas = script.power, -1, -1, len(script.power)
    for j in range(replicas):
        k = (script.cursor[TURN] + j) % replicas
        if math.isnan(power[k, SINCE]) or power[k, DRAINS] > 0.0:
            continue
        if power[k, READY] > at:
            if soonest < 0 or power[k, READY] < power[soonest, READY]:
                soonest = k
            continue
        mine = states.tally[k, RUNNING] + states.tally[k, WAITING]
        if chosen < 0 or (
            script.rule == LEAST_LOADED and mine < states.tally[chosen, RUNNING] + states.tally[chosen, WAITING]
        ):
            chosen = k
    if chosen < 0:
        script.cursor[COLD] += 1
        chosen = soonest
        if chosen < 0:
            chosen = 0
            for k in range(replicas):
                if math.isnan(power[k, SINCE]):
                    chosen = k
            _power(states, script, chosen, at)
    script.cursor[TURN] = (chosen + 1) % replicas
    return chosen


@kernel
def _play(world: World, states: State, script: Script, most: int) -> None:
    """
    Requests as they are sent, or by clients that wait for their answers; at most `most` arrivals a call.

    One loop over what happens next (a request, a sample, a look of the autoscaler), because each call
    of `_advance` is a copy of the scheduler. Clients have one replica.
    """
    requests, cursor, clients = world.requests, script.cursor, len(script.ready)
    n, replicas, handled, finished = len(requests.sent_s), len(script.power), 0, 0
    for k in range(replicas):
        finished += states.tally[k, FINISHED]
    for c in range(clients if cursor[ARRIVED] == 0 else 0):
        script.due[c], script.owner[c] = c, c
        script.ready[c] = requests.sent_s[c] + script.delivery_s
        cursor[ARRIVED] += 1
    while handled < most and finished < n:
        c, at, sample = 0, np.inf, False
        if clients > 0:
            c = int(np.argmin(script.ready))
            at = script.ready[c]
        elif cursor[ARRIVED] < n:
            at = requests.sent_s[cursor[ARRIVED]] + script.delivery_s
        if cursor[SAMPLED] < len(script.samples) and cursor[SAMPLED] * script.every_s <= at:
            at, sample = cursor[SAMPLED] * script.every_s, True
        look = script.scaling[CHECK] < at
        if look:
            at, sample = script.scaling[CHECK], False
        ended = states.tally[0, FINISHED]
        finished = 0
        for k in range(replicas):
            _advance(world, _replica(states, k), at, clients > 0)
            finished += states.tally[k, FINISHED]
        if clients > 0 and finished > ended:
            _reply(world, _replica(states, 0), script, ended)
        elif look:
            script.scaling[CHECK] += script.scaling[INTERVAL]
            _scale(states, script, at)
        elif sample:
            _sample(world, states, at, script.samples[cursor[SAMPLED]])
            cursor[SAMPLED] += 1
        elif at < np.inf:
            handled += 1
            r, k = (script.due[c], 0) if clients > 0 else (cursor[ARRIVED], 0)
            if clients > 0:
                script.ready[c] = np.inf
            else:
                cursor[ARRIVED] += 1
                if replicas > 1 or script.scaling[CHECK] < np.inf:
                    k = _route(states, script, at)
                    script.owner[r] = k
            _enter(_replica(states, k), world.book.entered_s, r, at)


@kernel
def _reply(world: World, s: State, script: Script, ended: int) -> None:
    """Clients whose requests have just ended think, and send the next."""
    requests, cursor = world.requests, script.cursor
    for k in range(ended, s.tally[FINISHED]):
        was = s.ended[k % len(s.ended)]
        if cursor[ARRIVED] < len(requests.sent_s):
            r, c = cursor[ARRIVED], script.owner[was]
            cursor[ARRIVED] += 1
            requests.sent_s[r] = world.book.last_s[was] + requests.think_s[was]
            script.due[c], script.owner[r] = r, c
            script.ready[c] = requests.sent_s[r] + script.delivery_s


def _door(stamp: int) -> Callable[[World, State, Script, int], None]:
    def play(world: World, states: State, script: Script, most: int) -> None:
        if stamp != 0:
            _play(world, states, script, most)

    return door(play)


play = _door(stamp_of(__file__, kernel_module.__file__, prefix_cache.__file__))
"""Requests as they are sent, or by clients who wait for their answers; at most so many arrivals a call."""
