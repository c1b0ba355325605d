"""
What does a file of published measurements say? Its rows, one at a time, whatever the file is called.

Three layouts are known by their header: training (a configuration and its step time or memory), inference (a point
and its throughput, latency or memory) and serving (a point under fixed concurrency with mean TTFT and TPOT). Columns
are those of measurements/README.md; a missing column means "not stated". A file that cannot be read ends in one
sentence; a cell that cannot be read concerns its own row only, and `number` says which.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Literal

from tonnage.errors import BadFact, echo
from tonnage.record import Record

Layout = Literal["training", "inference", "serving"]

LAYOUTS: Final[dict[Layout, tuple[str, ...]]] = {
    "serving": ("silicon_ttft_ms", "silicon_tpot_ms"),
    "training": ("tokens_per_s_per_accel_eff", "step_time_s_eff", "samples_per_s_per_accel", "peak_mem_gb"),
    "inference": (
        "output_tokens_per_s_total", "total_tokens_per_s", "samples_per_s", "e2e_ms", "ttft_mean_ms", "ttft_p50_ms",
        "tpot_mean_ms", "tpot_p50_ms", "kv_tokens", "memory_gb", "energy_per_token_joules",
    ),
}  # fmt: skip
"""Columns of which one in the header tells the layout, asked in this order."""

NEEDED: Final = ("id", "accelerator_id")
MAX_CELL_LENGTH: Final = 65_536
"""Longest cell that is read. [characters]"""
MAX_COLUMNS: Final = 1_000
MAX_LINE_LENGTH: Final = 4 * 1024**2
MAX_LINES: Final = 1_000_000
MAX_EMPTY: Final = 100_000
_GZIP_MAGIC: Final = b"\x1f\x8b"


class Row(Record, kw_only=True):
    """One measurement: its cells as text, absent ones left out."""

    id: str
    block: str
    """Source group: rows of one block are near-duplicates of each other."""
    layout: Layout
    cells: dict[str, str]
    usable: bool = True
    """Marked as comparable by whoever collected it."""
    table: str = ""
    """Name of the file it came from, without endings."""


def read_rows(path: str | Path) -> Iterator[Row]:
    """
    Every row of a file, plain or gzipped, read as it is asked for.

    Raises
    ------
    BadFact
        Missing, unreadable, not such a table, or damaged; the sentence names the file and the line.
    """
    name = echo(Path(path).name)
    try:
        with _open(Path(path)) as file:
            yield from _rows(file, name, table=Path(path).name.partition(".")[0])
    except FileNotFoundError:
        raise BadFact(f"'{echo(path)}' does not exist; name a file of measurements (.csv or .csv.gz)") from None
    except IsADirectoryError:
        raise BadFact(f"'{echo(path)}' is a folder; name the files in it, as in {echo(path)}/*.csv.gz") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadFact(f"'{name}' is a damaged gzip file; fetch it again") from None
    except UnicodeDecodeError:
        raise BadFact(f"'{name}' is not UTF-8 text; save it as UTF-8 CSV") from None
    except csv.Error as error:
        raise BadFact(f"'{name}' is not a CSV table: {error}") from None


def usable_rows(root: Path, *tables: str) -> list[Row]:
    """The usable rows of a checkout's tables, of all in the order of their names or of those named."""
    folder = root / "measurements"
    paths = [folder / f"{name}.csv.gz" for name in tables] or sorted(folder.glob("*.csv.gz"))
    return [row for path in paths for row in read_rows(path) if row.usable]


def layout_of(columns: list[str]) -> Layout | None:
    """The layout a header belongs to; none when it is no table of measurements."""
    return next((layout for layout, marks in LAYOUTS.items() if set(marks) & set(columns)), None)


def text(row: Row, column: str) -> str:
    """The cell as text; empty when not stated."""
    return row.cells.get(column, "")


def number(row: Row, column: str) -> float | None:
    """
    The cell as a number; none when not stated.

    Raises
    ------
    BadFact
        The cell is no finite number of at least 0.
    """
    cell = row.cells.get(column)
    if cell is None:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise BadFact(f"bad cell {column}: '{echo(cell)}' is not a number of at least 0")
    return value


def count(row: Row, column: str) -> int | None:
    """
    The cell as a whole number of at least 1; none when not stated.

    Raises
    ------
    BadFact
        The cell is anything else.
    """
    value = number(row, column)
    if value is None:
        return None
    if value != int(value) or not 1 <= value <= 10_000_000:
        raise BadFact(f"bad cell {column}: '{echo(row.cells[column])}' is not a whole number of at least 1")
    return int(value)


def flag(row: Row, column: str) -> bool | None:
    """
    The cell as yes or no; none when not stated.

    Raises
    ------
    BadFact
        The cell is neither.
    """
    cell = row.cells.get(column, "").lower()
    if cell in {"1", "yes", "true", "1.0"}:
        return True
    if cell in {"0", "no", "false", "0.0"}:
        return False
    if cell:
        raise BadFact(f"bad cell {column}: '{echo(cell)}' is not 0 or 1")
    return None


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP_MAGIC
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _lines(file: IO[str], name: str) -> Iterator[str]:
    """Lines of a table, none longer and no more of them empty than a table has."""
    number = empty = 0
    while line := file.readline(MAX_LINE_LENGTH + 1):
        number += 1
        empty += not line.strip()
        if len(line) > MAX_LINE_LENGTH:
            raise BadFact(f"'{name}' line {number} is longer than {MAX_LINE_LENGTH // 1024**2} MiB, which no row is")
        if empty > MAX_EMPTY or number > MAX_LINES:
            what = f"{MAX_EMPTY:,} empty lines" if empty > MAX_EMPTY else f"{MAX_LINES:,} lines"
            raise BadFact(f"'{name}' has more than {what}; no table of measurements has as many")
        yield line


def _rows(file: IO[str], name: str, *, table: str) -> Iterator[Row]:
    csv.field_size_limit(MAX_CELL_LENGTH)
    reader = csv.reader(_lines(file, name))
    header = [column.strip() for column in next(reader, [])]
    layout = _checked_layout(header, name)
    for cells in reader:
        if not cells:
            continue
        if len(cells) != len(header):
            line = f"'{name}' line {reader.line_num}"
            raise BadFact(f"{line} has {len(cells)} cells where the header has {len(header)} columns")
        filled = {column: cell.strip() for column, cell in zip(header, cells, strict=True) if cell.strip()}
        if "id" not in filled:
            raise BadFact(f"'{name}' line {reader.line_num} has no id; every row needs its own")
        yield Row(
            id=filled["id"],
            block=filled.get("block") or filled["id"].rpartition("-")[0] or filled["id"],
            layout=layout,
            cells=filled,
            usable=filled.get("usable", "1") in {"1", "1.0", "true", "yes"},
            table=table,
        )


def _checked_layout(header: list[str], name: str) -> Layout:
    if not any(header):
        raise BadFact(f"'{name}' is empty; a table of measurements starts with a header row")
    if len(header) > MAX_COLUMNS:
        raise BadFact(f"'{name}' has {len(header)} columns; at most {MAX_COLUMNS} are read")
    twice = next((column for column in header if column and header.count(column) > 1), None)
    if twice is not None:
        raise BadFact(f"'{name}' has two columns named '{echo(twice)}'; each name must be given once")
    layout = layout_of(header)
    missing = [column for column in NEEDED if column not in header]
    if layout is None or missing:
        what = f"it has no column {missing[0]}" if missing else "no column of a training, inference or serving result"
        raise BadFact(f"'{name}' is no table of measurements: {what}; see measurements/README.md for the columns")
    return layout
