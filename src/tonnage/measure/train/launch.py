"""
Runs a training command with the probe inside, at one or several numbers of devices, and sums up what it wrote.

Records of all ranks become one run: means of the steps that count, on the rank that the others wait for.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.domain.train_measurement import (
    TRAIN_MEASUREMENT_SCHEMA,
    CheckpointTimes,
    RankSteps,
    TrainMeasurement,
    TrainMemory,
    TrainRun,
)
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.measure.beside import watched
from tonnage.measure.train.probe import FOLDER
from tonnage.measure.train.records import RankLog, Stepped, mean, mean_parts, read_ranks
from tonnage.record import Record

INJECTED: Final = Path(__file__).parent / "inject"
_POLL_S: Final = 0.2
_GRACE_S: Final = 10.0
"""Between asking a run to end and ending it. [s]"""
WARMUP: Final = 3
"""Steps left out at the start, where the user does not say: allocators, kernels and connections are set up. [-]"""


class Bounds(Record, kw_only=True):
    """How long each run may go on: it is ended after so many steps or so long, whichever comes first."""

    steps: int | None = None
    """Steps that count; absent = until the command ends."""
    warmup: int = WARMUP
    duration_s: float = 1800.0


def measure_train(
    command: Sequence[str],
    *,
    devices: Sequence[int] = (),
    bounds: Bounds | None = None,
    folder: Path | None = None,
    watch: Callable[[str], None] = lambda _: None,
    busy: bool = False,
) -> TrainMeasurement:
    """
    A training command, measured; with `devices` it is started by torchrun once for each number.

    Its records go into `folder`, which stays, or into one that does not; `watch` is told of each run that starts.
    `stopped` of the result is of the last run. Other load on the machine forbids its numbers unless it may be `busy`.

    Raises
    ------
    BadRequest
        The command cannot be started, or cannot be started by torchrun.
    BadFact
        It ended without a training step.
    """
    if not command:
        raise BadRequest("no command is given: write it after --, for example -- python train.py")
    limits = bounds or Bounds()
    with tempfile.TemporaryDirectory(prefix="tonnage-probe-") as own:
        root = folder or Path(own)
        runs, stopped, notes = [], None, dict[str, None]()
        for count in devices or (0,):
            where = root / (f"{count}-devices" if count else "run")
            watch(f"{count} devices" if count else "running")
            with watched(busy=busy) as seen:
                stopped = _run(_launch_command(command, count), where, limits)
            notes.update(dict.fromkeys(seen))
            ranks = read_ranks(where) if where.is_dir() else ()
            if not ranks:
                raise BadFact(_nothing(command, stopped))
            runs.append(ranks)
        found = measurement_of(runs, warmup=limits.warmup, command=shlex.join(command), stopped=stopped)
        return replace(found, notes=(*notes, *found.notes))


def _launch_command(command: Sequence[str], count: int) -> list[str]:
    """The command as torchrun starts it on so many devices of this node; as it is for none."""
    if not count:
        return list(command)
    name = Path(command[0]).name
    if name == "torchrun" or "torch.distributed.run" in command:
        raise BadRequest("--devices starts torchrun itself: give the script alone, as in -- python train.py")
    if not name.startswith("python"):
        raise BadRequest(f"--devices starts Python scripts: '{echo(command[0])}' is none; write -- python train.py")
    return [command[0], "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}", *command[1:]]


def _run(command: Sequence[str], where: Path, limits: Bounds) -> str | None:
    """One run, ended at its bounds; why it is not whole, None where it came to its end or to its steps."""
    path = os.pathsep.join(filter(None, (str(INJECTED), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, FOLDER: str(where), "PYTHONPATH": path}
    begun = time.monotonic()
    try:
        child = subprocess.Popen(list(command), env=environment, stdout=2, start_new_session=True)
    except OSError as error:
        raise BadRequest(f"'{echo(command[0])}' cannot be started: {error.strerror or error}") from None
    try:
        while child.poll() is None:
            if time.monotonic() - begun > limits.duration_s:
                _end(child)
                return f"ended after {limits.duration_s:g} s"
            # One step more: the line of the last may be cut off.
            if limits.steps is not None and _steps(where) >= limits.steps + limits.warmup + 1:
                _end(child)
                return None
            time.sleep(_POLL_S)
    except BaseException:
        _end(child)
        raise
    return None if child.returncode == 0 else f"the command ended with code {child.returncode}"


def _steps(where: Path) -> int:
    """Steps that every rank has written."""
    files = list(where.glob("rank-*.jsonl")) if where.is_dir() else []
    if not files:
        return 0
    first = _world(files[0])
    if len(files) < first:
        return 0
    return min(path.read_bytes().count(b'"type":"step"') for path in files)


def _world(path: Path) -> int:
    """Ranks of the run as a file's header says; more than there can be while it is not whole."""
    line = path.read_bytes().partition(b"\n")[0]
    try:
        return int(msgspec.json.decode(line)["world"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 1 << 30  # not whole yet


def _end(child: subprocess.Popen[Any]) -> None:
    """The whole group: torchrun's workers are not its children's children only."""
    if not hasattr(os, "killpg"):  # Windows has no groups of this kind
        child.kill()
        child.wait(_GRACE_S)
        return
    for what in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, what)
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            return
        return


def _nothing(command: Sequence[str], stopped: str | None) -> str:
    why = f" ({stopped})" if stopped else ""
    return (
        f"'{echo(shlex.join(command))}' made no training step that the probe saw{why}: it sees optimizers of PyTorch "
        "in the Python that runs the command, which must have Tonnage installed"
    )


def ranks_of(folder: Path) -> list[tuple[RankLog, ...]]:
    """What `probe` wrote into a folder: one run, or one for each folder in it."""
    if not folder.is_dir():
        raise BadFact(f"'{echo(folder)}' is no folder that a probe wrote into")
    found = [read_ranks(place) for place in (folder, *sorted(folder.iterdir())) if place.is_dir()]
    runs = [*filter(None, found)]
    if not runs:
        raise BadFact(f"'{echo(folder)}' holds no rank-N.jsonl of a training probe")
    return runs


def run_of(ranks: Sequence[RankLog], *, warmup: int = WARMUP) -> TrainRun:
    """
    One run at one number of devices: means of the steps that every rank has, without warm-up.

    Times are of the rank that waits least for the others; tokens and samples are added over ranks. A run that is
    shorter than the warm-up still counts its last step.

    Raises
    ------
    BadFact
        A rank has no step.
    """
    each = min((len(log.steps) for log in ranks), default=0)
    if each == 0:
        raise BadFact(
            "the run wrote no step: the probe sees optimizers of PyTorch (torch.optim); call step() of "
            "tonnage.probe() where another one steps"
        )
    left = min(warmup, each - 1)
    counted = {log.header.rank: log.steps[left:each] for log in ranks}
    found = [
        RankSteps(
            rank=log.header.rank,
            host=log.header.host,
            step_s=mean([step.step_s for step in counted[log.header.rank]]),
            parts=mean_parts([step.phases for step in counted[log.header.rank]]),
        )
        for log in ranks
    ]
    # The rank that waits least for collectives is the one that the others wait for.
    slowest = min(found, key=lambda rank: rank.parts.communication_s or 0.0)
    own = counted[slowest.rank]
    times = sorted(step.step_s for step in own)
    hidden = [step.hidden_s for step in own if step.hidden_s is not None]
    world = ranks[0].header.world
    notes = (f"{left} of {each} steps are warm-up",) if left < warmup else ()
    missing = world - len(ranks)
    return TrainRun(
        devices=world,
        nodes=ranks[0].header.nodes,
        steps=len(own),
        warmup=left,
        step_s=slowest.step_s,
        step_p50_s=_rank(times, 0.5),
        step_p95_s=_rank(times, 0.95),
        step_most_s=times[-1],
        parts=slowest.parts,
        hidden_communication_s=mean(hidden) if hidden else None,
        collective_bytes=mean([step.collective_bytes for step in own]) or None,
        collectives=_collectives([step.collectives for step in own]),
        tokens_per_step=mean([_sum_of_ranks(counted, i, "tokens") for i in range(len(own))]) or None,
        samples_per_step=mean([_sum_of_ranks(counted, i, "samples") for i in range(len(own))]) or None,
        micro_batches=mean([float(step.forwards) for step in own]) or None,
        memory=_memory(ranks),
        ranks=tuple(found),
        notes=(*notes, *((f"{missing} ranks wrote nothing: their samples are missing",) if missing else ())),
    )


def measurement_of(
    runs: Sequence[Sequence[RankLog]], *, warmup: int = WARMUP, command: str | None = None, stopped: str | None = None
) -> TrainMeasurement:
    """Runs of one command at several numbers of devices, smallest first, as one measurement."""
    found = sorted((run_of(ranks, warmup=warmup) for ranks in runs), key=lambda run: run.devices)
    first, last = runs[0][0].header, max(runs, key=lambda ranks: ranks[0].header.world)
    kept = last[0].held
    return TrainMeasurement(
        schema=TRAIN_MEASUREMENT_SCHEMA,
        tool="tonnage",
        tool_version=first.version or None,
        command=command,
        model=kept.model or None,
        device=first.device or None,
        kind=first.kind if first.kind in {"cpu", "cuda", "rocm", "xpu", "mps"} else None,  # type: ignore[arg-type]
        backend=last[0].header.backend or None,
        library=first.library or None,
        parallel=kept.parallel or None,
        parameters=kept.parameters,
        date=first.date or None,
        runs=tuple(_with_scaling(found)),
        checkpoint=_checkpoint(last),
        stopped=stopped,
        notes=_notes(found),
    )


def _notes(runs: Sequence[TrainRun]) -> tuple[str, ...]:
    notes = []
    if any(run.samples_per_step for run in runs) and any(run.devices > 1 for run in runs):
        notes.append("Samples are added over all ranks; with tensor or pipeline parallelism ranks share them.")
    return tuple(notes)


def _with_scaling(runs: Sequence[TrainRun]) -> list[TrainRun]:
    """Each run with its throughput per device over that of the smallest."""
    if len(runs) < 2:
        return list(runs)
    base = _per_device(runs[0])
    if base is None:
        return list(runs)
    shares = [(run, _per_device(run)) for run in runs]
    return [run if own is None else replace(run, efficiency=own / base) for run, own in shares]


def _per_device(run: TrainRun) -> float | None:
    rate = run.samples_per_s if run.samples_per_s is not None else run.tokens_per_s
    return None if rate is None else rate / run.devices


def _collectives(counts: Sequence[dict[str, int]]) -> dict[str, float]:
    names = {name for step in counts for name in step}
    return {name: mean([float(step.get(name, 0)) for step in counts]) for name in sorted(names)}


def _sum_of_ranks(counted: Mapping[int, Sequence[Stepped]], index: int, field: str) -> float:
    return float(sum(getattr(steps[index], field) for steps in counted.values()))


def _memory(ranks: Sequence[RankLog]) -> TrainMemory:
    """The most of any rank, number by number: they need not be one rank's. [bytes]"""
    values = {name: [getattr(log.held, name) for log in ranks] for name in TrainMemory.__struct_fields__}
    return TrainMemory(
        **{
            name: max(x for x in own if x is not None)
            for name, own in values.items()
            if any(x is not None for x in own)
        }
    )


def _checkpoint(ranks: Sequence[RankLog]) -> CheckpointTimes | None:
    """Writes and restores: means of the rank that takes longest, the size of the largest file; None without any."""
    lines = [line for log in ranks for line in log.checkpoints]
    if not lines:
        return None
    writes = [[line.took_s for line in log.checkpoints if line.wrote] for log in ranks]
    reads = [[line.took_s for line in log.checkpoints if not line.wrote] for log in ranks]
    sizes = [line.size_bytes for line in lines if line.wrote and line.size_bytes is not None]
    return CheckpointTimes(
        writes=max(len(own) for own in writes),
        write_s=max((mean(own) for own in writes if own), default=None),
        restore_s=max((mean(own) for own in reads if own), default=None),
        size_bytes=max(sizes, default=None),
    )


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
