"""
Make, sign and review a release of the data (`tonnage data` reads them; docs/how-to/data.md says the whole way).

    python -m tools.data_release key FILE                         a new key: FILE holds it, its public half is printed
    python -m tools.data_release refresh FOLDER                   tables in use, with prices fetched now
    python -m tools.data_release build FOLDER --out PLACE --key FILE [--version 2026.12.06]
    python -m tools.data_release review FOLDER [--examples 4]     what would change, as Markdown: tables, audit, answers

FOLDER holds living tables as a release does (offers/…). PLACE is what a server shows: releases and index.json.
A release only adds: an accelerator, a model or a day of the price history that was there stays, or it is refused.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import math
import os
import secrets
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from nacl.signing import SigningKey
from tools.command import printed

from tonnage.catalog.rows import LIVING, VERSION, order
from tonnage.data.archive import MANIFEST, SCHEMA, SIGNATURE, Entry, Manifest, diff_of, read_release, tables_of
from tonnage.errors import TonnageError
from tonnage.version import __version__

ROOT: Final = Path(__file__).resolve().parents[1]
EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""Time of every member: the same tables make the same file."""
STAYS: Final = {"models/models.csv": ("id",), "prices/history.csv": ("date", "provider", "accelerator", "term")}
"""Table -> the columns whose values may only grow; of accelerators, `id` of every table."""


def pack(version: str, tables: Mapping[str, bytes], *, needs: str, before: str) -> tuple[bytes, dict[str, bytes]]:
    """The manifest of a release, to be signed, and its members without the signature."""
    files = {name: Entry(len(data), hashlib.sha256(data).hexdigest()) for name, data in sorted(tables.items())}
    made = Manifest(schema=SCHEMA, version=version, needs=needs, before=before, files=files)
    manifest = msgspec.json.format(msgspec.json.encode(made), indent=1)
    return manifest, {MANIFEST: manifest, **{f"data/{name}": data for name, data in sorted(tables.items())}}


