"""Questions are command lines, asked one after the other in one process, with the date fixed and no user's own data."""

from __future__ import annotations

import os
import shlex
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import time_machine
from click.testing import CliRunner

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
TODAY: Final = "2026-11-28T12:00:00+00:00"
COLUMNS: Final = "120"
CHOSEN: Final = "*"
"""Before a question that the tests ask, too."""

SHOWN: Final = ">"
"""Before a question whose text is kept character by character."""

WRITTEN_BY: Final = ("-o", "--output", "--out", "--better")
"""Options whose word is a file that later questions of the paragraph may name."""

CRASHED: Final = -1
"""Exit code of a command that ended with a traceback."""


class Question(NamedTuple):
    """One line of `questions.txt`."""

    line: str
    chosen: bool
    shown: bool
    needs: tuple[Question, ...] = ()
    """Those of its paragraph that write a file it names."""


class Answer(NamedTuple):
    """What a command printed and wrote."""

    code: int
    out: str
    error: str
    files: dict[str, str]
    """By path, of those that were not there before, or not the same."""


def questions() -> list[Question]:
    """Every question, in order: one may read a file that an earlier one of its paragraph wrote."""
    found = []
    for paragraph in (HERE / "questions.txt").read_text(encoding="utf-8").split("\n\n"):
        writers: dict[str, Question] = {}
        for line in (line for line in paragraph.splitlines() if line and line[0] != "#"):
            bare = line.lstrip(CHOSEN + SHOWN)
            marks, words = line.removesuffix(bare), shlex.split(bare)
            needs = tuple(writer for name, writer in writers.items() if name in words)
            question = Question(bare.strip(), CHOSEN in marks, SHOWN in marks, needs)
            writers |= {name: question for option, name in pairwise(words) if option in WRITTEN_BY}
            found.append(question)
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
    for writer in question.needs:
        if not all(name in before for name in _written(writer)):
            ask(writer)
            before = _files()
    done = CliRunner().invoke(root, shlex.split(question.line), prog_name="tonnage", terminal_width=int(COLUMNS) - 2)
    error, code = done.stderr, done.exit_code
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        error, code = error + "".join(traceback.format_exception(done.exception)), CRASHED
    written = {name: _text(name) for name, changed in _files().items() if before.get(name) != changed}
    return Answer(code, done.stdout, error, written)


def _written(question: Question) -> list[str]:
    """Files that a question writes."""
    return [name for option, name in pairwise(shlex.split(question.line)) if option in WRITTEN_BY]


def _text(name: str) -> str:
    return Path(name).read_text(encoding="utf-8", errors="replace")


def _files() -> dict[str, int]:
    """Regular files of the workplace and when each was last written, those behind its links and of its home not."""
    found: dict[str, int] = {}
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if name[0] != "."]
        paths = [Path(folder) / name for name in names if name[0] != "."]
        found |= {path.as_posix(): path.stat().st_mtime_ns for path in paths if not path.is_symlink()}
    return found
