"""How does a measured training run look? One sentence, where the step went, each number of devices, what to know."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tonnage.domain.train_measurement import StepTimes, TrainMeasurement, TrainRun
from tonnage.report.console import lines, make_console
from tonnage.units import show

__all__ = ["show_train_measurement", "train_sentence"]

_NAMES = {
    "input_s": "waiting for input",
    "forward_s": "forward and loss",
    "backward_s": "backward",
    "communication_s": "communication not hidden",
    "optimizer_s": "optimizer",
    "checkpoint_s": "checkpoint",
    "other_s": "the script's own",
}


def train_sentence(found: TrainMeasurement) -> str:
    """The largest run in one sentence."""
    run = found.runs[-1]
    rate = run.tokens_per_s if run.tokens_per_s is not None else run.samples_per_s
    unit = "tokens/s" if run.tokens_per_s is not None else "samples/s"
    speed = f", {rate:,.4g} {unit}" if rate is not None else ""
    share = f", {run.efficiency:.0%} of a device's throughput alone" if run.efficiency is not None else ""
    first, second = _largest(run.parts)[:2]
    return (
        f"A step takes {show(run.step_s, 's')} on {run.devices} device{'s' if run.devices > 1 else ''}{speed}{share}: "
        f"{first[1] / run.step_s:.0%} {first[0]}, {second[1] / run.step_s:.0%} {second[0]}."
    )


def _largest(parts: StepTimes) -> list[tuple[str, float]]:
    known = [(_NAMES[name], value) for name, value in msgspec.structs.asdict(parts).items() if value is not None]
    return [*sorted(known, key=lambda part: -part[1]), ("other", 0.0), ("other", 0.0)]


def show_train_measurement(found: TrainMeasurement) -> None:
    """Print a measured training run."""
    from rich.table import Table

    console = make_console()
    console.print(train_sentence(found), markup=False)
    about = (found.model, found.parallel, found.device or found.kind, found.backend, found.library, found.date)
    console.print(" · ".join(x for x in about if x), style="dim", markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("a step", no_wrap=True)
    for run in found.runs:
        table.add_column(f"{run.devices} device{'s' if run.devices > 1 else ''}", justify="right", no_wrap=True)
        table.add_column("", justify="right", no_wrap=True)
    for name, said in _NAMES.items():
        values = [getattr(run.parts, name) for run in found.runs]
        if any(value is not None for value in values):
            table.add_row(said, *_cells(found.runs, values))
    table.add_row("together", *_cells(found.runs, [run.step_s for run in found.runs]))
    if any(run.hidden_communication_s for run in found.runs):
        table.add_row("communication hidden", *_cells(found.runs, [r.hidden_communication_s for r in found.runs]))
    for said, cells in _rates(found.runs):
        table.add_row(said, *(x for cell in cells for x in (cell, "")))
    console.print()
    console.print(table)
    lines(console, "Memory of the fullest rank", texts=_memory(found.runs[-1]))
    lines(console, "Checkpoints", texts=_checkpoints(found))
    notes = [note for run in found.runs for note in run.notes]
    lines(console, "To know", texts=[*([found.stopped] if found.stopped else []), *notes, *found.notes])


def _cells(runs: Sequence[TrainRun], values: Sequence[float | None]) -> list[str]:
    return [
        text
        for run, value in zip(runs, values, strict=True)
        for text in (("–", "") if value is None else (show(value, "s"), f"{value / run.step_s:.0%}"))
    ]


def _rates(runs: Sequence[TrainRun]) -> list[tuple[str, list[str]]]:
    rows = [
        ("tokens/s", ["–" if run.tokens_per_s is None else f"{run.tokens_per_s:,.4g}" for run in runs]),
        ("samples/s", ["–" if run.samples_per_s is None else f"{run.samples_per_s:,.4g}" for run in runs]),
        ("efficiency", ["–" if run.efficiency is None else f"{run.efficiency:.0%}" for run in runs]),
    ]
    return [(said, cells) for said, cells in rows if any(cell != "–" for cell in cells)]


def _memory(run: TrainRun) -> list[str]:
    m = run.memory
    parts = (
        ("most in use", m.peak_bytes),
        ("reserved", m.reserved_bytes),
        ("of", m.capacity_bytes),
        ("weights", m.weights_bytes),
        ("gradients", m.gradients_bytes),
        ("optimizer", m.optimizer_bytes),
    )
    told = ", ".join(f"{said} {show(value, 'bytes')}" for said, value in parts if value is not None)
    return [told] if told else []


def _checkpoints(found: TrainMeasurement) -> list[str]:
    c = found.checkpoint
    if c is None:
        return []
    size = f" of {show(c.size_bytes, 'bytes')}" if c.size_bytes is not None else ""
    told = [f"{c.writes} written{size}, {show(c.write_s, 's')} each"] if c.write_s is not None else []
    return [*told, *([f"restored in {show(c.restore_s, 's')}"] if c.restore_s is not None else [])]
