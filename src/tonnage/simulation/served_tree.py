"""How latencies and rates follow from steps: the tree of each number that `Served` holds, by kind of traffic.

A steady state is a weighted mean of its kinds of step. A simulated loop is opened by its log: the time of every request
is divided among the steps that ran meanwhile, and each kind of step is opened at its mean shape. Values are those of
the functions that predict (`capacity`, `closed_loop`), whose terms are read here and never computed again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.domain.answer import Opened, Quantity, named
from tonnage.domain.metrics import SPEEDS
from tonnage.simulation.closed_loop import LoopLog
from tonnage.simulation.mean_step import MeanStep
from tonnage.simulation.simulated import Served
from tonnage.simulation.step_tree import OpenTable
from tonnage.simulation.steps import MixedStep

TTFT, TPOT = (metric.title for metric in SPEEDS)
E2E: Final = "end to end"
_DECODE: Final = "decode steps"
_MIXED: Final = "prefill steps"


class ServedTree(NamedTuple):
    """Mean latencies of a replica, opened, and what one request costs it."""

    ttft: Quantity
    tpot: Quantity
    e2e: Quantity
    work: float = 0.0
    """Requests that take `cost` together; 0 where a simulation alone says how many."""
    cost: tuple[Quantity, ...] = ()
    """Seconds whose quotient is the replica's rate; none where the traffic states the rate."""


def steady_tree(
    step: MeanStep, *, decode: Quantity, prefill: tuple[Quantity, Quantity], tokens: float, busy: float
) -> ServedTree:
    """
    A steady state in which `busy` requests decode: the terms of its mean `step`, opened.

    `decode` is the step of those who decode; `prefill` is one mean prompt alone, and the same before it reaches the
    engine's steps.
    """
    alone, share = prefill
    beside = f"{busy / max(1.0, tokens - 1.0):.3g} prompts a step"
    tpot = Quantity.total(
        TPOT,
        (
            _filled("decode step", decode, step.decode_s, how="of the batch that a running request sees"),
            _filled("prompts that share steps", share, step.token_s - step.decode_s, how=beside),
        ),
        how=f"steady state of {busy:.3g} requests",
    )
    waits = f"for a slot, the running step and prompts that came before: {step.wait_s * 1e3:.3g} ms"
    own = "a prompt alone, or beside running decodes where that takes longer"
    ttft = Quantity.total(
        TTFT,
        (_filled("queueing delay", decode, step.wait_s, how=waits), _filled("own step", alone, step.own_s, how=own)),
    )
    return _tree_of(ttft, tpot, tokens - 1.0)


def _filled(name: str, inside: Quantity, seconds: float, *, how: str) -> Quantity:
    """So many seconds, as often what is `inside` as makes them up."""
    return Quantity.total(name, (inside,), times=seconds / inside.value, how=how)


def formula_tree(found: Served) -> ServedTree:
    """What a formula over an `OpenTable` made: a full replica, a batch, a burst."""
    rate = node_of(found.requests_per_s)
    latencies = (sum_of(TTFT, found.ttft_s), sum_of(TPOT, found.tpot_s), sum_of(E2E, found.e2e_s))
    return ServedTree(*latencies, rate.times, rate.parts)


def sum_of(name: str, seconds: float, *, how: str = "") -> Quantity:
    """A number of a formula by its name."""
    assert isinstance(seconds, Opened)
    return Quantity.total(name, seconds.nodes, how=how)


def closed_tree(table: OpenTable, log: LoopLog, *, clients: float) -> ServedTree:
    """A simulated loop of clients: the mean request's time, divided among the steps that ran meanwhile."""
    opened = _Loop(table, log)
    prepared_s = table.overheads.ahead * sum(w * r.tpot_s for w, r in log.requests) * (clients > 1.0)
    prepared = table.pricing.leaf("steps prepared before it came", prepared_s, how="mean time per token")
    ttft = Quantity.total(
        TTFT,
        (
            table.pricing.request(table.overheads),
            *((prepared,) if prepared_s else ()),
            opened.during("queueing delay", ((r.sent_s, r.begun_s, w) for w, r in log.requests), per="request"),
            opened.during("own prefill", ((r.begun_s, r.first_s, w) for w, r in log.requests), per="request"),
        ),
        how=f"mean over the requests of {clients:g} clients, the common start included",
    )
    each = ((r.first_s, r.ended_s, w / max(1.0, r.output_tokens - 1.0)) for w, r in log.requests)
    tpot = opened.during(TPOT, each, per="token")
    decode = opened.during("decode", ((r.first_s, r.ended_s, w) for w, r in log.requests), per="request")
    e2e = Quantity.total(E2E, (ttft, decode))
    return ServedTree(ttft, tpot, e2e, clients, (e2e,))


