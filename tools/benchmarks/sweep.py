"""
Sweeps: what two processes and two Ray nodes make of the same grid, and what a lost worker and an interruption cost.

`python -m tools.benchmarks.sweep [plan|simulate] [points] [requests]`. Two grids: 200 plans, each of which simulates
its
candidates on up to 20,000 requests of the same stream (a second of one core a point), and 200 bare simulations of
20,000 requests (60 ms a point: what a start costs shows). Each timed run is the command in a fresh process, as people
start it, its loading included. Wall-clock times mean something only on an idle machine, so the load average is printed
beside them, and next to each measured ratio stands the one of CPU times: two cores for what one process did, over what
two processes spent together; and what command and workers spent on Ray, their starts included, over what the pool did.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tonnage.sweep import sweep as sweeps
from tonnage.sweep.sweep import Sweep, sweep_of

POINTS, REQUESTS = 200, 20_000
PR_SET_CHILD_SUBREAPER = 36
SPEED_UP, RAY_OVER_POOL = 1.8, 1.15


class Took(NamedTuple):
    """One sweep."""

    wall_s: float
    cpu_s: float
    """Of the command and of every process it started."""
    table: bytes
    servers_s: float = 0.0
    """CPU time of a cluster's own processes meanwhile: about 3 % of a core for as long as it takes."""


