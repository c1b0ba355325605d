"""
What else goes on where something is measured: other programs, a hypervisor, a quota, heat, and other cards' work.

Two looks, before and behind, tell what was taken in between. Of a server on this machine its processes are found by the
port that they listen on; their time and our own are not "other". Linux and NVIDIA's tool tell this; where neither is
there nothing is seen and nothing is said. A machine elsewhere is judged by its own metrics page and by drifts alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tonnage.domain.measurement import UNUSABLE
from tonnage.record import Record
from tonnage.units import percent

OTHERS: Final = 0.1
"""Share of the cores from which on other programs are other load. [-]"""
LEAST_CORES: Final = 0.25
"""What a desktop does by itself is none. [cores]"""
STOLEN: Final = 0.05
"""Share of the time that a hypervisor or a quota may take. [-]"""
SHORTEST_S: Final = 0.2
"""Of time between two looks that says something: counters have steps of 10 ms. [s]"""
TOOL_S: Final = 5.0
EVERY_S: Final = 1.0
"""Between two looks at cards. [s]"""
_ASKED: Final = (
    "index", "power.limit", "power.default_limit", "clocks_throttle_reasons.hw_thermal_slowdown",
    "clocks_throttle_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown",
)  # fmt: skip
_HOT: Final = {3: "its heat (hardware)", 4: "its heat (driver)", 5: "the board's power brake"}


class Moment(Record, kw_only=True):
    """Counters of a machine at one moment. [s]"""

    at_s: float
    busy_s: float
    """Of all cores, in programs."""
    stolen_s: float
    """Taken by a hypervisor, of all cores."""
    ours_s: float
    """Of the processes that are measured, and our own."""
    held_s: float
    """That a quota made this container wait."""
    hot: int
    """Times that a core was slowed down by its heat."""


def moment(pids: Iterable[int], *, root: Path = Path("/")) -> Moment | None:
    """The machine now; None where the system has no such counters."""
    try:
        first = (root / "proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        user, nice, system, _, _, _, _, stolen = map(float, first[1:9])
        tick = 1.0 / os.sysconf("SC_CLK_TCK")
        held = sum(_held(path) for path in (root / "sys/fs/cgroup/cpu.stat", root / "sys/fs/cgroup/cpu/cpu.stat"))
        hot = sum(map(_number, root.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")))
    except (AttributeError, OSError, ValueError):
        return None
    return Moment(
        at_s=time.monotonic(),
        busy_s=(user + nice + system) * tick,
        stolen_s=stolen * tick,
        ours_s=tick * sum(_trees({os.getpid(), *pids}, root / "proc")),
        held_s=held,
        hot=hot,
    )


def _held(path: Path) -> float:
    """Seconds that a quota made a container's processes wait, of either generation of control groups."""
    with suppress(OSError, ValueError):
        told = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
        return float(told.get("throttled_usec", 0.0)) / 1e6 + float(told.get("throttled_time", 0.0)) / 1e9
    return 0.0


