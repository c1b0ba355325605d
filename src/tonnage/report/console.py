"""Where text goes: a terminal as wide as it is, a file or pipe wide enough for a table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["lines", "make_console"]

PIPE_WIDTH: Final = 150
"""Columns when nobody looks: pipes and files have no width of their own."""


def make_console() -> Console:
    """A console without guessing colours for numbers; rich is imported here, only when something is shown."""
    from rich.console import Console

    console = Console(highlight=False)
    known = console.is_terminal or "COLUMNS" in os.environ
    return console if known else Console(highlight=False, width=PIPE_WIDTH)


def lines(console: Console, title: str, *, texts: list[str]) -> None:
    """A titled list of sentences; nothing when there are none."""
    if texts:
        console.print(f"\n{title}", style="bold", markup=False)
        for text in texts:
            console.print(f"  {text}", markup=False)
