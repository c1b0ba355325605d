"""Rent or buy as a document: each price against owning; then where the money goes, and what decides it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.domain.cost import Input, Rent, RentOrBuy, Swing, cheapest_steady
from tonnage.report.document import (
    Document,
    Meter,
    Note,
    Table,
    Text,
    grid,
    sections,
)
from tonnage.report.names import product, provider_name
from tonnage.report.page import usd_table
from tonnage.report.screen import dates_to, first_screen
from tonnage.report.wording import chance, chance_text, limits, money, percent, plural
from tonnage.units import show

FIRST_ROWS: Final = 5
INPUTS: Final = 12
"""Sensitivities under --why; all of them are in the JSON."""


def rent_or_buy_document(answer: RentOrBuy, *, most: int | None = None) -> Document:
    """The answer as blocks; `top` prices in the table, or every one."""
    rents = answer.rents[: most or FIRST_ROWS]
    hidden = len(answer.rents) - len(rents)
    owned = answer.owned_usd_per_used_hour
    largest = max(answer.tornado, key=lambda swing: swing.width, default=None)
    beaten = sum(rent.owning_wins for rent in answer.rents)
    first = first_screen(
        question=_question(answer),
        answer=_decision(answer),
        good=answer.feasible,
        meters=[
            Meter("to own", f"{money(answer.owning.value)} in all", interval=limits(answer.owning)),
            Meter("a used hour", f"${owned.value:,.2f} an accelerator", interval=limits(owned)),
            Meter("an hour of the calendar", f"${answer.owned_usd_per_hour:,.2f}"),
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
    request = answer.request
    given = {one.name: one.value for one in answer.inputs}
    years, count = given.get("years"), given.get("accelerators")
    machine = f"{count:g} x {product(request.accelerator)}" if count else product(request.accelerator)
    return [
        f"rent or buy {machine}",
        f"{percent(request.utilisation)} of hours used",
        f"kept {years:g} years" if years else "",
        request.country,
        dates_to(rent.as_of for rent in answer.rents),
    ]


def _decision(answer: RentOrBuy) -> str:
    """Rent or buy, and by how much: the cheapest steady price beside what a used hour of the own machine costs."""
    best = cheapest_steady(answer.rents)
    if best is None:
        return answer.sentence
    price = _usd_per_used_hour(answer, best)
    owned = answer.owned_usd_per_used_hour
    sure = chance_text(chance(owned, price))
    odds = f", {sure} likely to be cheaper" if sure else ""
    return (
        f"{best.advice}   ${price:,.2f} a used hour   {provider_name(best.provider)}, {best.term}, "
        f"price of {best.as_of}   owning ${owned.value:,.2f}{odds}"
    )


def _usd_per_used_hour(answer: RentOrBuy, rent: Rent) -> float:
    """A rent by hours with useful work, as owning is: both are over the same work of the machine's life. [USD/h]"""
    return rent.lifetime_usd / answer.owning.value * answer.owned_usd_per_used_hour.value


def _rents(answer: RentOrBuy, rents: Sequence[Rent]) -> Table:
    heads = ("rent from", "term", "$/h>1", "$/used h>", "useful>5", "life, $>3", "owning breaks even", "hours>4",
             "pays back>2", "cheaper", "price of<4")  # fmt: skip
    rows = [
        (
            f"{provider_name(rent.provider)} {rent.region}".strip(),
            rent.term,
            f"{rent.usd_per_accelerator_hour:,.2f}",
            f"{_usd_per_used_hour(answer, rent):,.2f}",
            f"{rent.useful:.1%}" if rent.useful < 1 else "",
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
    if rent.break_even_utilisation is None:
        return "never"
    if rent.paid == "always":
        return "at any use"
    if (rent.break_even_low or rent.break_even_utilisation) > 1.0:
        return "never"
    low = f"{rent.break_even_low or 0.0:.0%}"
    high = "never" if rent.break_even_high is None else f"{rent.break_even_high:.0%}"
    return f"{rent.break_even_utilisation:.0%} ({low}-{high})"


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
        "never" if point is None else f"{point:.0%}" for point in (swing.break_even_at_low, swing.break_even_at_high)
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
