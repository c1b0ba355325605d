"""
`tonnage --help`, `catalog` and `fit` start light: they import neither numpy, numba or highspy nor any extra.

How much processor time that start takes is a benchmark, not a test: it depends on the machine.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLI = Path(__file__).parents[2] / "src" / "tonnage" / "cli"

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

COMMANDS = [
    pytest.param("__init__.py", ["--help"], id="help"),
    pytest.param("__init__.py", ["--version"], id="version"),
    pytest.param("catalog.py", ["catalog", "accelerators"], id="catalog-accelerators"),
    pytest.param("catalog.py", ["catalog", "models"], id="catalog-models"),
    pytest.param("fit.py", ["fit", "meta-llama/Llama-3.1-8B-Instruct"], id="fit"),
]


def imported(report: str) -> set[str]:
    """The top-level packages in the report of `python -X importtime`."""
    names = (line.rpartition("|")[2].strip() for line in report.splitlines() if line.startswith("import time:"))
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(("file", "arguments"), COMMANDS)
def test_the_light_commands_import_nothing_heavy(file: str, arguments: list[str]) -> None:
    if not (CLI / file).exists() or not hasattr(importlib.import_module("tonnage.cli"), "main"):
        pytest.skip(f"tonnage has no {arguments[0]} yet")
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tonnage", *arguments],
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = imported(run.stderr)
    assert "tonnage" in found, "the report of -X importtime was not understood"
    assert found & HEAVY == set()


def test_a_heavy_import_shows_in_the_report() -> None:
    report = (
        "import time: self [us] | cumulative | imported package\nimport time:       120 |        120 |   numpy.linalg\n"
    )
    assert imported(report) & HEAVY == {"numpy"}
