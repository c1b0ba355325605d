"""`tonnage data`: the tables that answers are made of: which are in use, newer ones, and what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tonnage.cli.options import json_option, output_of, show_progress
from tonnage.errors import BadRequest


@click.group(invoke_without_command=True)
@click.pass_context
def data(ctx: click.Context) -> None:
    """
    Models, accelerators, offers and prices that are newer than the program.

    Without a command: which data is in use, and what is installed. A release is a signed file; the newest one is used
    when its day is later than that of the shipped data, unless one is pinned (here, or by TONNAGE_DATA=VERSION).
    """
    if ctx.invoked_subcommand is None:
        from tonnage.questions.answers import show_document
        from tonnage.report.listing import status_document

        show_document(status_document())


@data.command("update")
@click.option("--from", "sources", multiple=True, metavar="URL|FILE",
              help="server, mirror or file, tried in this order  [TONNAGE_DATA_URL]")  # fmt: skip
@json_option()
def update_command(sources: tuple[str, ...], **options: Any) -> None:
    """Fetch the newest release, check its signature, and keep it beside the others; a file needs no network."""
    from tonnage.data.archive import trusted_keys
    from tonnage.data.update import sources_of, update

    with show_progress("fetching data") as tell:
        found = update(sources_of(sources), keys=trusted_keys(), watch=tell)
    output_of(options).show(found)


@data.command("diff")
@click.argument("before", required=False)
@click.argument("now", required=False)
@click.option("--all", "show_all", is_flag=True, help="every table, with its first rows")
@json_option()
def diff_command(before: str | None, now: str | None, **options: Any) -> None:
    """What differs between two releases: VERSION, `shipped` or a FILE each  [shipped, and the one in use]"""
    from tonnage.catalog.rows import SHIPPED, choose_data
    from tonnage.data.archive import DataDiff, diff_of

    names = (before or SHIPPED, now or choose_data().version)
    found = DataDiff(before=names[0], now=names[1], tables=diff_of(_tables(names[0]), _tables(names[1])))
    output_of(options).show(found)


def _tables(name: str) -> dict[str, bytes]:
    """The tables of a release that is installed, shipped or a file, by their names."""
    from tonnage.catalog.rows import SHIPPED, folder_in, installed_versions, shipped_version
    from tonnage.data.archive import read_release, tables_of, trusted_keys
    from tonnage.errors import echo

    if name in installed_versions():
        return tables_of(folder_in(name))
    if name in (SHIPPED, shipped_version()):
        return tables_of(None)
    if Path(name).is_file():
        return read_release(Path(name), keys=trusted_keys())[2]
    known = ", ".join((SHIPPED, *installed_versions()))
    raise BadRequest(f"data '{echo(name)}' is neither installed nor a file; there are: {known}")


@data.command("pin")
@click.argument("version")
def pin_command(version: str) -> None:
    """Answer from VERSION until told otherwise; `shipped` = what came with the program, `latest` = the newest."""
    from tonnage.catalog import rows
    from tonnage.data.update import pin
    from tonnage.questions.answers import show_document
    from tonnage.report.listing import status_document

    pin(version)
    rows.choose_data.cache_clear()
    show_document(status_document())


@data.command("verify")
@click.argument("version", required=False)
@click.pass_context
def verify_command(ctx: click.Context, version: str | None) -> None:
    """Hold every file of VERSION against its signed manifest  [all that are installed]; exit code 1: one differs."""
    from tonnage.catalog.rows import installed_versions
    from tonnage.data.archive import checked_release, trusted_keys
    from tonnage.errors import echo
    from tonnage.questions.answers import show_document
    from tonnage.report.listing import checked_document

    there = installed_versions()
    if version is not None and version not in there:
        raise BadRequest(
            f"data '{echo(version)}' is not installed; there are: {', '.join(installed_versions()) or 'none'}"
        )
    keys = trusted_keys()
    found = {one: checked_release(one, keys=keys) for one in ([version] if version else there)}
    show_document(checked_document(found))
    if any(found.values()):
        ctx.exit(1)
