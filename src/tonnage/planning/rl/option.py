"""One arranged case on one offer becomes an option: the run over time, its bill, and what stands in its way."""

from __future__ import annotations

import math
from datetime import date

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.answer import Basis, Verdict
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.requests.rl import Rl
from tonnage.domain.rl_plan import RlOption
from tonnage.planning.rl.candidates import Arranged
from tonnage.planning.train.option import ROUNDING, beyond, chance_of_run, configuration_of, cost_of, run_of
from tonnage.planning.train.places import Rental

__all__ = ["InfeasibleRl", "RlContext", "options_of"]


class RlContext(msgspec.Struct, frozen=True, kw_only=True):
    """The request with everything that holds for every place."""

    request: Rl
    model: Model
    today: date
    additions: Additions = catalog.NOTHING


class InfeasibleRl(msgspec.Struct, frozen=True, kw_only=True):
    """A place that cannot do it, and why."""

    what: str
    accelerator: str
    count: int
    verdict: Verdict
    option: RlOption | None = None
    """What it would be, where only deadline or budget is missed."""


def options_of(asked: RlContext, rental: Rental, *, arranged: Arranged | None) -> list[RlOption | InfeasibleRl]:
    """One outcome per term that the rental offers."""
    place = rental.place
    what, card = f"{place.count} x {place.accelerator.id}", place.accelerator.id
    if arranged is None:
        verdict = Verdict(
            ok=False,
            limit="layout",
            reason=f"no split and layouts divide {what}",
            nearest="a count that is a power of 2",
        )
        return [InfeasibleRl(what=what, accelerator=card, count=place.count, verdict=verdict)]
    if not arranged.result.fits or arranged.result.step_s is None:
        short = _short_bytes(arranged)
        verdict = Verdict(
            ok=False,
            limit="memory",
            reason=arranged.result.why,
            short_by=short,
            unit="bytes",
            nearest=f"{2 * place.count} accelerators, or an optimizer with smaller states",
        )
        return [InfeasibleRl(what=what, accelerator=card, count=place.count, verdict=verdict)]
    found: list[RlOption | InfeasibleRl] = []
    for term in dict.fromkeys(made.term for made in rental.bills):
        option = _option(asked, rental, arranged, term=term)
        missed = beyond(asked.request, option)
        found.append(
            option
            if missed is None
            else InfeasibleRl(
                what=option.configuration.label(),
                accelerator=card,
                count=place.count,
                verdict=missed,
                option=option,
            )
        )
    return found


def _short_bytes(arranged: Arranged) -> float:
    """What the fullest accelerator lacks, on the side that lacks more. [bytes]"""
    usable = arranged.trained.setup.accelerator.driver_memory_bytes
    sides = (arranged.result.train_memory, arranged.result.rollout_memory)
    return max((side.value - usable for side in sides if side is not None), default=0.0)


def _option(asked: RlContext, rental: Rental, arranged: Arranged, *, term: str) -> RlOption:
    request, result, case, place = asked.request, arranged.result, arranged.case, rental.place
    assert (
        result.step_s is not None
        and result.step_s.high is not None
        and result.step is not None
        and result.tokens_per_s_per_accelerator is not None
    )
    assert result.train_memory is not None and result.rollout_memory is not None
    bills = [made for made in rental.bills if made.term == term]
    run = run_of(
        request,
        arranged.trained.setup,
        step_s=result.step_s.value,
        step_factor=result.step_s.high / result.step_s.value,
        steps=max(1.0, math.ceil(request.steps)),
        instances=bills[0].instances,
        instance_size=bills[0].accelerators_per_instance,
        term=term,
    )
    cheapest, cost = cost_of(bills, run, basis=Basis(result.basis))
    option = RlOption(
        case=case,
        configuration=configuration_of(arranged.trained.setup, place),
        rollout=Configuration(
            accelerator=case.accelerator,
            layout=case.rollout_layout,
            engine=Engine(name=case.engine),
            precision=case.rollout_precision or Precision(weights="bf16"),
            intra_link=place.intra_link,
        ),
        replicas=arranged.made.replicas,
        accelerators=case.count,
        rollout_accelerators=case.rollout_accelerators,
        train_accelerators=case.train_accelerators,
        step_s=result.step_s,
        step=result.step,
        tokens_per_s_per_accelerator=result.tokens_per_s_per_accelerator,
        rollout_tokens_per_s_per_accelerator=result.rollout_tokens_per_s_per_accelerator or 0.0,
        binds=result.binds,
        rollout_memory=result.rollout_memory,
        memory=result.train_memory,
        limit_bytes=place.accelerator.driver_memory_bytes,
        run=run,
        bill=cheapest[0],
        cost=cost,
        basis=result.basis,
        needs=result.needs,
        notes=(*rental.notes, *result.notes),
    )
    chance = chance_of_run(option, deadline_s=request.deadline_s, budget_usd=request.budget_usd)
    return replace(option, chance=chance, sure=chance >= request.confidence - ROUNDING)
