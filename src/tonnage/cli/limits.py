"""Options of the servers (`tonnage web`, `tonnage mcp`): how long, how much, how many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tonnage.errors import BadRequest
from tonnage.units import MiB, read

if TYPE_CHECKING:
    from tonnage.web.records import Limits


Command = TypeVar("Command", bound=Callable[..., Any])
MIN_MEMORY_BYTES = 512 * MiB
"""Little more than what the libraries of a worker take."""
MIN_TIME_S, MAX_TIME_S = 0.1, 86_400.0


def limit_options(command: Command) -> Command:
    """Adds the options that `limits_of` reads."""
    for option in (
        click.option(
            "--workers",
            type=click.IntRange(1, 256),
            help="processes that plan and simulate [default: one a core, at least 2]",
        ),
        click.option("--memory-limit", default="4 GiB", help="of one worker process (on Linux)"),
        click.option("--time-limit", default="60 s", help="for the work on one question"),
    ):
        command = option(command)
    return command


def limits_of(options: dict[str, Any]) -> Limits:
    """
    The limits that the options name.

    Raises
    ------
    BadRequest
        A quantity cannot be read, or is too small or too large.
    """
    from tonnage.web.records import Limits

    time_s = read(options["time_limit"], "s", field="--time-limit")
    memory_bytes = read(options["memory_limit"], "bytes", field="--memory-limit")
    if not MIN_TIME_S <= time_s <= MAX_TIME_S:
        raise BadRequest(f"--time-limit: {time_s:g} s is not between {MIN_TIME_S:g} s and a day")
    if memory_bytes < MIN_MEMORY_BYTES:
        raise BadRequest(f"--memory-limit: {options['memory_limit']} is too little to plan in; give 512 MiB or more")
    workers = {} if options["workers"] is None else {"workers": options["workers"]}
    return Limits(question_s=time_s, memory_bytes=memory_bytes, **workers)
