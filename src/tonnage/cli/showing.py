"""How much of an answer is printed (`--why`, `--all`, `--top`), and that a long question says it is being worked on."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

__all__ = ["on_terminal", "show_options", "watch_bar", "why_option", "working"]

Command = TypeVar("Command", bound=Callable[..., Any])
QUIET_S: Final = 2.0
"""Shorter work says nothing while it runs. [s]"""
BETWEEN_S: Final = 0.1
"""Between two drawings of a bar. [s]"""
BAR: Final = 30
"""Characters of a bar."""


def on_terminal() -> bool:
    """Someone looks at what is printed: it is neither a file nor a pipe."""
    return sys.stdout.isatty()


def why_option(command: Command) -> Command:
    """Adds `--why`."""
    return click.option("--why", is_flag=True, help="the reasons as well: every section below the first screen")(
        command
    )


def show_options(of: str, *, most: int = 200) -> Callable[[Command], Command]:
    """Adds `--why`, `--all` and `--top`, which `report.answers.show` takes as why, every (here `show_all`) and top."""

    def decorate(command: Command) -> Command:
        command = click.option("--top", type=click.IntRange(1, most), help=f"so many {of}, by rank")(command)
        command = click.option("--all", "show_all", is_flag=True, help=f"all {of}")(command)
        return why_option(command)

    return decorate


@contextmanager
def working(what: str) -> Iterator[Callable[[int, int], None]]:
    """
    After two seconds a line on stderr, if someone looks there, that says what is being done, for how long, and how to
    stop it; gone when the work ends. Work that knows how far it is tells (done, all) to what this gives.
    """
    far = (0, 0)

    def reached(done: int, total: int) -> None:
        nonlocal far
        far = done, total

    if not sys.stderr.isatty():
        yield reached
        return
    ended, began = threading.Event(), time.monotonic()

    def tell() -> None:
        seen = ended.wait(QUIET_S)
        while not seen:
            spent = time.monotonic() - began
            place = int(spent / BETWEEN_S) % (2 * BAR)
            done, total = far
            bar = "#" * round((BAR + 2) * done / total) if total else " " * min(place, 2 * BAR - place) + "##"
            count = f" {done:,} of {total:,}," if total else ""
            click.echo(f"\r[{bar:<{BAR + 2}}] {what},{count} {spent:,.0f} s; Ctrl-C stops it\x1b[K", err=True, nl=False)
            seen = ended.wait(BETWEEN_S)
        if time.monotonic() - began > QUIET_S:
            click.echo("\r\x1b[K", err=True, nl=False)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield reached
    finally:
        ended.set()
        teller.join()


def watch_bar() -> Callable[[int, int], None]:
    """Draws on stderr how far a long run is, if someone looks there."""
    began, drawn, seen = time.monotonic(), 0.0, sys.stderr.isatty()

    def tell(done: int, total: int) -> None:
        nonlocal began, drawn
        now = time.monotonic()
        ended = done >= total
        due = now - drawn > BETWEEN_S if drawn else now - began > QUIET_S / 2
        if seen and (due or (drawn and ended)):
            drawn = now
            share = done / max(1, total)
            bar = "#" * round(BAR * share)
            left = (now - began) * (1.0 - share) / share if share else 0.0
            rest = "" if ended or not done else f", {left:,.0f} s left"
            click.echo(f"\r[{bar:<{BAR}}] {done:,} of {total:,} requests{rest}\x1b[K", err=True, nl=ended)
        if ended:
            began, drawn = time.monotonic(), 0.0  # the next run, where there are several

    return tell
