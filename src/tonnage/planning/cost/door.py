"""The door of `tonnage cost`: text that people write becomes a `RentOrBuyRequest`.

The inputs of the machine are fields too, made from the same table that holds their defaults, so that every number of
the answer can be replaced by the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.cost import OwnedServer, RentOrBuyRequest
from tonnage.errors import BadRequest, UnknownName
from tonnage.planning.cost.inputs import INPUTS
from tonnage.planning.door import TERMS, Field, read_fields

__all__ = ["COST_FIELDS", "rent_or_buy_request"]

USUAL_SERVER: Final = "hgx-h100-8gpu"
USUAL_UTILISATION: Final = 0.7
"""The threshold of the best-known rule, so that the answer says at once on which side of it the prices lie. [-]"""
MAY_BE_NOTHING: Final = -1e-9
POSITIVE: Final = frozenset({"accelerators", "purchase", "power", "years", "electricity"})

COST_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="machine", reads="text", help="machine of the ownership table or accelerator: l40s-8gpu-pcie, H100"),
    Field(name="utilisation", reads="fraction", help="share of hours with useful work: 70 %", high=1.0),
    Field(name="country", reads="text", help="whose electricity: US, DE, US-TX"),
    Field(name="rent", reads="USD/h", help="compare with this price of an accelerator-hour only", high=1e5),
    Field(name="rent_decline", reads="fraction", help="yearly fall of rental prices", low=MAY_BE_NOTHING, high=2.0),
    Field(name="provider", reads="list", help="only these providers"),
    Field(name="rent_country", reads="list", help="only offers in these countries (two letters)"),
    Field(name="eu", reads="flag", help="only offers in the European Union"),
    Field(name="term", reads="list", help="only these terms", choices=TERMS),
    Field(name="community", reads="flag", help="include community marketplaces and brokers"),
    *(
        Field(
            name=spec.name, reads=spec.reads, help=spec.meaning, high=spec.most,
            low=0.999 if spec.name == "pue" else 0.0 if spec.name in POSITIVE else MAY_BE_NOTHING,
        )
        for spec in INPUTS
    ),
)  # fmt: skip
"""Every field of a rent-or-buy request: what to compare, then every input of the machine."""


def rent_or_buy_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> RentOrBuyRequest:
    """
    A rent-or-buy request from named texts; None and absent mean "not given".

    Raises
    ------
    BadRequest
        An unknown field, machine, country or provider, or a value of the wrong kind or out of range.
    """
    given = read_fields(values, COST_FIELDS)
    server = _server(given.get("machine", USUAL_SERVER), additions)
    own = {spec.name: float(given[spec.name]) for spec in INPUTS if spec.name in given}
    return RentOrBuyRequest(
        server=server.server,
        accelerator=server.accelerator,
        utilisation=given.get("utilisation", USUAL_UTILISATION),
        country=_country(given.get("country", "US"), own),
        given=own,
        providers=_known(
            "provider", given.get("provider", ()), {offer.provider for offer in catalog.offers(additions=additions)}
        ),
        countries=_known("country", given.get("rent_country", ()), set(catalog.countries())),
        eu=given.get("eu") or None,
        terms=given.get("term", ()),
        community=given.get("community", False),
        rent_usd_per_hour=given.get("rent"),
        rent_decline=given.get("rent_decline", 0.0),
    )


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


def _known(what: str, names: tuple[str, ...], known: set[str]) -> tuple[str, ...]:
    folded = {item.lower(): item for item in known}
    for name in names:
        if name.lower() not in folded:
            raise UnknownName(what, name, known=known)
    return tuple(folded[name.lower()] for name in names)
