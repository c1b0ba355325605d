"""What a load or a training run needs of what was measured, as documents: replicas, or accelerator-hours."""

from __future__ import annotations

from tonnage.domain.measurement import Capacity
from tonnage.domain.train_measurement import TrainBudget
from tonnage.report.document import Document, Headline, document, grid, sections
from tonnage.report.measure import three_digits
from tonnage.units import percent, show


def capacity_sentence(capacity: Capacity) -> str:
    """Replicas for a peak load, and what one of them sustains, in one sentence."""
    spare = f", {capacity.spare} of them spare" if capacity.spare else ""
    noun = "replica" if capacity.replicas == 1 else "replicas"
    return (
        f"{capacity.replicas} {noun}{spare}, for a peak of {show(capacity.peak_per_s, 'count', digits=4)} requests/s: "
        f"one sustains {capacity.sustained_per_s:.4g} as measured, {capacity.usable_per_s:.4g} with "
        f"{percent(capacity.headroom)} kept free."
    )


def capacity_document(capacity: Capacity) -> Document:
    """Replicas for a load."""
    return document(Headline(capacity_sentence(capacity)), sections({"Why": capacity.reasons}))


def budget_sentence(budget: TrainBudget) -> str:
    """Accelerator-hours of a training run with its headroom, and of the run alone, in one sentence."""
    noun = "accelerator" if budget.devices == 1 else "accelerators"
    late = "" if budget.fits_deadline in {None, True} else " That is later than the deadline."
    whole, alone = show(budget.total_s, "s"), show(budget.run_s, "s")
    return (
        f"{budget.accelerator_hours:,.4g} accelerator-hours: {budget.devices:,} {noun} for {whole}, of which the run "
        f"alone takes {budget.run_accelerator_hours:,.4g} in {alone} "
        f"({budget.steps:,} steps of {show(budget.step_s, 's')}).{late}"
    )


def budget_document(budget: TrainBudget) -> Document:
    """Accelerator-hours and their timeline."""
    rows = []
    for phase in budget.phases:
        begin, end = phase.begin or show(phase.begin_s, "s"), phase.end or show(phase.end_s, "s")
        rows.append((phase.name, begin.replace("T", " "), end.replace("T", " "), three_digits(phase.accelerator_hours)))
    table = grid(["phase", "from", "to", "accelerator-hours>"], rows)
    return document(Headline(budget_sentence(budget)), table, sections({"Why": budget.reasons}))
