"""
Sweeps: what two processes and two Ray nodes make of the same grid, and what a lost worker and an interruption cost.

`python -m benchmarks.sweep [points] [requests]`, 200 simulations of 20,000 requests by default. Wall-clock times mean
something only on an idle machine, so the load average is printed beside them, and next to the measured speed-up stands
the one that the CPU times allow: two cores for what one process did, over what two processes spent together.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tonnage.scale import sweep as sweeps
from tonnage.scale.points import Sweep, sweep_of

POINTS, REQUESTS = 200, 20_000
SPEED_UP, RAY_OVER_POOL = 1.8, 1.15


class Took(NamedTuple):
    """One sweep."""

    wall_s: float
    cpu_s: float
    """Of this process and of the children that ended."""
    asked: int
    table: bytes


def grid(points: int, requests: int) -> Sweep:
    """Simulations of one model under rising load on two accelerators."""
    rates = [f"{1 + 9 * n / max(1, points // 2 - 1):.3f}/s" for n in range(points // 2)]
    return sweep_of(
        {
            "sweep": "simulate",
            "base": {
                "model": "meta-llama/Llama-3.1-8B-Instruct",
                "slo": {"ttft": "1 s", "tpot": "50 ms"},
                "traffic": {"profile": "chat", "requests": requests},
            },
            "grid": {"accelerator": ["H100", "L40S"], "traffic.rate": rates},
        }
    )


def took(sweep: Sweep, file: Path, **how: object) -> Took:
    """Run it into a file and read the table back."""
    start, before = time.perf_counter(), cpu_s()
    asked = sweeps.run(sweep, file, **how)  # type: ignore[arg-type]
    wall_s = time.perf_counter() - start
    for process in multiprocessing.active_children():
        process.join()
    return Took(wall_s, cpu_s() - before, asked, table_of(sweep, file))


def cpu_s() -> float:
    """Of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


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
        return took(sweep, file, ray=cluster.address)
    finally:
        cluster.shutdown()


def main() -> None:
    """Print each figure beside its target; the exit code says whether the tables are all the same."""
    points, requests = ([int(text) for text in sys.argv[1:]] + [POINTS, REQUESTS][len(sys.argv) - 1 :])[:2]
    sweep = grid(points, requests)
    print(f"{sweep.size} simulations of {requests:,} requests; load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        took(grid(2, 100), place / "warm.sqlite")  # compiles the simulator, once on a machine
        one = took(sweep, place / "one.sqlite")
        print(f"one process            {one.wall_s:8.1f} s wall {one.cpu_s:8.1f} s CPU")
        pool = took(sweep, place / "pool.sqlite", workers=2)
        allowed = 2.0 * one.cpu_s / pool.cpu_s
        print(f"pool of 2              {pool.wall_s:8.1f} s wall {pool.cpu_s:8.1f} s CPU")
        print(f"  speed-up {one.wall_s / pool.wall_s:.2f} measured, {allowed:.2f} by CPU times; target {SPEED_UP:g}")
        same = {"pool of 2": pool.table == one.table}
        killed = took(sweep, place / "killed.sqlite", workers=2, watch=at_half(kill_a_worker))
        print(f"pool, a worker killed  {killed.wall_s:8.1f} s wall {killed.cpu_s:8.1f} s CPU")
        same["a worker killed"] = killed.table == one.table
        with contextlib.suppress(KeyboardInterrupt):
            sweeps.run(sweep, place / "resumed.sqlite", workers=2, watch=at_half(interrupt))
        resumed = took(sweep, place / "resumed.sqlite", workers=2)
        print(f"interrupted at half    {resumed.asked} of {sweep.size} asked after it")
        same["interrupted and resumed"] = 0 < resumed.asked < sweep.size and resumed.table == one.table
        ray = on_two_nodes(sweep, place / "ray.sqlite")
        if ray is None:
            print("Ray is not installed: pip install 'tonnage[ray]'")
        else:
            ratio = ray.wall_s / pool.wall_s
            print(f"Ray, two local nodes   {ray.wall_s:8.1f} s wall, {ratio:.2f} x the pool; target {RAY_OVER_POOL:g}")
            same["Ray"] = ray.table == one.table
    for name, equal in same.items():
        print(f"{name}: {'the same table, byte for byte' if equal else 'ANOTHER TABLE'}")
    print(f"load average {os.getloadavg()[0]:.1f}")
    raise SystemExit(not all(same.values()))


if __name__ == "__main__":
    main()
