"""`tonnage check`: a request planned again, against a plan that was kept; for continuous integration."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from tonnage.cli import remark_date
from tonnage.cli.options import own_facts, own_facts_options, show_options, show_progress

__all__ = ["check"]

CHANGED = 1
INFEASIBLE = 3


@click.command()
@click.argument("path", metavar="REQUEST.yaml")
@click.option("--baseline", required=True, metavar="PLAN.json", help="the kept plan, as `tonnage plan -o` wrote it")
@click.option("--tolerance", default="5%", show_default=True, help="a figure that moves by no more counts as unchanged")
@click.option("--markdown", type=click.Path(dir_okay=False), help="also write a pull-request comment to this file")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="count the age of prices from this date")
@own_facts_options
@show_options("figures")
@click.option("--json", "as_json", is_flag=True, help='the answer as JSON, "schema": "tonnage.check/1"')
@click.pass_context
def check(
    ctx: click.Context,
    /,
    path: str,
    baseline: str,
    tolerance: str,
    markdown: str | None,
    today: datetime | None,
    as_json: bool,
    **options: Any,
) -> None:
    """
    Plan the request (`-` = standard input) again and say what changed in fit, accelerators, cost and latency.

    Exit codes: 0 unchanged, 1 changed beyond the tolerance, 2 bad request, 3 infeasible now.
    """
    from tonnage.errors import BadRequest
    from tonnage.planning import check as checking
    from tonnage.planning.ask import answer_file
    from tonnage.planning.plans import read_plan
    from tonnage.report import check as report
    from tonnage.report.answers import show
    from tonnage.report.document import as_json as document
    from tonnage.units import read

    share = read(tolerance, "fraction")
    if not 0 <= share <= 10:
        raise BadRequest(f"tolerance: {tolerance} must be from 0 % to 1000 %")
    kept = read_plan(baseline)  # before the work, which a wrong file would waste
    additions, day = own_facts(options), today.date() if today else None
    remark_date(day, additions)
    with show_progress("planning again"):
        fresh = answer_file(path, additions=additions, today=day)
    found = checking.check(kept, fresh, tolerance=share)
    if markdown is not None:
        with open(markdown, "w", encoding="utf-8") as file:
            file.write(report.as_markdown(found))
    if as_json:
        click.echo(document(found))
    else:
        show(found, top=options["top"], every=options["show_all"], why=options["why"])
    if not found.feasible:
        ctx.exit(INFEASIBLE)
    if found.changed:
        ctx.exit(CHANGED)
