"""
How is newer data fetched? From the first server, mirror or file that has a whole and signed release.

A server is a folder with `index.json`: every release that there was, oldest first, with checksum and size. A release
that was once seen in an index must stay in it as it was: data is only ever added. A download that breaks off is kept
and gone on with; what is installed changes only by the move of a checked folder, so that nothing is ever half there.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from tonnage.catalog.rows import (
    LATEST,
    SHIPPED,
    VERSION,
    installed_versions,
    order,
    place,
    shipped_version,
    write_whole,
)
from tonnage.data.archive import Manifest, install, read_release
from tonnage.errors import BadFact, BadRequest, TonnageError, echo, echo_path
from tonnage.fetch import open_url
from tonnage.record import Record, SparseRecord
from tonnage.version import __version__

URL_VARIABLE: Final = "TONNAGE_DATA_URL"
OFFLINE_VARIABLES: Final = ("TONNAGE_OFFLINE", "HF_HUB_OFFLINE")
INDEX: Final = "index.json"
INDEX_SCHEMA: Final = "tonnage.data-index/1"
SEEN: Final = "seen.json"
INDEX_S: Final = 60.0
RELEASE_S: Final = 1800.0
"""For all of an index, and for all that is left of a release. [s]"""
MAX_INDEX: Final = 4_000_000
MAX_BYTES: Final = 100_000_000
"""Of one release as a file."""
PIECE: Final = 1 << 16
HEADERS: Final = {"User-Agent": f"tonnage/{__version__}"}


class Listed(Record):
    """One release in an index."""

    version: str
    file: str
    sha256: str
    bytes: int


class Index(Record):
    """What a server has."""

    schema: str
    releases: tuple[Listed, ...]


class Updated(SparseRecord, kw_only=True):
    """What an update did."""

    version: str
    """Newest version that was found."""
    source: str
    new: bool = False
    """It was installed now."""
    failed: tuple[str, ...] = ()
    """Sources before it that gave nothing, and why."""


def sources_of(given: Iterable[str]) -> tuple[str, ...]:
    """
    The sources named, else those of TONNAGE_DATA_URL.

    Raises
    ------
    BadRequest
        None is named anywhere, or one is neither a file nor an address of http(s).
    """
    found = tuple(given) or tuple(os.environ.get(URL_VARIABLE, "").replace(",", " ").split())
    if not found:
        raise BadRequest(f"--from is missing: name a server or a file of releases, or set {URL_VARIABLE}")
    for one in found:
        if not _is_address(one) and not Path(one).is_file():
            raise BadRequest(
                f"--from: '{echo_path(one)}' is neither a file nor an address such as https://…/tonnage-data"
            )
    return found


def update(
    sources: Iterable[str], *, keys: Iterable[bytes], watch: Callable[[int, int], None] = lambda *_: None
) -> Updated:
    """
    Install the newest release of the first source that has one.

    Parameters
    ----------
    sources : iterable of str
        Addresses of servers, or files.
    keys : iterable of bytes
        Public keys, one of which must have signed it.
    watch : callable
        Told (bytes, all bytes) while one is fetched.

    Raises
    ------
    BadFact
        No source gave a release that may be used; the data in use stays.
    """
    failed: list[str] = []
    known = tuple(keys)
    for source in sources:
        try:
            found = _from_server(source, known, watch) if _is_address(source) else _from_file(Path(source), known)
        except TonnageError as error:
            failed.append(str(error))
            continue
        return msgspec.structs.replace(found, failed=tuple(failed))
    raise BadFact("no data was updated, and what is installed stays: " + "; ".join(failed))


def pin(version: str) -> None:
    """
    Answer from this release until told otherwise: a version, `shipped`, or `latest` for the newest there is.

    Raises
    ------
    BadRequest
        It is not installed.
    """
    known = (SHIPPED, LATEST, shipped_version(), *installed_versions())
    if version not in known:
        raise BadRequest(f"data '{echo(version)}' is not installed; there are: {', '.join(dict.fromkeys(known))}")
    file = place() / "pin.json"
    if version == LATEST:
        file.unlink(missing_ok=True)
        return
    _write(file, json.dumps({"version": version}).encode())


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _from_file(path: Path, keys: tuple[bytes, ...]) -> Updated:
    """A file is installed whatever its day: who names it wants it."""
    manifest = read_release(path, keys=keys)[0]
    _check_needs(manifest)
    there = manifest.version in installed_versions()
    install(path, keys=keys)
    return Updated(version=manifest.version, source=echo_path(path), new=not there)


def _from_server(url: str, keys: tuple[bytes, ...], watch: Callable[[int, int], None]) -> Updated:
    """
    Install a server's last release where it is newer than what is here, shipped or installed.

    Refused where the environment forbids asking, the index lost or changed a release, or the file is not the one
    listed.
    """
    for name in OFFLINE_VARIABLES:
        if os.environ.get(name, "") not in ("", "0"):
            raise BadRequest(f"{name} is set: '{echo(url)}' is not asked; unset it, or name a file with --from")
    index = _index(url)
    _check_only_added(url, index)
    last = max(index.releases, key=lambda one: order(one.version))
    ours = max((shipped_version(), *installed_versions()), key=order)
    if order(last.version) <= order(ours):
        _remember(index)
        return Updated(version=last.version, source=url)
    file = place() / "downloads" / f"{last.version}.zip"
    _download(f"{url.rstrip('/')}/{last.file}", file, listed=last, watch=watch)
    try:
        manifest = read_release(file, keys=keys)[0]
        if manifest.version != last.version:
            raise BadFact(f"'{echo(url)}' lists {last.version}, but the file is {manifest.version}: it is not used")
        _check_needs(manifest)
        install(file, keys=keys)
    finally:
        file.unlink(missing_ok=True)
    _remember(index)
    return Updated(version=last.version, source=url, new=True)


def _check_needs(manifest: Manifest) -> None:
    """Refuse a release that needs a newer Tonnage than this."""

    def numbers(version: str) -> list[int]:
        return [int(part) for part in version.split(".") if part.isdigit()]

    if numbers(manifest.needs) > numbers(__version__):
        raise BadFact(
            f"data {manifest.version} needs Tonnage {echo(manifest.needs)}, this is {__version__}: update it first"
        )


def _index(url: str) -> Index:
    """A server's list of releases; refused where it cannot be read, is empty, or has a release that cannot be one."""
    with open_url(f"{url.rstrip('/')}/{INDEX}", within_s=INDEX_S, headers=HEADERS) as answer:
        raw = answer.read(MAX_INDEX + 1)
    try:
        found = msgspec.json.decode(raw, type=Index)
    except msgspec.DecodeError:
        raise BadFact(f"'{echo(url)}' has no index of data that can be read") from None
    if found.schema != INDEX_SCHEMA or not found.releases:
        raise BadFact(
            f"'{echo(url)}' has an index of schema '{echo(found.schema)}'; {INDEX_SCHEMA} with releases is read"
        )
    for one in found.releases:
        if not VERSION.fullmatch(one.version) or Path(one.file).name != one.file or not 0 < one.bytes <= MAX_BYTES:
            raise BadFact(
                f"'{echo(url)}' lists a release that cannot be one: '{echo(one.version)}', '{echo(one.file)}'"
            )
    return found


