"""`tonnage simulate`: one configuration over time, request by request."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import click

__all__ = ["simulate"]

INFEASIBLE = 3
INTERRUPTED = 130
QUIET_S = 2.0
"""Shorter runs say nothing while they run. [s]"""


@click.command()
@click.argument("case", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--requests", "rows", type=click.Path(dir_okay=False), help="also write a row for each request (CSV)")
@click.option("--json", "as_json", is_flag=True, help="machine-readable, schema tonnage.simulate/1")
@click.option("--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a catalogue fact")
@click.option("--additions", "folders", multiple=True, type=click.Path(), help="your own accelerators and offers")
@click.pass_context
def simulate(ctx: click.Context, /, case: str, **options: Any) -> None:
    """
    Play the traffic of a CASE file (YAML or JSON; - = standard input) on one configuration.

    \b
    model: meta-llama/Llama-3.1-8B-Instruct
    accelerator: H100
    traffic: {profile: chat, rate: 6/s}
    slo: {ttft: 1 s, tpot: 50 ms}
    capacity: true
    """
    from tonnage.catalog import gather
    from tonnage.planner.files import read_mapping
    from tonnage.planner.simulate.door import simulation_of
    from tonnage.planner.simulate.simulate import simulate as answer
    from tonnage.planner.simulate.told import request_rows
    from tonnage.report.document import as_json

    asked = simulation_of(read_mapping(case, what="case"))
    additions = gather(paths=options["folders"], overrides=options["overrides"])
    path = options["rows"]
    found = answer(
        asked,
        additions=additions,
        watch=_watch(),
        keep=None if path is None else lambda run: _write(path, request_rows(run)),
    )
    if options["as_json"]:
        click.echo(as_json(found))
    else:
        from tonnage.report.simulate import show_simulation

        show_simulation(found)
    if found.partial:
        ctx.exit(INTERRUPTED)
    if not found.fits:
        ctx.exit(INFEASIBLE)


def _watch() -> Callable[[int, int], None]:
    """Says on stderr how far a long run is, if someone looks there."""
    began = time.monotonic()

    def tell(done: int, total: int) -> None:
        if sys.stderr.isatty() and time.monotonic() - began > QUIET_S:
            end = "\n" if done >= total else ""
            click.echo(f"\r{done:,} of {total:,} requests", err=True, nl=False)
            click.echo(end, err=True, nl=False)

    return tell


def _write(path: str, table: tuple[tuple[str, ...], list[tuple[Any, ...]]]) -> None:
    import csv

    header, rows = table
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        # Not a number: never answered, or no second token; an empty cell in the file.
        writer.writerows(["" if isinstance(x, float) and math.isnan(x) else x for x in row] for row in rows)
