"""Simulates requests on one replica, and says what each of them and the replica went through.

`simulate` runs the compiled loop (`compiled`; its plain twin is `reference`). The first call on a
machine compiles for some seconds and keeps the result beside the code; later ones load it.
Requests that could never be admitted are refused before the start: an engine refuses them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tonnage.engine.metrics import e2e_s, tpot_s, ttft_s
from tonnage.engine.simulated import Floats, Ints, Limits, Requests, StepArrays

__all__ = ["Simulated", "Timeline", "gap_quantile", "kept", "refused", "simulate", "typed"]

PIECE = 200_000
"""Requests between two looks at the clock, so that a long run can be watched and broken off."""


class Timeline(NamedTuple):
    """The replica at even times."""

    at_s: Floats
    running: Floats
    waiting: Floats
    used_blocks: Floats
    tokens_per_s: Floats


class Simulated(NamedTuple):
    """What a simulation found: columns by request, sums over the run."""

    requests: Requests
    """As they were sent, without the refused."""
    started_s: Floats
    """First scheduled; NaN = never."""
    first_s: Floats
    last_s: Floats
    preempted: Ints
    gaps: Ints
    """Gaps between tokens by length: see `gap_quantile`."""
    timeline: Timeline
    num_refused: int
    steps: int
    rounds: int
    """Turns of the loop that these steps took."""
    busy_s: float
    host_s: float
    """Of them, what was not the accelerator's."""
    prompt_s: float
    """Steps that carried prompts."""
    kv_blocked_s: float
    """Someone waited although a seat was free: the cache was full, or the budget spent."""
    seats_blocked_s: float
    """Someone waited because max_num_seqs were running."""
    prompt_tokens: int
    """Computed, repeats after preemption included."""
    cached_tokens: int
    free_blocks: int
    partial: bool

    @property
    def ttft_s(self) -> Floats:
        """Time to first token of each request. [s]"""
        found: Floats = ttft_s(sent_s=self.requests.sent_s, first_s=self.first_s)
        return found

    @property
    def tpot_s(self) -> Floats:
        """Time per output token of each request; NaN for one-token answers. [s]"""
        found: Floats = tpot_s(first_s=self.first_s, last_s=self.last_s, output_tokens=self.requests.output)
        return found

    @property
    def e2e_s(self) -> Floats:
        """End-to-end latency of each request. [s]"""
        found: Floats = e2e_s(sent_s=self.requests.sent_s, last_s=self.last_s)
        return found


