"""`tonnage verify`: a kept plan made again from its own request and day; the same to the byte, or what differs."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli.options import FILE, json_option, output_of, own_facts, own_facts_options, show_options, show_progress

DIFFERENT = 1


@click.command()
@click.argument("path", metavar="PLAN.json")
@own_facts_options
@show_options("differences")
@click.option("--badge", type=FILE, metavar="FILE.svg", help="draw the outcome, for a document")
@json_option("verify")
@click.pass_context
def verify(ctx: click.Context, /, path: str, badge: str | None, **options: Any) -> None:
    """
    Make a kept plan again from its own request and day, and hold it against the file.

    A plan of other data is made again from that data too, where it is installed or ships (`tonnage data`); the
    program is the installed one: `pip install tonnage==VERSION` in an environment of its own gives the file's, which
    it names. Exit codes: 0 the same, 1 not the same, 2 no plan.
    """
    from tonnage.errors import BadRequest
    from tonnage.questions.check.check import verify as verified

    with show_progress("planning again"):
        found = verified(path, additions=own_facts(options))
    output_of(options).show(found)
    if badge is not None:
        from tonnage.questions.check.page import badge as drawn

        try:
            with open(badge, "w", encoding="utf-8") as file:
                file.write(drawn(found))
        except OSError as error:
            raise BadRequest(f"--badge {badge}: cannot be written ({error.strerror})") from None
    if not found.same:
        ctx.exit(DIFFERENT)
