"""`tonnage verify`: a kept plan made again from its own request and day; the same to the byte, or what differs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import own_facts, own_facts_options, show_options, show_progress

if TYPE_CHECKING:
    from tonnage.domain.compare import Verification

__all__ = ["verify"]

DIFFERENT = 1
AGAIN = "TONNAGE_VERIFIED_AGAIN"
"""Set for the process that makes a plan again from older data, so that it starts no other."""


@click.command()
@click.argument("path", metavar="PLAN.json")
@own_facts_options
@show_options("differences")
@click.option("--badge", type=click.Path(dir_okay=False), metavar="FILE.svg", help="draw the outcome, for a document")
@click.option("--json", "as_json", is_flag=True, help='the answer as JSON, "schema": "tonnage.verify/1"')
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    path: str,
    top: int | None,
    show_all: bool,
    why: bool,
    badge: str | None,
    as_json: bool,
    **facts: Any,
) -> None:
    """
    Make a kept plan again from its own request and day, and hold it against the file.

    A plan of other data is made again from that data too, where it is installed or ships (`tonnage data`); the
    program is the installed one: `pip install tonnage==VERSION` in an environment of its own gives the file's, which
    it names. Exit codes: 0 the same, 1 not the same, 2 no plan.
    """
    from tonnage.planning.verify import verify as verified
    from tonnage.report.answers import show
    from tonnage.report.document import as_json as document

    given = [("--set", facts["overrides"]), ("--additions", facts["folders"])]
    with show_progress("planning again"):
        found = verified(path, additions=own_facts(facts))
        if not found.same and found.data_before != found.data_now:
            found = _from_its_data(found, [path, *(f"{flag}={one}" for flag, each in given for one in each)])
    if badge is not None:
        from tonnage.report.check import badge as drawn

        with open(badge, "w", encoding="utf-8") as file:
            file.write(drawn(found))
    if as_json:
        click.echo(document(found))
    else:
        show(found, top=top, every=show_all, why=why)
    if not found.same:
        ctx.exit(DIFFERENT)


def _from_its_data(found: Verification, arguments: list[str]) -> Verification:
    """The plan made again from the data that it names, by a process that uses that; as it was without such data."""
    import msgspec

    from tonnage.domain.compare import Verification
    from tonnage.planning.verify import release_of

    release = release_of(found.data_before)
    if release is None or os.environ.get(AGAIN):
        return found
    again = subprocess.run(
        [sys.executable, "-m", "tonnage", "verify", *arguments, "--json"], capture_output=True, check=False,
        env={**os.environ, "TONNAGE_DATA": release, AGAIN: "1", "PYTHONUTF8": "1"},
    )  # fmt: skip
    if again.returncode not in (0, DIFFERENT):
        return found
    then = msgspec.json.decode(again.stdout, type=Verification)
    said = f"{then.sentence.rstrip('.')}, from data {release} ({found.data_before})."
    with_now = f" With the data in use ({found.data_now}) {found.differences:,} values differ." if then.same else ""
    return msgspec.structs.replace(found, same=then.same, sentence=said + with_now, release=release)
