"""A training plan as a person reads it: the sentence, the table, then why; and one option opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.domain.answer import Quantity
from tonnage.domain.plan import Bill
from tonnage.domain.train_plan import ScalingPoint, TrainOption, TrainPlan
from tonnage.report.console import lines, make_console
from tonnage.report.lines import flip_text, need_text
from tonnage.report.opened import bill_lines, ending, interval, offer_text, opened, parts_table
from tonnage.report.options_table import Column, options_table
from tonnage.units import show

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["explain_train_plan", "show_train_plan"]

MOST_REJECTIONS = 12
"""Losers named one by one before the rest is counted."""


def show_train_plan(plan: TrainPlan, *, top: int = 8) -> None:
    """Print a plan: one sentence that answers, a table, then reasons, the run, scaling and what was assumed."""
    console = make_console()
    console.print(plan.sentence, style="bold" if plan.feasible else "bold red", markup=False)
    if plan.options:
        best = plan.options[0]
        console.print()
        console.print(_options_table(plan.options[:top], width=console.width))
        lines(
            console, "Why this one, why not the others?", texts=[_why(i, o) for i, o in enumerate(plan.options[:top])]
        )
        if len(plan.options) > top:
            console.print(f"  … and {len(plan.options) - top} more options (--top {len(plan.options)} shows them)")
        lines(console, "Cheaper, at a risk?", texts=[plan.cheaper_at_risk] if plan.cheaper_at_risk else [])
        lines(console, "Cost against time: no other way is both cheaper and faster", texts=_frontier(plan))
        lines(console, "Memory of the fullest accelerator", texts=[_memory(best)])
        lines(console, "One step", texts=[_parts(best.step_s)])
        lines(console, "The run", texts=_run(best))
        lines(console, "Timeline", texts=_timeline(best))
        lines(console, "Host and storage", texts=[need_text(need) for need in best.needs])
        lines(console, "More accelerators?", texts=[plan.stops_paying] if plan.stops_paying else [])
        lines(console, "Spot?", texts=[plan.spot] if plan.spot else [])
    if plan.break_even:
        lines(console, "What would change this?", texts=[flip_text(flip) for flip in plan.break_even])
    lines(console, "Decisions", texts=[f"{d.question} {d.answer}: {d.because}" for d in plan.trail])
    lines(console, "What relaxing one constraint buys", texts=list(plan.relaxing))
    lines(console, f"Cannot do it, or at least twice as dear ({len(plan.rejected)})", texts=_rejections(plan))
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))
    dates = ", ".join(f"{name} {date}" for name, date in sorted(plan.provenance.catalogue.items()))
    console.print(f"\n{plan.evaluated} places searched; {dates}.", style="dim", markup=False)


def explain_train_plan(plan: TrainPlan, *, rank: int = 1) -> None:
    """
    Print what the option of that rank is made of.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    console, option = opened(plan.sentence, plan.options, rank=rank, label=lambda option: option.configuration.label())
    if option is not None:
        console.print("\nOne step", style="bold")
        console.print(parts_table(option.step_s))
        lines(console, "The run", texts=_run(option))
        lines(console, "Timeline", texts=_timeline(option))
        lines(console, "Host and storage", texts=[need_text(need) for need in option.needs])
        console.print("\nCost of the run", style="bold")
        console.print(parts_table(option.cost))
        lines(console, "Bill", texts=_bill(option))
        lines(console, "Other offers", texts=[offer_text(bill) for bill in option.other_offers])
        if rank == 1:
            lines(console, "Scaling", texts=[_point(point) for point in plan.scaling])
    ending(console, plan, losers="Cannot do it")


def _options_table(options: tuple[TrainOption, ...], *, width: int) -> Table:
    return options_table(
        (
            Column("#", tuple(str(rank) for rank, _ in enumerate(options, 1)), True),
            Column("accelerators", tuple(f"{o.accelerators} x {o.configuration.accelerator}" for o in options),
                   wraps=True),
            Column("layout", tuple(o.configuration.degrees() for o in options), wraps=True),
            Column("step", tuple(show(o.step_s.value, "s") for o in options), True, spare=3),
            Column("MFU", tuple(f"{o.mfu:.0%}" for o in options), True, spare=2),
            Column("memory", tuple(f"{o.memory.value / o.limit_bytes:.0%}" for o in options), True, spare=1),
            Column("time", tuple(interval(o.run.wall_s) for o in options), wraps=True),
            Column("cost", tuple(_cost(o.cost) for o in options), wraps=True),
            Column("offer", tuple(_where(o.bill) for o in options), wraps=True),
            Column("basis", tuple(o.basis + ("" if o.sure else ", unsure") for o in options), wraps=True),
        ),
        width=width,
    )  # fmt: skip


def _cost(cost: Quantity) -> str:
    """Value and bounds; from a million on in millions, for a column is narrow and the bill tells the rest."""
    if cost.value < 1e6 or cost.low is None or cost.high is None:
        return interval(cost)
    value, low, high = (f"${each / 1e6:,.3g}M" for each in (cost.value, cost.low, cost.high))
    return f"{value} ({low}-{high})"


def _where(bill: Bill) -> str:
    return f"{bill.provider} {bill.region}, {bill.as_of}{' (old price)' if bill.stale else ''}"


