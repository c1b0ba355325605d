"""A simulation as a person reads it: the sentence, the percentiles, how full it was, then what was assumed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tonnage.domain.case import Latency
from tonnage.domain.simulate import FleetSeen, Occupancy, Simulated
from tonnage.report.console import lines, make_console
from tonnage.units import show

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show_simulation"]

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 60
"""Characters of a line over time."""


def show_simulation(found: Simulated) -> None:
    """Print a simulation."""
    console = make_console()
    console.print(
        found.sentence, style="bold" if found.slo_met is not False and found.fits else "bold red", markup=False
    )
    if found.ttft_s is None:
        lines(console, "Taken as given", texts=list(found.assumed))
        return
    console.print()
    console.print(_latencies(found))
    lines(console, "Rates", texts=_rates(found))
    if found.fleet is not None:
        lines(console, "Replicas", texts=_fleet(found.fleet))
    lines(console, "Over time", texts=_over_time(found.occupancy) if found.occupancy else [])
    if found.capacity is not None:
        c = found.capacity
        lines(console, "Capacity of one replica within the objectives", texts=[
            f"{c.low_per_s:.3g}/s to plan with; {c.rate_per_s:.3g}/s found, at most {c.high_per_s:.3g}/s",
            c.why,
            f"first tokens begin to queue beyond {c.knee_per_s:.3g}/s; {c.simulations} simulations",
        ])  # fmt: skip
    lines(console, "Taken as given", texts=[*found.assumed, *([found.licence] if found.licence else [])])


def _latencies(found: Simulated) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "mean", "p50", "p90", "p95", "p99", "90 % of the mean"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    rows = (
        ("time to first token", found.ttft_s), ("  before its first step", found.queue_s),
        ("time per output token", found.tpot_s), ("between tokens", found.itl_s), ("end to end", found.e2e_s),
    )  # fmt: skip
    for name, latency in rows:
        if latency is not None:
            table.add_row(name, *_cells(latency))
    return table


def _cells(latency: Latency) -> list[str]:
    values = (latency.mean, latency.p50, latency.p90, latency.p95, latency.p99)
    cells = ["" if value is None else show(value, "s") for value in values]
    known = latency.low is not None and latency.high is not None
    return [*cells, f"{show(latency.low, 's')} - {show(latency.high, 's')}" if known else ""]  # type: ignore[arg-type]


def _rates(found: Simulated) -> list[str]:
    said = [
        f"{found.requests:,} requests in {show(found.span_s or 0.0, 's')}: {found.requests_per_s:.3g}/s,"
        f" {found.output_tokens_per_s:,.0f} output tokens/s"
    ]
    if found.goodput_per_s is not None:
        said.append(f"{found.goodput_per_s:.3g}/s met every objective at once")
    if found.cached_share:
        said.append(f"{found.cached_share:.1%} of prompt tokens were in the cache")
    if found.preemptions:
        said.append(f"{found.preemptions:,} preemptions: what had been computed was computed again")
    if found.refused:
        said.append(f"{found.refused:,} requests refused: longer than the cache")
    return said


def _fleet(fleet: FleetSeen) -> list[str]:
    said = [
        f"{fleet.mean_replicas:.3g} of {fleet.replicas} on, on average: {fleet.paid_replica_hours:,.1f} replica-hours,"
        f" {fleet.wasted_share:.0%} less than all of them all the time"
    ]
    if fleet.cold_hits:
        said.append(f"{fleet.cold_hits:,} requests ({fleet.cold_share:.2%}) found none ready and waited for a start")
    return said


def _over_time(seen: Occupancy) -> list[str]:
    rows = (
        ("running", seen.running, ",.0f"), ("waiting", seen.waiting, ",.0f"), ("cache", seen.cache_share, ".0%"),
        ("tokens/s", seen.output_tokens_per_s, ",.0f"),
    )  # fmt: skip
    return [
        f"{name:<9}{_line(values)}  mean {format(sum(values) / len(values), form)}, most {format(max(values), form)}"
        for name, values, form in rows
    ]


def _line(values: tuple[float, ...]) -> str:
    """A line of bars, the highest of each stretch."""
    top = max(values) or 1.0
    size = min(WIDTH, len(values))
    edges = [round(i * len(values) / size) for i in range(size + 1)]
    highest = [max(values[a:b]) for a, b in pairwise(edges)]
    return "".join(BARS[min(len(BARS) - 1, round(value / top * (len(BARS) - 1)))] for value in highest)
