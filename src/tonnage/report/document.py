"""What an answer says, as blocks: a renderer makes text for a terminal, Markdown or HTML of them, and adds nothing.

A report is a function from an answer to a `Document`: the first screen, on which people decide, and the sections that
say why. Blocks hold finished words and numbers, no characters of layout, so that what one face says the others say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from string import digits
from typing import Final, Literal

import msgspec

from tonnage.record import Record


class Headline(Record, tag_field="block", tag="headline"):
    """The answer itself, in a line or two."""

    text: str
    """A sentence, or what to take: accelerators, a model."""
    details: tuple[str, ...] = ()
    """How it runs, and where."""
    price: str = ""
    price_note: str = ""
    """What the price is of, in the same breath: the time it takes, its interval."""
    beside: str = ""
    """The same price of a month, or what it competes with."""
    good: bool = True
    """It is what was hoped for: feasible, fits, within the objectives."""

    @property
    def line(self) -> str:
        """All of it, for faces that set it in one line."""
        price = f"{self.price} {self.price_note}".rstrip()
        return "   ".join(filter(None, (self.text, *self.details, price, self.beside)))


class Meter(Record):
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
    used: str = ""
    """Of a capacity, the share that is in use."""

    @property
    def said(self) -> str:
        """The value, and how much of it is used."""
        return f"{self.value}, {self.used} used" if self.used else self.value

    def text(self) -> str:
        """ "TPOT p95 29 ms of 50 ms (25-35 ms), 99 % sure"."""
        words = [self.name, self.said, *([f"of {self.limit}"] if self.limit else [])]
        words += [f"({self.interval})"] if self.interval else []
        return " ".join(words) + (f", {self.chance} sure" if self.chance else "")


class Meters(Record, tag_field="block", tag="meters"):
    """The numbers that decide, each against its limit."""

    meters: tuple[Meter, ...]


class Column(Record):
    """The head of a column, and how it gives way where there is little room."""

    head: str
    number: bool = False
    """Set flush right."""
    wraps: bool = False
    """May take several lines, broken between words."""
    spare: int = 0
    """Left out when there is no room, the highest first; 0 = stays."""


class Table(Record, tag_field="block", tag="table"):
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


class Text(Record, tag_field="block", tag="text"):
    """A line of text."""

    text: str
    kind: Literal["", "asked", "chosen", "fact", "check", "measured", "flip", "relaxed"] = ""
    """The question again; the chosen option against the recommended one; what changes nothing; what to look at first;
    what moved numbers; what would change it; a constraint that is given up, written as its option."""
    asks: Mapping[str, str] = {}
    """Fields of the request that ask for what the line offers."""


class Note(Record, tag_field="block", tag="note"):
    """A remark that can be skipped."""

    text: str = ""
    hint: str = ""
    """How to go on in a terminal, after the text; a page, whose links do that, leaves it out."""

    @property
    def full(self) -> str:
        """The text and the hint, as a terminal shows them."""
        return f"{self.text} {self.hint}".strip()


class Command(Record, tag_field="block", tag="command"):
    """Something to copy and run: names in it stay as a machine reads them."""

    text: str


class Section(Record, tag_field="block", tag="section"):
    """Blocks under a heading that names what stands below it."""

    title: str
    blocks: tuple[Block, ...]


Block = Headline | Meters | Table | Text | Note | Command | Section
Contents = Block | str | None | Iterable[Block | str | None]
"""Of a section: a block or text, or several."""


class Document(Record):
    """An answer as blocks: what is decided upon, and why it is so."""

    first: tuple[Block, ...]
    """The first screen: 24 lines of 100 columns."""
    why: tuple[Block, ...] = ()
    """All the rest, in sections."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The first screen and the reasons."""
        return (*self.first, *self.why)


def blocks(*contents: Contents) -> tuple[Block, ...]:
    """
    Blocks one below the other; a text becomes a block, and what says nothing is left out: no text, no rows.

    Examples
    --------
    >>> blocks("fits", None, "", grid(["part"], []), ["a", "b"])
    (Text(text='fits', kind='', asks={}), Text(text='a', kind='', asks={}), Text(text='b', kind='', asks={}))
    """
    found: list[Block] = []
    for held in contents:
        listed = (held,) if held is None or isinstance(held, str | msgspec.Struct) else held
        found += [Text(one) if isinstance(one, str) else one for one in listed if one and getattr(one, "rows", True)]
    return tuple(found)


def document(*first: Contents, why: Mapping[str, Contents] | None = None) -> Document:
    """A document of those blocks and sections; what says nothing is left out."""
    return Document(blocks(*first), sections(why or {}))


def sections(contents: Mapping[str, Contents]) -> tuple[Section, ...]:
    """
    Sections of blocks and lines of text under those titles; one that says nothing is left out.

    Examples
    --------
    >>> [one.title for one in sections({"Answer": "8 x B200", "Spot": "", "Notes": ["a", "b"]})]
    ['Answer', 'Notes']
    """
    return tuple(Section(title, kept) for title, held in contents.items() if (kept := blocks(held)))


def grid(
    heads: Iterable[Column | str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    total: bool = False,
    options: Iterable[int] = (),
) -> Table:
    """
    A table.

    A head may end in ">" over numbers, in "~" over text that may wrap, in "<" over other text; behind that in the rank
    by which its column gives way.

    Examples
    --------
    >>> grid(["part~", "size>", "from<2"], [["weights", "16 GiB", "config.json"]]).columns[1:]
    (Column(head='size', number=True, wraps=False, spare=0), Column(head='from', number=False, wraps=False, spare=2))
    """
    columns = tuple(head if isinstance(head, Column) else _column(head) for head in heads)
    return Table(columns, tuple(map(tuple, rows)), title=title, total=total, options=tuple(options))


def _column(head: str) -> Column:
    marked = head.rstrip(digits)
    name, mark = marked[:-1], marked[-1:]
    if mark not in ("<", ">", "~"):
        return Column(head)
    return Column(name, mark == ">", mark == "~", int(head[len(marked) :] or 0))


def as_json(noun: object, *, indent: int = 2) -> str:
    """The noun as indented JSON; the same noun gives the same bytes everywhere."""
    return msgspec.json.format(msgspec.json.encode(noun), indent=indent).decode()
