"""`tonnage accuracy`: predicted against measured, by block."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.options import on_terminal, why_option
from tonnage.errors import BadFact, BadRequest, UnknownName, echo

if TYPE_CHECKING:
    from tonnage.domain.accuracy import AccuracyReport, Figure, Regret
    from tonnage.report.accuracy import Page
    from tonnage.validation.rows import Row
    from tonnage.validation.scoring import Score

__all__ = ["accuracy"]

COLUMNS = ("id", "block", "quantity", "measured", "predicted", "low", "high", "basis", "reason")
LEAVE_OUT = ("accelerator", "family", "engine", "source")
BY = ("engine", "accelerator", "family", "precision", "load")


@click.command()
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Machine-readable report (schema tonnage.accuracy/1).")
@click.option("--rows", "rows_file", type=click.Path(dir_okay=False), help="Write every row and quantity as CSV.")
@click.option("--markdown", type=click.Path(dir_okay=False), help="Write the report as a Markdown page.")
@click.option(
    "--figures", type=click.Path(dir_okay=False), help="Write the left-out figures as CSV, as the web page shows them."
)
@click.option("--block", "blocks", multiple=True, help="Only this block; may be given several times.")
@click.option("--by", type=click.Choice(BY), help="Split each block further.")
@click.option(
    "--leave-out",
    type=click.Choice(LEAVE_OUT),
    help="Score what fits say that never saw the row's group (tools/calibration/left_out.py).",
)
@click.option("--predictor", help="Score what this command answers to the same rows (docs/how-to/referee.md).")
@click.option("--layouts", is_flag=True, help="Hold published training layouts against the search too (15 s).")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many rows of each block.")
@why_option
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
def accuracy(
    files: tuple[str, ...],
    as_json: bool,
    rows_file: str | None,
    markdown: str | None,
    figures: str | None,
    blocks: tuple[str, ...],
    by: str | None,
    leave_out: str | None,
    predictor: str | None,
    layouts: bool,
    limit: int | None,
    why: bool,
    workers: int,
) -> None:
    """
    Score predictions against published measurements.

    FILES are tables with the columns of measurements/README.md, gzipped or not; without any, those of the checkout.
    Only rows marked as usable are scored, and every row that cannot be predicted is counted with its reason. A file or
    pipe gets every table, a terminal the first screen, and the tables with --why.
    """
    from msgspec.structs import replace

    from tonnage.domain.accuracy import OutOfSample
    from tonnage.report.accuracy import as_markdown
    from tonnage.validation.logs import FILE, log_errors, read_facts
    from tonnage.validation.out_of_sample import out_of_sample
    from tonnage.validation.scoring import report_of

    paths = [Path(file) for file in files] or _shipped()
    wanted, facts, unusable = _rows(paths, blocks=blocks, limit=limit)
    if predictor is not None:
        if leave_out or layouts or markdown:
            raise BadRequest(
                "--predictor goes with neither --leave-out, --layouts nor --markdown: those are our own fits"
            )
        report = _refereed(wanted, predictor, by=by, unusable=unusable, rows_file=rows_file, root=_root(paths))
        _print(report, why=why, as_json=as_json)
        return
    scores = _scored(wanted, rows_file=rows_file, workers=workers)
    if leave_out:
        scores = _left_out(scores, leave_out, root=_root(paths))
    failed = _scored(facts, rows_file=None, workers=1)
    report = report_of(scores, by=by, unusable=unusable, out_of_memory=failed)
    logs = () if blocks else log_errors(read_facts(_root(paths) / FILE))
    groups = () if blocks or limit or leave_out else _training(wanted, scores, failed=failed, root=_root(paths))
    groups += _layouts(wanted) if layouts or markdown else ()
    networks = () if limit or leave_out else _networks(wanted, scores, paths=paths, whole=not blocks)
    report = replace(
        report, regret=tuple(_regret(wanted, scores)), **_chances(wanted, scores), logs=logs,
        training=groups, networks=networks,
        out_of_sample=OutOfSample() if limit or leave_out else out_of_sample(wanted, scores, root=_root(paths)),
    )  # fmt: skip
    if markdown:
        page = _page(wanted, scores, markdown=Path(markdown), paths=paths)
        Path(markdown).write_text(as_markdown(replace(report, blocks=report_of(scores).blocks), page), encoding="utf-8")
    if figures:
        from tonnage.report.out_of_sample import standing_rows

        with Path(figures).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(standing_rows(report.out_of_sample))
    _print(report, why=why, as_json=as_json)


def _print(report: AccuracyReport, *, why: bool, as_json: bool) -> None:
    from tonnage.report.accuracy import accuracy_document, as_text
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json as json_text

    if as_json or why or not on_terminal():
        click.echo(json_text(report) if as_json else as_text(report))
    else:
        show_document(accuracy_document(report))


def _refereed(
    rows: list[Row], command: str, *, by: str | None, unusable: int, rows_file: str | None, root: Path
) -> AccuracyReport:
    """Another program's answers to the rows, scored as ours are, and beside ours."""
    from msgspec.structs import replace

    from tonnage.validation.peers import medians_by_source
    from tonnage.validation.referee import referee_scores
    from tonnage.validation.scoring import report_of, score

    theirs, said = referee_scores(rows, command)
    if rows_file:
        with Path(rows_file).open("w", encoding="utf-8", newline="") as table:
            csv.writer(table, lineterminator="\n").writerows([COLUMNS, *(_cells(item) for item in theirs)])
    compare_with_peer = medians_by_source(rows, theirs, ours=list(score(rows)), root=root, fitted_on=said.fitted_on)
    name = said.name or command
    return replace(report_of(theirs, by=by, unusable=unusable), predictor=name, duels=tuple(compare_with_peer))


