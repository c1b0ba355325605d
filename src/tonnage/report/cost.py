"""Rent or buy as a person reads it: the sentence, each price against owning, where the money goes, what decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.domain.cost import Input, Rent, RentOrBuy, Swing
from tonnage.report.console import lines, make_console
from tonnage.units import show

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show_rent_or_buy"]


def show_rent_or_buy(answer: RentOrBuy, *, top: int = 12) -> None:
    """Print the answer; `top` limits the prices and the sensitivities, which --json has all of."""
    console = make_console()
    console.print(answer.sentence, style="bold" if answer.feasible else "bold red", markup=False)
    if answer.rents:
        console.print()
        console.print(_rents_table(answer, top=top))
        if len(answer.rents) > top:
            console.print(f"  … and {len(answer.rents) - top} more prices (--top {len(answer.rents)} shows them)")
    console.print("\nWhere the money of owning goes", style="bold")
    console.print(_owning_table(answer))
    console.print("\nWhat decides it: one input at a time, over its band", style="bold")
    console.print(_tornado_table(answer, top=top))
    lines(
        console, "What the rules of thumb become", texts=[f"{c.rule}: {c.verdict}; {c.computed}" for c in answer.claims]
    )
    console.print("\nReckoned from", style="bold")
    console.print(_inputs_table(answer.inputs))
    lines(console, "Taken as given", texts=list(answer.assumed))


def _rents_table(answer: RentOrBuy, *, top: int) -> Table:
    table = _table(
        ("rent from", "left"), ("term", "left"), ("$/accelerator-h", "right"), ("useful", "right"),
        ("life, $", "right"), ("owning breaks even", "left"), ("hours", "right"), ("pays back", "right"),
        ("cheaper", "left"), ("price of", "left"),
    )  # fmt: skip
    for rent in answer.rents[:top]:
        table.add_row(
            f"{rent.provider} {rent.region}".strip(),
            rent.term,
            f"{rent.usd_per_accelerator_hour:,.2f}",
            f"{rent.useful:.1%}" if rent.useful < 1 else "",
            f"{rent.lifetime_usd:,.0f}",
            _break_even(rent),
            "" if rent.break_even_hours is None else f"{rent.break_even_hours:,.0f}",
            "" if rent.payback_months is None else f"{rent.payback_months:.0f} months",
            "own" if rent.owning_wins else "rent",
            rent.as_of + (" (old)" if rent.stale else ""),
        )
    own = f"{answer.owned_usd_per_hour:,.2f}"
    table.add_row("own", "", own, "", f"{answer.owning.value:,.0f}", *[""] * 5, style="bold")
    return table


def _break_even(rent: Rent) -> str:
    if rent.break_even_utilisation is None:
        return "never"
    if rent.paid == "always":
        return "at any use"
    low = f"{rent.break_even_low or 0.0:.0%}"
    high = "never" if rent.break_even_high is None else f"{rent.break_even_high:.0%}"
    return f"{rent.break_even_utilisation:.0%} ({low}-{high})"


def _owning_table(answer: RentOrBuy) -> Table:
    table = _table(("part", "left"), ("USD", "right"), ("share", "right"), ("from", "left"))
    total = answer.owning.value
    for part in answer.owning.parts:
        table.add_row(part.name, f"{part.value:,.0f}", f"{part.value / total:.1%}", part.source)
    table.add_row("total", f"{total:,.0f}", "", "", style="bold")
    return table


def _tornado_table(answer: RentOrBuy, *, top: int) -> Table:
    table = _table(
        ("input", "left"), ("from", "right"), ("to", "right"), ("$/used h", "left"), ("breaks even at", "left")
    )
    widest = max((swing.width for swing in answer.tornado), default=0.0)
    steady = [swing for swing in answer.tornado if swing.name != "rent_decline"]
    for swing in [*steady[:top], *(s for s in answer.tornado if s.name == "rent_decline")]:
        bar = "█" * round(20 * swing.width / widest) if widest else ""
        table.add_row(
            swing.name,
            _value(swing.low, swing.unit),
            _value(swing.high, swing.unit),
            f"{swing.usd_per_used_hour_at_low:,.2f} to {swing.usd_per_used_hour_at_high:,.2f}  {bar}",
            _ends(swing),
        )
    return table


def _ends(swing: Swing) -> str:
    low, high = (
        "never" if point is None else f"{point:.0%}" for point in (swing.break_even_at_low, swing.break_even_at_high)
    )
    return f"{low} to {high}"


def _inputs_table(inputs: tuple[Input, ...]) -> Table:
    table = _table(("flag", "left"), ("value", "right"), ("band", "left"), ("sure", "left"), ("from", "left"))
    for given in inputs:
        ends = [_value(end, given.unit) for end in (given.low, given.high) if end is not None]
        table.add_row(
            "--" + given.name.replace("_", "-"),
            _value(given.value, given.unit),
            " to ".join(ends) if len(ends) == 2 else "".join(ends),
            given.confidence,
            given.source,
        )
    return table


def _value(value: float, unit: str) -> str:
    return f"{value:g} years" if unit == "years" else show(value, unit)


def _table(*columns: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name, justify in columns:
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    return table
