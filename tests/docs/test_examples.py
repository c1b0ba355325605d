"""Every code block of the documents runs.

A `console` block holds commands (`$ tonnage … | head -5`) and what they print; `python` blocks run one after the other
in one interpreter. Commands run in a folder with the examples and what earlier blocks of the same document wrote:
`tonnage` in this process, what its output is piped to and all other lines in a shell. `--update-golden` rewrites
outputs in place, so that a changed number shows up in the diff of the document. A fence of another kind must be one
that nobody is meant to run here (`KINDS`).
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.patience import PATIENCE_S

from tonnage.cli import root

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PLAIN = re.compile(r"tonnage ([^|<>;&$`]*?)( [|>] .*)?")
"""One call of `tonnage` and where its output goes; whatever else a shell can do is left to the shell."""
ENVIRONMENT = {"COLUMNS": "120", "LC_ALL": "C.UTF-8"}

# Printed once a machine, by whichever command is the first to need some entry of the simulator.
COMPILING = "tonnage: compiling the simulator"

# Text, the drawing made of the imports, files shown whole, and commands of the checkout (make, git) or against
# somebody's own machines.
KINDS = ("", "text", "mermaid", "yaml", "toml", "json", "sh", "console", "python")


def documents() -> list[str]:
    # Recipes change the house and are followed in a copy of it (test_recipes.py).
    paths = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if path.name != "recipes.md")]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def blocks(name: str, *kinds: str) -> list[str]:
    """The bodies of a document's blocks of some kinds."""
    return [body for kind, body in FENCE.findall((ROOT / name).read_text(encoding="utf-8")) if kind in kinds]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose `tonnage` is this checkout's."""
    folder = tmp_path_factory.mktemp("bin")
    for command, call in {"tonnage": f'"{sys.executable}" -m tonnage', "python": f'"{sys.executable}"'}.items():
        (folder / command).write_text(f'#!/bin/sh\nexec {call} "$@"\n', encoding="utf-8")
        (folder / command).chmod(0o755)
    return folder


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader of one document works: the examples, and whatever the blocks before have written."""
    for name in ("examples", "measurements", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    return tmp_path


def in_shell(command: str, *, bench: Path, given: str = "") -> str:
    """What a line of the shell prints, both streams."""
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": f"{bench}{os.pathsep}{os.environ['PATH']}"},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout


def run(command: str, *, bench: Path) -> str:
    """What one command line prints, both streams, as someone in the checkout would see it."""
    if plain := PLAIN.fullmatch(command):
        done = CliRunner().invoke(root, shlex.split(plain[1]), prog_name="tonnage", catch_exceptions=False)
        printed = done.output
        if plain[2]:
            printed = done.stderr + in_shell(f"cat {plain[2]}", bench=bench, given=done.stdout)
    else:
        printed = in_shell(command, bench=bench)
    assert "Traceback" not in printed, f"{command}: {printed}"
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    return "\n".join(line for line in lines if not line.startswith(COMPILING))


def replayed(block: str, *, bench: Path) -> str:
    """The block with each command's output as it is now."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    shown = ((command, run(command, bench=bench)) for command in commands)
    told = [(command, output) for command, output in shown]
    assert all(output or "tonnage" not in command or ">" in command for command, output in told), "a command is silent"
    return "".join(f"$ {command}\n{output}\n" if output else f"$ {command}\n" for command, output in told)


@pytest.mark.parametrize("name", [name for name in documents() if blocks(name, "console")])
@pytest.mark.usefixtures("desk")
def test_commands_print_what_the_document_shows(name: str, bench: Path, request: pytest.FixtureRequest) -> None:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")

    def now(match: re.Match[str]) -> str:
        return f"```console\n{replayed(match[2], bench=bench)}```" if match[1] == "console" else match[0]

    found = FENCE.sub(now, text)
    if request.config.getoption("--update-golden"):
        path.write_text(found, encoding="utf-8")
    assert found == text or request.config.getoption("--update-golden"), f"an example of {name} moved: --update-golden"


@pytest.mark.parametrize("name", [name for name in documents() if blocks(name, "python")])
@pytest.mark.usefixtures("desk")
def test_python_of_a_document_runs(name: str) -> None:
    exec("\n".join(blocks(name, "python")), {})


@pytest.mark.parametrize("name", documents())
def test_nothing_else_pretends_to_run(name: str) -> None:
    kinds = [kind for kind, _ in FENCE.findall((ROOT / name).read_text(encoding="utf-8"))]
    assert set(kinds) <= set(KINDS), f"{name}: a block is neither text nor run here"
    told = "\n".join(blocks(name, "sh"))
    assert "tonnage " not in told or name == "README.md", f"{name}: show what tonnage prints in a console block"
