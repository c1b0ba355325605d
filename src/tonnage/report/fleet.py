"""A fleet plan as a person reads it: the sentence, instances by the hour, replicas, the bill, checks, other fleets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.domain.fleet_plan import FleetAlternative, FleetCheck, FleetPlan, HourRange
from tonnage.report.console import lines, make_console
from tonnage.report.lines import starving
from tonnage.units import show

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show_fleet_plan"]

DAYS = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")
MOST_RANGES = 7


def show_fleet_plan(plan: FleetPlan, *, top: int = 8) -> None:
    """Print the plan; `top` limits the accelerators that are left out."""
    console = make_console()
    console.print(plan.sentence, style="bold" if plan.feasible else "bold red", markup=False)
    if plan.instances:
        console.print("\nInstances, by the hour", style="bold")
        console.print(_instances(plan))
    if plan.replicas:
        console.print("\nReplicas on them", style="bold")
        console.print(_replicas(plan))
        if any(one.slice for one in plan.replicas):
            console.print(
                "  what slices take is reckoned by their share of the accelerator; no slice has been measured"
            )
    if plan.bill is not None:
        console.print("\nOne month", style="bold")
        console.print(_bill(plan))
    lines(console, "Simulated in its hardest hour", texts=[_check(check) for check in plan.checks])
    lines(console, "Other fleets", texts=[_other(one) for one in plan.alternatives])
    saved = [
        f"{limit.name}: {limit.relaxed} would save {show(limit.saves_usd_per_month, 'USD')} a month"
        for limit in plan.binds
    ]
    lines(console, "What binds", texts=saved)
    needs = [f"{one.workload} on {one.where}: {text}" for one in plan.replicas if (text := starving(one.needs))]
    lines(console, "Hosts that would starve the accelerators", texts=needs)
    lines(console, "Left out", texts=[f"{one.what}: {one.verdict.reason or 'no'}" for one in plan.rejected[:top]])
    if plan.bill is not None:
        looked = f"{plan.evaluated} configurations looked at, {plan.simulated} simulated"
        texts = [f"{looked}; at most {plan.gap:.1%} cheaper by another choice of the same replicas"]
        lines(console, "How sure", texts=texts)
    lines(console, "Taken as given", texts=list(plan.provenance.assumed))


def _instances(plan: FleetPlan) -> Table:
    table = _table(
        ("instance", "left"), ("accelerators", "left"), ("term", "left"), ("$/h each", "right"),
        ("$/month", "right"), ("how many, when", "left"),
    )  # fmt: skip
    for one in plan.instances:
        where = " ".join(word for word in (one.provider, one.instance_type, one.region) if word)
        cpu = one.accelerator.startswith("cpu-")
        what = one.accelerator if cpu else f"{one.accelerators_per_instance:g} x {one.accelerator}"
        table.add_row(
            where, what, one.term, f"{one.usd_per_instance_hour:,.2f}", f"{one.usd_per_month:,.0f}", _when(one.hours)
        )
    return table


def _replicas(plan: FleetPlan) -> Table:
    table = _table(
        ("workload", "left"), ("on", "left"), ("as", "left"), ("each takes", "right"), ("carries", "right"),
        ("replicas, when", "left"),
    )  # fmt: skip
    for one in plan.replicas:
        spot = "" if one.firm else " (spot)"
        run = one.configuration.label().partition(" ")[2] if one.configuration else "virtual cores"
        run = f"slice {one.slice} {run}" if one.slice else run
        takes = " / ".join(f"{rate:.3g}" for rate in one.capacity_per_s)
        carries = " / ".join(f"{share:.0%}" for share in one.carries)
        unit = "/s" if takes else ""
        table.add_row(one.workload, one.where + spot, run, takes + unit, carries, _when(one.hours))
    return table


def _bill(plan: FleetPlan) -> Table:
    assert plan.bill is not None
    table = _table(("line", "left"), ("USD", "right"), ("from", "left"))
    for part in plan.bill.parts:
        table.add_row(part.name, f"{part.value:,.2f}", part.source.partition(":")[0])
    table.add_row("total", f"{plan.bill.value:,.2f}", "", style="bold")
    return table


def _check(check: FleetCheck) -> str:
    hour = f"{DAYS[check.hour // 24 % 7]} " if check.hour >= 24 else ""
    times = [
        f"{name} {show(value, 's')}"
        for name, value in (("TTFT", check.ttft_s), ("TPOT", check.tpot_s))
        if value is not None
    ]
    if not times and check.e2e_s is not None:
        times = [f"answers in {show(check.e2e_s, 's')} on average, reckoned"]
    held = times if not check.requests else [f"p{check.percentile:g} {', '.join(times)}"]
    lost = f" without {check.lost}" if check.lost else ""
    verdict = "holds" if check.meets else "misses"
    plural = "" if check.replicas == 1 else "s"
    return (
        f"{check.workload}{lost}: {verdict} at {hour}{check.hour % 24}:00 with {show(check.rate_per_s, '1/s')} on "
        f"{check.replicas} replica{plural}: {', '.join(held) or 'nothing answered'}"
    )


def _other(one: FleetAlternative) -> str:
    if one.usd_per_month is None:
        return f"{one.name}: {one.what}"
    if one.more is None:
        return f"{one.name}: {show(one.usd_per_month, 'USD')} a month ({one.what})"
    more = one.more
    apart = "no dearer" if more == 0 else "the same within the gap" if abs(more) < 0.005 else f"{more:+.0%}"
    return f"{one.name}: {show(one.usd_per_month, 'USD')} a month, {apart} ({one.what})"


def _when(hours: tuple[HourRange, ...]) -> str:
    """Runs of hours; where they change often, from fewest to most."""
    if len(hours) == 1:
        return f"{hours[0].count:.3g} always"
    if len(hours) > MOST_RANGES:
        counts = [one.count for one in hours]
        mean = sum(one.count * (one.stop - one.start) for one in hours) / hours[-1].stop
        return f"{min(counts):.3g} to {max(counts):.3g}, {mean:.3g} on average"
    return ", ".join(f"{one.count:.3g} at {one.start}-{one.stop}h" for one in hours if one.count)


def _table(*columns: tuple[str, str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name, justify in columns:
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    return table
