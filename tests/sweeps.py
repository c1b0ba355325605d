"""
Sweeps are sampled in the suite and run whole by targets of their own: `make laws`, `make export-matrix`.

A law over thousands of plans, or a matrix of every target against every hostile name, finds little more in its last
nine tenths than in its first, and costs ten times as much. The suite takes a sample that is the same on every machine
and in every process; TONNAGE_SWEEPS=full, which those targets set, takes all.
"""

import os
import random
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

FULL = os.environ.get("TONNAGE_SWEEPS") == "full"


def examples(few: int, *, full: int) -> int:
    """How many examples a law is tried on: `few` in the suite, `full` in a sweep."""
    return full if FULL else few


def sample(cases: Iterable[Case], few: int) -> list[Case]:
    """At most `few` of the cases, drawn with a fixed seed and in their own order; all of them in a sweep."""
    every = list(cases)
    if FULL or len(every) <= few:
        return every
    return [every[k] for k in sorted(random.Random(0).sample(range(len(every)), few))]
