"""
What is a release of the data? A signed ZIP file with checksums; and what differs between two.

    manifest.json    schema, version, day, the oldest Tonnage that reads it, checksum of the manifest before, files
    manifest.sig     the signature, in hexadecimal
    data/…           the tables, below the names of `catalog.rows.LIVING`

The same tables give the same bytes. Each manifest names the one before it, so that releases form a chain to which can
only be added. Reading trusts nothing: sizes, names and checksums are the signed manifest's, or the file is refused.

Compared, a table's key is its shortest row of leading columns that is unique in both; what is no CSV is the same or
another.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from tonnage.catalog.rows import LIVING, VERSION, aside_of, files_of, folder_in, place
from tonnage.errors import BadFact, BadRequest, echo, echo_path
from tonnage.record import Record, SparseRecord


def is_signed(public: bytes, message: bytes, *, signature: bytes) -> bool:
    """
    Whether a signature of 64 bytes is that of the key over the message.

    Strict, as libsodium is: the scalar lies below the group's order, points are encoded in their only way and are not
    of small order.

    Raises
    ------
    BadRequest
        The library is not installed.
    """
    if importlib.util.find_spec("nacl") is None:
        raise BadRequest("checking who signed data needs the 'data' extra: pip install 'tonnage[data]'")
    from nacl.exceptions import CryptoError
    from nacl.signing import VerifyKey

    try:
        VerifyKey(public).verify(message, signature)
    except (CryptoError, ValueError):
        return False
    return True


SCHEMA: Final = "tonnage.data/1"
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
MAX_BYTES: Final = 200_000_000
"""Of all tables together; the shipped ones have 1.6 MB."""
MAX_MANIFEST: Final = 4_000_000
NAME: Final = re.compile(r"[a-z_]+(/[A-Za-z0-9][A-Za-z0-9._-]*)+")
KEYS: Final = Path(__file__).with_name("keys.txt")
KEY_VARIABLE: Final = "TONNAGE_DATA_KEY"


class Entry(Record):
    """One table."""

    bytes: int
    sha256: str


class Manifest(Record, kw_only=True):
    """What a release says of itself, and signs."""

    schema: str
    version: str
    needs: str
    """Oldest Tonnage that reads these tables."""
    before: str
    """SHA-256 of the manifest before; empty of the first."""
    files: dict[str, Entry]


def trusted_keys() -> tuple[bytes, ...]:
    """Public keys whose signature counts: those that ship with the program, and TONNAGE_DATA_KEY's."""
    lines = KEYS.read_text(encoding="utf-8").splitlines()
    own = os.environ.get(KEY_VARIABLE, "").replace(",", " ").split()
    keys = [*(line.split()[0] for line in lines if line.strip() and not line.startswith("#")), *own]
    for key in keys:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", key):
            raise BadFact(f"{KEY_VARIABLE}: '{echo(key)}' is no public key; 64 hexadecimal digits are expected")
    return tuple(bytes.fromhex(key) for key in keys)


def read_release(path: Path, *, keys: Iterable[bytes]) -> tuple[Manifest, str, dict[str, bytes]]:
    """
    Manifest, its checksum and the tables of a release, after everything in it was checked.

    Raises
    ------
    BadFact
        It is no release, was not signed by one of the keys, or a file is not what the manifest says.
    """
    try:
        with zipfile.ZipFile(path) as file:
            raw, signature = (_member(file, name, most=MAX_MANIFEST) for name in (MANIFEST, SIGNATURE))
            manifest = _manifest(raw, signature, keys=tuple(keys), path=path)
            tables = {name: _member(file, f"data/{name}", most=entry.bytes) for name, entry in manifest.files.items()}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise BadFact(f"'{echo_path(path)}' is no release of the data: {echo(error)}") from None
    for name, data in tables.items():
        _check(name, data, manifest.files[name])
    return manifest, hashlib.sha256(raw).hexdigest(), tables


def _member(file: zipfile.ZipFile, name: str, *, most: int) -> bytes:
    with file.open(name) as member:
        data = member.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{name} is larger than {most} bytes")
    return data


def _manifest(raw: bytes, signature: bytes, *, keys: tuple[bytes, ...], path: Path) -> Manifest:
    """The manifest, believed only once its signature was."""
    if not keys:
        raise BadFact(f"no key is known that could have signed '{echo_path(path)}'; name one in {KEY_VARIABLE}")
    try:
        given = bytes.fromhex(signature.decode("ascii").strip())
    except ValueError:
        given = b""
    if not any(is_signed(key, raw, signature=given) for key in keys):
        raise BadFact(f"'{echo_path(path)}' is not signed by a known key: it is not used, and what is installed stays")
    try:
        found = msgspec.json.decode(raw, type=Manifest)
    except msgspec.DecodeError as error:
        raise BadFact(f"'{echo_path(path)}': {MANIFEST} cannot be read: {echo(error)}") from None
    if found.schema != SCHEMA:
        raise BadFact(f"'{echo_path(path)}' has schema '{echo(found.schema)}', but {SCHEMA} is read: update Tonnage")
    if not VERSION.fullmatch(found.version):
        raise BadFact(f"'{echo_path(path)}' has version '{echo(found.version)}'; expected such as 2026.12.06")
    for name in found.files:
        if not NAME.fullmatch(name) or name.partition("/")[0] not in LIVING:
            raise BadFact(f"'{echo_path(path)}' holds '{echo(name)}', which no release brings")
    if sum(entry.bytes for entry in found.files.values()) > MAX_BYTES:
        raise BadFact(f"'{echo_path(path)}' holds more than {MAX_BYTES:,} bytes")
    return found


