"""
Is this checkout slower than another commit? `python -m tools.benchmarks.against COMMIT [RUNS [FILE ...]]`

The other commit is unpacked beside this one and both answer the same questions in turn, so that a busy machine slows
both alike; files are requests to plan, asked in place of the usual questions. What counts is CPU seconds (user and
system) of the whole process; the ratio is of the medians. Neither writes byte code nor compiled loops where the other
reads: each has one run first that is not counted.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from tools.benchmarks.measuring import child

HERE: Final = Path(__file__).resolve().parents[2]
MODEL: Final = "meta-llama/Llama-3.1-70B-Instruct"
QUESTIONS: Final[dict[str, tuple[str, ...]]] = {
    "--help": ("--help",),
    "catalog accelerators": ("catalog", "accelerators"),
    "fit 70B on H100": ("fit", MODEL, "--accelerator", "H100"),
    "plan serve --quick": (
        "plan", "serve", MODEL, "--rate", "4/s", "--traffic", "chat", "--ttft", "1s", "--tpot", "50ms", "--quick",
    ),
    "simulate 1,000 requests": ("simulate", "{1000}"),
    "simulate 400,000 requests": ("simulate", "{400000}"),
}  # fmt: skip
CASE: Final = """\
model: meta-llama/Llama-3.1-8B-Instruct
accelerator: H100
traffic: {{profile: chat, rate: 6/s, requests: {requests}}}
"""


def compare(commit: str, runs: int, questions: dict[str, tuple[str, ...]]) -> dict[str, tuple[float, float]]:
    """Median CPU seconds of each question, by its name: of the commit, and of this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        packed = subprocess.run(["git", "archive", commit, "src"], cwd=HERE, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(other, filter="data")
        found = {}
        for name, words in questions.items():
            arguments = [_case(Path(folder), word) for word in words]
            spent: dict[Path, list[float]] = {other: [], HERE: []}
            for run in range(runs + 1):
                for checkout, counted in spent.items():
                    took = _cpu_s(checkout, arguments, compiled=Path(folder) / checkout.name)
                    counted.extend([took] if run else [])
            found[name] = (median(spent[other]), median(spent[HERE]))
    return found


def _case(folder: Path, word: str) -> str:
    """A word of a question; "{1000}" is a file that asks for a simulation of so many requests."""
    if not word.startswith("{"):
        return word
    path = folder / f"{word.strip('{}')}.yaml"
    path.write_text(CASE.format(requests=word.strip("{}")), encoding="utf-8")
    return str(path)


def _cpu_s(checkout: Path, arguments: list[str], *, compiled: Path) -> float:
    os.environ["PYTHONPATH"], os.environ["NUMBA_CACHE_DIR"] = str(checkout / "src"), str(compiled)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    run = child(arguments)
    if run.code not in (0, 3):
        raise SystemExit(f"tonnage {' '.join(arguments)} of {checkout} ended with code {run.code}")
    return run.cpu_s


def run() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    files: dict[str, tuple[str, ...]] = {Path(file).stem: ("plan", str(Path(file).resolve())) for file in sys.argv[3:]}
    for name, (then, now) in compare(sys.argv[1], runs, files or QUESTIONS).items():
        print(f"{name:28} {then:7.3f} CPU s then, {now:7.3f} now: {now / then - 1.0:+6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(run())
