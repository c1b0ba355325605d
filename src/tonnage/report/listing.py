"""
Lists as a person reads them: known things, the data in use and what differs, the fields of a question.

Unknown is "–". A date older than 90 days carries a star that the last line explains.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

import msgspec

from tonnage.catalog.rows import choose_data, data_version, installed_versions, shipped_version
from tonnage.domain.accelerator import Accelerator, Link, PublishedResult, ScaleUpDomain
from tonnage.domain.listing import AcceleratorCard, Column, Hidden, Listing
from tonnage.domain.money import STALE_AFTER_DAYS, is_stale
from tonnage.domain.requests.field import GROUPS
from tonnage.report.document import EVERY, Block, Contents, Document, Headline, Note, document, grid, sections
from tonnage.report.wording import plural
from tonnage.units import DIMENSIONS, percent, show

UNKNOWN: Final = "–"

# One unit a column, so that a column can be read down: factor, printed unit.
_SCALES: Final = {
    "bytes": (2.0**30, "GiB"),
    "bytes/s": (1e9, "GB/s"),
    "FLOP/s": (1e12, "TFLOP/s"),
    "W": (1.0, "W"),
    "s": (1.0, "s"),
    "USD/h": (1.0, "$/h"),
    "USD": (1.0, "$"),
    "USD/GB": (1.0, "$/GB"),
    "parameters": (1e9, "10⁹"),
    "tokens": (1.0, "tokens"),
    "count": (1.0, ""),
}


LINKS: Final = {"nvlink": "NVLink ", "pcie": "PCIe "}
COLUMNS: Final = {"memory_gb": "memory", "memory_bw_gbps": "bandwidth", "tdp_w": "power"}
"""Columns of a second source, as its agreement names them -> the fact."""
COLUMN: Final = re.compile(rf"\b(?:{'|'.join(COLUMNS)})\b")


def show_listing(listing: Listing, *, wide: bool = False, most: int | None = None) -> None:
    """Print a listing: what it takes names for, the table, at most so many of its rows, and what it leaves out."""
    beyond = len(listing.rows) - most if most is not None else 0
    if beyond > 0:
        hidden = (*listing.hidden, Hidden(reason="more, --all shows them", rows=beyond))
        listing = msgspec.structs.replace(listing, rows=listing.rows[:most], hidden=hidden)
    for note in listing.notes:
        print(note)
    _print_listing(listing, wide=wide)


def show_card(card: AcceleratorCard) -> None:
    """Print one accelerator with every fact, its sources, and what it rents for."""
    part = card.accelerator
    if card.ambiguity:
        print(card.ambiguity + "\n")
    print(f"{part.name} ({part.id})")
    _print_table([Head("", "<"), Head("", "<")], card_rows(card), fold=True)
    if card.offers.rows:
        print("\nCheapest offer of each provider; price per accelerator-hour, terms per instance")
    else:
        print("\nNo provider here rents it as asked.")
    _print_listing(card.offers, wide=False)


def card_rows(card: AcceleratorCard) -> list[tuple[str, str]]:
    """Name and text of every fact of an accelerator, where its numbers are from last."""
    told = [*_facts(card.accelerator), *map(_domain, card.domains), *map(_published_cells, card.results)]
    return [(name, text or UNKNOWN) for name, text in (*told, *_sources(card.accelerator))]


class Head(NamedTuple):
    """What stands above a column, and which way its cells are pushed."""

    text: str
    align: str
    unit: str = ""
    lasting: bool = False
    """Dropped last when a window is narrow."""


def _print_listing(listing: Listing, *, wide: bool) -> None:
    """Print the table, how many rows are shown and hidden, and what a star means; on a terminal with names for ids."""
    columns = [column for column in listing.columns if wide or not column.wide]
    today = date.fromisoformat(listing.today)
    heads = [_head(column) for column in columns]
    if listing.rows:
        readable = _readable_names() if sys.stdout.isatty() else {}
        cells = [
            tuple(cell_text(_cell_value(row, c, readable), c.unit, today=today) for c in columns)
            for row in listing.rows
        ]
        _print_table(heads, cells, fold=wide)
    hidden = sum(reason.rows for reason in listing.hidden)
    reasons = "; ".join(f"{reason.rows} {reason.reason}" for reason in listing.hidden)
    shown = f"{len(listing.rows)} of {len(listing.rows) + hidden} {listing.kind} shown"
    _say(f"{shown}; hidden: {reasons}." if hidden else f"{shown}.")
    dated = [column.name for column in columns if column.unit == "date"]
    if any(row[name] and is_stale(row[name], today=today) for row in listing.rows for name in dated):
        print(f"* older than {STALE_AFTER_DAYS} days on {listing.today}")


def _readable_names() -> dict[str, Callable[[str], str]]:
    """
    Column of ids -> how people write an id of it; for a terminal only, as files and pipes keep ids. Commands take both.

    Column `id` holds accelerators or models: a model's id, which has a slash, stays as it is.
    """
    from tonnage.catalog import part_name, provider_name

    def provider(id: str) -> str:
        name = provider_name(id)
        return name if name.lower().replace("-", " ") == id.lower().replace("-", " ") else f"{name} ({id})"

    def part(id: str) -> str:
        return id if "/" in id else part_name(id)

    return {"id": part, "accelerator": part, "provider": provider, "spot_provider": provider}


def _cell_value(row: Mapping[str, Any], column: Column, readable: Mapping[str, Callable[[str], str]]) -> Any:
    value = row[column.name]
    return readable[column.name](value) if value and column.name in readable else value


def _head(column: Column) -> Head:
    numeric = column.unit in _SCALES
    return Head(
        column.name.replace("_", " "),
        ">" if numeric else "<",
        unit_text(column.unit),
        column.name in {"price", "as_of"},
    )


def _print_table(heads: list[Head], rows: Sequence[tuple[str, ...]], *, fold: bool) -> None:
    """
    A table that fits its reader: whole for a pipe, inside the width of a terminal.

    A terminal too narrow gets fewer columns, dropped from the right and named below, so that the rest stays
    readable; `fold` breaks cells instead.
    """
    lines = [line for line in (tuple(h.text for h in heads), tuple(h.unit for h in heads)) if any(line)]
    lines += rows
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    kept = list(range(len(heads)))
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        if fold and sum(widths) + 2 * len(widths) > room:
            _print_folded(heads, rows)
            return
        kept = _fitting(heads, widths, room)
    for line in lines:
        cells = [f"{line[place]:{heads[place].align}{widths[place]}}" for place in kept]
        print("  ".join(cells).rstrip())
    dropped = [head.text for place, head in enumerate(heads) if place not in kept]
    if dropped:
        _say(f"This window is too narrow for: {', '.join(dropped)}.")


def _say(text: str) -> None:
    """A line, broken between words where a window is too narrow for it."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(text)
    print(textwrap.fill(text, max(20, room), subsequent_indent="  ", break_on_hyphens=False))