def _check_only_added(url: str, index: Index) -> None:
    """Refuse an index in which a release that was seen before is changed, or missing though a newer one is there."""
    now = {one.version: one.sha256 for one in index.releases}
    for version, checksum in _read_seen().items():
        if version not in now and order(version) < max(map(order, now)):
            raise BadFact(
                f"'{echo(url)}' no longer lists data {version}, which it once did: data is only added; not used"
            )
        if version in now and now[version] != checksum:
            raise BadFact(f"'{echo(url)}' has another data {version} than before: a release never changes; not used")


def _read_seen() -> dict[str, str]:
    try:
        found = json.loads((place() / SEEN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _remember(index: Index) -> None:
    seen = _read_seen() | {one.version: one.sha256 for one in index.releases}
    _write(place() / SEEN, json.dumps(seen, indent=1).encode())


def _download(url: str, file: Path, *, listed: Listed, watch: Callable[[int, int], None]) -> None:
    """A whole file with the listed checksum; what came before a break is kept and gone on with."""
    part = file.with_suffix(".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.exists() else 0
    if have > listed.bytes:
        have = 0
    if have < listed.bytes:
        headers = HEADERS | ({"Range": f"bytes={have}-"} if have else {})
        with open_url(url, within_s=RELEASE_S, headers=headers) as answer:
            resumed = have > 0 and answer.status == http.client.PARTIAL_CONTENT
            have = have if resumed else 0
            try:
                with part.open("ab" if resumed else "wb") as out:
                    while have <= listed.bytes and (piece := answer.read1(PIECE)):
                        out.write(piece)
                        have += len(piece)
                        watch(have, listed.bytes)
            except (OSError, http.client.HTTPException):
                have = part.stat().st_size
    if have < listed.bytes:
        raise BadFact(
            f"'{echo(url)}' broke off after {have:,} of {listed.bytes:,} bytes, which are kept: ask again to go on"
        )
    if hashlib.sha256(part.read_bytes()).hexdigest() != listed.sha256:
        part.unlink()
        raise BadFact(f"'{echo(url)}' is not what its index says (checksum): it is not used")
    part.replace(file)


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        raise BadFact(f"'{echo_path(path)}' cannot be written: {(error.strerror or str(error)).lower()}") from None
