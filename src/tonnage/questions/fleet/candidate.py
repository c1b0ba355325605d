"""Which candidates (a configuration of a workload at a site) are worth having, and what one carries of each bucket.

The mean field says about how much; the simulation decides for those whose cost is near the least, and for whatever
the programme picks. One configuration is simulated once, however many offers rent it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog import Additions, part_name
from tonnage.catalog.hardware import Slice, part_of, slices_of
from tonnage.catalog.hub.resolve import resolve_text
from tonnage.catalog.spreads import end_at
from tonnage.core.header import Infeasible
from tonnage.core.quality import apply_quality_floor
from tonnage.core.replica import Replica
from tonnage.core.session_reuse import reusing_replica
from tonnage.core.sites import Site
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity, Spread, Verdict
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.refusal import refusal
from tonnage.domain.requests.serve import Serve
from tonnage.domain.train_plan import TrainConfiguration, TrainOption
from tonnage.engines.registry import engine_title
from tonnage.questions.fleet.answer import FleetRequest, FleetWorkload
from tonnage.questions.fleet.stock import Stock, sites_for
from tonnage.questions.predict.inference import Times
from tonnage.questions.serve import limits
from tonnage.questions.serve.chance import Curve, Odds
from tonnage.questions.serve.option import has_objectives
from tonnage.questions.serve.settings import most_of
from tonnage.questions.serve.variations import Variations
from tonnage.record import Record
from tonnage.simulation.capacity import Point
from tonnage.units import whole_percent


class Candidate(Record, kw_only=True):
    """One configuration of one workload's model at one kind of site."""

    workload: int
    site: Site
    configuration: Configuration | TrainConfiguration
    memory: Quantity
    """Of the fullest accelerator of a replica. [bytes]"""
    rate_error: Spread
    """Of what a replica carries."""
    replica: Replica | None = None
    """For the mean lengths of all requests; samples have none."""
    points: tuple[Point | None, ...]
    """Of each bucket alone, at capacity; absent = it cannot."""
    rates: tuple[float, ...]
    """To plan with, of each bucket: its capacity, or what it carries with the confidence asked for where that, less the
    headroom, is less. [1/s]"""
    capacities: tuple[float, ...] = ()
    """Of each bucket alone, as predicted or simulated. [1/s]"""
    odds: tuple[Odds | None, ...] = ()
    """Of each bucket, of meeting the objectives by the mean field; absent = there are none."""
    surely: Callable[[float], tuple[float, ...]] | None = None
    """Of samples and runs: confidence -> rates to plan with."""
    simulated: bool = False
    piece: Slice | None = None
    """The slice of an accelerator that it runs on, if not on whole ones."""
    option: TrainOption | None = None
    """Of runs of training: one of them, as `plan train` counts it."""
    run_tokens: float = 0.0
    """What one run puts through the model. [tokens]"""
    offers: frozenset[tuple[str, str, str]] = frozenset()
    """Of runs: the offers (provider, type, region) whose instances are joined so; empty = all of the site's."""
    batches: tuple[Times, ...] = ()
    """Of samples: the batches its server may collect, the last the largest."""

    @property
    def share(self) -> float:
        """Accelerators that a replica takes: of a sliced one, its part. [-]"""
        return float(self.ranks) if self.piece is None else 1.0 / self.piece.most

    @property
    def ranks(self) -> int:
        """Accelerators of a replica."""
        return self.configuration.layout.ranks

    @property
    def name(self) -> str:
        """What its speed depends on."""
        return f"{self.workload} {self.configuration.label()} {self.site.intra_link or ''}"

    def firm(self, workload: FleetWorkload, confidence: float) -> tuple[float, ...]:
        """
        What a replica carries of each bucket alone with a confidence, without headroom. [1/s]

        One error holds for all replicas of it and for all buckets: it is the quantile of their capacities together.
        """
        if workload.kind == "batch":
            slower = self.rate_error.at(-end_at(confidence))
            return tuple(rate * slower for rate in self.capacities)
        return tuple(
            rate if odds is None or point is None else odds.capacity(confidence) * rate / point.rate_per_s
            for rate, point, odds in zip(self.capacities, self.points, self.odds, strict=True)
        )

    def planned(self, workload: FleetWorkload, confidence: float) -> tuple[float, ...]:
        """Rates to plan with at a confidence, of which the programme takes the headroom off. [1/s]"""
        if self.surely is not None:
            return self.surely(confidence)
        room = 1.0 - workload.headroom
        firm = self.firm(workload, confidence)
        return tuple(min(rate, sure / room) for rate, sure in zip(self.capacities, firm, strict=True))

    def likeliest(self, bucket: int | None = None) -> float:
        """The chance of the objectives under next to no load: of a bucket, or of the one that has most. [-]"""
        mine = [odds for b, odds in enumerate(self.odds) if odds is not None and bucket in {None, b}]
        return max((odds.likeliest for odds in mine), default=0.0)

    def carrying(self, workload: FleetWorkload, capacities: tuple[float, ...]) -> Candidate:
        """The same with other capacities of its buckets, of which it is planned with what is sure enough."""
        found = replace(self, capacities=capacities)
        return replace(found, rates=found.planned(workload, workload.confidence))

    def mix_per_s(self, workload: FleetWorkload, *, predicted: bool = False) -> float:
        """Requests of all buckets that it is planned with, or predicted to carry, in their proportions. [1/s]"""
        rates = self.capacities if predicted and self.capacities else self.rates
        able = [(b.share, rate) for b, rate in zip(workload.buckets, rates, strict=True) if rate > 0]
        return sum(share for share, _ in able) / sum(share / rate for share, rate in able) if able else 0.0


