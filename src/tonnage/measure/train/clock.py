"""A stack of phases whose exclusive times add up: whatever the run does, every moment belongs to one phase.

On a processor a moment is the wall clock. On an accelerator it is an event in the current stream, so that a phase is
what the device waits for: input that is ready before the device is done costs nothing. Events are read when a later
step ends, and nothing is synchronised before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

__all__ = ["Clock", "Timeline", "clock_of", "enter", "finished", "leave", "phases_of", "timeline"]


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


def leave(line: Timeline) -> None:
    """The innermost phase ends; the one around it goes on."""
    if len(line.stack) > 1:
        line.stack.pop()
    line.marks.append((line.stack[-1], line.clock.now()))


def finished(line: Timeline) -> list[tuple[str, Any]]:
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
