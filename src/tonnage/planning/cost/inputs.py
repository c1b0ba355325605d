"""Which row of the ownership table gives each number of a machine, and what a request puts in its place.

One table: name, dimension, meaning, and where its default comes from. Command-line flags, files and the answer's own
list of inputs are made from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog.failures import run_fact
from tonnage.domain.cost import Input, OwnedMachine, OwnedServer, RentOrBuyRequest
from tonnage.domain.money import OwnedParameter
from tonnage.errors import BadRequest
from tonnage.planning.energy import machine_power

__all__ = ["INPUTS", "InputSpec", "inputs_of", "machine_of"]

FTE_HOURS: Final = 2080.0
"""Of a full-time year: 52 weeks of 40 hours. [h/year]"""
NODE: Final = 8
"""Accelerators of the nodes that one administrator's figure counts. [accelerators]"""

Band = tuple[float, float | None, float | None, str, str, str]
"""Value, low, high, source, confidence, date."""


class InputSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One input: how its text is read, what it means, its default for a server and a country."""

    name: str
    reads: str
    meaning: str
    default: Callable[[OwnedServer, str], Band]
    most: float = math.inf


def inputs_of(request: RentOrBuyRequest, server: OwnedServer) -> tuple[Input, ...]:
    """Every input with its band and source; what the request gives stands without a band."""
    found = []
    for spec in INPUTS:
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
            value, low, high, source, confidence, as_of = spec.default(server, request.country)
        found.append(
            Input(
                name=spec.name, value=value, unit=spec.reads, meaning=spec.meaning, source=source, low=low, high=high,
                confidence=confidence, as_of=as_of,
            )
        )  # fmt: skip
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


INPUTS: Final[tuple[InputSpec, ...]] = (
    InputSpec(name="accelerators", reads="count", meaning="accelerators of the machine", most=1e5,
              default=lambda server, country: (float(server.count), None, None, "the machine", "high", "")),
    InputSpec(name="purchase", reads="USD", meaning="price of the machine without VAT", default=_purchase, most=1e10),
    InputSpec(name="power", reads="W", meaning="the most it draws at the plug", default=_power, most=1e9),
    InputSpec(name="years", reads="years", meaning="it is kept", most=20.0,
              default=_parameter("depreciation", "useful_life_years")),
    InputSpec(name="load", reads="fraction", meaning="share of that power while it works", most=1.0,
              default=_parameter("server_power", "typical_load_factor")),
    InputSpec(name="idle", reads="fraction", meaning="share of that power while it waits", most=1.0,
              default=_parameter("server_power", "idle_share_of_max")),
    InputSpec(name="pue", reads="count", meaning="power of the building over power of its machines", default=_pue,
              most=5.0),
    InputSpec(name="electricity", reads="USD/kWh", meaning="tariff", default=_electricity, most=10.0),
    InputSpec(name="hosting", reads="USD/kW-month", meaning="rent of the room by contracted power", default=_hosting,
              most=1e5),
    InputSpec(name="network", reads="USD", meaning="its share of switches, adapters, cables", default=_network,
              most=1e9),
    InputSpec(name="storage", reads="USD", meaning="storage bought beside it", most=1e9,
              default=lambda server, country: _nothing("none counted; give it where renting would include it")),
    InputSpec(name="staff", reads="USD/year", meaning="people who run it", default=_staff, most=1e9),
    InputSpec(name="spares", reads="fraction", meaning="spare parts, share of the purchase", most=1.0,
              default=_parameter("failure", "spares_share_of_capex")),
    InputSpec(name="support", reads="fraction", meaning="vendor's support a year, share of the purchase",
              default=_support, most=1.0),
    InputSpec(name="insurance", reads="fraction", meaning="insurance a year, share of the purchase", most=1.0,
              default=_parameter("finance", "insurance_share_year")),
    InputSpec(name="interest", reads="fraction", meaning="interest a year", most=1.0,
              default=_parameter("finance", "interest_rate_year")),
    InputSpec(name="resale_3y", reads="fraction", meaning="share of the purchase it sells for after three years",
              default=_resale, most=1.0),
    InputSpec(name="interruptions", reads="count", meaning="stops a year of one accelerator", most=1e3,
              default=_interruptions),
    InputSpec(name="repair", reads="s", meaning="from a stop until it works again", default=_repair, most=3e7),
)  # fmt: skip
"""Every input, in the order of `OwnedMachine`."""
