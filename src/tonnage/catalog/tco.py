"""
What does owning cost? Prices of servers, power, colocation, staff, interest, depreciation, failures.

Each parameter has a band, a date and a confidence. Rows of confidence "claim" are figures of popular articles,
kept to be tested and never used as defaults; "low" ones are planning defaults that the user should replace.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from tonnage.catalog.rows import DATA, Row, number, read_rows, table
from tonnage.domain.cost import OwnedServer
from tonnage.domain.money import OwnedParameter
from tonnage.errors import BadFact, UnknownName

_BASE: Final = {"kW": ("W", 1e3), "MWh": ("Wh", 1e6)}
"""Units of the table that become base units; tariffs and rents stay as they are quoted (USD/kWh, USD/kW-month)."""


@cache
def tco() -> Mapping[tuple[str, str], OwnedParameter]:
    """Every parameter by (group, key)."""
    return MappingProxyType({(row["group"], row["key"]): _from_row(row) for row in table(DATA / "tco" / "tco.csv")})


@cache
def servers() -> Mapping[str, OwnedServer]:
    """Every machine that can be bought, and which parameters describe it; the usual one of an accelerator first."""
    return MappingProxyType({one.server: one for one in read_rows(DATA / "tco" / "servers.csv", OwnedServer)})


def parameter(group: str, key: str) -> OwnedParameter:
    """
    One parameter of owning.

    Raises
    ------
    UnknownName
        No such parameter; suggests the nearest of the group.

    Examples
    --------
    >>> found = parameter("server_power_max", "dgx-h100-8gpu")
    >>> found.value, found.unit
    (10200.0, 'W')
    """
    found = tco().get((group, key))
    if found is None:
        groups = {known for known, _ in tco()}
        if group not in groups:
            raise UnknownName("group of ownership parameters", group, known=groups)
        raise UnknownName(group, key, known=[known for of, known in tco() if of == group])
    return found


def _from_row(row: Row) -> OwnedParameter:
    unit, factor = _BASE.get(row["unit"], (row["unit"], 1.0))
    value = number(row, "value", factor=factor)
    if value is None:
        raise BadFact(f"{row['group']} {row['key']}: value is empty")
    return OwnedParameter(
        group=row["group"],
        key=row["key"],
        value=value,
        low=number(row, "low", factor=factor),
        high=number(row, "high", factor=factor),
        unit=unit,
        as_of=row["as_of"],
        confidence=row["confidence"],
        source=row["source"],
        notes=row["notes"],
    )
