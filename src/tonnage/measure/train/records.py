"""What one rank writes while it trains: JSON lines, a header, a line a step, a line a checkpoint, memory at times.

A line is whole or absent, so a run that is killed loses nothing that a reader needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tonnage.domain.train_measurement import StepTimes
from tonnage.errors import BadFact, echo
from tonnage.measure.files import read_whole, refuse_heavy
from tonnage.record import Record, SparseRecord

PHASES: Final = ("input", "forward", "backward", "communication", "optimizer", "checkpoint", "other")


def mean(values: Sequence[float]) -> float:
    """Of no values, 0."""
    return sum(values) / len(values) if values else 0.0


def mean_parts(steps: Sequence[Mapping[str, float]]) -> StepTimes:
    """Means by phase; one that no step had is absent. [s]"""
    seen = {name for step in steps for name in step}
    return StepTimes(**{f"{name}_s": mean([s.get(name, 0.0) for s in steps]) for name in PHASES if name in seen})


class Header(SparseRecord, kw_only=True, tag="header"):
    """Who writes."""

    rank: int
    world: int
    host: str
    nodes: int = 1
    kind: str = "cpu"
    device: str = ""
    library: str = ""
    backend: str = ""
    version: str = ""
    date: str = ""


class Stepped(SparseRecord, kw_only=True, tag="step"):
    """One optimizer step: from the end of the one before to its own end."""

    phases: dict[str, float]
    """Exclusive, by name; they add up to the step. [s]"""
    hidden_s: float | None = None
    """Collectives behind the backward pass. [s]"""
    samples: float = 0.0
    tokens: float = 0.0
    forwards: int = 0
    collectives: dict[str, int] = {}
    collective_bytes: float = 0.0

    @property
    def step_s(self) -> float:
        """All of it. [s]"""
        return sum(self.phases.values())


class Checkpointed(SparseRecord, kw_only=True, tag="checkpoint"):
    """A checkpoint written or read."""

    wrote: bool
    took_s: float
    size_bytes: float | None = None


class Held(SparseRecord, kw_only=True, tag="memory"):
    """What the rank holds, looked at after a step; the last line counts."""

    peak_bytes: float | None = None
    reserved_bytes: float | None = None
    capacity_bytes: float | None = None
    weights_bytes: float | None = None
    gradients_bytes: float | None = None
    optimizer_bytes: float | None = None
    alloc_retries: int | None = None
    parameters: float | None = None
    parallel: str = ""
    model: str = ""


Line = Header | Stepped | Checkpointed | Held
_decode = msgspec.json.Decoder(Line).decode


class RankLog(Record, kw_only=True):
    """One rank's file, read."""

    header: Header
    steps: tuple[Stepped, ...]
    checkpoints: tuple[Checkpointed, ...] = ()
    held: Held = Held()


def read_rank(path: Path) -> RankLog:
    """
    One rank's file; a last line that was cut off is left out.

    Raises
    ------
    BadFact
        It is no such file.
    """
    data = read_whole(path, what="a rank")
    refuse_heavy(data, path)
    lines = data.splitlines(keepends=True)
    try:
        found = [_decode(line) for line in lines if line.endswith(b"\n")]
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadFact(f"'{echo(path)}' is no record of a training probe: {echo(error)}") from None
    headers = [line for line in found if isinstance(line, Header)]
    if not headers:
        raise BadFact(f"'{echo(path)}' is no record of a training probe: it has no header")
    held = [line for line in found if isinstance(line, Held)]
    return RankLog(
        header=headers[-1],
        steps=tuple(line for line in found if isinstance(line, Stepped)),
        checkpoints=tuple(line for line in found if isinstance(line, Checkpointed)),
        held=held[-1] if held else Held(),
    )


def read_ranks(folder: Path) -> tuple[RankLog, ...]:
    """Every rank of a run, in order."""
    found = [read_rank(path) for path in folder.glob("rank-*.jsonl")]
    return tuple(sorted(found, key=lambda log: log.header.rank))
