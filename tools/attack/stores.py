"""Attacks on what is stored: killed writers, full disks, clocks that go back, files of other programs and releases."""

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

from tools.attack.rows import Outcome, Row

ROOT = Path(__file__).parents[2]
KILLS = 100
UNPRIVILEGED = 65_534

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
from tonnage.sweep.sweep import keep_answers, open_store
for i in range(int(sys.argv[3])):
    with open_store(Path(sys.argv[1])) as held:
        keep_answers(held, [(f"{sys.argv[2]}-{i}", b'{"x": 1}')])
    print(f"{sys.argv[2]}-{i}", flush=True)
"""


def _kept_in_history(path: Path) -> set[str]:
    from tonnage.measure.history import Place, export

    return {str(one.model) for one in export(Place(path=path))}


def _kept_in_sweep(path: Path) -> set[str]:
    from tonnage.sweep import sweep

    with sweep.open_store(path) as held:
        return sweep.answered_keys(held)


def _started(script: str, path: Path, *, number: int, rows: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path), str(number), str(rows)],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


def _killed(what: str, script: str, kept: Callable[[Path], set[str]], *, kills: int) -> Outcome:
    """A writer is killed at a moment drawn at random; what it had said was kept must be there."""
    pick = random.Random(what)
    said: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        for number in range(kills):
            writer = _started(script, path, number=number, rows=10_000)
            assert writer.stdout is not None
            said |= {writer.stdout.readline().strip()}
            time.sleep(pick.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
            said |= {line.strip() for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")}
            writer.communicate()
        lost = said - {""} - kept(path)
        with contextlib.closing(sqlite3.connect(path)) as sweep:
            sound = sweep.execute("PRAGMA integrity_check").fetchone()[0]
    said.discard("")
    wrong = (
        []
        if len(said) >= kills
        else [f"only {len(said)} rows by {kills} writers: these were no kills of writers at work"]
    )
    wrong += [f"{len(lost)} rows that were said to be kept are lost"] if lost else []
    wrong += [f"integrity check: {sound}"] if sound != "ok" else []
    return Outcome(kills, tuple(wrong), f"{len(said):,} rows said to be kept, {len(lost)} lost, integrity {sound}")


def kills_of_history(share: float) -> Outcome:
    """Killed writers of the history, whose clocks go back at every second row."""
    return _killed("history", _WRITER, _kept_in_history, kills=max(1, round(KILLS * share)))


def kills_of_sweeps(share: float) -> Outcome:
    """Killed writers of a sweep's answers."""
    return _killed("sweep", _SWEEPER, _kept_in_sweep, kills=max(1, round(KILLS * share)))


def two_writers(_: float) -> Outcome:
    """Two programs that write one history at once."""
    rows = 100
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        writers = [_started(_WRITER, path, number=number, rows=rows) for number in (1, 2)]
        wrong = [error.splitlines()[-1] for _, error in (writer.communicate() for writer in writers) if error]
        lost = 2 * rows - len(_kept_in_history(path))
    findings = ([f"{lost} rows lost"] if lost else []) + wrong
    return Outcome(2 * rows, tuple(findings), f"{2 * rows} rows written, {lost} lost, {len(wrong)} writers failed")


def full_disk(_: float) -> Outcome:
    """A file may grow no further, as on a full disk: one sentence, and what was kept is readable."""
    wrong, attacks, rows = [], 0, 0
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
                attacks, rows = attacks + 1, rows + len(said)
                if last != "no error" and not last.startswith("tonnage.errors."):
                    wrong.append(f"{limit}: {last[:120]}")
                elif said and (lost := said - kept(path)):
                    wrong.append(f"{limit}: {len(lost)} of {len(said)} lost")
    wrong += [] if rows else ["no writer kept a row before its disk was full"]
    return Outcome(attacks, tuple(wrong), f"{rows:,} rows said to be kept, all there" if not wrong else "")


def read_only_home(_: float) -> Outcome:
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
    return Outcome(2, () if held else (f"{kept} of 3 read; {last[:160]}",), f"{kept} of 3 rows read")


def older_schemas(_: float) -> Outcome:
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
    return Outcome(len(MIGRATIONS), tuple(wrong), f"brought to schema {LATEST}")


def foreign_files(_: float) -> Outcome:
    """Files of other programs, as history and as sweep: refused, the same to the last byte."""
    from tonnage.errors import TonnageError
    from tonnage.measure.history import Place
    from tonnage.measure.history import open_store as history
    from tonnage.sweep import sweep

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
                opening = history(Place(path=path), write=True) if number % 4 < 2 else sweep.open_store(path)
                with opening:
                    wrong += 1
            except TonnageError:
                wrong += path.read_bytes() != before
    return Outcome(count, (f"{wrong} changed or taken",) if wrong else (), f"{wrong} changed or taken")


ROWS: tuple[Row, ...] = (
    Row("what was said to be kept is kept", "writers of the history killed, whose clocks go back", kills_of_history),
    Row("what was said to be kept is kept", "writers of a sweep killed", kills_of_sweeps),
    Row("what was said to be kept is kept", "two writers of one history at once", two_writers),
    Row(
        "a full disk is one sentence, and loses nothing",
        "history and sweep at three limits of a file's size",
        full_disk,
    ),
    Row("a read-only home is read, and writing is one sentence", "a history that another user owns", read_only_home),
    Row("stores of every older schema keep their rows", "one of each release", older_schemas),
    Row(
        "another program's file is refused, the same to the last byte",
        "SQLite files and noise, as history and as sweep",
        foreign_files,
    ),
)
