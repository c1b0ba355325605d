"""Writes src/tonnage/catalog/data/efficiency/*.grids from the kernel tables of aiconfigurator-core.

    python tools/calibration/build.py PACKAGE_FOLDER [SYSTEM ...]

One file per accelerator and family of kernels: a header (provenance, and where each grid lies), then
the grids, each compressed alone so that a reader decodes only what it needs.
"""

from __future__ import annotations

import datetime
import sys
import zlib
from pathlib import Path

import grids
import msgspec
from tables import FAMILIES, SYSTEMS, newest, served

from tonnage import catalog
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import Grid

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "src" / "tonnage" / "catalog" / "data" / "efficiency"

TABLES: tuple[tuple[str, str, grids.Builder], ...] = (
    ("gemm", "gemm", grids.gemm),
    ("attention", "context_attention", grids.prefill),
    ("attention", "generation_attention", grids.decode),
    ("mla", "context_mla", grids.mla_prefill),
    ("mla", "generation_mla", grids.mla_decode),
    ("moe", "moe", grids.moe),
    ("linear_attention", "gdn", grids.state_space),
    ("quantize", "scale_matrix", grids.elementwise),
)


def family_grids(root: Path, system: str, family: str, accelerator: Accelerator) -> dict[str, Grid]:
    """Every grid of one engine's kernels on one system."""
    found: dict[str, Grid] = {}
    for operation, name, build in TABLES:
        table = served(root, system, operation, family, name)
        if table is not None:
            found |= grids.grids_of(build, table[1], accelerator, source=f"{family} {table[0]}")
    table = newest(root, system, "comm", family, "custom_allreduce")
    if table is not None:
        version, rows = table
        eager = rows["kernel_source"].str.contains("eager") if "kernel_source" in rows else rows["latency"] < 0
        for part, suffix in ((rows[~eager], ""), (rows[eager], "/eager")):
            own = grids.grids_of(grids.collectives, part, accelerator, source=f"{family} {version}")
            found |= {f"{key}{suffix}": grid for key, grid in own.items()}
    return found


def library_grids(root: Path, system: str, accelerator: Accelerator) -> dict[str, Grid]:
    """Collectives of the vendor's library."""
    for engine in ("nccl", "oneccl"):
        table = newest(root, system, "comm", engine, engine)
        if table is not None:
            return grids.grids_of(grids.collectives, table[1], accelerator, source=f"{engine} {table[0]}")
    return {}


def write(path: Path, found: dict[str, Grid], stamp: dict[str, str]) -> int:
    """Header and grids of one file; its size in bytes."""
    blocks, index, at = [], {}, 0
    for key, grid in sorted(found.items()):
        fields = {name: getattr(grid, name) for name in ("kind", "axes", "floor_s", "weights_bytes", "width", "source")}
        values = grid.excess.tobytes()
        fields["low_high"] = values[0::2] + values[1::2]
        block = zlib.compress(msgspec.msgpack.encode(fields), 9)
        index[key] = (at, len(block))
        blocks.append(block)
        at += len(block)
    header = msgspec.msgpack.encode({**stamp, "index": index})
    path.write_bytes(len(header).to_bytes(4, "little") + header + b"".join(blocks))
    return path.stat().st_size


def main(arguments: list[str]) -> None:
    """Build all systems, or those named."""
    root = Path(arguments[0])
    package = next(root.parent.glob("aiconfigurator_core-*.dist-info"), None)
    version = package.name.split("-")[1].removesuffix(".dist") if package else "unknown"
    TARGET.mkdir(parents=True, exist_ok=True)
    for system in arguments[1:] or SYSTEMS:
        accelerator = catalog.accelerator(SYSTEMS[system])
        for family in (*FAMILIES, "library"):
            library = family == "library"
            found = (
                library_grids(root, system, accelerator) if library else family_grids(root, system, family, accelerator)
            )
            if not found:
                continue
            stamp = {
                "accelerator": accelerator.id,
                "family": family,
                "package": f"aiconfigurator-core {version}",
                "licence": "Apache-2.0, NVIDIA Corporation & Affiliates",
                "script": "tools/calibration/build.py",
                "date": datetime.date.today().isoformat(),
            }
            path = TARGET / f"{accelerator.id}.{family}.grids"
            print(f"{path.name:45s} {len(found):4d} grids {write(path, found, stamp):9d} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
