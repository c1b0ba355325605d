"""An inference plan as a person reads it: the sentence, the parts that carry the load, how much of them it uses."""

from __future__ import annotations

from collections import Counter

from tonnage.domain.answer import Quantity
from tonnage.domain.infer_plan import InferOption, InferPlan
from tonnage.report.console import lines, make_console
from tonnage.report.lines import starving
from tonnage.units import show

__all__ = ["account_lines", "show_infer_plan"]

UNKNOWN = "–"
MOST_REJECTIONS = 6
SELDOM = 0.1
"""Rates below are said by the hour. [1/s]"""
WHOLE = 10.0
"""Numbers from here on have no decimals."""


def show_infer_plan(plan: InferPlan, *, top: int = 8) -> None:
    """Print a plan: one sentence that answers, a table, then reasons and what was assumed."""
    from rich.table import Table

    console = make_console()
    console.print(plan.sentence, style="bold" if plan.feasible else "bold red", markup=False)
    if plan.options:
        table = Table(box=None, pad_edge=False)
        for head in (
            "#",
            "accelerators",
            "format",
            "engine",
            "batch",
            "each does",
            "used",
            "to an answer",
            "draws",
            "cost",
        ):
            table.add_column(
                head, justify="left" if head in {"accelerators", "format", "engine"} else "right", no_wrap=True
            )
        for place, option in enumerate(plan.options[:top], start=1):
            table.add_row(str(place), *_cells(option))
        console.print()
        console.print(table)
        told = [f"{i}. {o.accelerator}: {o.verdict}" for i, o in enumerate(plan.options[:top], start=1)]
        lines(console, "Why this one, why not the others?", texts=told)
        lines(console, "What the money buys", texts=account_lines(plan.options[0]))
        short = [f"{i}. {text}" for i, o in enumerate(plan.options[:top], start=1) if (text := starving(o.needs))]
        lines(console, "Hosts that would starve the accelerators", texts=short)
    sources = sorted({option.source for option in plan.options[:top] if option.source})
    lines(console, "Decoder rates from", texts=sources)
    lines(console, "A smaller one?", texts=[plan.smaller] if plan.smaller else [])
    counts = Counter(loser.verdict.limit for loser in plan.rejected)
    shown = [f"{loser.what}: {loser.verdict.reason}" for loser in plan.rejected[:MOST_REJECTIONS]]
    if len(plan.rejected) > MOST_REJECTIONS:
        rest = ", ".join(f"{limit} {count}" for limit, count in counts.most_common())
        shown.append(f"… {len(plan.rejected)} in all by reason: {rest}")
    lines(console, f"Cannot do it ({len(plan.rejected)})", texts=shown)
    lines(console, "What relaxing one constraint buys", texts=list(plan.relaxing))
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))


def account_lines(option: InferOption) -> list[str]:
    """The offer with its date; per month, thousand, hour of sound or camera; kWh and CO2."""
    bill, costs, use = option.bill, option.costs, option.energy
    if bill is None or costs is None:
        return []
    old = ", an old price: check it" if bill.stale else ""
    where = " ".join((bill.provider, str(bill.instances), "x", bill.instance_type, bill.region)).strip()
    told = [
        f"{show(bill.usd_per_hour, 'USD/h')} at {where} ({bill.term}, {bill.as_of}{old}): "
        f"${costs.usd_per_month:,.0f} a month of 730 h, without VAT"
    ]
    if costs.usd_per_thousand is not None and costs.usd_per_thousand_full is not None:
        told.append(f"{show(costs.usd_per_thousand, 'USD')} per thousand at this load, "
                    f"{show(costs.usd_per_thousand_full, 'USD')} at full use; at most "
                    f"{show(costs.per_s_per_usd_hour, '1/s')} for each dollar an hour")  # fmt: skip
    if costs.usd_per_audio_hour is not None and costs.usd_per_audio_hour_full is not None:
        told.append(f"{show(costs.usd_per_audio_hour, 'USD')} per hour of audio at this load, "
                    f"{show(costs.usd_per_audio_hour_full, 'USD')} at full use; at most "
                    f"{costs.per_s_per_usd_hour:,.0f} hours of audio for a dollar")  # fmt: skip
    if costs.usd_per_stream_month is not None:
        told.append(f"{show(costs.usd_per_stream_month, 'USD')} a month for each stream")
    if use is not None:
        carbon = "the grid of this region is not known"
        if use.kg_co2_per_month is not None:
            carbon = f"{use.kg_co2_per_month:,.3g} kg CO2 a month ({use.grid}, {use.grams_per_kwh:g} g/kWh)"
        told.append(f"{use.kwh_per_month:,.3g} kWh a month with hosts and cooling; {carbon}")
    return told


def _capacity(found: Quantity) -> str:
    """A rate with its interval; by the hour where samples are seldom."""
    unit, times = ("/h", 3600.0) if found.value < SELDOM else ("/s", 1.0)
    value, low, high = (
        f"{number:,.0f}" if number >= WHOLE else f"{number:.2g}"
        for number in (times * (one or 0.0) for one in (found.value, found.low, found.high))
    )
    return f"{value}{unit} ({low}-{high})"


def _cells(option: InferOption) -> tuple[str, ...]:
    cost = UNKNOWN
    if option.bill is not None:
        cost = show(option.bill.usd_per_hour, "USD/h") + ("*" if option.bill.stale else "")
    elif option.price_usd is not None:
        cost = f"{show(option.price_usd, 'USD')} to buy"
    return (
        f"{option.count} x {option.accelerator}",
        option.precision,
        option.engine,
        str(option.batch),
        _capacity(option.capacity_per_s),
        f"{option.used:.0%}",
        show(option.latency_s.value, "s"),
        show(option.power_w, "W") if option.power_w is not None else UNKNOWN,
        cost,
    )
