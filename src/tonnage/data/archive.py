"""
What is a release of the data? A ZIP file: a manifest that names every file with its checksum, a signature over it.

    manifest.json    schema, version, day, the oldest Tonnage that reads it, checksum of the manifest before, files
    manifest.sig     the signature, in hexadecimal
    data/…           the tables, below the names of `catalog.rows.LIVING`

The same tables give the same bytes. Each manifest names the one before it, so that releases form a chain to which can
only be added. Reading trusts nothing: sizes, names and checksums are the signed manifest's, or the file is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from tonnage.catalog.rows import LIVING, VERSION, aside_of, folder_in, place
from tonnage.data.signature import is_signed
from tonnage.errors import BadFact, echo, echo_path
from tonnage.record import Record

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
        if not NAME.fullmatch(name) or ".." in name or name.partition("/")[0] not in LIVING:
            raise BadFact(f"'{echo_path(path)}' holds '{echo(name)}', which no release brings")
    if sum(entry.bytes for entry in found.files.values()) > MAX_BYTES:
        raise BadFact(f"'{echo_path(path)}' holds more than {MAX_BYTES:,} bytes")
    return found


def _check(name: str, data: bytes, entry: Entry) -> None:
    if len(data) != entry.bytes or hashlib.sha256(data).hexdigest() != entry.sha256:
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
