"""
Promises about files and stores, each attacked: hostile files, killed writers, full disks, clocks that go back.

A row is a promise and a function that attacks it so many times and says what was found. `ROWS` is what `make attack`
runs; `python -m tools.attack.readers` prints them by themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["ROWS"]

ROOT = Path(__file__).parents[2]
KILLS = 100
UNPRIVILEGED = 65_534

Result = tuple[str, int, str]
"""The promise, how often it was attacked, and what was found ("held", or what did not)."""

_WRITER = """
import sys
from pathlib import Path
from tonnage.measure.history import Place
from tonnage.measure.history import remember
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Measurement
number = int(sys.argv[2])
for i in range(int(sys.argv[3])):
    name, day = f"{number}-{i}", "2026-11-21T10:00:00+00:00" if i % 2 == 0 else "1999-01-01T00:00:00+00:00"
    noun = Measurement(schema=MEASUREMENT_SCHEMA, tool="t", tool_version="1", model=name, date=day, points=())
    remember(noun, place=Place(path=Path(sys.argv[1])))
    print(name, flush=True)
"""
_SWEEPER = """
import sys
from pathlib import Path
from tonnage.sweep import store
for i in range(int(sys.argv[3])):
    with store.opened(Path(sys.argv[1])) as held:
        store.put(held, [(f"{sys.argv[2]}-{i}", b'{"x": 1}')])
    print(f"{sys.argv[2]}-{i}", flush=True)
"""


def _kept_in_history(path: Path) -> set[str]:
    from tonnage.measure.history import Place, export

    return {str(one.model) for one in export(Place(path=path))}


def _kept_in_sweep(path: Path) -> set[str]:
    from tonnage.sweep import store

    with store.open_store(path) as held:
        return store.answered_keys(held)


def _started(script: str, path: Path, *, number: int, rows: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path), str(number), str(rows)], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip


def _killed(what: str, script: str, kept: Callable[[Path], set[str]]) -> Result:
    """A writer is killed at a moment drawn at random; what it had said was kept must be there."""
    pick = random.Random(what)
    said: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        for number in range(KILLS):
            writer = _started(script, path, number=number, rows=10_000)
            assert writer.stdout is not None
            said |= {writer.stdout.readline().strip()}
            time.sleep(pick.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
            said |= {line.strip() for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")}
            writer.communicate()
        lost = said - {""} - kept(path)
        with contextlib.closing(sqlite3.connect(path)) as store:
            sound = store.execute("PRAGMA integrity_check").fetchone()[0]
    found = f"{len(said):,} rows said to be kept, {len(lost)} lost, integrity {sound}"
    return f"{what}: nothing that was kept is lost when its writer is killed", KILLS, found


def kills_of_history() -> Result:
    """Killed writers of the history, whose clocks go back at every second row."""
    return _killed("history", _WRITER, _kept_in_history)


def kills_of_sweeps() -> Result:
    """Killed writers of a sweep's answers."""
    return _killed("sweep", _SWEEPER, _kept_in_sweep)


def two_writers() -> Result:
    """Two programs that write one history at once."""
    rows = 100
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        writers = [_started(_WRITER, path, number=number, rows=rows) for number in (1, 2)]
        wrong = [error.splitlines()[-1] for _, error in (writer.communicate() for writer in writers) if error]
        lost = 2 * rows - len(_kept_in_history(path))
    return "history: two writers at once lose nothing", 2 * rows, f"{lost} lost, {len(wrong)} failed"


def full_disk() -> Result:
    """A file may grow no further, as on a full disk: one sentence, and what was kept is readable."""
    wrong, attacks = [], 0
    for script, kept in ((_WRITER, _kept_in_history), (_SWEEPER, _kept_in_sweep)):
        for limit in (20_000, 60_000, 120_000):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "store.sqlite"
                limited = (
                    f"import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
                    f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n{script}"
                )
                writer = _started(limited, path, number=0, rows=400)
                out, error = writer.communicate()
                said, last = set(out.split()), (error.splitlines() or ["no error"])[-1]
                attacks += 1
                if last != "no error" and not last.startswith("tonnage.errors."):
                    wrong.append(f"{limit}: {last[:120]}")
                elif said and (lost := said - kept(path)):
                    wrong.append(f"{limit}: {len(lost)} of {len(said)} lost")
    return "stores: a full disk is one sentence, and loses nothing", attacks, "; ".join(wrong) or "held"


