"""
Sweeps are sampled in the suite and run whole by targets of their own: `make laws`, `make export-matrix`.

A law over thousands of plans, or a matrix of every target against every hostile name, finds little more in its last
nine tenths than in its first, and costs ten times as much. The suite takes a sample that is the same on every machine
and in every process; TONNAGE_SWEEPS=full, which those targets set, takes all.
"""

import os

FULL = os.environ.get("TONNAGE_SWEEPS") == "full"


def examples(few: int, *, full: int) -> int:
    """How many examples a law is tried on: `few` in the suite, `full` in a sweep."""
    return full if FULL else few