def _check(name: str, data: bytes, entry: Entry) -> None:
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise BadFact(f"{echo(name)} is not what the signed manifest says: it was changed or cut short")


def install(path: Path, *, keys: Iterable[bytes]) -> Manifest:
    """
    Check a release and put it beside the others: whole, or not at all.

    Raises
    ------
    BadFact
        As of `read_release`; or the folder cannot be written.
    """
    manifest, _, tables = read_release(path, keys=keys)
    goal, aside = place() / "releases" / manifest.version, aside_of(manifest.version)
    beside = place() / f".{manifest.version}.{os.getpid()}"
    try:
        for name, data in tables.items():
            file = beside / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        with zipfile.ZipFile(path) as whole:
            for name in (MANIFEST, SIGNATURE):
                (beside / name).write_bytes(whole.read(name))
        goal.parent.mkdir(parents=True, exist_ok=True)
        if goal.exists():  # the same version again: what is there may be damaged, and is read until the other is whole
            shutil.rmtree(aside, ignore_errors=True)
            goal.replace(aside)
        beside.replace(goal)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise BadFact(
            f"data cannot be kept in '{echo_path(place())}': {(error.strerror or str(error)).lower()}"
        ) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return manifest


def checked_release(version: str, *, keys: Iterable[bytes]) -> tuple[str, ...]:
    """What is wrong with an installed release: files missing, changed or too many; nothing when it is whole."""
    folder = folder_in(version)
    try:
        raw, signature = (folder / MANIFEST).read_bytes(), (folder / SIGNATURE).read_bytes()
        manifest = _manifest(raw, signature, keys=tuple(keys), path=folder)
    except (OSError, BadFact) as error:
        return (str(error),)
    wrong = []
    for name, entry in manifest.files.items():
        try:
            _check(name, (folder / name).read_bytes(), entry)
        except (OSError, BadFact):
            wrong.append(f"{name} is missing or was changed")
    known = {*manifest.files, MANIFEST, SIGNATURE}
    there = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return (*wrong, *(f"{name} is not of the release" for name in sorted(there) if name not in known))


PRICED: Final = "_usd_per_"
NAMED: Final = 8
"""Rows of each kind that a table names."""


class TableDiff(SparseRecord, kw_only=True):
    """One table that differs."""

    name: str
    new: int = 0
    gone: int = 0
    changed: int = 0
    rows: tuple[str, ...] = ()
    """The first of them: a sign (+ - ~), the key, and what changed."""
    moved: float | None = None
    """Middle ratio of the prices that are another. [-]"""


class DataDiff(SparseRecord, kw_only=True):
    """Two releases side by side."""

    before: str
    now: str
    tables: tuple[TableDiff, ...] = ()


def tables_of(release: Path | None) -> dict[str, bytes]:
    """The living tables of a release, or of what ships, by name."""
    return {name: path.read_bytes() for name, path in files_of(release) if name.partition("/")[0] in LIVING}


def diff_of(before: dict[str, bytes], now: dict[str, bytes]) -> tuple[TableDiff, ...]:
    """Every table that differs."""
    found = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None or new is None or not name.endswith(".csv"):
            gone, new_one = int(now.get(name) is None), int(name not in before)
            found.append(TableDiff(name=name, new=new_one, gone=gone, changed=1 - gone - new_one))
        else:
            found.append(_compare_tables(name, _rows(old), _rows(new)))
    return tuple(found)


Row = dict[str, str]


def _rows(data: bytes) -> list[Row]:
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline="")))


def _compare_tables(name: str, before: list[Row], now: list[Row]) -> TableDiff:
    """
    What differs between two states of a table; `moved` is the median ratio of the prices that changed.

    Rows are matched by the fewest leading columns that are unique in both, else as a whole.
    """
    columns = list(before[0] if before else now[0] if now else {})
    width = next(
        (n for n in range(1, len(columns)) if _unique(before, columns[:n]) and _unique(now, columns[:n])), None
    )
    key = columns[:width]
    old, new = ({tuple(row.get(column, "") for column in key): row for row in rows} for rows in (before, now))
    changed = [at for at in new if at in old and new[at] != old[at]]
    gone, added = [at for at in old if at not in new], [at for at in new if at not in old]
    told = [*(f"- {_text(at)}" for at in gone[:NAMED]), *(f"+ {_text(at)}" for at in added[:NAMED])]
    told += [f"~ {_text(at)}: {_changes(old[at], new[at])}" for at in changed[:NAMED]]
    ratios = [
        float(new[at][column]) / float(old[at][column])
        for at in changed
        for column in columns
        if PRICED in column
        and _has_price(old[at])
        and new[at].get(column)
        and float(old[at].get(column) or 0) > 0
        and new[at][column] != old[at][column]
    ]
    return TableDiff(
        name=name,
        new=len(added),
        gone=len(gone),
        changed=len(changed),
        rows=tuple(told),
        moved=median(ratios) if ratios else None,
    )


def _unique(rows: list[Row], columns: list[str]) -> bool:
    return len({tuple(row.get(column, "") for column in columns) for row in rows}) == len(rows)


def _has_price(row: Row) -> bool:
    return any(PRICED in column for column in row)


def _text(key: tuple[str, ...]) -> str:
    return " ".join(filter(None, key))


def _changes(before: Row, now: Row) -> str:
    named = [column for column in {**before, **now} if before.get(column) != now.get(column)]
    return ", ".join(f"{column} {before.get(column) or '-'} -> {now.get(column) or '-'}" for column in named[:4])
