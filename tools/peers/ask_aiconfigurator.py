"""
What does aiconfigurator say to the serving rows that we are scored on? Its own estimate, row by row.

    .venv-peers/bin/python tools/peers/ask_aiconfigurator.py MEASUREMENTS.csv.gz OUT.csv [--budget stated|prompt]
                                                   [--lengths mean|nominal] [--every N] [--minutes M]

Runs in the environment that `make peers` builds; nothing of Tonnage is imported. Every usable row is said in
aiconfigurator's own words, with whatever the row knows: launch degrees, clients per data-parallel rank, mean lengths,
formats of weights, experts and cache. Its database serves only its newest collection, so the version of the row is
replaced by that one and named in the output. Tables of measured kernels alone ("SILICON") are asked first, then with
its formulas in the gaps ("HYBRID"). A row it cannot say is written with the reason and no number.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import logging
import math
import os
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
warnings.simplefilter("ignore")

COLUMNS = ("id", "ttft_ms", "tpot_ms", "version", "note")
MODELS = {
    ("deepseek-ai/DeepSeek-V3", "nvfp4"): "nvidia/DeepSeek-V3.1-NVFP4",
    ("meta-llama/Meta-Llama-3.1-70B", "nvfp4"): "meta-llama/Meta-Llama-3.1-70B",
}
"""Checkpoints whose formats the package reads from their own configuration."""
PRODUCTS = {"bf16": "bfloat16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4", "mxfp4": "bfloat16"}
EXPERTS = {**PRODUCTS, "mxfp4": "w4a16_mxfp4"}
CACHE = {"bf16": "bfloat16", "fp8": "fp8"}
ROUTED = {"deepseek-ai/DeepSeek-V3", "openai/gpt-oss-120b"}

Row = dict[str, str]


def main() -> None:
    """Estimate every row and write after each, so that a time limit loses nothing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("measurements", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", choices=("stated", "prompt"), default="prompt")
    parser.add_argument("--lengths", choices=("mean", "nominal"), default="mean")
    parser.add_argument("--every", type=int, default=1, help="take every Nth row of each model, engine and system")
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    end = time.monotonic() + 60 * given.minutes
    with given.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        known: dict[tuple[tuple[str, Any], ...], dict[str, str]] = {}
        for row in sample(usable(given.measurements), given.every):
            if time.monotonic() > end:
                print(f"stopped after {given.minutes} minutes", file=sys.stderr)
                break
            asked = question(row, budget=given.budget, lengths=given.lengths)
            key = tuple(sorted(asked.items()))
            if key not in known:
                known[key] = estimate(asked)
            writer.writerow({"id": row["id"], **known[key]})
            file.flush()


def usable(path: Path) -> list[Row]:
    """Rows that are scored."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["usable"] == "1"]


def sample(rows: list[Row], every: int) -> list[Row]:
    """Rows in an order that keeps one database in use; every Nth of each stratum."""
    strata: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        key = (row["mode"], row["system"], row["engine"], row["model_id"], row["weight_precision"])
        strata.setdefault(key, []).append(row)
    return [row for key in sorted(strata) for row in strata[key][::every]]


def question(row: Row, *, budget: str = "prompt", lengths: str = "mean") -> dict[str, Any]:
    """The row as arguments of `cli_estimate`."""
    model, weights = row["model_id"], row["weight_precision"]
    own = MODELS.get((model, weights))
    prefix = "" if lengths == "nominal" else "_tokens"
    isl, osl = round(float(row[f"isl{prefix}"])), round(float(row[f"osl{prefix}"]))
    said: dict[str, Any] = {
        "model_path": own or model,
        "system_name": row["system"],
        "backend_name": row["engine"],
        "isl": isl,
        "osl": osl,
        "mode": row["mode"],
    }
    formats_in_model = (own or "").startswith("nvidia/") or weights == "mxfp4"
    if not formats_in_model:
        said["gemm_quant_mode"] = PRODUCTS[weights]
        if model in ROUTED:
            said["moe_quant_mode"] = EXPERTS[row["moe_weight_precision"] or weights]
    if row["kv_precision"]:
        said["kvcache_quant_mode"] = CACHE[row["kv_precision"]]
    if row["mode"] == "disagg":
        return said | pools(row)
    ranks = max(number(row, "attention_dp_norm"), 1)
    said |= {
        "tp_size": number(row, "tp_norm") or 1,
        "pp_size": number(row, "pp_size") or 1,
        "attention_dp_size": ranks,
        "batch_size": max(math.ceil(number(row, "concurrency") / ranks), 1),
    }
    if ranks > 1 and said["tp_size"] > 1 and said["tp_size"] * ranks > number(row, "num_accelerators"):
        said["tp_size"] = max(number(row, "num_accelerators") // ranks, 1)
    if model in ROUTED:
        width = said["tp_size"] * ranks
        said["moe_ep_size"] = min(max(number(row, "ep_norm"), 1), width)
        said["moe_tp_size"] = width // said["moe_ep_size"]
    if budget == "stated" and row["max_batched_tokens"]:
        said["ctx_tokens"] = number(row, "max_batched_tokens")
    return said


def pools(row: Row) -> dict[str, Any]:
    """Sizes of separate prompt and decode workers."""
    said: dict[str, Any] = {}
    for pool in ("prefill", "decode"):
        said[f"{pool}_batch_size"] = max(number(row, f"{pool}_batch_size"), 1)
        said[f"{pool}_num_workers"] = max(number(row, f"{pool}_num_workers"), 1)
        for size in ("tp", "pp", "attention_dp"):
            said[f"{pool}_{size}_size"] = max(number(row, f"{pool}_{size}_size"), 1)
        if row["model_id"] in ROUTED:
            for size in ("moe_tp", "moe_ep"):
                said[f"{pool}_{size}_size"] = max(number(row, f"{pool}_{size}_size"), 1)
    return said


def number(row: Row, name: str) -> int:
    """A count; 0 where nothing is stated."""
    return int(float(row.get(name) or 0))


@cache
def newest(system: str, backend: str) -> str | None:
    """The collection it serves; asked once, because it reads hundreds of files to say so."""
    from aiconfigurator.sdk.perf_database import get_latest_database_version

    found: str | None = get_latest_database_version(system=system, backend=backend)
    return found


def estimate(asked: dict[str, Any]) -> dict[str, str]:
    """Its times, or why there are none."""
    from aiconfigurator.cli.api import cli_estimate

    reasons = []
    for mode in ("SILICON", "HYBRID"):
        try:
            version = newest(asked["system_name"], asked["backend_name"])
            found = cli_estimate(**asked, database_mode=mode, backend_version=version)
        except Exception as error:  # whatever goes wrong inside is that row's reason
            reasons.append(f"{type(error).__name__}: {' '.join(str(error).split())}")
            if "OOM" in str(error):
                break
            continue
        note = mode.lower() + ("; more sequences than its cache holds" if found.kv_cache_warning else "")
        version = f"{found.backend_name} {found.backend_version}"
        return {"ttft_ms": f"{found.ttft:.6g}", "tpot_ms": f"{found.tpot:.6g}", "version": version, "note": note}
    return {"note": reasons[-1][:160]}


if __name__ == "__main__":
    main()
