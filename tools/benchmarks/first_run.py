"""
How long from nothing to an answer? `python -m tools.benchmarks.first_run`

Builds the wheel of this tree, then asks two questions by `uvx`, as someone would who has uv and nothing else: the first
with an empty cache, so that every package is fetched, unpacked and compiled as it is imported, the second after it. CPU
seconds count the processes that uvx starts; wall seconds are of this machine and its network. The index is uv's own,
or what UV_INDEX_URL and UV_FIND_LINKS name.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT_S: Final = 30.0
"""Most that both may take together, installation included. [s]"""
MODEL: Final = "meta-llama/Llama-3.1-8B-Instruct"
QUESTIONS: Final = {
    "fit, nothing installed": ("fit", MODEL, "--accelerator", "h100"),
    "plan serve --quick, after it": ("plan", "serve", MODEL, "--rate", "2/s", "--traffic", "chat", "--quick"),
}


def first_run() -> dict[str, tuple[float, float]]:
    """CPU and wall seconds of each question, in order."""
    told = subprocess.run(
        [sys.executable, ROOT / "tools" / "environments.py", "uv"], check=True, capture_output=True, text=True
    )
    uvx = Path(told.stdout.strip()).with_name("uvx")
    found = {}
    with tempfile.TemporaryDirectory() as place:
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            place,
            ROOT,
        ]
        subprocess.run(build, check=True)
        (wheel,) = Path(place).glob("*.whl")
        own = {**os.environ, "UV_CACHE_DIR": str(Path(place, "cache")), "UV_TOOL_DIR": str(Path(place, "tools"))}
        for name, words in QUESTIONS.items():
            asked = [uvx, "--quiet", "--python", sys.executable, "--from", wheel, "tonnage", *words]
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(asked, check=True, env=own, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[name] = round(cpu, 2), round(time.monotonic() - start, 1)
    return found


def main() -> int:
    """Exit code 1: both took longer than the limit."""
    found = first_run()
    wall = sum(wall_s for _, wall_s in found.values())
    print(f"{'':30}{'CPU s':>8}{'wall s':>8}")
    for name, (cpu_s, wall_s) in found.items():
        print(f"{name:30}{cpu_s:>8.2f}{wall_s:>8.1f}")
    print(f"{'both, of ' + format(LIMIT_S, 'g'):30}{'':8}{wall:>8.1f}")
    return 0 if wall <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
