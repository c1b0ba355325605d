"""Which row of the ownership table gives each number of a machine, and what a request puts in its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tonnage import catalog
from tonnage.catalog.failures import run_fact
from tonnage.domain.cost import Input, OwnedMachine, OwnedServer, RentOrBuyRequest
from tonnage.domain.money import OwnedParameter
from tonnage.domain.requests.field import fields_of
from tonnage.errors import BadRequest
from tonnage.planning.host import machine_power

__all__ = ["DEFAULTS", "inputs_of", "machine_of"]

FTE_HOURS: Final = 2080.0
"""Of a full-time year: 52 weeks of 40 hours. [h/year]"""
NODE: Final = 8
"""Accelerators of the nodes that one administrator's figure counts. [accelerators]"""

Band = tuple[float, float | None, float | None, str, str, str]
"""Value, low, high, source, confidence, date."""


def inputs_of(request: RentOrBuyRequest, server: OwnedServer) -> tuple[Input, ...]:
    """Every input with its band and source; what the request gives stands without a band."""
    found = []
    for spec in fields_of(OwnedMachine):
        if spec.name in request.given:
            value, low, high, source, confidence, as_of = (
                request.given[spec.name],
                None,
                None,
                "the request",
                "yours",
                "",
            )
        else:
            value, low, high, source, confidence, as_of = DEFAULTS[spec.name](server, request.country)
        found.append(
            Input(
                name=spec.name,
                value=value,
                unit=spec.reads,
                meaning=spec.help,
                source=source,
                low=low,
                high=high,
                confidence=confidence,
                as_of=as_of,
            )
        )
    return tuple(found)


def machine_of(inputs: tuple[Input, ...]) -> OwnedMachine:
    """The machine these inputs describe."""
    return OwnedMachine(**{given.name: given.value for given in inputs})


def _row(found: OwnedParameter) -> Band:
    source = f"{found.group}/{found.key}: {found.source}"
    return found.value, found.low, found.high, source, found.confidence, found.as_of


def _parameter(group: str, key: str) -> Callable[[OwnedServer, str], Band]:
    return lambda server, country: _row(catalog.parameter(group, key))


def _nothing(why: str) -> Band:
    return 0.0, None, None, why, "high", ""


def _is_office(server: OwnedServer) -> bool:
    return server.place == "office"


def _purchase(server: OwnedServer, country: str) -> Band:
    if not server.server:
        raise BadRequest(
            f"purchase: no price of a machine with {server.accelerator} in the ownership table; "
            f"give --purchase '$250000' and --accelerators 8"
        )
    return _row(catalog.parameter("server_price", server.server))


def _power(server: OwnedServer, country: str) -> Band:
    if server.power:
        return _row(catalog.parameter("server_power_max", server.power))
    derived = machine_power(catalog.accelerator(server.accelerator), count=server.count)
    return derived.watts, derived.low, derived.high, derived.source, "low", ""


def _pue(server: OwnedServer, country: str) -> Band:
    return _row(catalog.parameter("pue", "office_workstation" if _is_office(server) else "air_cooled"))


def _electricity(server: OwnedServer, country: str) -> Band:
    listed = catalog.tco()
    household = listed.get(("electricity_household", country))
    if _is_office(server) and household is not None:
        euro = catalog.parameter("fx", "usd_per_eur")
        value, _, _, source, confidence, as_of = _row(household)
        low, high = value * (euro.low or euro.value), value * (euro.high or euro.value)
        return value * euro.value, low, high, f"{source}, at {euro.value:g} USD/EUR", confidence, as_of
    tariff = listed.get(("electricity_default", country))
    if tariff is None:
        raise BadRequest(
            f"electricity: no tariff for {country} in the ownership table; give --electricity '$0.15/kWh' or another "
            f"--country"
        )
    return _row(tariff)