def refused(requests: Requests, limits: Limits) -> Any:
    """Which requests can never be admitted: longer than the cache, or than a budget that cannot be split."""
    import numpy as np

    whole = requests.prompt + requests.output
    blocks = -(-whole // limits.block_tokens)
    bad = blocks > limits.num_blocks - limits.watermark
    if not limits.chunked:
        bad |= whole - 1 > limits.budget
    return np.asarray(bad)


def kept(requests: Requests, mask: Any) -> Requests:
    """The requests that a mask keeps."""
    import numpy as np

    if mask.all():
        return requests
    offsets, blocks = requests.offsets, requests.blocks
    if len(offsets) > 1:
        lengths = np.diff(offsets)
        blocks = blocks[np.repeat(mask, lengths)]
        offsets = np.concatenate(([0], np.cumsum(lengths[mask])))
    columns = {name: getattr(requests, name)[mask] for name in
               ("sent_s", "prompt", "output", "cached", "priority", "think_s")}  # fmt: skip
    return requests._replace(offsets=offsets, blocks=blocks, **columns)


def simulate(
    table: StepArrays,
    limits: Limits,
    *,
    requests: Requests,
    clients: int | None = None,
    delivery_s: float = 0.0,
    every_s: float | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> Simulated:
    """
    Requests on one replica: as they are sent, or by so many clients that each wait for their answer.

    Parameters
    ----------
    table, limits, requests : StepArrays, Limits, Requests
        What steps cost, how the engine schedules, what is asked. In a closed loop `sent_s` holds the
        start of each client's first request and is filled in.
    delivery_s : number
        Between sending and the scheduler: reading and tokenising. [s]
    every_s : number
        Distance of the timeline's points; absent = two hundred points over an open loop. [s]
    watch : callable
        Called with requests handed in and requests in all, every so often; a KeyboardInterrupt there
        ends the run with what is done, marked partial.
    """
    import numpy as np

    from tonnage.engine import compiled, loop_state

    sent = kept(requests, ~refused(requests, limits))
    sent = sent._replace(sent_s=sent.sent_s.copy())
    n = len(sent.prompt)
    book = loop_state.new_book(n)
    world = loop_state.World(typed(table), typed(limits), sent, book)
    states = loop_state.new_states(world, 1, clients=clients or 0)
    span = float(sent.sent_s[-1]) if n and clients is None else 0.0
    every = every_s or (span * 1.1 / 200.0 if span > 0 else 1.0)
    size = 0 if clients is None else min(clients, n)
    script = loop_state.Script(
        cursor=np.zeros(4, np.int64),
        samples=np.zeros((min(20_000, int(span * 1.5 / every) + 2) if span > 0 else 0, 5)),
        every_s=every,
        delivery_s=delivery_s,
        ready=np.full(size, np.inf),
        due=np.zeros(size, np.int64),
        owner=np.zeros(n if size else 0, np.int64),
        rule=loop_state.ROUND_ROBIN,
        power=np.zeros((1, 4)),
        scaling=np.full(8, np.inf),
    )
    partial = False
    try:
        while (done := int(states.tally[0, loop_state.FINISHED])) < n:
            compiled.play(world, states, script, PIECE)
            if watch is not None:
                watch(int(script.cursor[loop_state.ARRIVED]), n)
            assert states.tally[0, loop_state.FINISHED] > done, "the loop stands still"
    except KeyboardInterrupt:
        partial = True
    samples = script.samples[: script.cursor[loop_state.SAMPLED]]
    return _told(world, states, samples, refusals=len(requests.prompt) - n, partial=partial)


def typed(record: Any) -> Any:
    """The record with its numbers as annotated: compiled code is kept by type, and 0 is another type than 0.0."""
    kinds = {"int": int, "float": float, "bool": bool}
    said = {name: getattr(kind, "__forward_arg__", kind) for name, kind in record.__annotations__.items()}
    plain = {name: kinds[kind] for name, kind in said.items() if kind in kinds}
    return record._replace(**{name: kind(getattr(record, name)) for name, kind in plain.items()})


def _told(world: Any, states: Any, samples: Floats, *, refusals: int, partial: bool) -> Simulated:
    import numpy as np

    from tonnage.engine import loop_state as c

    clock, count, book = states.clock[0], states.tally[0], world.book
    assert partial or count[c.FINISHED] == len(world.requests.prompt), "the loop stopped before all had ended"
    spacing = np.diff(samples[:, 0], prepend=0.0)
    said = np.diff(samples[:, 4], prepend=0.0)
    timeline = Timeline(
        at_s=samples[:, 0],
        running=samples[:, 1],
        waiting=samples[:, 2],
        used_blocks=samples[:, 3],
        tokens_per_s=np.divide(said, spacing, out=np.zeros_like(said), where=spacing > 0),
    )
    return Simulated(
        requests=world.requests, started_s=book.started_s, first_s=book.first_s, last_s=book.last_s,
        preempted=book.preempted, gaps=states.gaps[0], timeline=timeline, num_refused=refusals,
        steps=int(count[c.STEPS]), rounds=int(count[c.ROUNDS]), busy_s=float(clock[c.BUSY]),
        host_s=float(clock[c.HOST]), prompt_s=float(clock[c.PROMPTS]), kv_blocked_s=float(clock[c.KV]),
        seats_blocked_s=float(clock[c.SEATS]), prompt_tokens=int(count[c.PROMPT]), cached_tokens=int(count[c.HIT]),
        free_blocks=int(count[c.FREE]), partial=partial,
    )  # fmt: skip


def gap_quantile(gaps: Ints, quantile: float) -> float | None:
    """A quantile of the gaps between tokens, to the one per cent at which they are counted; absent without gaps. [s]"""
    import numpy as np

    from tonnage.engine.loop_state import GAP_LEAST, GAP_RATIO

    total = int(gaps.sum())
    if total == 0:
        return None
    place = int(np.searchsorted(np.cumsum(gaps), quantile * (total - 1), side="right"))
    return float(GAP_LEAST * np.exp((place + 0.5) * GAP_RATIO))
