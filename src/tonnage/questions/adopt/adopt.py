"""
From a running deployment to what should run: what it does today, by prediction, and the better plan with its saving.

The load is what the user states; else what today's replicas carry within the objectives, so that the better plan does
the same work. Everything that the file does not say is assumed once, for both, and listed. Both are ranked by averages
(the mean-field approximation), so that their difference is not one of method; `command` asks for the whole plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.plan import Configuration
from tonnage.domain.precision import number_format
from tonnage.domain.train_plan import TrainConfiguration
from tonnage.errors import BadRequest, TonnageError
from tonnage.questions.adopt.answer import Adoption, Machine, Running, Saving, ServeSides, TrainSides
from tonnage.questions.adopt.request import Adopt
from tonnage.questions.adopt.serve import served_today
from tonnage.questions.adopt.train import trained_today
from tonnage.questions.calibrate.calibrated import with_calibrations
from tonnage.units import show

WORTH: Final = 0.01
"""A saving below this share of today's cost is none: prices move more. [-]"""


def adopt(
    request: Adopt, running: Running, *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> Adoption:
    """
    What runs, what it does, and what should run.

    Parameters
    ----------
    request : Adopt
        What the file does not say.
    running : Running
        What it says, as `tonnage.adopt` reads it.
    additions : Additions
        The user's own accelerators, models and offers.
    today : date, optional
        The day prices are aged from.

    Raises
    ------
    TonnageError
        Model or accelerator cannot be known: the sentence says which field names it.
    """
    day = today or date.today()
    accelerator = accelerator_of(request, running.machine, additions=additions)
    looking = served_today if running.kind == "serve" else trained_today
    found = looking(request, running, accelerator=accelerator, additions=additions, today=day)
    saving = _saving(found.sides)
    sentence = _sentence(running, found.sides, saving, found.findings)
    return with_calibrations(replace(found, sentence=sentence, saving=saving), additions=additions)


def accelerator_of(request: Adopt, machine: Machine, *, additions: Additions) -> str:
    """The accelerator's id: as the user says, as the file says, or as the only offer of its instance type has it."""
    if request.accelerator is not None:
        return catalog.predictable_accelerator(request.accelerator, additions).id
    for name in machine.accelerators:
        try:
            return catalog.predictable_accelerator(name, additions).id
        except TonnageError:
            continue
    offered = {
        offer.accelerator
        for offer in catalog.offers(additions=additions)
        if machine.instance_type and offer.instance_type.lower() == machine.instance_type.lower()
    }
    if len(offered) == 1:
        return catalog.predictable_accelerator(offered.pop(), additions).id
    said = (
        f"says '{machine.words}', which names no accelerator of the catalogue"
        if machine.words
        else "does not say what it runs on"
    )
    raise BadRequest(f"accelerator is missing: the file {said}; give it, for example H100")


def _saving(sides: ServeSides | TrainSides) -> Saving | None:
    """What the better plan's first option costs less; None where that is next to nothing."""
    if sides.current is None or sides.better is None or not sides.better.options:
        return None
    if isinstance(sides, ServeSides):
        before, after = sides.current.options[0].usd_per_month, sides.better.options[0].usd_per_month
    else:
        before, after = sides.current.options[0].cost.value, sides.better.options[0].cost.value
    if before <= 0 or (before - after) / before < WORTH:
        return None
    return Saving(
        usd=before - after, share=(before - after) / before, unit="month" if isinstance(sides, ServeSides) else "run"
    )


def _sentence(running: Running, sides: ServeSides | TrainSides, saving: Saving | None, findings: Sequence[str]) -> str:
    """The answer in one sentence."""
    current, better = sides.current, sides.better
    if current is None:
        after = f" {better.sentence}" if better is not None and better.feasible else ""
        return f"What the {running.format} starts cannot run: {findings[0] if findings else 'it does not fit'}.{after}"
    option = current.options[0]
    cost = show(option.bill.usd_per_hour, "USD/h")
    now = f"Today {option.accelerators} x {option.configuration.accelerator} at {cost} ({option.bill.provider})"
    if saving is None or better is None:
        return f"{now}: nothing cheaper does the same."
    first = better.options[0]
    then = f"{first.accelerators} x {first.configuration.accelerator} at {show(first.bill.usd_per_hour, 'USD/h')}"
    per = "a month" if saving.unit == "month" else "on the run"
    does = _does_the_same(option.configuration, first.configuration)
    return f"{now}; {then} ({first.bill.provider}) {does} and saves ${saving.usd:,.0f} {per} ({saving.share:.0%})."


def _does_the_same(today: Configuration | TrainConfiguration, better: Configuration | TrainConfiguration) -> str:
    """What the better one does, and which formats of fewer bits it needs for that: those change what is answered."""
    if not isinstance(today, Configuration) or not isinstance(better, Configuration):
        return "does the same"
    before, after = today.precision, better.precision
    narrower = [
        f"{name.upper()} {what}"
        for what, old, name in (("weights", before.stored, after.stored), ("KV cache", before.kv, after.kv))
        if number_format(name).bits < number_format(old).bits
    ]
    return f"carries the same load with {', '.join(narrower)}" if narrower else "does the same"
