"""
A writer that is killed again and again: nothing that it said was committed may be missing, and the store always opens.

`python -m tests.measure.history.killed CYCLES [SQLITE-FILE]` runs as many as asked; the suite runs a few. One child
writes measurements and prints the number of each once it is committed; the parent kills it at a random moment (-9).
"""

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Measurement
from tonnage.measure.history import Place, remember

__all__ = ["cycle", "main"]

MOST_S = 0.08
"""Longest that a writer lives after its first measurement. [s]"""


def write(path: Path, name: str) -> None:
    """Write until killed."""
    number = 0
    while True:
        noun = Measurement(
            schema=MEASUREMENT_SCHEMA, tool="killed", model=f"{name}/{number}", points=(), notes=("x" * 3000,)
        )
        remember(noun, place=Place(path=path))
        print(noun.model, flush=True)
        number += 1


def cycle(path: Path, name: str, draw: random.Random) -> list[str]:
    """One writer, killed; the models it said were committed."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.measure.history.killed", "write", str(path), name],
        stdout=subprocess.PIPE,
        text=True,
    )
    said = [child.stdout.readline().strip()]
    time.sleep(draw.uniform(0.0, MOST_S))
    child.send_signal(signal.SIGKILL)
    said += [line.strip() for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    child.wait()
    child.stdout.close()
    return said


def missing(path: Path, said: list[str]) -> list[str]:
    """What the store lost; opening it is half of the test."""
    with contextlib.closing(sqlite3.connect(path)) as store:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        kept = {row[0] for row in store.execute("SELECT model FROM measurement")}
    return [model for model in said if model not in kept]


def main(cycles: int, path: Path) -> int:
    """As many writers as asked; how many measurements were committed in all."""
    draw, said = random.Random(0), []
    for number in range(cycles):
        said += cycle(path, f"{number}", draw)
        lost = missing(path, said)
        assert not lost, f"cycle {number}: {len(lost)} committed measurements are gone: {lost[:3]}"
    return len(said)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(sys.argv[2] if len(sys.argv) > 2 else f"{folder}/history.sqlite")
        print(f"{sys.argv[1]} writers killed, {main(int(sys.argv[1]), place):,} measurements committed, none lost")
