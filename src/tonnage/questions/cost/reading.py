"""`tonnage cost rent-or-buy`: what people write becomes a `RentOrBuyRequest`.

The inputs of the machine are fields too, so that every number of the answer can be replaced by the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.reading import build, read_fields
from tonnage.domain.cost import OwnedServer
from tonnage.domain.requests.cost import OwnedMachine, RentOrBuyRequest
from tonnage.errors import BadRequest, UnknownName

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
    """The machine of that name; else the usual machine of the accelerator of that name, or one without a price."""
    servers = catalog.servers()
    if name in servers:
        return servers[name]
    try:
        part = catalog.accelerator(name, additions).id
    except UnknownName:
        every = {*servers, *catalog.accelerators(additions)}
        raise UnknownName("machine", name, known=every) from None
    usual = next((server for server in servers.values() if server.accelerator == part), None)
    return usual or OwnedServer(server="", accelerator=part, count=1)


def _country(name: str, own: Mapping[str, float]) -> str:
    wanted = name.strip().upper()
    tariffs = {key for group, key in catalog.tco() if group in {"electricity_default", "electricity_household"}} | set(
        catalog.countries()
    )
    if wanted not in tariffs:
        raise UnknownName("country", name, known=tariffs)
    if ("electricity_default", wanted) not in catalog.tco() and "electricity" not in own:
        household = ("electricity_household", wanted) in catalog.tco()
        hint = "only a household tariff is" if household else "no tariff is"
        if not household:
            raise BadRequest(f"country: {hint} known for {wanted}; give --electricity '$0.15/kWh' with it")
    return wanted
