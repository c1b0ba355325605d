"""A file of another program is refused, and is the same to the last byte afterwards."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tonnage.errors import BadFact, TonnageError
from tonnage.measure.history import MIGRATIONS, Place
from tonnage.measure.history import open_store as history
from tonnage.sqlitefile import HISTORY_ID, SWEEP_ID, refuse_other, write_ahead
from tonnage.sweep import sweep as sweeps


def made(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as other:
        for statement in statements:
            other.execute(statement)
        other.commit()
    return path


def as_history(path: Path) -> None:
    with history(Place(path=path), write=True):
        pass


def as_sweep(path: Path) -> None:
    with sweeps.open_store(path):
        pass


def number(path: Path) -> int:
    with closing(sqlite3.connect(path)) as store:
        return int(store.execute("PRAGMA application_id").fetchone()[0])


OTHERS = {
    "bookmarks": ("CREATE TABLE moz_places (id INTEGER)", "INSERT INTO moz_places VALUES (1)"),
    "with a number": ("PRAGMA application_id=252006674", "CREATE TABLE answers (key TEXT, row BLOB)"),
    "journal ahead": ("PRAGMA journal_mode=WAL", "CREATE TABLE notes (id INTEGER)"),
}


@pytest.mark.parametrize("open_", [as_history, as_sweep])
@pytest.mark.parametrize("other", sorted(OTHERS))
def test_another_programs_file_stays_as_it_was(tmp_path: Path, open_: object, other: str) -> None:
    path = made(tmp_path / "theirs.sqlite", *OTHERS[other])
    before = path.read_bytes()
    with pytest.raises(TonnageError, match="SQLite file of another program; nothing was written"):
        open_(path)  # type: ignore[operator]
    assert path.read_bytes() == before


@pytest.mark.parametrize("open_", [as_history, as_sweep])
@pytest.mark.parametrize("content", [b"hello\n" * 99, b"SQLite format 2\x00" + bytes(99), b"\x00" * 200])
def test_what_is_no_database_stays_as_it_was(tmp_path: Path, open_: object, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(TonnageError, match="not a database"):
        open_(path)  # type: ignore[operator]
    assert path.read_bytes() == content


def test_each_kind_refuses_the_other(tmp_path: Path) -> None:
    as_history(tmp_path / "h")
    as_sweep(tmp_path / "s")
    assert (number(tmp_path / "h"), number(tmp_path / "s")) == (HISTORY_ID, SWEEP_ID)
    with pytest.raises(BadFact, match="holds a history of measurements, not the answers of a sweep"):
        as_sweep(tmp_path / "h")
    with pytest.raises(BadFact, match="holds the answers of a sweep, not a history"):
        as_history(tmp_path / "s")


@pytest.mark.parametrize("release", range(1, len(MIGRATIONS) + 1))
def test_files_of_older_releases_are_taken_and_numbered(tmp_path: Path, release: int) -> None:
    path = made(
        tmp_path / "old.sqlite",
        *(s.format(number="INTEGER") for steps in MIGRATIONS[:release] for s in steps),
        "CREATE TABLE schema_version (version INTEGER NOT NULL)",
        *(f"INSERT INTO schema_version VALUES ({n})" for n in range(1, release + 1)),
    )
    as_history(path)
    assert number(path) == HISTORY_ID
    old = made(
        tmp_path / "sweep", "CREATE TABLE answers (key TEXT PRIMARY KEY, row BLOB NOT NULL)", "PRAGMA user_version=1"
    )
    as_sweep(old)
    assert number(old) == SWEEP_ID


def test_an_empty_file_and_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert not refuse_other(tmp_path / "empty", own=SWEEP_ID) and not refuse_other(tmp_path / "none", own=SWEEP_ID)
    as_sweep(tmp_path / "empty")
    with pytest.raises(BadFact, match="no path"):
        refuse_other(tmp_path / "a\0b", own=SWEEP_ID)


def test_a_store_that_another_has_just_begun_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        write_ahead(store, own=HISTORY_ID)
        assert path.read_bytes()[68:72] == HISTORY_ID.to_bytes(4, "big")
        assert refuse_other(path, own=HISTORY_ID)


def test_a_store_that_another_reads_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "read.sqlite"
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute(f"PRAGMA application_id={HISTORY_ID}")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
    done = threading.Timer(0.3, reader.close)
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as store:
        done.start()
        write_ahead(store, own=HISTORY_ID)
        assert store.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    done.join()
