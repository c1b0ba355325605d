"""Real runs on the machine at hand, kept as dated rows under measurements/own and scored."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tools.own.gpu import look, measured_device, write_device
from tools.own.llamacpp import allocated
from tools.own.sweeps import sweeps
from tools.own.table import Row, append

from tonnage.errors import TonnageError
from tonnage_accuracy.network_groups import own_figures
from tonnage_accuracy.own_engine import few_points, worsened

OWN = Path(__file__).parents[2] / "measurements" / "own"
NOTHING = 3
"""Exit code where the machine has no accelerator, or no software that could measure it."""


def main() -> int:
    """Measure what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.own", description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True)
    gpu = kinds.add_parser("gpu", help="device, networks, training steps and a server on an NVIDIA accelerator")
    gpu.add_argument("--minutes", type=float, default=9.0, help="about as long it may take")
    server = kinds.add_parser("serve", help="a sweep of an engine on one core, which is measured before")
    server.add_argument("engine", choices=["llamacpp", "vllm"])
    server.add_argument("--device", required=True, help="name of the core's file in measurements/own")
    server.add_argument("--python", type=Path, default=Path(sys.executable), help="Python of vLLM's environment")
    kinds.add_parser("score", help="every kept row beside its prediction")
    kinds.add_parser("memory", help="what llama.cpp says it allocates for published shapes")
    given = parser.parse_args()
    if given.what == "gpu":
        return on_gpu(given.minutes * 60.0)
    if given.what == "memory":
        append(OWN / "llamacpp_memory.csv", list(allocated()), of=("model",))
        return 0
    if given.what == "serve":
        how = f"python -m tools.own serve: engine before all others on its core, load {os.getloadavg()[0]:.0f}"
        with tempfile.TemporaryDirectory() as folder:
            found = sweeps(given.engine, given.device, Path(folder), python=given.python.absolute(), how=how)
            keep_servers(found)
    score()
    return 0


def on_gpu(seconds: float) -> int:
    """Each part in its share of the time."""
    begun, found = time.monotonic(), look()
    print("\n".join(found.told()))
    if not found.gpu:
        print("make gpu: nvidia-smi shows no accelerator here; nothing was measured", file=sys.stderr)
        return NOTHING
    device = measured_device(found, seconds=0.15 * seconds)
    if isinstance(device, str):
        print(f"make gpu: {device}", file=sys.stderr)
        return NOTHING
    path = write_device(device, OWN)
    if found.torch:
        from tools.own.networks import network_rows  # imports torch

        append(
            OWN / "runs.csv",
            list(network_rows("cuda", device, OWN, seconds=0.35 * seconds)),
            of=("accelerator_id", "date"),
        )
    if found.vllm and time.monotonic() - begun < 0.7 * seconds:
        with tempfile.TemporaryDirectory() as folder:
            rows = sweeps(
                "vllm", path.name, Path(folder), python=Path(sys.executable), how="make gpu", machine=found.gpu
            )
            keep_servers(until(rows, begun + seconds))
    score()
    return 0


def until(rows: Iterable[Row], moment: float) -> Iterable[Row]:
    """The rows that are measured before a moment of the monotonic clock."""
    for row in rows:
        yield row
        if time.monotonic() > moment:
            return


def keep_servers(rows: Iterable[Row]) -> None:
    """Rows of engine.csv, printed as they come."""
    kept: list[Row] = []
    shown = ("model", "prompt_tokens", "concurrency", "ttft_s", "tpot_s", "server_cpu_share")
    try:
        for row in rows:
            print(*(row[name] for name in shown), flush=True)
            kept.append(row)
    finally:
        if kept:
            append(OWN / "engine.csv", kept, of=("model", "date"))


def score() -> None:
    """Errors of every kept run, before and after some points."""
    for figure in (*own_figures(OWN), *few_points(OWN)):
        if figure.value is not None:
            print(f"{figure.group:40} {figure.figure:50} {figure.rows:4} {100 * figure.value:6.1f} %")
    for count, quantity, worse, of, most in worsened(OWN):
        what = f"{quantity} worse by over 2 points, after {count} measured"
        print(f"{'own: all runs':40} {what:50} {of:4} {worse:4}   at most {100 * most:+.0f} points")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TonnageError as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)
