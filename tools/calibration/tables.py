"""Reads the kernel tables of the package aiconfigurator-core: paths, versions, columns, units.

The tables lie in systems/data/SYSTEM/OPERATION/ENGINE/VERSION/NAME_perf.parquet. Latencies are
milliseconds (expert-parallel exchanges: microseconds), message sizes count elements of the dtype.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
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


NARROW = frozenset({"h100_sxm", "h200_sxm", "l40s", "b200_sxm", "b300_sxm", "gb200", "gb300", "rtx_pro_6000_server"})
"""Systems with 8-bit units, for which TensorRT-LLM chooses kernels of few rows at start that its own table lacks."""
CHOSEN_AT_START = {"gemm": ("gemm_dtype", ("fp8", "nvfp4")), "moe": ("moe_dtype", ("nvfp4",))}
FEW_ROWS = 128
_SHAPE = {
    "gemm": ["gemm_dtype", "n", "k", "m"],
    "moe": [
        "distribution",
        "hidden_size",
        "inter_size",
        "num_experts",
        "topk",
        "moe_tp_size",
        "moe_ep_size",
        "num_tokens",
        "moe_dtype",
    ],
}


def served(root: Path, system: str, operation: str, engine: str, name: str) -> tuple[str, pd.DataFrame] | None:
    """
    The table of the kernels that the engine serves with.

    TensorRT-LLM's products of FP8 and NVFP4 take 1.5 times vLLM's time up to 128 rows in its own table (on H200 1280 x
    8192 in FP8 17.8 against 12.0 us), and served runs decode as if they did not: of the two, the faster at each shape.
    """
    own = newest(root, system, operation, engine, name)
    if own is None or engine != "trtllm" or system not in NARROW or name not in CHOSEN_AT_START:
        return own
    other = newest(root, system, operation, "vllm", name)
    if other is None:
        return own
    (version, table), shape, (column, formats) = own, _SHAPE[name], CHOSEN_AT_START[name]
    theirs = other[1].groupby(shape)["latency"].min().rename("theirs")
    table = table.join(theirs, on=shape)
    few = (table["m" if name == "gemm" else "num_tokens"] <= FEW_ROWS) & table[column].isin(formats)
    faster = np.where(few, np.fmin(table["latency"], table["theirs"]), table["latency"])
    return version, table.assign(latency=faster).drop(columns="theirs")
