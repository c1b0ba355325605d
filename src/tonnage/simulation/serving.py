"""Simulates requests on one replica, or on several, and says what each of them and the replicas went through.

`simulate` runs the compiled loop (`compiled`; its plain twin is tests/reference_loop.py). The first call on a
machine compiles for some seconds and keeps the result beside the code; later ones load it.
Requests that could never be admitted are refused before the start: an engine refuses them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tonnage.simulation.metrics import e2e_s, tpot_s, ttft_s
from tonnage.simulation.simulated import Floats, Ints, Limits, ReplicaArrays, Requests

PIECE = 40_000
"""Arrivals and rounds between two looks at the clock, some tens of milliseconds: a run can be watched and broken off
while requests arrive and while those left behind are answered."""
MOST_SAMPLES = 20_000


class Timeline(NamedTuple):
    """The replicas together at even times."""

    at_s: Floats
    running: Floats
    waiting: Floats
    used_blocks: Floats
    tokens_per_s: Floats


class Simulated(NamedTuple):
    """What a simulation found: columns by request, sums over the run and over all replicas."""

    requests: Requests
    """As they were sent, without the refused."""
    started_s: Floats
    """First scheduled; NaN = never."""
    first_s: Floats
    """First token; NaN = none."""
    last_s: Floats
    """Last token; NaN = not ended."""
    preempted: Ints
    """How often each request was."""
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
    recalled_tokens: int
    """Brought back from host memory instead of being computed; prefixes among them count as cached, too."""
    free_blocks: int
    partial: bool
    span_s: float
    """From the first request sent to the last token."""
    replica: Ints
    """Who answered each request; empty without a router."""
    paid_s: Floats
    """Seconds each replica was paid for, its cold starts included; empty without a router."""
    cold_hits: int
    """Requests that found no replica ready."""

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

    @property
    def mean_replicas(self) -> float:
        """Replicas paid for, on average over the run. [replicas]"""
        return float(self.paid_s.sum()) / self.span_s if len(self.paid_s) else 1.0


def never_admitted(requests: Requests, limits: Limits) -> Any:
    """Which requests can never be admitted: longer than the cache, or than a budget that cannot be split."""
    import numpy as np

    whole = requests.prompt + requests.output
    blocks = -(-whole // limits.block_tokens)
    bad = blocks > limits.num_blocks - limits.watermark
    if not limits.chunked:
        bad |= whole - 1 > limits.budget
    return np.asarray(bad)


def select_requests(requests: Requests, mask: Any) -> Requests:
    """The requests that a mask keeps, with the block ids that are theirs."""
    import numpy as np

    if mask.all():
        return requests
    offsets, blocks = requests.offsets, requests.blocks
    if len(offsets) > 1:
        lengths = np.diff(offsets)
        blocks = blocks[np.repeat(mask, lengths)]
        offsets = np.concatenate(([0], np.cumsum(lengths[mask])))
    return requests.pick(mask)._replace(offsets=offsets, blocks=blocks)


def with_own_blocks(requests: Requests, block_tokens: int) -> Requests:
    """
    Requests that share nothing, each with the names of its own blocks, answer included.

    With a prefix cache a preempted request finds what nobody has overwritten since.
    """
    import numpy as np

    if len(requests.offsets) > 1:
        return requests
    whole = (requests.prompt + requests.output) // block_tokens
    offsets = np.concatenate(([0], np.cumsum(whole))).astype(np.int64)
    return requests._replace(offsets=offsets, blocks=np.arange(offsets[-1], dtype=np.int64), num_ids=int(offsets[-1]))


def simulate(
    replica: ReplicaArrays,
    *,
    requests: Requests,
    clients: int | None = None,
    every_s: float | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> Simulated:
    """
    Requests on one replica: as they are sent, or by so many clients that each wait for their answer.

    Parameters
    ----------
    replica, requests : ReplicaArrays, Requests
        What steps cost and how the engine schedules, what is asked. In a closed loop `sent_s` holds the
        start of each client's first request and is filled in.
    every_s : number
        Distance of the timeline's points; absent = two hundred points over an open loop. [s]
    watch : callable
        Called with requests answered and requests in all, every so often; a KeyboardInterrupt there
        ends the run with what is done, marked partial.
    """
    loop = loop_of(replica, requests=requests, clients=clients, every_s=every_s)
    return play_run(loop, watch)


class Loop(NamedTuple):
    """A run that has not begun: the compiled loop's arrays, and what they were made from."""

    world: Any
    states: Any
    script: Any
    requests: Requests
    num_refused: int
    first: float = 1.0
    """`StepArrays.first`."""


