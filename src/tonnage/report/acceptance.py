"""An acceptance as a document: the verdict, the findings nearest to failing, what was reached."""

from __future__ import annotations

import statistics
from typing import Final

from tonnage.domain.acceptance import Acceptance
from tonnage.report.document import Document, Headline, Note, document, grid
from tonnage.report.wording import money
from tonnage.units import percent, show

TOP: Final = 10
"""Rows of a first screen."""


def acceptance_document(found: Acceptance) -> Document:
    """Whether what was tried is as good as good ones: the verdict, every finding, what was reached."""
    rows = [
        (
            one.what,
            show(one.value, one.unit),
            show(one.expected, one.unit),
            percent(-one.short, 1, sign="+"),
            percent(one.allowed, 1),
            one.verdict,
            one.against,
        )
        for one in sorted(found.findings, key=lambda one: one.allowed - one.short)
    ]
    reached = [
        (
            probe.name,
            probe.of,
            str(len(probe.rounds)),
            show(statistics.median(map(statistics.median, probe.rounds)), probe.unit),
        )
        for probe in found.probes
    ]
    paid = f"{found.count} x {found.name}"
    if found.usd_per_month is not None:
        paid += f", {money(found.usd_per_month)}/month"
    return document(
        Headline(found.sentence, details=(paid,), good=found.feasible),
        grid(["rate", "reached>", "expected>", "off>", "may be>", "verdict", "against~"], rows[:TOP]),
        grid(["probe", "of", "devices>", "median>"], reached),
        map(Note, (*(f"Not good: {why}." for why in found.reasons), *found.notes)),
        Note(hint=f"{len(rows)} findings, {found.duration_s / 60:.1f} min; all: --why. The workload: measure serve."),
        why={"Every finding": grid(["rate", "reached>", "expected>", "off>", "may be>", "verdict", "against~"], rows)},
    )
