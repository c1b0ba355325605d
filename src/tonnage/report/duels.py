"""How does another program look beside ours? For a terminal: every figure and source, losses as loud as wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.domain.accuracy import Duel

__all__ = ["duel_rows", "duel_sentence"]

HEADER: Final = ("figure", "source", "numbers", "theirs", "ours, source out", "ours, family out", "ours, as shipped",
                 "nearer", "their cover", "note")  # fmt: skip
MEAN: Final = "mean"


def duel_rows(lines: Sequence[Duel]) -> list[tuple[str, ...]]:
    """Header and one row for each figure and source; none without numbers that both predict."""
    return [HEADER, *(_row(line) for line in lines)] if lines else []


def duel_sentence(name: str, lines: Sequence[Duel]) -> str:
    """Who is nearer in how many groups, on equal terms: left out against not fitted, as shipped against fitted."""
    judged = [line for line in lines if line.source != MEAN]
    lost = sum(_ours(line) > line.theirs for line in judged)
    fitted = sum(line.theirs_fitted for line in judged)
    said = (
        f"{name}: nearer than ours in {lost} of {len(judged)} groups (figure x source), further in {len(judged) - lost}"
    )
    return f"{said}; its own fits have read {fitted} of them, as it says." if fitted else f"{said}."


def _ours(line: Duel) -> float:
    """Ours on the same terms as theirs."""
    return line.ours if line.theirs_fitted or line.ours_source is None else line.ours_source


def _row(line: Duel) -> tuple[str, ...]:
    notes = ["theirs in sample"] if line.theirs_fitted else []
    notes += [f"{line.asked - line.rows:,} not by both"] if line.asked > line.rows else []
    return (
        line.figure, line.source, f"{line.rows:,}", _percent(line.theirs), _percent(line.ours_source),
        _percent(line.ours_family), _percent(line.ours), "theirs" if line.theirs < _ours(line) else "ours",
        _percent(line.theirs_coverage), ", ".join(notes),
    )  # fmt: skip


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"
