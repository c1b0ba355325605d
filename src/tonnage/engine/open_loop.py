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

import msgspec

from tonnage.engine.closed_loop import Load, saturated_loop
from tonnage.engine.served import Served
from tonnage.engine.steps import StepTable

__all__ = ["open_loop"]

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


def _rate_at(table: StepTable, load: Load, running: float) -> float:
    """Requests per second when `running` of them decode together on average."""
    return running / (load.output_tokens * _step_s(table, load, running)[0])


def _step_s(table: StepTable, load: Load, running: float) -> tuple[float, float]:
    """Mean step with its share of prompts, and the part of the token budget those prompts take."""
    context = load.prompt_tokens + load.output_tokens / 2.0
    decode = table.decode_s(max(running, 1.0), context)
    each = running / load.output_tokens
    if not load.mixed:
        alone = table.mixed_step_s(prompt_tokens=load.prompt_tokens, prompts=1.0, sequences=0.0, context=0.0)
        return decode + each * alone, each * alone / (decode + each * alone)
    # Every finished request is replaced: R / n prompts enter per step.
    tokens = each * load.prompt_tokens
    room = max(load.budget - running, load.budget * 0.02)
    carried = min(max(tokens, load.prompt_tokens), room)
    mixed = table.mixed_step_s(
        prompt_tokens=carried,
        prompts=carried / load.prompt_tokens,
        sequences=max(running, 1.0),
        context=context,
        cached=max(0.0, load.prompt_tokens - carried) / 2.0,
    )
    share = tokens / carried
    if share <= 1.0:
        return decode + share * (mixed - decode), tokens / room
    return share * mixed, 1.0


def _at(table: StepTable, load: Load, running: float, rate: float) -> Served:
    step, filled = _step_s(table, load, running)
    context = load.prompt_tokens + load.output_tokens / 2.0
    beside = max(running, 1.0) if load.mixed else 0.0
    room = max(load.budget - beside, load.budget * 0.02)
    carried = min(load.prompt_tokens, room)
    own = table.mixed_step_s(
        prompt_tokens=carried, prompts=carried / load.prompt_tokens, sequences=beside, context=context
    ) * max(1.0, load.prompt_tokens / carried)  # fmt: skip
    filled = min(filled, _NEARLY_FULL)
    queue = own * filled / (2.0 * (1.0 - filled))
    ttft = table.overheads.request_s + step / 2.0 + queue + own
    return Served(
        ttft_s=ttft,
        tpot_s=step,
        e2e_s=ttft + max(0.0, load.output_tokens - 1.0) * step,
        requests_per_s=rate,
        running=running,
    )
