"""Several replicas behind a router, and an autoscaler that starts and stops them: a fleet over a day.

The router takes turns, or sends each request to the ready replica with the fewest in flight. The
autoscaler looks every so often: it wants so many replicas that each has about a given number of
requests in flight, starts what is missing (of use after a cold start, paid for at once), and drains one
at a time when load has been too low for long enough. Fewest 0 is scale to zero: a request that finds
nobody ready waits for the start. A replica's step that has begun counts as done when the router looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from tonnage.engine.metrics import e2e_s, tpot_s, ttft_s
from tonnage.engine.serving import Timeline, kept, refused, typed
from tonnage.engine.simulated import Floats, Ints, Limits, Requests, StepArrays
from tonnage.errors import BadRequest

__all__ = ["FleetRun", "Scaling", "simulate_disaggregated", "simulate_fleet"]

Rule = Literal["round-robin", "least-loaded"]
PIECE = 200_000


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    """An autoscaler's settings."""

    in_flight: float
    """Requests in flight wanted per replica. [requests]"""
    fewest: int = 1
    cold_start_s: float = 0.0
    """From the decision to the first step: machine, weights, warm-up. [s]"""
    every_s: float = 15.0
    """Between two looks. [s]"""
    keep_s: float = 300.0
    """Load too low for this long takes one replica away. [s]"""


class FleetRun(NamedTuple):
    """What a fleet's requests saw, and what was paid for."""

    requests: Requests
    replica: Ints
    """Who answered each request."""
    started_s: Floats
    first_s: Floats
    last_s: Floats
    preempted: Ints
    timeline: Timeline
    """Of all replicas together."""
    paid_s: Floats
    """Seconds each replica was paid for, its cold starts included."""
    cold_hits: int
    """Requests that found no replica ready."""
    num_refused: int
    gaps: Ints
    """Gaps between tokens by length, over all replicas."""
    steps: int
    prompt_tokens: int
    cached_tokens: int
    span_s: float
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

    @property
    def mean_replicas(self) -> float:
        """Replicas paid for, on average over the run. [replicas]"""
        return float(self.paid_s.sum()) / self.span_s


def simulate_fleet(
    table: StepArrays,
    limits: Limits,
    *,
    requests: Requests,
    replicas: int,
    rule: Rule = "least-loaded",
    scaling: Scaling | None = None,
    delivery_s: float = 0.0,
    watch: Callable[[int, int], None] | None = None,
) -> FleetRun:
    """
    Requests, as they are sent, on up to `replicas` replicas behind a router.

    Without `scaling` all of them are on from the start to the end.
    """
    import numpy as np

    from tonnage.engine import compiled, loop_state

    if replicas < 1:
        raise BadRequest(f"replicas {replicas} must be at least 1")
    sent = kept(requests, ~refused(requests, limits))
    n = len(sent.prompt)
    if not n:
        raise BadRequest("no request fits the cache of one replica; there is nothing to simulate")
    world = loop_state.World(typed(table), typed(limits), sent, loop_state.new_book(n))
    states = loop_state.new_states(world, replicas)
    span = float(sent.sent_s[-1] - sent.sent_s[0])
    every = max(span / 200.0, 1e-3)
    script = loop_state.Script(
        cursor=np.zeros(4, np.int64),
        samples=np.zeros((min(20_000, int(float(sent.sent_s[-1]) * 1.5 / every) + 2), 5)),
        every_s=every,
        delivery_s=delivery_s,
        ready=np.zeros(0),
        due=np.zeros(0, np.int64),
        owner=np.zeros(n, np.int64),
        rule={"round-robin": loop_state.ROUND_ROBIN, "least-loaded": loop_state.LEAST_LOADED}[rule],
        power=_power(replicas, scaling, float(sent.sent_s[0])),
        scaling=_settings(replicas, scaling, float(sent.sent_s[0])),
    )
    partial = False
    try:
        while int(states.tally[:, loop_state.FINISHED].sum()) < n:
            compiled.play(world, states, script, PIECE)
            if watch is not None:
                watch(int(script.cursor[loop_state.ARRIVED]), n)
    except KeyboardInterrupt:
        partial = True
    return _told(world, states, script, refusals=len(requests.prompt) - n, partial=partial)


def _power(replicas: int, scaling: Scaling | None, begin: float) -> Floats:
    import numpy as np

    power = np.zeros((replicas, 4))
    power[:, 0], power[:, 3] = begin, -math.inf
    if scaling is not None:
        power[scaling.fewest :, 0] = np.nan
    return power


