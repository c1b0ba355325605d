"""
What a request says of a machine, and which row of the ownership table gives each number that it leaves open.

The inputs of the machine are fields too, so that every number of the answer can be replaced by the user's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.failures import run_fact
from tonnage.core.host import machine_power
from tonnage.core.reading import build, read_fields
from tonnage.domain.cost import Input, OwnedMachine, OwnedServer, RentOrBuyRequest
from tonnage.domain.money import OwnedParameter
from tonnage.domain.requests.field import fields_of
from tonnage.errors import BadRequest, UnknownName, echo

COUNTED: Final = re.compile(r"\s*(\d{1,6})\s*[x×]\s*(\S.*)", re.IGNORECASE)
USUAL_SERVER: Final = "hgx-h100-8gpu"


def rent_or_buy_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> RentOrBuyRequest:
    """
    A rent-or-buy request from named texts; None and absent mean "not given".

    Raises
    ------
    BadRequest
        An unknown field, machine, country or provider, or a value of the wrong kind or out of range.
    """
    given = read_fields(values, RentOrBuyRequest)
    server = _server(given.get("machine", USUAL_SERVER), additions)
    own = {name: float(given[name]) for name in OwnedMachine.__struct_fields__ if name in given}
    request = build(
        RentOrBuyRequest,
        given,
        additions=additions,
        server=server.server,
        accelerator=server.accelerator,
        given=own,
    )
    return msgspec.structs.replace(request, country=_country(request.country, own))


def _server(name: str, additions: Additions) -> OwnedServer:
    """
    The machine of that name; else the usual machine of the accelerator of that name ("H100", or "8 x H100" where it
    holds eight), or one of a single accelerator without a price; refuses other names.
    """
    servers = catalog.servers()
    if name in servers:
        return servers[name]
    counted = COUNTED.fullmatch(catalog.in_digits(name))
    try:
        part = catalog.accelerator(counted[2] if counted else name, additions).id
    except UnknownName:
        every = {*servers, *catalog.accelerators(additions)}
        raise UnknownName("machine", name, known=every) from None
    usual = next((server for server in servers.values() if server.accelerator == part), None)
    machine = usual or OwnedServer(server="", accelerator=part, count=1)
    if counted and int(counted[1]) != machine.count:
        raise BadRequest(
            f"machine: '{echo(name)}' is not in the ownership table, which has {machine.count} of them in a machine; "
            f"name '{counted[2]}' alone and state what differs: accelerators, purchase, power"
        )
    return machine


def _country(name: str, own: Mapping[str, float]) -> str:
    """
    The country in upper case; refuses one whose tariff is not known, unless the price of power is given. One with a
    household tariff alone passes.
    """
    wanted = catalog.country_code(name).upper()
    known = {key for group, key in catalog.tco() if group in {"electricity_default", "electricity_household"}}
    if wanted not in known.union(catalog.countries()):
        raise UnknownName("country", name, known=known.union(catalog.countries()))
    if wanted not in known and "electricity" not in own:
        raise BadRequest(f"country: no tariff is known for {wanted}; give --electricity '$0.15/kWh' with it")
    return wanted


FTE_HOURS: Final = 2080.0
"""Of a full-time year: 52 weeks of 40 hours. [h/year]"""
NODE: Final = 8
"""Accelerators of the nodes that one administrator's figure counts. [accelerators]"""

Band = tuple[float, float | None, float | None, str, str, str]
"""Value, low, high, source, confidence, date."""


def inputs_of(request: RentOrBuyRequest, server: OwnedServer) -> tuple[Input, ...]:
    """Every input with its band and source; what the request gives stands without a band."""
    usual = _usual_inputs(server, request.country)
    found = []
    for spec in fields_of(OwnedMachine):
        own = request.given.get(spec.name)
        band = usual[spec.name]() if own is None else (own, None, None, "the request", "yours", "")
        value, low, high, source, confidence, as_of = band
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


def _usual_inputs(server: OwnedServer, country: str) -> dict[str, Callable[[], Band]]:
    """
    What gives each number of an `OwnedMachine` that the request leaves open, by name; called only for those, for some
    refuse.
    """
    office = server.place == "office"
    return {
        "accelerators": lambda: (float(server.count), None, None, "the machine", "high", ""),
        "purchase": lambda: _purchase(server),
        "power": lambda: _power(server),
        "years": lambda: _parameter("depreciation", "useful_life_years"),
        "load": lambda: _parameter("server_power", "typical_load_factor"),
        "idle": lambda: _parameter("server_power", "idle_share_of_max"),
        "pue": lambda: _parameter("pue", "office_workstation" if office else "air_cooled"),
        "electricity": lambda: _electricity(country, office=office),
        "hosting": lambda: _zero("stands in an office: no rent counted") if office else _hosting(country),
        "network": lambda: (
            _parameter("networking", server.network) if server.network else _zero("no fabric beyond the machine's own")
        ),
        "storage": lambda: _zero("none counted; give it where renting would include it"),
        "staff": lambda: _staff(server, office=office),
        "spares": lambda: _parameter("failure", "spares_share_of_capex"),
        "support": lambda: (
            _zero("no support contract for a workstation")
            if office
            else _parameter("support", "vendor_support_share_of_capex_year")
        ),
        "insurance": lambda: _parameter("finance", "insurance_share_year"),
        "interest": lambda: _parameter("finance", "interest_rate_year"),
        "resale_3y": lambda: _parameter("depreciation", server.resale),
        "interruptions": _interruptions,
        "repair": _repair,
    }


