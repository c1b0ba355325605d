"""A serving plan as a person reads it: the sentence, the table, then why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.domain.answer import Quantity
from tonnage.domain.fleet import FleetDay, FleetWay
from tonnage.domain.plan import Bill, ServeOption, ServePlan
from tonnage.report.console import lines, make_console
from tonnage.report.lines import account_texts, flip_text, starving
from tonnage.report.options_table import Column, options_table
from tonnage.units import show

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["show_plan"]

WIDE = 118
"""Columns of a terminal from which on the table has room for intervals; `explain` has them."""

MOST_REJECTIONS = 12
"""Losers named one by one before the rest is counted."""


def show_plan(plan: ServePlan, *, top: int = 8) -> None:
    """Print a plan: one sentence that answers, a table, then reasons, the trail and what was assumed."""
    console = make_console()
    console.print(plan.sentence, style="bold" if plan.feasible else "bold red", markup=False)
    if plan.options:
        console.print()
        console.print(_options_table(plan.options[:top], width=console.width))
        if any(option.capacity.simulated is None for option in plan.options[:top]):
            console.print("  ~ estimated by averages, not simulated", style="dim", markup=False)
        if any(option.bill.stale for option in plan.options[:top]):
            console.print("  * a price older than 90 days: check it before you count on it", style="dim", markup=False)
        lines(
            console, "Why this one, why not the others?", texts=[_why(i, o) for i, o in enumerate(plan.options[:top])]
        )
        if len(plan.options) > top:
            console.print(f"  … and {len(plan.options) - top} more options (--top {len(plan.options)} shows them)")
    lines(console, "What the money buys", texts=account_texts(plan.options[0]) if plan.options else [])
    lines(console, "Cheaper, at a risk?", texts=[plan.cheaper_at_risk] if plan.cheaper_at_risk else [])
    lines(console, "Why not fewer?", texts=[plan.why_not_fewer] if plan.why_not_fewer else [])
    if plan.sizes:
        chosen = [f"{c.name}: {_count(c.accelerators)}, ${c.usd_per_hour:,.2f}/h, {c.covers}" for c in plan.sizes]
        lines(console, "How much room?", texts=chosen)
    lines(console, "Prefill and decode apart", texts=[plan.pools.sentence] if plan.pools else [])
    if plan.day is not None:
        _show_day(console, plan.day)
    if plan.break_even:
        lines(console, "What would change this?", texts=[flip_text(flip) for flip in plan.break_even])
    short = [f"{i + 1}. {text}" for i, o in enumerate(plan.options[:top]) if (text := starving(o.needs))]
    lines(console, "Hosts that would starve the accelerators", texts=short)
    lines(console, "What fewer bits cost in quality", texts=[change.told for change in plan.quality])
    lines(console, "Decisions", texts=[f"{d.question} {d.answer}: {d.because}" for d in plan.trail])
    lines(console, "What relaxing one constraint buys", texts=list(plan.relaxing))
    lines(console, f"Cannot serve it ({len(plan.rejected)})", texts=_rejections(plan))
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))
    dates = "".join(f"; {name} {date}" for name, date in sorted(plan.provenance.catalogue.items()))
    looked = f"{plan.evaluated} configurations looked at, {plan.simulated} of them simulated"
    console.print(f"\n{looked}{dates}.", style="dim", markup=False)


def _show_day(console: Console, day: FleetDay) -> None:
    ways = [*map(_way, day.ways), f"cheapest that meets the objectives: {day.best}"]
    lines(console, f"While the load varies ({day.shape})", texts=ways)
    lines(console, "How?", texts=[
        *(f"{way.name}: {way.arithmetic}{'; ' + way.note if way.note else ''}" for way in day.ways),
        f"a start takes {show(day.cold_start.value, 's')}: "
        + " + ".join(f"{part.name} {show(part.value, 's')}" for part in day.cold_start.parts),
        f"following the load saves {day.wasted_share:.0%} of what the peak costs; the fleet for the peak leaves "
        f"{day.valleys.replica_hours_per_day:,.1f} replica-hours a day free (${day.valleys.usd_per_day:,.2f}): "
        f"{day.valleys.output_tokens_per_day / 1e6:,.3g}M output tokens of batch work",
    ])  # fmt: skip


def _way(way: FleetWay) -> str:
    replicas = f"{way.replicas_mean:.3g} replica{'' if way.replicas_mean == 1 else 's'} on average"
    cold = f", {way.cold_share:.2%} of requests wait for a start" if way.cold_share else ""
    missed = "" if way.meets else ", misses the objectives"
    return f"{way.name}: {replicas}, ${way.usd_per_hour:,.2f}/h, ${way.usd_per_month:,.0f} a month{cold}{missed}"


def _count(accelerators: int) -> str:
    return f"{accelerators} accelerator{'' if accelerators == 1 else 's'}"


def _options_table(options: tuple[ServeOption, ...], *, width: int) -> Table:
    shown = _interval if width >= WIDE else _value
    configurations = [option.configuration for option in options]
    return options_table(
        (
            Column("#", tuple(f"{i}{'' if o.capacity.simulated else '~'}" for i, o in enumerate(options, 1)), True),
            Column("accelerators", tuple(f"{o.accelerators} x {o.configuration.accelerator}" for o in options),
                   wraps=True),
            Column("layout", tuple(f"{_layout(o)} {c.precision.weights}"
                                   for o, c in zip(options, configurations, strict=True)), wraps=True),
            Column("TTFT", tuple(shown(o.capacity.ttft_s) for o in options)),
            Column("TPOT", tuple(shown(o.capacity.tpot_s) for o in options)),
            Column("free", tuple(f"{o.headroom:.0%}" for o in options), True, spare=2),
            Column("$/h", tuple(f"{o.bill.usd_per_hour:,.2f}" for o in options), True),
            Column("$/1M out", tuple(f"{o.usd_per_million_output_tokens:,.2f}" for o in options), True, spare=3),
            Column("offer", tuple(_offer(o.bill) for o in options), wraps=True),
            Column("basis", tuple(o.basis + ("" if o.sure else ", unsure") for o in options), wraps=True, spare=1),
        ),
        width=width,
    )  # fmt: skip


def _offer(bill: Bill) -> str:
    return f"{bill.provider} {bill.region}, {bill.as_of}{'*' if bill.stale else ''}"


def _layout(option: ServeOption) -> str:
    layout = option.configuration.layout
    degrees = [f"{name}{n}" for name in ("tp", "pp", "dp", "ep") if (n := getattr(layout, name)) > 1]
    return f"{option.replicas} x {' '.join(degrees) or 'tp1'}"


def _value(quantity: Quantity) -> str:
    return show(quantity.value, "s")


def _interval(quantity: Quantity) -> str:
    """Value and bounds in one unit: "27 (22-34) ms"."""
    factor, unit = (1.0, "s") if quantity.value >= 1 else (1e3, "ms")
    value = f"{quantity.value * factor:.2g}" if factor == 1.0 else f"{quantity.value * factor:.0f}"
    if quantity.low is None or quantity.high is None:
        return f"{value} {unit}"
    low, high = (f"{bound * factor:.{1 if factor == 1.0 else 0}f}" for bound in (quantity.low, quantity.high))
    return f"{value} ({low}-{high}) {unit}"


def _why(index: int, option: ServeOption) -> str:
    tie = " [ties with 1 within error]" if option.ties and index else ""
    return f"{index + 1}. {option.verdict}{tie}"


def _rejections(plan: ServePlan) -> list[str]:
    named = [f"{loser.what}: {loser.verdict.reason}" for loser in plan.rejected[:MOST_REJECTIONS]]
    rest = len(plan.rejected) - MOST_REJECTIONS
    return [*named, f"… and {rest} more (all in --json)"] if rest > 0 else named
