"""Runs a training command with the probe inside, at one or several numbers of devices, and reads what it wrote."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.domain.train_measurement import TrainMeasurement
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.measure.train.probe import FOLDER
from tonnage.measure.train.records import RankLog, read_ranks
from tonnage.measure.train.summary import WARMUP, measurement_of

__all__ = ["Bounds", "measure_train", "ranks_of"]

INJECTED: Final = Path(__file__).parent / "inject"
_POLL_S: Final = 0.2
_GRACE_S: Final = 10.0
"""Between asking a run to end and ending it. [s]"""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
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
) -> TrainMeasurement:
    """
    A training command, measured; with `devices` it is started by torchrun once for each number.

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
        runs, stopped = [], None
        for count in devices or (0,):
            where = root / (f"{count}-devices" if count else "run")
            watch(f"{count} devices" if count else "running")
            stopped = _run(_launched(command, count), where, limits)
            ranks = read_ranks(where) if where.is_dir() else ()
            if not ranks:
                raise BadFact(_nothing(command, stopped))
            runs.append(ranks)
        return measurement_of(runs, warmup=limits.warmup, command=shlex.join(command), stopped=stopped)


def _launched(command: Sequence[str], count: int) -> list[str]:
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
    """One run, ended at its bounds; why it ended early, if it did."""
    path = os.pathsep.join(x for x in (str(INJECTED), os.environ.get("PYTHONPATH")) if x)
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
    line = path.read_bytes().partition(b"\n")[0]
    try:
        return int(msgspec.json.decode(line)["world"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return 1 << 30  # not whole yet


def _end(child: subprocess.Popen[Any]) -> None:
    """The whole group: torchrun's workers are not its children's children only."""
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
    runs = [ranks for ranks in found if ranks]
    if not runs:
        raise BadFact(f"'{echo(folder)}' holds no rank-N.jsonl of a training probe")
    return runs
