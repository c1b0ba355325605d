"""Fits the generic curve of `tonnage.physics.efficiency.Curve` on all kernel tables at once.

    python tools/calibration/curve.py PACKAGE_FOLDER

Soft-L1 on log(measured / predicted), each system with equal weight, newest table of each engine. Prints the
parameters, and the error on each system with the parameters fitted on the others (left out in turn).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from check import sources
from scipy.optimize import least_squares
from tables import FAMILIES, FORMATS, SYSTEMS

from tonnage import catalog
from tonnage.catalog import efficiency
from tonnage.domain.precision import number_format
from tonnage.physics.efficiency import peak_flop_per_s

ROWS = 1500


def gather(root: Path, name: str) -> pd.DataFrame:
    """A sample of one table over all systems and engines, with the facts of the accelerator."""
    found = []
    for system, part in SYSTEMS.items():
        accelerator = catalog.accelerator(part)
        for family in FAMILIES:
            for table, rows in sources(root, system, family):
                if table != name:
                    continue
                some = rows.sample(min(ROWS, len(rows)), random_state=3)
                found.append(
                    some.assign(
                        system=system,
                        bandwidth=accelerator.memory_bytes_per_s,
                        units=efficiency.ladder(accelerator).multiprocessors or 20.0,
                        part=part,
                    )
                )
    return pd.concat(found)


def peaks(rows: pd.DataFrame, compute: pd.Series) -> np.ndarray:
    """Peak of each row's dtype on its accelerator."""
    cache = {
        (p, c): peak_flop_per_s(catalog.accelerator(p), c) for p, c in set(zip(rows["part"], compute, strict=True))
    }
    return np.array([cache[pair] for pair in zip(rows["part"], compute, strict=True)])


def smooth(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a**4 + b**4) ** 0.25)


def gemm_model(p: np.ndarray, d: pd.DataFrame) -> np.ndarray:
    launch, compute, memory, small = np.exp(p)
    work = 2.0 * d.m * d.n * d.k / d.peak * (1 + small / np.sqrt(d.m * d.n)) / compute
    moved = (d.stored * d.n * d.k + 2.0 * d.m * (d.n + d.k)) / d.bandwidth / memory
    return launch + smooth(work.to_numpy(), moved.to_numpy())


def prefill_model(p: np.ndarray, d: pd.DataFrame) -> np.ndarray:
    launch, limit, half = np.exp(p)
    share = np.maximum(limit * d.isl / (d.isl + half), 0.02)
    work = 2.0 * d.batch_size * d.num_heads * d.head_dim * d.isl**2.0 / d.peak / share
    moved = d.batch_size * d.isl * d.head_dim * (4.0 * d.num_heads + 4.0 * d.kv) / d.bandwidth / 0.75
    return launch + smooth(work.to_numpy(), moved.to_numpy())


def decode_model(p: np.ndarray, d: pd.DataFrame) -> np.ndarray:
    launch, memory, occupancy = np.exp(p)
    context = d.step + d.isl
    units = d.batch_size * d.kv * context / (256.0 * d.units)
    moved = 2.0 * d.stored * d.kv * d.head_dim * d.batch_size * context / d.bandwidth / memory
    work = 4.0 * d.num_heads * d.head_dim * d.batch_size * context / d.peak / 0.6
    return launch + (1 + occupancy / np.maximum(units, 0.05)).to_numpy() * smooth(work.to_numpy(), moved.to_numpy())


def fit(model, start: list[float], data: pd.DataFrame) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Parameters (logarithms) that fit all systems, each with the same weight."""
    weight = 1.0 / np.sqrt(data.groupby("system")["latency"].transform("size").to_numpy())
    seconds = np.log(data["latency"].to_numpy() / 1e3)
    return np.asarray(
        least_squares(
            lambda p: weight * (seconds - np.log(model(p, data))), np.log(start), loss="soft_l1", f_scale=0.01
        ).x
    )


def study(title: str, model, start: list[float], data: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    """Fit, and fit again without each system."""
    everything = np.exp(fit(model, start, data))
    errors = []
    for system in data["system"].unique():
        rest, left = data[data["system"] != system], data[data["system"] == system]
        if rest.empty:
            continue
        errors.append(np.log(left["latency"].to_numpy() / 1e3 / model(fit(model, start, rest), left)))
    error = np.concatenate(errors) if errors else np.zeros(1)
    middle, tail = np.median(np.abs(np.expm1(-error))), np.quantile(np.abs(error), 0.9)
    print(f"{title:22s} {len(data):6d} rows  parameters {np.array2string(everything, precision=4)}")
    print(f"{'':22s} left-out systems: median {middle:.3f} q90 {tail:.3f}")


def main(arguments: list[str]) -> None:
    """Print every fit."""
    root = Path(arguments[0])
    data = gather(root, "gemm")
    pairs = data["gemm_dtype"].map(FORMATS)
    data = data.assign(stored=[number_format(w).bytes for w, _ in pairs], compute=[c for _, c in pairs])
    data["peak"] = peaks(data, data["compute"])
    for compute, rows in data.groupby(data["gemm_dtype"].map(lambda d: "/".join(FORMATS[d]))):
        study(f"gemm {compute}", gemm_model, [4e-6, 0.7, 0.7, 300], rows)
    for name, title, model, start in (
        ("context_attention", "attention prefill", prefill_model, [6e-6, 0.6, 1000]),
        ("generation_attention", "attention decode", decode_model, [8e-6, 0.8, 0.5]),
    ):
        data = gather(root, name)
        data = data[(data.get("window_size", 0) == 0) | data.get("window_size", pd.Series(0, data.index)).isna()]
        data["kv"] = data["num_key_value_heads"].where(data["num_key_value_heads"] > 0, data["num_heads"])
        data["stored"] = data["kv_cache_dtype"].map({"bfloat16": 2.0, "fp8": 1.0})
        data["peak"] = peaks(data, data["attn_dtype"].map(lambda d: FORMATS[d][1]))
        study(title, model, start, data)


if __name__ == "__main__":
    main(sys.argv[1:])
