"""What a sweep has found so far: one SQLite file, written as answers come, safe against being killed.

The file outlives an interruption; a sweep that is started again asks only what is not in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from tonnage.errors import BadFact, echo

__all__ = ["Store", "known", "opened", "put", "rows"]

Store = sqlite3.Connection
FORMAT: Final = 1


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """
    The store in a file, made when it is not there.

    Raises
    ------
    BadFact
        The file is something else, of a newer release, or cannot be written.
    """
    try:
        with closing(sqlite3.connect(path, timeout=30.0)) as store:
            store.execute("PRAGMA journal_mode=WAL")
            version = store.execute("PRAGMA user_version").fetchone()[0]
            if version > FORMAT:
                raise BadFact(f"'{echo(path)}' was written by a newer release; use that, or another file")
            with store:
                store.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, row BLOB NOT NULL)")
                store.execute(f"PRAGMA user_version={FORMAT}")
            yield store
    except sqlite3.Error as error:
        raise BadFact(f"'{echo(path)}' cannot hold results: {error}") from None


def known(store: Store) -> set[str]:
    """Keys of the questions that are answered."""
    return {key for (key,) in store.execute("SELECT key FROM answers")}


def put(store: Store, found: Iterable[tuple[str, bytes]]) -> None:
    """Keep answers; all of them or, when it fails, none."""
    with store:
        store.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", found)


def rows(store: Store, keys: Iterable[str]) -> Iterator[bytes | None]:
    """The answers of these keys, in their order; None where there is none yet."""
    for key in keys:
        found = store.execute("SELECT row FROM answers WHERE key = ?", (key,)).fetchone()
        yield None if found is None else found[0]
