"""
The compiled loops run as plain Python, so that their lines can be counted (`make coverage`).

A plugin of pytest, for NUMBA_DISABLE_JIT=1. Compiled code reads a field of a record as an attribute; of an array
that is so only where it says that it holds records.
"""

from typing import Any

import numpy as np

from tonnage.engine import compiled

_play = compiled.play


class Row(np.record):
    """A record whose field `base` is not hidden by what numpy means by that name."""

    @property
    def base(self) -> Any:
        return self["base"]

    @base.setter
    def base(self, value: Any) -> None:
        self["base"] = value


def _records(value: Any) -> Any:
    """The same memory, with fields as attributes."""
    if isinstance(value, np.ndarray):
        return value.view(np.dtype((Row, value.dtype))) if value.dtype.names else value
    if isinstance(value, np.void):
        return _records(value.base)[0]
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(_records(part) for part in value)
    return value


def play(world: Any, states: Any, script: Any, most: int) -> None:
    """The loop over views of what it is given; what it writes is written there."""
    with np.errstate(all="ignore"):
        _play(_records(world), _records(states), _records(script), most)


compiled.play = play
