"""
What was predicted for a measured number by fits that had never seen its group? Read from a stored table.

`tools/calibration/left_out.py` refits with each accelerator, model family, engine and source left out in turn and
stores
every number; the table comes with a checkout, not with the package.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tonnage.catalog.fitted import factor, factor_of
from tonnage.errors import BadFact, UnknownName
from tonnage.record import Record
from tonnage_accuracy.grouping import LEFT_OUT
from tonnage_accuracy.intervals import QUANTITY_OF, UPPER
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.tables import read_table

FILE: Final = Path("tools") / "calibration" / "left_out.csv.gz"
COLUMNS: Final = ("id", "quantity", *(f"{kind}{part}" for kind in LEFT_OUT for part in ("", "_level")))
WIDTHS: Final = Path("tools") / "calibration" / "left_out_widths.csv.gz"
WIDTH_COLUMNS: Final = ("left_out", "group", "kind", "quantity", "rung", "factor")

Widths = Mapping[str, Mapping[str, Mapping[tuple[str, str], float]]]
"""Group that is left out -> kind of case -> quantity and rung -> 90 % factor."""


class LeftOut(Record):
    """One number as predicted without its group, and what that prediction rests on."""

    predicted: float
    level: str


def left_out_predictions(root: Path, kind: str) -> Mapping[tuple[str, str], LeftOut]:
    """
    Predictions without the row's own group of a kind, by row id and quantity; empty where nothing is stored.

    Raises
    ------
    UnknownName
        No such kind of group.
    BadFact
        The stored table has other columns.
    """
    if kind not in LEFT_OUT:
        raise UnknownName("kind of group", kind, known=LEFT_OUT)
    return {
        (line["id"], line["quantity"]): LeftOut(float(line[kind]), line[f"{kind}_level"])
        for line in _stored(root, FILE, COLUMNS, script="left_out.py")
        if line[kind]
    }


def _stored(root: Path, name: Path, columns: tuple[str, ...], *, script: str) -> Iterator[dict[str, str]]:
    """Lines of a stored table; none where it is not there."""
    for line in read_table(root / name) if (root / name).exists() else ():
        if tuple(line) != columns:
            raise BadFact(f"{name}: columns must be {', '.join(columns)}; write it with tools/calibration/{script}")
        yield line


def left_out_widths(root: Path, kind: str) -> Widths:
    """
    Interval factors fitted without a group of a kind, by group; empty where nothing is stored.

    Raises
    ------
    BadFact
        The stored table has other columns.
    """
    found: dict[str, dict[str, dict[tuple[str, str], float]]] = {}
    for line in _stored(root, WIDTHS, WIDTH_COLUMNS, script="widths.py"):
        if line["left_out"] == kind:
            of = found.setdefault(line["group"], {}).setdefault(line["kind"], {})
            of[line["quantity"], line["rung"]] = float(line["factor"])
    return found


def left_out_scores(
    scores: Iterable[Score],
    stored: Mapping[tuple[str, str], LeftOut],
    *,
    widths: Widths | None = None,
    group: Mapping[str, str] | None = None,
) -> list[Score]:
    """
    The same numbers as predicted without their group, each inside its level's interval; the others say why not.

    Parameters
    ----------
    widths : mapping, optional
        Factors fitted without a group (`left_out_widths`); without them, and for groups not among them, as shipped.
    group : mapping, optional
        Row id -> the group that is left out with it.
    """
    found = []
    for item in scores:
        known = stored.get((item.id, item.quantity))
        if known is None:
            reason = item.reason or "no left-out prediction is stored"
            found.append(replace(item, predicted=None, low=None, high=None, reason=reason))
            continue
        name = QUANTITY_OF.get((item.kind, item.quantity), "")
        own = (widths or {}).get((group or {}).get(item.id, ""), {}).get(item.kind)
        fitted = item.low is not None and name
        low, high = _around(item, name, known, own) if fitted else _shift_interval(item, known)
        found.append(replace(item, predicted=known.predicted, low=low, high=high, level=known.level))
    return found


def _shift_interval(item: Score, known: LeftOut) -> tuple[float | None, float | None]:
    """An interval that no table of factors makes, as wide in ratio around the left-out number; none without one."""
    if item.low is None or item.high is None or not item.predicted:
        return None, None
    return item.low * known.predicted / item.predicted, item.high * known.predicted / item.predicted


def _around(item: Score, name: str, known: LeftOut, own: Mapping[tuple[str, str], float] | None) -> tuple[float, float]:
    """An interval of the factors, and what the shipped one carries beyond its table's: at a rate, the queue's share."""
    above = UPPER.get(name, name)
    down, up = (_width(item, end, known.level, own) for end in (name, above))
    if item.level and item.predicted and item.low and item.high:
        down *= max(1.0, item.predicted / item.low / factor(item.kind, name, rung=item.level))
        up *= max(1.0, item.high / item.predicted / factor(item.kind, above, rung=item.level))
    return known.predicted / down, known.predicted * up


def _width(item: Score, name: str, rung: str, own: Mapping[tuple[str, str], float] | None) -> float:
    """The factor without the group where such factors are stored, else the shipped one."""
    stored = own is not None and any(quantity == name for quantity, _ in own)
    return factor_of(own, name, rung=rung) if own is not None and stored else factor(item.kind, name, rung=rung)
