"""`tonnage cost`: renting against owning, with every number of owning open to change."""

from __future__ import annotations

from typing import Any

import click

from tonnage.cli import remark_date
from tonnage.cli.options import (
    Grouped,
    json_option,
    output_of,
    own_facts,
    own_facts_options,
    plot_option,
    request_options,
    show_options,
    show_progress,
    today_option,
)
from tonnage.domain.cost import RentOrBuyRequest


@click.group()
def cost() -> None:
    """What it costs to rent, and what it costs to own."""


@cost.command("rent-or-buy", cls=Grouped)
@click.argument("machine", required=False)
@request_options(RentOrBuyRequest, argument="machine")
@click.option("--file", "path", metavar="REQUEST.yaml", help="read the fields from a file; flags win over it")
@own_facts_options
@today_option
@show_options("prices")
@plot_option
@json_option()
def _rent_or_buy(path: str | None, **fields: Any) -> None:
    """
    Own MACHINE, or rent the same accelerators? Every default of owning is a flag.

    \b
    tonnage cost rent-or-buy H100 --utilisation '60 %'
    tonnage cost rent-or-buy l40s-8gpu-pcie --country DE --electricity '$0.24/kWh'
    tonnage cost rent-or-buy H200 --purchase '$310000' --rent '$2.60/h'
    """
    from tonnage.core.files import read_mapping
    from tonnage.questions.cost.inputs import rent_or_buy_request
    from tonnage.questions.cost.rent_or_buy import rent_or_buy

    output, additions, today = output_of(fields), own_facts(fields), fields.pop("today")
    if path is None and str(fields.get("machine")).endswith((".yaml", ".yml")):
        path = fields.pop("machine")
    told = read_mapping(path) if path is not None else {}
    remark_date(today, additions)
    told.pop("cost", None)
    given = {**told, **{name: value for name, value in fields.items() if value is not None}}
    request = rent_or_buy_request(given, additions=additions)
    with show_progress("pricing: offers, machines to own"):
        answer = rent_or_buy(request, additions=additions, today=today)
    output.show(answer)