def _fitting(heads: list[Head], widths: list[int], room: int) -> list[int]:
    """Places of the columns that fit, dropped from the right; a price and its date go last, the first never."""
    kept = list(range(len(heads)))
    droppable = [place for place in reversed(kept[1:]) if not heads[place].lasting]
    droppable += [place for place in reversed(kept[1:]) if heads[place].lasting]
    for place in droppable:
        if sum(widths[kept_place] + 2 for kept_place in kept) - 2 <= room:
            break
        kept.remove(place)
    return kept


def _print_folded(heads: list[Head], rows: Sequence[tuple[str, ...]]) -> None:
    """Print the table inside the width of the terminal, its cells broken over lines."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text as RichText

    headed = any(head.text for head in heads)
    table = Table(box=box.SIMPLE_HEAD if headed else None, show_header=headed, pad_edge=False, collapse_padding=True)
    for head in heads:
        text = f"{head.text}\n{head.unit}" if any(h.unit for h in heads) else head.text
        table.add_column(RichText(text), justify="right" if head.align == ">" else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(RichText, row))
    Console(highlight=False).print(table)


def unit_text(unit: str) -> str:
    """What stands under the head of a column of numbers; empty for text."""
    return _SCALES[unit][1] if unit in _SCALES else ""


def cell_text(value: Any, unit: str, *, today: date) -> str:
    """A value in the one unit of its column; a date older than 90 days carries a star."""
    if value is None or value == "":
        return UNKNOWN
    if unit == "yes/no":
        return "yes" if value else "no"
    if unit == "date":
        return f"{value}*" if is_stale(value, today=today) else str(value)
    if unit in {"USD/h", "USD/GB"}:
        return f"{value:,.2f}" if value >= 0.1 or value == 0 else f"{value:.4g}"
    if unit in _SCALES:
        scaled = value / _SCALES[unit][0]
        if unit == "count" and scaled == int(scaled):
            return str(int(scaled))
        return f"{scaled:,.0f}" if scaled >= 100 else f"{scaled:.3g}"
    return " ".join(str(value).split())


def _facts(part: Accelerator) -> list[tuple[str, str | None]]:
    """Name and text of each fact of a part; None in place of what is not known."""
    usable = part.usable_memory_bytes
    peaks = ", ".join(_peak(dtype, rate) for dtype, rate in part.peaks.items())
    return [
        *([] if part.status == "released" else [("status", part.status)]),
        ("vendor", part.vendor),
        ("architecture", " ".join(filter(None, (part.architecture, part.compute_capability or "")))),
        ("launched", str(part.year) if part.year else None),
        ("segment, form", ", ".join(filter(None, (part.segment, part.form_factor)))),
        (
            "memory",
            f"{show(part.memory_bytes, 'bytes', digits=4)} {part.memory_type}".strip() + ", as the vendor states it",
        ),
        ("usable memory", f"{show(usable, 'bytes', digits=4)}, the driver's total" if usable else None),
        ("bandwidth", show(part.memory_bytes_per_s, "bytes/s")),
        ("dense peaks", peaks),
        ("link", _link(part.link)),
        ("host link", _link(part.host_link)),
        ("power", show(part.power_w, "W", digits=4) if part.power_w else None),
        ("ECC", None if part.ecc is None else "yes" if part.ecc else "no"),
        ("partitions", f"up to {part.mig_slices}" if part.mig_slices else "none"),
        ("per server", str(part.max_per_node) if part.max_per_node else None),
        ("launch price", show(part.launch_price_usd, "USD") if part.launch_price_usd else None),
        ("street price", f"{show(part.street_price_usd, 'USD')}, an estimate" if part.street_price_usd else None),
        ("aliases", ", ".join(part.aliases)),
    ]


def _peak(dtype: str, rate: float) -> str:
    """
    A dense peak under the format's usual name; of integers nothing floats.

    Examples
    --------
    >>> _peak("fp64_tensor", 67e12), _peak("int8", 1.979e15)
    ('FP64 tensor 67 TFLOP/s', 'INT8 1.979 POP/s')
    """
    name, _, rest = dtype.partition("_")
    said = show(rate, "FLOP/s", digits=4)
    return f"{name.upper()} {rest}".rstrip() + f" {said.replace('FLOP', 'OP') if name.startswith('int') else said}"


def _link(link: Link) -> str | None:
    if link.kind == "none":
        return "none"
    rate = f"{show(link.bytes_per_s, 'bytes/s')} per direction" if link.bytes_per_s else "rate not published"
    kind = re.sub(r"^(nvlink|pcie)(?=\d)", lambda found: LINKS[found[0]], link.kind)
    return f"{kind}, {rate}" + (f", {link.domain} at full rate" if link.domain > 1 else "")


def _domain(domain: ScaleUpDomain) -> tuple[str, str]:
    """A scale-up domain as one row of a card: what it is of, and where that is said."""
    sides = f" of {'x'.join(map(str, domain.dims))}" if domain.dims else ""
    dies = f" of {domain.dies_per_package} dies" if domain.dies_per_package > 1 else ""
    spare = f", {domain.spare_trays} of them spare in large jobs" if domain.spare_trays else ""
    slices = f"; slices {', '.join('x'.join(map(str, sides)) for sides in domain.slices)}" if domain.slices else ""
    trays = f"{domain.trays} tray{'s' if domain.trays > 1 else ''} of {domain.packages_per_tray}{spare}"
    return (
        "scale-up domain",
        f"{domain.name}: {domain.shape}{sides}, {domain.packages} packages{dies} in {trays}{slices} "
        f"({domain.fact.source})",
    )


def _published_cells(result: PublishedResult) -> tuple[str, str]:
    return (
        "published",
        f"{result.model}: {result.metric} {result.value:,g} ({result.conditions}; {result.source})",
    )


def _sources(part: Accelerator) -> list[tuple[str, str | None]]:
    fact = part.fact
    checked = COLUMN.sub(lambda found: COLUMNS[found[0]], fact.cross_check)
    given = [
        ("source", fact.source),
        ("cross-check", re.sub(r"(?<=[a-z\d])([,:])(?=\S)", r"\1 ", checked)),
        ("notes", COLUMN.sub(lambda found: COLUMNS[found[0]], fact.notes.removeprefix("TRAP: "))),
        ("checked", fact.checked),
    ]
    return [(name, text) for name, text in given if text]


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
    """
    Tables that differ, and by how much prices moved.

    `most` tables are listed, `FIRST` where it is None; `EVERY` lists all, and the rows of each below.
    """
    tables, every = found.tables[: most or FIRST], most == EVERY
    if not tables:
        return document(Headline(f"Data {found.before} and {found.now} are the same."))
    cells = [
        (
            one.name,
            _count(one.new),
            _count(one.gone),
            _count(one.changed),
            percent(one.moved - 1.0, 1, sign="+") if one.moved is not None else "",
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
    """Releases held against their manifests: version -> what is wrong with it, nothing where it is whole."""
    if not found:
        return document(Headline("No release is installed: answers come from the shipped data."))
    lines: list[Block | str] = []
    for version, wrong in found.items():
        said = "not whole: remove it, or fetch it again" if wrong else "whole, and signed by a known key"
        lines += [Headline(f"Data {version}: {said}.", good=not wrong), *wrong]
    return document(lines)


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


WIDTH: Final = 100
NAME: Final = 26
READS: Final = 14


def show_fields(fields: Sequence[Mapping[str, Any]]) -> str:
    """Fields as text under the headings of their groups: name, unit, meaning, choices, default, bounds of each."""
    lines = []
    for group in GROUPS:
        rows = [field for field in fields if field["group"] == group]
        if rows:
            lines += ["", group, *(line for field in rows for line in _lines(field))]
    return "\n".join(lines[1:])


def _lines(field: Mapping[str, Any]) -> list[str]:
    head = f"  {field['name']:<{NAME}} {field['reads']:<{READS}} "
    said = "; ".join(filter(None, (field["help"], _choices(field), _default(field), _bounds(field))))
    return textwrap.wrap(said, WIDTH, initial_indent=head, subsequent_indent=" " * (NAME + READS + 4))


def _choices(field: Mapping[str, Any]) -> str:
    return "one of " + ", ".join(field["choices"]) if field.get("choices") else ""


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    if value is None or value in ("", [], (), False):
        return ""
    if isinstance(value, (list, tuple)):
        return "default " + ", ".join(map(str, value))
    return f"default {_show_value(value, field['reads'])}" if not isinstance(value, bool) else "default yes"


def _bounds(field: Mapping[str, Any]) -> str:
    above, most = field.get("above"), field.get("at_most")
    low = "" if above is None else "at least 0" if above < 0 else f"above {_show_value(above, field['reads'])}"
    high = "" if most is None else f"at most {_show_value(most, field['reads'])}"
    return ", ".join(filter(None, ("" if above == 0 else low, high)))


def _show_value(value: Any, reads: str) -> str:
    """A number in its unit; a text as it stands."""
    if isinstance(value, str) or (reads not in DIMENSIONS and reads != "integer"):
        return str(value)
    return show(float(value), "count" if reads == "integer" else reads)
