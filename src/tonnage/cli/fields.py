"""`tonnage fields`: what may be asked in a question, with units, bounds and defaults."""

from __future__ import annotations

import click

from tonnage.questions.registry import REQUESTS


@click.command()
@click.argument("question", metavar="|".join(REQUESTS))
@click.option("--json", "as_json", is_flag=True, help="the fields as JSON, schema tonnage.fields/1")
def fields(question: str, as_json: bool) -> None:
    """
    The fields of a question, as files, options, the API and Python take them.

    \b
    tonnage fields serve
    tonnage fields fleet --json
    """
    import msgspec

    from tonnage.questions.request_schema import describe_fields
    from tonnage.report.listing import show_fields

    found = describe_fields(question)
    if as_json:
        click.echo(msgspec.json.encode({"schema": "tonnage.fields/1", "question": question, "fields": found}).decode())
    else:
        click.echo(show_fields([msgspec.to_builtins(field) for field in found]))
