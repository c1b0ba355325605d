"""
The compiled loops run as plain Python, so that their lines can be counted (`make coverage`).

A plugin of pytest, for NUMBA_DISABLE_JIT=1. A pointer is a view of its array; compiled code reads a field of a record
as an attribute, and of an array that is so only where it says that it holds records.
"""

import os
from typing import Any

import numpy as np

from tonnage.simulation import kernel


class Row(np.record):
    """A record whose field `base` is not hidden by what numpy means by that name."""

    @property
    def base(self) -> Any:
        return self["base"]

    @base.setter
    def base(self, value: Any) -> None:
        self["base"] = value


def typed(_: int, array: Any) -> Any:
    """The same memory as a list, with fields as attributes."""
    flat = array.reshape(-1)
    return flat.view(np.dtype((Row, flat.dtype))) if flat.dtype.names else flat


def at(rows: Any, k: int) -> Any:
    """One record in place."""
    return rows[k]


def offset(rows: Any, k: int) -> Any:
    """The same list from element k on."""
    return rows[k:]


def install() -> None:
    """Put plain functions in the place of the compiled ones."""
    kernel._typed, kernel.at, kernel.offset = typed, at, offset

    from tonnage.simulation import compiled  # takes what `kernel` says now

    looped = compiled.play

    def play(world: Any, states: Any, script: Any, most: int) -> None:
        """The loop, with NumPy's warnings off: compiled code has none."""
        with np.errstate(all="ignore"):
            looped(world, states, script, most)

    compiled.play = play


# Whoever only imports this file, as a search for doctests does, leaves the compiled loops alone.
if os.environ.get("NUMBA_DISABLE_JIT") == "1":
    install()
