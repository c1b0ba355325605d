"""What runs on a machine, as a document: the sentence, at most a screen of models, what starts the first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.domain.answer import Quantity
from tonnage.domain.machine import LocalAnswer, LocalRow, Offload
from tonnage.report.document import (
    UNKNOWN,
    Command,
    Document,
    Headline,
    Note,
    Section,
    Table,
    blocks,
    document,
    grid,
)
from tonnage.report.names import model_name

TOP: Final = 10
"""Rows of the first screen."""
GB: Final = 1e9


def local_document(answer: LocalAnswer, *, most: int | None = None) -> Document:
    """The answer as blocks; `top` rows in the table, or every one."""
    found = answer.all_rows or answer.rows
    shown = found[: most or TOP]
    return document(
        Headline(answer.sentence, good=answer.feasible),
        _table(shown, benchmark=answer.benchmark),
        map(_start, answer.rows[:1]),
        map(Note, _evidence(shown)),
        Note(hint=_rest(answer, len(found), len(shown))),
        why={
            "Found on this machine": ", ".join(answer.engines),
            "Assumptions": answer.assumed,
            "Notes": answer.notes,
            "Does not fit": [f"{model}: {lack}" for model, lack in answer.infeasible],
        },
    )


def _start(best: LocalRow) -> Section:
    """What starts a model, by engine."""
    commands = (Command(f"{engine}: {command}") for engine, command in best.commands)
    return Section(f"Start {_short(best.model)}", blocks(commands))


def _table(rows: Iterable[LocalRow], *, benchmark: str) -> Table:
    heads = ("model", "format", f"{benchmark}>2", "GB>3", "tokens/s>", "prompt/s>4", "context>1", "in host memory<5")
    cells = [
        (
            _short(row.model),
            row.format,
            UNKNOWN if row.quality is None else f"{row.quality:.1f}",
            f"{row.memory_bytes / GB:.1f}",
            _interval(row.decode_per_s),
            _three(row.prompt_per_s.value),
            _tokens(row.most_context),
            _describe_offload(row.offload),
        )
        for row in rows
    ]
    return grid(heads, cells)


def _short(model: str) -> str:
    """A model's name without the words that all files of people's own machines share."""
    return model_name(model).removesuffix(" Instruct").removesuffix(" it").removesuffix(" Base")


def _three(value: float) -> str:
    """At most three digits that mean something."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}" if value < 1000 else f"{round(value, -2):,.0f}"


def _interval(found: Quantity) -> str:
    low, high = found.low or found.value, found.high or found.value
    return f"{_three(found.value)} ({_three(low)}-{_three(high)})"


def _evidence(rows: Sequence[LocalRow]) -> list[str]:
    """How rates are founded, in a line: nearly always the same for a whole machine."""
    if not rows:
        return []
    bases = " and ".join(dict.fromkeys(row.decode_per_s.basis.value for row in rows))
    return [f"Rates of {rows[0].engine}, one request: {bases}; in brackets 90 % of measurements of such cases."]


def _tokens(count: int) -> str:
    return f"{count // 1024}k" if count >= 1024 else str(count)


def _describe_offload(offload: Offload) -> str:
    if not offload.moved_bytes:
        return ""
    size = f"{offload.moved_bytes / GB:.0f} GB"
    if offload.read_share >= 1.0:
        return "all"
    if offload.layers and offload.expert_layers:
        return f"{size} experts, layers"
    if offload.expert_layers:
        return f"{size} experts"
    return f"{size} layers"


def _rest(answer: LocalAnswer, count: int, top: int) -> str:
    said = [f"{count - top} more models: --top {count}"] if count > top else []
    lacking = len(answer.infeasible)
    if lacking:
        said.append(f"{lacking} {'does' if lacking == 1 else 'do'} not fit")
    said.append("assumptions and the rest: --why")
    if not answer.all_rows:
        said.append("every format: --all")
    return "; ".join(said) + "."
