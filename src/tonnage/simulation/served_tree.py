"""How latencies and rates follow from steps: the tree of each number that `Served` holds, by kind of traffic.

A steady state is a weighted mean of its kinds of step. A simulated loop is opened by its log: the time of every request
is divided among the steps that ran meanwhile, and each kind of step is opened at its mean shape. Values are those of
the functions that predict (`capacity`, `closed_loop`, `static`), whose terms are read here and never computed again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from tonnage.domain.answer import Opened, Quantity
from tonnage.simulation.capacity import ReplicaLoad, ReplicaTimes, mean_step
from tonnage.simulation.closed_loop import LoopLog, RequestSeen, round_weights
from tonnage.simulation.served import Served
from tonnage.simulation.step_tree import StepTrees
from tonnage.simulation.steps import MixedStep

__all__ = [
    "ServedTree",
    "closed_tree",
    "formula_tree",
    "held_tree",
    "pooled_tree",
    "steady_tree",
]

TTFT: Final = "TTFT"
TPOT: Final = "TPOT"
E2E: Final = "end to end"
_DECODE: Final = "decode steps"
_MIXED: Final = "prefill steps"


class ServedTree(msgspec.Struct, frozen=True, kw_only=True):
    """Mean latencies of a replica, opened, and what one request costs it."""

    ttft: Quantity
    tpot: Quantity
    e2e: Quantity
    work: float
    """Requests that take `cost` together; 0 where a simulation alone says how many."""
    cost: tuple[Quantity, ...]
    """Seconds whose quotient is the replica's rate; none where the traffic states the rate."""


def steady_tree(
    times: ReplicaTimes,
    load: ReplicaLoad,
    *,
    concurrency: float,
    overload: bool,
    decode: Callable[[float], Quantity],
    prefill: tuple[Quantity, Quantity],
) -> ServedTree:
    """
    Arrivals at a rate: the closed form of `capacity.at_concurrency`, its terms opened.

    `decode` opens the step of a tabulated batch; `prefill` is one mean prompt alone, and what one takes from decodes.
    """
    alone, share = prefill
    tokens = max(1.0, load.output_tokens - 1.0)
    step = _between(times, concurrency, decode)
    mean = mean_step(times, load, concurrency=concurrency)
    added, prompts = mean.total_s - mean.decode_s, concurrency / tokens
    tpot = Quantity.total(
        TPOT,
        (
            step,
            Quantity.total(
                "prompts that share steps",
                (share,),
                times=added / share.value,
                how=f"{prompts:.3g} prompts a step, {added * 1e3:.3g} ms",
            ),
        ),
        how=f"steady state of {concurrency:.3g} requests",
    )
    ttft = Quantity.total(
        TTFT,
        (
            Quantity.total(
                "queueing delay",
                (step,),
                times=mean.wait_s / step.value,
                how=f"rest of the running step and prompts that came with it: {mean.wait_s * 1e3:.3g} ms",
            ),
            Quantity.total(
                "own step",
                (alone,),
                times=mean.own_s / alone.value,
                how="a prompt alone, or beside running decodes where that takes longer",
            ),
        ),
    )
    if not overload:
        return _build_tree(ttft, tpot, load.output_tokens - 1.0, work=1.0, cost=())
    cost = Quantity.total(
        "time in the batch",
        (
            Quantity.total(_DECODE, (step,), times=tokens, how=f"{tokens:.4g} steps"),
            Quantity.total(
                "prompts of all", (share,), times=tokens * added / share.value, how=f"{concurrency:.4g} prompts"
            ),
        ),
    )
    return _build_tree(ttft, tpot, load.output_tokens - 1.0, work=concurrency, cost=(cost,))


def _between(times: ReplicaTimes, batch: float, decode: Callable[[float], Quantity]) -> Quantity:
    """The decode step at a batch, linear between two tabulated ones and never shorter than a smaller batch's."""
    sizes = times.batches

    def at(i: int) -> Quantity:
        # Host work may make a larger batch look no slower.
        return max((decode(sizes[j]) for j in range(i + 1)), key=lambda node: node.value)

    above = next((i for i, size in enumerate(sizes) if batch <= size), None)
    if above is None:
        return Quantity.total(
            "decode step", (at(len(sizes) - 1),), times=batch / sizes[-1], how="beyond the largest batch"
        )
    if above == 0:
        return at(0)
    share = (batch - sizes[above - 1]) / (sizes[above] - sizes[above - 1])
    parts = tuple(
        Quantity.total(f"step of {sizes[i]:.4g}", (at(i),), times=weight, how=f"{weight:.1%} of it")
        for i, weight in ((above - 1, 1.0 - share), (above, share))
        if weight
    )
    return Quantity.total("decode step", parts, how=f"{batch:.4g} requests, between two batches")


