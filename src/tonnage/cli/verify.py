"""`tonnage verify`: a kept plan made again from its own request and day; the same to the byte, or what differs."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import own_facts, own_facts_options, show_options, show_progress

__all__ = ["verify"]

DIFFERENT = 1


@click.command()
@click.argument("path", metavar="PLAN.json")
@own_facts_options
@show_options("differences")
@click.option("--json", "as_json", is_flag=True, help='the answer as JSON, "schema": "tonnage.verify/1"')
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    path: str,
    top: int | None,
    show_all: bool,
    why: bool,
    as_json: bool,
    **facts: Any,
) -> None:
    """
    Make a kept plan again from its own request and day, and hold it against the file.

    The program and the data are those installed: `pip install tonnage==VERSION` in an environment of its own gives
    those of the file, which both are named in it. Exit codes: 0 the same, 1 not the same, 2 no plan.
    """
    from tonnage.planning.verify import verify as verified
    from tonnage.report.answers import show
    from tonnage.report.document import as_json as document

    with show_progress("planning again"):
        found = verified(path, additions=own_facts(facts))
    if as_json:
        click.echo(document(found))
    else:
        show(found, top=top, every=show_all, why=why)
    if not found.same:
        ctx.exit(DIFFERENT)
