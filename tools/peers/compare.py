"""
Ours beside a peer's, on exactly the rows that both predict.

    python tools/peers/compare.py

Prints median and mean absolute error of TTFT and TPOT by engine and model, and the ratio ours / theirs. Ours are
predicted here and now; where tools/calibration/left_out.csv.gz is present, the last column gives our median error by
fits
that never saw the row's model family.
"""

from __future__ import annotations

from pathlib import Path

from tonnage_accuracy.left_out import left_out_predictions
from tonnage_accuracy.peers import FILE, NAME, compare_with_peer
from tonnage_accuracy.rows import usable_rows
from tonnage_accuracy.scoring import score

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Score the rows and print."""
    rows = usable_rows(ROOT, "serving_silicon")
    print(f"Tonnage / {NAME}, on the same rows\n")
    print(
        f"{'engine':8s} {'model':31s} {'mode':7s} {'':8s}{'rows':>5s}  {'median':>15s} ratio  {'mean':>15s} ratio",
        "left out",
    )
    for line in compare_with_peer(rows, score(rows), path=ROOT / FILE, left_out=left_out_predictions(ROOT, "family")):
        outside = "-" if line.left_out_median is None else f"{line.left_out_median:.1%}"
        print(
            f"{line.engine:8s} {line.model:31s} {line.mode:7s} {line.quantity:8s}{line.rows:5d}  "
            f"{line.ours_median:6.1%} / {line.theirs_median:6.1%} {line.ours_median / line.theirs_median:5.2f}  "
            f"{line.ours_mean:6.1%} / {line.theirs_mean:6.1%} {line.ours_mean / line.theirs_mean:5.2f}  {outside:>8s}"
        )


if __name__ == "__main__":
    main()
