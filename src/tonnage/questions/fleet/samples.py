"""What one accelerator, or one slice of it, carries of a workload of samples: frames, images, texts, audio.

As `plan infer` reckons it: the batch that carries most with the confidence asked for in load and latency, the headroom
kept, at most what the part's decoders take in where it decodes video. A server that collects batches up to that size
collects smaller ones under less load, so that a quiet hour waits no longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import Additions
from tonnage.catalog.hardware import Slice, decoder, part_of, slices_of
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.header import Infeasible
from tonnage.core.sites import Site
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.infer_plan import Infer
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.refusal import refusal
from tonnage.errors import TonnageError
from tonnage.questions.fleet.answer import FleetRequest, FleetWorkload
from tonnage.questions.fleet.candidate import Candidate
from tonnage.questions.fleet.stock import Stock, sites_for
from tonnage.questions.infer.plan import (
    BATCHES,
    MORE,
    case_of,
    chance_of_load,
    engine_on,
    firm_per_s,
    mean_latency_s,
    no_unit,
    refuse_text_models,
)
from tonnage.questions.predict.inference import Setup, Times, batch_times, errors_of, memory_of, setup_of

STEPS: Final = 16
"""Loads below the largest that are tried for the latency. [-]"""
PRECISE: Final = 1e-4
"""A load is narrowed to this share of it. [-]"""


def sample_candidates(
    request: FleetRequest, number: int, *, held: tuple[Stock, ...], additions: Additions
) -> tuple[list[Candidate], list[Infeasible], int]:
    """What each kind of accelerator and slice carries, why others cannot, and how many were looked at."""
    workload = request.workloads[number]
    asked = workload.infer
    assert asked is not None
    model = resolve(asked.model, additions=additions)
    refuse_text_models(asked, model)
    found: list[Candidate] = []
    missed: list[Infeasible] = []
    # A part is as fast behind every link: nothing is exchanged.
    for site in sites_for(held, number):
        for part, piece in _parts(workload, site):
            for precision in asked.precisions:
                outcome = _one(asked, model, part, site=site, precision=precision, additions=additions)
                if isinstance(outcome, Infeasible):
                    missed.append(outcome)
                    continue
                found.append(replace(outcome, workload=number, site=site, piece=piece))
    return found, missed, len(found) + len(missed)


def _parts(workload: FleetWorkload, site: Site) -> Iterator[tuple[Accelerator, Slice | None]]:
    yield site.accelerator, None
    if workload.slices:
        for piece in slices_of(site.accelerator.id):
            if piece.most > 1:
                yield part_of(site.accelerator, piece), piece


def _one(
    asked: Infer, model: Model, part: Accelerator, *, site: Site, precision: str, additions: Additions
) -> Candidate | Infeasible:
    engine = engine_on(asked, model, part=part)
    run = Configuration(
        accelerator=part.id, layout=Layout(), precision=Precision(weights=precision), engine=Engine(name=engine)
    )

    def unable(limit: str, reason: str, short_by: float | None = None, unit: str | None = None) -> Infeasible:
        verdict = refusal(limit, reason, short_by=short_by, unit=unit)
        return Infeasible(configuration=run, verdict=verdict)

    if (why := no_unit(part, precision)) is not None:
        return unable("precision", why)
    if _decoder_rate(asked, part) <= 0:
        return unable("decode", f"{part.name} has no video decoder of its own")
    try:
        setup = setup_of(case_of(asked, model, part=part.id, precision=precision, engine=engine), additions)
        sizes = (batch_times(setup, size) for size in BATCHES)
        tried = list(takewhile(lambda times: memory_of(setup, times).value <= part.driver_memory_bytes, sizes))
    except TonnageError as problem:
        return unable("unmeasured", str(problem))
    if not tried:
        short = memory_of(setup, batch_times(setup, 1)).value - part.driver_memory_bytes
        return unable("memory", f"a batch of 1 does not fit {part.name}", short, "bytes")
    best, quickest = _largest(asked, setup, tried)
    if best is None:
        late = quickest - (asked.latency_s or 0.0)
        return unable("latency", f"answers take {quickest * 1e3:,.0f} ms at best", late, "s")
    times, rate = best
    return Candidate(
        workload=0,
        site=site,
        configuration=run,
        memory=memory_of(setup, times),
        points=(None,),
        rate_factor=errors_of(setup).factor("samples_per_s"),
        rates=_planned(asked, rate),
        surely=partial(_rates_at, asked, setup, tried),
        batches=tuple(one for one in tried if one.batch <= times.batch),
    )


def _rates_at(asked: Infer, setup: Setup, tried: list[Times], confidence: float) -> tuple[float, ...]:
    best, _ = _largest(replace(asked, confidence=confidence), setup, tried)
    return (0.0,) if best is None else _planned(asked, best[1])


def _planned(asked: Infer, rate: float) -> tuple[float, ...]:
    """The programme keeps the headroom of every workload, which is kept here already."""
    return (rate / (1.0 - asked.headroom),)


def _largest(asked: Infer, setup: Setup, tried: list[Times]) -> tuple[tuple[Times, float] | None, float]:
    """The smallest batch of those that carry most in time, with what it then carries, and the shortest answer."""
    best: tuple[Times, float] | None = None
    quickest = math.inf
    seen = _decoder_rate(asked, setup.accelerator) * (1.0 - asked.headroom)
    for times in tried:
        most = min(firm_per_s(asked, setup, times=times), seen)
        quickest = min(quickest, mean_latency_s(times, each_per_s=most))
        rate = _in_time(asked, setup, times, most=most)
        if rate is not None and (best is None or rate > best[1] * (1.0 + 1e-9)):
            best = (times, rate)
    return best, quickest


def _in_time(asked: Infer, setup: Setup, times: Times, *, most: float) -> float | None:
    """The largest load, from the most down by as much as `plan infer` adds parts, that is met surely enough. [1/s]"""

    def sure(each: float) -> bool:
        waits = mean_latency_s(times, each_per_s=each)
        return chance_of_load(asked, setup, times=times, each=each, waits=waits) >= asked.confidence

    loads = [most / (1.0 + MORE * step / STEPS) for step in range(STEPS + 1)]
    first = next((step for step, each in enumerate(loads) if sure(each)), None)
    if not first:
        return None if first is None else most
    held, missed = loads[first], loads[first - 1]
    while missed / held > 1.0 + PRECISE:
        middle = math.sqrt(missed * held)
        held, missed = (middle, missed) if sure(middle) else (held, middle)
    return held


def service_s(chance: Candidate, *, each_per_s: float) -> float:
    """Mean time to an answer in the batches that suit the load best; without end where none keeps up. [s]"""
    able = (times for times in chance.batches if times.samples_per_s >= each_per_s)
    return min((mean_latency_s(times, each_per_s=each_per_s) for times in able), default=math.inf)


def _decoder_rate(asked: Infer, part: Accelerator) -> float:
    """Looked-at frames per second that the part's decoders take in; unlimited where they decode nothing or unknown."""
    video = asked.video
    if video is None or video.decode != "accelerator":
        return math.inf
    whole, _, profile = part.id.partition(":")
    known = decoder(whole, codec=video.codec)
    if known is None:
        return math.inf
    share = 1.0
    if profile:
        mine = {piece.profile: piece for piece in slices_of(whole)}
        every = max((piece.decoders or 0.0) * piece.most for piece in mine.values())
        share = (mine[profile].decoders or 0.0) / every if every else 0.0
    return known.pixels_per_s * share / (video.frame_px[0] * video.frame_px[1]) / video.every