def formula_tree(found: Served) -> ServedTree:
    """What a formula over an `OpenTable` made: a full replica, a batch, a burst."""

    def whole(name: str, seconds: float) -> Quantity:
        assert isinstance(seconds, Opened)
        return Quantity.total(name, seconds.nodes)

    assert isinstance(found.requests_per_s, Opened)
    rate = found.requests_per_s.nodes[0]
    ttft, tpot, e2e = (whole(*each) for each in ((TTFT, found.ttft_s), (TPOT, found.tpot_s), (E2E, found.e2e_s)))
    return ServedTree(ttft=ttft, tpot=tpot, e2e=e2e, work=rate.times, cost=rate.parts)


def closed_tree(trees: StepTrees, log: LoopLog, *, clients: float, requests: int | None) -> ServedTree:
    """A simulated loop of clients: the mean request's time, divided among the steps that ran meanwhile."""
    opened = _Loop(trees, log)
    weighted = list(_weight_requests(log.requests, round_weights(requests, clients=clients)))
    ttft = Quantity.total(
        TTFT,
        (
            trees.request(),
            opened.during("queueing delay", ((r.sent_s, r.begun_s, w) for w, r in weighted), per="request"),
            opened.during("own prefill", ((r.begun_s, r.first_s, w) for w, r in weighted), per="request"),
        ),
        how=f"mean over the requests of {clients:g} clients, the common start included",
    )
    each = ((r.first_s, r.ended_s, w / max(1.0, r.output_tokens - 1.0)) for w, r in weighted)
    tpot = opened.during(TPOT, each, per="token")
    decode = opened.during("decode", ((r.first_s, r.ended_s, w) for w, r in weighted), per="request")
    e2e = Quantity.total(E2E, (ttft, decode))
    return ServedTree(ttft=ttft, tpot=tpot, e2e=e2e, work=clients, cost=(e2e,))


def _weight_requests(requests: list[RequestSeen], weights: list[float]) -> Iterator[tuple[float, RequestSeen]]:
    """Requests with their share of the mean, as `closed_loop` takes it."""
    total = sum(weights)
    counts = [sum(r.round == i for r in requests) for i in range(len(weights))]
    for seen in requests:
        if weights[seen.round]:
            yield weights[seen.round] / counts[seen.round] / total, seen


class _Mean(NamedTuple):
    """Steps of one kind inside some windows of time, weighted."""

    time_s: float = 0.0
    steps: float = 0.0
    tokens: float = 0.0
    prompts: float = 0.0
    sequences: float = 0.0
    context: float = 0.0
    cached: float = 0.0

    def with_part(self, spent: float, weight: float, asked: MixedStep) -> _Mean:
        """With so many seconds and such a share of one more step; shapes are summed over steps."""
        return _Mean(
            self.time_s + spent,
            self.steps + weight,
            self.tokens + weight * asked.prompt_tokens,
            self.prompts + weight * asked.prompts,
            self.sequences + weight * asked.sequences,
            self.context + weight * asked.context,
            self.cached + weight * asked.cached,
        )


