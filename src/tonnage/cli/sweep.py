"""`tonnage sweep`: a grid of questions over many cores or machines."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import click

from tonnage.cli.options import FILE, INPUT, additions_option, on_terminal, request_options, show_progress
from tonnage.domain.plan import BY_AVERAGES
from tonnage.domain.requests.tables import Sweep
from tonnage.errors import BadRequest, echo
from tonnage.version import can_simulate

INTERRUPTED = 130


@click.command()
@click.argument("path", metavar="SWEEP.yaml", type=INPUT)
@click.option("--results", type=FILE, help="file that keeps answers as they come  [SWEEP.sqlite]")
@click.option("--output", "-o", type=FILE, help="write the table: .csv, .jsonl or .parquet")
@click.option("--all", "every", is_flag=True, help="on a terminal: every point")
@request_options(Sweep, argument=("sweep", "base", "grid", "take"))
@additions_option
@click.pass_context
def sweep(
    ctx: click.Context,
    /,
    path: str,
    results: str | None,
    output: str | None,
    every: bool,
    folders: tuple[str, ...],
    **options: Any,
) -> None:
    """
    Ask every combination of a grid; what is answered once is never asked again.

    A file or pipe gets the table as CSV, a terminal its first rows.

    \b
    sweep: plan                      # plan, fit, simulate or predict
    base: {plan: serve, model: 8B, traffic: chat}
    grid: {rate: [1/s, 2/s, 4/s], ttft: [500 ms, 1 s]}
    take: {usd: options.0.cost.value}   # optional: columns of the table
    """
    import os

    from tonnage.core.files import read_mapping
    from tonnage.sweep.sweep import run, sweep_of, table

    if output is not None and Path(output).suffix not in (".csv", ".jsonl", ".parquet"):
        raise BadRequest(f"--output: '{echo(output)}' must end in .csv, .jsonl or .parquet")
    if path == "-" and results is None:
        raise BadRequest("--results is missing: a sweep from standard input needs a file for its answers")
    given = {name: value for name, value in options.items() if value is not None}
    asked = sweep_of({**read_mapping(path, what="sweep"), **given})
    if asked.ask == "plan" and not asked.base.get("quick") and not can_simulate():
        click.echo(f"tonnage: {BY_AVERAGES}", err=True)
    file = Path(results) if results is not None else Path(path).with_suffix(".sqlite")
    try:
        with show_progress(f"asking each point: {asked.ask}") as tell:
            new = run(
                asked, file, workers=asked.workers or os.cpu_count() or 1, ray=asked.ray, folders=folders, watch=tell
            )
    except KeyboardInterrupt:
        click.echo(f"\nstopped; '{file}' keeps what was answered, the same command goes on from there", err=True)
        ctx.exit(INTERRUPTED)
    rows = list(table(asked, file, folders=folders))
    wrong = sum("error" in row for row in rows)
    if output is not None or not on_terminal():
        _write(rows, output)
    if on_terminal():
        from tonnage.questions.answers import show_document
        from tonnage.questions.predict.page import sweep_document

        show_document(
            sweep_document(rows, ask=asked.ask, varied=list(asked.grid), new=new, file=str(file), every=every)
        )
    else:
        click.echo(f"{len(rows):,} points, {new:,} asked now, {wrong:,} refused; answers in {file}", err=True)


def _write(rows: list[dict[str, Any]], output: str | None) -> None:
    """Write rows to a file by its suffix, or as CSV to standard output; a table has the columns of any row."""
    import msgspec

    columns = list(dict.fromkeys(name for row in rows for name in row))
    if output is not None and output.endswith(".parquet"):
        _parquet(rows, columns, output)
        return
    stream = sys.stdout if output is None else open(output, "w", encoding="utf-8", newline="")  # noqa: SIM115
    try:
        if output is not None and output.endswith(".jsonl"):
            stream.writelines(msgspec.json.encode(row).decode() + "\n" for row in rows)
        else:
            writer = csv.DictWriter(stream, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
    finally:
        if output is not None:
            stream.close()


def _parquet(rows: list[dict[str, Any]], columns: list[str], output: str) -> None:
    """Write rows as Parquet, which DuckDB does from JSON lines."""
    import importlib.util
    import json
    import tempfile

    if importlib.util.find_spec("duckdb") is None:
        raise BadRequest("Parquet needs the 'traces' extra: pip install 'tonnage[traces]'; or write .csv or .jsonl")
    import duckdb

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as lines:
        lines.writelines(json.dumps({name: row.get(name) for name in columns}) + "\n" for row in rows)
        lines.flush()
        duckdb.read_json(lines.name).write_parquet(output)
