"""
The probe inside a training run: hooks on PyTorch that time every step's phases, and lines about them.

It needs no change of the model: forward is the outermost module's, backward and checkpoints are PyTorch's own
functions, the optimizer has hooks, input is what a DataLoader's `next` takes, collectives are the functions of
`torch.distributed`. DistributedDataParallel reduces inside C++, which tells when its reductions began and ended;
what of them nothing hides is taken from the backward pass. Between forward and backward is the loss: forward.
"""

from __future__ import annotations

import functools
import importlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tonnage.errors import BadRequest
from tonnage.measure.train.records import (
    Checkpointed,
    Header,
    Stepped,
    Timeline,
    clock_of,
    end_phase,
    enter,
    finish_step,
    memory_of_rank,
    phases_of,
    timeline,
)
from tonnage.version import __version__

FOLDER: Final = "TONNAGE_PROBE"
"""Environment variable: where the ranks of a run write."""
_COLLECTIVES: Final = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "broadcast", "reduce", "gather", "scatter", "send",
    "recv", "batch_isend_irecv", "barrier",
)  # fmt: skip
_LOOK_EVERY: Final = 10
"""Steps between two looks at memory: gradients and states are all there after the first."""


class Probe(NamedTuple):
    """What a running probe knows; `close` removes every hook."""

    step: Callable[[], None]
    """Says that a step ends here, where no optimizer of PyTorch does."""
    data: Callable[[Any], Iterator[Any]]
    """Wraps an input pipeline that is no DataLoader."""
    close: Callable[[], None]


class _State(NamedTuple):
    """The step that runs."""

    torch: Any
    line: Timeline
    pending: list[tuple[list[tuple[str, Any]], dict[str, Any]]]
    """Steps that ended on the host and wait for their times."""
    counts: dict[str, Any]
    modules: dict[str, Any]
    """Outermost module, optimizer: by what they are."""
    write: Callable[[Any], None]
    undo: list[Callable[[], None]]


@contextmanager
def probe(folder: str | os.PathLike[str] | None = None) -> Iterator[Probe]:
    """
    Times the training steps inside; every rank writes its own file into `folder` (TONNAGE_PROBE without it).

    `tonnage measure train FOLDER` reads them. A step ends with an optimizer's, or where `step()` is called.

    Raises
    ------
    BadRequest
        PyTorch is not installed, or no folder is named.
    """
    running = start(folder)
    try:
        yield running
    finally:
        running.close()


def start(folder: str | os.PathLike[str] | None = None) -> Probe:
    """Set every hook; `close` of what it returns removes them. Without a folder, that of the environment variable."""
    named = folder or os.environ.get(FOLDER)
    if not named:
        raise BadRequest(f"no folder for the probe: name one, or set {FOLDER}")
    try:
        import torch
    except ImportError:
        raise BadRequest("the probe needs PyTorch; install it: pip install 'tonnage[torch]'") from None
    kind = _kind(torch)
    clock = clock_of(torch, kind)
    state = _State(torch, timeline(clock), [], _fresh(), {}, _writer(Path(named), torch, kind), [])
    for hook in (_hook_modules, _hook_backward, _hook_optimizer, _hook_input, _hook_collectives, _hook_files):
        hook(state)

    def close() -> None:
        while state.undo:
            state.undo.pop()()
        _flush(state, keep=0)

    return Probe(functools.partial(_end_step, state), functools.partial(_data, state), close)


def _kind(torch: Any) -> str:
    if torch.cuda.is_available():
        return "rocm" if torch.version.hip else "cuda"
    return "xpu" if hasattr(torch, "xpu") and torch.xpu.is_available() else "cpu"


def _fresh() -> dict[str, Any]:
    return {"samples": 0.0, "tokens": 0.0, "forwards": 0, "collectives": {}, "bytes": 0.0}


def _writer(folder: Path, torch: Any, kind: str) -> Callable[[Any], None]:
    """Appends lines to this rank's file, which begins when there is something to write."""
    kept: dict[str, Any] = {}

    def write(line: Any) -> None:
        if "file" not in kept:
            folder.mkdir(parents=True, exist_ok=True)
            header = _header(torch, kind)
            kept["file"] = (folder / f"rank-{header.rank}.jsonl").open("ab", buffering=0)
            kept["file"].write(msgspec.json.encode(header) + b"\n")
        kept["file"].write(msgspec.json.encode(line) + b"\n")

    return write