def node_of(seconds: float, name: str | None = None) -> Quantity:
    """What an open table says, under its own name or another."""
    assert isinstance(seconds, Opened)
    return replace(seconds.nodes[0], name=name or seconds.nodes[0].name)


class _Loop(NamedTuple):
    """The log of a loop, from which windows of time are opened into the steps that ran in them."""

    table: OpenTable
    log: LoopLog

    def during(self, name: str, windows: Iterable[tuple[float, float, float]], *, per: str) -> Quantity:
        """Windows (from, to, weight) as one sum over the kinds of steps in them."""
        kinds: dict[str, list[tuple[float, float, MixedStep]]] = {}
        for begin, end, weight in windows:
            for asked, step_s, spent in self._within(begin, end):
                kind = _DECODE if not asked.prompts else _MIXED if not asked.sequences else "mixed steps"
                kinds.setdefault(kind, []).append((weight * spent, weight * spent / step_s, asked))
        found = [self._kind(kind, seen, per) for kind, seen in kinds.items()]
        return Quantity.total(
            name, tuple(sorted(found, key=lambda node: -node.value)), how="the steps that ran meanwhile"
        )

    def _within(self, begin: float, end: float) -> Iterator[tuple[MixedStep, float, float]]:
        """Steps that run in a window, each with its length and its time inside."""
        steps = self.log.steps
        at = max(0, bisect_right(steps, begin, key=lambda step: step[0]) - 1)
        while at < len(steps) and steps[at][0] < end:
            started, step_s, count, asked = steps[at]
            spent = min(end, started + step_s * count) - max(begin, started)
            if spent > 0.0:
                yield asked, step_s, spent
            at += 1

    def _kind(self, kind: str, seen: list[tuple[float, float, MixedStep]], per: str) -> Quantity:
        """One kind of step (seconds, steps, shape) at its mean shape, as often as makes up its time."""
        steps = sum(weight for _, weight, _ in seen)
        tokens, prompts, sequences, context, cached = (
            sum(weight * asked[k] for _, weight, asked in seen) / steps for k in range(5)
        )
        dealt = any(asked.dealt for *_, asked in self.log.steps)
        shape = MixedStep(tokens, prompts, sequences, context, cached, dealt)
        step = node_of(self.table.seconds_of(shape), "mean step")
        return _filled(kind, step, sum(spent for spent, _, _ in seen), how=f"steps a {per}, averaged")


def pooled_tree(
    prefill: OpenTable, decode: OpenTable, *, found: Served, prompt: tuple[float, float], running: float, clients: float
) -> ServedTree:
    """
    Prefill and decode on workers of their own, as simulated.

    `prompt` is its tokens and its cache's transfer [s], `running` what a decode worker runs together. [requests]
    """
    tokens, transfer_s = prompt
    first = prefill.request_s + named("own prefill", prefill.mixed_step_s(MixedStep(tokens, 1.0)))
    first += named("KV transfer", transfer_s, how="the prompt's cache to the decode worker, over the network")
    queued = "for a prefill worker, for others in its step, for a slot"
    first += named("queueing delay", found.ttft_s - first, how=queued)
    step = node_of(decode.decode_s(running, decode.grid.contexts[1]), "mean step")
    told = f"steps of a decode worker, opened at {running:.3g} sequences"
    return _tree_of(
        sum_of(TTFT, first, how=f"mean over the requests of {clients:g} clients"),
        _filled(TPOT, step, found.tpot_s, how=told),
        (found.e2e_s - found.ttft_s) / found.tpot_s,
    )


def held_tree(tree: ServedTree, steps: float) -> ServedTree:
    """The same where a setting of the engine holds prompts back for so many decode steps."""
    if steps <= 0.0:
        return tree
    held = Quantity.total("held for batching", (tree.tpot,), times=steps, how=f"{steps:.3g} decode steps on average")
    ttft = Quantity.total(TTFT, (*tree.ttft.parts, held), how=tree.ttft.how)
    e2e = Quantity.total(E2E, (ttft, *tree.e2e.parts[1:]))
    return tree._replace(ttft=ttft, e2e=e2e, cost=tuple(e2e if part.name == E2E else part for part in tree.cost))


def _tree_of(ttft: Quantity, tpot: Quantity, tokens: float) -> ServedTree:
    """Latencies whose whole is the first token and so many further ones."""
    tokens = max(0.0, tokens)
    decode = Quantity.total("decode", (tpot,), times=tokens, how=f"{tokens:.4g} further tokens")
    return ServedTree(ttft, tpot, Quantity.total(E2E, (ttft, decode)))