class _Loop:
    """The log of a loop, from which windows of time are opened into the steps that ran in them."""

    def __init__(self, trees: StepTrees, log: LoopLog) -> None:
        self.trees, self.log = trees, log
        self.starts = [started for started, _, _ in log.times]

    def during(self, name: str, windows: Iterable[tuple[float, float, float]], *, per: str) -> Quantity:
        """Windows (from, to, weight) as one sum over the kinds of steps in them."""
        kinds: dict[str, _Mean] = {}
        for begin, end, weight in windows:
            for asked, step_s, spent in self._within(begin, end):
                kind = _DECODE if not asked.prompts else _MIXED if not asked.sequences else "mixed steps"
                kinds[kind] = kinds.get(kind, _Mean()).with_part(weight * spent, weight * spent / step_s, asked)
        found = tuple(self._kind(kind, mean, per) for kind, mean in kinds.items() if mean.time_s > 0.0)
        return Quantity.total(
            name, tuple(sorted(found, key=lambda node: -node.value)), how="the steps that ran meanwhile"
        )

    def _within(self, begin: float, end: float) -> Iterator[tuple[MixedStep, float, float]]:
        """Steps that run in a window, each with its length and its time inside."""
        at = max(0, bisect_right(self.starts, begin) - 1)
        while at < len(self.starts) and self.starts[at] < end:
            started, step_s, count = self.log.times[at]
            spent = min(end, started + step_s * count) - max(begin, started)
            if spent > 0.0:
                yield self.log.asked[at], step_s, spent
            at += 1

    def _kind(self, kind: str, mean: _Mean, per: str) -> Quantity:
        """One kind of step at its mean shape, as often as makes up its time."""
        tokens, prompts, sequences, context, cached = (total / mean.steps for total in mean[2:])
        if prompts:
            dealt = any(asked.dealt for asked in self.log.asked)
            shape = MixedStep(tokens, prompts, sequences, context, cached, dealt)
            step = self.trees.mixed("mean step", shape)
        else:
            step = self.trees.decode("mean step", sequences, context=context)
        return Quantity.total(kind, (step,), times=mean.time_s / step.value, how=f"steps a {per}, averaged")


def pooled_tree(
    trees: tuple[StepTrees, StepTrees],
    found: Served,
    *,
    prompt: tuple[float, float],
    decode_workers: float,
    clients: float,
) -> ServedTree:
    """Prefill and decode on workers of their own, as simulated; `prompt` is its tokens and its cache's transfer. [s]"""
    prefill, decode = trees
    tokens, transfer_s = prompt
    own = Quantity.total("own prefill", (prefill.mixed("prefill step", MixedStep(tokens, 1.0)),))
    move = Quantity(
        name="KV transfer", value=transfer_s, unit="s", how="the prompt's cache to the decode worker, over the network"
    )
    request = prefill.request()
    queued = found.ttft_s - request.value - own.value - transfer_s
    queue = Quantity(
        name="queueing delay",
        value=queued,
        unit="s",
        how="for a prefill worker, for others in its step, for a slot",
    )
    ttft = Quantity.total(TTFT, (request, own, move, queue), how=f"mean over the requests of {clients:g} clients")
    running = max(1.0, found.running / decode_workers)
    step = decode.decode("mean step", running, context=decode.grid.contexts[1])
    told = f"steps of a decode worker, opened at {running:.3g} sequences"
    tpot = Quantity.total(TPOT, (step,), times=found.tpot_s / step.value, how=told)
    further = (found.e2e_s - found.ttft_s) / found.tpot_s
    e2e = Quantity.total(
        E2E, (ttft, Quantity.total("decode", (tpot,), times=further, how=f"{further:.4g} further tokens"))
    )
    return ServedTree(ttft=ttft, tpot=tpot, e2e=e2e, work=0.0, cost=())


def held_tree(tree: ServedTree, steps: float) -> ServedTree:
    """The same where a setting of the engine holds prompts back for so many decode steps."""
    if steps <= 0.0:
        return tree
    held = Quantity.total("held for batching", (tree.tpot,), times=steps, how=f"{steps:.3g} decode steps on average")
    ttft = Quantity.total(tree.ttft.name, (*tree.ttft.parts, held), how=tree.ttft.how)
    e2e = Quantity.total(tree.e2e.name, (ttft, *tree.e2e.parts[1:]), how=tree.e2e.how)
    cost = tuple(e2e if part.name == tree.e2e.name else part for part in tree.cost)
    return msgspec.structs.replace(tree, ttft=ttft, e2e=e2e, cost=cost)


def _build_tree(
    ttft: Quantity, tpot: Quantity, tokens: float, *, work: float, cost: tuple[Quantity, ...]
) -> ServedTree:
    """Latencies whose whole is the first token and so many further ones."""
    tokens = max(0.0, tokens)
    decode = Quantity.total("decode", (tpot,), times=tokens, how=f"{tokens:.4g} further tokens")
    return ServedTree(ttft=ttft, tpot=tpot, e2e=Quantity.total(E2E, (ttft, decode)), work=work, cost=cost)
