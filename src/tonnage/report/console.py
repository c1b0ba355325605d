"""Where text goes: a terminal as wide as it is, a file or pipe wide enough for a table, or a list of blocks.

Every report prints through `make_console`. A face that wants the same report as something else than characters
(a web page, a Markdown comment) records it: what would have been printed comes back as `Block`s.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Block", "lines", "make_console", "recorded"]

PIPE_WIDTH: Final = 150
"""Columns when nobody looks: pipes and files have no width of their own."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of a report: a heading, a text, or a table."""

    kind: str
    """heading, text, note, table."""
    text: str = ""
    columns: tuple[str, ...] = ()
    numeric: tuple[bool, ...] = ()
    """Which columns hold numbers, set flush right."""
    rows: tuple[tuple[str, ...], ...] = ()


_recording: ContextVar[list[Block] | None] = ContextVar("recording", default=None)


def make_console() -> Console:
    """A console without guessing colours for numbers; rich is imported here, only when something is shown."""
    blocks = _recording.get()
    if blocks is not None:
        return cast("Console", _recorder(blocks))
    from rich.console import Console

    console = Console(highlight=False)
    known = console.is_terminal or "COLUMNS" in os.environ
    return console if known else Console(highlight=False, width=PIPE_WIDTH)


def recorded(show: Callable[..., None], *args: Any, **options: Any) -> tuple[Block, ...]:
    """What `show(*args, **options)` would print, as blocks."""
    blocks: list[Block] = []
    token = _recording.set(blocks)
    try:
        show(*args, **options)
    finally:
        _recording.reset(token)
    return tuple(blocks)


def lines(console: Console, title: str, *, texts: list[str]) -> None:
    """A titled list of sentences; nothing when there are none."""
    if texts:
        console.print(f"\n{title}", style="bold", markup=False)
        for text in texts:
            console.print(f"  {text}", markup=False)


def _recorder(blocks: list[Block]) -> Any:
    """Something reports can print to, which keeps instead of drawing."""
    from types import SimpleNamespace

    def keep(*things: object, style: str = "", **_: Any) -> None:
        blocks.extend(_block(thing, style) for thing in things if thing is not None)

    return SimpleNamespace(print=keep, width=PIPE_WIDTH, is_terminal=False)


def _block(thing: object, style: str) -> Block:
    from rich.table import Table
    from rich.text import Text

    if isinstance(thing, Table):
        cells = [tuple(_plain(cell) for cell in column.cells) for column in thing.columns]
        return Block(
            kind="table",
            columns=tuple(_plain(column.header) for column in thing.columns),
            numeric=tuple(column.justify == "right" for column in thing.columns),
            rows=tuple(zip(*cells, strict=True)),
        )
    text = thing.plain if isinstance(thing, Text) else str(thing)
    if style.startswith("bold"):
        return Block(kind="heading", text=text.strip())
    return Block(kind="note" if style == "dim" else "text", text=text.strip())


def _plain(cell: Any) -> str:
    """The characters of a table cell."""
    return cell.plain if hasattr(cell, "plain") else str(cell)
