"""How does a measurement look? One sentence that answers, a table of the loads, then what to know."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tonnage.domain.measurement import Capacity, DeviceMeasurement, Latency, Measurement, Point
from tonnage.domain.train_measurement import TrainBudget
from tonnage.domain.workload import Slo
from tonnage.report.console import lines, make_console
from tonnage.units import show

__all__ = [
    "budget_sentence",
    "capacity_sentence",
    "progress_line",
    "sentence",
    "show_capacity",
    "show_device",
    "show_measurement",
]

UNKNOWN = "–"


def sentence(measurement: Measurement) -> str:
    """The answer in one sentence."""
    if not measurement.points:
        return "Nothing was measured."
    knee = measurement.knee
    if knee is not None:
        unit = "requests/s offered" if knee.by == "rate" else "requests at once"
        tokens = f", {knee.output_tokens_per_s:,.0f} output tokens/s" if knee.output_tokens_per_s is not None else ""
        above = (
            f"; at {knee.first_bad:g} {knee.reason}" if knee.first_bad is not None else "; no load tried is too much"
        )
        turns = (
            f" Beyond about {knee.turns_at:.2g} at once requests mostly wait for each other." if knee.turns_at else ""
        )
        return f"Sustains {knee.level:.4g} {unit}: {knee.requests_per_s:.3g} requests/s answered{tokens}{above}.{turns}"
    best = max(measurement.points, key=lambda point: point.requests_per_s or 0.0)
    if not best.completed:
        return f"No request was answered: {_failures(best)}."
    parts = [f"{best.completed:,} requests answered at {_load(best)}"]
    if best.output_tokens_per_s is not None:
        parts.append(f"{best.output_tokens_per_s:,.0f} output tokens/s")
    for name, found in (("TTFT", best.ttft_s), ("TPOT", best.tpot_s)):
        if found is not None:
            rank, value = ("p95", found.p95) if found.p95 is not None else ("p99", found.p99)
            parts += [f"{rank} {name} {show(value, 's')}"] if value is not None else []
    failed = f"; {_failures(best)}" if best.failures else ""
    return ", ".join(parts) + failed + "."


def show_measurement(measurement: Measurement) -> None:
    """Print a measurement."""
    from rich.table import Table

    console = make_console()
    console.print(sentence(measurement), markup=False)
    about = " · ".join(
        text for text in (measurement.model, measurement.url, _tool(measurement), measurement.date) if text
    )
    console.print(about, style="dim", markup=False)
    columns = [(head, cell) for head, cell in _COLUMNS if any(cell(point) for point in measurement.points)]
    table = Table(box=None, pad_edge=False)
    for head, _ in columns:
        table.add_column(head, justify="right" if head != "load" else "left", no_wrap=True)
    for point in measurement.points:
        table.add_row(*(cell(point) or UNKNOWN for _, cell in columns))
    console.print()
    console.print(table)
    wanted = _slo(measurement.slo)
    lines(console, "Objectives", texts=[wanted] if wanted else [])
    notes = [f"Load {point.level:g} stopped: {point.stopped}" for point in measurement.points if point.stopped]
    notes += [f"Load {point.level:g}: {_failures(point)}" for point in measurement.points if point.failures]
    lines(console, "To know", texts=[*notes, *measurement.notes])


def _tool(measurement: Measurement) -> str:
    return f"{measurement.tool} {measurement.tool_version or ''}".strip()


def _load(point: Point) -> str:
    if point.rate_per_s is not None:
        return f"{point.rate_per_s:.4g}/s"
    return f"{point.concurrency:g} at once" if point.concurrency is not None else "an unknown load"


def _failures(point: Point) -> str:
    return ", ".join(f"{count} failed: {kind}" for kind, count in point.failures.items())


def _slo(slo: Slo) -> str:
    limits = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s))
    said = [f"{name} <= {show(limit, 's')}" for name, limit in limits if limit is not None]
    return f"p{slo.percentile:g} " + ", ".join(said) if said else ""


def _number(value: float | None, form: str | None = None) -> str:
    return "" if value is None else f"{value:{form}}" if form else _three(value)


def _three(value: float) -> str:
    """Three significant digits, never an exponent."""
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def _ms(found: Latency | None, names: Sequence[str]) -> str:
    """The statistics in milliseconds, one unit for the whole column."""
    values = [None if found is None else getattr(found, name) for name in names]
    if all(value is None for value in values):
        return ""
    return "/".join(UNKNOWN if value is None else _three(value * 1e3) for value in values)


_RANKS = ("p50", "p95", "p99")

_COLUMNS: tuple[tuple[str, Callable[[Point], str]], ...] = (
    ("load", _load),
    ("done", lambda point: f"{point.completed:,}"),
    ("failed", lambda point: f"{point.failed:,}" if point.failed else ""),
    ("req/s", lambda point: _number(point.requests_per_s)),
    ("good/s", lambda point: _number(point.goodput_per_s)),
    ("out tok/s", lambda point: _number(point.output_tokens_per_s, ",.0f")),
    ("in / out tok", lambda p: f"{_number(p.prompt_tokens, '.0f') or UNKNOWN} / "
     f"{_number(p.output_tokens, '.0f') or UNKNOWN}"),
    ("TTFT p50/95/99 ms", lambda point: _ms(point.ttft_s, _RANKS)),
    ("TPOT p50/95/99 ms", lambda point: _ms(point.tpot_s, _RANKS)),
    ("ITL p50/95/99 ms", lambda point: _ms(point.itl_s, _RANKS)),
    ("E2E p50/95/99 ms", lambda point: _ms(point.e2e_s, _RANKS)),
    ("own delay ms", lambda p: "" if p.client_delay_s is None else f"{p.client_delay_s * 1e3:.2f}"),
)  # fmt: skip


def progress_line(point_load: str, *, done: int, failed: int) -> str:
    """What stands on stderr while a load runs."""
    return f"{point_load}: {done:,} done" + (f", {failed:,} failed" if failed else "")


def capacity_sentence(capacity: Capacity) -> str:
    """The answer in one sentence."""
    spare = f", {capacity.spare} of them spare" if capacity.spare else ""
    noun = "replica" if capacity.replicas == 1 else "replicas"
    return (
        f"{capacity.replicas} {noun}{spare}, for a peak of {capacity.peak_per_s:.4g} requests/s: one sustains "
        f"{capacity.sustained_per_s:.4g} as measured, {capacity.usable_per_s:.4g} with "
        f"{capacity.headroom:.0%} kept free."
    )


def show_capacity(capacity: Capacity) -> None:
    """Print replicas for a load."""
    console = make_console()
    console.print(capacity_sentence(capacity), markup=False)
    lines(console, "Why", texts=list(capacity.reasons))


def budget_sentence(budget: TrainBudget) -> str:
    """The answer in one sentence."""
    noun = "accelerator" if budget.devices == 1 else "accelerators"
    late = "" if budget.fits_deadline in {None, True} else " That is later than the deadline."
    whole, alone = show(budget.total_s, "s"), show(budget.run_s, "s")
    return (
        f"{budget.accelerator_hours:,.4g} accelerator-hours: {budget.devices:,} {noun} for {whole}, of which the run "
        f"alone takes {budget.run_accelerator_hours:,.4g} in {alone} "
        f"({budget.steps:,} steps of {show(budget.step_s, 's')}).{late}"
    )


def show_budget(budget: TrainBudget) -> None:
    """Print accelerator-hours and their timeline."""
    from rich.table import Table

    console = make_console()
    console.print(budget_sentence(budget), markup=False)
    table = Table(box=None, pad_edge=False)
    for head in ("phase", "from", "to", "accelerator-hours"):
        table.add_column(head, justify="right" if head == "accelerator-hours" else "left", no_wrap=True)
    for phase in budget.phases:
        begin, end = phase.begin or show(phase.begin_s, "s"), phase.end or show(phase.end_s, "s")
        table.add_row(phase.name, begin.replace("T", " "), end.replace("T", " "), _three(phase.accelerator_hours))
    console.print()
    console.print(table)
    lines(console, "Why", texts=list(budget.reasons))


def show_device(found: DeviceMeasurement, *, path: str) -> None:
    """Print the microbenchmarks of a device, and where they went."""
    from rich.table import Table

    console = make_console()
    best = max((rate for rate in found.rates if rate.name == "product"), key=lambda rate: rate.value)
    threads = f" on {found.threads} thread{'s' if found.threads != 1 else ''}" if found.threads else ""
    console.print(
        f"{found.name}{threads} multiplies at up to {show(best.value, 'FLOP/s')} ({best.dtype}) and copies at "
        f"{show(found.best('copy') or 0.0, 'bytes/s')}.",
        markup=False,
    )
    table = Table(box=None, pad_edge=False)
    for head in ("benchmark", "format", "of", "best", "runs"):
        table.add_column(head, justify="right" if head in {"best", "runs"} else "left", no_wrap=True)
    for rate in found.rates:
        table.add_row(
            rate.name, rate.dtype or UNKNOWN, rate.shape, show(rate.value, rate.unit), f"{rate.repetitions:,}"
        )
    console.print()
    console.print(table)
    console.print(f"\nWritten to {path}; ask about it: --additions {path} --accelerator {found.id}", markup=False)
