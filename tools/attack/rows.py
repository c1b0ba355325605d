"""One row of docs/security.md: a promise, the attack that tries it, how often, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What an attack found."""

    count: int
    """Attempts made."""
    findings: tuple[str, ...]
    """What broke the promise, one short sentence each; empty where it held."""
    figures: str
    """What was measured, with units: "slowest 0.21 s, 131 MB"."""


class Row(NamedTuple):
    """One promise and the attack that tries it."""

    promise: str
    test: str
    """What is done, in a few words."""
    attack: Callable[[float], Outcome]
    """Takes the share of the full count that is asked for, above 0 and at most 1."""
