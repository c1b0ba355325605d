"""
How is a table read, and of which data is it: what ships with the program, or a later release of the data alone?

CSV with a header row; an empty cell is an absent fact, never zero. Loaders name a column once and get a number in the
base unit or nothing. What is wrong in a table is a BadFact that names file, row and column: the shipped tables are
tested, but people edit copies of them.

A release of the data holds the facts of the world (accelerators, models, offers, token prices, published results) and
takes the place of the shipped folders of those names; what is fitted to measurements belongs to the program and stays.
The newest installed release counts when its day is later than that of the shipped data. `tonnage data pin` or
TONNAGE_DATA (a version, `shipped` or `latest`) says otherwise. Decided once in a process; fetching, checking and
installing is `tonnage.data`'s.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields, replace

from tonnage.errors import BadFact, BadRequest, echo

HERE: Final = Path(__file__).parent / "data"
LIVING: Final = ("accelerators", "carbon", "models", "offers", "prices", "providers", "published", "quality", "results",
                 "spot", "tco", "tokens")  # fmt: skip
"""Folders that a release brings; the others are fitted, or describe programs that this one knows."""
SHIPPED: Final = "shipped"
ASIDE: Final = ".old"
LATEST: Final = "latest"
VARIABLE: Final = "TONNAGE_DATA"
VERSION: Final = re.compile(r"20\d\d\.(0[1-9]|1[0-2])\.([0-2]\d|3[01])(\.\d{1,2})?")
"""Year, month, day, and a number where a day has several."""


class Choice(NamedTuple):
    """The data in use."""

    version: str
    release: Path | None
    """Folder of the release; absent = what ships."""
    why: str = ""
    """What asked for it: TONNAGE_DATA, a pin, or nothing."""


def place() -> Path:
    """Where releases are kept: TONNAGE_DATA_FOLDER, else the user's data folder; it need not exist."""
    own = os.environ.get("TONNAGE_DATA_FOLDER")
    if own:
        return Path(own)
    from platformdirs import user_data_path

    return user_data_path("tonnage", appauthor=False) / "data"


def write_whole(path: Path, data: bytes) -> None:
    """
    Write beside and move over: whoever reads, and whoever comes after a kill, sees the old file or the new one.

    What is no file (a pipe, a device) is written to as it is; of a link its target is replaced.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def shipped_version() -> str:
    """The day of the shipped data."""
    return (HERE / "VERSION").read_text(encoding="utf-8").strip()


def installed_versions() -> tuple[str, ...]:
    """Versions of the releases on this machine, oldest first, with those set aside while another takes their place."""
    try:
        names = {
            entry.name.removeprefix(".").removesuffix(ASIDE)
            for entry in os.scandir(place() / "releases")
            if entry.is_dir()
        }
    except OSError:
        return ()
    return tuple(sorted((name for name in names if VERSION.fullmatch(name)), key=order))


def order(version: str) -> tuple[int, ...]:
    """By day, then by number."""
    return tuple(map(int, version.split(".")))


def pinned_version() -> str | None:
    """The release that `tonnage data pin` has written down; None without one that can be read."""
    try:
        said = json.loads((place() / "pin.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = said.get("version") if isinstance(said, dict) else None
    return found if isinstance(found, str) else None


@cache
def choose_data() -> Choice:
    """
    Which data this process reads, chosen once: as TONNAGE_DATA says, else the pin, else the newest.

    The newest is of what ships with the program and what is installed; of the same version what ships.

    Raises
    ------
    BadRequest
        TONNAGE_DATA or the pin names a release that is not installed.
    """
    ours = shipped_version()
    for said, why in ((os.environ.get(VARIABLE), VARIABLE), (pinned_version(), "pinned")):
        if said:
            return _name_choice(said, why) if said != LATEST else _newest(ours, why)
    return _newest(ours, "")


def _name_choice(version: str, why: str) -> Choice:
    if version in (SHIPPED, shipped_version()) and version not in installed_versions():
        return Choice(shipped_version(), None, why)
    if version not in installed_versions():
        where = f"{VARIABLE} names" if why == VARIABLE else "the pin names"
        known = ", ".join((SHIPPED, LATEST, *installed_versions()))
        raise BadRequest(
            f"{where} data '{echo(version)}', which is not installed; there are: {known} (`tonnage data update`)"
        )
    return Choice(version, folder_in(version), why)


def _newest(ours: str, why: str) -> Choice:
    last = max(installed_versions(), key=order, default=ours)
    return Choice(last, folder_in(last), why) if order(last) > order(ours) else Choice(ours, None, why)


def folder_in(version: str) -> Path:
    """Folder of an installed release; while another of the same version takes its place, where it waits."""
    folder, aside = place() / "releases" / version, aside_of(version)
    return aside if aside.is_dir() and not folder.is_dir() else folder


def aside_of(version: str) -> Path:
    """Where the release of a version waits until another of that version has taken its place."""
    return place() / "releases" / f".{version}{ASIDE}"


def files_of(release: Path | None) -> Iterator[tuple[str, Path]]:
    """Every file that answers are made of, by its name below the data, in order; `release` over what ships."""
    found = {}
    for root in (HERE, release):
        if root is None:
            continue
        for path in root.rglob("*"):
            name = path.relative_to(root).as_posix()
            folder = name.partition("/")[0]
            of_release = release is not None and folder in LIVING and (release / folder).is_dir()
            if path.is_file() and name != "VERSION" and (root == release) == of_release:
                found[name] = path
    yield from sorted(found.items())


class _Data:
    """The folder of all tables: a release of the data stands in for the shipped folders that it brings."""

    def __truediv__(self, name: str) -> Path:
        folder, release = name.partition("/")[0], choose_data().release
        root = release if folder in LIVING and release is not None and (release / folder).is_dir() else HERE
        return root / name


DATA: Final = _Data()

Row = dict[str, str]
_T = TypeVar("_T", bound=Struct)


@cache
def data_version(release: Path | str | None = "in use") -> str:
    """
    Which data answers are made of: twelve digits over the name and content of every table; 15 ms.

    Two installations that give the same have the same prices, models, parts and fits, byte for byte. Of the data in
    use, or of what answers would be made of with a release's folder (None = with what ships).
    """
    digest = hashlib.sha256()
    root = choose_data().release if isinstance(release, str) else release
    for name, path in files_of(root):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def table(path: Path) -> Iterator[Row]:
    """The rows of one file, in order, by column name."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        for number_of_row, cells in enumerate(lines, start=2):
            if len(cells) != len(header):
                raise BadFact(f"{path.name}, row {number_of_row}: {len(cells)} cells, but {len(header)} columns")
            yield dict(zip(header, cells, strict=True))