def read_only_home() -> Result:
    """A history in a folder that may only be read is read; writing it is one sentence."""
    from tonnage.measure.history import Place, export

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        path = home / "history.sqlite"
        _started(_WRITER, path, number=0, rows=3).communicate()
        os.chmod(folder, 0o755)
        os.chmod(path, 0o444)
        os.chmod(home, 0o555)
        drop = f"import os\nif os.getuid() == 0: os.setuid({UNPRIVILEGED})\n"
        # Whatever is imported late is imported by a first write elsewhere: another user may not read our Python.
        first = "place = Place(path=Path(sys.argv[1]).parents[2] / 'first.sqlite')\nnoun = Measurement(schema="
        first += "MEASUREMENT_SCHEMA, tool='t', tool_version='1', points=())\nremember(noun, place=place)\n"
        dropped = _WRITER.replace("number = int", first + drop + "number = int", 1)
        _, error = _started(dropped, path, number=1, rows=1).communicate()
        last = (error.splitlines() or ["written"])[-1]
        kept = sum(1 for _ in export(Place(path=path)))
        os.chmod(home, 0o755)
    held = last.startswith("tonnage.errors.") and kept == 3
    return "history: a read-only home is read, and writing says so", 2, "held" if held else f"{kept} read; {last[:160]}"


def older_schemas() -> Result:
    """Stores of every older version are brought up to date with their rows."""
    from tonnage.measure.history import LATEST, MIGRATIONS, Place, open_store, schema_version

    wrong = []
    for release in range(1, len(MIGRATIONS) + 1):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "old.sqlite"
            with contextlib.closing(sqlite3.connect(path)) as old:
                for statement in (s for step in MIGRATIONS[:release] for s in step):
                    old.execute(statement.format(number="INTEGER"))
                old.execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
                old.executemany("INSERT INTO schema_version VALUES (?)", ((n,) for n in range(1, release + 1)))
                row = ("k", "serve", "2026-01-01", "m", json.dumps({"schema": "tonnage.measurement/1"}))
                old.execute("INSERT INTO measurement (key, kind, date, machine, document) VALUES (?, ?, ?, ?, ?)", row)
                old.commit()
            with open_store(Place(path=path), write=True) as database:
                rows = database.run("SELECT count(*) FROM measurement").fetchone()[0]
                if schema_version(database) != LATEST or rows != 1:
                    wrong.append(f"schema {release}")
    return "history: stores of every older schema keep their rows", len(MIGRATIONS), ", ".join(wrong) or "held"


def foreign_files() -> Result:
    """Files of other programs, as history and as sweep: refused, the same to the last byte."""
    from tonnage.errors import TonnageError
    from tonnage.measure.history import Place
    from tonnage.measure.history import open_store as history
    from tonnage.sweep import store

    pick, wrong, count = random.Random("foreign"), 0, 200
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "theirs.sqlite"
            if number % 2:
                with contextlib.closing(sqlite3.connect(path)) as other:
                    other.execute(f"PRAGMA application_id={pick.choice((0, 1, 252_006_674))}")
                    other.execute(f"CREATE TABLE t{number} (id INTEGER)")
                    other.commit()
            else:
                path.write_bytes(pick.choice((b"", b"SQLite format 3\x00")) + pick.randbytes(pick.randrange(1, 9_000)))
            before = path.read_bytes()
            try:
                opening = history(Place(path=path), write=True) if number % 4 < 2 else store.open_store(path)
                with opening:
                    wrong += 1
            except TonnageError:
                wrong += path.read_bytes() != before
    return "stores: another program's file is refused and unchanged", count, f"{wrong} changed or taken"


def hostile_files() -> Result:
    """Small bad inputs for every reader."""
    from tools.fuzz.__main__ import asked_child
    from tools.fuzz.readers import READERS

    told = [asked_child(name, inputs=200_000 // len(READERS), seed=7, guide=False) for name in READERS]
    findings = sum(len(one["findings"]) for one in told)
    return (
        "readers: an answer or one sentence, in 2 s and 500 MB",
        sum(one["inputs"] for one in told),
        f"{findings} findings",
    )


def large_files() -> Result:
    """Files of 8 to 300 MB."""
    from tools.fuzz.large import run

    count, findings = run(inputs=500, seed=7)
    return (
        "readers: files of 8 to 300 MB in 5 s (traces 25 MB/s) and 500 MB, or refused",
        count,
        f"{len(findings)} findings",
    )


def whole_answers() -> Result:
    """Questions at the edges of what may be asked."""
    from tools.fuzz.answers import run

    answered, refused, findings = run(inputs=2_000, seed=7)
    found = f"{answered} answered, {refused} refused, {len(findings)} findings"
    return "answers: sound JSON, no NaN, no inverted interval, or one sentence", answered + refused, found


ROWS: tuple[Callable[[], Result], ...] = (
    kills_of_history, kills_of_sweeps, two_writers, full_disk, read_only_home, older_schemas, foreign_files,
    hostile_files, large_files, whole_answers,
)  # fmt: skip
"""Every promise of this module, the quick ones first."""


if __name__ == "__main__":
    chosen = [row for row in ROWS if not sys.argv[1:] or row.__name__ in sys.argv[1:]]
    for row in chosen:
        promise, count, result = row()
        print(f"{promise:86}{count:>9,}  {result}", flush=True)
