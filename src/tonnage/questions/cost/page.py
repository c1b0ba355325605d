"""Rent or buy as a document: each price against owning; where the money goes, what decides it; both as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tonnage.catalog import product, provider_name, seller
from tonnage.domain.cost import Input, Rent, RentOrBuy, Swing, cheapest_steady
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, log_axis, names, records
from tonnage.report.document import (
    Document,
    Headline,
    Meter,
    Note,
    Table,
    Text,
    grid,
    sections,
)
from tonnage.report.page import usd_table
from tonnage.report.screen import dates_to, first_screen
from tonnage.report.wording import chance, chance_text, limits, money, plural
from tonnage.units import percent, show

FIRST_ROWS: Final = 5
INPUTS: Final = 12
"""Sensitivities under --why; all of them are in the JSON."""


def rent_or_buy_document(answer: RentOrBuy, *, most: int | None = None) -> Document:
    """The answer as blocks; `most` prices in the table, None = as many as a first screen has."""
    rents = answer.rents[: most or FIRST_ROWS]
    hidden = len(answer.rents) - len(rents)
    owned = answer.owned_usd_per_used_hour
    largest = max(answer.tornado, key=lambda swing: swing.width, default=None)
    beaten = sum(rent.owning_wins for rent in answer.rents)
    first = first_screen(
        question=_question(answer),
        answer=_decision(answer),
        meters=[
            Meter(f"owning for {_kept(answer)}", money(answer.owning.value), interval=limits(answer.owning)),
            Meter("owned, per used accelerator-hour", f"${owned.value:,.2f}", interval=limits(owned)),
            Meter("owned, per accelerator-hour", f"${answer.owned_usd_per_hour:,.2f}"),
        ],
        table=_rents(answer, rents) if rents else None,
        risks=[
            Text(text, kind="fact")
            for text, told in (
                (f"Owning is cheaper than {beaten} of {plural(len(answer.rents), 'price')}.", answer.rents),
                (f"Decides most: {_swing_text(largest)}." if largest else "", largest),
            )
            if told
        ],
        rest=Note(
            hint=(f"{plural(hidden, 'more price')}: --all. " if hidden > 0 else "")
            + "Where the money goes, sensitivities, inputs: --why."
        ),
    )
    why = sections(
        {
            "Where the money of owning goes": usd_table(answer.owning),
            "What decides it: one input at a time, over its band": _tornado(answer),
            "What the rules of thumb become": [f"{c.rule}: {c.verdict}; {c.computed}" for c in answer.claims],
            "Inputs": _inputs(answer.inputs),
            "Assumptions": answer.assumed,
        }
    )
    return Document(first, why)


def _question(answer: RentOrBuy) -> list[str]:
    """The machine, its use and its country, in parts of a line."""
    request = answer.request
    given = {one.name: one.value for one in answer.inputs}
    count = given.get("accelerators")
    machine = f"{count:g} x {product(request.accelerator)}" if count else product(request.accelerator)
    return [
        f"rent or buy {machine}",
        f"{percent(request.utilisation)} of hours used",
        f"kept {_kept(answer)}",
        request.country,
        dates_to(rent.as_of for rent in answer.rents),
    ]


def _kept(answer: RentOrBuy) -> str:
    """How long an own machine is kept."""
    return next(f"{one.value:g} years" for one in answer.inputs if one.name == "years")


def _decision(answer: RentOrBuy) -> Headline:
    """Rent or buy, and by how much: the cheapest steady price beside what a used hour of the own machine costs."""
    best = cheapest_steady(answer.rents)
    if best is None:
        return Headline(answer.sentence, good=answer.feasible)
    price = _usd_per_used_hour(answer, best)
    owned = answer.owned_usd_per_used_hour
    sure = chance_text(chance(owned, price))
    odds = f", {sure} likely to be cheaper" if sure else ""
    return Headline(
        best.advice,
        details=(f"{provider_name(best.provider)}, {best.term}, price of {best.as_of}",),
        price=f"${price:,.2f} per used accelerator-hour",
        beside=f"owning ${owned.value:,.2f}{odds}",
        good=answer.feasible,
    )


def _usd_per_used_hour(answer: RentOrBuy, rent: Rent) -> float:
    """A rent by hours with useful work, as owning is: both are over the same work of the machine's life. [USD/h]"""
    return rent.lifetime_usd / answer.owning.value * answer.owned_usd_per_used_hour.value


def _rents(answer: RentOrBuy, rents: Sequence[Rent]) -> Table:
    """
    Prices against owning, a row each, owning last; hours are of one accelerator, dollars of all years of the whole
    machine.
    """
    heads = ("rent from", "term", "$/h>1", "$/used h>", "useful hours>5", f"{_kept(answer)}, $>3", "break-even use",
             "break-even hours>4", "pays back>2", "cheaper", "price of<4")  # fmt: skip
    rows = [
        (
            seller(rent),
            rent.term,
            f"{rent.usd_per_accelerator_hour:,.2f}",
            f"{_usd_per_used_hour(answer, rent):,.2f}",
            percent(rent.useful, 1) if rent.useful < 1 else "",
            f"{rent.lifetime_usd:,.0f}",
            _break_even(rent),
            "" if rent.break_even_hours is None else f"{rent.break_even_hours:,.0f}",
            "" if rent.payback_months is None else f"{rent.payback_months:.0f} months",
            "own" if rent.owning_wins else "rent",
            rent.as_of + (" (old)" if rent.stale else ""),
        )
        for rent in rents
    ]
    used = f"{answer.owned_usd_per_used_hour.value:,.2f}"
    own = ("own", "", f"{answer.owned_usd_per_hour:,.2f}", used, "", f"{answer.owning.value:,.0f}", *[""] * 5)
    return grid(heads, [*rows, own], total=True)


