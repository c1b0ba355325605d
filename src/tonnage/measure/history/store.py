"""Measurements in, entries out."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tonnage.domain.measurement import Entry, History
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.measure.history.database import LATEST, Database, opened, version
from tonnage.measure.history.place import Place
from tonnage.version import __version__

__all__ = ["entries", "entry", "export", "remember"]

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
        key, _kind(fields["schema"]), fields.get("date") or datetime.now(UTC).isoformat(timespec="seconds"),
        platform.node() or "unknown", document.decode(), fields.get("model"),
        fields.get("url") or fields.get("command") or fields.get("name"),
        msgspec.json.encode(_versions(fields)).decode(),
    )  # fmt: skip
    with opened(place, write=True) as database:
        with database.transaction():
            database.run(
                "INSERT INTO measurement (key, kind, date, machine, document, model, subject, versions) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                values,
            )
        return int(database.run("SELECT id FROM measurement WHERE key = ?", (key,)).fetchone()[0])


def entries(place: Place, *, kind: str | None = None, model: str | None = None, most: int = 50) -> History:
    """The latest entries, without their documents."""
    with opened(place, write=False) as database:
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
    with opened(place, write=False) as database:
        _readable(database, place)
        row = database.run(f"SELECT {COLUMNS}, document FROM measurement WHERE id = ?", (number,)).fetchone()
    if row is None:
        raise BadRequest(
            f"history: no measurement {number} in '{place.shown}'; `tonnage history list` shows those kept"
        )
    return _entry(row, place)


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
    with opened(place, write=False) as database:
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
    found = version(database)
    if found == 0:
        raise BadRequest(f"history: '{place.shown}' holds no measurements yet")
    if found != LATEST:
        # An older store is brought up to date by whoever may write it.
        if found > LATEST:
            raise BadRequest(f"history: '{place.shown}' was written by a later Tonnage (schema {found})")
        with opened(place, write=True):
            pass


def _where(kind: str | None, model: str | None) -> tuple[str, tuple[str, ...]]:
    asked = [(name, value) for name, value in (("kind", kind), ("model", model)) if value is not None]
    if not asked:
        return "", ()
    return " WHERE " + " AND ".join(f"{name} = ?" for name, _ in asked), tuple(value for _, value in asked)


def _entry(row: tuple[Any, ...], place: Place) -> Entry:
    number, kind, date, machine, model, subject, versions, *rest = row
    try:
        fields = {
            "id": number, "kind": kind, "date": date, "machine": machine, "model": model, "subject": subject,
            "versions": msgspec.json.decode(versions),
        }  # fmt: skip
        found = msgspec.convert(fields, Entry)
        msgspec.json.encode(found)
        if not rest:
            return found
        document = rest[0].encode()
        if not isinstance(msgspec.json.decode(document), dict):
            raise ValueError("its document is no object")
        return msgspec.structs.replace(found, document=msgspec.Raw(document))
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadFact(
            f"history: measurement {echo(number)} in '{echo(place.shown)}' is damaged ({echo(error)})"
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
