"""A lifecycle as a person reads it: the sentence, the bill, one kind for both, smaller ways, the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.domain.answer import Quantity
from tonnage.domain.lifecycle import LifecyclePlan, OneType, SavingsOption
from tonnage.report.console import lines, make_console
from tonnage.units import show

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show_lifecycle_plan"]


def show_lifecycle_plan(plan: LifecyclePlan, *, top: int = 8) -> None:
    """Print the plan; `top` limits the kinds of accelerator that could do both."""
    console = make_console()
    console.print(plan.sentence, style="bold" if plan.feasible else "bold red", markup=False)
    lines(console, "Making it", texts=[plan.make.sentence])
    lines(console, "Serving it", texts=[plan.serve.sentence])
    if plan.bill is not None:
        console.print("\nOne bill", style="bold")
        console.print(_bill_table(plan.bill))
    if plan.kwh is not None:
        carbon = "carbon: a grid is not known" if plan.kg_co2 is None else f"{plan.kg_co2:,.0f} kg CO2"
        console.print(f"  {plan.kwh:,.0f} kWh with hosts and cooling; {carbon}", markup=False)
    elif plan.bill is not None:
        console.print("  electricity: the power of an accelerator of one half is not published", markup=False)
    if plan.one_type_text:
        lines(console, "One kind of accelerator for both?", texts=[plan.one_type_text])
    if plan.one_type:
        console.print(_types_table(plan.one_type[:top]))
    lines(console, "Smaller ways to do it, and what each saves", texts=[_lever(lever) for lever in plan.savings])
    timeline = [f"{show(stone.after_s, 's') if stone.after_s else 'start'}: {stone.what}" for stone in plan.timeline]
    lines(console, "Timeline", texts=timeline)
    if plan.binding is not None and plan.binding.nearest:
        lines(console, "Nearest", texts=[plan.binding.nearest])
    assumed = (*plan.provenance.assumed, *plan.make.provenance.assumed, *plan.serve.provenance.assumed)
    # What the life says of its prices, its halves need not say again.
    again = [text for text in assumed if text not in plan.provenance.assumed and text.startswith("prices exclude VAT")]
    lines(console, "Taken as given", texts=list(dict.fromkeys(text for text in assumed if text not in again)))


def _bill_table(bill: Quantity) -> Table:
    table = _table(("part", "left"), ("USD", "right"), ("share", "right"), ("from", "left"))
    for part in bill.parts:
        table.add_row(part.name, f"{part.value:,.0f}", f"{part.value / bill.value:.1%}", part.source)
    table.add_row("total", f"{bill.value:,.0f}", "", "", style="bold")
    return table


def _types_table(types: tuple[OneType, ...]) -> Table:
    table = _table(
        ("accelerator", "left"), ("making, $", "right"), ("serving, $", "right"), ("both, $", "right"),
        ("of the mix", "right"),
    )  # fmt: skip
    for one in types:
        table.add_row(
            one.accelerator,
            f"{one.make_usd:,.0f}",
            f"{one.serve_usd:,.0f}",
            f"{one.total_usd:,.0f}",
            f"{one.times_the_mix:.2f}x",
        )
    return table


def _lever(lever: SavingsOption) -> str:
    if lever.usd is None or lever.saves_usd is None:
        return f"{lever.change}: {lever.what}"
    quality = f" ({lever.quality})" if lever.quality else ""
    return f"{lever.change}: {show(lever.usd, 'USD')}, {lever.what}{quality}"


def _table(*columns: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name, justify in columns:
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    return table
