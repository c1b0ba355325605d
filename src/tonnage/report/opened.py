"""What every opened option of a plan begins and ends with, whichever kind of plan it is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import Bill, Provenance, ServePlan
from tonnage.domain.train_plan import TrainPlan
from tonnage.errors import BadRequest
from tonnage.report.console import lines, make_console
from tonnage.units import show

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "bill_lines",
    "chosen",
    "ending",
    "interval",
    "made_line",
    "offer_text",
    "opened",
    "opening",
    "parts_table",
]

Option = TypeVar("Option")


class _Judged(Protocol):
    """What every option of a plan that can be opened has."""

    @property
    def verdict(self) -> str: ...
    @property
    def memory(self) -> Quantity: ...


Judged = TypeVar("Judged", bound=_Judged)


def opened(
    sentence: str, options: tuple[Judged, ...], *, rank: int, label: Callable[[Judged], str]
) -> tuple[Console, Judged | None]:
    """
    Print the answer, then the option of that rank with its memory; None where the plan has no option at all.

    Raises
    ------
    BadRequest
        The plan has options, but none of that rank.
    """
    console = make_console()
    console.print(sentence, style="bold", markup=False)
    if not options:
        return console, None
    option = chosen(options, rank)
    opening(console, label(option), rank=rank, verdict=option.verdict)
    console.print("\nMemory of one accelerator", style="bold")
    console.print(parts_table(option.memory))
    return console, option


def chosen(options: tuple[Option, ...], rank: int) -> Option:
    """
    The option of that rank, counted from one.

    Raises
    ------
    BadRequest
        The plan has no such option.
    """
    if rank > len(options):
        raise BadRequest(f"option {rank}: the plan has {len(options)}; choose 1 to {len(options)}")
    return options[rank - 1]


def opening(console: Console, label: str, *, rank: int, verdict: str) -> None:
    """Which option it is, and why it stands where it does."""
    console.print(f"\nOption {rank}: {label}", style="bold", markup=False)
    console.print(f"  {verdict}", markup=False)


def ending(console: Console, plan: ServePlan | TrainPlan, *, losers: str) -> None:
    """Decisions, who cannot do it, what is taken as given, and when it was made from which data."""
    lines(console, "Decisions", texts=[f"{d.question} {d.answer}: {d.because}" for d in plan.trail])
    lines(console, losers, texts=[f"{loser.what}: {loser.verdict.reason}" for loser in plan.rejected])
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))
    made_line(console, plan.provenance)


def made_line(console: Console, made: Provenance) -> None:
    """When it was made, by which version, from which data."""
    dates = ", ".join(f"{name} {date}" for name, date in sorted(made.catalogue.items()))
    told = f"; {dates}" if dates else ""
    console.print(f"\nMade {made.made} by tonnage {made.version}{told}.", style="dim", markup=False)


def bill_lines(bill: Bill) -> list[str]:
    """What the hourly price is made of."""
    return [
        f"{line.name} at {show(bill.usd_per_instance_hour, 'USD/h')} = {show(line.value, 'USD/h')} ({line.source})"
        for line in bill.lines
    ]


def offer_text(bill: Bill) -> str:
    """Another way to rent the same."""
    old = " (old price)" if bill.stale else ""
    where = f"{bill.provider} {bill.instances} x {bill.instance_type} {bill.region}".strip()
    return f"{where}: {show(bill.usd_per_hour, 'USD/h')} {bill.term}, {bill.as_of}{old}"


def parts_table(quantity: Quantity) -> Table:
    """A sum with its parts: each with its share, its basis, and where it comes from."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("part", quantity.unit, "share", "basis", "from"):
        table.add_column(name, justify="right" if name in {quantity.unit, "share"} else "left")
    for part in quantity.parts:
        share = f"{part.value / quantity.value:.1%}" if quantity.value else ""
        table.add_row(part.name, show(part.value, quantity.unit), share, str(part.basis), part.source)
    table.add_row("total", interval(quantity), "", str(quantity.basis), "", style="bold")
    return table


def interval(quantity: Quantity) -> str:
    """A value and, where it is known, its interval."""
    value = show(quantity.value, quantity.unit)
    if quantity.low is None or quantity.high is None:
        return value
    low, high = show(quantity.low, quantity.unit, digits=2), show(quantity.high, quantity.unit, digits=2)
    return f"{value} ({low}-{high})"
