"""Prefill and decode on separate workers, in a closed loop of clients.

Requests circle between the prefill pool (a queue: S seconds of a worker per prompt) and the decode
pool (R of them together per worker, D(R) seconds a token). The rate follows from the number of
clients, all of which are somewhere:

    C = lam (W + S + t_kv + n D(lam n D / workers))        W = S rho^(sqrt(2(w+1))-1) / (w (1 - rho)) / 2

with Sakasegawa's approximation for w servers and half of it for nearly constant service. When all
clients start together, their first prompts queue behind each other; a run of N requests each holds
that start as one N-th of its mean.
"""

from __future__ import annotations

import math

import msgspec

from tonnage.engine.served import Served
from tonnage.engine.steps import StepTable

__all__ = ["Pools", "disaggregated_loop"]


class Pools(msgspec.Struct, frozen=True, kw_only=True):
    """The two pools: step times of one worker of each, and how many there are."""

    prefill: StepTable
    prefill_workers: int
    decode: StepTable
    decode_workers: int
    slots: float
    """Most requests that one decode worker runs together. [requests]"""
    budget: float
    """Prompt tokens of one prefill step. [tokens]"""
    transfer_s: float
    """Moving one prompt's cache to the decode worker. [s]"""


def disaggregated_loop(
    pools: Pools, *, clients: float, prompt_tokens: float, output_tokens: float, requests_per_client: int | None = None
) -> Served:
    """Steady state of `clients`, and the mean over a run when `requests_per_client` is given."""
    steps = max(1.0, output_tokens - 1.0)
    context = prompt_tokens + output_tokens / 2.0
    alone, service = _prefill(pools, prompt_tokens)
    top = pools.prefill_workers / service
    low, high = top * 1e-6, top * 0.9999
    for _ in range(40):
        rate = math.sqrt(low * high)
        wait, tpot, running = _state(pools, rate, service=service, steps=steps, context=context)
        population = rate * (wait + alone + pools.transfer_s) + running
        if population < clients and running < pools.slots * pools.decode_workers:
            low = rate
        else:
            high = rate
        if high / low < 1.001:
            break
    wait, tpot, running = _state(pools, low, service=service, steps=steps, context=context)
    full = running >= 0.98 * pools.slots * pools.decode_workers
    if full:
        wait = max(wait, clients / low - (alone + pools.transfer_s) - steps * tpot)
    overheads = pools.prefill.overheads.request_s + pools.transfer_s
    ttft = wait + alone + overheads
    if requests_per_client:
        start = max(ttft, clients * service / pools.prefill_workers / 2.0 + alone + overheads)
        ttft += (start - ttft) / requests_per_client
    e2e = ttft + steps * tpot
    return Served(
        ttft_s=ttft, tpot_s=tpot, e2e_s=e2e, requests_per_s=min(low, clients / e2e), running=running, saturated=full
    )


def _prefill(pools: Pools, prompt_tokens: float) -> tuple[float, float]:
    """Seconds of one prompt alone, and of a worker's time per prompt when it batches them."""
    alone = pools.prefill.mixed_step_s(prompt_tokens=prompt_tokens, prompts=1.0, sequences=0.0, context=0.0)
    together = max(1.0, pools.budget / prompt_tokens)
    batched = pools.prefill.mixed_step_s(
        prompt_tokens=prompt_tokens * together, prompts=together, sequences=0.0, context=0.0, dealt=True
    )
    return alone, min(alone, batched / together)


def _state(
    pools: Pools, rate: float, *, service: float, steps: float, context: float
) -> tuple[float, float, float]:  # fmt: skip
    """Wait for prefill, time per token, and requests decoding over all workers, at a rate."""
    workers = pools.prefill_workers
    busy = min(0.9999, rate * service / workers)
    wait = service * busy ** (math.sqrt(2.0 * (workers + 1.0)) - 1.0) / (workers * (1.0 - busy)) / 2.0
    running = rate * steps * pools.decode.decode_s(1.0, context)
    for _ in range(12):
        each = max(1.0, min(running / pools.decode_workers, pools.slots))
        following = rate * steps * pools.decode.decode_s(each, context)
        if abs(following - running) < 1e-3 * running:
            break
        running = (running + following) / 2.0 if following < running else following
        if running > 4.0 * pools.slots * pools.decode_workers:
            break
    each = max(1.0, min(running / pools.decode_workers, pools.slots))
    return wait, pools.decode.decode_s(each, context), min(running, pools.slots * pools.decode_workers)
