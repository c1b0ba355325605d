"""`tonnage explain`: every number of a plan opened into the parts it is made of."""

from __future__ import annotations

import click

__all__ = ["explain"]


@click.command()
@click.argument("path", metavar="PLAN.json")
@click.option("--option", "rank", type=click.IntRange(1), default=1, show_default=True, help="which option to open")
def explain(path: str, rank: int) -> None:
    """Open one option of a plan (`-` = standard input): memory, capacity or run, bill, sources."""
    from tonnage.nouns.batch_plan import BatchPlan
    from tonnage.nouns.fleet_plan import FleetPlan
    from tonnage.nouns.infer_plan import InferPlan
    from tonnage.nouns.lifecycle import LifecyclePlan
    from tonnage.nouns.plan import ServePlan
    from tonnage.planner.plans import read_plan

    plan = read_plan(path)
    if isinstance(plan, ServePlan):
        from tonnage.report.explain import show_explanation

        show_explanation(plan, rank=rank)
    elif isinstance(plan, BatchPlan):
        from tonnage.report.batch import explain_batch_plan

        explain_batch_plan(plan, rank=rank)
    elif isinstance(plan, InferPlan):
        from tonnage.report.explain_kinds import explain_infer_plan

        explain_infer_plan(plan, rank=rank)
    elif isinstance(plan, FleetPlan):
        from tonnage.report.explain_kinds import explain_fleet_plan

        explain_fleet_plan(plan)
    elif isinstance(plan, LifecyclePlan):
        from tonnage.report.explain_kinds import explain_lifecycle_plan

        explain_lifecycle_plan(plan, rank=rank)
    else:
        from tonnage.report.train_plan import explain_train_plan

        explain_train_plan(plan, rank=rank)
