"""Reads the kernel tables of the package aiconfigurator-core: paths, versions, columns, units.

The tables lie in systems/data/SYSTEM/OPERATION/ENGINE/VERSION/NAME_perf.parquet. Latencies are
milliseconds (expert-parallel exchanges: microseconds), message sizes count elements of the dtype.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

SYSTEMS = {
    "a100_sxm": "a100-sxm4-80gb",
    "h100_sxm": "h100-sxm5-80gb",
    "h200_sxm": "h200-sxm-141gb",
    "b200_sxm": "b200-sxm-180gb",
    "b300_sxm": "b300-sxm-288gb",
    "gb200": "gb200-nvl72",
    "gb300": "gb300-nvl72",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-bw-server",
    "b60": "arc-pro-b60",
}
"""Folder in the package -> accelerator of the catalogue."""

FAMILIES = ("vllm", "sglang", "trtllm")

FORMATS = {
    "bfloat16": ("bf16", "bf16"),
    "fp8": ("fp8", "fp8"),
    "fp8_block": ("fp8_block", "fp8"),
    "sq": ("int8", "int8"),
    "int8_wo": ("int8_weight", "bf16"),
    "int4_wo": ("int4", "bf16"),
    "nvfp4": ("nvfp4", "fp4"),
    "w4a16_mxfp4": ("mxfp4", "bf16"),
    "w4a8_mxfp4_mxfp8": ("mxfp4", "fp8"),
    "w4afp8": ("int4", "fp8"),
}
"""Table dtype -> stored format and compute dtype of the nouns."""


def version_key(text: str) -> tuple[int, ...]:
    """Orders versions; release candidates sort before the release, development builds first."""
    head = re.split(r"rc|\.dev|post", text)[0]
    numbers = [int(part) for part in re.findall(r"\d+", head)]
    candidate = re.search(r"rc(\d+)", text)
    return (*(numbers + [0] * (4 - len(numbers))), int(candidate.group(1)) if candidate else 999)


def newest(root: Path, system: str, operation: str, engine: str, name: str) -> tuple[str, pd.DataFrame] | None:
    """The newest table of that name that is more than a patch for a few shapes, and its version."""
    folder = root / "systems" / "data" / system / operation / engine
    found = sorted(folder.glob(f"*/{name}_perf.parquet"), key=lambda path: version_key(path.parent.name), reverse=True)
    tables = [(path.parent.name, pd.read_parquet(path)) for path in found]
    if not tables:
        return None
    largest = max(len(table) for _, table in tables)
    version, table = next((version, table) for version, table in tables if len(table) * 4 >= largest)
    table = table[table["latency"] > 0] if "latency" in table else table
    return version, table.reset_index(drop=True)
