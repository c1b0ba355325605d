"""`tonnage cost`: renting against owning, with every number of owning open to change."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from tonnage.cli import remark_date
from tonnage.cli.options import Grouped, own_facts, own_facts_options, request_options, show_options, show_progress
from tonnage.domain.requests.cost import RentOrBuyRequest

__all__ = ["cost"]

INFEASIBLE = 3


@click.group()
def cost() -> None:
    """What it costs to rent, and what it costs to own."""


@cost.command("rent-or-buy", cls=Grouped)
@click.argument("machine", required=False)
@request_options(RentOrBuyRequest, argument="machine")
@click.option("--file", "path", metavar="REQUEST.yaml", help="read the fields from a file; flags win over it")
@own_facts_options
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="count the age of prices from this date")
@show_options("prices")
@click.option("--plot", "picture", metavar="FILE", help="draw it: .svg, .png, or .html with the whole report")
@click.option("--json", "as_json", is_flag=True, help="the whole answer as JSON")
@click.pass_context
def _rent_or_buy(
    ctx: click.Context,
    /,
    path: str | None,
    today: datetime | None,
    top: int | None,
    show_all: bool,
    why: bool,
    picture: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """
    Own MACHINE, or rent the same accelerators? Every default of owning is a flag.

    \b
    tonnage cost rent-or-buy H100 --utilisation '60 %'
    tonnage cost rent-or-buy l40s-8gpu-pcie --country DE --electricity '$0.24/kWh'
    tonnage cost rent-or-buy H200 --purchase '$310000' --rent '$2.60/h'
    """
    from tonnage.planning.cost.rent_or_buy import rent_or_buy
    from tonnage.planning.files import read_mapping
    from tonnage.planning.requests.cost import rent_or_buy_request

    additions = own_facts(fields)
    if path is None and str(fields.get("machine")).endswith((".yaml", ".yml")):
        path = fields.pop("machine")
    told = read_mapping(path) if path is not None else {}
    remark_date(today.date() if today else None, additions)
    told.pop("cost", None)
    given = {**told, **{name: value for name, value in fields.items() if value is not None}}
    request = rent_or_buy_request(given, additions=additions)
    with show_progress("pricing: offers, machines to own"):
        answer = rent_or_buy(request, additions=additions, today=today.date() if today else None)
    if picture is not None:
        from tonnage.report.answers import plot

        plot(answer, picture)
    if as_json:
        from tonnage.report.document import as_json as json_text

        click.echo(json_text(answer))
    else:
        from tonnage.report.answers import show

        show(answer, top=top, every=show_all, why=why)
    if not answer.feasible:
        ctx.exit(INFEASIBLE)
