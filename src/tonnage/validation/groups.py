"""
Which rows belong together? Labels of a row, and folds that leave whole groups out.

Rows of one block are near-duplicates of each other, so what is fitted is judged on groups that the fit did not see:
`leave_out` gives each group in turn with all the others beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from tonnage import catalog
from tonnage.errors import TonnageError
from tonnage.validation.cases import kind_of
from tonnage.validation.rows import Row, text

__all__ = ["LABELS", "LEFT_OUT", "Labels", "grouped", "labels_of", "leave_out"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

LABELS: Final = ("engine", "accelerator", "family", "precision", "load")
"""What results can be split by beside the block."""

LEFT_OUT: Final = ("accelerator", "family", "engine", "source")
"""Kinds of groups that fits are judged without: of an accelerator, a model family, an engine, a source block."""

UNKNOWN: Final = "not stated"


class Labels(msgspec.Struct, frozen=True, kw_only=True):
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


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by their group, both in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def leave_out(items: Sequence[T], key: Callable[[T], K]) -> Iterator[tuple[K, list[T], list[T]]]:
    """Each group in turn: its key, the items of all other groups (to fit on), and its own (to judge by)."""
    groups = grouped(items, key)
    for left_out, own in groups.items():
        yield left_out, [item for name, others in groups.items() if name != left_out for item in others], own


def _family(model: str) -> str:
    try:
        return catalog.model(model).family if model else ""
    except TonnageError:
        return ""
