"""
How wide would intervals be without a source, or a model family, that nobody had measured?

    python calibration/left_out.py      first: what fits say that never saw the row's group
    python calibration/widths.py        about three minutes

For each source and each family of measurements/groups.toml the 90 % factors are fitted again (`accuracy.intervals`) on
the residuals of all other rows, and written to calibration/left_out_widths.csv.gz. With the predictions of
left_out.csv.gz a source is then left out of everything that is fitted: overheads, coefficients and widths. Structure
that was set by hand with the rows in view stays; nothing can take it back.
"""

from __future__ import annotations

import csv
import gzip
import io
import time
from pathlib import Path

from intervals import contradicting, left_out

from tonnage.accuracy.grouping import read_grouping
from tonnage.accuracy.intervals import widths
from tonnage.accuracy.left_out import WIDTH_COLUMNS, WIDTHS
from tonnage.accuracy.rows import read_rows

ROOT = Path(__file__).parents[1]
KINDS = ("source", "family")


def main() -> None:
    """Fit without each group and write."""
    start = time.process_time()
    grouping = read_grouping(ROOT)
    every = [row for path in sorted((ROOT / "measurements").glob("*.csv.gz")) for row in read_rows(path) if row.usable]
    taught = [row for row in every if row.table not in grouping.unseen]
    doubtful = contradicting(taught)
    scores = [item for item in left_out(taught) if item.id not in doubtful]
    lines: list[tuple[str, str, str, str, str, str]] = []
    for kind in KINDS:
        name = grouping.leaves_with if kind == "source" else grouping.family
        group = {row.id: name(row) for row in every}
        for hidden in dict.fromkeys(group[row.id] for row in taught):
            kept = widths(item for item in scores if group[item.id] != hidden)
            own = {(row.kind, row.quantity) for row in scores if group[row.id] == hidden}
            lines += [(kind, hidden, *key, f"{value:.4g}") for key, value in kept.items() if _asked(key[0], own)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([WIDTH_COLUMNS, *lines])
    with (ROOT / WIDTHS).open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(text.getvalue().encode())
    print(f"{len(lines)} factors in {time.process_time() - start:.0f} CPU s")


def _asked(kind: str, own: set[tuple[str, str]]) -> bool:
    """Whether the group has numbers of that kind of case."""
    return any(of == kind for of, _ in own)


if __name__ == "__main__":
    main()
