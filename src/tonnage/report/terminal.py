"""Blocks as characters: a terminal as wide as it is, a file or pipe wide enough for a table.

Tables take the room there is: columns that may wrap take the space that is left, first come first served; when even
their longest words do not fit, columns that another place tells as well are left out. Nothing is cut inside a word
while that can be avoided.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tonnage.report.document import Block, Column, Command, Headline, Meters, Note, Section, Table, Text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable


PIPE_WIDTH: Final = 150
"""Columns when nobody looks: pipes and files have no width of their own."""
MAX_TEXT: Final = 120
"""Text is not set wider than this, whatever the terminal: longer lines are hard to read. [columns]"""
INDENT: Final = "  "
GAP: Final = 2
"""Blank columns between two cells."""
EARLY: Final = 3
"""Columns of this rank and above are left out before a cell is broken."""
LONGEST: Final = 20
"""Letters of a word beyond which a column that wraps may cut it."""
SEPARATOR: Final = " · "
"""Between the cells of a card."""


def make_console(width: int | None = None) -> Console:
    """A console without guessing colours for numbers; rich is imported here, only when something is shown."""
    from rich.console import Console

    console = Console(highlight=False, width=width)
    known = width is not None or console.is_terminal or "COLUMNS" in os.environ
    return console if known else Console(highlight=False, width=PIPE_WIDTH)


def print_blocks(blocks: Iterable[Block], *, width: int | None = None) -> None:
    """Print blocks to standard output, as wide as the terminal unless a width is given."""
    console = make_console(width)
    before: Block | None = None
    for block in blocks:
        if _blank_line_between(before, block):
            console.print()
        _print(console, block, indent="" if before is None else INDENT)
        before = block


def _blank_line_between(before: Block | None, block: Block) -> bool:
    """
    Whether a blank line divides two blocks: before sections, tables and the answer itself, after tables and meters.

    Meters and texts follow the answer at once; nothing stands before the first block.
    """
    if before is None:
        return False
    if isinstance(before, Headline) and isinstance(block, Meters | Text):
        return False
    return isinstance(block, Section | Table | Headline) or isinstance(before, Section | Table | Meters | Headline)


def _print(console: Console, block: Block, *, indent: str) -> None:
    """Print one block; texts are set in by `indent`, everything else by its own rule."""
    if isinstance(block, Headline):
        _lines(console, block.line, indent=indent, style="bold" if block.good else "bold red")
    elif isinstance(block, Meters):
        for line in _pack_meters([meter.text() for meter in block.meters], width=_room(console)):
            _lines(console, line, indent=INDENT)
    elif isinstance(block, Table):
        if block.title:
            console.print(f"{INDENT}{block.title}", style="italic", markup=False)
        _print_table(console, block)
    elif isinstance(block, Section):
        console.print(block.title, style="bold", markup=False)
        for place, inner in enumerate(block.blocks):
            if place and isinstance(inner, Table) and isinstance(block.blocks[place - 1], Table):
                console.print()
            _print(console, inner, indent=INDENT)
    elif isinstance(block, Command):
        console.print(f"{INDENT}{block.text}", style="dim", markup=False, soft_wrap=True)
    else:
        text, style = (block.full, "dim") if isinstance(block, Note) else (block.text, "")
        _lines(console, text, indent=indent, style=style)


def _print_table(console: Console, table: Table) -> None:
    """The table set in; blanks at the ends of its lines are left out, of a file as of a terminal."""
    from rich.text import Text as RichText

    width = console.width - len(INDENT)
    if not _fits(table, width=width):
        for card_line in _cards(table, width=width):
            console.print(f"{INDENT}{card_line}", markup=False, soft_wrap=True)
        return
    for line in console.render_lines(rich_table(table, width=width), console.options.update(width=width), pad=False):
        text = RichText.assemble(*((part.text, part.style or "") for part in line if not part.control))
        text.rstrip()
        console.print(RichText(INDENT) + text, no_wrap=True, overflow="ignore", crop=False)


def _fits(table: Table, *, width: int) -> bool:
    """Whether the columns that are shown stand side by side, no word cut but long ones of columns that wrap."""
    return _table_width([_floor(table, place) for place in _fitting(table, width=width)]) <= width


def _cards(table: Table, *, width: int) -> list[str]:
    """Rows below each other: the first cell, then the others of the columns that no other place tells as well."""
    shown = [place for place, column in enumerate(table.columns) if column.spare < EARLY]
    lines: list[str] = []
    for row in table.rows:
        said = [place for place in shown if row[place].strip()]
        if not said:
            continue
        name, rest = said[0], said[1:]
        title = row[name].rstrip() if name == shown[0] else INDENT + row[name].rstrip()
        lines.append(title)
        inner = " " * (len(title) - len(title.lstrip())) + INDENT
        cells = [f"{table.columns[place].head} {row[place].strip()}".strip() for place in rest]
        lines += [inner + line for line in _pack(cells, width=width - len(inner))]
    return lines


def _pack(cells: Sequence[str], *, width: int) -> list[str]:
    """Cells beside each other, a line broken between them, and inside one only where it is longer than a line."""
    lines: list[str] = []
    for cell in cells:
        if lines and len(lines[-1]) + len(SEPARATOR) + len(cell) <= width:
            lines[-1] += SEPARATOR + cell
        else:
            lines += textwrap.wrap(cell, max(20, width), subsequent_indent=INDENT, break_on_hyphens=False)
    return lines


def _room(console: Console) -> int:
    return max(20, min(console.width, MAX_TEXT))


def _lines(console: Console, text: str, *, indent: str, style: str = "") -> None:
    """A paragraph, its later lines set in; kept spaces of bars and columns stay as they are where it fits."""
    room = _room(console)
    if len(indent) + len(text) <= room:
        console.print(indent + text, style=style, markup=False)
        return
    wrapped = textwrap.wrap(
        text, room, initial_indent=indent, subsequent_indent=indent + INDENT, break_on_hyphens=False
    )
    for line in wrapped:
        console.print(line, style=style, markup=False)


def _pack_meters(texts: Sequence[str], *, width: int) -> list[str]:
    """Meters side by side, as many in a line as it has room for."""
    rows: list[str] = []
    for text in texts:
        if rows and len(INDENT) + len(rows[-1]) + len(text) + 5 <= width:
            rows[-1] += f"  |  {text}"
        else:
            rows.append(text)
    return rows


def rich_table(table: Table, *, width: int) -> RichTable:
    """The table, at most `width` wide."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    places = _fitting(table, width=width)
    headed = any(column.head for column in table.columns)
    drawn = RichTable(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, GAP - 1, 0, 0), show_edge=False, show_header=headed
    )
    for place, own in zip(places, _widths(table, places, width=width), strict=True):
        column = table.columns[place]
        drawn.add_column(
            RichText(column.head), justify="right" if column.number else "left", width=own, overflow="fold"
        )
    for number, row in enumerate(table.rows, start=1):
        last = table.total and number == len(table.rows)
        drawn.add_row(*(RichText(row[place]) for place in places), style="bold" if last else None)
    return drawn