def _settings(replicas: int, scaling: Scaling | None, begin: float) -> Floats:
    import numpy as np

    if scaling is None:
        return np.full(8, np.inf)
    s = scaling
    if not (s.in_flight > 0 and s.every_s > 0 and 0 <= s.fewest <= replicas and s.cold_start_s >= 0 and s.keep_s >= 0):
        raise BadRequest(
            f"scaling: in_flight {s.in_flight:g} and every_s {s.every_s:g} must be above 0, fewest {s.fewest} at most"
            f" {replicas} replicas, times at least 0"
        )
    return np.array([s.every_s, s.in_flight, s.cold_start_s, s.fewest, replicas, s.keep_s, begin + s.every_s, np.nan])


def _told(world: Any, states: Any, script: Any, *, refusals: int, partial: bool) -> FleetRun:
    import numpy as np

    from tonnage.engine.loop_state import COLD, HIT, PAID, PROMPT, SAMPLED, SINCE, STEPS

    sent, book = world.requests, world.book
    end = float(np.nanmax(book.last_s)) if np.isfinite(book.last_s).any() else float(sent.sent_s[-1])
    since = script.power[:, SINCE]
    paid = script.power[:, PAID] + np.where(np.isnan(since), 0.0, np.maximum(0.0, end - since))
    seen = script.samples[: script.cursor[SAMPLED]]
    spacing, said = np.diff(seen[:, 0], prepend=0.0), np.diff(seen[:, 4], prepend=0.0)
    timeline = Timeline(
        at_s=seen[:, 0], running=seen[:, 1], waiting=seen[:, 2], used_blocks=seen[:, 3],
        tokens_per_s=np.divide(said, spacing, out=np.zeros_like(said), where=spacing > 0),
    )  # fmt: skip
    return FleetRun(
        requests=sent, replica=script.owner, started_s=book.started_s, first_s=book.first_s, last_s=book.last_s,
        preempted=book.preempted, timeline=timeline, paid_s=paid, cold_hits=int(script.cursor[COLD]),
        num_refused=refusals, gaps=states.gaps.sum(axis=0), steps=int(states.tally[:, STEPS].sum()),
        prompt_tokens=int(states.tally[:, PROMPT].sum()), cached_tokens=int(states.tally[:, HIT].sum()),
        span_s=max(end - float(sent.sent_s[0]), 1e-12), partial=partial,
    )  # fmt: skip


def simulate_disaggregated(
    tables: tuple[StepArrays, StepArrays],
    limits: tuple[Limits, Limits],
    *,
    requests: Requests,
    workers: tuple[int, int],
    transfer_s: Floats,
    delivery_s: float = 0.0,
) -> FleetRun:
    """
    Prompts on one pool of workers, answers on another: each pair of arguments is (prefill, decode).

    The first token is said by the prefill worker; the cache then takes `transfer_s` seconds of each
    request to reach a decode worker, where the first step computes the key and value of that token. A
    request preempted there is computed again from its prompt.
    """
    import numpy as np

    bad = refused(requests, limits[1]) | refused(requests, limits[0])
    sent, moved = kept(requests, ~bad), np.asarray(transfer_s, float)[~bad]
    first = simulate_fleet(
        tables[0], limits[0], requests=sent._replace(output=np.ones_like(sent.output)), replicas=workers[0],
        delivery_s=delivery_s,
    )  # fmt: skip
    longer = sent.output > 1
    arrive = first.first_s + moved
    order = np.argsort(arrive[longer], kind="stable")
    rows = np.nonzero(longer)[0][order]
    last, started, preempted = first.first_s.copy(), first.started_s, np.zeros(len(arrive), np.int64)
    paid, timeline = first.paid_s, first.timeline
    if len(rows):
        following = sent._replace(
            sent_s=arrive[rows], prompt=sent.prompt[rows] + 1, output=sent.output[rows] - 1, cached=sent.prompt[rows],
            priority=sent.priority[rows], think_s=sent.think_s[rows], offsets=np.zeros(1, np.int64),
            blocks=np.zeros(0, np.int64), num_ids=0,
        )  # fmt: skip
        second = simulate_fleet(
            tables[1], limits[1]._replace(cached_again=False), requests=following, replicas=workers[1]
        )
        last[rows], preempted[rows] = second.last_s, second.preempted
        # Between first and second token stands the transfer; the rest is the second pool's own.
        first = first._replace(
            gaps=second.gaps, steps=first.steps + second.steps,
            prompt_tokens=first.prompt_tokens + second.prompt_tokens - len(rows),
        )  # fmt: skip
        paid, timeline = np.concatenate((paid, second.paid_s)), second.timeline
    end = float(last.max())
    return first._replace(
        requests=sent, started_s=started, last_s=last, preempted=preempted, timeline=timeline,
        paid_s=np.full(len(paid), end - float(sent.sent_s[0])), num_refused=int(bad.sum()),
        span_s=max(end - float(sent.sent_s[0]), 1e-12),
    )  # fmt: skip
