"""
Published measurements held against predictions, from the tables to the report: what `tonnage accuracy` prints.

The rows that are wanted are read (`read_tables`), each is predicted once, and every part of the report (errors by
block, decisions by these predictions, groups of training rows and of networks, groups left out) reads those scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from msgspec.structs import replace

from tonnage.domain.requests.tables import AccuracyRequest
from tonnage.domain.requests.tables import LeftOut as Kind
from tonnage.errors import BadFact, UnknownName
from tonnage.record import Record
from tonnage_accuracy.left_out import FILE as LEFT_OUT_FILE
from tonnage_accuracy.left_out import LeftOut, left_out_predictions, left_out_scores
from tonnage_accuracy.records import AccuracyReport, Figure, OutOfSample, PointsTaught, Regret
from tonnage_accuracy.rows import Row, read_rows
from tonnage_accuracy.scoring import Score, by_quantity, report_of, score
from tonnage_accuracy.tables import write_table

COLUMNS: Final = ("id", "block", "quantity", "measured", "predicted", "low", "high", "basis", "reason")
KINDS: Final[tuple[str, ...]] = get_args(Kind)

Watch = Callable[[Iterable[Score], int], Iterable[Score]]
"""Scores of so many rows, passed on as they come."""


class Tables(Record, kw_only=True):
    """The rows of the files that were asked for."""

    paths: tuple[Path, ...]
    wanted: list[Row]
    """Rows to score."""
    facts: list[Row]
    """Runs that did not fit, which are comparable in nothing else."""
    unusable: int
    """Rows that are passed over."""

    @property
    def root(self) -> Path:
        """The checkout that the first table lies in: what is kept beside it is read from there."""
        return self.paths[0].resolve().parent.parent


class Scored(Record, kw_only=True):
    """A report and the scores it was made of."""

    report: AccuracyReport
    scores: list[Score]


def read_tables(asked: AccuracyRequest) -> Tables:
    """
    The rows of the files, or of the checkout's measurements.

    Raises
    ------
    TonnageError
        A file cannot be read, a block is in none of them, or there are no measurements.
    """
    paths = tuple(Path(file) for file in asked.files) or _measurements_of_checkout()
    wanted: list[Row] = []
    facts: list[Row] = []
    taken: Counter[str] = Counter()
    known: Counter[str] = Counter()
    unusable = 0
    for row in (row for path in paths for row in read_rows(path)):
        known[row.block] += 1
        if asked.blocks and row.block not in asked.blocks:
            continue
        if not row.usable:
            unusable += 1
            if row.cells.get("outcome") == "oom":
                facts.append(replace(row, usable=True))
        elif asked.limit is None or taken[row.block] < asked.limit:
            taken[row.block] += 1
            wanted.append(row)
    missing = next((block for block in asked.blocks if block not in known), None)
    if missing is not None:
        raise UnknownName("block", missing, known=known)
    return Tables(paths=paths, wanted=wanted, facts=facts, unusable=unusable)


def accuracy_report(
    tables: Tables,
    asked: AccuracyRequest,
    *,
    rows_file: str | None = None,
    layouts: bool = False,
    watch: Watch = lambda scores, _: scores,
) -> Scored:
    """
    Every part of the report.

    Parameters
    ----------
    tables : Tables
    asked : AccuracyRequest
    rows_file : str, optional
        CSV that gets every row and quantity.
    layouts : bool
        Hold published training layouts against the search as well; so does the request's own field.
    watch : callable
        Sees each score as it comes.

    Raises
    ------
    TonnageError
        The stored fits of groups left out are missing.
    """
    from tonnage_accuracy.logs import FILE, log_errors, read_facts
    from tonnage_accuracy.out_of_sample import out_of_sample

    rows, root, part = tables.wanted, tables.root, asked.limit is not None or asked.leave_out is not None
    scores = _score_rows(rows, rows_file=rows_file, workers=asked.workers, watch=watch)
    if asked.leave_out:
        scores = _left_out(scores, asked.leave_out, root=root)
    failed = list(score(tables.facts))
    training = () if asked.blocks or part else _training(rows, scores, failed=failed, root=root)
    return Scored(
        scores=scores,
        report=replace(
            report_of(scores, by=asked.by, unusable=tables.unusable, out_of_memory=failed),
            regret=tuple(_regret(rows, scores)),
            **_chances(rows, scores),
            logs=() if asked.blocks else log_errors(read_facts(root / FILE)),
            training=training + (_layouts(rows) if layouts or asked.layouts else ()),
            networks=() if part else _networks(tables, scores, whole=not asked.blocks),
            points=() if part or asked.blocks else _points(rows, scores, root=root),
            out_of_sample=OutOfSample() if part else out_of_sample(rows, scores, root=root),
        ),
    )


def peer_report(tables: Tables, predictor: str, *, by: str | None, rows_file: str | None) -> AccuracyReport:
    """
    Another program's answers to the rows, scored as ours are, and beside ours.

    Raises
    ------
    TonnageError
        The program breaks its protocol.
    """
    from tonnage_accuracy.peers import medians_by_source
    from tonnage_accuracy.referee import referee_scores

    rows = tables.wanted
    theirs, said = referee_scores(rows, predictor)
    if rows_file:
        write_table(Path(rows_file), [COLUMNS, *map(_cells, theirs)])
    beside = medians_by_source(rows, theirs, ours=list(score(rows)), root=tables.root, fitted_on=said.fitted_on)
    report = report_of(theirs, by=by, unusable=tables.unusable)
    return replace(report, predictor=said.name or predictor, duels=tuple(beside))


def page_figures(tables: Tables, scores: Sequence[Score]) -> dict[str, Any]:
    """What the published page adds: baselines, peers, and each group of figures on fits that never saw the rows."""
    from tonnage.questions.predict.predict import predict
    from tonnage_accuracy.baselines import baseline_scores
    from tonnage_accuracy.contradictions import contradicting
    from tonnage_accuracy.out_of_sample import group_scores, set_aside
    from tonnage_accuracy.peers import FILE, compare_with_peer
    from tonnage_accuracy.regret import latencies_of, regret_lines

    rows, root = tables.wanted, tables.root
    every = [row for path in tables.paths for row in read_rows(path)]
    stored = _stored(root)
    doubted = contradicting(rows)
    sound = [row for row in rows if row.id not in doubted]
    apart = {kind: list(group_scores(rows, scores, root=root, kind=kind)) for kind in KINDS if stored[kind]}
    chances = [_chances(rows, scores), _chances(sound, scores, who="this fit, sound rows")]
    for kind, left in apart.items():
        chances.append(_chances(rows, left, who=f"{kind} left out"))
        if kind == "source":
            chances.append(_chances(sound, left, who=f"{kind} left out, sound rows"))
    unseen = [item for own in stored.values() for item in left_out_scores(scores, own)]
    regrets = _regret(rows, scores)
    for kind, own in stored.items():
        said = latencies_of({key: item.predicted for key, item in own.items()})
        regrets += regret_lines(rows, said=said, who=f"{kind} left out")[-1:]
    return {
        "overall": tuple(by_quantity(scores)),
        "baselines": tuple((name, tuple(by_quantity(own))) for name, own in baseline_scores(rows, scores)),
        "unseen": tuple(by_quantity(unseen)) if any(stored.values()) else (),
        "aside": tuple(set_aside(rows, scores, every=every, root=root, predict=predict)),
        "confidence": tuple(line for own in chances for line in own["confidence"]),
        "reliability": tuple(line for own in chances for line in own["reliability"]),
        "peers": tuple(compare_with_peer(rows, scores, path=root / FILE, left_out=stored["family"])),
        "regret": tuple(regrets),
    }


def _measurements_of_checkout() -> tuple[Path, ...]:
    """The measurements of the checkout this runs from."""
    for root in (Path(__file__).parents[3], Path.cwd()):
        found = tuple(sorted((root / "measurements").glob("*.csv.gz")))
        if found:
            return found
    raise BadFact("no file is named, and the measurements come with a checkout only: tonnage accuracy FILE.csv.gz")


def _score_rows(rows: list[Row], *, rows_file: str | None, workers: int, watch: Watch) -> list[Score]:
    found = list(watch(score(rows, workers=workers), len(rows)))
    if rows_file:
        write_table(Path(rows_file), [COLUMNS, *map(_cells, found)])
    return found


def _cells(item: Score) -> list[str]:
    numbers = (item.measured, item.predicted, item.low, item.high)
    shown = ["" if value is None else f"{value:.9g}" for value in numbers]
    return [item.id, item.block, item.quantity, *shown, item.basis, item.reason]


def _left_out(scores: list[Score], kind: str, *, root: Path) -> list[Score]:
    stored = left_out_predictions(root, kind)
    if not stored:
        raise BadFact(
            f"{LEFT_OUT_FILE} is missing beside the measurements; write it with python tools/calibration/left_out.py"
        )
    return left_out_scores(scores, stored)


def _stored(root: Path) -> dict[str, Mapping[tuple[str, str], LeftOut]]:
    """Predictions without the row's group, by kind of group."""
    return {kind: left_out_predictions(root, kind) for kind in KINDS}