def read_rows(path: Path, kind: type[_T], **units: tuple[str, float]) -> tuple[_T, ...]:
    """
    The rows of one file as records, whose types say what a column may hold: columns are called as fields.

    An empty cell is the field's default. `units` names the columns of fields in another unit: their name, and its size.

    Raises
    ------
    BadFact
        File, row, column, what stands there and what is expected.

    Examples
    --------
    >>> from tonnage.catalog.failures import SpotUptime
    >>> rows = read_rows(DATA / "failures" / "spot.csv", SpotUptime, mean_up_s=("mean_up_h", 3600.0),
    ...     low_s=("low", 3600.0), high_s=("high", 3600.0), mean_down_s=("mean_down_h", 3600.0))
    >>> rows[0].instances, rows[0].mean_up_s
    (1, 9360.0)
    """
    needed = {field.name for field in fields(kind) if field.required}
    found = []
    for at, row in enumerate(table(path), start=2):
        cells = row | {name: row.get(column, "") for name, (column, _) in units.items()}
        try:
            one = convert({name: text for name, text in cells.items() if text or name in needed}, kind, strict=False)
            for name in cells:
                if isinstance(value := getattr(one, name, None), float) and not math.isfinite(value):
                    raise ValidationError(f"Expected a finite number - at `$.{name}`")
        except ValidationError as error:
            expected, _, place = str(error).partition(" - at `$.")
            name = place.rstrip("`")
            column = units[name][0] if name in units else name
            cell = f"{column} is '{echo(row[column])}': " if column in row else ""
            raise BadFact(f"{path.name}, row {at}: {cell}{expected}") from None
        found.append(replace(one, **{name: getattr(one, name) * size for name, (_, size) in units.items()}))
    return tuple(found)


def number(row: Row, column: str, *, factor: float = 1.0) -> float | None:
    """A cell times its column's factor to the base unit; absent when empty."""
    text = row[column]
    if not text:
        return None
    try:
        value = float(text) * factor
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadFact(f"{next(iter(row.values()))}: {column} is '{echo(text)}', but a number is expected")
    return value


def yes_no(row: Row, column: str) -> bool | None:
    """A cell that holds 1 or 0; absent when empty."""
    return None if not row[column] else row[column] == "1"
