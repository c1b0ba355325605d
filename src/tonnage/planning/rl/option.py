"""One arranged case on one offer becomes an option: the run over time, its bill, and what stands in its way."""

from __future__ import annotations

import math
from datetime import date
from typing import cast

import msgspec
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.answer import Basis, Quantity, Verdict
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.domain.plan import Bill, Configuration
from tonnage.domain.precision import Precision
from tonnage.domain.requests.rl import Rl
from tonnage.domain.requests.train import Train
from tonnage.domain.rl_plan import RlOption
from tonnage.domain.train_plan import Run, TrainConfiguration
from tonnage.planning.rl.candidates import Arranged
from tonnage.planning.train.job import Job, TrainContext
from tonnage.planning.train.option import ROUNDING, chance_of_run, run_of
from tonnage.planning.train.places import Rental
from tonnage.pricing.bills import with_spares
from tonnage.pricing.terms import billing_rules, charged_hours, run_lines
from tonnage.units import show

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
        beyond = _beyond(asked.request, option)
        found.append(
            option
            if beyond is None
            else InfeasibleRl(
                what=option.configuration.label(),
                accelerator=card,
                count=place.count,
                verdict=beyond,
                option=option,
            )
        )
    return found


def _short_bytes(arranged: Arranged) -> float:
    """What the fullest accelerator lacks, on the side that lacks more. [bytes]"""
    usable = arranged.trained.job.accelerator.driver_memory_bytes
    sides = (arranged.result.train_memory, arranged.result.rollout_memory)
    return max((side.value - usable for side in sides if side is not None), default=0.0)


def _run(asked: RlContext, arranged: Arranged, bill: Bill) -> Run:
    """The run over time, as of any training job with this step: the request has the fields that a training's has."""
    request, setup = asked.request, arranged.trained.job.setup
    step = arranged.result.step_s
    assert step is not None and step.high is not None
    job = Job(
        kind="rl",
        method="full",
        sequences=request.steps * setup.global_batch,
        seq_len=setup.seq_len,
        global_batch=setup.global_batch,
        precision=request.precision,
        optimizer=request.optimizer,
    )
    context = TrainContext(
        request=cast(Train, request),
        model=asked.model,
        job=job,
        coefficients=training_coefficients(),
        today=asked.today,
    )
    return run_of(
        context,
        setup,
        step_s=step.value,
        step_factor=step.high / step.value,
        instances=bill.instances,
        instance_size=bill.accelerators_per_instance,
        term=bill.term,
    )


def _option(asked: RlContext, rental: Rental, arranged: Arranged, *, term: str) -> RlOption:
    result, case, place = arranged.result, arranged.case, rental.place
    assert result.step_s is not None and result.step is not None and result.tokens_per_s_per_accelerator is not None
    assert result.train_memory is not None and result.rollout_memory is not None
    bills = [made for made in rental.bills if made.term == term]
    run = _run(asked, arranged, bills[0])
    made = min((with_spares(one, spares=run.spares) for one in bills), key=lambda one: _usd(one, run.billed_s))
    share = run.billed_s / run.wall_s.value if run.wall_s.value else 1.0
    low, high = ((end or 0.0) * share for end in (run.wall_s.low, run.wall_s.high))
    usd, basis = _usd(made, run.billed_s), Basis(result.basis)
    usable = place.accelerator.driver_memory_bytes
    option = RlOption(
        case=case,
        configuration=_trainer(arranged, rental),
        rollout=Configuration(
            accelerator=case.accelerator,
            layout=case.rollout_layout,
            engine=Engine(name=case.engine),
            precision=case.rollout_precision or Precision(weights="bf16"),
            intra_link=place.intra_link,
        ),
        replicas=arranged.made.replicas,
        accelerators=case.count,
        rollout_accelerators=case.rollout_count or case.count,
        train_accelerators=case.count - (case.rollout_count or 0),
        step_s=result.step_s,
        step=result.step,
        tokens_per_s_per_accelerator=result.tokens_per_s_per_accelerator,
        rollout_tokens_per_s_per_accelerator=result.rollout_tokens_per_s_per_accelerator or 0.0,
        binds=result.binds,
        rollout_memory=result.rollout_memory,
        memory=result.train_memory,
        limit_bytes=usable,
        run=run,
        bill=made,
        cost=Quantity(
            value=usd,
            unit="USD",
            basis=basis,
            low=min(usd, _usd(made, low)),
            high=max(usd, _usd(made, high)),
            parts=_lines(made, run),
        ),
        basis=str(basis),
        needs=result.needs,
        notes=(*rental.notes, *result.notes),
    )
    chance = chance_of_run(option, deadline_s=asked.request.deadline_s, budget_usd=asked.request.budget_usd)
    return replace(option, chance=chance, sure=chance >= asked.request.confidence - ROUNDING)


