"""
What was predicted for a measured number by fits that had never seen its group? Read from a stored table.

`tools/calibration/left_out.py` refits with each accelerator, model family, engine and source left out in turn and
stores
every number; the table comes with a checkout, not with the package.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from tonnage.catalog.spreads import TAKES, ErrorOf, spread, spread_of
from tonnage.errors import BadFact, UnknownName
from tonnage.record import Record
from tonnage_accuracy.grouping import LEFT_OUT
from tonnage_accuracy.quantities import QUANTITY_OF
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.tables import read_table

FILE: Final = Path("tools") / "calibration" / "left_out.csv.gz"
COLUMNS: Final = ("id", "quantity", *(f"{kind}{part}" for kind in LEFT_OUT for part in ("", "_level")))
WIDTHS: Final = Path("tools") / "calibration" / "left_out_errors.json.gz"

Widths = Mapping[str, Mapping[str, Mapping[str, ErrorOf]]]
"""Group that is left out -> kind of case -> quantity -> its error."""


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
    lines = read_table(root / FILE) if (root / FILE).exists() else ()
    found = {}
    for line in lines:
        if tuple(line) != COLUMNS:
            raise BadFact(f"{FILE}: columns must be {', '.join(COLUMNS)}; write it with tools/calibration/left_out.py")
        if line[kind]:
            found[line["id"], line["quantity"]] = LeftOut(float(line[kind]), line[f"{kind}_level"])
    return found


def left_out_widths(root: Path, kind: str) -> Widths:
    """
    Errors fitted without a group of a kind, by group; empty where nothing is stored.

    Raises
    ------
    BadFact
        The stored file is not what `tools/calibration/widths.py` writes.
    """
    if not (root / WIDTHS).exists():
        return {}
    try:
        stored = msgspec.json.decode(gzip.decompress((root / WIDTHS).read_bytes()), type=dict[str, Widths])
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"{WIDTHS}: {error}; write it with python -m tools.calibration.widths") from error
    return stored.get(kind, {})


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
        Errors fitted without a group (`left_out_widths`); without them, and for groups not among them, as shipped.
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


def _around(item: Score, name: str, known: LeftOut, own: Mapping[str, ErrorOf] | None) -> tuple[float, float]:
    """The interval of these errors, and what the shipped one carries beyond its own: at a rate, the queue's share."""
    of = spread(item.kind, name, level=known.level)
    if own and TAKES.get((item.kind, name), (name,))[0] in own:
        of = spread_of(own, item.kind, quantity=name, level=known.level)
    down, up = of.at(-1.0), of.at(1.0)
    if item.level and item.predicted and item.low and item.high:
        shipped = spread(item.kind, name, level=item.level)
        down *= min(1.0, item.low / item.predicted / shipped.at(-1.0))
        up *= max(1.0, item.high / item.predicted / shipped.at(1.0))
    return known.predicted * down, known.predicted * up
