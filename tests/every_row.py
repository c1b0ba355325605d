"""
One test over all rows of a table, which names every row it refuses.

A test a row costs a millisecond or two of pytest for each, in every process that collects it, and a table grows by
thousands of rows. `@every_row(ROWS)` above a test of one row makes it a test of all: it runs the check for each row and
fails once, with the name and the complaint of each bad one.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Row = TypeVar("Row")

MAX_SHOWN = 20
"""Bad rows shown in full; the rest are counted."""


def every_row(
    rows: Iterable[Row], *, name: Callable[[Row], str] = str
) -> Callable[[Callable[[Row], None]], Callable[[], None]]:
    """
    A test of one row becomes a test of all of them.

    Raises
    ------
    ValueError
        There are no rows: such a test could not fail.
    """
    kept = list(rows)
    if not kept:
        raise ValueError("a test over no rows cannot fail")

    def decorate(check: Callable[[Row], None]) -> Callable[[], None]:
        def whole() -> None:
            bad = [f"{name(row)}: {wrong}" for row in kept if (wrong := complaint(check, row))]
            if bad:
                more = [f"... and {len(bad) - MAX_SHOWN} more"] if len(bad) > MAX_SHOWN else []
                pytest.fail("\n".join([f"{len(bad)} of {len(kept)} rows", *bad[:MAX_SHOWN], *more]), pytrace=False)

        # Not functools.wraps: pytest would look through it and ask for a fixture named as the row.
        whole.__name__, whole.__qualname__, whole.__doc__ = check.__name__, check.__qualname__, check.__doc__
        whole.__module__ = check.__module__
        return whole

    return decorate


def complaint(check: Callable[[Row], None], row: Row) -> str:
    """What is wrong with one row; empty where nothing is. Any exception counts, as it does in a test of its own."""
    try:
        check(row)
    except (Exception, pytest.fail.Exception) as wrong:
        return f"{type(wrong).__name__}: {wrong}"
    return ""