def _hosting(server: OwnedServer, country: str) -> Band:
    if _is_office(server):
        return _nothing("stands in an office: no rent counted")
    key = "usd_per_kw_month_na_250_500kw" if country[:2] in {"US", "CA"} else "usd_per_kw_month_global"
    value, _, _, source, confidence, as_of = _row(catalog.parameter("colocation", key))
    band = catalog.parameter("colocation", "usd_per_kw_month_small_range")
    return value, band.low, band.high, f"{source}; band of {band.source}", confidence, as_of


def _network(server: OwnedServer, country: str) -> Band:
    if not server.network:
        return _nothing("no fabric beyond the machine's own")
    return _row(catalog.parameter("networking", server.network))


def _staff(server: OwnedServer, country: str) -> Band:
    wage = catalog.parameter("staff", "admin_fte_year")
    if _is_office(server):
        hours = catalog.parameter("staff", "small_workstation_hours_month")
        value = hours.value * 12 / FTE_HOURS * wage.value
        low, high = _both(value, (hours, 1.0), (wage, 1.0))
        text = f"staff/{hours.key} x 12 / {FTE_HOURS:.0f} h x staff/{wage.key}: {hours.source}"
        return value, low, high, text, "low", wage.as_of
    served = catalog.parameter("staff", "servers_per_admin_fte")
    value = wage.value / served.value * max(1.0, server.count / NODE)
    low, high = _both(value, (wage, 1.0), (served, -1.0))
    return value, low, high, f"staff/{wage.key} / staff/{served.key}: {wage.source}", "low", wage.as_of


def _support(server: OwnedServer, country: str) -> Band:
    if _is_office(server):
        return _nothing("no support contract for a workstation")
    return _row(catalog.parameter("support", "vendor_support_share_of_capex_year"))


def _resale(server: OwnedServer, country: str) -> Band:
    return _row(catalog.parameter("depreciation", server.resale))


def _interruptions(server: OwnedServer, country: str) -> Band:
    value, _, _, source, confidence, as_of = _row(catalog.parameter("failure", "interruptions_all_causes_meta"))
    hardware = catalog.parameter("failure", "gpu_annual_failure_h100_meta")
    return value, hardware.value, None, f"{source}; low: GPU and memory faults alone", confidence, as_of


def _repair(server: OwnedServer, country: str) -> Band:
    fact = run_fact("repair")
    return fact.value, fact.low, fact.high, fact.source, "low", ""


def _both(value: float, *factors: tuple[OwnedParameter, float]) -> tuple[float, float]:
    """The band of a product of rows: their ratios to the middle, added in squares as logarithms."""
    down = up = 0.0
    for row, power in factors:
        low, high = math.log((row.low or row.value) / row.value), math.log((row.high or row.value) / row.value)
        down += (low if power > 0 else high) ** 2
        up += (high if power > 0 else low) ** 2
    return value * math.exp(-math.sqrt(down)), value * math.exp(math.sqrt(up))


DEFAULTS: Final[dict[str, Callable[[OwnedServer, str], Band]]] = {
    "accelerators": lambda server, country: (float(server.count), None, None, "the machine", "high", ""),
    "purchase": _purchase,
    "power": _power,
    "years": _parameter("depreciation", "useful_life_years"),
    "load": _parameter("server_power", "typical_load_factor"),
    "idle": _parameter("server_power", "idle_share_of_max"),
    "pue": _pue,
    "electricity": _electricity,
    "hosting": _hosting,
    "network": _network,
    "storage": lambda server, country: _nothing("none counted; give it where renting would include it"),
    "staff": _staff,
    "spares": _parameter("failure", "spares_share_of_capex"),
    "support": _support,
    "insurance": _parameter("finance", "insurance_share_year"),
    "interest": _parameter("finance", "interest_rate_year"),
    "resale_3y": _resale,
    "interruptions": _interruptions,
    "repair": _repair,
}
"""Where each number of an `OwnedMachine` comes from, for a server and a country."""
