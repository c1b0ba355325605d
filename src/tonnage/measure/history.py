"""
Where are measurements kept? In SQLite on this machine, or in PostgreSQL by URL; one table, numbered migrations.

`Place` says where, `Database` speaks to either, `remember` adds, `entries` and `entry` read. A row is committed before
its command ends, and a store that cannot be written costs one sentence, never the measurement.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.domain.measurement import Entry, History, Measurement
from tonnage.errors import BadFact, BadRequest, TonnageError, echo
from tonnage.record import Record
from tonnage.sqlitefile import BUSY_S, HISTORY_ID, refuse_other, write_ahead
from tonnage.version import __version__

LIBRARIES: Final = ("torch", "vllm", "sglang", "transformers", "xllamacpp")
"""Their versions are kept where they are installed: what was measured here may have run on them."""
COLUMNS: Final = "id, kind, date, machine, model, subject, versions"


def remember(noun: Any, *, place: Place) -> int:
    """
    Keep a measurement; the same one twice is kept once. Its number in the store.

    Raises
    ------
    TonnageError
        The store cannot be written.
    """
    # Read back once: a whole number in a field of fractions is written as one of them, whoever made the noun.
    document = msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(noun), type=type(noun)))
    fields = msgspec.json.decode(document)
    key = hashlib.sha256(document).hexdigest()
    values = (
        key,
        _kind(fields["schema"]),
        fields.get("date") or datetime.now(UTC).isoformat(timespec="seconds"),
        platform.node() or "unknown",
        document.decode(),
        fields.get("model"),
        fields.get("url") or fields.get("command") or fields.get("name"),
        msgspec.json.encode(_versions(fields)).decode(),
    )
    with open_store(place, write=True) as database:
        with database.transaction():
            database.run(
                "INSERT INTO measurement (key, kind, date, machine, document, model, subject, versions) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                values,
            )
        return int(database.run("SELECT id FROM measurement WHERE key = ?", (key,)).fetchone()[0])


def entries(place: Place, *, kind: str | None = None, model: str | None = None, most: int = 50) -> History:
    """The latest entries, without their documents."""
    with open_store(place, write=False) as database:
        _readable(database, place)
        where, values = _where(kind, model)
        rows = database.run(
            f"SELECT {COLUMNS} FROM measurement{where} ORDER BY date DESC, id DESC LIMIT ?", (*values, most)
        ).fetchall()
    found, damaged = [], []
    for row in rows:
        try:
            found.append(_entry(row, place))
        except BadFact as error:
            damaged.append(str(error))
    return History(place=place.shown, entries=tuple(found), damaged=tuple(damaged))


def entry(place: Place, number: int) -> Entry:
    """
    One entry with its document.

    Raises
    ------
    BadRequest
        There is none of this number.
    """
    with open_store(place, write=False) as database:
        _readable(database, place)
        row = database.run(f"SELECT {COLUMNS}, document FROM measurement WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise BadRequest(
            f"history: no measurement {number} in '{place.shown}'; `tonnage history list` shows those kept"
        )
    return _entry(row, place)


def measured_server(place: Place, number: int) -> Measurement:
    """
    The measurement of a server that is kept under a number.

    Raises
    ------
    BadRequest
        There is none, or something else was measured.
    """
    found = entry(place, number)
    if found.kind != "serve" or found.document is None:
        raise BadRequest(f"history: measurement {number} is of kind {found.kind}; one of a server is needed")
    return msgspec.json.decode(found.document, type=Measurement)


def export(
    place: Place,
    *,
    kind: str | None = None,
    model: str | None = None,
    damaged: Callable[[int, str], None] = lambda *_: None,
) -> Iterator[Entry]:
    """
    Every entry with its document, the oldest first.

    A row that cannot be read does not keep the others: `damaged` is told its number and what is wrong.
    """
    with open_store(place, write=False) as database:
        _readable(database, place)
        where, values = _where(kind, model)
        numbers = database.run(f"SELECT id FROM measurement{where} ORDER BY date, id", values).fetchall()
        for (number,) in numbers:
            statement = f"SELECT {COLUMNS}, document FROM measurement WHERE id = ?"
            try:
                yield _entry(database.run(statement, (number,)).fetchone(), place)
            except (BadFact, sqlite3.DatabaseError) as error:
                damaged(number, str(error))


def _readable(database: Database, place: Place) -> None:
    """Refuse a store that is empty or of a later Tonnage; bring an older one up to date."""
    found = schema_version(database)
    if found == 0:
        raise BadRequest(f"history: '{place.shown}' holds no measurements yet")
    if found != LATEST:
        # An older store is brought up to date by whoever may write it.
        if found > LATEST:
            raise BadRequest(f"history: '{place.shown}' was written by a later Tonnage (schema {found})")
        with open_store(place, write=True):
            pass


def _where(kind: str | None, model: str | None) -> tuple[str, tuple[str, ...]]:
    """The WHERE clause of the conditions that are set, and its values."""
    conditions = [(name, value) for name, value in (("kind", kind), ("model", model)) if value is not None]
    if not conditions:
        return "", ()
    return " WHERE " + " AND ".join(f"{name} = ?" for name, _ in conditions), tuple(value for _, value in conditions)


def _entry(row: tuple[Any, ...], place: Place) -> Entry:
    """An entry of a row, without a document where the row has none; a damaged row is a `BadFact`."""
    fields = dict(zip((*COLUMNS.split(", "), "document"), row, strict=False))
    written = fields.pop("document", None)
    try:
        found = msgspec.convert({**fields, "versions": msgspec.json.decode(fields["versions"])}, Entry)
        msgspec.json.encode(found)
        if written is None:
            return found
        document = written.encode()
        if not isinstance(msgspec.json.decode(document), dict):
            raise ValueError("its document is no object")
        return msgspec.structs.replace(found, document=msgspec.Raw(document))
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadFact(
            f"history: measurement {echo(row[0])} in '{echo(place.shown)}' is damaged ({echo(error)})"
        ) from None


def _kind(schema: str) -> str:
    name = schema.removeprefix("tonnage.").partition("/")[0]
    return {"measurement": "serve", "train_measurement": "train"}.get(name, name)


def _versions(fields: dict[str, Any]) -> dict[str, str]:
    found = {"tonnage": __version__, "python": platform.python_version()}
    if fields.get("tool") and fields.get("tool_version"):
        found[str(fields["tool"])] = str(fields["tool_version"])
    for library in LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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
def open_store(place: Place, *, write: bool) -> Iterator[Database]:
    """
    The store at a place, closed at the end; to `write`, it is made where there is none and brought to this version.

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
            yield database
        finally:
            database.connection.close()
    except (TonnageError, GeneratorExit):
        raise
    except sqlite3.DatabaseError as error:
        raise _fault(place, str(error)) from None
    except OSError as error:
        raise _fault(place, error.strerror or str(error)) from None
    except Exception as error:  # psycopg's own kinds, known only where it is installed
        if type(error).__module__.partition(".")[0] != "psycopg":
            raise
        raise _fault(place, str(error).splitlines()[0] if str(error) else type(error).__name__) from None


