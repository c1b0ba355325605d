"""How does a traced module look? One sentence, then where its work is, largest first."""

from __future__ import annotations

from collections import defaultdict

from tonnage.domain.profile import Profile, TracedOperator
from tonnage.report.document import Command, Document, Headline, document, grid

FIRST_ROWS = 14
"""Kinds of operator of the first screen."""


def sentence(profile: Profile) -> str:
    """The answer in one sentence."""
    shapes = ", ".join("x".join(map(str, given.shape)) for given in profile.inputs)
    backward = f" forward, {_flop(profile.backward_flop)} backward" if profile.backward else ""
    held = ""
    if profile.moments:
        most = max(moment.activation_values for moment in profile.moments)
        held = f"; a training step holds up to {_count(most)} activation values of a sample"
    return (
        f"{profile.name} has {profile.parameters:,.0f} parameters and computes {_flop(profile.flop)}{backward} "
        f"a sample (inputs {shapes}){held}."
    )


def profile_document(profile: Profile, *, path: str) -> Document:
    """What was counted, and what the file is good for."""
    groups: dict[str, list[TracedOperator]] = defaultdict(list)
    for op in profile.forward:
        groups[op.name].append(op)
    totals = [(name, *_totals(operators)) for name, operators in groups.items()]
    rows = []
    for name, calls, flop, moved, weights in sorted(totals, key=lambda row: (-row[2], -row[3])):
        share = f"{flop / profile.flop:.1%}" if flop and profile.flop else "–"
        rows.append((name, f"{calls:,.0f}", _flop(flop) if flop else "–", share, _count(moved), _count(weights)))
    heads = ["operators", "of>", "FLOP>", "share>", "read and written>", "weights read>"]
    return document(
        Headline(sentence(profile)),
        grid(heads, rows[:FIRST_ROWS]),
        Command(f"Written to {path}, which stands wherever a model does: tonnage fit {path}"),
        why={"Every operator": grid(heads, rows) if len(rows) > FIRST_ROWS else None, "Unexpected": profile.notes},
    )


def _totals(operators: list[TracedOperator]) -> tuple[float, float, float, float]:
    return (
        sum(op.count for op in operators),
        sum(op.flop * op.count for op in operators),
        sum((op.read_values + op.write_values) * op.count for op in operators),
        sum(op.weight_values * op.count for op in operators),
    )


def _flop(value: float) -> str:
    for unit, size in (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if value >= size:
            return f"{value / size:,.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f} FLOP"


def _count(value: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.3g} {unit}"
    return f"{value:,.0f}"