def _shipped() -> list[Path]:
    """The measurements of the checkout this runs from."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        found = sorted((root / "measurements").glob("*.csv.gz"))
        if found:
            return found
    raise BadFact("no file is named, and the measurements come with a checkout only: tonnage accuracy FILE.csv.gz")


def _root(paths: list[Path]) -> Path:
    """The checkout that the first table lies in: what is kept beside it is read from there."""
    return paths[0].resolve().parent.parent


def _left_out(scores: list[Score], kind: str, *, root: Path) -> list[Score]:
    from tonnage.validation.left_out import FILE, left_out_predictions, left_out_scores

    stored = left_out_predictions(root, kind)
    if not stored:
        raise BadFact(f"{FILE} is missing beside the measurements; write it with python tools/calibration/left_out.py")
    return left_out_scores(scores, stored)


def _rows(paths: list[Path], *, blocks: tuple[str, ...], limit: int | None) -> tuple[list[Row], list[Row], int]:
    """Rows to score, runs that did not fit (comparable in nothing else), and how many others are passed over."""
    from msgspec.structs import replace

    from tonnage.validation.rows import read_rows

    wanted: list[Row] = []
    facts: list[Row] = []
    taken: Counter[str] = Counter()
    known: Counter[str] = Counter()
    unusable = 0
    for path in paths:
        for row in read_rows(path):
            known[row.block] += 1
            if blocks and row.block not in blocks:
                continue
            if not row.usable:
                unusable += 1
                if row.cells.get("outcome") == "oom":
                    facts.append(replace(row, usable=True))
            elif limit is None or taken[row.block] < limit:
                taken[row.block] += 1
                wanted.append(row)
    missing = next((block for block in blocks if block not in known), None)
    if missing is not None:
        raise UnknownName("block", missing, known=known)
    return wanted, facts, unusable


def _scored(rows: list[Row], *, rows_file: str | None, workers: int) -> list[Score]:
    from tonnage.validation.scoring import score

    scores: list[Score] = []
    with ExitStack() as stack:
        write: Any = None
        if rows_file:
            table = stack.enter_context(Path(rows_file).open("w", encoding="utf-8", newline=""))
            write = csv.writer(table, lineterminator="\n").writerow
            write(COLUMNS)
        for item in _with_progress(score(rows, workers=workers), len(rows)):
            scores.append(item)
            if write is not None:
                write(_cells(item))
    return scores


def _regret(rows: list[Row], scores: list[Score]) -> list[Regret]:
    """Decisions by these predictions: over all engines, and for one engine each."""
    from tonnage.validation.regret import latencies_of, regret_lines

    said = latencies_of({(item.id, item.quantity): item.predicted for item in scores if item.predicted is not None})
    return [*regret_lines(rows, said=said), *regret_lines(rows, said=said, by="engine")[-1:]]


def _chances(rows: list[Row], scores: list[Score], *, who: str = "") -> dict[str, Any]:
    """Decisions by chance, and how far those chances hold."""
    from tonnage.validation.regret import confidence_regrets, latencies_of, reliability, widths_of

    known = [item for item in scores if item.predicted]
    said = latencies_of({(item.id, item.quantity): item.predicted for item in known if item.predicted})
    widths = widths_of(
        {(item.id, item.quantity): item.high / item.predicted for item in known if item.high and item.predicted}
    )
    return {
        "confidence": tuple(confidence_regrets(rows, said=said, widths=widths, who=who, margins=not who)),
        "reliability": tuple(reliability(rows, said=said, widths=widths, who=who)),
    }


def _training(rows: list[Row], scores: list[Score], *, failed: list[Score], root: Path) -> tuple[Figure, ...]:
    """Groups of training rows beside what they are to reach, those that no fit reads among them."""
    from tonnage.validation.left_out import left_out_predictions
    from tonnage.validation.rows import read_rows
    from tonnage.validation.training_groups import training_figures

    if not any(row.layout == "training" for row in rows):
        return ()
    outside = [row for path in sorted((root / "measurements" / "outside").glob("*.csv.gz")) for row in read_rows(path)]
    stored = {kind: left_out_predictions(root, kind) for kind in LEAVE_OUT}
    every = [*scores, *_scored(outside, rows_file=None, workers=1)]
    return training_figures([*rows, *outside], every, stored=stored, out_of_memory=failed)


def _networks(rows: list[Row], scores: list[Score], *, paths: list[Path], whole: bool) -> tuple[Figure, ...]:
    """Groups of networks and single streams, prompts alone among them; own runs where everything is scored."""
    from tonnage.validation.left_out import left_out_predictions
    from tonnage.validation.network_groups import network_figures, own_figures, prompt_rows
    from tonnage.validation.own_engine import transfer_figures
    from tonnage.validation.rows import read_rows

    blocks, root = {row.block for row in rows}, _root(paths)
    prompts = prompt_rows(row for path in paths for row in read_rows(path) if row.block in blocks)
    stored = {kind: left_out_predictions(root, kind) for kind in LEAVE_OUT}
    found = network_figures(
        [*rows, *prompts], scores, stored=stored, prompts=_scored(prompts, rows_file=None, workers=1)
    )  # fmt: skip
    own = root / "measurements" / "own"
    return (*found, *own_figures(own), *transfer_figures(own)) if whole else found


def _layouts(rows: list[Row]) -> tuple[Figure, ...]:
    from tonnage.validation.training_groups import compared_layouts, layout_figures

    return layout_figures(list(compared_layouts(rows)))


def _cells(item: Score) -> list[str]:
    numbers = (item.measured, item.predicted, item.low, item.high)
    shown = ["" if value is None else f"{value:.9g}" for value in numbers]
    return [item.id, item.block, item.quantity, *shown, item.basis, item.reason]


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


def _page(rows: list[Row], scores: list[Score], *, markdown: Path, paths: list[Path]) -> Page:
    from tonnage.planning.predict.predict import predict
    from tonnage.report.accuracy import Page
    from tonnage.validation.baselines import baseline_scores
    from tonnage.validation.left_out import left_out_predictions, left_out_scores
    from tonnage.validation.out_of_sample import group_scores, set_aside
    from tonnage.validation.peers import FILE, NAME, compare_with_peer
    from tonnage.validation.regret import latencies_of, regret_lines
    from tonnage.validation.rows import read_rows
    from tonnage.validation.scoring import by_quantity

    root = _root(paths)
    every = [row for path in paths for row in read_rows(path)]
    rivals = tuple((name, tuple(by_quantity(own))) for name, own in baseline_scores(rows, scores))
    stored = {kind: left_out_predictions(root, kind) for kind in LEAVE_OUT}
    chances = [
        _chances(rows, list(group_scores(rows, scores, root=root, kind=kind)), who=f"{kind} left out")
        for kind in LEAVE_OUT
        if stored[kind]
    ]
    chances.insert(0, _chances(rows, scores))
    unseen = [item for own in stored.values() for item in left_out_scores(scores, own)]
    return Page(
        overall=tuple(by_quantity(scores)),
        baselines=rivals,
        explanations={
            (line["block"], line["quantity"]): line["explanation"]
            for line in _companion(markdown, "explanations", ("block", "quantity", "explanation"))
        },
        left_out={
            (line["block"], line["kind"], line["quantity"]): {k: float(line[k]) if line[k] else None for k in LEAVE_OUT}
            for line in _companion(markdown, "left_out", ("block", "kind", "quantity", *LEAVE_OUT))
        },
        unseen=tuple(by_quantity(unseen)) if any(stored.values()) else (),
        aside=tuple(set_aside(rows, scores, every=every, root=root, predict=predict)),
        confidence=tuple(line for own in chances for line in own["confidence"]),
        reliability=tuple(line for own in chances for line in own["reliability"]),
        peer=NAME,
        peers=tuple(compare_with_peer(rows, scores, path=root / FILE, left_out=stored["family"])),
        regret=(
            *_regret(rows, scores),
            *(
                line
                for kind, own in stored.items()
                for line in regret_lines(
                    rows, said=latencies_of({key: item.predicted for key, item in own.items()}), who=f"{kind} left out"
                )[-1:]
            ),
        ),
    )


def _companion(markdown: Path, name: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """A small table beside the page: accuracy.md reads accuracy.explanations.csv and accuracy.left_out.csv."""
    path = markdown.with_suffix(f".{name}.csv")
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    if any(line.get(column) is None for line in lines for column in columns):
        raise BadFact(f"'{echo(path.name)}' must have the columns {', '.join(columns)}")
    return lines
