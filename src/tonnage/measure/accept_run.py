"""
The protocol of an acceptance: products, copies, exchanges and storage of every device, round after round.

All devices work at once, as they will, so that heat and a shared supply show; rounds of all probes alternate, so that a
disturbance falls on every probe alike, and the median of a probe's rounds counts: what lasts, not what was reached
once.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final

from tonnage.domain.acceptance import Probe
from tonnage.errors import BadRequest, echo
from tonnage.measure.device import present, pytorch
from tonnage.record import Record

ROUNDS: Final = 7
LARGE_BYTES: Final = {"cpu": (64 * 1024, 16 * 2**20), "cuda": (64 * 1024, 8 * 2**20, 512 * 2**20)}
"""Of the exchanges: latency, and what a link carries. [bytes]"""
SIDES: Final = {"cpu": 768, "cuda": 8192}
COPIED: Final = {"cpu": 64 * 2**20, "cuda": 1024 * 2**20}
STORED: Final = 256 * 2**20
START_S: Final = 120.0


class Setting(Record, kw_only=True):
    """What is tried, and for how long."""

    device: str
    count: int
    duration_s: float
    storage: Path | None = None


def run_probes(setting: Setting, *, tell: Callable[[str], None] = lambda _: None) -> tuple[tuple[Probe, ...], str]:
    """
    The whole protocol, within its duration; and what ran it.

    Raises
    ------
    BadRequest
        There are not so many devices here, or a device failed.
    """
    torch = pytorch()
    kind = setting.device.partition(":")[0]
    if kind not in {"cpu", "cuda"}:
        raise BadRequest(f"device '{echo(setting.device)}': cpu or cuda (ROCm too) is accepted")
    if torch is None and kind != "cpu":
        raise BadRequest(f"device '{echo(setting.device)}' needs PyTorch; install it: pip install 'tonnage[torch]'")
    there = (os.cpu_count() or 1) if kind == "cpu" else int(torch.cuda.device_count())
    if torch is not None and kind != "cpu":
        present(torch, setting.device)
    if not 1 <= setting.count <= there:
        what = "cores, of which each device needs one" if kind == "cpu" else "devices"
        raise BadRequest(f"--count: {setting.count} of {there} {what} here")
    with tempfile.TemporaryDirectory(prefix="tonnage-accept-", dir=setting.storage) as folder:
        found = _rounds(setting, kind, Path(folder), tell=tell)
    library = f"torch {torch.__version__}" if torch is not None and kind != "cpu" else "numpy"
    return found, library


def _rounds(setting: Setting, kind: str, folder: Path, *, tell: Callable[[str], None]) -> tuple[Probe, ...]:
    """Rounds of every probe in turn, by a process for each device."""
    begun = time.monotonic()
    context = multiprocessing.get_context("spawn")
    edges = [context.Pipe() for _ in range(setting.count)]  # from each device to the next
    mine: list[Pipe] = []
    processes: list[Any] = []
    sizes = LARGE_BYTES[kind] if setting.count > 1 else ()
    try:
        for rank in range(setting.count):
            ours, theirs = context.Pipe()
            ends = (edges[rank][1], edges[rank - 1][0])
            task = _Task(rank=rank, count=setting.count, kind=kind, meeting=str(folder / "meeting"))
            process = context.Process(target=_work, args=(theirs, task, ends), daemon=True)
            process.start()
            theirs.close()
            mine.append(ours)
            processes.append(process)
        for pipe in mine:
            _answer_of(pipe, START_S)
        left = max(1.0, setting.duration_s - (time.monotonic() - begun))
        each_s = 0.85 * left / ROUNDS / (2 + len(sizes))
        rates: dict[tuple[str, str], list[list[float]]] = {}
        stored: list[tuple[float, float]] = []
        for number in range(ROUNDS):
            tell(f"round {number + 1} of {ROUNDS}")
            for name, of in (("products", ""), ("memory", ""), *(("collective", str(size)) for size in sizes)):
                for pipe in mine:
                    pipe.send((name, int(of or 0), each_s))
                rates.setdefault((name, of), []).append([_answer_of(pipe, 20.0 * each_s + 60.0) for pipe in mine])
            if setting.storage is not None:
                stored.append(_storage(folder))
    finally:
        for process in processes:
            process.kill()
            process.join()
    return (*_probes(rates, kind), *_stored(stored))


def _probes(rates: Mapping[tuple[str, str], list[list[float]]], kind: str) -> Iterator[Probe]:
    """Rounds by device; of an exchange one row, for all devices end together."""
    side, copied = SIDES[kind], COPIED[kind]
    shapes = {"products": f"{side}^3 {'fp32' if kind == 'cpu' else 'bf16'}", "memory": f"{copied / 1e6:.0f} MB copied"}
    for (name, of), rounds in rates.items():
        devices = [tuple(row) for row in zip(*rounds, strict=True)]
        if name == "collective":  # all end together: the slowest says when
            size = int(of)
            shown = f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"
            yield Probe(name=name, unit="bytes/s", of=shown, rounds=(tuple(map(min, rounds)),))
            continue
        unit = "FLOP/s" if name == "products" else "bytes/s"
        yield Probe(name=name, unit=unit, of=shapes[name], rounds=tuple(devices))


def _stored(found: Sequence[tuple[float, float]]) -> Iterator[Probe]:
    for place, name in enumerate(("storage write", "storage read")):
        if found:
            size = f"{STORED / 1e6:.0f} MB"
            yield Probe(name=name, unit="bytes/s", of=size, rounds=(tuple(pair[place] for pair in found),))


def _storage(folder: Path) -> tuple[float, float]:
    """Writing a file to the device behind a folder, and reading it without the system's cache. [bytes/s]"""
    path, block = folder / "stored", os.urandom(2**20)
    begun = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(STORED // len(block)):
            file.write(block)
        os.fsync(file.fileno())
        wrote = STORED / (time.perf_counter() - begun)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    begun = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.read(2**20):
            pass
    return wrote, STORED / (time.perf_counter() - begun)


def _answer_of(pipe: Pipe, patience_s: float) -> float:
    """The rate that a device's process tells; refused where it fails, ends or does not come back."""
    if not pipe.poll(patience_s):
        raise BadRequest(
            f"a device did not answer within {patience_s:.0f} s: it hangs, or is far slower than a good one"
        )
    try:
        found = pipe.recv()
    except EOFError:
        raise BadRequest("the process of a device ended: its memory may be taken by another program") from None
    if isinstance(found, str):
        raise BadRequest(f"a device failed: {echo(found)}")
    return float(found)


class _Task(Record, kw_only=True):
    """What the process of one device knows."""

    rank: int
    count: int
    kind: str
    meeting: str


def _work(pipe: Pipe, task: _Task, ends: tuple[Pipe, Pipe]) -> None:
    """The process of one device: a rate for each probe that it is told, until it is ended."""
    try:
        probes = _cards(task) if task.kind == "cuda" else _cores(task, ends)
        pipe.send(0.0)
        while True:
            name, size, seconds = pipe.recv()
            amount, run, wait = probes(name, size)
            # Exchanges must be as many on every device: their number follows from the size, not from a clock.
            pipe.send(_rate(run, wait, amount, seconds=seconds if name != "collective" else None))
    except (EOFError, OSError, KeyboardInterrupt):
        return
    except Exception as error:  # whatever a device's driver raises is told to the one who asked
        with suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}")


