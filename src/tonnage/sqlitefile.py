"""Is a SQLite file one of ours? Asked before a byte of it is written.

Every file that Tonnage makes carries an `application_id`; those of releases before it did are known by their tables.
A file of another program, or a history where a sweep is expected, is refused and stays as it was: the check reads the
file's own bytes and, where they do not tell, opens it for reading only.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Set
from contextlib import closing
from pathlib import Path
from typing import Final

from tonnage.errors import BadFact, echo

HISTORY_ID: Final = int.from_bytes(b"TngH", "big")
SWEEP_ID: Final = int.from_bytes(b"TngS", "big")

BUSY_S: Final = 30.0
"""How long one writer waits for another."""

_NAMES: Final = {HISTORY_ID: "a history of measurements", SWEEP_ID: "the answers of a sweep"}
_TABLES: Final[dict[int, Set[str]]] = {HISTORY_ID: {"measurement", "schema_version"}, SWEEP_ID: {"answers"}}
"""Of files that were made before they carried a number."""
_MAGIC: Final = b"SQLite format 3\x00"
_PLACE: Final = slice(68, 72)
"""Of the application's number in the first bytes, big-endian (SQLite's file format, section 1.3)."""


def refuse_other(path: Path, *, own: int) -> bool:
    """
    Refuse a file that is not of this kind. True = there is one of it; False = there is no file, or an empty one.

    Raises
    ------
    BadFact
        No SQLite file, or of another program or kind. Nothing of it has been written.
    OSError
        It cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return False
    except ValueError:
        raise BadFact(f"'{echo(path)}' is no path; check its characters") from None
    if not head:
        return False
    if not head.startswith(_MAGIC):
        raise BadFact(f"'{echo(path)}' is no SQLite file (not a database); nothing was written, name another file")
    found = int.from_bytes(head[_PLACE], "big")
    if found == own:
        return True
    if found in _NAMES:
        raise BadFact(f"'{echo(path)}' holds {_NAMES[found]}, not {_NAMES[own]}; name another file")
    tables = _tables(path) if found == 0 else {"?"}
    if tables and not tables >= _TABLES[own]:
        raise BadFact(f"'{echo(path)}' is a SQLite file of another program; nothing was written, name another file")
    return True


def write_ahead(store: sqlite3.Connection, *, own: int) -> None:
    """
    Number a store as of this kind, once, and have it write ahead.

    The number comes first, while commits still go to the file itself: a program that starts beside this one reads it
    there. SQLite does not wait for other writers where it changes the journal, so that is tried for `BUSY_S`.
    """
    if store.execute("PRAGMA application_id").fetchone()[0] != own:
        store.execute(f"PRAGMA application_id={own}")
    until = time.monotonic() + BUSY_S
    while True:
        try:
            store.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _tables(path: Path) -> set[str]:
    """Names of tables by the file alone; where it shows none and has a write-ahead log, by both."""
    place = path.absolute().as_uri()
    for mode in ("immutable=1", "mode=ro"):
        with closing(sqlite3.connect(f"{place}?{mode}", uri=True)) as store:
            found = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if found or not path.with_name(path.name + "-wal").exists():
            return found
    return found
