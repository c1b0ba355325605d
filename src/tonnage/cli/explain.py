"""`tonnage explain`: every number of a plan opened into the parts it is made of."""

from __future__ import annotations

import click

__all__ = ["explain"]


@click.command()
@click.argument("path", metavar="PLAN.json")
@click.option("--option", "rank", type=click.IntRange(1), default=1, show_default=True, help="which option to open")
def explain(path: str, rank: int) -> None:
    """Open one option of a plan (`-` = standard input): memory, capacity or run, bill, sources."""
    from tonnage.planner.plans import read_plan
    from tonnage.report.answers import explain as opened

    opened(read_plan(path), rank=rank)
