"""The page of an accelerator: what it is, its prices over time, who rents it, what others measured on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tonnage.catalog import Additions, model_name, provider_name
from tonnage.catalog.listings import accelerator_card
from tonnage.catalog.price_history import fall_text, price_fall, price_points, prices_listing
from tonnage.catalog.published import predicted_numbers, published_results
from tonnage.domain.listing import AcceleratorCard, Listing
from tonnage.domain.published import Published
from tonnage.engines.registry import engine_title
from tonnage.questions.predict.page import MLPERF, NEAR_NUMBERS, UNVERIFIED, numbers_text
from tonnage.record import Record
from tonnage.report.charts.catalogue import held_chart, price_chart, publisher
from tonnage.report.charts.chart import Chart
from tonnage.report.document import Table, grid
from tonnage.report.listing import card_rows, cell_text
from tonnage.web.listings import today

MOST_RESULTS: Final = 15
"""Published results in the table."""
LEAST_POINTS: Final = 5
"""Of a picture of predicted against measured."""
EVERY: Final = "all"
"""In place of an accelerator: the pictures of all of them."""
OFFERED: Final = ("price", "instance_type", "count", "region", "on_demand", "spot", "reserved_1y", "reserved_3y",
                  "as_of")  # fmt: skip
PRICED: Final = ("on_demand", "spot", "reserved_1y", "reserved_3y")


class PartView(Record, kw_only=True):
    """What the template fills in."""

    card: AcceleratorCard
    facts: Table
    offers: Table
    prices: tuple[Chart, ...]
    fall: str
    """How fast its sellers lower their prices; empty where too few say."""
    results: Table
    measured: int
    """Published results on it, of which the table holds some."""
    held: tuple[Chart, ...]
    mark: str
    """What the rules of a benchmark ask of whoever shows its results."""


def part_card(name: str, *, additions: Additions) -> AcceleratorCard:
    """
    An accelerator with its facts and each provider's cheapest offer.

    Raises
    ------
    UnknownName
        Nobody knows it.
    """
    return accelerator_card(name, today=today(), additions=additions)


def part_view(name: str, *, additions: Additions) -> PartView:
    """All of the page. Raises as `part_card` does."""
    card = part_card(name, additions=additions)
    mine = _published(card.accelerator.id)
    fall = price_fall(price_points(additions), card.accelerator.id)
    charts = part_charts(card.accelerator.id, additions=additions)
    return PartView(
        card=card,
        facts=grid(("fact", "value~"), card_rows(card)),
        offers=_offers(card.offers),
        prices=tuple(chart for chart in charts if chart.name == "prices"),
        fall="" if fall is None else f"{fall_text(fall)[:1].upper()}{fall_text(fall)[1:]}.",
        results=_results(mine),
        measured=len(mine),
        held=tuple(chart for chart in charts if chart.name != "prices"),
        mark=UNVERIFIED if any(result.source.startswith(MLPERF) for result in mine) else "",
    )


def part_charts(id: str, *, additions: Additions) -> tuple[Chart, ...]:
    """
    Its prices over time, and each kind of measured number against what is predicted; those with enough of both.

    Of `EVERY` one result of each model, software, part and publisher stands for all of them, and no price.
    """
    if id == EVERY:
        return tuple(_held(list(_firsts(published_results()))))
    return (*price_chart(prices_listing((id,), every=True, today=today(), additions=additions)), *_held(_published(id)))


def _published(id: str) -> list[Published]:
    return [result for result in published_results() if result.accelerator == id]


def _held(results: Sequence[Published]) -> Iterator[Chart]:
    known = predicted_numbers()
    for field, (title, unit) in NEAR_NUMBERS.items():
        held = [(one, predicted) for one in results if (predicted := known.get(one.id, {}).get(field)) is not None]
        if len(held) >= LEAST_POINTS:
            yield held_chart(field, held, title=title, unit=unit.strip())


def _results(results: Sequence[Published]) -> Table:
    """The newest result of each model, software and publisher: what was measured, and what is predicted of it."""
    known = predicted_numbers()
    shown = sorted(_firsts(results), key=lambda one: one.date, reverse=True)[:MOST_RESULTS]
    heads = ("model~", "software", "count>", "load", "measured~", "predicted~", "year", "source~")
    return grid(heads, [
        (
            model_name(one.model), engine_title(one.engine) if one.engine else "", f"{one.count:g}", _load(one),
            numbers_text(one.measured), numbers_text(known.get(one.id, {})), one.date[:4], one.source,
        )
        for one in shown
    ])  # fmt: skip


def _firsts(results: Sequence[Published]) -> Iterable[Published]:
    """The newest of each model, software, part and publisher, those first of which something is predicted."""
    first: dict[tuple[str, ...], Published] = {}
    newest = sorted(results, key=lambda one: one.date, reverse=True)
    for one in sorted(newest, key=lambda one: one.id not in predicted_numbers()):
        first.setdefault((one.model, one.engine, one.accelerator, publisher(one)), one)
    return first.values()


def _load(result: Published) -> str:
    """What was asked of it: "64 clients, 1,024 in, 128 out"."""
    lengths = ((result.isl, " in"), (result.osl, " out"))
    size = "" if result.size is None else f"{result.size:g} "
    return ", ".join([f"{size}{result.load}".strip(), *(f"{tokens:,.0f}{way}" for tokens, way in lengths if tokens)])


def _offers(offers: Listing) -> Table:
    """Each provider's cheapest offer: the price of one, and of the whole instance by terms."""
    units, day = {column.name: column.unit for column in offers.columns}, today()
    heads = ("provider~", "$/h of one>", "instance~", "accelerators>", "region~", "$/h>", "spot>", "1 year>",
             "3 years>", "as of")  # fmt: skip
    return grid(heads, [
        (provider_name(row["provider"]), *(cell_text(row[name], units[name], today=day) if row[name] is not None else ""
                                           for name in OFFERED))
        for row in offers.rows if any(row[name] is not None for name in PRICED)
    ])  # fmt: skip
