"""
The compact table of published results that travels with the package, from the measurements of the repository.

    python tools/calibration/published.py      seconds -> src/tonnage/catalog/data/published/results.csv.gz

Every usable row becomes the case that `tonnage accuracy` scores, in the words of `planner.near`, with what was measured
to four digits. Rows that are no case are left out, and so are those that repeat another (`duplicate_of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tonnage import catalog
from tonnage.catalog.published import COLUMNS, MEASURED
from tonnage.core.near import describe_case
from tonnage.domain.model import Model
from tonnage.errors import TonnageError
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, text, usable_rows
from tonnage_accuracy.serve_cases import year
from tonnage_accuracy.tables import write_cells

ROOT = Path(__file__).parents[2]
OUT = ROOT / "src" / "tonnage" / "catalog" / "data" / "published" / "results.csv.gz"


def main() -> None:
    """Write the table and say how large it is."""
    rows = usable_rows(ROOT)
    lines = joined(
        {row.id: line for row in rows if (line := line_of(row))}, {row.id: text(row, "run_id") for row in rows}
    )
    lines.sort(key=lambda line: (line["kind"], line["source"], line["model"], line["accelerator"], line["id"]))
    write_cells(OUT, COLUMNS, lines)
    print(f"{len(lines):,} results, {OUT.stat().st_size / 1e3:.0f} kB")


def joined(lines: dict[str, dict[str, str]], runs: dict[str, str]) -> list[dict[str, str]]:
    """The same lines; what one row measured of another row's run stands with that row."""
    for id_ in [id_ for id_ in lines if runs[id_] in lines]:
        line = lines.pop(id_)
        lines[runs[id_]] |= {name: line[name] for name in MEASURED if name in line}
    return list(lines.values())


def line_of(row: Row) -> dict[str, str]:
    """One line; empty where the row is no case or says nothing that the table keeps."""
    said = {name: value for name, value in numbers(row) if name in MEASURED}
    if not said or text(row, "duplicate_of"):
        return {}
    try:
        case = case_of(row)
        model = case.model if isinstance(case.model, Model) else catalog.model(str(case.model))
        about = describe_case(case, model)
    except TonnageError:
        return {}
    shown = {name: getattr(about, name) for name in COLUMNS if hasattr(about, name) and name not in MEASURED}
    shown |= {"id": row.id, "model": _model(row, about.model), "source": source_of(row), "date": date_of(row)}
    cells = {name: f"{value:.4g}" if isinstance(value, float) else str(value or "") for name, value in shown.items()}
    return {**cells, **said}


def numbers(row: Row) -> Iterator[tuple[str, str]]:
    """What was measured, to four digits."""
    for item in measured_numbers(row):
        if item.value:
            yield item.quantity, f"{item.value:.4g}"


def _model(row: Row, name: str) -> str:
    """The catalogue's name; of a shape of its own what the source calls it."""
    return text(row, "model_id") or text(row, "model") or name


def source_of(row: Row) -> str:
    """Where a row was published, in words."""
    printed = text(row, "source")
    named = {
        "public_dump": "InferenceMAX, public runs",
        "dated_csv": "InferenceMAX, public runs",
        "local_file": "aiconfigurator, runs of its authors",
    }.get(text(row, "provenance"))
    return f"{named or printed or row.block}"[:120]


def date_of(row: Row) -> str:
    """When it was measured, or the year of its software; empty where neither is known."""
    return text(row, "measured")[:10] or str(year(row) or "")


if __name__ == "__main__":
    main()
