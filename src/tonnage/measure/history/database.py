"""One way to speak to SQLite and PostgreSQL, and the migrations that bring a store to this version."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tonnage.errors import BadFact, BadRequest, TonnageError, echo
from tonnage.measure.history.place import PLACE_ENV, Place
from tonnage.sqlitefile import HISTORY_ID, refuse_other, stamp

__all__ = ["LATEST", "MIGRATIONS", "Database", "opened"]

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE measurement (id {number} PRIMARY KEY, key TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, "
        "date TEXT NOT NULL, machine TEXT NOT NULL, document TEXT NOT NULL)",
    ),
    (
        "ALTER TABLE measurement ADD COLUMN model TEXT",
        "ALTER TABLE measurement ADD COLUMN subject TEXT",
        "ALTER TABLE measurement ADD COLUMN versions TEXT NOT NULL DEFAULT '{{}}'",
        "CREATE INDEX measurement_by_date ON measurement (date)",
    ),
)
"""Statements of version 1, 2, …: never changed once released, only added to."""
LATEST: Final = len(MIGRATIONS)

BUSY_S: Final = 30.0
LOCK: Final = 7_866_245
"""Any number: PostgreSQL's lock for whoever migrates."""


class Database:
    """A connection. It has state because a connection is one; both kinds take `?` for a value."""

    def __init__(self, connection: Any, *, postgres: bool) -> None:
        self.connection = connection
        self.postgres = postgres

    def run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Execute one statement and return its cursor."""
        return self.connection.execute(statement.replace("?", "%s") if self.postgres else statement, tuple(values))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, written through before it returns."""
        self.run("BEGIN" if self.postgres else "BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                self.run("ROLLBACK")
            raise
        self.run("COMMIT")


@contextlib.contextmanager
def opened(place: Place, *, write: bool) -> Iterator[Database]:
    """
    The store at a place, brought to this version; closed at the end.

    Raises
    ------
    TonnageError
        It cannot be opened, read or written: one sentence, nothing secret in it.
    """
    try:
        database = _postgres(place) if place.url is not None else _sqlite(place, write=write)
        try:
            if write:
                _migrate(database, place)
                if not database.postgres:
                    stamp(database.connection, own=HISTORY_ID)
            yield database
        finally:
            database.connection.close()
    except (TonnageError, GeneratorExit):
        raise
    except sqlite3.DatabaseError as error:
        raise _sentence(place, str(error)) from None
    except OSError as error:
        raise _sentence(place, error.strerror or str(error)) from None
    except Exception as error:  # psycopg's own kinds, known only where it is installed
        if type(error).__module__.partition(".")[0] != "psycopg":
            raise
        raise _sentence(place, str(error).splitlines()[0] if str(error) else type(error).__name__) from None


def _sentence(place: Place, reason: str) -> TonnageError:
    if place.url is not None:
        reason = reason.replace(place.url, place.shown)
    if "not a database" in reason or "malformed" in reason:
        return BadFact(f"history: '{echo(place.shown)}' is no store of measurements ({reason})")
    return BadRequest(
        f"history: '{echo(place.shown)}' cannot be used ({reason.lower()}); "
        f"set {PLACE_ENV} to another place, or to 'off'"
    )


def _sqlite(place: Place, *, write: bool) -> Database:
    path = place.path
    assert path is not None
    there = refuse_other(path, own=HISTORY_ID)
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connected(str(path))
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return Database(connection, postgres=False)
    if not there:
        raise BadRequest(f"history: nothing was measured yet; there is no '{echo(str(path))}'")
    try:
        connection = _connected(str(path))
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:  # a folder that may only be read has no room for the log's index
        connection = _connected(f"{path.absolute().as_uri()}?immutable=1", uri=True)
    return Database(connection, postgres=False)


def _connected(path: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, uri=uri)
    # A row whose text was damaged is met where it is read, not by the query for all of them.
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection


def _postgres(place: Place) -> Database:
    try:
        import psycopg
    except ImportError:
        raise BadRequest("history in PostgreSQL needs psycopg: pip install 'tonnage[postgres]'") from None
    connection = psycopg.connect(place.url or "", autocommit=True, connect_timeout=int(BUSY_S))
    return Database(connection, postgres=True)


def version(database: Database) -> int:
    """Of the store; 0 = empty."""
    there = (
        "SELECT to_regclass('schema_version') IS NOT NULL"
        if database.postgres
        else "SELECT count(*) FROM sqlite_master WHERE name = 'schema_version'"
    )
    if not database.run(there).fetchone()[0]:
        return 0
    row = database.run("SELECT max(version) FROM schema_version").fetchone()
    return int(row[0] or 0)


def _migrate(database: Database, place: Place) -> None:
    """Statements that the store lacks, in one transaction; two programs that start at once take turns."""
    if version(database) == LATEST:
        return
    number = "BIGINT GENERATED BY DEFAULT AS IDENTITY" if database.postgres else "INTEGER"
    with database.transaction():
        if database.postgres:
            database.run("SELECT pg_advisory_xact_lock(?)", (LOCK,))
        found = version(database)
        if found > LATEST:
            raise BadRequest(
                f"history: '{echo(place.shown)}' was written by a later Tonnage (schema {found}, this one knows "
                f"{LATEST}); update, or name another place"
            )
        if found == 0:
            database.run("CREATE TABLE schema_version (version INTEGER NOT NULL)")
        for step, statements in enumerate(MIGRATIONS[found:], start=found + 1):
            for statement in statements:
                database.run(statement.format(number=number))
            database.run("INSERT INTO schema_version (version) VALUES (?)", (step,))
