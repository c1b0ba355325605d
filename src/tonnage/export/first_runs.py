"""What is run on what was rented before its users come: its devices are tried, then the plan's load is sent."""

from __future__ import annotations

import math
import shlex
from typing import Final

from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.metrics import objectives
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.export.target import names
from tonnage.export.text import Fields, flags
from tonnage.units import exact_text, show

WORKER: Final = "serverless worker"
"""What a platform starts and stops by itself: nobody holds a machine there."""
JUDGED: Final = 3
"""Devices of a machine from which `tonnage measure accept` holds each against the others."""
LOADED_S: Final = 120.0
"""The load lasts so long where the least number of requests takes less: several times an answer; assumed. [s]"""
FEWEST: Final = 200
"""Requests of which ten lie beyond the 95th percentile. [requests]"""
LONGEST_S: Final = 86_400.0
"""That `tonnage measure serve` may take. [s]"""


def first_runs(plan: ServePlan | BatchPlan, option: ServeOption | BatchOption, *, model: str) -> tuple[str, ...]:
    """
    What tries a rented machine, and what sends a service the plan's load; neither where it cannot be.

    `model` is what the server calls its checkpoint.
    """
    found = list(_acceptance(option))
    if isinstance(plan, ServePlan) and isinstance(option, ServeOption):
        found += _load_test(plan, option, model=model)
    return tuple(found)


def _acceptance(option: ServeOption | BatchOption) -> list[str]:
    """The command that tries the devices of a machine, and what it needs of a machine of one or two."""
    name, count = option.configuration.accelerator, max(1, int(option.bill.accelerators_per_instance))
    host = name.startswith("cpu-")
    if option.bill.kind == WORKER or not (host or names(name).vendor):
        return []
    alone = count < JUDGED
    held = " --reference good.json" if alone else ""
    how = f"{name} --count {count}{' --device cpu' if host else ''}{held} --out accepted.json"
    lines = [f"Once a machine is up, on each, before any load: tonnage measure accept {how}"]
    if alone:
        lines.append(
            "good.json is accepted.json of a good machine of this kind, as fewer than three devices are judged against "
            "--reference alone; without one, leave it out on a first machine and hold a second against that."
        )
    return lines


def _load_test(plan: ServePlan, option: ServeOption, *, model: str) -> list[str]:
    """The plan's peak load, lengths and objectives as a command; nothing where no load is planned."""
    request, shape, found = plan.request, plan.request.shape, option.reuse.hit_rate if option.reuse else 0.0
    pools = plan.model.get("pools", {})
    units, noun = pools.get("units", option.replicas), "units" if pools else "replicas"
    load: Fields
    if request.rate_per_s is not None:
        rate = request.rate_per_s * shape.peak_to_mean
        each = f"--rate {_rate(rate / units)}"
        count = max(FEWEST, math.ceil(rate * LOADED_S))
        load = {"rate": _rate(rate), "duration": _seconds(min(LONGEST_S, 1.5 * count / rate)), "requests": count}
    elif request.concurrency is not None:
        places = math.ceil(request.concurrency * shape.peak_to_mean)
        each = f"--concurrency {math.ceil(places / units)}"
        load = {"concurrency": places, "duration": "10min", "requests": max(FEWEST, 10 * places)}
    else:
        return []
    slo = request.slo
    limits = {f"slo-{metric.name.removesuffix('_s')}": _seconds(limit) for metric, limit in objectives(slo)}
    options: Fields = {
        "model": model,
        **load,
        "prompt-tokens": max(1, round(request.lengths.prompt_tokens)),
        "output-tokens": max(1, round(request.lengths.output_tokens)),
        "shared": f"{found:.0%}" if found else None,
        **limits,
        "percentile": f"{min(99.0, slo.percentile):g}" if limits and slo.percentile != 95.0 else None,
        "output": "load.jsonl",
    }
    which = f" of all {units} {noun} (one alone: {each})" if units > 1 else ""
    told = "; its last line says whether the objectives are met" if limits else ""
    return [
        f"Then send URL the plan's peak load{which}: tonnage measure serve URL {shlex.join(flags(options))}",
        f"Its requests have the plan's mean lengths, so the longest real ones take longer{told}.",
    ]


def _rate(per_s: float) -> str:
    return exact_text(float(f"{per_s:.4g}"), "1/s")


def _seconds(seconds: float) -> str:
    return show(seconds, "s").replace(" ", "")