def _trainer(arranged: Arranged, rental: Rental) -> TrainConfiguration:
    setup = arranged.trained.job.setup
    return TrainConfiguration(
        accelerator=rental.place.accelerator.id,
        count=setup.layout.ranks,
        layout=setup.layout,
        micro_batch=setup.micro_batch,
        num_micro_batches=setup.num_micro_batches,
        seq_len=setup.seq_len,
        recompute=setup.recompute,
        recompute_share=setup.recompute_share,
        precision=setup.precision,
        weights=setup.weights,
        optimizer=setup.optimizer,
        software=setup.software.name,
        method=setup.method,
        intra_link=rental.place.intra_link,
        inter_bytes_per_s=rental.place.inter_bytes_per_s,
    )


def _usd(made: Bill, billed_s: float) -> float:
    """What so long a run is charged, as the provider counts hours. [USD]"""
    rules = billing_rules(catalog.providers().get(made.provider))
    return made.usd_per_hour * charged_hours(billed_s, rules=rules, term=made.term, contract=made.contract)


def _lines(made: Bill, run: Run) -> tuple[Quantity, ...]:
    rules = billing_rules(catalog.providers().get(made.provider))
    if not math.isfinite(run.billed_s):
        return (Quantity(name="steps", value=math.inf),)
    named = {
        "steps": run.training_s,
        "validation": run.validation_s,
        "start": run.start_s,
        "headroom for retries and experiments": run.headroom_s,
    }
    named["checkpoints and interruptions"] = max(0.0, run.billed_s - sum(named.values()))
    hours = charged_hours(run.billed_s, rules=rules, term=made.term, contract=made.contract)
    spares = f", {run.spares} spare" if run.spares else ""
    told = f"{made.instances} x {made.usd_per_instance_hour:,.4g} USD/h{spares}"
    return run_lines(named, charged_h=hours, usd_per_hour=made.usd_per_hour, told=told)


def _beyond(request: Rl, option: RlOption) -> Verdict | None:
    """Deadline or budget missed, and by how much."""
    name, wall, usd = f"{option.accelerators} x {option.case.accelerator}", option.run.wall_s.value, option.cost.value
    if not option.run.useful_time_fraction.value:
        return Verdict(
            ok=False,
            limit="interruptions",
            reason=f"{name} is interrupted every {show(option.run.between_s, 's')} and gets nowhere",
            nearest="fewer instances, or on-demand",
        )
    if request.deadline_s is not None and wall > request.deadline_s:
        return Verdict(
            ok=False,
            limit="deadline",
            short_by=wall - request.deadline_s,
            unit="s",
            reason=f"{name} takes {show(wall, 's')}, and {show(request.deadline_s, 's')} are allowed",
            nearest=f"deadline {show(wall, 's')} on {name} for {show(usd, 'USD')}",
        )
    if request.budget_usd is not None and usd > request.budget_usd:
        return Verdict(
            ok=False,
            limit="budget",
            short_by=usd - request.budget_usd,
            unit="USD",
            reason=f"{name} costs {show(usd, 'USD')}, and {show(request.budget_usd, 'USD')} are allowed",
            nearest=f"budget {show(usd, 'USD')} on {name} in {show(wall, 's')}",
        )
    return None
