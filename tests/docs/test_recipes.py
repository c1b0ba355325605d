"""Whoever follows a recipe gets what it says: the test does, in a copy of the house."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
SECTIONS = {part.splitlines()[0]: part for part in TEXT.split("\n## ")[1:]}
STEP = re.compile(r"(?:^(New file|Add to|Change) `([^`]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    # Times of files are copied, too: byte code stays good, and each recipe compiles what it changes.
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc")
    shutil.copytree(ROOT / "src" / "tonnage", tmp_path / "src" / "tonnage", ignore=ignored)
    return tmp_path


def changed(text: str, diff: str) -> str:
    """The text with each hunk of a diff applied at the one place where its unchanged lines stand."""
    for hunk in diff.split("\n@@\n")[1:]:
        lines = hunk.rstrip("\n").split("\n")
        before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        after = "\n".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"the change does not say where: {before}"
        text = text.replace(before, after)
    return text


def run(command: str, *, house: Path) -> str:
    shim = house / "bin"
    shim.mkdir(exist_ok=True)
    for name, command_of in (("tonnage", "-m tonnage "), ("python", "")):
        (shim / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command_of}"$@"\n', encoding="utf-8")
        (shim / name).chmod(0o755)
    environment = {
        **os.environ,
        "COLUMNS": "120",
        "PYTHONPATH": str(house / "src"),
        "PATH": f"{shim}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=house,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout.strip()


def like(shown: str) -> re.Pattern[str]:
    """What a document shows, where … stands for anything."""
    return re.compile(".*".join(re.escape(piece) for piece in shown.strip().split("…")), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_following_the_recipe_gives_what_it_says(section: str, house: Path) -> None:
    ran = 0
    for what, path, kind, body in STEP.findall(SECTIONS[section]):
        place = house / path
        if what == "New file":
            assert not place.exists()
            place.parent.mkdir(exist_ok=True)
            place.write_text(body, encoding="utf-8")
        elif what == "Add to":
            old = place.read_text(encoding="utf-8")
            place.write_text(old.rstrip("\n") + "\n" + body, encoding="utf-8")
        elif what == "Change":
            place.write_text(changed(place.read_text(encoding="utf-8"), body), encoding="utf-8")
        elif kind == "console":
            for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, shown = step.partition("\n")
                found = run(command, house=house)
                assert "Traceback" not in found and like(shown).fullmatch(found), f"$ {command}\n{found}"
                ran += 1
    assert ran


def test_every_kind_of_addition_has_a_recipe() -> None:
    assert len(SECTIONS) == 7
