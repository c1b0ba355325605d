"""The figures that the page shows are those of the published report."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_pages_figures_are_the_reports() -> None:
    report = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    table = report[report.index("| figure | left out |") :].split("\n\n")[0].splitlines()
    told = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if not line.startswith("| ---")]
    with (ROOT / "src/tonnage/catalog/data/accuracy.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == told, "run `make accuracy`, which writes both"