def fits_machine(candidate: Candidate, held: Stock) -> bool:
    """Whether replicas of a candidate fit on machines of a kind that its workload may use."""
    if held.site is not candidate.site or candidate.workload not in held.users:
        return False
    if candidate.option is not None:
        count = held.offer.count
        place = (held.offer.provider, held.offer.instance_type, held.offer.region)
        # Beside others, what does not divide an instance would leave slots that nothing else fills.
        tidy = held.passing or not (count % candidate.ranks and candidate.ranks % count)
        return tidy and place in candidate.offers
    return held.site.takes(held.offer, candidate.ranks)


LARGEST_REPLICA: Final = 32
SIZES_LOOKED_AT: Final = 3
"""Sizes of a replica, from the smallest that serves, after which none beyond a node is looked at."""
KEPT_PER_SITE: Final = 2
"""Whatever their size; beyond them only ever smaller ones, which suit smaller instances and loads."""
VARIED: Final = frozenset({"cache", "ttft", "tpot", "e2e"})
"""Limits that a cache in fewer bits, or drafting, may lift."""


class _Search(NamedTuple):
    """A workload on whole accelerators of a site, or on slices of them."""

    allowed: Serve
    workload: FleetWorkload
    number: int
    model: Model
    site: Site
    piece: Slice | None

    @property
    def part(self) -> Accelerator:
        return self.site.accelerator if self.piece is None else part_of(self.site.accelerator, self.piece)


def candidates(
    request: FleetRequest, number: int, *, held: tuple[Stock, ...], additions: Additions
) -> tuple[list[Candidate], list[Infeasible], int]:
    """
    The best few candidates of a workload at each site, why others cannot, and how many were looked at. Where no format
    keeps the quality asked for, that alone is the reason and nothing is looked at.
    """
    workload = request.workloads[number]
    assert workload.serve is not None
    model = resolve_text(workload.serve.model, additions=additions, where=workload.name)
    limits.check_context(model, workload.serve)
    allowed, _, no_format = apply_quality_floor(workload.serve, model)
    found: list[Candidate] = []
    missed: list[Infeasible] = []
    looked = 0
    if no_format is not None:
        nothing = Configuration(
            accelerator="any", layout=Layout(), precision=Precision(weights="any"), engine=Engine(name="any")
        )
        return [], [Infeasible(configuration=nothing, verdict=no_format)], 0
    for startable, site in itertools.product((True, False), sites_for(held, number)):
        if not startable and (found or allowed.precisions):
            break  # what needs another checkpoint is looked at where nothing else does
        # Of whole accelerators the best few; of slices the best on each profile.
        for piece in (None, *_pieces(workload, site)):
            able = []
            search = _Search(allowed, workload, number, model, site, piece)
            for outcome in _outcomes_at(search, startable=startable):
                looked += 1
                if isinstance(outcome, Infeasible):
                    missed.append(outcome)
                else:
                    able.append(outcome)
            found += [_for_all_lengths(search, one) for one in _best(workload, able)]
    return found, missed, looked


def _pieces(workload: FleetWorkload, site: Site) -> tuple[Slice, ...]:
    """Slices that a workload may use there: of a kind that comes several at once."""
    return tuple(piece for piece in slices_of(site.accelerator.id) if piece.most > 1) if workload.slices else ()


def lengths_served(serve: Serve, workload: FleetWorkload, *, bucket: int) -> Serve:
    """The workload as if all its requests had the lengths of one bucket."""
    return replace(serve, lengths=workload.buckets[bucket].lengths)