def machine_of(inputs: tuple[Input, ...]) -> OwnedMachine:
    """The machine these inputs describe."""
    return OwnedMachine(**{given.name: given.value for given in inputs})


def _row(found: OwnedParameter) -> Band:
    """A row of the ownership table as a band."""
    source = f"{found.group}/{found.key}: {found.source}"
    return found.value, found.low, found.high, source, found.confidence, found.as_of


def _parameter(group: str, key: str) -> Band:
    return _row(catalog.parameter(group, key))


def _zero(why: str) -> Band:
    """An input that is 0 for this machine, and why."""
    return 0.0, None, None, why, "high", ""


def _purchase(server: OwnedServer) -> Band:
    """Price of the machine; refuses one without a row. [USD]"""
    if not server.server:
        raise BadRequest(
            f"purchase: no price of a machine with {server.accelerator} in the ownership table; "
            f"give --purchase '$250000' and --accelerators 8"
        )
    return _parameter("server_price", server.server)


def _power(server: OwnedServer) -> Band:
    """The machine's largest draw, by its row or derived from its accelerators. [W]"""
    if server.power:
        return _parameter("server_power_max", server.power)
    derived = machine_power(catalog.accelerator(server.accelerator), count=server.count)
    return derived.watts, derived.low, derived.high, derived.source, "low", ""


def _electricity(country: str, *, office: bool) -> Band:
    """
    Price of power: a household's in an office where that is known (converted from EUR), else the default tariff;
    refuses a country without. [USD/kWh]
    """
    listed = catalog.tco()
    household = listed.get(("electricity_household", country))
    if office and household is not None:
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


def _hosting(country: str) -> Band:
    """Colocation: the mean price of a continent, with the band of small contracts. [USD/kW and month]"""
    key = "usd_per_kw_month_na_250_500kw" if country[:2] in {"US", "CA"} else "usd_per_kw_month_global"
    value, _, _, source, confidence, as_of = _parameter("colocation", key)
    band = catalog.parameter("colocation", "usd_per_kw_month_small_range")
    return value, band.low, band.high, f"{source}; band of {band.source}", confidence, as_of


def _staff(server: OwnedServer, *, office: bool) -> Band:
    """
    Administration of the machine for a year: some hours of a workstation, or a share of a full-time wage by servers.
    [USD/year]
    """
    wage = catalog.parameter("staff", "admin_fte_year")
    if office:
        hours = catalog.parameter("staff", "small_workstation_hours_month")
        value = hours.value * 12 / FTE_HOURS * wage.value
        low, high = _product_band(value, (hours, 1.0), (wage, 1.0))
        text = f"staff/{hours.key} x 12 / {FTE_HOURS:.0f} h x staff/{wage.key}: {hours.source}"
        return value, low, high, text, "low", wage.as_of
    served = catalog.parameter("staff", "servers_per_admin_fte")
    value = wage.value / served.value * max(1.0, server.count / NODE)
    low, high = _product_band(value, (wage, 1.0), (served, -1.0))
    return value, low, high, f"staff/{wage.key} / staff/{served.key}: {wage.source}", "low", wage.as_of


def _interruptions() -> Band:
    """Interruptions of all causes; the low end counts hardware faults of accelerators alone."""
    value, _, _, source, confidence, as_of = _parameter("failure", "interruptions_all_causes_meta")
    hardware = catalog.parameter("failure", "gpu_annual_failure_h100_meta")
    return value, hardware.value, None, f"{source}; low: GPU and memory faults alone", confidence, as_of


def _repair() -> Band:
    fact = run_fact("repair")
    return fact.value, fact.low, fact.high, fact.source, "low", ""


def _product_band(value: float, *factors: tuple[OwnedParameter, float]) -> tuple[float, float]:
    """
    The low and high end of a product of rows, each to its power (1 or -1), in the unit of `value`: their ratios to the
    middle, added in squares as logarithms.
    """
    down = up = 0.0
    for row, power in factors:
        low, high = math.log((row.low or row.value) / row.value), math.log((row.high or row.value) / row.value)
        down += (low if power > 0 else high) ** 2
        up += (high if power > 0 else low) ** 2
    return value * math.exp(-math.sqrt(down)), value * math.exp(math.sqrt(up))