def loop_of(
    replica: ReplicaArrays,
    *,
    requests: Requests,
    replicas: int = 1,
    clients: int | None = None,
    every_s: float | None = None,
) -> Loop:
    """
    A run on replicas that are all on, or by clients of one replica.

    Requests that can never be admitted are left out, and counted; `every_s` is that of `simulate`.
    """
    import numpy as np

    from tonnage.simulation import loop_state as parts

    sent = select_requests(requests, ~never_admitted(requests, replica.limits))
    n = len(sent.prompt)
    world = parts.new_world(replica.table, replica.limits, requests=sent)
    span = float(sent.sent_s[-1]) if n and clients is None else 0.0
    every = every_s or (span * 1.1 / 200.0 if span > 0 else 1.0)
    control = np.zeros(1, parts.CONTROL)
    for name, value in (
        ("every_s", every),
        ("delivery_s", replica.delivery_s),
        ("look_s", np.inf),
        ("low_since_s", np.nan),
    ):
        control[name] = value
    callers, power = np.zeros(min(clients or 0, n), parts.CLIENT), np.zeros(replicas, parts.POWER)
    callers["ready_s"], power["ready_s"] = np.inf, -np.inf
    power["since_s"] = sent.sent_s[0] if n else 0.0
    samples = np.zeros((min(MOST_SAMPLES, int(span * 1.5 / every) + 2) if span > 0 else 0, 5))
    control["samples"], control["clients"], control["replicas"] = len(samples), len(callers), replicas
    return Loop(
        world=world,
        states=parts.new_states(world, replicas),
        script=parts.Script(control, samples, callers, power),
        requests=sent,
        num_refused=len(requests.prompt) - n,
        first=replica.table.first,
    )


def play_run(loop: Loop, watch: Callable[[int, int], None] | None = None, *, routed: bool = False) -> Simulated:
    """The run, to its end or to a KeyboardInterrupt of who watches; nobody else is handed half a run."""
    from tonnage.simulation import compiled

    n, partial = len(loop.requests.prompt), False
    try:
        while loop.states.tally["finished"].sum() < n:
            before = _progress(loop)
            compiled.play(loop.world, loop.states, loop.script, PIECE)
            if watch is not None:
                watch(int(loop.states.tally["finished"].sum()), n)
            assert _progress(loop) > before, "the loop stands still"
    except KeyboardInterrupt:
        if watch is None:
            raise
        partial = True
    return _summarize(loop, partial=partial, routed=routed)


def _progress(loop: Loop) -> int:
    """Rounds and arrivals so far: while a cache overflows, thousands may come before any request ends."""
    return int(sum(loop.states.tally[name].sum() for name in ("rounds", "waiting", "running", "finished")))


def _timeline(samples: Floats) -> Timeline:
    """Rows of the loop's samples as columns; tokens said so far become a rate since the sample before."""
    import numpy as np

    spacing, said = np.diff(samples[:, 0], prepend=0.0), np.diff(samples[:, 4], prepend=0.0)
    return Timeline(
        at_s=samples[:, 0],
        running=samples[:, 1],
        waiting=samples[:, 2],
        used_blocks=samples[:, 3],
        tokens_per_s=np.divide(said, spacing, out=np.zeros_like(said), where=spacing > 0),
    )


def _summarize(loop: Loop, *, partial: bool, routed: bool) -> Simulated:
    """
    What a run that has ended, or is `partial`, found; who answered and what was paid only where it was `routed`.

    First tokens come later by the measured factor `loop.first`, and so do the last ones; steps know nothing of it.
    """
    import numpy as np

    asked, power = loop.world.asked, loop.script.power
    sums = {name: loop.states.tally[name].sum() for name in loop.states.tally.dtype.names}
    assert partial or sums["finished"] == len(asked), "the loop stopped before all had ended"
    sent, last = np.ascontiguousarray(asked["sent_s"]), np.ascontiguousarray(asked["last_s"])
    begin = float(sent[0]) if len(sent) else 0.0
    end = float(np.nanmax(last)) if np.isfinite(last).any() else float(sent[-1]) if len(sent) else 0.0
    paid = power["paid_s"] + np.where(np.isnan(power["since_s"]), 0.0, np.maximum(0.0, end - power["since_s"]))
    later = (loop.first - 1.0) * (asked["first_s"] - sent)
    columns = {name: np.ascontiguousarray(asked[name]) for name in ("started_s", "first_s", "preempted")}
    columns["first_s"] = columns["first_s"] + later
    return Simulated(
        requests=loop.requests._replace(sent_s=sent),
        last_s=last + later,
        **columns,
        gaps=loop.states.gaps.sum(axis=0),
        timeline=_timeline(loop.script.samples[: int(loop.script.control["sampled"][0])]),
        num_refused=loop.num_refused,
        steps=int(sums["steps"]),
        rounds=int(sums["rounds"]),
        busy_s=float(sums["busy_s"]),
        host_s=float(sums["host_s"]),
        prompt_s=float(sums["prompts_s"]),
        kv_blocked_s=float(sums["kv_s"]),
        seats_blocked_s=float(sums["seats_s"]),
        prompt_tokens=int(sums["prompt"]),
        cached_tokens=int(sums["hit"]),
        recalled_tokens=int(sums["recalled_all"]),
        free_blocks=int(sums["free"]),
        partial=partial,
        span_s=max(end - begin, 1e-12),
        cold_hits=int(loop.script.control["cold"][0]),
        replica=np.ascontiguousarray(asked["owner"]) if routed else np.zeros(0, np.int64),
        paid_s=paid if routed else np.zeros(0),
    )


def gap_quantile(gaps: Ints, quantile: float) -> float | None:
    """A quantile of the gaps between tokens, to the one per cent at which they are counted; absent without gaps. [s]"""
    import numpy as np

    from tonnage.simulation.loop_state import GAP_LEAST, GAP_RATIO

    total = int(gaps.sum())
    if total == 0:
        return None
    place = int(np.searchsorted(np.cumsum(gaps), quantile * (total - 1), side="right"))
    return float(GAP_LEAST * np.exp((place + 0.5) * GAP_RATIO))
