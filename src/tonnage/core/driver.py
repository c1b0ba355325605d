"""
The stages that every plan of ranked options goes through, in one place; what a kind of plan does in each is its `Kind`.

A request becomes a context once its model is found to do such work. The search gives options in their order, and what
cannot do it; a line for each accelerator that loses, their counts, what stands in the way, choices, provenance and the
measurements that moved what is refused follow alike for all kinds. Each adds its own sections. Where nothing does it,
every constraint that the request names is dropped in turn, and what then leads stands beside the constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.additions import any_counts
from tonnage.core.header import (
    AnyLoser,
    Infeasible,
    Loser,
    Nearness,
    Request,
    by_reason,
    model_facts,
    nearest_losers,
    nearest_of_each,
    provenance,
    what_binds,
    what_relaxing_buys,
)
from tonnage.core.measure_first import Weighed, first_of
from tonnage.core.ranking import Traits, choices, traits_of
from tonnage.domain.answer import Verdict
from tonnage.domain.calibration import CalibrationUse
from tonnage.domain.infer_plan import InferOption
from tonnage.domain.model import Model
from tonnage.domain.plan import (
    PLAN_SCHEMA,
    RankedPlan,
    Rejection,
)
from tonnage.domain.refusal import none_works
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.record import Record

if TYPE_CHECKING:
    from tonnage.core.calibration_use import Run


class Asked(Protocol):
    """A request with what holds for every place, as far as all kinds have it."""

    @property
    def model(self) -> Model: ...


Question = TypeVar("Question", bound=Asked)
Option = TypeVar("Option", bound=Weighed)
Made = TypeVar("Made", bound=RankedPlan[Any, Any])


class Found(Record, Generic[Request, Option, Made], kw_only=True):
    """What a search found, and how the plan of its kind is made of that."""

    options: tuple[Option, ...]
    """In their order, each with the reason for its place."""
    missed: Sequence[Loser] = ()
    """Tries that failed; the plan tells the nearest of each accelerator on which nothing works."""
    refused: tuple[Rejection, ...] = ()
    """Told before the nearest try of each accelerator."""
    excluded: tuple[Rejection, ...] = ()
    """Told after them."""
    binding: Verdict | None = None
    """What stands in the way where nothing does it; absent = the limit of the try that came nearest."""
    evaluated: int
    """Candidates that were looked at, failed ones included."""
    assumed: tuple[str, ...] = ()
    """What is taken as given beside what the kind says of every request."""
    plan: Callable[..., Made]
    """Makes the plan's record of the fields that all kinds have, given by name."""
    sections: Callable[[Made], Made]
    """A plan with options -> the same with the sections of its kind."""


def _nearest(loser: Loser) -> tuple[float]:
    return (loser.verdict.short_by or 0.0,)


def _nothing(asked: object, loser: Loser) -> Iterable[Run]:
    return ()


class Kind(Record, Generic[Request, Question, Option, Made], kw_only=True):
    """What is particular to one kind of plan."""

    ask: Callable[[Request, Additions, date], Question]
    """Raises where the model cannot be asked so, or the request contradicts itself."""
    look: Callable[[Question], Found[Request, Option, Made]]
    nearness: Nearness = _nearest
    purpose: Callable[[Question], str]
    """What is asked for, after "No feasible plan": "to serve M"."""
    sentence: Callable[[Question, tuple[Option, ...]], str]
    """The answer in one sentence."""
    describe: Callable[[Option], str]
    """An option in a few words."""
    assumed: Callable[[Question, tuple[Option, ...]], Iterable[str]]
    """Everything the answer takes as given that the user did not say."""
    traits: Callable[[Request, Option], Traits] = traits_of
    """What a choice between options looks at."""
    measured: Callable[[Question, Loser], Iterable[Run]] = _nothing
    """What cannot do it, as calibrations know it."""


def plan_alone(
    kind: Kind[Request, Question, Option, Made], request: Request, *, additions: Additions, today: date
) -> Made:
    """The plan for a request, without what relaxing its constraints would buy and without what to measure first."""
    asked = kind.ask(request, additions, today)
    found = kind.look(asked)
    options, by = found.options, kind.nearness
    doing = {o.accelerator if isinstance(o, InferOption) else o.configuration.accelerator for o in options}
    rejected = (*found.refused, *nearest_of_each(found.missed, doing=doing, by=by), *found.excluded)
    binding, moved = None, tuple[CalibrationUse, ...]()
    if not options:
        binding = found.binding or what_binds(found.missed, found.excluded, by=by)
        moved = moved_losers(found.missed, partial(kind.measured, asked), by=by, additions=additions)
    bills = (option.bill for option in options if option.bill is not None)
    made = found.plan(
        schema=PLAN_SCHEMA,
        feasible=bool(options),
        sentence=kind.sentence(asked, options)
        if options
        else none_works(f"No feasible plan {kind.purpose(asked)}", binding),
        request=request,
        model=model_facts(asked.model),
        options=options,
        choices=choices([kind.traits(request, option) for option in options]),
        rejected=rejected,
        rejected_by_reason=by_reason(rejected),
        calibrations=moved,
        binding=binding,
        evaluated=found.evaluated,
        provenance=provenance(bills, today=today, assumed=(*kind.assumed(asked, options), *found.assumed)),
    )
    return found.sections(made) if options else made


def plan_or_relax(
    kind: Kind[Request, Question, Option, Made], request: Request, *, additions: Additions, today: date | None
) -> Made:
    """The plan and what to measure first; where nothing does it, with what relaxing one constraint buys."""
    day = today or date.today()
    made = plan_alone(kind, request, additions=additions, today=day)
    if made.feasible:
        return replace(made, measure_first=first_of(made))

    def leads(other: Request) -> str | None:
        # What is only asked whether it would do is answered by averages.
        asked = replace(other, quick=True) if isinstance(other, Serve) else other
        options = kind.look(kind.ask(asked, additions, day)).options
        return kind.describe(options[0]) if options else None

    return replace(made, relaxing=what_relaxing_buys(request, leads))


def moved_losers(
    losers: Iterable[AnyLoser], runs: Callable[[AnyLoser], Iterable[Run]], *, by: Nearness, additions: Additions
) -> tuple[CalibrationUse, ...]:
    """
    The measurements that moved what is refused, where nothing works: of the try that came nearest on each accelerator.

    Parameters
    ----------
    losers
        What was tried.
    runs : callable
        Loser -> its configuration as calibrations know it; nothing where none was arranged.
    by : callable
        How near a loser came.
    additions : Additions
        The user's own files.
    """
    if not any_counts(additions):
        return ()
    from tonnage.core.calibration_use import calibrations_among

    parts = catalog.accelerators(additions)
    near = (loser for loser in nearest_losers(losers, by=by) if loser.accelerator in parts)
    return calibrations_among((run for loser in near for run in runs(loser)), additions=additions)


def alone(request: Serve | Batch, loser: Loser) -> Iterable[Run]:
    """The configuration that cannot do it as one case with a single request in flight, which calibrations may move."""
    from tonnage.core.calibration_use import at_once

    assert isinstance(loser, Infeasible)
    return (at_once(loser.configuration, model=request.model, lengths=request.lengths, concurrency=1.0),)
