"""
What one rank reads while it trains, phases and memory, and the JSON lines that it writes.

A line is whole or absent, so a run that is killed loses nothing that a reader needs.

The clock: whatever the run does, every moment belongs to one phase. On a processor a moment is the wall clock. On an
accelerator it is an event in the current stream, so that a phase is what the device waits for: input that is ready
before the device is done costs nothing. Events are read when a later step ends, and nothing is synchronised before. A
rank holds its own share of weights, gradients and optimizer states.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

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
    """Of this rank. [samples]"""
    tokens: float = 0.0
    """Of this rank. [tokens]"""
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


class Clock(NamedTuple):
    """How moments are taken and subtracted."""

    now: Callable[[], Any]
    between_s: Callable[[Any, Any], float]
    settle: Callable[[Any], None]
    """Waits until a moment has passed on the device."""


class Timeline(NamedTuple):
    """The marks of the step that runs: which phase begins when."""

    clock: Clock
    stack: list[str]
    marks: list[tuple[str, Any]]
    thread: int


def clock_of(torch: Any, kind: str) -> Clock:
    """The clock of a device."""
    if kind not in {"cuda", "rocm", "xpu"}:
        return Clock(time.perf_counter, lambda a, b: float(b - a), lambda _: None)
    device = torch.xpu if kind == "xpu" else torch.cuda

    def now() -> Any:
        event = device.Event(enable_timing=True)
        event.record()
        return event

    return Clock(now, lambda a, b: float(a.elapsed_time(b)) / 1e3, lambda event: event.synchronize())


def timeline(clock: Clock) -> Timeline:
    """A timeline that begins now, with nothing known to go on."""
    return Timeline(clock, ["other"], [("other", clock.now())], threading.get_ident())


def enter(line: Timeline, phase: str) -> None:
    """A phase begins inside the one that runs."""
    line.stack.append(phase)
    line.marks.append((phase, line.clock.now()))


def end_phase(line: Timeline) -> None:
    """The innermost phase ends; the one around it goes on."""
    if len(line.stack) > 1:
        line.stack.pop()
    line.marks.append((line.stack[-1], line.clock.now()))


def finish_step(line: Timeline) -> list[tuple[str, Any]]:
    """The marks of the step that ends now; the next begins with the same moment."""
    end = line.clock.now()
    marks = [*line.marks, ("", end)]
    line.marks[:] = [(line.stack[-1], end)]
    return marks


def phases_of(clock: Clock, marks: list[tuple[str, Any]]) -> dict[str, float]:
    """Exclusive time of each phase of a step. [s]"""
    clock.settle(marks[-1][1])
    found: dict[str, float] = {}
    for (phase, begun), (_, ended) in pairwise(marks):
        found[phase] = found.get(phase, 0.0) + clock.between_s(begun, ended)
    return found


def memory_of_rank(torch: Any, modules: Mapping[str, Any]) -> Held:
    """Memory of this rank; `modules` are the outermost module and the optimizer, where they were seen."""
    module, optimizer = modules.get("module"), modules.get("optimizer")
    weights = list(module.parameters()) if module is not None else []
    if not weights and optimizer is not None:
        weights = [p for group in optimizer.param_groups for p in group["params"]]
    states = optimizer.state.values() if optimizer is not None else ()
    kept = (x for state in states for x in state.values() if isinstance(x, torch.Tensor))
    peak, reserved, capacity, retries = _memory_peaks(torch)
    return Held(
        peak_bytes=peak,
        reserved_bytes=reserved,
        capacity_bytes=capacity,
        alloc_retries=retries,
        weights_bytes=_bytes(weights) if weights else None,
        gradients_bytes=_bytes(p.grad for p in weights if p.grad is not None) if weights else None,
        optimizer_bytes=_bytes(kept) if optimizer is not None else None,
        parameters=float(sum(p.numel() for p in weights)) if weights else None,
        parallel=_parallel(module),
        model=_name(module),
    )


def _bytes(tensors: Iterable[Any]) -> float:
    """Of this rank's shards."""
    return float(sum((x.to_local() if hasattr(x, "to_local") else x).nbytes for x in tensors))


def _memory_peaks(torch: Any) -> tuple[float | None, float | None, float | None, int | None]:
    """
    The most in use, the most reserved, what there is, and how often the allocator started again.

    Of a processor the most that was resident alone. [bytes, bytes, bytes, -]
    """
    if torch.cuda.is_available():
        stats = torch.cuda.memory_stats()
        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return (
            float(torch.cuda.max_memory_allocated()),
            float(torch.cuda.max_memory_reserved()),
            float(total),
            int(stats.get("num_alloc_retries", 0)),
        )
    try:
        import resource
    except ImportError:  # not on this system
        return None, None, None, None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(used if sys.platform == "darwin" else used * 1024), None, None, None


def _parallel(module: Any) -> str:
    name = type(module).__name__
    if name == "DistributedDataParallel":
        return "DDP"
    return "FSDP" if name.startswith(("FSDP", "FullyShardedDataParallel")) else ""


def _name(module: Any) -> str:
    inner = getattr(module, "module", module)
    return "" if inner is None else type(inner).__name__.removeprefix("FSDP")
