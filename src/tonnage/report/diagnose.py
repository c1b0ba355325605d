"""How does a diagnosis look? One sentence, then each verdict with its numbers and next step, then what is not known."""

from __future__ import annotations

from tonnage.domain.diagnosis import Diagnosis, Verdict
from tonnage.report.document import Command, Document, Headline, Note, Section, blocks, grid, sections
from tonnage.units import show

REMEDIES = {
    "code": "Fix the code",
    "settings": "Change a setting",
    "capacity": "Change how many",
    "accelerator": "Change the accelerator",
    "measure": "Measure again",
}
FINDINGS = 3
"""Findings of the first screen."""
UNITS = {"s", "bytes", "bytes/s", "W", "tokens"}


def diagnosis_document(diagnosis: Diagnosis, *, most: int | None = None) -> Document:
    """A diagnosis as blocks: each finding with its next step; under --why its evidence and what is not known."""
    shown = diagnosis.verdicts[: most or FINDINGS]
    more = len(diagnosis.verdicts) - len(shown)
    first = blocks(
        Headline(diagnosis.sentence),
        Note(_about(diagnosis)),
        grid(
            ["finding~", "evidence~", "next step~"],
            [(_title(v), _strongest(v), f"{REMEDIES[v.remedy]}: {v.next_step}") for v in shown],
        ),
        f"Instead: {diagnosis.plan}" if diagnosis.plan is not None else None,
        Command(diagnosis.plan_command) if diagnosis.plan_command is not None else None,
        Note(hint=(f"{more} more findings: --all. " if more else "") + "Evidence, what is not known: --why."),
    )
    missing = [f"{one.verdict}: needs {one.needs}. To have it: {one.how}." for one in diagnosis.missing]
    return Document(first, blocks(map(_finding, diagnosis.verdicts), sections({"Not known": missing})))


def _strongest(verdict: Verdict) -> str:
    """The fact that a finding rests on first."""
    if not verdict.facts:
        return ""
    fact = verdict.facts[0]
    limit = "" if fact.limit is None else f" (limit {_value(fact.limit, fact.unit)})"
    return f"{fact.name} {_value(fact.value, fact.unit)}{limit}"


def _finding(verdict: Verdict) -> Section:
    rows = [
        (
            fact.name,
            _value(fact.value, fact.unit),
            "" if fact.limit is None else _value(fact.limit, fact.unit),
            fact.why or "",
        )
        for fact in verdict.facts
    ]
    table = grid(["evidence~", "value>", "limit>", "why this limit~"], rows)
    step = f"{REMEDIES[verdict.remedy]}: {verdict.next_step}."
    return Section(_title(verdict), blocks(verdict.sentence, table, step))


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
    return " · ".join(filter(None, parts))


def _value(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value:.1%}" if abs(value) < 0.1 else f"{value:.0%}"
    if unit in UNITS:
        return show(value, unit)
    number = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return number if unit in {"count", "requests"} else f"{number} {unit.replace('degC', '°C')}"
