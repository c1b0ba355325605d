"""
How far off may a prediction be? The 90 % factor of each kind of estimate, read from fitted tables.

`factor("serve", "tpot_s", rung="calibrated")` is the number f >= 1 for which measurements of such cases lie
between value / f and value x f nine times in ten. One CSV per kind of case (serve, train, infer) lists them by
quantity and rung; they are fitted by `calibration/intervals.py`, which scores whole groups left out in turn.
A rung is whatever the predictor says its number rests on: a basis (measured, calibrated, derived, assumed) or a step
of the efficiency ladder (own, kin, generic), and behind colons, as far as they are known, the load, the structure of
the model and the software ("calibrated:steady:dense:vllm"; `planner.levels`). What has no row drops its last word until
it has (`light` and `crowded` loads then try `steady`); at last it takes the row `any`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from tonnage.errors import BadFact, UnknownName

__all__ = ["KINDS", "factor", "factor_of", "table"]

KINDS: Final = ("serve", "train", "infer")

_STEADY: Final = frozenset({"light", "crowded"})
"""Loads that, without a row of their own, are as sure as `steady` ones."""
_BASIS_OF_RUNG: Final = {"own": "calibrated", "kin": "derived", "generation": "derived", "generic": "assumed"}


def factor(kind: str, quantity: str, *, rung: str = "any") -> float:
    """
    The 90 % factor of one quantity: the interval is value / factor to value x factor.

    Parameters
    ----------
    kind : str
        Kind of case: serve, train, infer.
    quantity : str
        Name in the result noun: ttft_s, tpot_s, e2e_s, output_tokens_per_s, kv_cache_tokens, memory, step_s,
        memory_peak_bytes, samples_per_s, latency_s.
    rung : str
        What the number rests on; one without its own row takes the row `any`.

    Returns
    -------
    float
        At least 1. [-]

    Raises
    ------
    UnknownName
        No such kind, or no factor for that quantity.

    Examples
    --------
    >>> factor("serve", "tpot_s", rung="calibrated") >= 1
    True
    """
    if kind not in KINDS:
        raise UnknownName("kind of case", kind, known=KINDS)
    return factor_of(table(kind), quantity, rung=rung)


def factor_of(rows: Mapping[tuple[str, str], float], quantity: str, *, rung: str = "any") -> float:
    """
    The factor of one quantity in a table of factors by quantity and rung.

    Raises
    ------
    UnknownName
        No factor for that quantity.

    Examples
    --------
    >>> factor_of({("tpot_s", "any"): 2.0, ("tpot_s", "assumed"): 3.0}, "tpot_s", rung="assumed:steady")
    3.0
    """
    step, *words = rung.split(":")
    basis = _BASIS_OF_RUNG.get(step, step)
    loads = [words, ["steady", *words[1:]]] if words and words[0] in _STEADY else [words]
    levels = [":".join((basis, *of[:kept])) for of in loads for kept in range(len(of), 0, -1)]
    for name in (*levels, basis):
        if (quantity, name) in rows:
            return rows[quantity, name]
    if (quantity, "any") in rows:
        return rows[quantity, "any"]
    raise UnknownName("interval", quantity, known={known for known, _ in rows})


@cache
def table(kind: str) -> Mapping[tuple[str, str], float]:
    """Every factor of one kind of case, by quantity and rung."""
    source = files("tonnage.catalog") / "data" / "intervals" / f"{kind}.csv"
    lines = source.read_text(encoding="utf-8").splitlines()
    rows = {(row["quantity"], row["rung"]): float(row["factor"]) for row in csv.DictReader(lines)}
    small = [key for key, value in rows.items() if not 1 <= value < 1000]
    if small:
        raise BadFact(f"intervals/{kind}.csv: the factor of {small[0]} must be at least 1")
    return rows