def _fault(place: Place, reason: str) -> TonnageError:
    """What is said of a store that cannot be used; the address of a database without its password."""
    if place.url is not None:
        reason = reason.replace(place.url, place.shown)
    if "not a database" in reason or "malformed" in reason:
        return BadFact(f"history: '{echo(place.shown)}' is no store of measurements ({reason})")
    return BadRequest(
        f"history: '{echo(place.shown)}' cannot be used ({reason.lower()}); "
        f"set {PLACE_ENV} to another place, or to 'off'"
    )


def _sqlite(place: Place, *, write: bool) -> Database:
    """The file of a store. To read, it must be there; one in a folder that may only be read is opened unchanged."""
    path = place.path
    assert path is not None
    there = refuse_other(path, own=HISTORY_ID)
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connect(str(path))
        write_ahead(connection, own=HISTORY_ID)
        connection.execute("PRAGMA synchronous=FULL")
        return Database(connection, postgres=False)
    if not there:
        raise BadRequest(f"history: nothing was measured yet; there is no '{echo(str(path))}'")
    try:
        connection = _connect(str(path))
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:  # a folder that may only be read has no room for the log's index
        connection = _connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)
    return Database(connection, postgres=False)


def _connect(path: str, *, uri: bool = False) -> sqlite3.Connection:
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


def schema_version(database: Database) -> int:
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
    if schema_version(database) == LATEST:
        return
    number = "BIGINT GENERATED BY DEFAULT AS IDENTITY" if database.postgres else "INTEGER"
    with database.transaction():
        if database.postgres:
            database.run("SELECT pg_advisory_xact_lock(?)", (LOCK,))
        found = schema_version(database)
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


PLACE_ENV: Final = "TONNAGE_HISTORY"
OFF: Final = "off"


class Place(Record, kw_only=True):
    """Where measurements are kept: a file of SQLite or a database of PostgreSQL, whichever of the two is set."""

    path: Path | None = None
    url: str | None = None
    """Of PostgreSQL; may hold a password, so it is never shown."""

    @property
    def shown(self) -> str:
        """Without anything secret."""
        if self.path is not None:
            return str(self.path)
        hidden = re.sub(r"//[^@/]*@", "//***@", self.url or "")
        return re.sub(r"(?i)((?:password|sslpassword|passfile)=)[^&]*", r"\1***", hidden)


def place_of(given: str | None = None) -> Place | None:
    """
    The place that an option or TONNAGE_HISTORY names, else a file in the user's data folder; nothing when it is off.

    Examples
    --------
    >>> place_of("postgresql://me:secret@db/tonnage").shown
    'postgresql://***@db/tonnage'
    >>> place_of("off")
    """
    name = given or os.environ.get(PLACE_ENV)
    if name is None:
        import platformdirs

        return Place(path=Path(platformdirs.user_data_path("tonnage")) / "history.sqlite")
    if name == OFF:
        return None
    scheme, mark, rest = name.partition("://")
    if not mark:
        return Place(path=Path(name))
    if scheme == "sqlite":
        return Place(path=Path(rest.removeprefix("/")))  # sqlite:///relative, sqlite:////absolute
    if scheme in {"postgresql", "postgres"}:
        return Place(url=name)
    raise BadRequest(f"history: '{echo(scheme)}' is no kind of database here; name a file or a postgresql:// address")
