"""What does a provider charge for bytes that lie in its object storage? Few publish it where it can be read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec

from tonnage.catalog.rows import DATA, number, table
from tonnage.errors import BadFact

__all__ = ["StoragePrice", "storage_prices"]

FILE: Final = DATA / "providers" / "storage.csv"


class StoragePrice(msgspec.Struct, frozen=True, kw_only=True):
    """The list price of the tier that a running job reads and writes."""

    provider: str
    usd_per_gb_month: float
    tier: str
    source: str
    checked: str


@cache
def storage_prices() -> Mapping[str, StoragePrice]:
    """Prices by provider, of those that publish one."""
    return MappingProxyType({row["provider"]: _from_row(row) for row in table(FILE)})


def _from_row(row: dict[str, str]) -> StoragePrice:
    price = number(row, "usd_per_gb_month")
    if price is None or price <= 0:
        raise BadFact(f"{FILE.name}: {row['provider']} has no price; leave its row out")
    return StoragePrice(
        provider=row["provider"], usd_per_gb_month=price, tier=row["tier"], source=row["source"], checked=row["checked"]
    )
