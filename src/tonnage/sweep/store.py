"""What a sweep has found so far: one SQLite file, written as answers come, safe against being killed.

The file outlives an interruption; a sweep that is started again asks only what is not in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.errors import BadFact, echo
from tonnage.sqlitefile import SWEEP_ID, refuse_other, stamp_version

Store = sqlite3.Connection
FORMAT: Final = 1
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """
    The store in a file, made when it is not there.

    Raises
    ------
    BadFact
        The file is something else, of a newer release, or cannot be written.
    """
    try:
        refuse_other(path, own=SWEEP_ID)
        with closing(sqlite3.connect(path, timeout=30.0)) as store:
            store.execute("PRAGMA journal_mode=WAL")
            version = store.execute("PRAGMA user_version").fetchone()[0]
            if version > FORMAT:
                raise BadFact(f"'{echo(path)}' was written by a newer release; use that, or another file")
            with store:
                store.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, row BLOB NOT NULL)")
                store.execute(f"PRAGMA user_version={FORMAT}")
                stamp_version(store, own=SWEEP_ID)
            yield store
    except (sqlite3.Error, OSError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise BadFact(f"'{echo(path)}' cannot hold results: {reason}") from None


def answered_keys(store: Store) -> set[str]:
    """Keys of the questions that are answered; a damaged answer is none, so that it is asked again."""
    return {key for key, row in store.execute("SELECT key, row FROM answers") if _sound(row)}


def _sound(row: object) -> bool:
    try:
        _decoder.decode(row)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return False
    return True


def keep_answers(store: Store, found: Iterable[tuple[str, bytes]]) -> None:
    """Keep answers; all of them or, when it fails, none."""
    with store:
        store.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", found)


def rows(store: Store, keys: Iterable[str]) -> Iterator[dict[str, Any] | str | None]:
    """The answers of these keys, in their order; None where there is none yet, of a damaged one what is wrong."""
    for key in keys:
        try:
            found = store.execute("SELECT row FROM answers WHERE key = ?", (key,)).fetchone()
            yield None if found is None else _decoder.decode(found[0])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, sqlite3.Error) as error:
            yield f"its answer in the file is damaged ({echo(error)})"
