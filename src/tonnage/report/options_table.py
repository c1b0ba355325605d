"""The table of ranked options, in whatever width there is: nothing is cut inside a word while that can be avoided.

Columns that may wrap take the space that is left, first come first served; when even their longest words do not fit,
columns that another place tells as well are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Column", "options_table"]

GAP: Final = 2
"""Blank columns between two cells."""
EDGE: Final = 1
"""Blank columns beside the outer cells."""
NARROWEST: Final = 10
"""To what a column shrinks, words cut, when nothing else is left to give way."""


class Column(NamedTuple):
    """A head, its cells, and how they give way."""

    head: str
    cells: tuple[str, ...]
    number: bool = False
    """Set flush right."""
    wraps: bool = False
    """May take several lines, broken between words."""
    spare: int = 0
    """Left out when there is no room, the highest first; 0 = stays."""


def options_table(columns: Sequence[Column], *, width: int) -> Table:
    """The table, at most `width` wide."""
    from rich import box
    from rich.table import Table

    shown = _fitting(columns, width=width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, GAP - 1, 0, 0), width=None)
    for column, own in zip(shown, _widths(shown, width=width), strict=True):
        table.add_column(column.head, justify="right" if column.number else "left", width=own, overflow="fold")
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*cells)
    return table


def _fitting(columns: Sequence[Column], *, width: int) -> list[Column]:
    shown = list(columns)
    while _taken([_least(column) for column in shown]) > width and any(column.spare for column in shown):
        shown.remove(max(shown, key=lambda column: column.spare))
    return shown


def _widths(columns: Sequence[Column], *, width: int) -> list[int]:
    """Width of each column: its longest word, and what is left over for those that wrap."""
    widths = [_least(column) for column in columns]
    for i, column in enumerate(columns):
        left = width - _taken(widths)
        whole = max(map(len, (column.head, *column.cells)))
        if left > 0:
            widths[i] = min(whole, widths[i] + left)
        elif left < 0 and column.wraps:
            widths[i] = max(min(NARROWEST, widths[i]), widths[i] + left)
    return widths


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * len(widths) + EDGE


def _least(column: Column) -> int:
    words = (text.split() if column.wraps else [text] for text in column.cells)
    return max([len(column.head), *(len(word) for text in words for word in text)])
