"""Plans for samples, for fleets and for whole lives, opened: where each number comes from."""

from __future__ import annotations

from tonnage.domain.fleet_plan import FleetPlan
from tonnage.domain.infer_plan import InferOption, InferPlan
from tonnage.domain.lifecycle import LifecyclePlan
from tonnage.report.console import lines, make_console
from tonnage.report.explain import show_explanation
from tonnage.report.fleet import show_fleet_plan
from tonnage.report.infer import account_lines
from tonnage.report.lifecycle import show_lifecycle_plan
from tonnage.report.opened import bill_lines, made_line, opened, parts_table
from tonnage.report.train_plan import explain_train_plan
from tonnage.units import show

__all__ = ["explain_fleet_plan", "explain_infer_plan", "explain_lifecycle_plan"]


def explain_infer_plan(plan: InferPlan, *, rank: int = 1) -> None:
    """
    Print what the option of that rank is made of.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    console, option = opened(plan.sentence, plan.options, rank=rank, label=_label)
    if option is not None:
        lines(console, "What one does, and how many that takes", texts=_count(plan, option))
        lines(console, "Bill", texts=[] if option.bill is None else bill_lines(option.bill))
        lines(console, "What the money buys", texts=account_lines(option))
        lines(console, "Decoder rates from", texts=[option.source] if option.source else [])
    lines(console, "Cannot do it", texts=[f"{loser.what}: {loser.verdict.reason}" for loser in plan.rejected])
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))
    made_line(console, plan.provenance)


def _label(option: InferOption) -> str:
    return f"{option.count} x {option.accelerator} {option.precision} {option.engine}"


def explain_fleet_plan(plan: FleetPlan) -> None:
    """Print the plan with every line of its bill and all that was left out, each with where it comes from."""
    show_fleet_plan(plan, top=len(plan.rejected))
    console = make_console()
    if plan.bill is not None and plan.bill.parts:
        console.print("\nThe month's bill, opened", style="bold")
        console.print(parts_table(plan.bill))
    made_line(console, plan.provenance)


def explain_lifecycle_plan(plan: LifecyclePlan, *, rank: int = 1) -> None:
    """
    Print the life, then both of its plans opened; `rank` chooses the option of each.

    Raises
    ------
    BadRequest
        A half has no option of that rank.
    """
    show_lifecycle_plan(plan)
    console = make_console()
    if plan.bill is not None:
        console.print("\nThe whole bill, opened", style="bold")
        console.print(parts_table(plan.bill))
    console.print("\nMaking it\n", style="bold underline")
    explain_train_plan(plan.make, rank=rank)
    console.print("\nServing it\n", style="bold underline")
    show_explanation(plan.serve, rank=rank)


def _count(plan: InferPlan, option: InferOption) -> list[str]:
    load, each = plan.request.rate_per_s, option.capacity_per_s
    between = "" if each.low is None or each.high is None else f" ({show(each.low, '1/s')}-{show(each.high, '1/s')})"
    whole = option.count * each.value
    return [
        f"one takes {show(each.value, '1/s')}{between} in batches of {option.batch}, basis {option.basis}",
        f"{show(load, '1/s')} / ({option.count} x {show(each.value, '1/s')}) = {load / whole:.0%} in use; "
        f"what sets the count: {option.binds}",
        f"arithmetic in use: {option.arithmetic_used:.1%} of the peak",
        *([] if option.decode_used is None else [f"video decoders in use: {option.decode_used:.0%}"]),
        f"an answer takes {show(option.latency_s.value, 's')}: filling the batch, waiting, running",
    ]
