"""Requests that arrive at a rate: the steady state of a continuous batch, without simulating.

While R requests decode, prompts arrive at rate lam and share the steps. With M(q, R) the step that
carries q prompt tokens beside R decodes (or D(R) alone and prompts in steps of their own, S seconds
each, for engines that separate them):

    T = M(lam T p, R)    or    T = D(R) / (1 - lam S)          R = lam n T

solved by bisection on R. A first token waits for the running step, its own step, and a queue that
grows as prompts fill the token budget (M/D/1). The load is saturated when no R up to the slots
carries it. Percentiles need the simulator.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tonnage.engine.closed_loop import Load, saturated_loop
from tonnage.engine.served import Served
from tonnage.engine.steps import MixedStep, StepTable

__all__ = ["MeanStep", "first_step", "mean_step", "open_loop", "queue_s"]

_NEARLY_FULL = 0.98


def open_loop(table: StepTable, load: Load, *, rate_per_s: float) -> Served:
    """The steady state at a Poisson rate; the replica's most, marked saturated, when the rate exceeds it."""
    if _rate_at(table, load, load.slots) <= rate_per_s:
        return msgspec.structs.replace(saturated_loop(table, load), saturated=True)
    low, high = 1e-3, load.slots
    for _ in range(40):
        middle = (low * high) ** 0.5
        if _rate_at(table, load, middle) < rate_per_s:
            low = middle
        else:
            high = middle
        if high / low < 1.002:
            break
    return _at(table, load, high, rate_per_s)


class MeanStep(NamedTuple):
    """The mean step of a replica in steady state, and what it is the mean of."""

    seconds: float
    """With its share of prompts. [s]"""
    filled: float
    """Of the token budget, taken by those prompts. [-]"""
    sequences: float
    context: float
    mixed: MixedStep
    share: float
    """Mixed steps per step; above 1 every step is one, and longer by it. Where prompts have steps of their own: those
    per decode step. [-]"""


def mean_step(table: StepTable, load: Load, *, running: float) -> MeanStep:
    """The mean step when so many requests decode together, each replaced when it ends."""
    context = load.prompt_tokens + load.output_tokens / 2.0
    sequences = max(running, 1.0)
    decode = table.decode_s(sequences, context)
    each = running / load.output_tokens
    if not load.mixed:
        own = MixedStep(load.prompt_tokens, 1.0)
        alone = table.seconds_of(own)
        seconds = decode + each * alone
        return MeanStep(seconds, each * alone / seconds, sequences, context, own, each)
    # Every finished request is replaced: R / n prompts enter per step.
    tokens = each * load.prompt_tokens
    room = max(load.budget - running, load.budget * 0.02)
    carried = min(max(tokens, load.prompt_tokens), room)
    step = MixedStep(
        prompt_tokens=carried,
        prompts=carried / load.prompt_tokens,
        sequences=sequences,
        context=context,
        cached=max(0.0, load.prompt_tokens - carried) / 2.0,
    )
    mixed, share = table.seconds_of(step), tokens / carried
    if share <= 1.0:
        return MeanStep(decode + share * (mixed - decode), tokens / room, sequences, context, step, share)
    return MeanStep(share * mixed, 1.0, sequences, context, step, share)


def first_step(load: Load, running: float) -> tuple[MixedStep, float]:
    """The step that takes an arriving prompt, or its first chunk, and how many of them the prompt needs."""
    context = load.prompt_tokens + load.output_tokens / 2.0
    beside = max(running, 1.0) if load.mixed else 0.0
    room = max(load.budget - beside, load.budget * 0.02)
    carried = min(load.prompt_tokens, room)
    own = MixedStep(carried, carried / load.prompt_tokens, beside, context)
    return own, max(1.0, load.prompt_tokens / carried)


def queue_s(own: float, filled: float) -> float:
    """Mean wait for prompts ahead, where a prompt's own step takes so long: M/D/1. [s]"""
    filled = min(filled, _NEARLY_FULL)
    return own * filled / (2.0 * (1.0 - filled))


def _rate_at(table: StepTable, load: Load, running: float) -> float:
    """Requests per second when `running` of them decode together on average."""
    return running / (load.output_tokens * mean_step(table, load, running=running).seconds)


def _at(table: StepTable, load: Load, running: float, rate: float) -> Served:
    mean = mean_step(table, load, running=running)
    step, (first, times) = mean.seconds, first_step(load, running)
    own = table.seconds_of(first) * times
    ttft = table.overheads.request_s + step / 2.0 + queue_s(own, mean.filled) + own
    return Served(
        ttft_s=ttft,
        tpot_s=step,
        e2e_s=ttft + max(0.0, load.output_tokens - 1.0) * step,
        requests_per_s=rate,
        running=running,
    )
