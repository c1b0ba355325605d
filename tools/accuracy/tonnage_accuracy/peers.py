"""
What would another tool have said? Its answers to measured rows beside ours, on exactly the rows that both predict.

The answers are kept in `peers/` of the checkout, written by scripts that run the other tool in an environment of its
own; nothing of it is imported here.

A duel says who is nearer, source by source, losses too. Ours stand three ways: as shipped (in sample where a fit has
read the source), without the source, and without the model's family. An entrant that says its own fits have read a
source is marked there; it is then to be compared with ours as shipped, otherwise with ours without the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tonnage_accuracy.grouping import group_by, read_grouping
from tonnage_accuracy.left_out import LeftOut
from tonnage_accuracy.metrics import absolute_error_share, errors, quantile
from tonnage_accuracy.out_of_sample import FIGURES, countable, without_group
from tonnage_accuracy.records import Duel, PeerErrors
from tonnage_accuracy.rows import Row, number, text
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.tables import read_table

FILE: Final = Path("tools") / "peers" / "aiconfigurator.csv"
NAME: Final = "aiconfigurator 0.12"
ALL: Final = "all"


class Pair(NamedTuple):
    """One number: errors of ours, of theirs, and of ours without the model family."""

    engine: str
    model: str
    mode: str
    quantity: str
    ours: float
    theirs: float
    left_out: float | None


def compare_with_peer(
    rows: Iterable[Row], scores: Iterable[Score], *, path: Path, left_out: Mapping[tuple[str, str], LeftOut]
) -> list[PeerErrors]:
    """Errors by engine, model, mode and quantity, then over all of them; empty where no answers are kept."""
    if not path.exists():
        return []
    theirs = {line["id"]: line for line in read_table(path)}
    known = {row.id: row for row in rows}
    pairs = [pair for item in scores if (pair := _pair(item, known, theirs, left_out)) is not None]
    found = [_errors(key, own) for key, own in sorted(group_by(pairs, lambda p: p[:4]).items())]
    for mode in ("agg", "disagg", ALL):
        own = [pair for pair in pairs if mode in (ALL, pair.mode)]
        found += [
            _errors((ALL, ALL, mode, name), of) for name, of in sorted(group_by(own, lambda p: p.quantity).items())
        ]
    return found


def _pair(
    item: Score,
    rows: Mapping[str, Row],
    theirs: Mapping[str, Mapping[str, str]],
    left_out: Mapping[tuple[str, str], LeftOut],
) -> Pair | None:
    said = theirs.get(item.id, {}).get(item.quantity)
    if not said or item.predicted is None or not item.measured or item.id not in rows:
        return None
    row, outside = rows[item.id], left_out.get((item.id, item.quantity))
    return Pair(
        engine=text(row, "engine"),
        model=text(row, "model_id"),
        mode="disagg" if number(row, "disaggregated") else "agg",
        quantity=item.quantity,
        ours=absolute_error_share(predicted=item.predicted, measured=item.measured),
        theirs=absolute_error_share(predicted=float(said), measured=item.measured),
        left_out=None if outside is None else absolute_error_share(predicted=outside.predicted, measured=item.measured),
    )


def _errors(key: tuple[str, str, str, str], pairs: list[Pair]) -> PeerErrors:
    ours, theirs = [pair.ours for pair in pairs], [pair.theirs for pair in pairs]
    return PeerErrors(
        engine=key[0],
        model=key[1],
        mode=key[2],
        quantity=key[3],
        rows=len(pairs),
        ours_median=quantile(ours, 0.5) or 0.0,
        theirs_median=quantile(theirs, 0.5) or 0.0,
        ours_mean=sum(ours) / len(ours),
        theirs_mean=sum(theirs) / len(theirs),
        left_out_median=quantile([pair.left_out for pair in pairs if pair.left_out is not None], 0.5),
    )


MEAN = "mean"
Key = tuple[str, str]


def medians_by_source(
    rows: Sequence[Row], theirs: Sequence[Score], *, ours: Sequence[Score], root: Path, fitted_on: Iterable[str]
) -> list[Duel]:
    """
    Medians by figure and source with enough numbers, and the mean over sources of each figure.

    Parameters
    ----------
    theirs, ours : sequence of Score
        Of the same rows.
    fitted_on : iterable of str
        Sources that the other program's fits have read.
    """
    grouping = read_grouping(root)
    known = {row.id: row for row in rows}
    taught = {row.block for row in rows if row.table not in grouping.unseen}
    left_out = {
        kind: _errors_by_key(without_group(rows, ours, root=root, kind=kind, grouping=grouping))
        for kind in ("source", "family")
    }
    shipped, said = _errors_by_key(ours), _errors_by_key(theirs)
    found = []
    for (figure, source), own in group_by(countable(known, theirs), lambda pair: (pair[0], pair[1].block)).items():
        both = [item for _, item in own if (item.id, item.quantity) in said and (item.id, item.quantity) in shipped]
        if len(both) < grouping.fewest:
            continue
        pairs = [(item.predicted or 0.0, item.measured or 0.0) for item in both]
        found.append(
            Duel(
                figure=figure,
                source=source,
                rows=len(both),
                asked=len(own),
                theirs=_median(both, said) or 0.0,
                ours=_median(both, shipped) or 0.0,
                ours_source=_median(both, left_out["source"]),
                ours_family=_median(both, left_out["family"]),
                theirs_fitted=source in set(fitted_on),
                ours_fitted=source in taught,
                theirs_coverage=errors(pairs, [(item.low, item.high) for item in both]).coverage_90,
            )
        )
    found.sort(key=lambda line: (FIGURES.index(line.figure), line.source))
    return [line for _, own in group_by(found, lambda line: line.figure).items() for line in (*own, _mean(own))]


def _errors_by_key(scores: Iterable[Score]) -> dict[Key, float]:
    return {
        (item.id, item.quantity): absolute_error_share(predicted=item.predicted, measured=item.measured)
        for item in scores
        if item.predicted is not None and item.measured
    }


def _median(scores: Iterable[Score], errors: Mapping[Key, float]) -> float | None:
    """Over those that have an error; none where none has."""
    return quantile([errors[item.id, item.quantity] for item in scores if (item.id, item.quantity) in errors], 0.5)


def _mean(lines: Sequence[Duel]) -> Duel:
    """The mean over sources of their medians; ours left out only where every source has such a number."""

    def over(name: str) -> float | None:
        values = [value for line in lines if (value := getattr(line, name)) is not None]
        return sum(values) / len(values) if len(values) == len(lines) else None

    return Duel(
        figure=lines[0].figure,
        source=MEAN,
        rows=sum(line.rows for line in lines),
        asked=sum(line.asked for line in lines),
        theirs=over("theirs") or 0.0,
        ours=over("ours") or 0.0,
        ours_source=over("ours_source"),
        ours_family=over("ours_family"),
        theirs_fitted=any(line.theirs_fitted for line in lines),
        ours_fitted=any(line.ours_fitted for line in lines),
    )
