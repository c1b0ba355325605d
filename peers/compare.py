"""
Ours beside a peer's, on exactly the rows that both predict.

    python peers/compare.py [PEER.csv] [MEASUREMENTS.csv.gz]

Prints median and mean absolute error of TTFT and TPOT by engine and model, and the ratio ours / theirs. Ours are
predicted here and now; where calibration/left_out.csv.gz is present, a last column gives our median error by fits that
never saw the row's model family.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

from tonnage.accuracy.groups import grouped
from tonnage.accuracy.left_out import left_out_predictions
from tonnage.accuracy.metrics import ape, quantile
from tonnage.accuracy.rows import Row, number, read_rows, text
from tonnage.accuracy.scoring import score

ROOT = Path(__file__).parents[1]
QUANTITIES = ("ttft_ms", "tpot_ms")

Errors = tuple[float, float, float | None]
"""Of one row and quantity: ours, theirs, ours by a fit without the model family."""


def main() -> None:
    """Score the rows of the peer's table and print."""
    peer = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "peers" / "aiconfigurator.csv"
    measured = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "measurements" / "serving_silicon.csv.gz"
    with peer.open(encoding="utf-8", newline="") as file:
        theirs = {line["id"]: line for line in csv.DictReader(file)}
    rows = [row for row in read_rows(measured) if row.usable and row.id in theirs]
    found = pairs(rows, theirs)
    unsaid = sum(not line["ttft_ms"] for line in theirs.values())
    print(f"{len(theirs)} rows asked, {unsaid} of them beyond the peer; ours and theirs on the same rows\n")
    print(f"{'engine':8s} {'model':32s} {'mode':7s} {'':5s} {'rows':>5s}   {'median':>15s} {'ratio':>6s}", end="")
    print(f"   {'mean':>15s} {'ratio':>6s}   {'left out':>8s}")
    for (engine, model, mode, quantity), own in sorted(grouped(found, lambda item: item[0]).items()):
        print(f"{engine:8s} {model:32s} {mode:7s} {quantity[:4]:5s} {line_of([item[1] for item in own])}")
    for quantity in QUANTITIES:
        for mode in ("agg", "disagg"):
            own = [item for item in found if item[0][2:] == (mode, quantity)]
            print(f"{'all':8s} {'':32s} {mode:7s} {quantity[:4]:5s} {line_of([item[1] for item in own])}")
        own = [item for item in found if item[0][3] == quantity]
        print(f"{'all':8s} {'':32s} {'':7s} {quantity[:4]:5s} {line_of([item[1] for item in own])}")


def pairs(rows: Iterable[Row], theirs: dict[str, dict[str, str]]) -> list[tuple[tuple[str, str, str, str], Errors]]:
    """Errors of every row and quantity that both predict, under engine, model, mode and quantity."""
    known = {row.id: row for row in rows}
    left_out = left_out_predictions(ROOT, "family")
    found = []
    for item in score(known.values()):
        row, said = known[item.id], theirs[item.id].get(item.quantity)
        if item.quantity not in QUANTITIES or not said or item.predicted is None or not item.measured:
            continue
        outside = left_out.get((item.id, item.quantity))
        errors = (
            ape(predicted=item.predicted, measured=item.measured),
            ape(predicted=float(said), measured=item.measured),
            None if outside is None else ape(predicted=outside.predicted, measured=item.measured),
        )
        mode = "disagg" if number(row, "disaggregated") else "agg"
        found.append(((text(row, "engine"), text(row, "model_id"), mode, item.quantity), errors))
    return found


def line_of(errors: list[Errors]) -> str:
    """Rows, medians and their ratio, means and their ratio, median left out."""
    ours, theirs = [e[0] for e in errors], [e[1] for e in errors]
    outside = quantile([e[2] for e in errors if e[2] is not None], 0.5)
    cells = [f"{len(errors):5d}  "]
    for of in (lambda values: quantile(values, 0.5) or 0.0, lambda values: sum(values) / len(values)):
        mine, other = of(ours), of(theirs)
        cells.append(f"{mine:6.1%} / {other:6.1%} {mine / other:6.2f}  " if other else "-")
    return " ".join([*cells, f"{outside:7.1%}" if outside is not None else "      -"])


if __name__ == "__main__":
    main()
