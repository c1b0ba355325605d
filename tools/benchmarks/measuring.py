"""Measuring: CPU seconds and peak memory of a child process, and of a function inside this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Child(NamedTuple):
    """What one run of a command took."""

    cpu_s: float
    peak_bytes: float
    code: int


class Row(NamedTuple):
    """One line of the report: what was measured, its value, the target it is held against."""

    name: str
    value: float
    unit: str
    target: float
    more_is_better: bool = False

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.value >= self.target if self.more_is_better else self.value <= self.target


def child(arguments: list[str]) -> Child:
    """Run `python -m tonnage` with these arguments; user + system CPU time and peak resident memory."""
    pid = subprocess.Popen(
        [sys.executable, "-m", "tonnage", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).pid
    _, status, usage = os.wait4(pid, 0)
    scale = 1 if sys.platform == "darwin" else 1024
    return Child(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale, os.waitstatus_to_exitcode(status))


def best_of(runs: int, arguments: list[str], *, codes: tuple[int, ...] = (0,)) -> Child:
    """The least CPU time of several runs: noise only ever adds. Stops when the command fails."""
    found = [child(arguments) for _ in range(runs)]
    bad = [run.code for run in found if run.code not in codes]
    if bad:
        raise SystemExit(f"tonnage {' '.join(arguments)} ended with code {bad[0]}")
    return min(found)


def per_call_s(function: Callable[[], object], *, at_least_s: float = 0.3) -> float:
    """CPU seconds of one call once warm."""
    function()
    calls, spent = 0, 0.0
    while spent < at_least_s:
        start = time.process_time()
        function()
        spent += time.process_time() - start
        calls += 1
    return spent / calls
