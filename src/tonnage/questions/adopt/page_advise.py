"""What to change in a service that runs, as a document: the actions with money, latencies, risk and check."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.questions.adopt.advice import Action, Advice, State
from tonnage.report.document import Document, Headline, Note, Table, document, grid
from tonnage.report.metrics import SPEEDS
from tonnage.units import show

SHOWN = 5
"""Actions on the first screen; the rest stand under --why."""


def advice_document(answer: Advice, *, most: int | None = None) -> Document:
    """The advice as blocks; so many actions, or every one."""
    shown = answer.actions[: most or SHOWN]
    seen = answer.seen
    measured = [f"TTFT {show(seen.ttft_s, 's')}"] if seen.ttft_s else []
    measured += [f"TPOT {show(seen.tpot_s, 's')}"] if seen.tpot_s else []
    return document(
        f"Seen: {show(seen.rate_per_s, '1/s')}, {seen.prompt_tokens:,.0f} prompt and "
        f"{seen.output_tokens:,.0f} output tokens" + (", " + ", ".join(measured) if measured else ""),
        Headline(answer.sentence, good=answer.today.keeps),
        _table(answer, shown),
        (f"{action.name}: {action.change}" for action in shown),
        (Note(f"check first: {action.check}") for action in answer.actions[:1]),
        Note(f"replayed: {answer.replayed}") if answer.replayed else None,
        Note(answer.calibrated) if answer.calibrated else None,
        (Note(f"assumed: {text}") for text in answer.assumed[:2]),
        why={
            "Answer": answer.sentence,
            "What limits it": [f"{verdict.name}: {verdict.sentence}" for verdict in answer.verdicts],
            "Actions": map(_line, answer.actions),
            "Assumptions": answer.assumed,
            "What was noticed": answer.findings,
        },
    )


def _table(answer: Advice, shown: Sequence[Action]) -> Table:
    rows = [_row("today", answer.today, 0.0)]
    rows += [_row(a.name, a.state, a.usd_per_month) for a in shown if a.state is not None]
    return grid(
        ["~", "accelerators", "format", "$/month>", "saves>", *(metric.title for metric in SPEEDS), "req/s"], rows
    )


def _row(name: str, state: State, saved: float) -> tuple[str, ...]:
    return (
        name,
        f"{state.accelerators} x {state.accelerator}",
        state.precision.stored.upper(),
        f"{state.usd_per_month:,.0f}",
        f"{saved:,.0f}" if saved else "",
        show((state.replayed or state).ttft_s, "s", digits=2),
        show((state.replayed or state).tpot_s, "s", digits=2),
        f"{state.most_per_s:.3g}",
    )


def _line(action: Action) -> str:
    money = f" Saves ${action.usd_per_month:,.0f} a month." if action.usd_per_month > 0 else ""
    risk = f" Risk: {action.risk}." if action.risk else ""
    return f"{action.name}: {action.change}.{money}{risk} Check: {action.check}."
