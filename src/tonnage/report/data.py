"""The data in use, an update, and two releases side by side, as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tonnage.catalog.rows import choose_data, data_version, installed_versions, shipped_version
from tonnage.report.document import EVERY, Block, Contents, Document, Headline, Note, document, grid, sections
from tonnage.report.wording import plural

FIRST: Final = 14
"""Tables of a first screen."""


def status_document() -> Document:
    """Which data is in use, why, and which other there is."""
    used, ours, there = choose_data(), shipped_version(), installed_versions()
    origin = "shipped with the program" if used.release is None else "installed"
    why = f", by {used.why}" if used.why == "TONNAGE_DATA" else f", {used.why}" if used.why else ""
    rows = [(version, "installed", "in use" if version == used.version and used.release else "") for version in there]
    rows.append((ours, "shipped", "in use" if used.release is None else ""))
    return document(
        Headline(f"Data {used.version} ({data_version()}), {origin}{why}."),
        grid(["version", "where", ""], sorted(rows, reverse=True)),
        Note("Newer: tonnage data update. Another: tonnage data pin VERSION. What differs: tonnage data diff."),
    )


def update_document(found: Any) -> Document:
    """What an update did, and which sources gave nothing."""
    used = choose_data()
    if found.new:
        said = f"Data {found.version} is installed, from {found.source}."
    else:
        said = f"Nothing newer: {found.source} has data {found.version}, this machine {used.version}."
    still = Note(f"Answers still come from {used.version} ({used.why}); `tonnage data pin latest` ends that.")
    refused = (f"Not used: {why}" for why in found.failed)
    return document(Headline(said), refused, still if found.new and used.why else None)


def diff_document(found: Any, *, most: int | None = None) -> Document:
    """Tables that differ, and by how much prices moved."""
    tables, every = found.tables[: most or FIRST], most == EVERY
    if not tables:
        return document(Headline(f"Data {found.before} and {found.now} are the same."))
    cells = [
        (
            one.name,
            _count(one.new),
            _count(one.gone),
            _count(one.changed),
            f"{one.moved - 1.0:+.1%}" if one.moved is not None else "",
        )
        for one in tables
    ]
    verb = "differs" if len(found.tables) == 1 else "differ"
    title = f"{plural(len(found.tables), 'table')} {verb} between data {found.before} and {found.now}."
    rest: Contents = Note(hint="The rows of each table: --all.")
    if every:
        rest = sections({one.name: one.rows for one in tables})
    elif len(found.tables) > FIRST:
        rest = Note(f"{len(found.tables) - FIRST} more tables.", hint="All, and the rows of each: --all.")
    return document(Headline(title), grid(["table~", "new>", "gone>", "changed>", "prices>"], cells), rest)


def checked_document(found: Mapping[str, Sequence[str]]) -> Document:
    """Releases held against their manifests."""
    if not found:
        return document(Headline("No release is installed: answers come from the shipped data."))
    lines: list[Block | str] = []
    for version, wrong in found.items():
        said = "not whole: remove it, or fetch it again" if wrong else "whole, and signed by a known key"
        lines += [Headline(f"Data {version}: {said}.", good=not wrong), *wrong]
    return document(lines)


def _count(number: int) -> str:
    return f"{number:,}" if number else ""
