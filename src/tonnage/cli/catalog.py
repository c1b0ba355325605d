"""
`tonnage catalog`: what is known, to look through, with sources and dates.

Four lists share one set of filters. Quantities are read with their unit; a filter that a list does not know is
no option of it. A terminal gets the first rows, a file or pipe all of them. `--json` prints the listing as it is and
skips the table.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, Final, NamedTuple

import click
from click.core import ParameterSource

from tonnage.catalog.additions import TEMPLATE, Additions, gather
from tonnage.catalog.filters import Order, Wanted
from tonnage.cli.options import FILE, json_option, name_argument, on_terminal, output_of, reads, today_option
from tonnage.domain.listing import AcceleratorCard, Listing

FIRST_ROWS: Final = 16
"""Rows of a first screen."""
Command = Callable[..., None]


def _print_template(ctx: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(TEMPLATE, nl=False)
        ctx.exit()


@click.group()
def catalog() -> None:
    """
    Accelerators, models, offers and providers, with sources and dates.

    Your own accelerators and offers: write a file (`tonnage catalog offers --template` prints one), and name it with
    --additions or put it into the folder tonnage/catalog of your configuration folder (~/.config on Linux); the
    environment variable TONNAGE_CATALOG names one more folder.
    """


_OF_PART: Final = (
    click.option("--vendor", "vendors", multiple=True, help="NVIDIA, AMD, Intel …; repeat for several"),
    click.option("--segment", "segments", multiple=True, help="datacenter, workstation, consumer, edge …"),
    click.option("--precision", "precisions", multiple=True, help="has a unit for fp8, fp4, int8, bf16 …"),
    click.option("--memory", "memory_bytes", callback=reads("bytes", sign=">="), help="at least, such as '80 GB'"),
    click.option(
        "--bandwidth", "memory_bytes_per_s", callback=reads("bytes/s", sign=">="), help="at least, such as '2 TB/s'"
    ),
    click.option("--power", "power_w", callback=reads("W", sign="<="), help="at most, such as '300 W'"),
    click.option("--ecc/--no-ecc", "ecc", default=None, help="memory with or without ECC"),
    click.option("--mig/--no-mig", "mig", default=None, help="can be partitioned, or not"),
    click.option("--nvlink/--no-nvlink", "nvlink", default=None, help="NVLink to other accelerators, or none"),
)
_OF_OFFER: Final = (
    click.option("--provider", "providers", multiple=True, help="repeat for several"),
    click.option("--region", "regions", multiple=True, help="as the provider names it"),
    click.option("--country", "countries", multiple=True, help="two letters: DE, FI, US …"),
    click.option("--eu", is_flag=True, help="in a member state of the EU"),
    click.option("--spot", is_flag=True, help="with a spot price"),
    click.option(
        "--max-price", "usd_per_hour", callback=reads("USD/h", sign="<="), help="per accelerator, such as '$2.50/h'"
    ),
    click.option("--marketplace/--no-marketplace", default=True, help="with price snapshots that state no licence"),
    click.option("--history", is_flag=True, help="with superseded prices and retiring series"),
)
_OUTPUT: Final = (
    click.option("--sort", default="", show_default=False, metavar="COLUMN", help="any column, also those of --wide"),
    click.option("--reverse", is_flag=True, help="the other way round"),
    click.option("--wide", is_flag=True, help="every column"),
    click.option("--all", "every", is_flag=True, help="every row, on a terminal too"),
    json_option("catalog"),
    today_option,
)
_OWN: Final = (
    click.option("--additions", "paths", multiple=True, metavar="PATH", help="your own facts: a TOML file or folder"),
    click.option("--set", "overrides", multiple=True, metavar="ID.FIELD=VALUE", help="what-if on a fact"),
    click.option(
        "--template",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_template,
        help="print a file of additions to start from",
    ),
)


def _with(*groups: tuple[Callable[[Command], Command], ...]) -> Callable[[Command], Command]:
    """Stack groups of options on a command, in the order --help shows them."""

    def stack(command: Command) -> Command:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return stack


def _limit(default: int) -> tuple[Callable[[Command], Command], ...]:
    return (click.option("--limit", default=default, help="most rows to show; 0 = all"),)


@catalog.command("accelerators")
@name_argument("names", "accelerators", nargs=-1, metavar="[NAME]…")
@_with(_OF_PART, _OF_OFFER, _OUTPUT, _limit(0), _OWN)
def accelerators_command(names: tuple[str, ...], **options: Any) -> None:
    """Accelerators: memory, bandwidth, dense peaks, link, power, cheapest prices. One NAME shows every fact."""
    asked = _split_options(options)
    from tonnage.catalog.listings import accelerator_card, accelerators_listing

    if len(names) == 1:
        _show(accelerator_card(names[0], wanted=asked.wanted(), today=asked.today, additions=asked.additions), asked)
    else:
        wanted = asked.wanted(accelerators=names)
        listing = accelerators_listing(wanted, order=asked.order, today=asked.today, additions=asked.additions)
        _show(listing, asked)


@catalog.command("offers")
@click.option("--accelerator", "accelerators", multiple=True, help="repeat for several")
@click.option("--check", "check", is_flag=True, help="audit the book instead: outliers, contradictions, age, gaps")
@_with(_OF_PART, _OF_OFFER, _OUTPUT, _limit(50), _OWN)
def offers_command(check: bool, **options: Any) -> None:
    """
    Rentable instances, cheapest accelerator-hour first.

    `price` is of one accelerator (its spot price with --spot), the terms are of the whole instance. --check shows
    instead what speaks against prices of the book; filters do not apply to it.
    """
    asked = _split_options(options)
    if check:
        from tonnage.catalog.price_history import offers_audit

        _show(offers_audit(today=asked.today, additions=asked.additions), asked)
        return
    from tonnage.catalog.listings import offers_listing

    _show(offers_listing(asked.wanted(), order=asked.order, today=asked.today, additions=asked.additions), asked)


@catalog.command("providers")
@click.option("--accelerator", "accelerators", multiple=True, help="rents this one")
@_with(_OF_PART, _OF_OFFER, _OUTPUT, _limit(0), _OWN)
def providers_command(**options: Any) -> None:
    """Providers and their terms; certifications are the vendors' own statements."""
    asked = _split_options(options)
    from tonnage.catalog.listings import providers_listing

    _show(providers_listing(asked.wanted(), order=asked.order, today=asked.today, additions=asked.additions), asked)


