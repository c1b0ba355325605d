"""
Which group does a row belong to when errors are averaged, and which rows leave a fit together?

`measurements/groups.toml` of a checkout fixes both before a figure is taken: families under one name, sources that one
publisher's runs fill, tables that no fit has read, settings that a row leaves open, rows that are set aside. Without
the file every row is its block and its catalogue family.

Rows of one block are near-duplicates of each other, so what is fitted is judged on groups that the fit did not see.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tonnage import catalog
from tonnage.errors import BadFact, TonnageError
from tonnage.record import Record
from tonnage_accuracy.cases import kind_of
from tonnage_accuracy.rows import Row, text

FILE: Final = Path("measurements") / "groups.toml"
HALF: Final = 0.5


class Condition(Record, forbid_unknown_fields=True):
    """What a cell must say: one of some words within it, or nothing at all."""

    any: tuple[str, ...] = ()
    empty: bool = False

    def holds(self, cell: str) -> bool:
        """Whether the cell says so."""
        return not cell if self.empty else any(word in cell for word in self.any)


class UnknownSetting(Record, forbid_unknown_fields=True):
    """A setting that rows leave open, and how that shows."""

    setting: str
    columns: dict[str, Condition]


class Aside(Record, forbid_unknown_fields=True):
    """Rows marked as not usable that figures are given with and without."""

    name: str
    column: str
    any: tuple[str, ...]


class Restored(Record, forbid_unknown_fields=True):
    """A setting that a source names and a measurement contradicts."""

    id: str
    column: str
    value: str
    why: str


class Grouping(Record, kw_only=True, forbid_unknown_fields=True):
    """The groups of a set of measurements."""

    fixed: str = ""
    """The day on which they were fixed."""
    fewest: int = 8
    """Numbers that a group must have to count."""
    unseen: frozenset[str] = frozenset()
    """Tables that no fit has read."""
    families: dict[str, tuple[str, ...]] = {}
    together: dict[str, tuple[str, ...]] = {}
    unknown: tuple[UnknownSetting, ...] = ()
    aside: tuple[Aside, ...] = ()
    restored: tuple[Restored, ...] = ()

    def family(self, row: Row) -> str:
        """The row's model family under the name of its group."""
        known = labels_of(row).family
        return next((name for name, members in self.families.items() if known in members), known)

    def leaves_with(self, row: Row) -> str:
        """What is left out when the row's source is: its block, or all blocks of one publisher."""
        return self.publisher(row.block)

    def publisher(self, block: str) -> str:
        """The publisher that fills a block, and others with it; the block itself where that is all it fills."""
        return next((name for name, blocks in self.together.items() if block in blocks), block)

    def group(self, row: Row, kind: str) -> str:
        """The row's group of a kind: source, family, accelerator, engine."""
        if kind == "source":
            return row.block
        return self.family(row) if kind == "family" else str(getattr(labels_of(row), kind))

    def left_open(self, row: Row) -> str:
        """The first setting that the row leaves open; empty where it states all."""
        for rule in self.unknown:
            if all(condition.holds(text(row, column)) for column, condition in rule.columns.items()):
                return rule.setting
        return ""

    def mostly_open(self, rows: Iterable[Row]) -> str:
        """The setting that more than half of the rows leave open; empty where there is none."""
        rows = list(rows)
        shares = group_by(rows, self.left_open)
        return next((name for name, own in shares.items() if name and len(own) > HALF * len(rows)), "")

    def set_aside(self, row: Row) -> str:
        """The name of the rows set aside that this one is among; empty for all others."""
        if row.usable:
            return ""
        return next((rule.name for rule in self.aside if any(word in text(row, rule.column) for word in rule.any)), "")


def read_grouping(root: Path) -> Grouping:
    """
    The groups of a checkout; plain ones where it has no such file.

    Raises
    ------
    BadFact
        The file is not what this module describes; the sentence says where.
    """
    path = root / FILE
    if not path.exists():
        return Grouping()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Grouping)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFact(f"{FILE}: {error}; see tonnage_accuracy/grouping.py for what it holds") from None


T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

LABELS: Final = ("engine", "accelerator", "family", "precision", "load")
"""What results can be split by beside the block."""

LEFT_OUT: Final = ("accelerator", "family", "engine", "source")
"""Kinds of groups that fits are judged without: of an accelerator, a model family, an engine, a source block."""

UNKNOWN: Final = "not stated"


class Labels(Record, kw_only=True):
    """What a row is about, for splitting results."""

    engine: str = UNKNOWN
    accelerator: str = UNKNOWN
    family: str = UNKNOWN
    precision: str = UNKNOWN
    load: str = UNKNOWN
    model: str = UNKNOWN


def labels_of(row: Row) -> Labels:
    """The labels of a row; training rows have their method as load."""
    served = "closed_loop" if row.layout == "serving" else ""
    model = text(row, "model_id") or text(row, "model_near_id") or text(row, "model")
    return Labels(
        engine=text(row, "engine") or UNKNOWN,
        accelerator=text(row, "accelerator_id") or UNKNOWN,
        family=_family(model) or text(row, "model") or UNKNOWN,
        precision=text(row, "act_precision" if kind_of(row) == "train" else "weight_precision") or UNKNOWN,
        load=text(row, "load") or served or text(row, "method") or UNKNOWN,
        model=model or UNKNOWN,
    )


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by their group, both in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _family(model: str) -> str:
    try:
        return catalog.model(model).family if model else ""
    except TonnageError:
        return ""
