"""
What one rank reads while it trains: a stack of phases whose exclusive times add up, and the memory it holds.

Whatever the run does, every moment belongs to one phase. On a processor a moment is the wall clock. On an accelerator
it is an event in the current stream, so that a phase is what the device waits for: input that is ready before the
device is done costs nothing. Events are read when a later step ends, and nothing is synchronised before. A rank holds
its own share of weights, gradients and optimizer states.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from tonnage.measure.train.records import Held


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
    peak, reserved, capacity, retries = _most(torch)
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


def _most(torch: Any) -> tuple[float | None, float | None, float | None, int | None]:
    """The most in use, the most reserved, what there is, and how often the allocator started again."""
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