def _number(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return 0


def _trees(roots: set[int], proc: Path) -> Iterator[float]:
    """Processor time of processes and all that they started, in ticks."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in proc.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            told = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(told[1])
            spent[int(path.parent.name)] = sum(map(float, told[11:15]))
    for pid, ticks in spent.items():
        above, seen = pid, 0
        while above not in roots and above in parents and seen < 64:
            above, seen = parents[above], seen + 1
        if above in roots:
            yield ticks


def listening(port: int, *, root: Path = Path("/")) -> tuple[int, ...]:
    """Processes of this machine that listen on a port, of those that this user may look at."""
    wanted, found = set(), []
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (root / "proc/net" / name).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                    wanted.add(f"socket:[{words[9]}]")
    for path in (root / "proc").glob("[0-9]*/fd") if wanted else ():
        with suppress(OSError):
            if any(os.readlink(one) in wanted for one in path.iterdir()):
                found.append(int(path.parent.name))
    return tuple(found)


def taken(before: Moment | None, behind: Moment | None) -> Iterator[str]:
    """What took time from a measurement between two looks, a sentence's end for each."""
    if before is None or behind is None or behind.at_s - before.at_s < SHORTEST_S:
        return
    span, cores = behind.at_s - before.at_s, os.cpu_count() or 1  # what the counters are of, wherever this is pinned
    others = (behind.busy_s - before.busy_s - (behind.ours_s - before.ours_s)) / span
    if others > max(LEAST_CORES, OTHERS * cores):
        yield f"other programs used {others:.1f} of {cores} cores beside it; end them"
    stolen = (behind.stolen_s - before.stolen_s) / span / cores
    if stolen > STOLEN:
        yield f"the hypervisor took {percent(stolen)} of the time; measure on a machine of your own"
    held = (behind.held_s - before.held_s) / span
    if held > STOLEN:
        yield f"the container's processor quota made it wait {percent(held)} of the time; raise the quota"
    if behind.hot > before.hot:
        yield f"heat slowed the processor down {behind.hot - before.hot} times; cool it, or measure what lasts"


def cards_held(pids: Iterable[int] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    What holds NVIDIA cards back now, by their own tool: what forbids a measurement (heat, power brakes, and, where
    processes of a server are known, others on its cards), and what it is to be told with (a lowered power limit).
    """
    asked = _ask("--query-gpu=" + ",".join(_ASKED))
    wrong, told = [], []
    for row in asked:
        wrong += [f"card {row[0]} is slowed down by {why}" for at, why in _HOT.items() if row[at].lower() == "active"]
        with suppress(ValueError):
            limit, usual = float(row[1]), float(row[2])
            if limit < 0.98 * usual:
                told.append(f"card {row[0]} is limited to {limit:.0f} W of {usual:.0f} W")
    if asked and (mine := set(pids)):
        running = {int(row[0]) for row in _ask("--query-compute-apps=pid") if row[0].isdigit()}
        whole = {pid for pid in running if _above(pid) & mine}
        if whole and running - whole:
            wrong.append(f"{len(running - whole)} other programs are on its cards")
    return tuple(wrong), tuple(told)


def marked(wrong: Iterable[str], told: Iterable[str], *, busy: bool) -> Iterator[str]:
    """Notes of a measurement: what forbids its numbers unless `busy` was asked for, and what it was measured under."""
    head = "Measured on a busy machine, as asked" if busy else UNUSABLE
    yield from (f"{head}: {why}." for why in dict.fromkeys(wrong))
    yield from (f"Measured while {what}." for what in dict.fromkeys(told))


@contextmanager
def watched(*, busy: bool) -> Iterator[list[str]]:
    """Notes on what took from a program that this one runs, or from this one itself; there once the block has ended."""
    notes: list[str] = []
    cards: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY_S):
            cards.append(cards_held())

    before = moment(())
    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield notes
    finally:
        over.set()
    wrong = (*taken(before, moment(())), *(why for held, _ in cards for why in held))
    notes += marked(wrong, (what for _, limits in cards for what in limits), busy=busy)


def _above(pid: int) -> set[int]:
    """A process and those that started it."""
    found = {pid}
    with suppress(OSError, ValueError, IndexError):
        while pid > 1:
            told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            pid = int(told[1])
            found.add(pid)
    return found


def _ask(query: str) -> list[list[str]]:
    """Rows of NVIDIA's tool; none where it is missing, fails or does not come back."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    with suppress(OSError, subprocess.TimeoutExpired):
        command = [program, query, "--format=csv,noheader,nounits"]
        done = subprocess.run(command, capture_output=True, timeout=TOOL_S, check=False, text=True)
        if done.returncode == 0:
            return [re.split(r"\s*,\s*", line.strip()) for line in done.stdout.splitlines() if line.strip()]
    return []
