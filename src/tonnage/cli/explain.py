"""`tonnage explain`: every number of a plan, a case or a prediction opened into the parts it is made of."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import own_facts, own_facts_options, show_progress, why_option

INFEASIBLE = 3


@click.command()
@click.argument("path", metavar="FILE")
@click.option("--option", "rank", type=click.IntRange(1), default=1, help="which option of a plan")
@click.option(
    "--depth",
    type=click.IntRange(0, 30),
    help="levels below each time  [default: 7, of a plan's option 6, of JSON all]",
)
@click.option("--number", "only", metavar="NAME", help="one of them alone: TTFT, TPOT, 'end to end', step …")
@why_option
@click.option("--json", "as_json", is_flag=True, help="the times as nested nodes, schema tonnage.breakdown/1")
@own_facts_options
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    path: str,
    rank: int,
    depth: int | None,
    only: str | None,
    why: bool,
    as_json: bool,
    **facts: Any,
) -> None:
    """
    Open one option of a plan, a case as `tonnage predict` reads it, or a prediction with its parts.

    FILE is JSON or YAML (`-` = standard input). The first screen names the largest parts of each number. With --why,
    of a plan: memory, capacity or run, bill, sources; of all of them: TTFT, TPOT, rates or the step time down to
    operators, each with its shape, its share of the roofline, and the measured grid it rests on. --number and --depth
    open times alone.
    """
    from tonnage.errors import BadRequest
    from tonnage.questions.answers import explanation_of, show_document
    from tonnage.questions.explain.explain import explain_file
    from tonnage.questions.explain.page import DEPTH, PLAN_DEPTH, breakdown_document, opened_to, plan_breakdown
    from tonnage.report.document import as_json as json_text
    from tonnage.report.measured import with_measured

    with show_progress("opening every number"):
        found = explain_file(path, rank=rank, additions=own_facts(facts))
    if as_json:
        if not found.breakdowns:
            raise BadRequest("this plan has no times to open; plans that serve or train with an option have")
        opened = [opened_to(breakdown, depth=depth, only=only) for breakdown in found.breakdowns]
        click.echo(json_text(opened[0] if len(opened) == 1 else opened))
        return
    deep = why or only is not None or depth is not None
    if found.plan is not None:
        whole = explanation_of(found.plan, rank=rank)
        show_document(plan_breakdown(whole, found.plan, rank=rank, breakdowns=found.breakdowns), why=why)
    levels = depth if depth is not None else DEPTH if found.plan is None else PLAN_DEPTH
    for breakdown in found.breakdowns if deep or found.plan is None else ():
        shown = breakdown_document(breakdown, depth=levels, only=only)
        show_document(shown if found.plan is not None else with_measured(shown, breakdown), why=deep)
    if found.plan is None and not all(breakdown.numbers for breakdown in found.breakdowns):
        ctx.exit(INFEASIBLE)
