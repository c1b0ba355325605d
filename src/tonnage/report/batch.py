"""A batch plan as a person reads it: the sentence, the ways to finish in time, what haste costs, what spot risks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption, BatchPlan, TradeOff
from tonnage.domain.plan import Bill
from tonnage.report.console import lines, make_console
from tonnage.report.lines import flip_text, need_text, starving
from tonnage.report.opened import chosen, made_line, opening, parts_table
from tonnage.report.options_table import Column, options_table
from tonnage.units import show

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["explain_batch_plan", "show_batch_plan"]

MOST_REJECTIONS = 12
"""Losers named one by one before the rest is counted."""


def show_batch_plan(plan: BatchPlan, *, top: int = 8) -> None:
    """Print a plan: one sentence that answers, a table, the frontier, then reasons and what was assumed."""
    console = make_console()
    console.print(plan.sentence, style="bold" if plan.feasible else "bold red", markup=False)
    if plan.options:
        console.print()
        console.print(_options_table(plan.options[:top], width=console.width))
        told = [f"{i + 1}. {o.verdict}{' [ties with 1]' if o.ties else ''}" for i, o in enumerate(plan.options[:top])]
        lines(console, "Why this one, why not the others?", texts=told)
        if len(plan.options) > top:
            console.print(f"  … and {len(plan.options) - top} more options (--top {len(plan.options)} shows them)")
    if plan.frontier:
        console.print("\nWhat haste costs: no other way is both cheaper and faster", style="bold")
        console.print(_frontier_table(plan.frontier))
    lines(console, "Dearer but faster? One accelerator against one", texts=list(plan.card_for_card))
    lines(console, "Spot or on-demand?", texts=[plan.spot_against] if plan.spot_against else [])
    if plan.break_even:
        lines(console, "What would change this?", texts=[flip_text(flip) for flip in plan.break_even])
    short = [f"{i + 1}. {text}" for i, o in enumerate(plan.options[:top]) if (text := starving(o.needs))]
    lines(console, "Hosts that would starve the accelerators", texts=short)
    lines(console, "What fewer bits cost in quality", texts=[change.told for change in plan.quality])
    lines(console, "What relaxing one constraint buys", texts=list(plan.relaxing))
    lines(console, f"Cannot do it ({len(plan.rejected)})", texts=_rejections(plan))
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))
    dates = ", ".join(f"{name} {date}" for name, date in sorted(plan.provenance.catalogue.items()))
    console.print(f"\n{plan.evaluated} configurations looked at; {dates}.", style="dim", markup=False)


def explain_batch_plan(plan: BatchPlan, *, rank: int = 1) -> None:
    """
    Print what the option of that rank is made of; a plan without options shows why.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    console = make_console()
    if not plan.options:
        show_batch_plan(plan)
        return
    option = chosen(plan.options, rank)
    console.print(plan.sentence, style="bold", markup=False)
    opening(console, option.configuration.label(), rank=rank, verdict=option.verdict)
    console.print("\nCost of the job", style="bold")
    console.print(parts_table(option.cost))
    console.print("\nMemory of one accelerator", style="bold")
    console.print(parts_table(option.memory))
    lines(console, "Time", texts=_time(plan, option))
    lines(console, "Electricity and carbon", texts=_energy(option))
    lines(console, "What the host must bring", texts=[need_text(need) for need in option.needs])
    lines(console, "From", texts=[*option.sources, *(option.energy.sources if option.energy else ())])
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))
    made_line(console, plan.provenance)


def _options_table(options: tuple[BatchOption, ...], *, width: int) -> Table:
    return options_table(
        (
            Column("#", tuple(str(rank) for rank, _ in enumerate(options, 1)), True),
            Column("accelerators", tuple(f"{o.accelerators} x {o.configuration.accelerator}" for o in options),
                   wraps=True),
            Column("layout", tuple(f"{o.replicas} x {_degrees(o)} {o.configuration.precision.weights}"
                                   for o in options), wraps=True),
            Column("time", tuple(_interval(o.wall_s) for o in options), wraps=True),
            Column("cost", tuple(_interval(o.cost) for o in options), wraps=True),
            Column("$/1k items", tuple(f"{o.usd_per_thousand_items:,.4g}" for o in options), True, spare=1),
            Column("$/1M out", tuple(f"{o.usd_per_million_output_tokens:,.3g}" for o in options), True, spare=2),
            Column("kWh", tuple("" if o.kwh is None else f"{o.kwh:,.0f}" for o in options), True, spare=3),
            Column("kg CO2", tuple("" if o.kg_co2 is None else f"{o.kg_co2:,.0f}" for o in options), True, spare=4),
            Column("offer", tuple(_offer(o.bill) for o in options), wraps=True),
            Column("basis", tuple(o.basis + ("" if o.sure else ", unsure") for o in options), wraps=True),
        ),
        width=width,
    )  # fmt: skip


def _offer(bill: Bill) -> str:
    where = f"{bill.provider} {bill.instances} x {bill.instance_type} {bill.region}, {bill.term}, {bill.as_of}"
    return where + (" (old price)" if bill.stale else "")


def _frontier_table(frontier: tuple[TradeOff, ...]) -> Table:
    table = _table(
        ("time", "right"), ("cost", "right"), ("price", "right"), ("speed", "right"), ("accelerators", "left"),
        ("term", "left"), ("configuration", "left"),
    )  # fmt: skip
    for point in frontier:
        table.add_row(
            show(point.wall_s, "s"),
            show(point.usd, "USD"),
            f"{point.times_the_price:.2f}x",
            f"{point.times_faster:,.3g}x",
            str(point.accelerators),
            point.term,
            point.label,
        )
    return table


def _time(plan: BatchPlan, option: BatchOption) -> list[str]:
    each, wall = option.items_per_s, option.wall_s
    told = [
        f"{option.replicas} replicas x {_interval(each)} = {show(option.replicas * each.value, '1/s')}",
        f"{show(option.start_s, 's')} until the first token; each instance is charged {option.billed_hours:,.2f} h",
        f"done after {_interval(wall)}",
    ]
    if option.useful < 1:
        told.append(
            f"{option.useful:.1%} of its running time is useful; capacity is there {option.available:.0%} of the time"
        )
    if plan.request.deadline_s is not None:
        told.append(f"allowed: {show(plan.request.deadline_s, 's')}")
    return told


def _energy(option: BatchOption) -> list[str]:
    if option.kwh is None or option.energy is None:
        return ["the accelerator's power is not published"]
    carbon = "the grid of this region is not known" if option.kg_co2 is None else f"{option.kg_co2:,.1f} kg CO2"
    return [f"{option.kwh:,.1f} kWh at {show(option.energy.power_w, 'W')} with PUE {option.energy.pue:g}; {carbon}"]


def _degrees(option: BatchOption) -> str:
    layout = option.configuration.layout
    return " ".join(f"{name}{n}" for name in ("tp", "pp", "dp", "ep") if (n := getattr(layout, name)) > 1) or "tp1"


def _interval(quantity: Quantity) -> str:
    value = show(quantity.value, quantity.unit)
    if quantity.low is None or quantity.high is None:
        return value
    return f"{value} ({show(quantity.low, quantity.unit)}-{show(quantity.high, quantity.unit)})"


def _rejections(plan: BatchPlan) -> list[str]:
    named = [f"{loser.what}: {loser.verdict.reason}" for loser in plan.rejected[:MOST_REJECTIONS]]
    rest = len(plan.rejected) - MOST_REJECTIONS
    return [*named, f"… and {rest} more (all in --json)"] if rest > 0 else named


def _table(*columns: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name, justify in columns:
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    return table
