"""
A trace of torch.profiler (Chrome's format, as Kineto writes it) -> the same measurement as the probe's.

Steps are the profiler's own (`ProfilerStep#N`), else the time between two optimizer steps. On an accelerator the parts
are cut from the device's timeline: kernels of collectives that no other kernel hides are communication; time in which
nothing runs is input while the host waits for a batch, and the script's own otherwise; the rest belongs to the phase
whose host range launched it. On a processor they are cut from the host's ranges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

from tonnage.domain.train_measurement import (
    TRAIN_MEASUREMENT_SCHEMA,
    DeviceActivity,
    TrainMeasurement,
    TrainRun,
)
from tonnage.errors import BadFact, echo
from tonnage.measure.files import json_in, read_whole, refuse_heavy
from tonnage.measure.train.records import mean, mean_parts
from tonnage.version import __version__

_KERNELS: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_NOT_HOST: Final = _KERNELS | {"gpu_user_annotation", "cuda_runtime", "python_function"}
_COLLECTIVE: Final = ("nccl", "rccl", "gloo:", "c10d::", "all_reduce", "allreduce", "all_gather", "reduce_scatter")
_INPUT: Final = ("enumerate(dataloader)", "dataloader")
_ORDER: Final = ("checkpoint", "communication", "input", "optimizer", "backward", "forward")
"""Innermost first, where ranges of the host overlap."""


class _Range(NamedTuple):
    begun: float
    ended: float
    name: str


def measurement_of_trace(path: Path) -> TrainMeasurement:
    """
    The steps of a trace, which is of one rank: means over its steps; devices are all ranks of the run.

    Raises
    ------
    BadFact
        Not a trace of torch.profiler, or without a whole step.
    """
    document = _document(path)
    events = [e for e in document.get("traceEvents", ()) if isinstance(e, dict) and e.get("ph") == "X" and "dur" in e]
    steps = _steps(events)
    if not steps:
        raise BadFact(
            f"'{echo(path)}' holds no whole training step: record two or more with torch.profiler and call its step()"
        )
    kernels = [e for e in events if e.get("cat") in _KERNELS]
    cut = [_of_device(events, kernels, step) if kernels else (_of_host(events, step), None) for step in steps]
    world = int((document.get("distributedInfo") or {}).get("world_size", 1) or 1)
    properties = document.get("deviceProperties") or [{}]
    run = TrainRun(
        devices=world,
        steps=len(steps),
        step_s=mean([step.ended - step.begun for step in steps]),
        step_most_s=max(step.ended - step.begun for step in steps),
        parts=mean_parts([parts for parts, _ in cut]),
        activity=_mean_activity([activity for _, activity in cut if activity is not None]),
    )
    return TrainMeasurement(
        schema=TRAIN_MEASUREMENT_SCHEMA,
        tool="kineto",
        tool_version=__version__,
        device=str(properties[0].get("name", "")) or None,
        kind="cuda" if kernels else "cpu",
        backend=(document.get("distributedInfo") or {}).get("backend"),
        runs=(run,),
        notes=("A profiler slows the host down: steps without it are shorter where launches are the limit.",),
    )


def _document(path: Path) -> dict[str, Any]:
    data = read_whole(path, what="fewer steps", unpack=True)
    refuse_heavy(data, path)
    found = json_in(data)
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise BadFact(f"'{echo(path)}' is no trace of torch.profiler: it has no traceEvents")
    return found


def _range(event: dict[str, Any]) -> _Range:
    """Microseconds to seconds."""
    begun = float(event["ts"]) / 1e6
    return _Range(begun, begun + float(event["dur"]) / 1e6, str(event.get("name", "")))


def _steps(events: Iterable[dict[str, Any]]) -> list[_Range]:
    """The profiler's own steps; where it marked none, from the end of one optimizer step to the next."""
    named = [e for e in events if e.get("cat") != "gpu_user_annotation"]
    marked = sorted(_range(e) for e in named if str(e.get("name", "")).startswith("ProfilerStep#"))
    if marked:
        return marked
    ends = sorted(_range(e).ended for e in named if str(e.get("name", "")).startswith("Optimizer.step"))
    return [_Range(a, b, "step") for a, b in pairwise(ends)]


def _phase(name: str) -> str | None:
    """The phase that the name of a host's range tells; None = it tells none."""
    lower = name.lower()
    if lower.startswith("optimizer."):
        return "optimizer"
    if lower.startswith(_INPUT):
        return "input"
    if lower.startswith(("autograd::engine", "torch::autograd", "autogradnode")) or "backward" in lower[:64]:
        return "backward"
    if any(word in lower for word in _COLLECTIVE):
        return "communication"
    if lower.startswith(("torch.save", "checkpoint")):
        return "checkpoint"
    return "forward" if lower.startswith(("aten::", "nn.module", "distributeddataparallel.forward")) else None


def _host(events: Iterable[dict[str, Any]], step: _Range) -> dict[str, list[tuple[float, float]]]:
    """When the host is in each phase within a step."""
    found: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        if event.get("cat") in _NOT_HOST:
            continue
        part = _range(event)
        phase = _phase(part.name)
        if phase is not None and part.begun < step.ended and part.ended > step.begun:
            found.setdefault(phase, []).append((max(part.begun, step.begun), min(part.ended, step.ended)))
    return {phase: _union(ranges) for phase, ranges in found.items()}