def _fitting(table: Table, *, width: int) -> list[int]:
    """Places of the columns that are shown: none that is empty in every row, and fewer where the width does not do."""
    shown = [place for place in range(len(table.columns)) if any(row[place].strip() for row in table.rows)]
    whole = [max(map(len, _cells(table, place))) for place in range(len(table.columns))]
    # What is told elsewhere gives way so that a row keeps to a line; the rest only where words would be cut.
    _drop(table, shown, width=width, needs=whole, from_rank=EARLY)
    _drop(table, shown, width=width, needs=[_least(table, place) for place in range(len(whole))], from_rank=1)
    return shown


def _drop(table: Table, shown: list[int], *, width: int, needs: Sequence[int], from_rank: int) -> None:
    """Take columns out of `shown`, the most spare first, until they fit by their needs or none of the rank is left."""
    while _table_width([needs[place] for place in shown]) > width:
        spare = [place for place in shown if table.columns[place].spare >= from_rank]
        if not spare:
            return
        shown.remove(max(spare, key=lambda place: table.columns[place].spare))


def _widths(table: Table, places: Sequence[int], *, width: int) -> list[int]:
    """Width of each column: its longest word, and what is left over for those that wrap."""
    widths = [_least(table, place) for place in places]
    for i, place in enumerate(places):
        left = width - _table_width(widths)
        whole = max(map(len, _cells(table, place)))
        widths[i] = max(min(whole, widths[i] + left), _floor(table, place))
    return widths


def _table_width(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _cells(table: Table, place: int) -> list[str]:
    return [table.columns[place].head, *(row[place] for row in table.rows)]


def _floor(table: Table, place: int) -> int:
    """The least width of a column when its longest words may be cut."""
    least = _least(table, place)
    return min(least, LONGEST) if table.columns[place].wraps else least


def _least(table: Table, place: int) -> int:
    """Width of a column's longest word, or of its longest cell where it does not wrap."""
    column: Column = table.columns[place]
    words = (text.split() if column.wraps else [text] for text in _cells(table, place))
    return max(len(word) for text in words for word in text or [""])
