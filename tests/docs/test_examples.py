"""Every console example in the documents prints what the document shows.

A fenced `console` block holds commands (`$ tonnage …`) with their output. `--update-golden` rewrites
the outputs in place, so that a changed number shows up in the diff of the document.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if BLOCK.search(path.read_text(encoding="utf-8"))
)


def run(command: str) -> str:
    """The output of one command, as someone in the checkout would see it."""
    words = shlex.split(command)
    assert words[0] == "tonnage", f"examples run tonnage, not {words[0]}"
    done = subprocess.run(
        [sys.executable, "-m", "tonnage", *words[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "120"},
        check=False,
    )
    return "\n".join(line.rstrip() for line in (done.stdout + done.stderr).strip().splitlines())


def replayed(block: str) -> str:
    """The block with each command's output as it is now."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {command}\n{run(command)}" for command in commands) + "\n"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_examples_print_what_the_document_shows(name: str, request: pytest.FixtureRequest) -> None:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    now = BLOCK.sub(lambda match: f"```console\n{replayed(match[1])}```", text)
    if request.config.getoption("--update-golden"):
        path.write_text(now, encoding="utf-8")
    assert now == text or request.config.getoption("--update-golden"), f"an example of {name} moved: --update-golden"