def grid(ask: str, points: int, requests: int) -> Sweep:
    """One model under rising load on two accelerators."""
    rates = [f"{1 + 9 * n / max(1, points // 2 - 1):.3f}/s" for n in range(points // 2)]
    model = "meta-llama/Llama-3.1-8B-Instruct"
    if ask == "plan":
        base: dict[str, object] = {"plan": "serve", "model": model, "ttft": "1 s", "tpot": "50 ms", "traffic": "chat"}
        return sweep_of({"sweep": ask, "base": base, "grid": {"accelerator": ["H100", "L40S"], "rate": rates}})
    base = {
        "model": model,
        "slo": {"ttft": "1 s", "tpot": "50 ms"},
        "traffic": {"profile": "chat", "requests": requests},
    }
    return sweep_of({"sweep": ask, "base": base, "grid": {"accelerator": ["H100", "L40S"], "traffic.rate": rates}})


def took(sweep: Sweep, file: Path, *how: str) -> Took:
    """Run the command in a fresh process, and read back what it keeps."""
    asked = file.with_suffix(".json")
    asked.write_text(json.dumps({"sweep": sweep.ask, "base": sweep.base, "grid": sweep.grid}), encoding="utf-8")
    start, before, lived = time.perf_counter(), cpu_s(), descendants_s()
    command = [sys.executable, "-m", "tonnage", "sweep", str(asked), "--results", str(file), "-o", f"{file}.csv", *how]
    running, seen = subprocess.Popen(command, stderr=subprocess.DEVNULL), dict(lived)
    while running.poll() is None:
        seen |= descendants_s()
        time.sleep(0.05)
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    wall_s = time.perf_counter() - start
    if "--ray" in how:  # a cluster lives on, and buries its workers without a trace
        servers_s = sum(seen[process] - before_s for process, before_s in lived.items())
        born_s = sum(spent_s for process, spent_s in seen.items() if process not in lived)
        return Took(wall_s, born_s, table_of(sweep, file), servers_s)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()  # the fork server, which outlives its command by a moment
    return Took(wall_s, cpu_s() - before, table_of(sweep, file))


def adopt_orphans() -> None:
    """Make this process the parent of what a command leaves behind, whose CPU time would be lost (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cpu_s() -> float:
    """Of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def descendants_s() -> dict[int, float]:
    """CPU time of each process that descends from this one and still runs; none where there is no /proc."""
    parents, spent = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            _, parent, *others = place.read_text().rpartition(")")[2].split()
            parents[int(place.parent.name)] = int(parent)
            spent[int(place.parent.name)] = sum(map(int, others[9:11])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return {process: spent[process] for process in ours - {os.getpid()}}


def table_of(sweep: Sweep, file: Path) -> bytes:
    """The table as JSON lines."""
    return b"\n".join(msgspec.json.encode(row) for row in sweeps.table(sweep, file))


def at_half(act: Callable[[], None]) -> Callable[[int, int], None]:
    """Act once, when half is done."""
    done: list[int] = []

    def watch(finished: int, all_: int) -> None:
        if finished >= all_ / 2 and not done:
            done.append(finished)
            act()

    return watch


def kill_a_worker() -> None:
    """As the kernel does when memory runs out."""
    victim = multiprocessing.active_children()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)


def interrupt() -> None:
    """As Ctrl-C does."""
    raise KeyboardInterrupt


def on_two_nodes(sweep: Sweep, file: Path) -> Took | None:
    """On a Ray cluster of two nodes with one core each; None where Ray is not installed."""
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        return None
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        return took(sweep, file, "--ray", cluster.address)
    finally:
        cluster.shutdown()


def kept(sweep: Sweep, file: Path, watch: Callable[[int, int], None]) -> bytes:
    """The table of a sweep in this process, on two workers, watched."""
    sweeps.run(sweep, file, workers=2, watch=watch)
    return table_of(sweep, file)


def main() -> None:
    """Print each figure beside its target; the exit code says whether the tables are all the same."""
    ask, *sizes = sys.argv[1:] or ["plan"]
    points, requests = ([int(text) for text in sizes] + [POINTS, REQUESTS][len(sizes) :])[:2]
    sweep = grid(ask, points, requests)
    what = "plans" if ask == "plan" else f"simulations of {requests:,} requests"
    print(f"{sweep.size} {what}; load average {os.getloadavg()[0]:.1f}")
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        took(grid("simulate", 2, 100), place / "warm.sqlite")  # compiles the simulator, once on a machine
        one = took(sweep, place / "one.sqlite", "--workers", "1")
        print(f"one process            {one.wall_s:8.1f} s wall {one.cpu_s:8.1f} s CPU", flush=True)
        pool = took(sweep, place / "pool.sqlite", "--workers", "2")
        allowed = 2.0 * one.cpu_s / pool.cpu_s
        print(f"pool of 2              {pool.wall_s:8.1f} s wall {pool.cpu_s:8.1f} s CPU")
        print(
            f"  speed-up {one.wall_s / pool.wall_s:.2f} measured, {allowed:.2f} by CPU times; target {SPEED_UP:g}",
            flush=True,
        )
        ray = on_two_nodes(sweep, place / "ray.sqlite")
        if ray is None:
            print("Ray is not installed: pip install 'tonnage[ray]'")
        else:
            print(
                f"Ray, two local nodes   {ray.wall_s:8.1f} s wall {ray.cpu_s:8.1f} s CPU, servers {ray.servers_s:.1f}"
            )
            walls, cpus = ray.wall_s / pool.wall_s, ray.cpu_s / pool.cpu_s
            print(f"  {walls:.2f} x the pool measured, {cpus:.2f} x by CPU times; target {RAY_OVER_POOL:g}", flush=True)
        killed = kept(sweep, place / "killed.sqlite", at_half(kill_a_worker))
        with contextlib.suppress(KeyboardInterrupt):
            kept(sweep, place / "resumed.sqlite", at_half(interrupt))
        again: list[int] = []
        resumed = kept(sweep, place / "resumed.sqlite", lambda done, all_: again.append(all_ - done))
        print(f"interrupted at half    {again[0]} of {sweep.size} asked after it")
    same = {
        "pool of 2": pool.table == one.table,
        "a worker killed": killed == one.table,
        "interrupted and resumed": 0 < again[0] < sweep.size and resumed == one.table,
    } | ({} if ray is None else {"Ray": ray.table == one.table})
    for name, equal in same.items():
        print(f"{name}: {'the same table, byte for byte' if equal else 'ANOTHER TABLE'}")
    print(f"load average {os.getloadavg()[0]:.1f}")
    raise SystemExit(not all(same.values()))


if __name__ == "__main__":
    main()