def _break_even(rent: Rent) -> str:
    """The share of hours from which owning costs no more, with its interval, in words."""
    if rent.break_even_utilisation is None:
        return "never"
    if rent.paid == "always":
        return "at any use"
    if (rent.break_even_low or rent.break_even_utilisation) > 1.0:
        return "never"
    low = percent(rent.break_even_low or 0.0)
    high = "never" if rent.break_even_high is None else percent(rent.break_even_high)
    return f"{percent(rent.break_even_utilisation)} ({low}-{high})"


def _tornado(answer: RentOrBuy) -> Table:
    widest = max((swing.width for swing in answer.tornado), default=0.0)
    steady = [swing for swing in answer.tornado if swing.name != "rent_decline"]
    rows = []
    for swing in [*steady[:INPUTS], *(s for s in answer.tornado if s.name == "rent_decline")]:
        bar = "█" * round(20 * swing.width / widest) if widest else ""
        used = f"{swing.usd_per_used_hour_at_low:,.2f} to {swing.usd_per_used_hour_at_high:,.2f}  {bar}"
        rows.append((swing.name, _value(swing.low, swing.unit), _value(swing.high, swing.unit), used, _ends(swing)))
    return grid(["input~", "from>", "to>", "$/used h", "breaks even at"], rows)


def _swing_text(swing: Swing) -> str:
    return (
        f"{swing.name.replace('_', ' ')} from {_value(swing.low, swing.unit)} to {_value(swing.high, swing.unit)} "
        f"moves owning from ${swing.usd_per_used_hour_at_low:,.2f} to ${swing.usd_per_used_hour_at_high:,.2f} "
        "per used hour"
    )


def _ends(swing: Swing) -> str:
    low, high = (
        "never" if point is None else percent(point) for point in (swing.break_even_at_low, swing.break_even_at_high)
    )
    return f"{low} to {high}"


def _inputs(inputs: tuple[Input, ...]) -> Table:
    rows = []
    for given in inputs:
        ends = [_value(end, given.unit) for end in (given.low, given.high) if end is not None]
        band = " to ".join(ends)
        flag = "--" + given.name.replace("_", "-")
        rows.append((flag, _value(given.value, given.unit), band, given.confidence, given.source))
    return grid(["flag", "value>", "band~", "sure", "from~"], rows)


def _value(value: float, unit: str) -> str:
    return f"{value:g} years" if unit == "years" else show(value, unit)


MOST_RENTS: Final = 5
MOST_SWINGS: Final = 10
USES: Final = tuple(use / 100 for use in range(5, 101, 5))


def cost_charts(answer: RentOrBuy) -> tuple[Chart | None, ...]:
    """Break-even and tornado; what cannot be drawn is left out."""
    return _break_even_chart(answer), _tornado_chart(answer)


def _break_even_chart(answer: RentOrBuy) -> Chart | None:
    """
    Cost of an hour of useful work of one accelerator, owned and rented, over utilisation; None without rents, and where
    `_owned_line` finds no line.
    """
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
        (_label(rent), rent.break_even_utilisation, fixed / rent.break_even_utilisation + running,
         percent(rent.break_even_utilisation))
        for rent in rents
        if rent.break_even_utilisation and rent.break_even_utilisation <= 1
    ]  # fmt: skip
    x = axis("use", "share of hours with useful work", axis={"format": "%"})
    y = log_axis("usd", "USD per accelerator and hour of useful work", over=[value[2] for value in values])
    shade = colour("way")
    body = layer_charts(
        records(("way", "use", "usd"), values),
        {"mark": {"type": "line", "tooltip": True}, "encoding": {"x": x, "y": y, "color": shade}},
        {
            "data": records(("way", "use", "usd", "at"), crossings),
            "encoding": {"x": x, "y": y},
            "layer": [
                {"mark": {"type": "point", "filled": True, "size": 90, "tooltip": True}, "encoding": {"color": shade}},
                {"mark": {"type": "text", "dy": -14, "fontWeight": "bold"}, "encoding": {"text": {"field": "at"}}},
            ],
        },
    )
    rows: list[tuple[str, ...]] = [
        ("owned", f"{fixed / 0.3 + running:,.2f}", f"{fixed / 0.6 + running:,.2f}", f"{fixed + running:,.2f}", "")
    ]
    for rent in rents:
        price = rent.usd_per_accelerator_hour / rent.useful
        at = [price if rent.paid == "used" else price / use for use in (0.3, 0.6, 1.0)]
        crossing = "none" if rent.break_even_utilisation is None else percent(rent.break_even_utilisation)
        rows.append((_label(rent), *(f"{usd:,.2f}" for usd in at), crossing))
    return Chart(
        "break-even",
        "Where owning begins to pay",
        "Cost of an accelerator's hour of useful work over utilisation; from a dot on, owning costs no more.",
        body=body,
        columns=("way", "USD/h at 30 %", "at 60 %", "at 100 %", "break-even"),
        rows=tuple(rows),
    )


def _owned_line(answer: RentOrBuy) -> tuple[float, float] | None:
    """
    Fixed and running cost of an owned accelerator's used hour: fixed / utilisation + running; None where no price paid
    by use breaks even away from the asked utilisation. [USD/h]

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


def _tornado_chart(answer: RentOrBuy) -> Chart | None:
    """What each input alone does to the cost of a used hour; None where no input has a band."""
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
