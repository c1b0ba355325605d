"""
`tonnage --help`, `catalog` and `fit` start light: at most 0.25 s of CPU, and none of the heavy packages is imported.
"""

import os
import subprocess
import sys

import pytest
from tests.patience import assert_quick

MOST_S = 0.25
HEAVY = {
    # core, but only where numbers are crunched
    "numpy",
    "numba",
    "llvmlite",
    "highspy",
    # the extras, by the names they are imported under
    "litestar",
    "uvicorn",
    "jinja2",
    "vl_convert",
    "httpx",
    "prometheus_client",
    "uvloop",
    "sqlalchemy",
    "huggingface_hub",
    "gpuhunt",
    "torch",
    "duckdb",
    "psycopg",
    "ray",
}
READING = {"rich", "yaml"}
"""What only answers need."""
PROGRAM = """
import sys, time
from tonnage.cli import root
try: root.main(sys.argv[1:], prog_name="tonnage")
except SystemExit as done: assert not done.code
print(time.process_time(), *{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""
COMMANDS = {
    "--help": HEAVY | READING,
    "--version": HEAVY | READING,
    "catalog accelerators": HEAVY | READING,
    "catalog accelerators --json": HEAVY | READING,
    "catalog models": HEAVY,
    "fit meta-llama/Llama-3.1-8B-Instruct": HEAVY,
}


def started(command: str) -> tuple[float, set[str]]:
    """CPU seconds of a process of its own, and the packages that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split()],
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seconds, *packages = done.stderr.split()
    return float(seconds), set(packages)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_light_commands_import_nothing_heavy_and_take_no_time(command: str) -> None:
    spent_s, found = started(command)
    assert "tonnage" in found and found & COMMANDS[command] == set()
    if COMMANDS[command] >= READING:
        assert_quick(spent_s if spent_s < MOST_S else min(spent_s, *(started(command)[0] for _ in range(2))), MOST_S)
