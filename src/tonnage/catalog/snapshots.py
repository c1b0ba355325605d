"""
Prices that the user had fetched: one file a provider, in the user's own folder, beside the shipped ones.

A snapshot takes the place of the shipped on-demand and spot prices of its provider; shipped terms that it does not know
(reserved, blocks) stay, with their own date. A file that does not match its checksum counts as absent.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tonnage.errors import BadFact, echo

COLUMNS: Final = ("provider", "instance_type", "accelerator", "count", "vcpus", "ram_gb", "region", "country",
                  "on_demand_usd_per_hour", "spot_usd_per_hour", "as_of", "source")  # fmt: skip
INDEX: Final = "index.json"
SCHEMA: Final = "tonnage.prices/1"
State = tuple[tuple[str, int, int], ...]
"""What tells whether the folder has changed: names, times and sizes of its files."""


class Snapshot(NamedTuple):
    """Prices of one provider."""

    provider: str
    as_of: str
    rows: tuple[Mapping[str, str], ...]


def snapshot_folder() -> Path:
    """Where snapshots are kept; it need not exist."""
    from platformdirs import user_data_path

    return user_data_path("tonnage", appauthor=False) / "prices"


def state(folder: Path | None = None) -> State:
    """The state of the folder, cheap to ask."""
    place = folder or snapshot_folder()
    try:
        found = [(entry.name, entry.stat().st_mtime_ns, entry.stat().st_size) for entry in os.scandir(place)]
    except OSError:
        return ()
    return tuple(sorted(found))


def index_entries(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """What the index says of each provider: file, checksum, date, rows; of the one before, too."""
    try:
        index = json.loads(((folder or snapshot_folder()) / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    providers = index.get("providers") if isinstance(index, dict) and index.get("schema") == SCHEMA else None
    return providers if isinstance(providers, dict) else {}


def snapshots(folder: Path | None = None) -> tuple[Snapshot, ...]:
    """Every whole snapshot of the folder."""
    place = folder or snapshot_folder()
    found = (_read(place, provider, told) for provider, told in sorted(index_entries(place).items()))
    return tuple(snapshot for snapshot in found if snapshot is not None)


def _read(place: Path, provider: str, told: Mapping[str, Any]) -> Snapshot | None:
    try:
        data = (place / Path(str(told["file"])).name).read_bytes()
        if hashlib.sha256(data).hexdigest() != told["sha256"]:
            return None
        rows = tuple(csv.DictReader(io.StringIO(data.decode("utf-8"))))
    except (OSError, KeyError, TypeError, ValueError, csv.Error):
        return None
    whole = all(set(COLUMNS) <= set(row) and None not in row.values() for row in rows)
    return Snapshot(provider, str(told.get("as_of", "")), rows) if whole and rows else None


def keep_prices(provider: str, rows: Iterable[Mapping[str, str]], *, as_of: str, folder: Path | None) -> None:
    """
    Keep the prices of a provider; those before stay for `roll_back`. All or, when it fails, none.

    Raises
    ------
    BadFact
        The folder cannot be written.
    """
    place = folder or snapshot_folder()
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    checksum = hashlib.sha256(data).hexdigest()
    try:
        place.mkdir(parents=True, exist_ok=True)
        name = f"{provider}-{checksum[:12]}.csv"
        _replace(place / name, data)
        index = index_entries(place)
        before = {key: value for key, value in index.get(provider, {}).items() if key != "before"}
        told = {"file": name, "sha256": checksum, "as_of": as_of, "rows": data.count(b"\n") - 1}
        again = before.get("sha256") == checksum
        index[provider] = told | ({"before": index[provider].get("before")} if again else {"before": before or None})
        _write(place, index)
    except OSError as error:
        raise BadFact(f"prices cannot be kept in '{echo(place)}': {(error.strerror or str(error)).lower()}") from None


def roll_back(providers: Iterable[str] = (), *, folder: Path | None = None) -> tuple[str, ...]:
    """Go back to the prices before, of these providers or of all; returns those that had any."""
    place = folder or snapshot_folder()
    index = index_entries(place)
    asked = tuple(providers) or tuple(index)
    back = tuple(name for name in asked if name in index and index[name].get("before"))
    for name in back:
        index[name] = {**index[name]["before"], "before": None}
    if back:
        _write(place, index)
    return back


def drop(providers: Iterable[str] = (), *, folder: Path | None = None) -> tuple[str, ...]:
    """Go back to the shipped prices, of these providers or of all; returns those that had a snapshot."""
    place = folder or snapshot_folder()
    index = index_entries(place)
    gone = tuple(name for name in (tuple(providers) or tuple(index)) if index.pop(name, None) is not None)
    if gone:
        _write(place, index)
    return gone


def _write(place: Path, index: Mapping[str, Any]) -> None:
    _replace(place / INDEX, json.dumps({"schema": SCHEMA, "providers": index}, indent=1).encode())
    kept = {INDEX}
    for told in index.values():
        kept |= {told["file"], *([told["before"]["file"]] if told.get("before") else [])}
    for path in place.glob("*.csv"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _replace(path: Path, data: bytes) -> None:
    """Write beside and move over: whoever reads sees the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
