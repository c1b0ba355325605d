"""
How often do runs stop, how long until they go on, how long does spot capacity stay?

Published rates with their spread and source. Rates are per 8-accelerator node and day; a rack-scale node carries the
rate of as many such nodes. Spot figures are measured on traces of older parts: they give the shape, not today's level.
"""

from __future__ import annotations

from functools import cache

import msgspec

from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.errors import BadFact, UnknownName
from tonnage.record import Record


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
    return msgspec.structs.replace(
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
        Interruptions(
            cluster=row["cluster"],
            min_nodes=int(_required_number(row, "min_nodes")),
            per_node_day=_required_number(row, "per_1000_node_days") / 1000,
            low=_required_number(row, "low") / 1000,
            high=_required_number(row, "high") / 1000,
            source=row["source"],
        )
        for row in table(DATA / "failures" / "interruptions.csv")
    )


@cache
def _facts() -> dict[str, RunFact]:
    return {
        row["key"]: RunFact(
            key=row["key"],
            value=_required_number(row, "value"),
            low=_required_number(row, "low"),
            high=_required_number(row, "high"),
            unit=row["unit"],
            source=row["source"],
        )
        for row in table(DATA / "failures" / "recovery.csv")
    }


@cache
def _spot() -> tuple[SpotUptime, ...]:
    return tuple(
        SpotUptime(
            instances=int(_required_number(row, "instances")),
            mean_up_s=_required_number(row, "mean_up_h") * 3600,
            low_s=_required_number(row, "low") * 3600,
            high_s=_required_number(row, "high") * 3600,
            mean_down_s=_required_number(row, "mean_down_h") * 3600,
            availability=_required_number(row, "availability"),
            source=row["source"],
        )
        for row in table(DATA / "failures" / "spot.csv")
    )


def _required_number(row: Row, column: str) -> float:
    value = number(row, column)
    if value is None:
        raise BadFact(f"failures, {next(iter(row.values()))}: {column} is empty")
    return value
