"""
What every plan states around its options: its model, its catalogue, what was ruled out, and what relaxing would buy.

What cannot do it is one line for each accelerator, and the lines counted by reason. When constraints leave nothing,
every constraint that the request names is dropped in turn and the plan made again, with the others kept. What then
leads, and for how much, stands beside the constraint; one that buys nothing is not named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from tonnage.catalog import NOTHING, Additions, ambiguity, part_name
from tonnage.catalog.rows import data_version
from tonnage.core.sites import none_passes
from tonnage.domain.answer import Verdict
from tonnage.domain.metrics import objectives
from tonnage.domain.model import Model
from tonnage.domain.plan import (
    BY_AVERAGES,
    Bill,
    Configuration,
    PlanHeader,
    Provenance,
    Rejection,
    RejectionCount,
)
from tonnage.domain.refusal import ruled_out
from tonnage.domain.requests.common import Filters
from tonnage.domain.requests.field import attributes_of
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_title
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.record import Record
from tonnage.simulation.capacity import Point
from tonnage.units import show
from tonnage.version import __version__, can_simulate

COMMUNITY = "community marketplaces and brokers are left out (--community includes them)"
"""Assumed of every request that does not include them."""
Simulated = TypeVar("Simulated", bound=PlanHeader[Any])


def model_facts(model: Model) -> dict[str, Any]:
    """What the plan says of its model."""
    facts: dict[str, Any] = {
        "id": model.id,
        "family": model.family,
        "parameters": parameters(model).value,
        "active_parameters": active_parameters(model).value,
    }
    if model.max_context is not None:
        facts["max_context"] = model.max_context
    if model.source:
        facts["source"] = model.source
    return facts


def catalogue_dates(bills: Iterable[Bill]) -> dict[str, str]:
    """Oldest and newest price date among the options, and which data they come from."""
    dates = sorted(bill.as_of for bill in bills if bill.as_of)
    ends = {"oldest price": dates[0], "newest price": dates[-1]} if dates else {}
    return {**ends, "data": data_version()}


def provenance(bills: Iterable[Bill], *, today: date, assumed: Iterable[str]) -> Provenance:
    """What is needed to make the plan again: release, data and dates of prices, day, and what is assumed."""
    bills = tuple(bills)
    weighed: tuple[str, ...] = ()
    if any(bill.commitment is not None for bill in bills):
        from tonnage.core.quotes import commitments_assumed

        weighed = commitments_assumed(bill.commitment for bill in bills)
    return Provenance(
        version=__version__,
        catalogue=catalogue_dates(bills),
        made=today.isoformat(),
        assumed=(*assumed, *weighed),
    )


def names_taken(filters: Filters, additions: Additions) -> list[str]:
    """Which accelerator was taken for a name that fits several."""
    return [taken for name in filters.accelerators if (taken := ambiguity(name, additions))]


def what_if(additions: Additions) -> list[str]:
    """Facts of the catalogue that the user changed."""
    return [f"what-if: {text}" for text in getattr(additions, "overrides", ())]


class Loser(Protocol):
    """A try that failed: what, on which accelerator, and why."""

    @property
    def what(self) -> str: ...
    @property
    def accelerator(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...


AnyLoser = TypeVar("AnyLoser", bound=Loser)


class Infeasible(Record, kw_only=True):
    """A configuration that cannot do it. `alone` is set when memory suffices and a latency objective does not."""

    configuration: Configuration
    verdict: Verdict
    alone: Point | None = None

    @property
    def what(self) -> str:
        """The configuration in a few words."""
        return self.configuration.label(part_name, engine_title)

    @property
    def accelerator(self) -> str:
        """Its accelerator's id."""
        return self.configuration.accelerator


Nearness = Callable[[Any], tuple[Any, ...]]
"""Loser -> how far it is from doing it; smaller is nearer."""


def nearness(order: dict[str, int]) -> Nearness:
    """Nearer are those whose limit comes earlier in an order, then those that fall short by less."""
    last = max(order.values()) + 1

    def of(loser: Loser) -> tuple[int, float]:
        return order.get(loser.verdict.limit or "", last), loser.verdict.short_by or 0.0

    return of


def nearest_of_each(losers: Iterable[Loser], *, doing: Collection[str], by: Nearness) -> tuple[Rejection, ...]:
    """One line for each accelerator on which nothing works: the try that came nearest. Nearest first."""
    ranked = nearest_losers(losers, by=by)
    return tuple(Rejection(what=one.what, verdict=one.verdict) for one in ranked if one.accelerator not in doing)


def nearest_losers(losers: Iterable[AnyLoser], *, by: Nearness) -> list[AnyLoser]:
    """The try that came nearest on each accelerator, the nearest first."""
    nearest: dict[str, AnyLoser] = {}
    for loser in losers:
        name = loser.accelerator
        if name not in nearest or by(loser) < by(nearest[name]):
            nearest[name] = loser
    return sorted(nearest.values(), key=by)