@catalog.command("prices")
@click.argument("names", nargs=-1, metavar="[ACCELERATOR]…")
@click.option("--history", "every_day", is_flag=True, help="every day that a seller's price is of, not the last alone")
@click.option("--plot", "plot", type=FILE, metavar="FILE", help="draw the paths: .svg or .png")
@_with(_OUTPUT, _limit(0), _OWN)
def prices_command(names: tuple[str, ...], every_day: bool, plot: str | None, **options: Any) -> None:
    """
    The market of each accelerator: median and spread over sellers, and how fast sellers lower their price.

    Sellers' own dated on-demand prices, superseded ones and those of earlier releases of the data (`tonnage data`)
    included. A fall is of sellers with two prices ninety days apart, where three have them.
    """
    asked = _split_options(options)
    from tonnage.catalog.price_history import prices_listing

    found = prices_listing(
        names, every=every_day or plot is not None, today=asked.today, additions=asked.additions, order=asked.order
    )
    if plot is not None:
        from tonnage.report.charts.catalogue import price_chart
        from tonnage.report.html import save

        save(price_chart(found), plot, title="Tonnage: prices", page="")
    else:
        _show(found, asked)


@catalog.command("refresh")
@name_argument("providers", "providers", nargs=-1, metavar="[PROVIDER]…")
@click.option("--model", "models", metavar="ID", multiple=True, help="ask the hub for this model again instead")
@click.option("--rollback", is_flag=True, help="back to the prices fetched before")
@click.option("--drop", is_flag=True, help="back to the shipped prices")
@json_option("refresh")
def refresh_command(
    providers: tuple[str, ...], *, models: tuple[str, ...], rollback: bool, drop: bool, **options: Any
) -> None:
    """
    Fetch today's on-demand and spot prices, of these providers or of all that gpuhunt publishes.

    They take the place of the shipped ones in every later plan, after checks; a provider that fails keeps what it had.
    GPUHUNT_CATALOG_URL names a mirror. With --model: what the hub (HF_ENDPOINT) says of a model today, kept in its
    cache, and where that differs from the catalogue.
    """
    if models:
        if providers or rollback or drop:
            raise click.UsageError("--model goes with no provider, --rollback or --drop: prices and models apart")
        from tonnage.catalog.refresh import refresh_models

        output_of(options).show(refresh_models(models))
        return
    if rollback or drop:
        from tonnage.catalog.offers import drop as drop_snapshots
        from tonnage.catalog.offers import roll_back

        done = roll_back(providers) if rollback else drop_snapshots(providers)
        told = ", ".join(done) if done else "no provider"
        click.echo(f"{'the prices before' if rollback else 'the shipped prices'} hold again for {told}")
        return
    from tonnage.catalog.refresh import refresh

    output_of(options).show(refresh(providers))


