"""
Workloads of a fleet that serve no tokens: samples on an accelerator or a slice of it, and runs of training.

Samples are reckoned as `plan infer` does: the batch that carries most with the confidence asked for in load and
latency, the headroom kept, at most what the part's decoders take in where it decodes video. A server that collects
batches up to that size collects smaller ones under less load, so that a quiet hour waits no longer.

A run comes back every so often and ends within its deadline. Each count of each kind of accelerator that the training
plan's search would look at is arranged as there; the fastest arrangement with the confidence asked for becomes a way to
do the work, in tokens per second. It may share what stands for others (owned or reserved machines at night), in whole
periods, or have hourly instances to itself for as long as it takes. A run that pauses goes on from its checkpoint.

Left out: spot capacity, of which `plan train` knows how runs lose work; spares, whose instances are no part of a gang.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import date
from functools import partial
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import Additions, accelerators_text
from tonnage.catalog.hardware import Slice, decoder, part_of, slices_of
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.spreads import end_within
from tonnage.core.error_model import joint_chance
from tonnage.core.header import Infeasible
from tonnage.core.sites import Site
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Spread
from tonnage.domain.infer_plan import Infer
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.refusal import refusal
from tonnage.domain.train_plan import TrainConfiguration, TrainOption
from tonnage.errors import TonnageError
from tonnage.questions.fleet.answer import FleetRequest, FleetRun, FleetWorkload
from tonnage.questions.fleet.candidate import Candidate
from tonnage.questions.fleet.hours import allowed_share
from tonnage.questions.fleet.problem import Solution
from tonnage.questions.fleet.stock import OWNED, Stock, sites_for
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
from tonnage.questions.train.attempts import Attempt
from tonnage.questions.train.job import TrainContext
from tonnage.questions.train.option import evaluate
from tonnage.questions.train.places import WORKERS, InfeasibleRun, trainable_sites
from tonnage.questions.train.plan import attempts_at, training_context
from tonnage.units import percent

STEPS: Final = 16
"""Loads below the largest that are tried for the latency. [-]"""
PRECISE: Final = 1e-4
"""A load is narrowed to this share of it. [-]"""


def sample_candidates(
    request: FleetRequest, number: int, *, held: tuple[Stock, ...], additions: Additions
) -> tuple[list[Candidate], list[Infeasible], int]:
    """
    What each kind of accelerator and slice carries of a workload's samples in each format, why others cannot, and how
    many were looked at.
    """
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
                outcome = _sample_candidate(asked, model, part, site=site, precision=precision, additions=additions)
                if isinstance(outcome, Infeasible):
                    missed.append(outcome)
                    continue
                found.append(replace(outcome, workload=number, site=site, piece=piece))
    return found, missed, len(found) + len(missed)


def _parts(workload: FleetWorkload, site: Site) -> Iterator[tuple[Accelerator, Slice | None]]:
    """The whole accelerator, and the slices that the workload may use, of a kind that comes several at once."""
    yield site.accelerator, None
    if workload.slices:
        for piece in slices_of(site.accelerator.id):
            if piece.most > 1:
                yield part_of(site.accelerator, piece), piece


def _sample_candidate(
    asked: Infer, model: Model, part: Accelerator, *, site: Site, precision: str, additions: Additions
) -> Candidate | Infeasible:
    """
    What one format on a part carries, or why it cannot: no unit for the format, no decoder, nothing measured, memory or
    latency. The workload and the slice are the caller's to fill in.
    """
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
    best, quickest = _best_batch(asked, setup, tried)
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
        rate_error=errors_of(setup).spread("samples_per_s"),
        rates=_planned(asked, rate),
        surely=partial(_sample_rates_at, asked, setup, tried),
        batches=tuple(one for one in tried if one.batch <= times.batch),
    )


def _sample_rates_at(asked: Infer, setup: Setup, tried: list[Times], confidence: float) -> tuple[float, ...]:
    """
    Samples per second planned with at another confidence; 0 where none is met. The headroom is the programme's to take
    off.
    """
    best, _ = _best_batch(replace(asked, confidence=confidence), setup, tried)
    return (0.0,) if best is None else _planned(asked, best[1])


def _planned(asked: Infer, rate: float) -> tuple[float, ...]:
    """The rate divided by what the headroom leaves: the programme takes the headroom off again. [1/s]"""
    return (rate / (1.0 - asked.headroom),)


def _best_batch(asked: Infer, setup: Setup, tried: list[Times]) -> tuple[tuple[Times, float] | None, float]:
    """
    The smallest batch of those that carry most in time, with the samples per second it then carries (None where none is
    in time), and the shortest answer seen. [s]
    """
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
    """
    The largest load, from `most` down by as much as `plan infer` adds parts, that is met surely enough; None where none
    is. [1/s]
    """

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


def service_s(candidate: Candidate, *, each_per_s: float) -> float:
    """Mean time to an answer in the batches that suit the load best; infinite where none keeps up. [s]"""
    able = (times for times in candidate.batches if times.samples_per_s >= each_per_s)
    return min((mean_latency_s(times, each_per_s=each_per_s) for times in able), default=math.inf)


def _decoder_rate(asked: Infer, part: Accelerator) -> float:
    """
    Frames per second (those looked at) that the part's decoders take in; infinite where it decodes nothing on the
    accelerator or its decoders are not known, 0 for a slice that has none. [1/s]
    """
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


WORTH: Final = 3.0
"""A count whose least cost is beyond this multiple of the best found is not arranged. [-]"""
COUNTS_PER_SITE: Final = 4
"""Counts of one accelerator that are arranged, the cheapest at best first."""


def run_stock(held: tuple[Stock, ...], request: FleetRequest) -> tuple[Stock, ...]:
    """The machines, and beside each that is rented by the hour the same for just the time of a run."""
    runs = frozenset(p for p, workload in enumerate(request.workloads) if workload.run is not None)
    own = [
        replace(one, users=one.users & runs, terms=("on-demand",), passing=True)
        for one in held
        if "on-demand" in one.terms and one.users & runs and not one.own and one.offer.kind not in WORKERS
    ]
    return (*held, *own)


def run_candidates(
    request: FleetRequest, number: int, *, held: tuple[Stock, ...], additions: Additions, today: date
) -> tuple[list[Candidate], list[InfeasibleRun], int]:
    """
    What each count of each accelerator does of a workload's runs, why others cannot, and how many were looked at.
    Counts that cost far more than the best at best are left out without a reason, but for own machines.
    """
    workload = request.workloads[number]
    run = workload.run
    assert run is not None
    limit = _limit_s(workload)
    asked = training_context(replace(run, deadline_s=limit), additions=additions, today=today)
    found: list[Candidate] = []
    missed: list[InfeasibleRun] = []
    attempts: list[tuple[Attempt, Site]] = []
    for site, offered, terms in _sites(request, held, number):
        able, refused = trainable_sites(
            (offered,), filters=run.filters, precision=asked.job.case.precision, framework=run.framework
        )
        missed += [
            InfeasibleRun(what=one.what, accelerator=site.accelerator.id, verdict=one.verdict) for one in refused
        ]
        here = replace(asked, request=replace(asked.request, filters=replace(run.filters, terms=terms)))
        for one in able:
            for attempt in attempts_at(here, one):
                if isinstance(attempt, InfeasibleRun):
                    missed.append(attempt)
                else:
                    attempts.append((attempt, site))
    best, looked = math.inf, 0
    tried: Counter[tuple[int, bool]] = Counter()
    for attempt, site in sorted(attempts, key=lambda pair: (pair[0].usd, pair[0].rental.place.count)):
        own = attempt.rental.offers[0].provider == OWNED
        if tried[id(site), own] >= COUNTS_PER_SITE or (not own and attempt.usd > WORTH * best):
            continue
        tried[id(site), own] += 1
        looked += 1
        terms = tuple(dict.fromkeys(made.term for made in attempt.rental.bills))[:1]
        once = tuple(made for made in attempt.rental.bills if made.term in terms)
        for outcome in evaluate(asked, replace(attempt.rental, bills=once)):
            if isinstance(outcome, InfeasibleRun):
                missed.append(outcome)
                continue
            if outcome.chance < run.confidence:
                missed.append(_unlikely(outcome, asked))
                continue
            best = best if own else min(best, outcome.cost.value)
            found.append(_run_candidate(asked, outcome, number=number, site=site, attempt=attempt))
    return _undominated(found), missed, looked + len(missed)


def _sites(request: FleetRequest, held: tuple[Stock, ...], number: int) -> Iterator[tuple[Site, Site, tuple[str, ...]]]:
    """
    Each site that the workload may use, the same site with only the offers that a run may take (of one's own machines
    as many as there are), and their terms but spot. Sites without such an offer or term are left out.
    """
    for site in sites_for(held, number):
        mine = [one for one in held if one.site is site and number in one.users and one.offer.kind not in WORKERS]
        offers = tuple(dict.fromkeys(one.offer for one in mine))
        terms = tuple(dict.fromkeys(term for one in mine for term in one.terms if term != "spot"))
        if not offers or not terms:
            continue
        most = next((own.count for one in mine for own in request.own if own.name == one.own), None)
        offers = offers if most is None else tuple(replace(offer, stock=most) for offer in offers)
        yield site, replace(site, offers=offers), terms


def _run_candidate(asked: TrainContext, option: TrainOption, *, number: int, site: Site, attempt: Attempt) -> Candidate:
    """An arranged run as a candidate whose one rate is in tokens per second of all its accelerators."""
    wall = option.run.wall_s
    assert wall.high is not None
    surely = partial(_run_rates_at, asked, option)
    names = frozenset((one.provider, one.instance_type, one.region) for one in attempt.rental.offers)
    return Candidate(
        workload=number,
        site=site,
        configuration=option.configuration,
        memory=option.memory,
        rate_error=Spread(math.log(wall.high / wall.value)),
        points=(None,),
        rates=surely(asked.request.confidence),
        surely=surely,
        option=option,
        run_tokens=asked.job.tokens,
        offers=names,
    )


def _run_rates_at(asked: TrainContext, option: TrainOption, confidence: float) -> tuple[float, ...]:
    """Tokens per second that a run is planned with; 0 where its deadline is not kept with the confidence. [tokens/s]"""
    if option.chance < confidence:
        return (0.0,)
    return (asked.job.tokens / _surely_s(option, confidence=confidence, limit_s=asked.request.deadline_s),)


def _surely_s(option: TrainOption, *, confidence: float, limit_s: float | None) -> float:
    """
    Time in which a run ends, and its memory fits, with a confidence; at most the limit, in which it does, or without
    one twice the interval's end. [s]
    """
    wall, fits = option.run.wall_s, end_within(option.memory, option.limit_bytes)
    low, high = wall.low or wall.value, limit_s or 2.0 * (wall.high or wall.value)
    while high > low * (1.0 + PRECISE):
        middle = math.sqrt(low * high)
        sure = joint_chance([fits, end_within(wall, middle)]) >= confidence
        low, high = (low, middle) if sure else (middle, high)
    return high


def _undominated(found: list[Candidate]) -> list[Candidate]:
    """The candidates without counts that are no faster than a smaller one on the same offers."""
    return [
        one
        for one in found
        if not any(
            other.site is one.site
            and other.offers >= one.offers
            and other.ranks < one.ranks
            and other.rates[0] >= one.rates[0]
            for other in found
        )
    ]


def _limit_s(workload: FleetWorkload) -> float:
    """Time in which a run may work, from its start to its deadline, hours outside its window taken off. [s]"""
    assert workload.run is not None and workload.every_s is not None
    within = min(workload.run.deadline_s or workload.every_s, workload.every_s)
    return within * allowed_share(workload)


def runs_of(solution: Solution) -> tuple[FleetRun, ...]:
    """
    Each workload of runs as the fleet does it: how one run is arranged, the time it takes, the time the fleet gives it,
    the chance that it ends in that, and whether on hourly instances of its own (`passing`). Others are skipped.
    """
    found = []
    problem = solution.problem
    for number, workload in enumerate(solution.asked.request.workloads):
        mine = dict(solution.running(number))
        candidate = next(iter(mine.values()), None)
        if candidate is None or candidate.option is None or not isinstance(candidate.configuration, TrainConfiguration):
            continue
        assert workload.every_s is not None
        # One arrangement does all runs; on instances of several sizes, one after the other, the first stands for all.
        counts = (counts for (w, _), counts in solution.fleet.replicas.items() if w in mine)
        given_s = math.fsum(map(solution.hours, counts)) * workload.every_s / solution.asked.hours.total_h
        option = candidate.option
        ends = [end_within(option.memory, option.limit_bytes), end_within(option.run.wall_s, given_s)]
        found.append(
            FleetRun(
                workload=workload.name,
                accelerators=candidate.ranks,
                configuration=candidate.configuration,
                wall_s=option.run.wall_s,
                allowed_s=given_s,
                every_s=workload.every_s,
                chance=round(joint_chance(ends), 12),
                passing=not problem.machines[problem.ways[next(iter(mine))].machine].whole,
            )
        )
    return tuple(found)


def _unlikely(option: TrainOption, asked: TrainContext) -> InfeasibleRun:
    """A run that was arranged but is less sure than asked for."""
    name = accelerators_text(option)
    verdict = refusal(
        "confidence",
        f"{name} keeps its memory and its time with {percent(option.chance)} only",
        short_by=asked.request.confidence - option.chance,
        nearest=f"confidence {math.floor(option.chance * 100)} %",
    )
    card = option.configuration.accelerator
    return InfeasibleRun(what=name, accelerator=card, verdict=verdict, option=option)