Made = tuple[float, Callable[[], Any], Callable[[], Any]]
"""What one run does, the run, and what waits until it is done."""
EXCHANGES: Final = 10


def _rate(run: Callable[[], Any], wait: Callable[[], Any], amount: float, *, seconds: float | None) -> float:
    """Amount a second over the seconds, or over a number of runs: the mean, which heat lowers."""
    run()
    wait()
    begun, count = time.perf_counter(), 0
    while count < EXCHANGES if seconds is None else time.perf_counter() - begun < seconds:
        run()
        count += 1
        if seconds is not None:
            wait()
    wait()
    return amount * count / (time.perf_counter() - begun)


def _cores(task: _Task, ends: tuple[Pipe, Pipe]) -> Callable[[str, int], Made]:
    """A share of the processor's cores as a device, by numpy; exchanges go around a ring of pipes."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    own = cores[task.rank :: task.count]
    if own:
        os.sched_setaffinity(0, own)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(max(1, len(own)))
    import numpy as np

    side, copied = SIDES["cpu"], COPIED["cpu"]
    left = np.ones((side, side), np.float32)
    out, read, written = np.empty_like(left), np.ones(copied // 8), np.ones(copied // 8)

    def made(name: str, size: int) -> Made:
        if name == "products":
            return 2.0 * side**3, lambda: np.matmul(left, left, out=out), lambda: None
        if name == "memory":
            return 2.0 * copied, lambda: np.copyto(written, read), lambda: None
        data = np.ones(size // 4, np.float32)
        moved = 2.0 * (task.count - 1) / task.count * size
        return moved, lambda: _ring(np, data, task, ends), lambda: None

    return made


def _ring(np: Any, data: Any, task: _Task, ends: tuple[Pipe, Pipe]) -> None:
    """One all-reduce around the ring: a share of the values goes to the next, twice around but for one step each."""
    into, out_of = ends
    shares = np.array_split(data, task.count)
    for step in range(2 * (task.count - 1)):
        given, taken = shares[(task.rank - step) % task.count], shares[(task.rank - step - 1) % task.count]
        sending = threading.Thread(target=into.send_bytes, args=(given.tobytes(),))
        sending.start()
        got = np.frombuffer(out_of.recv_bytes(), np.float32)
        if step < task.count - 1:
            np.add(taken, got, out=taken)
        else:
            np.copyto(taken, got)
        sending.join()
    data /= task.count


def _cards(task: _Task) -> Callable[[str, int], Made]:
    """One card, by PyTorch; exchanges are its library's."""
    torch = pytorch()
    torch.cuda.set_device(task.rank)
    device = f"cuda:{task.rank}"
    if task.count > 1:
        torch.distributed.init_process_group(
            "nccl", init_method=f"file://{task.meeting}", rank=task.rank, world_size=task.count
        )
    side, copied = SIDES["cuda"], COPIED["cuda"]
    left = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    out = torch.empty_like(left)
    read, written = (torch.zeros(copied // 4, device=device) for _ in range(2))
    wait = torch.cuda.synchronize

    def made(name: str, size: int) -> Made:
        if name == "products":
            return 2.0 * side**3, lambda: torch.mm(left, left, out=out), wait
        if name == "memory":
            return 2.0 * copied, lambda: written.copy_(read), wait
        data = torch.ones(size // 2, device=device, dtype=torch.bfloat16)
        return 2.0 * (task.count - 1) / task.count * size, lambda: torch.distributed.all_reduce(data), wait

    return made
