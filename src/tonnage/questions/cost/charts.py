"""Renting against owning as pictures: cost of a used hour over utilisation, and what decides it."""

from __future__ import annotations

from typing import Any, Final

from tonnage.domain.cost import Rent, RentOrBuy
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, log_axis, names, records
from tonnage.report.names import provider_name

MOST_RENTS: Final = 5
MOST_SWINGS: Final = 10
USES: Final = tuple(use / 100 for use in range(5, 101, 5))


def cost_charts(answer: RentOrBuy) -> tuple[Chart | None, ...]:
    """Break-even and tornado; what cannot be drawn is left out."""
    return _break_even(answer), _tornado(answer)


def _break_even(answer: RentOrBuy) -> Chart | None:
    """Cost of an hour of useful work, owned and rented, over utilisation."""
    hourly = _owned_line(answer)
    rents = _distinct(answer.rents)
    if hourly is None or not rents:
        return None
    fixed, running = hourly
    values: list[tuple[Any, ...]] = [("owned", use, fixed / use + running) for use in USES]
    for rent in rents:
        price = rent.usd_per_accelerator_hour / rent.useful
        values += [(_label(rent), use, price if rent.paid == "used" else price / use) for use in USES]
    crossings = [
        (_label(rent), rent.break_even_utilisation, fixed / rent.break_even_utilisation + running)
        for rent in rents
        if rent.break_even_utilisation and rent.break_even_utilisation <= 1
    ]
    x = axis("use", "share of hours with useful work", axis={"format": "%"})
    y = log_axis("usd", "USD per accelerator and hour of useful work", over=[value[2] for value in values])
    shade = colour("way")
    body = layer_charts(
        records(("way", "use", "usd"), values),
        {"mark": {"type": "line", "tooltip": True}, "encoding": {"x": x, "y": y, "color": shade}},
        {
            "data": records(("way", "use", "usd"), crossings),
            "mark": {"type": "point", "filled": True, "size": 90, "tooltip": True},
            "encoding": {"x": x, "y": y, "color": shade},
        },
    )
    rows: list[tuple[str, ...]] = [
        ("owned", f"{fixed / 0.3 + running:,.2f}", f"{fixed / 0.6 + running:,.2f}", f"{fixed + running:,.2f}", "")
    ]
    for rent in rents:
        price = rent.usd_per_accelerator_hour / rent.useful
        at = [price if rent.paid == "used" else price / use for use in (0.3, 0.6, 1.0)]
        crossing = "none" if rent.break_even_utilisation is None else f"{rent.break_even_utilisation:.0%}"
        rows.append((_label(rent), *(f"{usd:,.2f}" for usd in at), crossing))
    return Chart(
        "break-even",
        "Where owning begins to pay",
        "Cost of an accelerator's hour of useful work over utilisation; dots mark where owning costs no more.",
        body=body,
        columns=("way", "USD/h at 30 %", "at 60 %", "at 100 %", "break-even"),
        rows=tuple(rows),
    )


def _owned_line(answer: RentOrBuy) -> tuple[float, float] | None:
    """
    Fixed and running cost of an owned accelerator's used hour: fixed / utilisation + running. [USD/h]

    Owning costs a part that does not depend on use and a part that grows with it, so two points give both: the asked
    utilisation, and any break-even with a price that is paid by use.
    """
    here, cost = answer.request.utilisation, answer.owned_usd_per_used_hour.value
    for rent in answer.rents:
        there = rent.break_even_utilisation
        if rent.paid == "used" and there and abs(there - here) > 0.02:
            price = rent.usd_per_accelerator_hour / rent.useful
            fixed = (cost - price) / (1 / here - 1 / there)
            return fixed, cost - fixed / here
    return None


def _tornado(answer: RentOrBuy) -> Chart | None:
    if not answer.tornado:
        return None
    swings = answer.tornado[:MOST_SWINGS]
    values = [
        (swing.name, min(ends), max(ends))
        for swing in swings
        for ends in [(swing.usd_per_used_hour_at_low, swing.usd_per_used_hour_at_high)]
    ]
    body = layer_charts(
        records(("input", "low", "high"), values),
        {
            "mark": {"type": "bar", "tooltip": True, "height": 14},
            "encoding": {
                "y": names("input"),
                "x": axis("low", "USD per used hour, owned", scale={"zero": False}),
                "x2": {"field": "high"},
            },
        },
        {
            "data": {"values": [{"now": answer.owned_usd_per_used_hour.value}]},
            "mark": "rule",
            "encoding": {"x": {"field": "now", "type": "quantitative"}},
        },
    )
    return Chart(
        "tornado",
        "What decides it",
        "Cost of an owned hour when one input alone goes from one end of its band to the other.",
        body=body,
        columns=("input", "from", "to", "USD/h at the low end", "at the high end"),
        rows=tuple(
            (
                s.name,
                f"{s.low:g} {s.unit}",
                f"{s.high:g} {s.unit}",
                f"{s.usd_per_used_hour_at_low:,.2f}",
                f"{s.usd_per_used_hour_at_high:,.2f}",
            )
            for s in swings
        ),
        height=26 * len(swings) + 20,
    )


def _distinct(rents: tuple[Rent, ...]) -> list[Rent]:
    """The first offer of each term, then the next ones, in the answer's order."""
    firsts: dict[str, Rent] = {}
    for rent in rents:
        firsts.setdefault(rent.term, rent)
    others = [rent for rent in rents if rent not in firsts.values()]
    return [*firsts.values(), *others][:MOST_RENTS]


def _label(rent: Rent) -> str:
    return f"{provider_name(rent.provider)} {rent.term}"
