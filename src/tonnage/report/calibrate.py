"""Calibrations and the history of measurements as documents: numbers with their priors, loads before and after."""

from __future__ import annotations

import math

import msgspec

from tonnage.domain.calibration import Calibrated, CalibrationError
from tonnage.domain.measurement import History
from tonnage.report.document import Block, Command, Document, Headline, Note, grid, listed, section
from tonnage.report.names import named
from tonnage.units import show

__all__ = ["calibrated_document", "history_document"]

FIRST_ROWS = 10
"""Loads of the first screen."""

_NUMBERS = (
    ("memory", "what memory bounds"),
    ("compute", "what arithmetic bounds"),
    ("step_s", "host time of a step"),
    ("request_s", "start of a request"),
)
_NINETY = 1.645


def calibrated_document(found: Calibrated, *, path: str = "", own: bool = False) -> Document:
    """A calibration, and where it was written."""
    numbers = []
    for name, said in _NUMBERS:
        value, error = getattr(found.calibration.stretch, name), found.calibration.spread.get(name)
        wide = math.exp(_NINETY * error) if error is not None else 1.0
        numbers.append((said, _value(name, getattr(found.prior, name)), _value(name, value),
                        f"{_value(name, value / wide)} – {_value(name, value * wide)}"))  # fmt: skip
    loads = grid(["model", "load", "quantity", "measured>", "before>", "after>", "left out>"], map(_row, found.errors))
    first: list[Block] = [
        Headline(text=found.sentence),
        grid(["number", "catalogue>", "this stack>", "90 % between>"], numbers),
        msgspec.structs.replace(loads, rows=loads.rows[:FIRST_ROWS]),
    ]
    if path:
        use = "every later answer takes it" if own else f"use it with --calibration {path}"
        first.append(Command(text=f"Written to {path}; {use}."))
    more = len(loads.rows) - FIRST_ROWS
    first.append(Note(text=(f"{more} more loads and n" if more > 0 else "N") + "otes: --why."))
    return named(Document(first=tuple(first), why=(*section("Every load", loads if more > 0 else None),
                                                   *listed("Notes", found.notes))))  # fmt: skip


def _value(name: str, value: float) -> str:
    return show(value, "s") if name.endswith("_s") else f"x{value:.3g}"


def _row(error: CalibrationError) -> tuple[str, ...]:
    measured = show(error.measured, "s") if error.unit == "s" else f"{error.measured:,.3g} tokens/s"
    shares = (error.before, error.after, error.left_out)
    name = {"ttft_s": "TTFT", "tpot_s": "TPOT"}.get(error.quantity, "throughput")
    model = error.model.rpartition("/")[2]
    return (
        model,
        error.load,
        name,
        measured,
        *("–" if x is None else f"{x / error.measured - 1.0:+.0%}" for x in shares),
    )


def history_document(history: History) -> Document:
    """Entries of the history, the latest first."""
    count = len(history.entries)
    rows = [
        (str(entry.id), entry.kind, entry.date, entry.machine, entry.model or "–", entry.subject or "–",
         ", ".join(f"{name} {version}" for name, version in entry.versions.items()))
        for entry in history.entries
    ]  # fmt: skip
    lead = Headline(text=f"{count} measurement{'s' if count != 1 else ''} in {history.place}.")
    table = grid(["no>", "kind", "date", "machine~", "model~", "of~", "versions~"], rows)
    return Document(first=(lead, table) if rows else (lead,))
