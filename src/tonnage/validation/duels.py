"""
Who is nearer, another program or ours? On exactly the numbers that both predict, source by source, losses too.

Ours stand three ways: as shipped (in sample where a fit has read the source), without the source, and without the
model's family. An entrant that says its own fits have read a source is marked there; it is then to be compared with
ours as shipped, otherwise with ours without the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tonnage.domain.accuracy import Duel
from tonnage.validation.grouping import read_grouping
from tonnage.validation.groups import grouped
from tonnage.validation.metrics import ape, covered, quantile
from tonnage.validation.out_of_sample import without_group
from tonnage.validation.rows import Row
from tonnage.validation.scoring import Score
from tonnage.validation.standings import FIGURES, independent

__all__ = ["MEAN", "duels"]

MEAN = "mean"
Key = tuple[str, str]


def duels(
    rows: Sequence[Row], theirs: Sequence[Score], *, ours: Sequence[Score], root: Path, fitted_on: Iterable[str] = ()
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
    taught = {row.block for row in rows if row.table not in grouping.unseen}
    left_out = {
        kind: _errors(without_group(rows, ours, root=root, kind=kind, grouping=grouping))
        for kind in ("source", "family")
    }
    shipped, said = _errors(ours), _errors(theirs)
    found = []
    for (figure, source), own in grouped(_counted(rows, theirs), lambda pair: (pair[0], pair[1].block)).items():
        both = [item for _, item in own if (item.id, item.quantity) in said and (item.id, item.quantity) in shipped]
        if len(both) < grouping.fewest:
            continue
        inside = [covered(measured=item.measured or 0.0, low=item.low, high=item.high) for item in both]
        known = [held for held in inside if held is not None]
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
                theirs_coverage=sum(known) / len(known) if known else None,
            )
        )
    found.sort(key=lambda line: (FIGURES.index(line.figure), line.source))
    return [line for _, own in grouped(found, lambda line: line.figure).items() for line in (*own, _mean(own))]


def _counted(rows: Sequence[Row], scores: Iterable[Score]) -> list[tuple[str, Score]]:
    """Every number that counts, with its figure."""
    known = {row.id: row for row in rows}
    found = []
    for id_, own in grouped(scores, lambda item: item.id).items():
        taken = independent(known[id_], (item.quantity for item in own if item.measured))
        found += [(taken[item.quantity], item) for item in own if item.quantity in taken]
    return found


def _errors(scores: Iterable[Score]) -> dict[Key, float]:
    return {
        (item.id, item.quantity): ape(predicted=item.predicted, measured=item.measured)
        for item in scores
        if item.predicted is not None and item.measured
    }


def _median(scores: Iterable[Score], errors: Mapping[Key, float]) -> float | None:
    """Over those that have an error; none where none has."""
    return quantile([errors[item.id, item.quantity] for item in scores if (item.id, item.quantity) in errors], 0.5)


def _mean(lines: Sequence[Duel]) -> Duel:
    """The mean over sources of their medians; ours left out only where every source has such a number."""

    def over(pick: Callable[[Duel], float | None]) -> float | None:
        values = [value for line in lines if (value := pick(line)) is not None]
        return sum(values) / len(values) if len(values) == len(lines) else None

    return Duel(
        figure=lines[0].figure,
        source=MEAN,
        rows=sum(line.rows for line in lines),
        asked=sum(line.asked for line in lines),
        theirs=over(lambda line: line.theirs) or 0.0,
        ours=over(lambda line: line.ours) or 0.0,
        ours_source=over(lambda line: line.ours_source),
        ours_family=over(lambda line: line.ours_family),
        theirs_fitted=any(line.theirs_fitted for line in lines),
        ours_fitted=any(line.ours_fitted for line in lines),
    )
