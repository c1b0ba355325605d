"""How does a diagnosis look? One sentence, then each verdict with its numbers and next step, then what is not known."""

from __future__ import annotations

from tonnage.domain.diagnosis import Diagnosis, Verdict
from tonnage.report.console import lines, make_console
from tonnage.units import show

__all__ = ["show_diagnosis"]

REMEDIES = {
    "code": "Fix the code",
    "settings": "Change a setting",
    "capacity": "Change how many",
    "accelerator": "Change the accelerator",
    "measure": "Measure again",
}
UNITS = {"s", "bytes", "bytes/s", "W", "tokens"}


def show_diagnosis(diagnosis: Diagnosis) -> None:
    """Print a diagnosis."""
    from rich.table import Table

    console = make_console()
    console.print(diagnosis.sentence, markup=False)
    console.print(_about(diagnosis), style="dim", markup=False)
    for verdict in diagnosis.verdicts:
        console.print(f"\n{_title(verdict)}", style="bold", markup=False)
        console.print(f"  {verdict.sentence}", markup=False)
        table = Table(box=None, pad_edge=False)
        for head in ("evidence", "value", "limit", "why this limit"):
            table.add_column(head, justify="right" if head in {"value", "limit"} else "left")
        for fact in verdict.facts:
            limit = "" if fact.limit is None else _value(fact.limit, fact.unit)
            table.add_row(fact.name, _value(fact.value, fact.unit), limit, fact.why or "")
        console.print(table)
        console.print(f"  {REMEDIES[verdict.remedy]}: {verdict.next_step}.", markup=False)
    if diagnosis.plan is not None:
        lines(console, "What would do instead", texts=[diagnosis.plan])
    if diagnosis.plan_command is not None:
        console.print(f"  {diagnosis.plan_command}", style="dim", markup=False)
    lines(
        console,
        "Not known",
        texts=[f"{one.verdict}: needs {one.needs}. To have it: {one.how}." for one in diagnosis.missing],
    )


def _title(verdict: Verdict) -> str:
    return verdict.name[:1].upper() + verdict.name[1:]


def _about(diagnosis: Diagnosis) -> str:
    seen = diagnosis.evidence
    parts = [*diagnosis.sources, seen.engine, seen.accelerator]
    if seen.window_s:
        parts.append(f"{show(seen.window_s, 's')}, {seen.samples} readings")
    if seen.requests:
        parts.append(f"{seen.requests:,.0f} requests")
    if seen.step_s:
        parts.append(f"{seen.samples} steps of {show(seen.step_s, 's')}")
    return " · ".join(part for part in parts if part)


def _value(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value:.1%}" if abs(value) < 0.1 else f"{value:.0%}"
    if unit in UNITS:
        return show(value, unit)
    number = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return number if unit in {"count", "requests"} else f"{number} {unit.replace('degC', '°C')}"