def _why(index: int, option: TrainOption) -> str:
    tie = " [ties with 1 within error]" if option.ties and index else ""
    return f"{index + 1}. {option.verdict}{tie}"


def _frontier(plan: TrainPlan) -> list[str]:
    """Cheapest first; each beside the cheapest: so many times its price, so many times as fast."""
    points = sorted((plan.options[index] for index in plan.frontier), key=lambda option: option.cost.value)
    told = []
    for option in points:
        usd, wall = option.cost.value, option.run.wall_s.value
        sure = "" if option.sure else ", unsure"
        beside = ""
        if option is not points[0]:
            faster = points[0].run.wall_s.value / wall
            beside = f" ({usd / points[0].cost.value:.2f}x the price, {faster:.3g}x as fast)"
        count = f"{option.accelerators} x {option.configuration.accelerator}"
        told.append(f"{show(wall, 's')} for {show(usd, 'USD')}: {count}{beside}{sure}")
    return told


def _memory(option: TrainOption) -> str:
    return f"{interval(option.memory)} of {show(option.limit_bytes, 'bytes')}: {_parts(option.memory)}"


def _parts(quantity: Quantity) -> str:
    return ", ".join(f"{part.name} {show(part.value, quantity.unit)}" for part in quantity.parts)


def _run(option: TrainOption) -> list[str]:
    run, c = option.run, option.configuration
    useful = run.useful_time_fraction
    between = show(run.between_s, "s")
    energy = f", {show(option.energy_wh, 'Wh')} at the accelerators' power limit" if option.energy_wh else ""
    waiting = f", waiting for spot capacity {show(run.waiting_s, 's')}" if run.waiting_s else ""
    return [
        f"{run.steps:,.0f} steps of {c.global_batch:,} x {c.seq_len:,} tokens, {interval(option.step_s)} each: "
        f"{show(run.training_s, 's')}",
        f"validation {show(run.validation_s, 's')}, start {show(run.start_s, 's')}, retries and experiments "
        f"{show(run.headroom_s, 's')}{waiting}; in all {interval(run.wall_s)}, nine runs in ten at most "
        f"{show(run.wall_p90_s, 's')}",
        f"an interruption every {between} ({run.interruptions:.1f} expected), {show(run.recovery_s, 's')} to recover, "
        f"{run.spares} spare instances",
        f"a checkpoint of {show(run.checkpoint_bytes, 'bytes')} every {show(run.checkpoint_interval_s, 's')} blocks "
        f"{show(run.blocking_s, 's')} and is written in {show(run.write_s, 's')}",
        f"useful time {useful.value:.1%} ({useful.low or 0:.1%}-{useful.high or 0:.1%}), nine runs in ten at least "
        f"{run.useful_p90:.1%}",
        f"{_few(option.accelerator_hours)} accelerator hours{energy}",
        *_electricity(option),
    ]


def _few(number: float) -> str:
    """A whole number, or two digits of a small one."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _timeline(option: TrainOption) -> list[str]:
    """Date, and how long after the start."""
    told = []
    for point in option.timeline:
        after = f"+{show(point.after_s, 's')}" if point.after_s else ""
        told.append(f"{point.date}  {after:>10}  {point.what}")
    return told


def _electricity(option: TrainOption) -> list[str]:
    """kWh and CO2 of the run, and of a million tokens trained on."""
    run, c, use = option.run, option.configuration, option.energy
    if option.kwh is None or use is None:
        return []
    millions = run.steps * c.global_batch * c.seq_len / 1e6
    told = (
        f"{show(option.kwh * 1e3, 'Wh')} with hosts and cooling (mean {show(use.power_w, 'W')}, "
        f"{show(use.power_w_low, 'W')}-{show(use.power_w_high, 'W')}, PUE {use.pue:g}), "
        f"{option.kwh / millions:.3g} kWh per million tokens"
    )
    if option.kg_co2 is None:
        return [f"{told}; carbon: the grid of this region is not known"]
    grid = f"{use.grid}, {use.grams_per_kwh:g} g/kWh"
    return [f"{told}; {_few(option.kg_co2)} kg CO2, {option.kg_co2 / millions * 1e3:.3g} g per million ({grid})"]


def _point(point: ScalingPoint) -> str:
    usd = f", {show(point.usd, 'USD')}" if point.usd is not None else ""
    time = f", run {show(point.wall_s, 's')}" if point.wall_s is not None else ""
    return (
        f"{point.kind} {point.count}: step {show(point.step_s, 's')}, {point.tokens_per_s:,.0f} tokens/s, efficiency "
        f"{point.efficiency:.0%}{time}{usd} ({point.layout})"
    )


def _bill(option: TrainOption) -> list[str]:
    bill = option.bill
    billed = show(option.run.billed_s, "s")
    beside = "".join(
        f" + {part.name} {show(part.value, 'USD')}" for part in option.cost.parts if part.name == "storage"
    )
    total = f"{show(bill.usd_per_hour, 'USD/h')} for {billed}{beside} = {interval(option.cost)}"
    return [*bill_lines(bill), total, *([bill.notes] if bill.notes else [])]


def _rejections(plan: TrainPlan) -> list[str]:
    named = [f"{loser.what}: {loser.verdict.reason}" for loser in plan.rejected[:MOST_REJECTIONS]]
    rest = len(plan.rejected) - MOST_REJECTIONS
    return [*named, f"… and {rest} more (all in --json)"] if rest > 0 else named