def _of_host(events: Sequence[dict[str, Any]], step: _Range) -> dict[str, float]:
    """Exclusive times by the host's ranges: a phase counts where no inner one does."""
    host = _host(events, step)
    if "communication" in host and "backward" in host:
        # What runs behind the backward pass on other threads is hidden; only what outlasts it is waited for.
        host["communication"] = _without(host["communication"], host["backward"])
    taken: list[tuple[float, float]] = []
    parts: dict[str, float] = {}
    for phase in _ORDER:
        if phase in host:
            own = _without(host[phase], taken)
            parts[phase] = _length(own)
            taken = _union([*taken, *own])
    parts["other"] = max(0.0, step.ended - step.begun - sum(parts.values()))
    return parts


def _of_device(
    events: Sequence[dict[str, Any]], kernels: Sequence[dict[str, Any]], step: _Range
) -> tuple[dict[str, float], DeviceActivity]:
    """
    Parts of a step from the device's timeline, and what the device did in it. [s]

    Kernels belong to the phase in which the host launched them, a moment with several phases to one. Time without a
    kernel is input where the host waits for data, the script's own elsewhere.
    """
    host = _host(events, step)
    launches = {
        e["args"]["correlation"]: _range(e).begun
        for e in events
        if e.get("cat") in {"cuda_runtime", "cuda_driver"} and "correlation" in e.get("args", {})
    }
    ran: dict[str, list[tuple[float, float]]] = {}
    inside, copies, counted = [], [], []
    for event in kernels:
        part = _range(event)
        if part.begun >= step.ended or part.ended <= step.begun:
            continue
        span = (max(part.begun, step.begun), min(part.ended, step.ended))
        inside.append(span)
        if event.get("cat") != "kernel":
            copies.append(span)
        collective = any(word in part.name.lower() for word in _COLLECTIVE)
        if not collective and event.get("cat") == "kernel":
            counted.append(part.ended - part.begun)
        begun = launches.get(event.get("args", {}).get("correlation"), part.begun)
        phase = "communication" if collective else _at(host, begun)
        ran.setdefault(phase, []).append(span)
    compute = _union([span for phase, spans in ran.items() if phase != "communication" for span in spans])
    parts: dict[str, float] = {}
    shared: list[tuple[float, float]] = []
    for phase in (*(p for p in ("optimizer", "backward", "forward", "input", "checkpoint", "other") if p in ran),):
        own = _without(_union(ran[phase]), shared)
        parts[phase] = _length(own)
        shared = _union([*shared, *own])
    talking = _union(ran.get("communication", []))
    if talking:
        parts["communication"] = _length(_without(talking, compute))
    idle = _without([(step.begun, step.ended)], _union(inside))
    waiting = _length(_overlap(idle, host.get("input", [])))
    parts["input"] = parts.get("input", 0.0) + waiting
    parts["other"] = parts.get("other", 0.0) + _length(idle) - waiting
    activity = DeviceActivity(
        busy_s=_length(_union(inside)),
        kernels=float(len(counted)),
        kernel_s=mean(counted) if counted else None,
        communication_s=_length(talking) or None,
        copies_s=_length(_union(copies)) or None,
        hidden_communication_s=_length(_overlap(talking, compute)) if talking else None,
    )
    return parts, activity


def _at(host: dict[str, list[tuple[float, float]]], moment: float) -> str:
    """The innermost phase that the host is in."""
    for phase in _ORDER:
        spans = host.get(phase, [])
        place = bisect_right(spans, (moment, float("inf"))) - 1
        if place >= 0 and spans[place][1] >= moment and phase != "communication":
            return phase
    return "other"


def _union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same spans in order and without overlap."""
    found: list[tuple[float, float]] = []
    for begun, ended in sorted(spans):
        if found and begun <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        elif ended > begun:
            found.append((begun, ended))
    return found


def _overlap(left: Sequence[tuple[float, float]], right: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans in which both are; each list in order and without overlap."""
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        begun, ended = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if ended > begun:
            found.append((begun, ended))
        i, j = (i + 1, j) if left[i][1] < right[j][1] else (i, j + 1)
    return found


def _without(spans: Sequence[tuple[float, float]], cut: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """What of the spans lies outside the cut; both in order and without overlap."""
    found = []
    for begun, ended in spans:
        at = begun
        for low, high in cut[max(0, bisect_right(cut, (at, float("-inf"))) - 1) :]:
            if low >= ended:
                break
            if low > at:
                found.append((at, low))
            at = max(at, high)
        if at < ended:
            found.append((at, ended))
    return found


def _length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(ended - begun for begun, ended in spans)


def _mean_activity(found: Sequence[DeviceActivity]) -> DeviceActivity | None:
    """Means over the steps in which each number is known; None without steps on a device."""
    if not found:
        return None
    names = ("busy_s", "kernels", "kernel_s", "communication_s", "copies_s", "hidden_communication_s")
    columns: dict[str, list[float]] = {
        name: [x for own in found if (x := getattr(own, name)) is not None] for name in names
    }
    known: dict[str, Any] = {name: mean(values) for name, values in columns.items() if values}
    return DeviceActivity(**known)
