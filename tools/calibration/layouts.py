"""
Are published layouts near the best that the search finds?

`python tools/calibration/layouts.py [N]` names the N furthest.

What is compared with what stands in `tonnage_accuracy.training_groups`; the share within 5 % is printed by block.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.rows import read_rows
from tonnage_accuracy.training_groups import Compared, compared_layouts

ROWS = Path(__file__).parents[2] / "measurements" / "training.csv.gz"
NEAR = 1.05


def main() -> int:
    """Print the share of rows within 5 %, by block and in all, and the furthest."""
    found = list(compared_layouts(read_rows(ROWS)))
    for block, own in sorted(group_by(found, lambda one: one.block).items()):
        print(_line(block, own))
    print(_line("all", found))
    for one in sorted(found, key=lambda one: -one.ratio)[: int(sys.argv[1]) if len(sys.argv) > 1 else 10]:
        print(f"  {one.ratio:.2f}x {one.id}{'' if one.fastest else ' (slower row)'}: {one.printed}, best {one.best}")
    return 0


def _line(name: str, own: list[Compared]) -> str:
    used = [one for one in own if one.fastest]
    shares = [sum(one.ratio <= NEAR for one in part) / len(part) if part else 0.0 for part in (used, own)]
    return (
        f"{name:14} {len(used):4} fastest of a sweep, {shares[0]:4.0%} within 5 %; {len(own):4} in all, {shares[1]:.0%}"
    )


if __name__ == "__main__":
    sys.exit(main())
