"""What runs on a machine, as a person reads it: the sentence, at most a screen of models, what starts the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tonnage.domain.answer import Quantity
from tonnage.domain.machine import LocalAnswer, LocalRow, Offload
from tonnage.report.console import lines, make_console

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show_local"]

TOP: Final = 10
"""Rows of the first screen."""
UNKNOWN: Final = "–"
GB: Final = 1e9


def show_local(answer: LocalAnswer, *, top: int = TOP, why: bool = False) -> None:
    """Print the answer; with `why` also what was assumed and what does not fit."""
    console = make_console()
    console.print(answer.sentence, style="bold" if answer.feasible else "bold red", markup=False)
    rows = answer.all_rows or answer.rows
    if rows:
        console.print()
        console.print(_table(rows[:top], benchmark=answer.benchmark))
    if answer.rows:
        first = answer.rows[0]
        texts = [f"{engine}: {command}" for engine, command in first.commands]
        lines(console, f"Start {_short(first.model)}", texts=texts)
    if why:
        lines(console, "Assumptions", texts=list(answer.assumed))
        lines(console, "Notes", texts=list(answer.notes))
        lines(console, "Does not fit", texts=[f"{model}: {lack}" for model, lack in answer.infeasible])
        if answer.engines:
            lines(console, "Found on this machine", texts=[", ".join(answer.engines)])
    for text in (*_evidence(rows[:top]), _rest(answer, len(rows), top, why=why)):
        console.print(text, style="dim", markup=False)


def _table(rows: Iterable[LocalRow], *, benchmark: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("model", no_wrap=True)
    table.add_column("format", no_wrap=True)
    for name in (benchmark, "GB", "tokens/s", "prompt/s", "context"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("in host memory", no_wrap=True)
    for row in rows:
        table.add_row(
            _short(row.model),
            (row.precision.experts or row.precision.weights).removeprefix("gguf-"),
            UNKNOWN if row.quality is None else f"{row.quality:.1f}",
            f"{row.memory_bytes / GB:.1f}",
            _interval(row.decode_per_s),
            _three(row.prompt_per_s.value),
            _tokens(row.most_context),
            _moved(row.offload),
        )
    return table


def _short(model: str) -> str:
    """A model's name without publisher and without the words that all files of people's own machines share."""
    return model.rpartition("/")[2].removesuffix("-Instruct").removesuffix("-it").removesuffix("-Base")


def _three(value: float) -> str:
    """At most three digits that mean something."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}" if value < 1000 else f"{round(value, -2):,.0f}"


def _interval(found: Quantity) -> str:
    low, high = found.low or found.value, found.high or found.value
    return f"{_three(found.value)} ({_three(low)}-{_three(high)})"


def _evidence(rows: tuple[LocalRow, ...]) -> list[str]:
    """How rates are founded, in a line: nearly always the same for a whole machine."""
    if not rows:
        return []
    bases = " and ".join(dict.fromkeys(row.decode_per_s.basis.value for row in rows))
    return [f"Rates of {rows[0].engine}, one request: {bases}; in brackets 90 % of measurements of such cases."]


def _tokens(count: int) -> str:
    return f"{count // 1024}k" if count >= 1024 else str(count)


def _moved(offload: Offload) -> str:
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


def _rest(answer: LocalAnswer, count: int, top: int, *, why: bool) -> str:
    said = []
    if count > top:
        said.append(f"{count - top} more models: --top {count}")
    if answer.infeasible and not why:
        said.append(f"{len(answer.infeasible)} do not fit")
    if not why:
        said.append("assumptions and the rest: --why")
    if not answer.all_rows:
        said.append("every format: --all")
    return "; ".join(said) + "." if said else ""
