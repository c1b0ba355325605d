"""
Fit the 90 % factors of every estimate and write them where predictions look them up.

    python calibration/intervals.py [--workers 2] [FILE.csv.gz …]

Scores every usable row of the measurements with the predictor as it stands, fits one factor per kind, quantity and
basis on whole groups (tonnage.accuracy.intervals), prints the coverage on groups left out, and rewrites
src/tonnage/catalog/data/intervals/*.csv. Quantities that no measurement covers keep their row. Run it last: each
change of a predictor changes its residuals.
"""

from __future__ import annotations

import argparse
import csv
import datetime
from pathlib import Path

from tonnage.accuracy.intervals import Factor, fit
from tonnage.accuracy.rows import read_rows
from tonnage.accuracy.scoring import score
from tonnage.catalog.intervals import KINDS

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "src" / "tonnage" / "catalog" / "data" / "intervals"
COLUMNS = ("quantity", "rung", "factor", "groups", "rows", "coverage_90", "coverage_blocks", "fitted")
SMALLEST = 1.01


def main() -> None:
    """Score, fit, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("files", nargs="*", type=Path, default=sorted((ROOT / "measurements").glob("*.csv.gz")))
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    rows = (row for path in given.files for row in read_rows(path))
    factors = fit(list(score(rows, workers=given.workers)))
    for found in factors:
        shares = (found.coverage_90, found.coverage_blocks)
        groups, blocks = ("-" if share is None else f"{share:.3f}" for share in shares)
        print(f"{found.kind:6} {found.quantity:30} {found.rung:11} x {found.factor:6.3f}", end="")
        print(f"  {found.groups:4} groups {found.rows:5} rows  covered on left-out groups {groups}, blocks {blocks}")
    for kind in KINDS:
        write(kind, [found for found in factors if found.kind == kind])


def write(kind: str, factors: list[Factor]) -> None:
    """One table; rows of quantities that were not fitted stay as they are."""
    path = TABLES / f"{kind}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        kept = [row for row in csv.DictReader(file) if row["quantity"] not in {found.quantity for found in factors}]
    today = datetime.date.today().isoformat()
    fitted = [
        {
            "quantity": found.quantity,
            "rung": found.rung,
            "factor": f"{max(found.factor, SMALLEST):.4g}",
            "groups": found.groups,
            "rows": found.rows,
            "coverage_90": "" if found.coverage_90 is None else f"{found.coverage_90:.3f}",
            "coverage_blocks": "" if found.coverage_blocks is None else f"{found.coverage_blocks:.3f}",
            "fitted": f"{today} on whole groups of the published measurements",
        }
        for found in factors
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows([*fitted, *kept])


if __name__ == "__main__":
    main()
