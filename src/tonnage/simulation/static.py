"""One batch, started together, that ends when all are done: static batches, single streams, bursts.

The batch is prefilled whole (in steps of at most the token budget), then decodes while its context
grows by a token a step. A burst larger than the batch limit runs in waves, which continuous
batching overlaps: the queue drains as slots free up.
"""

from __future__ import annotations

import math

from tonnage.simulation.closed_loop import Load
from tonnage.simulation.served import Served
from tonnage.simulation.steps import MixedStep, StepTable


def prefill_s(table: StepTable, *, prompts: float, prompt_tokens: float, budget: float) -> float:
    """Seconds to prefill `prompts` whole prompts together, in steps of at most `budget` tokens."""
    steps = prefill_steps(prompts=prompts, prompt_tokens=prompt_tokens, budget=budget)
    return table.named("prefill", sum(times * table.mixed_step_s(step) for times, step in steps))


def prefill_steps(*, prompts: float, prompt_tokens: float, budget: float) -> list[tuple[float, MixedStep]]:
    """The steps that this takes, each with how often it runs: full ones, and what is left."""
    total, most = prompts * prompt_tokens, max(budget, 1.0)
    full = math.floor(total / most + 1e-9) if total > most else 0
    # An engine without a budget takes everything at once; nothing times infinity is not a number.
    rest = max(0.0, total - full * most) if full else total
    found, steps = [], full + (rest > total * 1e-9)
    # Steps are filled to the budget, as engines fill them; in equal shares a longer prompt could be faster.
    for tokens, times in ((most, full), (rest, steps - full)):
        if times:
            in_step = max(prompts * tokens / total, min(1.0, prompts))
            cached = max(0.0, prompt_tokens - tokens) / 2.0 if steps > prompts else 0.0
            found.append((float(times), MixedStep(tokens, in_step, cached=cached)))
    return found


def pipelined_share(*, pieces: float, largest: float, in_flight: float) -> float:
    """
    Share of a prompt's time that is left when its `pieces` follow each other through stages.

    The first piece passes all stages; each further one ends one interval later, which is the time of the stage with the
    `largest` share of the layers, or that of a whole piece over the pieces that may be `in_flight`.
    """
    if pieces <= 1.0:
        return 1.0
    return (1.0 + (pieces - 1.0) * max(largest, 1.0 / in_flight)) / pieces


def static_batch(table: StepTable, load: Load, *, batch: float, piped: float = 1.0) -> Served:
    """One batch prefilled together, then decoded together; `piped` is the share of its prompts' time that is left."""
    prompts_s = prefill_s(table, prompts=batch, prompt_tokens=load.prompt_tokens, budget=load.budget)
    first = table.request_s + piped * prompts_s
    steps = max(0.0, load.output_tokens - 1.0)
    step = table.decode_s(batch, load.prompt_tokens + (load.output_tokens + 1.0) / 2.0)
    total = table.named("TTFT", first) + table.named("decode", steps * step)
    return Served(ttft_s=first, tpot_s=step, e2e_s=total, requests_per_s=batch / total, running=batch)


def burst(table: StepTable, load: Load, *, requests: float) -> Served:
    """`requests` sent at once to an engine that runs no more than its slots: fill, steady refill, drain."""
    together = min(requests, load.slots)
    wave = static_batch(table, load, batch=together)
    if requests <= load.slots:
        return wave
    waves = requests / together
    cost = prefill_s(table, prompts=together, prompt_tokens=load.prompt_tokens, budget=load.budget)
    decode = table.named("decode", max(0.0, load.output_tokens - 1.0) * wave.tpot_s)
    total = table.named("all waves", waves * (cost + decode), how="prefill and decode of each")
    ahead = table.named("waves ahead", (waves - 1.0) / 2.0 * (cost + decode), how="on average, those before")
    beside = table.named(
        "prefill of those that follow", cost / max(1.0, load.output_tokens - 1.0), how="over its tokens"
    )
    return Served(
        ttft_s=wave.ttft_s + ahead,
        tpot_s=wave.tpot_s + beside,
        e2e_s=wave.e2e_s + ahead,
        requests_per_s=requests / total,
        running=together,
        saturated=True,
    )
