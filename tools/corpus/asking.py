"""Questions are command lines, asked one after the other in one process, with the date fixed and no user's own data."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import time_machine
from click.testing import CliRunner

__all__ = ["CHOSEN", "ROOT", "Answer", "Question", "ask", "questions", "workplace"]

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
TODAY: Final = "2026-11-28T12:00:00+00:00"
COLUMNS: Final = "120"
CHOSEN: Final = "*"
"""Before a question that the tests ask, too."""

SHOWN: Final = ">"
"""Before a question whose text is kept character by character."""


class Question(NamedTuple):
    """One line of `questions.txt`."""

    line: str
    chosen: bool
    shown: bool


class Answer(NamedTuple):
    """What a command printed and wrote."""

    code: int
    out: str
    error: str
    files: dict[str, str]
    """By path, of those that were not there before."""


def questions() -> list[Question]:
    """Every question, in order: one may read a file that an earlier one of its paragraph wrote."""
    lines = (HERE / "questions.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for line in (line for line in lines if line and line[0] != "#"):
        bare = line.lstrip(CHOSEN + SHOWN)
        marks = line.removesuffix(bare)
        found.append(Question(bare.strip(), CHOSEN in marks, SHOWN in marks))
    return found


@contextmanager
def workplace() -> Iterator[None]:
    """A folder with the checkout's examples, rows and the files of the corpus; home, date and width fixed."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name in ("examples", "measurements", "tests"):
            Path(name).symlink_to(ROOT / name)
        for path in (HERE / "files").iterdir():
            Path(path.name).symlink_to(path)
        home = {name: f"{folder}/.home" for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
        fixed = {**home, "XDG_STATE_HOME": f"{folder}/.home", "COLUMNS": COLUMNS, "TONNAGE_OFFLINE": "1", "TZ": "UTC"}
        with patch.dict(os.environ, fixed), time_machine.travel(TODAY, tick=False):
            yield


def ask(question: Question) -> Answer:
    """The answer of this checkout; call it inside `workplace`."""
    from tonnage.cli import root

    before = _files()
    done = CliRunner().invoke(root, shlex.split(question.line), prog_name="tonnage", terminal_width=int(COLUMNS) - 2)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(f"`tonnage {question.line}` raised") from done.exception
    written = {name: path.read_text(encoding="utf-8") for name, path in _files().items() if name not in before}
    return Answer(done.exit_code, done.stdout, done.stderr, written)


def _files() -> dict[str, Path]:
    """Regular files of the workplace, those behind its links and of its home not counted."""
    found: dict[str, Path] = {}
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if name[0] != "."]
        paths = (Path(folder) / name for name in names)
        found |= {path.as_posix(): path for path in paths if not path.is_symlink()}
    return found