def _outcomes_at(search: _Search, *, startable: bool) -> Iterator[Candidate | Infeasible]:
    """
    Configurations of one site or slice, small replicas first until a few sizes serve, each with the settings that may
    win or lift the limit that stops it; why those that cannot serve.
    """
    allowed, _, _, model, site, piece = search
    variations, most = Variations(allowed, model), site.largest(LARGEST_REPLICA, allowed=None)
    held, most = (
        (site, most) if piece is None else (replace(site, accelerator=search.part, per_node=1, intra_link=None), 1)
    )
    for engine in allowed.engines:
        for of_format in limits.configurations(
            allowed, model, site=held, engine=engine, most=most, startable=startable
        ):
            sizes = set[int]()
            for configuration in of_format:
                # Of a whole node all: a looser objective, which lets a smaller replica serve, must take no other away.
                ranks = configuration.layout.ranks
                if ranks > site.per_node and ranks not in sizes and len(sizes) >= SIZES_LOOKED_AT:
                    break
                outcome = _evaluate(search, configuration)
                yield outcome
                serves = isinstance(outcome, Candidate)
                limit = outcome.verdict.limit if isinstance(outcome, Infeasible) else None
                if limit is None or limit in VARIED:
                    for other, _ in variations.of_configuration(site, configuration, limit=limit):
                        varied = _evaluate(search, other)
                        if isinstance(varied, Candidate):
                            serves = True
                            yield varied
                if serves:
                    sizes.add(ranks)


def _evaluate(search: _Search, run: Configuration) -> Candidate | Infeasible:
    """
    A configuration by the mean field in every bucket of lengths alone; it may serve some of them (0 requests/s in
    others). Why it cannot where it serves none, or not surely enough.
    """
    workload = search.workload
    points: list[Point | None] = []
    odds: list[Odds | None] = []
    why: Infeasible | None = None
    for bucket in range(len(workload.buckets)):
        asked = lengths_served(search.allowed, workload, bucket=bucket)
        replica = reusing_replica(asked, run, model=search.model, accelerator=search.part)
        most = most_of(asked, replica, configuration=run)
        if not isinstance(most, Infeasible):
            state, point, _ = most
            points.append(point)
            odds.append(Odds(Curve(asked, replica, state=state), asked.slo) if has_objectives(asked) else None)
            continue
        points.append(None)
        odds.append(None)
        why = most
        if why.verdict.limit == "memory":
            return why
    if why is not None and not any(points):
        return why
    found = Candidate(
        workload=search.number,
        site=search.site,
        configuration=run,
        memory=replica.pool.memory,
        rate_error=replica.rate_error,
        replica=replica,
        points=tuple(points),
        rates=(),
        odds=tuple(odds),
        piece=search.piece,
    ).carrying(workload, tuple(point.rate_per_s if point is not None else 0.0 for point in points))
    if any(found.rates):
        return found
    return Infeasible(
        configuration=run,
        verdict=too_unsure(run.label(part_name, engine_title), found.likeliest(), asked=workload.confidence),
    )


def _for_all_lengths(search: _Search, one: Candidate) -> Candidate:
    """The candidate with the replica that serves requests of all lengths, which takes as long to time as a bucket's."""
    if len(search.workload.buckets) == 1:
        return one
    assert isinstance(one.configuration, Configuration)
    replica = reusing_replica(search.allowed, one.configuration, model=search.model, accelerator=search.part)
    found = replace(one, replica=replica, memory=replica.pool.memory, rate_error=replica.rate_error)
    return found.carrying(search.workload, one.capacities)


def too_unsure(what: str, chance: float, *, asked: float, does: str = "meets the objectives") -> Verdict:
    """The verdict that something does it with less confidence than asked for (both shares), at best."""
    known = math.floor(chance * 100 + 1e-6)
    return refusal(
        "confidence",
        f"{what} {does} with {known} % at best, {whole_percent(asked)} asked for",
        short_by=asked - chance,
        nearest=f"confidence {known} %" if known else "looser objectives",
    )


def _best(workload: FleetWorkload, here: list[Candidate]) -> list[Candidate]:
    """
    Configurations of one site that no smaller one outdoes per accelerator in every bucket.

    A small one stays however many larger ones carry more per accelerator: it alone fits on instances of few
    accelerators, and a looser objective that lifts the larger ones must not take it away.
    """
    here = sorted(here, key=lambda c: -c.mix_per_s(workload) / c.ranks)
    kept: list[Candidate] = []
    for one in here:
        beaten = any(
            other.ranks <= one.ranks
            and all(a / other.ranks >= b / one.ranks for a, b in zip(other.rates, one.rates, strict=True))
            for other in kept
        )
        smaller = not kept or one.ranks < min(other.ranks for other in kept)
        if not beaten and (smaller or len(kept) < KEPT_PER_SITE):
            kept.append(one)
    return kept
