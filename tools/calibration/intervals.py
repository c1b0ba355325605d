"""
Fit the 90 % factors of every estimate and write them where predictions look them up.

    python tools/calibration/left_out.py        first: what fits say that never saw the row's group
    python tools/calibration/intervals.py

The residuals are those of tools/calibration/left_out.csv.gz: each number as predicted without its accelerator, family,
engine and source. One factor per kind, quantity and level is fitted on whole groups (tonnage_accuracy.intervals),
coverage on groups left out is printed, and src/tonnage/catalog/data/intervals/*.csv is rewritten. Quantities that no
measurement covers keep their row. Rows that contradict themselves (`validation.contradictions`), that were served at
a rate (`queueing`) or peaks of several devices that do not say how the states were split (`undivided`) are scored like
all others but teach no width.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from tonnage.catalog.fitted import KINDS
from tonnage_accuracy.contradictions import contradicting
from tonnage_accuracy.grouping import LEFT_OUT, read_grouping
from tonnage_accuracy.intervals import Factor, fit
from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, number, text, usable_rows
from tonnage_accuracy.scoring import Score, score_of
from tonnage_accuracy.tables import read_table, write_cells

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "src" / "tonnage" / "catalog" / "data" / "intervals"
COLUMNS = ("quantity", "rung", "factor", "groups", "rows", "coverage_90", "coverage_rows", "fitted")
SMALLEST = 1.01


def main() -> None:
    """Fit, print and write."""
    grouping = read_grouping(ROOT)
    rows = [row for row in usable_rows(ROOT) if row.table not in grouping.unseen]
    doubtful = unfit(rows)
    factors = fit((item for item in left_out(rows) if item.id not in doubtful), source=grouping.publisher)
    for found in factors:
        groups, every = ("-" if s is None else f"{s:.3f}" for s in (found.coverage_90, found.coverage_rows))
        print(f"{found.kind:6} {found.quantity:22} {found.rung:42} x {found.factor:6.3f}", end="")
        print(f"  {found.groups:4} groups {found.rows:6} numbers  covered: groups {groups}, rows {every}")
    for kind in KINDS:
        write(kind, [found for found in factors if found.kind == kind])


def left_out(rows: Iterable[Row]) -> list[Score]:
    """Every measured number, once for each kind of group it was predicted without."""
    stored = {kind: left_out_predictions(ROOT, kind) for kind in LEFT_OUT}
    found = []
    for row in rows:
        for wanted in measured_numbers(row):
            base, key = score_of(row, wanted), (row.id, wanted.quantity)
            for known in (of[key] for of in stored.values() if key in of):
                found.append(replace(base, predicted=known.predicted, level=known.level))
    return found


def unfit(rows: Iterable[Row]) -> set[str]:
    """Ids of rows that teach no width."""
    rows = list(rows)
    return contradicting(rows) | queueing(rows) | undivided(rows)


def undivided(rows: Iterable[Row]) -> set[str]:
    """
    Ids of peaks on several devices without a degree or a kind of sharding.

    Whether each of four devices holds all states or a quarter decides the peak; of what was not stated an error says
    nothing (LitGPT's page says of such rows that every run was on one GPU).
    """
    return {
        row.id
        for row in rows
        if row.layout == "training"
        and number(row, "peak_mem_gb")
        and (number(row, "num_accel") or 1.0) > 1.0
        and not any(text(row, name) for name in ("sharding", "tp", "pp", "cp", "ep", "dp"))
    }


def queueing(rows: Iterable[Row]) -> set[str]:
    """
    Ids of rows that were served at a rate.

    Their intervals are those of a closed loop and, on top, what a rate near the knee makes of its error
    (`planning.replica.with_queueing`): as teachers of the first part they would count the second twice.
    """
    return {row.id for row in rows if text(row, "load") == "open_loop"}


def write(kind: str, factors: list[Factor]) -> None:
    """One table; rows of quantities that were not fitted stay as they are."""
    path = TABLES / f"{kind}.csv"
    fitted_names = {found.quantity for found in factors}
    kept = [row for row in read_table(path) if row["quantity"] not in fitted_names]
    today = datetime.date.today().isoformat()
    fitted = [
        {
            "quantity": found.quantity,
            "rung": found.rung,
            "factor": f"{max(found.factor, SMALLEST):.4g}",
            "groups": found.groups,
            "rows": found.rows,
            "coverage_90": "" if found.coverage_90 is None else f"{found.coverage_90:.3f}",
            "coverage_rows": "" if found.coverage_rows is None else f"{found.coverage_rows:.3f}",
            "fitted": f"{today} on whole groups left out of the fits",
        }
        for found in factors
    ]
    write_cells(path, COLUMNS, [*fitted, *kept])


if __name__ == "__main__":
    main()
