"""What an answer says, as blocks: a renderer makes text for a terminal, Markdown or HTML of them, and adds nothing.

A report is a function from an answer to a `Document`: the first screen, on which people decide, and the sections that
say why. Blocks hold finished words and numbers, no characters of layout, so that what one face says the others say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec


class Headline(msgspec.Struct, frozen=True, tag_field="block", tag="headline"):
    """The answer itself, in a line or two; what it consists of stands three blanks apart."""

    text: str
    good: bool = True
    """It is what was hoped for: feasible, fits, within the objectives."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Product, layout, place, price: for faces that do not set them in one line."""
        return tuple(filter(None, self.text.split("   ")))


class Meter(msgspec.Struct, frozen=True):
    """A number against its limit."""

    name: str
    value: str
    limit: str = ""
    interval: str = ""
    """90 % of such cases."""
    chance: str = ""
    """Probability that the limit is kept."""
    share: float | None = None
    """Of the limit that is used, for a bar; absent = no limit. [-]"""
    low: float | None = None
    high: float | None = None
    """Ends of the interval as shares of the limit; absent = not known. [-]"""

    def text(self) -> str:
        """ "TPOT p95 29 ms of 50 ms (25-35 ms), 99 % sure"."""
        words = [self.name, self.value, *([f"of {self.limit}"] if self.limit else [])]
        words += [f"({self.interval})"] if self.interval else []
        return " ".join(words) + (f", {self.chance} sure" if self.chance else "")


class Meters(msgspec.Struct, frozen=True, tag_field="block", tag="meters"):
    """The numbers that decide, each against its limit."""

    meters: tuple[Meter, ...]


class Column(msgspec.Struct, frozen=True):
    """The head of a column, and how it gives way where there is little room."""

    head: str
    number: bool = False
    """Set flush right."""
    wraps: bool = False
    """May take several lines, broken between words."""
    spare: int = 0
    """Left out when there is no room, the highest first; 0 = stays."""


class Table(msgspec.Struct, frozen=True, tag_field="block", tag="table"):
    """Rows under heads."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    total: bool = False
    """The last row sums up those before it."""
    options: tuple[int, ...] = ()
    """Places of the plan's options that the rows are, for links from each row; empty = rows of something else."""


UNKNOWN: Final = "–"
"""In place of a value that nobody knows."""
EVERY: Final = sys.maxsize
"""In place of a number of rows: all of them."""


class Text(msgspec.Struct, frozen=True, tag_field="block", tag="text"):
    """A line of text."""

    text: str
    kind: Literal["", "asked", "fact", "check", "measured", "flip", "relaxed"] = ""
    """The question again; what changes nothing; what to look at first; what moved numbers; what would change it;
    a constraint that is given up, written as its option."""
    asks: Mapping[str, str] = {}
    """Fields of the request that ask for what the line offers."""


class Note(msgspec.Struct, frozen=True, tag_field="block", tag="note"):
    """A remark that can be skipped."""

    text: str = ""
    hint: str = ""
    """How to go on in a terminal, after the text; a page, whose links do that, leaves it out."""

    @property
    def full(self) -> str:
        """The text and the hint, as a terminal shows them."""
        return f"{self.text} {self.hint}".strip()


class Command(msgspec.Struct, frozen=True, tag_field="block", tag="command"):
    """Something to copy and run: names in it stay as a machine reads them."""

    text: str


class Section(msgspec.Struct, frozen=True, tag_field="block", tag="section"):
    """Blocks under a heading that names what stands below it."""

    title: str
    blocks: tuple[Headline | Meters | Table | Text | Note | Command, ...]


Block = Headline | Meters | Table | Text | Note | Command | Section
Contents = Block | str | None | Iterable[Block | str | None]
"""Of a section: a block or text, or several."""


class Document(msgspec.Struct, frozen=True):
    """An answer as blocks: what is decided upon, and why it is so."""

    first: tuple[Block, ...]
    """The first screen: 24 lines of 100 columns."""
    why: tuple[Block, ...] = ()
    """All the rest, in sections."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The first screen and the reasons."""
        return (*self.first, *self.why)


def sections(contents: Mapping[str, Contents]) -> tuple[Section, ...]:
    """
    Sections of blocks and lines of text under those titles; one that says nothing is left out.

    Examples
    --------
    >>> [one.title for one in sections({"Answer": "8 x B200", "Spot": "", "Notes": ["a", "b"]})]
    ['Answer', 'Notes']
    """
    found = []
    for title, held in contents.items():
        listed: Iterable[Any] = (held,) if held is None or isinstance(held, str | msgspec.Struct) else held
        kept = tuple(Text(block) if isinstance(block, str) else block for block in listed if block)
        found += [Section(title, kept)] if kept else []
    return tuple(found)


def section(title: str, *blocks: Block | str | None) -> tuple[Section, ...]:
    """A section of blocks and lines of text; nothing where none of them says anything."""
    return sections({title: blocks})


def text_section(title: str, texts: Iterable[str]) -> tuple[Section, ...]:
    """A section of lines of text; nothing where there are none."""
    return sections({title: texts})


def grid(
    heads: Sequence[Column | str], rows: Iterable[Sequence[str]], *, title: str = "", total: bool = False
) -> Table:
    """
    A table; a head that ends in ">" stands over numbers, one that ends in "~" over text that may wrap.

    Examples
    --------
    >>> grid(["part~", "size>"], [["weights", "16 GiB"]]).columns
    (Column(head='part', number=False, wraps=True, spare=0), Column(head='size', number=True, wraps=False, spare=0))
    """
    columns = [
        head if isinstance(head, Column) else Column(head.rstrip(">~"), head.endswith(">"), head.endswith("~"))
        for head in heads
    ]
    return Table(tuple(columns), tuple(tuple(row) for row in rows), title=title, total=total)


def as_json(noun: object, *, indent: int = 2) -> str:
    """The noun as indented JSON; the same noun gives the same bytes everywhere."""
    return msgspec.json.format(msgspec.json.encode(noun), indent=indent).decode()
