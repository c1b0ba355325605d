"""
What would another tool have said? Its answers to measured rows beside ours, on exactly the rows that both predict.

The answers are kept in `peers/` of the checkout, written by scripts that run the other tool in an environment of its
own; nothing of it is imported here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tonnage.domain.accuracy import PeerErrors
from tonnage.validation.groups import grouped
from tonnage.validation.left_out import LeftOut
from tonnage.validation.metrics import ape, quantile
from tonnage.validation.rows import Row, number, text
from tonnage.validation.scoring import Score

__all__ = ["ALL", "FILE", "NAME", "beside"]

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


def beside(
    rows: Iterable[Row], scores: Iterable[Score], *, path: Path, left_out: Mapping[tuple[str, str], LeftOut]
) -> list[PeerErrors]:
    """Errors by engine, model, mode and quantity, then over all of them; empty where no answers are kept."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        theirs = {line["id"]: line for line in csv.DictReader(file)}
    known = {row.id: row for row in rows}
    pairs = [pair for item in scores if (pair := _pair(item, known, theirs, left_out)) is not None]
    found = [_errors(key, own) for key, own in sorted(grouped(pairs, lambda p: p[:4]).items())]
    for mode in ("agg", "disagg", ALL):
        own = [pair for pair in pairs if mode in (ALL, pair.mode)]
        found += [
            _errors((ALL, ALL, mode, name), of) for name, of in sorted(grouped(own, lambda p: p.quantity).items())
        ]
    return found


def _pair(
    item: Score, rows: Mapping[str, Row], theirs: Mapping[str, Mapping[str, str]],
    left_out: Mapping[tuple[str, str], LeftOut],
) -> Pair | None:  # fmt: skip
    said = theirs.get(item.id, {}).get(item.quantity)
    if not said or item.predicted is None or not item.measured or item.id not in rows:
        return None
    row, outside = rows[item.id], left_out.get((item.id, item.quantity))
    return Pair(
        engine=text(row, "engine"),
        model=text(row, "model_id"),
        mode="disagg" if number(row, "disaggregated") else "agg",
        quantity=item.quantity,
        ours=ape(predicted=item.predicted, measured=item.measured),
        theirs=ape(predicted=float(said), measured=item.measured),
        left_out=None if outside is None else ape(predicted=outside.predicted, measured=item.measured),
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