@catalog.command("models")
@name_argument("names", "models", nargs=-1, metavar="[NAME]…")
@click.option("--kind", "kinds", multiple=True, help="llm, moe, diffusion …; repeat for several")
@_with(_OUTPUT, _limit(0))
def models_command(names: tuple[str, ...], *, kinds: tuple[str, ...], **options: Any) -> None:
    """
    Models whose shape is known; any other is read from its config.json or Hugging Face id.

    With a NAME, as you would write it anywhere: which model it is taken as, and what each part of it says.
    """
    asked = _split_options(options)
    from tonnage.catalog import models
    from tonnage.catalog.listings import models_listing

    _show(models_listing(models(), names=names, kinds=kinds, order=asked.order, today=asked.today), asked)


@catalog.command("traces")
@click.option("--fetch", metavar="NAME", help="download that log; a simulation then plays it by its name")
@click.option("--folder", type=click.Path(file_okay=False), help="where to keep it; absent = the user's cache folder")
@_with(_OUTPUT, _limit(0))
def traces_command(fetch: str | None, folder: str | None, **options: Any) -> None:
    """Public request logs that a simulation can play: where each is, its licence, whom to cite."""
    if fetch is not None:
        _fetch(fetch, folder)
        return
    asked = _split_options(options)
    from tonnage.catalog.listings import traces_listing
    from tonnage.catalog.traces import public_traces

    _show(traces_listing(public_traces(), order=asked.order, today=asked.today), asked)


def _fetch(name: str, folder: str | None) -> None:
    """Downloads a log, its licence said first."""
    from pathlib import Path

    from tonnage.catalog.traces import fetch_trace, public_trace

    trace = public_trace(name)
    click.echo(f"{trace.repository}, {trace.licence}; keep that with results, and cite {trace.cite}", err=True)
    kept = fetch_trace(name, folder=Path(folder) if folder else None)
    click.echo(f"{trace.requests:,} requests in {kept}")
    click.echo(f"play them with: traffic: {{trace: {kept if folder else name}}}", err=True)


class Asked(NamedTuple):
    """What the options of any list come to."""

    filters: dict[str, Any]
    order: Order
    today: date
    additions: Additions
    as_json: bool
    wide: bool
    most: int | None
    """Rows to show at first; absent = all."""

    def wanted(self, **more: Any) -> Wanted:
        return Wanted(**self.filters, **more)


def _split_options(options: dict[str, Any]) -> Asked:
    """
    Options of a list by what they are for: filters, order, output, the user's own facts.

    A terminal shows `FIRST_ROWS` rows unless --all or --limit is given; --all lifts a list's usual limit, too.
    """
    said = click.get_current_context().get_parameter_source("limit") is not ParameterSource.DEFAULT
    every, limit = options.pop("every"), options.pop("limit")
    order = Order(sort=options.pop("sort"), reverse=options.pop("reverse"), limit=0 if every and not said else limit)
    today = options.pop("today") or date.today()
    additions = gather(paths=options.pop("paths", ()), overrides=options.pop("overrides", ()))
    return Asked(
        as_json=options.pop("as_json"),
        wide=options.pop("wide"),
        most=None if every or said or not on_terminal() else FIRST_ROWS,
        filters=options,
        order=order,
        today=today,
        additions=additions,
    )


def _show(found: Listing | AcceleratorCard, asked: Asked) -> None:
    from tonnage.report.document import as_json
    from tonnage.report.listing import show_card, show_listing

    if asked.as_json:
        click.echo(as_json(found))
    elif isinstance(found, AcceleratorCard):
        show_card(found)
    else:
        show_listing(found, wide=asked.wide, most=asked.most)