def _points(rows: Sequence[Row], scores: Sequence[Score], *, root: Path) -> tuple[PointsTaught, ...]:
    """What published rows teach of each other, where predictions without their groups are kept."""
    if not (root / LEFT_OUT_FILE).exists():
        return ()
    from tonnage_accuracy.published_points import published_numbers, taught_lines

    return tuple(taught_lines(list(published_numbers(rows, scores, root=root))))


def _regret(rows: Sequence[Row], scores: Iterable[Score]) -> list[Regret]:
    """Decisions by these predictions: over all engines, and for one engine each."""
    from tonnage_accuracy.regret import predictions_of, regret_lines

    said, _ = predictions_of(scores)
    return [*regret_lines(rows, said=said), *regret_lines(rows, said=said, by="engine")[-1:]]


def _chances(rows: Sequence[Row], scores: Iterable[Score], *, who: str = "") -> dict[str, Any]:
    """Decisions by chance, and how far those chances hold."""
    from tonnage_accuracy.regret import confidence_regrets, predictions_of, reliability

    said, widths = predictions_of(scores)
    return {
        "confidence": tuple(confidence_regrets(rows, said=said, widths=widths, who=who, margins=not who)),
        "reliability": tuple(reliability(rows, said=said, widths=widths, who=who)),
    }


