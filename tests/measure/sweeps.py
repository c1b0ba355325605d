"""
Two sweeps of llama.cpp on one core, of a model and of one of ten times its size: rows of measurements/own/engine.csv.

    python -m tests.measure.sweeps [ROUNDS]

The server has its core before all others (SCHED_FIFO, needs the right to) and the client the other core. Printed are
seconds as the client saw them and the server's share of its core.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from tests.measure.engine_models import process_of, serving, used_s, write_llama
from tonnage.domain.measurement import Load
from tonnage.measure.records import Spec
from tonnage.measure.serve import measure_serve

MODELS = {"75MB": (768, 2048, 6), "904MB": (2048, 5632, 10)}
LEVELS = (1, 2, 4, 8, 16)
EACH = 3
"""Requests of every client."""
TOKENS = 32


def sweep(name: str, folder: Path, repeat: int) -> None:
    """One row for each level."""
    hidden, feed_forward, layers = MODELS[name]
    path = folder / f"{name}.gguf"
    if not path.exists():
        write_llama(path, hidden=hidden, feed_forward=feed_forward, layers=layers)
    first, second = sorted(os.sched_getaffinity(0))[:2]
    with serving(path, slots=16, core=second, first=True) as url:
        os.sched_setaffinity(0, {first})
        child = process_of(url)
        for clients in LEVELS:
            load = Load(concurrency=clients, requests=EACH * clients, warmup=1, duration_s=900.0)
            spec = Spec(
                url=url,
                kind="completions",
                model="tiny",
                load=load,
                prompt_tokens=64,
                output_tokens=TOKENS,
                timeout_s=600.0,
            )
            begun, used = time.monotonic(), used_s(child)
            point = measure_serve(spec, folder / f"{name}-{repeat}-{clients}.jsonl").points[0]
            share = min(1.0, (used_s(child) - used) / (time.monotonic() - begun))
            assert point.ttft_s is not None and point.tpot_s is not None and point.prompt_tokens is not None
            print(
                f"{name},{hidden},{feed_forward},{layers},259,{clients},{point.completed},{point.prompt_tokens:.1f},{TOKENS},"
                f"{point.ttft_s.mean:.5f},{point.tpot_s.mean:.6f},{share:.3f},{repeat}",
                flush=True,
            )
        os.sched_setaffinity(0, {first, second})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
            for name in MODELS:
                sweep(name, Path(folder), repeat)


if __name__ == "__main__":
    main()
