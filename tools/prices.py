"""
Audit the shipped book of prices and write what is found.

    python -m tools.prices           writes docs/prices.md, as of the newest day that the page states
    python -m tools.prices DAY       the same with ages counted from another day, as 2026-11-22

The same findings as `tonnage catalog offers --check` shows: what only third parties or nobody confirms and so leads no
plan, sellers' own prices far from the market, statements that contradict each other, old prices, providers without one.
"""

from __future__ import annotations

import math
import re
import sys
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from tonnage.catalog.price_history import PricePoint, fall_text, offers_audit, price_fall, price_points, seller_fall

PAGE = Path(__file__).parents[1] / "docs" / "prices.md"
MEANING = {
    "contradicted": "the seller's own list says otherwise: leads nothing",
    "secondary": "no seller says it (a third party's table, a broker, arithmetic, an unclear currency): leads nothing",
    "contradicting": "one provider's rows for one instance in one region differ by more than 10 %",
    "outlier": "sellers' own prices beyond twice, or below half, the median of the cheapest of each seller",
    "no seller's price": "accelerators that only third parties, marketplaces or platforms price: they come last",
    "stale": "older than 90 days",
    "unlisted": "terms known, no price in the book",
}


def page(day: date) -> str:
    """The page as of a day."""
    found = offers_audit(today=day)
    lines = [
        "# The book of prices, audited",
        "",
        f"Written by `python -m tools.prices {day.isoformat()}`; prices are of one accelerator-hour, on demand.",
        "",
        *found.notes,
        "",
    ]
    for finding, rows in groupby(found.rows, key=lambda row: row["finding"]):
        listed = list(rows)
        lines += [f"## {finding.capitalize()}: {len(listed)}", "", f"{MEANING[finding].capitalize()}.", ""]
        if finding == "unlisted":
            lines += [", ".join(row["provider"] for row in listed) + ".", ""]
            continue
        lines += ["| provider | accelerator | $/h | market | rows | as of | why |", "|---|---|---|---|---|---|---|"]
        lines += [*map(_line, listed), ""]
    return "\n".join([*lines, *_paths()])


def _paths() -> list[str]:
    """Sellers whose price is known on two days at least ninety days apart: what commitments are weighed against."""
    points = price_points()
    sellers: dict[tuple[str, str], list[PricePoint]] = {}
    for point in points:
        sellers.setdefault((point.accelerator, point.provider), []).append(point)
    rows = []
    for (part, provider), path in sorted(sellers.items()):
        fall = seller_fall(path)
        if fall is not None:
            steps = ", ".join(f"{point.usd_per_hour:.3g} ({point.date})" for point in path)
            rows.append(f"| {part} | {provider} | {steps} | {math.exp(-fall) - 1:+.0%} |".replace("-0%", "0%"))
    return [
        f"## Dated paths: {len(rows)}",
        "",
        f"{fall_text(price_fall(points)).capitalize()}.",
        "Commitments are weighed against them unless `--price-fall` says otherwise.",
        "",
        "| accelerator | seller | $/h (day) | a year |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _line(row: dict[str, Any]) -> str:
    def usd(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    why = row["why"].replace("|", "/")
    cells = (
        row["provider"],
        row["accelerator"],
        usd(row["price"]),
        usd(row["market"]),
        f"{row['rows']:g}",
        row["as_of"],
        why,
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str]) -> int:
    """Write the page."""
    stated = re.search(r"tools\.prices (\d{4}-\d\d-\d\d)", PAGE.read_text()) if PAGE.exists() else None
    day = arguments[0] if arguments else stated[1] if stated else date.today().isoformat()
    PAGE.write_text(page(date.fromisoformat(day)))
    print(PAGE.relative_to(PAGE.parents[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
