"""
How often do runs stop, how long until they go on, how long does spot capacity stay?

Published rates with their spread and source. Rates are per 8-accelerator node and day; a rack-scale node carries the
rate of as many such nodes. Spot figures are measured on traces of older parts: they give the shape, not today's level.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from msgspec.structs import replace

from tonnage.catalog.rows import DATA, read_rows
from tonnage.errors import UnknownName
from tonnage.record import Record

_FOLDER: Final = DATA / "failures"
_HOURS: Final = {"mean_up_s": "mean_up_h", "low_s": "low", "high_s": "high", "mean_down_s": "mean_down_h"}


class Interruptions(Record, kw_only=True):
    """Job-stopping interruptions of one kind of cluster; `low` and `high` bound 90 % of clusters."""

    cluster: str
    min_nodes: int
    """Smallest job that the rate describes. [nodes]"""
    per_node_day: float
    """Of a node of eight. [1/d]"""
    low: float
    high: float
    source: str


class RunFact(Record, kw_only=True):
    """One figure about running: its value, the band published runs lie in, unit and source."""

    key: str
    value: float
    low: float
    high: float
    unit: str
    source: str


class SpotUptime(Record, kw_only=True):
    """How long this many spot instances stay up together, and how long until they are up again."""

    instances: int
    mean_up_s: float
    low_s: float
    high_s: float
    mean_down_s: float
    availability: float
    """Share of time at the full count. [-]"""
    source: str


def interruptions(*, nodes: float) -> Interruptions:
    """Rate of a job of that many nodes: flagship clusters are burned in, smaller jobs see more failures per node."""
    return max((row for row in _interruptions() if row.min_nodes <= nodes), key=lambda row: row.min_nodes)


def run_fact(key: str) -> RunFact:
    """
    One figure by key.

    Raises
    ------
    UnknownName
        No such figure.

    Examples
    --------
    >>> run_fact("state_per_parameter").value
    14.0
    """
    known = _facts()
    if key not in known:
        raise UnknownName("figure of running", key, known=known)
    return known[key]


def spot_uptime(*, instances: int) -> SpotUptime:
    """
    Up-time of that many instances held together.

    Between measured counts the next larger one is taken. Beyond the largest nothing is known of how losses come
    together, so they count as independent.
    """
    rows = _spot()
    for row in rows:
        if instances <= row.instances:
            return row
    last = rows[-1]
    factor = last.instances / instances
    return replace(
        last,
        instances=instances,
        mean_up_s=last.mean_up_s * factor,
        low_s=last.low_s * factor,
        high_s=last.high_s * factor,
        availability=last.availability * factor,
    )


@cache
def _interruptions() -> tuple[Interruptions, ...]:
    return tuple(
        replace(row, per_node_day=row.per_node_day / 1000, low=row.low / 1000, high=row.high / 1000)
        for row in read_rows(_FOLDER / "interruptions.csv", Interruptions, per_node_day=("per_1000_node_days", 1.0))
    )


@cache
def _facts() -> dict[str, RunFact]:
    return {fact.key: fact for fact in read_rows(_FOLDER / "recovery.csv", RunFact)}


@cache
def _spot() -> tuple[SpotUptime, ...]:
    hours = {name: (column, 3600.0) for name, column in _HOURS.items()}
    return read_rows(_FOLDER / "spot.csv", SpotUptime, **hours)
