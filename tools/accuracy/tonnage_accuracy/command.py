"""`tonnage accuracy`: predicted against measured, by block."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from tonnage.cli.options import FILE, Grouped, on_terminal, request_options, why_option
from tonnage.domain.requests.tables import AccuracyRequest, LeftOut
from tonnage.errors import BadRequest
from tonnage_accuracy.tables import read_checked, write_table

if TYPE_CHECKING:
    from tonnage_accuracy.page import Page
    from tonnage_accuracy.records import AccuracyReport
    from tonnage_accuracy.report import Tables
    from tonnage_accuracy.scoring import Score


@click.command(cls=Grouped)
@click.argument("files", nargs=-1, type=click.Path())
@request_options(AccuracyRequest, argument="")
@click.option("--json", "as_json", is_flag=True, help="machine-readable report (schema tonnage.accuracy/1)")
@click.option("--rows", "rows_file", type=FILE, help="write every row and quantity as CSV")
@click.option("--markdown", type=FILE, help="write the report as a Markdown page")
@click.option("--figures", type=FILE, help="write the left-out figures as CSV, as the web page shows them")
@why_option
def accuracy(files: tuple[str, ...], **options: Any) -> None:
    """
    Score predictions against published measurements.

    FILES are tables with the columns of measurements/README.md, gzipped or not; without any, those of the checkout.
    Only rows marked as usable are scored, and every row that cannot be predicted is counted with its reason. A file or
    pipe gets every table, a terminal the first screen, and the tables with --why.
    """
    from msgspec.structs import replace

    from tonnage.core.reading import build, read_fields
    from tonnage_accuracy.report import accuracy_report, peer_report, read_tables
    from tonnage_accuracy.scoring import report_of

    own = {name: options.pop(name) for name in ("as_json", "rows_file", "markdown", "figures", "why")}
    markdown, rows_file = own["markdown"], own["rows_file"]
    asked = build(AccuracyRequest, read_fields(options, AccuracyRequest), files=files)
    tables = read_tables(asked)
    if rows_file:
        Path(rows_file).open("ab").close()  # minutes of predictions are not lost to a path that cannot be written
    if asked.predictor is not None:
        if asked.leave_out or asked.layouts or markdown:
            raise BadRequest(
                "--predictor goes with neither --leave-out, --layouts nor --markdown: those are our own fits"
            )
        theirs = peer_report(tables, asked.predictor, by=asked.by, rows_file=rows_file)
        _print(theirs, why=own["why"], as_json=own["as_json"])
        return
    found = accuracy_report(tables, asked, rows_file=rows_file, layouts=bool(markdown), watch=_with_progress)
    if markdown:
        whole = replace(found.report, blocks=report_of(found.scores).blocks)
        _write_page(whole, _page(tables, found.scores, markdown=Path(markdown)), Path(markdown), root=tables.root)
    if own["figures"]:
        from tonnage_accuracy.first_contact import shown
        from tonnage_accuracy.sheets import standing_rows

        write_table(Path(own["figures"]), [*standing_rows(found.report.out_of_sample), *shown()])
    _print(found.report, why=own["why"], as_json=own["as_json"])


def _print(report: AccuracyReport, *, why: bool, as_json: bool) -> None:
    from tonnage.questions.answers import show_document
    from tonnage.report.document import as_json as json_text
    from tonnage_accuracy.page import accuracy_document, as_text

    if as_json or why or not on_terminal():
        click.echo(json_text(report) if as_json else as_text(report))
    else:
        show_document(accuracy_document(report))


def _with_progress(scores: Iterable[Score], rows: int) -> Iterator[Score]:
    """A bar on stderr when someone watches it: one step for each row."""
    if not sys.stderr.isatty() or rows < 50:
        yield from scores
        return
    last = ""
    with click.progressbar(length=rows, label="predicting", file=sys.stderr) as bar:
        for item in scores:
            if item.id != last:
                last = item.id
                bar.update(1)
            yield item


def _write_page(report: AccuracyReport, page: Page, path: Path, *, root: Path) -> None:
    """The page, and its tables in a folder of its name: accuracy.md links accuracy/blocks.csv."""
    from tonnage_accuracy.page import as_markdown, page_tables, sentence

    found = page_tables(report, page)
    for name, rows in found.items():
        if name != "standings":  # what --figures writes
            write_table(path.with_suffix("") / f"{name}.csv", rows)
    names = {
        line["source"]: line["name"] for line in read_checked(root / "measurements" / "sources.csv", ("source", "name"))
    }
    path.write_text(as_markdown(sentence(report), found, names=names), encoding="utf-8")


def _page(tables: Tables, scores: Sequence[Score], *, markdown: Path) -> Page:
    """The published page; why blocks are off, and the errors of groups left out, stand in tables beside it."""
    from tonnage_accuracy.page import Page
    from tonnage_accuracy.report import page_figures

    kinds = get_args(LeftOut)
    return Page(
        **page_figures(tables, scores),
        explanations={
            (line["block"], line["quantity"]): line["explanation"]
            for line in read_checked(markdown.with_suffix(".explanations.csv"), ("block", "quantity", "explanation"))
        },
        left_out={
            (line["block"], line["kind"], line["quantity"]): {k: float(line[k]) if line[k] else None for k in kinds}
            for line in read_checked(markdown.with_suffix(".left_out.csv"), ("block", "kind", "quantity", *kinds))
        },
    )