def what_binds(losers: Sequence[Loser], excluded: Iterable[Rejection], *, by: Nearness) -> Verdict:
    """The limit that stops what came nearest; where nothing was tried, the filter that left no offer."""
    return min(losers, key=by).verdict if losers else none_passes(excluded)


def by_reason(rejected: Iterable[Rejection]) -> tuple[RejectionCount, ...]:
    """Rejections counted by reason, the most frequent first; each with the first of its lines as the example."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for one in rejected:
        reason = ruled_out(one.verdict)
        counts[reason] += 1
        examples.setdefault(reason, one.what)
    return tuple(
        RejectionCount(reason=reason, count=count, example=examples[reason]) for reason, count in counts.most_common()
    )


Asked = TypeVar("Asked", bound=msgspec.Struct)
Request = TypeVar("Request", bound=msgspec.Struct)
"""Of any kind; those of ranked plans have `filters`."""


class Context(Record, Generic[Request], kw_only=True):
    """A request with its model, the day that prices are aged from, and the user's own files."""

    request: Request
    model: Model
    today: date
    additions: Additions = NOTHING


RELAXED: Final = (
    "quality_floor", "precisions", "deadline_s", "budget_usd", "budget_usd_per_h", "count", "max_context", "latency_s",
    "hours",
)  # fmt: skip
"""Attributes that are limits of a request beside its filters, for each kind that has them; a required one stays."""
LOOSER: Final = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Times which latency objectives that exclude each other are tried. [-]"""
ALL_TERMS: Final = ("on-demand", "spot", "reserved-1y", "reserved-3y")


def relaxations(request: Request) -> Iterator[tuple[str, Request]]:
    """What was dropped, as its flag, and the request without it: each constraint in turn, filters first."""
    asked: Any = request
    for flag, filters in _without_each(asked.filters, Filters.__struct_fields__):
        yield flag, replace(request, filters=filters)
    yield from _without_each(request, RELAXED)
    if isinstance(request, Serve):
        for flag, slo in _without_each(request.slo, ("ttft_s", "tpot_s", "e2e_s")):
            yield flag, replace(request, slo=slo)


def what_relaxing_buys(request: Request, leads: Callable[[Request], str | None]) -> tuple[str, ...]:
    """
    What dropping one constraint at a time buys: a line for each without which some option leads; where none does, the
    least of `LOOSER` with which all latency objectives can be met together.

    Parameters
    ----------
    request
        That nothing can do, of any kind of ranked plan.
    leads : callable
        Request -> the option that leads then, in a few words; None where there is none.
    """
    found = ((flag, leads(other)) for flag, other in relaxations(request))
    dropped = tuple(f"without {flag}: {told}" for flag, told in found if told is not None)
    return dropped if dropped or not isinstance(request, Serve) else _looser(request, leads)


def _looser(request: Serve, leads: Callable[[Any], str | None]) -> tuple[str, ...]:
    """The latency objectives, where there are two or more, so much longer that an option leads with all of them."""
    asked = objectives(request.slo)
    low, high, found = 0, len(LOOSER) if len(asked) > 1 else 0, tuple[str, ...]()
    while low < high:
        middle = (low + high) // 2
        limits = {metric: float(f"{LOOSER[middle] * limit:.2g}") for metric, limit in asked}
        slo = replace(request.slo, **{metric.name: limit for metric, limit in limits.items()})
        told = leads(replace(request, slo=slo))
        if told is None:
            low = middle + 1
        else:
            flags = " ".join(f"--{metric.title.lower()} '{show(limit, 's')}'" for metric, limit in limits.items())
            high, found = middle, (f"with {flags}: {told}",)
    return found


def quick_without_simulator(request: Any) -> Any:
    """The request, or its `quick` twin where nothing can simulate."""
    return request if request.quick or can_simulate() else replace(request, quick=True)


def as_asked(made: Simulated, request: Any) -> Simulated:
    """
    The plan of a request or of its `quick` twin, which then says so.

    The request stays as it was asked: where numba is installed, the same one is simulated.
    """
    if made.request.quick == request.quick:
        return made
    said = replace(made.provenance, assumed=(BY_AVERAGES, *made.provenance.assumed))
    return replace(made, request=request, provenance=said)


def _without_each(asked: Asked, names: Iterable[str]) -> Iterator[tuple[str, Asked]]:
    """
    For each of some fields that is not at its default: its flag, and the part of a request with the default there.

    Rental terms are widened to all instead, and community hosts are let in. Names that the part lacks, and fields that
    must be given, are passed over.
    """
    known = {one.name: one for one in attributes_of(type(asked)) if not one.required}
    for one in (known[name] for name in names if name in known):
        now, then, flag = getattr(asked, one.name), one.default, f"--{one.fields[0].name.replace('_', '-')}"
        if one.name == "terms":
            then = tuple(dict.fromkeys((*now, *ALL_TERMS)))
        elif one.name == "community" and not now:
            flag, then = "the rule against community hosts (--community)", True
        if now != then:
            yield flag, replace(asked, **{one.name: then})