def _header(torch: Any, kind: str) -> Header:
    """What a rank says of itself once; rank 0 of 1 where torch.distributed is not set up."""
    dist = torch.distributed
    joined = dist.is_available() and dist.is_initialized()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    world = dist.get_world_size() if joined else 1
    device = torch.cuda.get_device_name() if kind in {"cuda", "rocm"} else ""
    return Header(
        rank=dist.get_rank() if joined else 0,
        world=world,
        host=socket.gethostname(),
        nodes=max(1, world // local) if local else 1,
        kind=kind,
        device=device,
        library=f"torch {torch.__version__}",
        backend=str(dist.get_backend()) if joined else "",
        version=__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _mine(state: _State) -> bool:
    """Whether this is the thread that started the probe: what others do is not the step's."""
    return threading.get_ident() == state.line.thread


def _replace(state: _State, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """A function of PyTorch with something around it, until the probe closes."""
    before = getattr(owner, name, None)
    if before is None:
        return
    after = make(before)
    with suppress(AttributeError, TypeError):
        functools.update_wrapper(after, before)
    setattr(owner, name, after)
    state.undo.append(lambda: setattr(owner, name, before))


def _inside(state: _State, phase: str) -> Callable[[Any], Any]:
    """A function whose time belongs to a phase."""

    def make(function: Any) -> Any:
        def timed(*args: Any, **options: Any) -> Any:
            if not _mine(state):
                return function(*args, **options)
            enter(state.line, phase)
            try:
                return function(*args, **options)
            finally:
                end_phase(state.line)

        return timed

    return make


def _hook_modules(state: _State) -> None:
    """Forward of the outermost module; what follows it until the backward pass is the loss."""
    place = importlib.import_module("torch.nn.modules.module")
    depth = [0]

    def before(module: Any, given: tuple[Any, ...]) -> None:
        if not _mine(state) or "backward" in state.line.stack:
            return
        depth[0] += 1
        if depth[0] == 1:
            _close_loss(state)
            enter(state.line, "forward")
            _count_inputs(state, module, given)

    def after(module: Any, given: tuple[Any, ...], found: Any) -> None:
        if not _mine(state) or "backward" in state.line.stack or depth[0] == 0:
            return
        depth[0] -= 1
        if depth[0] == 0:
            end_phase(state.line)
            if module.training:
                state.counts["loss"] = True
                enter(state.line, "forward")

    handles = [
        place.register_module_forward_pre_hook(before),
        place.register_module_forward_hook(after, always_call=True),
    ]
    state.undo.extend(handle.remove for handle in handles)


def _close_loss(state: _State) -> None:
    """The loss is done where anything else begins."""
    if state.counts.pop("loss", False):
        end_phase(state.line)


def _count_inputs(state: _State, module: Any, given: tuple[Any, ...]) -> None:
    """Samples and tokens, from the first tensor that the outermost module is given."""
    state.counts["forwards"] += 1
    if "module" not in state.modules and any(True for _ in module.parameters()):
        state.modules["module"] = module
        if hasattr(module, "_set_ddp_runtime_logging_sample_rate"):
            module._set_ddp_runtime_logging_sample_rate(1)
    first = next((x for x in given if hasattr(x, "shape") and len(x.shape)), None)
    if first is None or module is not state.modules.get("module"):
        return
    state.counts["samples"] += first.shape[0]
    if not first.is_floating_point() and first.dim() == 2:
        state.counts["tokens"] += first.numel()


def _after_loss(state: _State, phase: str) -> Callable[[Any], Any]:
    """A function whose time belongs to a phase, and before which the loss is done."""

    def make(function: Any) -> Any:
        timed = _inside(state, phase)(function)

        def closing(*args: Any, **options: Any) -> Any:
            if _mine(state):
                _close_loss(state)
            return timed(*args, **options)

        return closing

    return make


def _hook_backward(state: _State) -> None:
    _replace(state, state.torch.autograd, "backward", _after_loss(state, "backward"))


def _hook_optimizer(state: _State) -> None:
    """Time inside optimizers, zeroed gradients included; the first optimizer that is seen ends the step."""
    place = importlib.import_module("torch.optim.optimizer")

    def before(optimizer: Any, *_: Any) -> None:
        if _mine(state):
            _close_loss(state)
            enter(state.line, "optimizer")

    def after(optimizer: Any, *_: Any) -> None:
        if _mine(state):
            end_phase(state.line)
            state.modules.setdefault("optimizer", optimizer)
            if optimizer is state.modules["optimizer"]:  # of several the first ends the step
                _end_step(state)

    handles = [place.register_optimizer_step_pre_hook(before), place.register_optimizer_step_post_hook(after)]
    state.undo.extend(handle.remove for handle in handles)
    _replace(state, state.torch.optim.Optimizer, "zero_grad", _inside(state, "optimizer"))


def _hook_input(state: _State) -> None:
    loader = importlib.import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
    _replace(state, loader, "__next__", _after_loss(state, "input"))


def _data(state: _State, source: Any) -> Iterator[Any]:
    """The items of a pipeline, with the wait for each as input."""
    items = iter(source)
    while True:
        _close_loss(state)
        enter(state.line, "input")
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            end_phase(state.line)
        yield item


def _hook_collectives(state: _State) -> None:
    """Time inside collectives and waits for them; their calls, and bytes of the first tensor of each."""
    dist = importlib.import_module("torch.distributed")
    if not dist.is_available():
        return

    def make(function: Any) -> Any:
        timed = _inside(state, "communication")(function)
        name = function.__name__

        def collective(*args: Any, **options: Any) -> Any:
            if _mine(state):
                kinds = state.counts["collectives"]
                kinds[name] = kinds.get(name, 0) + 1
                tensor = next((x for x in args if hasattr(x, "nbytes")), None)
                state.counts["bytes"] += float(tensor.nbytes) if tensor is not None else 0.0
            return timed(*args, **options)

        return collective

    for name in _COLLECTIVES:
        _replace(state, dist, name, make)
    work = getattr(state.torch._C._distributed_c10d, "Work", None)
    if work is not None:
        _replace(state, work, "wait", _inside(state, "communication"))


def _hook_files(state: _State) -> None:
    """Checkpoints through PyTorch's own functions."""

    def make(wrote: bool) -> Callable[[Any], Any]:
        def around(function: Any) -> Any:
            timed = _inside(state, "checkpoint")(function)

            def saved(*args: Any, **options: Any) -> Any:
                if not _mine(state) or "checkpoint" in state.line.stack:
                    return function(*args, **options)
                _close_loss(state)
                begun = time.perf_counter()
                found = timed(*args, **options)
                took = time.perf_counter() - begun
                named = options.get("f") or next((x for x in args if isinstance(x, str | os.PathLike)), None)
                state.write(Checkpointed(wrote=wrote, took_s=took, size_bytes=_size(named)))
                return found

            return saved

        return around

    _replace(state, state.torch, "save", make(True))
    _replace(state, state.torch, "load", make(False))
    with suppress(ImportError, AttributeError):
        import torch.distributed.checkpoint as whole

        _replace(state, whole, "save", make(True))
        _replace(state, whole, "load", make(False))


def _size(path: Any) -> float | None:
    try:
        return float(Path(path).stat().st_size) if path is not None and Path(path).is_file() else None
    except OSError:
        return None


def _end_step(state: _State) -> None:
    """A step ends: its marks wait until the device has passed them."""
    _close_loss(state)
    if threading.get_ident() != state.line.thread:
        return
    state.pending.append((finish_step(state.line), {**state.counts, "reduced": _ddp_buckets(state)}))
    state.counts.clear()
    state.counts.update(_fresh())
    _flush(state, keep=1)
    done = state.modules["steps"] = state.modules.get("steps", 0) + 1
    if done == 1 or done % _LOOK_EVERY == 0:
        state.write(memory_of_rank(state.torch, state.modules))


def _ddp_buckets(state: _State) -> dict[str, int] | None:
    """What DistributedDataParallel says of the backward pass of the step BEFORE this one."""
    module = state.modules.get("module")
    told = getattr(module, "_get_ddp_logging_data", None)
    if told is None:
        return None
    found: dict[str, int] = told()
    return found if "backward_comm_time_end" in found else None


def _flush(state: _State, *, keep: int) -> None:
    """Writes the steps that ended, all but the last, whose reductions the next one tells."""
    while len(state.pending) > keep:
        marks, counts = state.pending.pop(0)
        phases = phases_of(state.line.clock, marks)
        told = state.pending[0][1]["reduced"] if state.pending else None
        hidden = _taken_from_backward(phases, told)
        state.write(
            Stepped(
                phases=phases,
                hidden_s=hidden,
                samples=counts["samples"],
                tokens=counts["tokens"],
                forwards=counts["forwards"],
                collectives=counts["collectives"],
                collective_bytes=counts["bytes"],
            )
        )


def _taken_from_backward(phases: dict[str, float], told: dict[str, int] | None) -> float | None:
    """The reductions that nothing hid move from the backward pass to communication; those hidden are returned. [s]"""
    if told is None or "backward" not in phases:
        return None
    compute_end = told["backward_compute_time_end"]
    exposed = max(0.0, (told["backward_comm_time_end"] - compute_end) / 1e9)
    exposed = min(exposed, phases["backward"])
    phases["backward"] -= exposed
    phases["communication"] = phases.get("communication", 0.0) + exposed
    return max(0.0, told["backward_compute_comm_overlap_time"] / 1e9)