def archive_bytes(members: Mapping[str, bytes], signature: bytes) -> bytes:
    """The release as a file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, data in (*members.items(), (SIGNATURE, signature.hex().encode())):
            file.writestr(zipfile.ZipInfo(name, EPOCH), data, compress_type=zipfile.ZIP_DEFLATED)
    return out.getvalue()


def sign(seed: bytes, message: bytes) -> bytes:
    """The signature of 64 bytes by the key of a seed of 32 bytes."""
    return SigningKey(seed).sign(message).signature


def public_key(seed: bytes) -> bytes:
    """The public key of a seed of 32 bytes."""
    return bytes(SigningKey(seed).verify_key)


def tables_in(folder: Path) -> dict[str, bytes]:
    """The living tables of a folder, over those that ship."""
    own = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] in LIVING
    }
    brought = {name.partition("/")[0] for name in own}
    return {**{k: v for k, v in tables_of(None).items() if k.partition("/")[0] not in brought}, **own}


def only_adds(before: dict[str, bytes], now: dict[str, bytes]) -> list[str]:
    """What was there and is not any more; nothing may be."""
    wrong = []
    for name, data in before.items():
        columns = ("id",) if name.startswith("accelerators/") else STAYS.get(name)
        if columns is None:
            continue
        gone = _keys(data, columns) - _keys(now.get(name, b""), columns)
        wrong += [f"{name}: {' '.join(key)} is gone" for key in sorted(gone)]
    return wrong


def _keys(data: bytes, columns: tuple[str, ...]) -> set[tuple[str, ...]]:
    rows = csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""))
    return {tuple(row[column] for column in columns) for row in rows if all(column in row for column in columns)}


def build(folder: Path, *, out: Path, seed: bytes, version: str, needs: str = __version__) -> Path:
    """
    Write a signed release and add it to the index beside it.

    Raises
    ------
    SystemExit
        It is no later than the one before, or does not only add to it.
    """
    index_file = out / "index.json"
    listed = json.loads(index_file.read_text(encoding="utf-8"))["releases"] if index_file.exists() else []
    before, old = "", tables_of(None)
    if listed:
        _, before, old = read_release(out / listed[-1]["file"], keys=(public_key(seed),))
        if order(version) <= order(listed[-1]["version"]):
            sys.exit(
                f"data_release: {version} is not later than {listed[-1]['version']}; add a number, such as {version}.1"
            )
    tables = tables_in(folder)
    wrong = only_adds(old, tables)
    if wrong:
        sys.exit("data_release: data is only added:\n  " + "\n  ".join(wrong))
    manifest, members = pack(version, tables, needs=needs, before=before)
    data = archive_bytes(members, sign(seed, manifest))
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"tonnage-data-{version}.zip"
    file.write_bytes(data)
    entry = {"version": version, "file": file.name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    text = json.dumps({"schema": "tonnage.data-index/1", "releases": [*listed, entry]}, indent=1) + "\n"
    index_file.write_text(text, encoding="utf-8")
    return file


def refresh(folder: Path) -> None:
    """The tables in use, with prices fetched now and the history that they add to."""
    from tonnage.catalog import rows
    from tonnage.catalog.refresh import refresh as fetch

    for name, data in tables_of(rows.choose_data().release).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    told = fetch(folder=folder / "offers" / "fetched", watch=lambda name: print(name, file=sys.stderr))
    (folder / "prices").mkdir(exist_ok=True)
    (folder / "prices" / "history.csv").write_text(history(folder), encoding="utf-8")
    for one in told.refreshed:
        print(f"{one.provider}: {one.kept} prices of {one.as_of}" if one.kept else f"{one.provider}: {one.why}")


def history(folder: Path) -> str:
    """Every dated price known so far, and those fetched into a folder: a row a day, seller and accelerator."""
    from tonnage.catalog.offers import snapshots
    from tonnage.catalog.price_history import price_points

    least = {tuple(point[:4]): (point.usd_per_hour, point.source) for point in price_points()}
    for found in snapshots(folder / "offers" / "fetched"):
        for row in found.rows:
            if row["on_demand_usd_per_hour"] and not row["accelerator"].startswith("cpu"):
                key = (row["as_of"], row["provider"], row["accelerator"], "on-demand")
                price = float(row["on_demand_usd_per_hour"]) / float(row["count"])
                least[key] = min((price, row.get("source") or "fetched"), least.get(key, (math.inf, "")))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("date", "provider", "accelerator", "term", "usd_per_hour", "source"))
    lines.writerows((*key, f"{price:.6g}", source) for key, (price, source) in sorted(least.items()))
    return text.getvalue()


def review(folder: Path, *, examples: int) -> str:
    """What a release of these tables would change: Markdown for a pull request."""
    found = diff_of(tables_of(None), tables_in(folder))
    lines = ["## Tables", "", "| table | new | gone | changed | prices |", "|---|---|---|---|---|"]
    for one in found:
        moved = f"{one.moved - 1:+.1%}" if one.moved is not None else ""
        lines.append(f"| {one.name} | {one.new} | {one.gone} | {one.changed} | {moved} |")
    with tempfile.TemporaryDirectory() as place:
        seed, out = secrets.token_bytes(32), Path(place, "out")
        file = build(folder, out=out, seed=seed, version=datetime.now(UTC).strftime("%Y.%m.%d") + ".99")
        own = {"TONNAGE_DATA_FOLDER": place, "TONNAGE_DATA_KEY": public_key(seed).hex()}
        printed("data", "update", "--from", str(file), env=own, codes=(0, 3))
        audit = printed("catalog", "offers", "--check", env=own, codes=(0, 3)).splitlines()
        lines += ["", "## Audit of the price book", "", "```", *audit, "```", "", "## Answers of examples/", ""]
        lines += ["| request | before | with these tables |", "|---|---|---|"]
        for request in _planned(examples):
            plans = []
            for which in ("shipped", file.stem.removeprefix("tonnage-data-")):
                env = {**own, "TONNAGE_DATA": which}
                told = printed("plan", str(request), "--json", env=env, codes=(0, 3))
                plans.append(json.loads(told)["sentence"])
            if plans[0] != plans[1]:
                lines.append(f"| {request.name} | {plans[0]} | {plans[1]} |")
    return "\n".join(lines) + "\n"


def _planned(most: int) -> list[Path]:
    requests = [path for path in sorted((ROOT / "examples").glob("*.yaml")) if "\nplan:" in path.read_text("utf-8")]
    return requests[: most or len(requests)]


def run() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    for name in ("key", "refresh", "build", "review"):
        ways.add_parser(name).add_argument("path", type=Path)
    ways.choices["build"].add_argument("--out", type=Path, required=True)
    ways.choices["build"].add_argument("--key", type=Path, required=True)
    ways.choices["build"].add_argument("--version", default=datetime.now(UTC).strftime("%Y.%m.%d"))
    ways.choices["review"].add_argument("--examples", type=int, default=0, help="so many requests; 0 = all")
    given = parser.parse_args()
    if given.way == "key":
        seed = secrets.token_bytes(32)
        with os.fdopen(os.open(given.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(seed.hex() + "\n")
        print(public_key(seed).hex())
    elif given.way == "refresh":
        refresh(given.path)
    elif given.way == "review":
        print(review(given.path, examples=given.examples), end="")
    else:
        if not VERSION.fullmatch(given.version):
            sys.exit(f"data_release: '{given.version}' is no version; expected such as 2026.12.06")
        seed = bytes.fromhex(given.key.read_text(encoding="ascii").strip())
        print(build(given.path, out=given.out, seed=seed, version=given.version))


if __name__ == "__main__":
    try:
        run()
    except TonnageError as problem:
        sys.exit(f"data_release: {problem}")
