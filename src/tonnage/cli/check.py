"""`tonnage check`: a request planned again, against a plan that was kept; for continuous integration."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli import remark_date
from tonnage.cli.options import (
    FILE,
    json_option,
    output_of,
    own_facts,
    own_facts_options,
    reads,
    show_options,
    show_progress,
    today_option,
)

CHANGED = 1


@click.command()
@click.argument("path", metavar="REQUEST.yaml")
@click.option("--baseline", required=True, metavar="PLAN.json", help="the kept plan, as `tonnage plan -o` wrote it")
@click.option(
    "--tolerance",
    default="5%",
    callback=reads("fraction"),
    help="a figure that moves by no more counts as unchanged",
)
@click.option("--markdown", type=FILE, help="also write a pull-request comment to this file")
@today_option
@own_facts_options
@show_options("figures")
@json_option("check")
@click.pass_context
def check(ctx: click.Context, /, path: str, tolerance: float, markdown: str | None, **options: Any) -> None:
    """
    Plan the request (`-` = standard input) again and say what changed in fit, accelerators, cost and latency.

    Exit codes: 0 unchanged, 1 changed beyond the tolerance, 2 bad request, 3 infeasible now.
    """
    from tonnage.errors import BadRequest
    from tonnage.questions.ask import answer_file, read_plan
    from tonnage.questions.check import check as checking
    from tonnage.questions.check import page as report

    if not 0 <= tolerance <= 10:
        raise BadRequest(f"tolerance: {tolerance:g} must be from 0 % to 1000 %")
    kept = read_plan(options["baseline"])  # before the work, which a wrong file would waste
    additions, today = own_facts(options), options["today"]
    remark_date(today, additions)
    with show_progress("planning again"):
        fresh = answer_file(path, additions=additions, today=today)
    found = checking.check(kept, fresh, tolerance=tolerance)
    if markdown is not None:
        with open(markdown, "w", encoding="utf-8") as file:
            file.write(report.as_markdown(found))
    output_of(options).show(found)
    if found.changed:
        ctx.exit(CHANGED)