def _training(rows: list[Row], scores: list[Score], *, failed: list[Score], root: Path) -> tuple[Figure, ...]:
    """Groups of training rows beside what they are to reach, those that no fit reads among them."""
    from tonnage_accuracy.training_groups import training_figures

    if not any(row.layout == "training" for row in rows):
        return ()
    outside = [row for path in sorted((root / "measurements" / "outside").glob("*.csv.gz")) for row in read_rows(path)]
    return training_figures([*rows, *outside], [*scores, *score(outside)], stored=_stored(root), out_of_memory=failed)


def _networks(tables: Tables, scores: list[Score], *, whole: bool) -> tuple[Figure, ...]:
    """Groups of networks and single streams, prompts alone among them; own runs where everything is scored."""
    from tonnage_accuracy.network_groups import network_figures, own_figures, prompt_rows
    from tonnage_accuracy.own_engine import few_points, transfer_figures

    rows, root = tables.wanted, tables.root
    blocks = {row.block for row in rows}
    prompts = prompt_rows(row for path in tables.paths for row in read_rows(path) if row.block in blocks)
    found = network_figures([*rows, *prompts], scores, stored=_stored(root), prompts=list(score(prompts)))
    own = root / "measurements" / "own"
    return (*found, *own_figures(own), *transfer_figures(own), *few_points(own)) if whole else found


def _layouts(rows: Iterable[Row]) -> tuple[Figure, ...]:
    from tonnage_accuracy.training_groups import compared_layouts, layout_figures

    return layout_figures(list(compared_layouts(rows)))
