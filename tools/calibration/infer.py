"""Fits src/tonnage/catalog/data/engines/networks.toml on measured batches; `tonnage accuracy` scores it.

    python tools/calibration/infer.py             fits and prints the fitted numbers
    python tools/calibration/infer.py --write     and writes them into the file

Gauss-Newton with soft-L1 weights on log(predicted / measured), each accelerator x engine x block counted once whatever
its number of rows, and a pull to what is believed of each number before any row is read: passes over memory that can
be counted, shares that kernel tables show, times of a kind of engine. What the rows that are left do not decide stays
there, so that an engine or a style without rows is predicted as its kind. A parameter is shared by an engine's mode, a
style of network or a generation of accelerators; none belongs to a model or a card. Latencies of open-loop servers are
not fitted (they depend on how the submitter tuned the batch), nor are rates that only repeat the offered load.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from refit import Problem, loss

from tonnage.catalog.fitted import offline
from tonnage.domain.case import InferCase
from tonnage.domain.offline import Offline
from tonnage.errors import TonnageError
from tonnage.questions.predict.inference import Setup, load_times, setup_of
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.quantities import measured_numbers
from tonnage_accuracy.rows import Row, text, usable_rows

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "src" / "tonnage" / "catalog" / "data" / "engines" / "networks.toml"

FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "runtimes": {
        "pytorch/eager": ("passes", "touch"),
        "pytorch/1": ("host_s", "kernel_s", "touch", "scores", "products"),
        "pytorch/torchscript": ("host_s", "scores", "touch"),
        "pytorch/compile": ("passes", "touch"),
        "tensorflow/xla": ("host_s", "scores", "touch"),
        "tensorrt/": ("kernel_s", "touch", "passes", "call_s", "narrow"),
        "fastertransformer/": ("kernel_s", "touch", "scores", "narrow"),
        "stable-fast/": ("kernel_s", "passes", "touch"),
        "onnxruntime/": ("products",),
        "jax/": ("products",),
    },
    "silicon": {
        "volta": ("efficiency",),
        "turing": ("picojoule_per_flop",),
        "8.0": ("picojoule_per_flop",),
        "ampere": ("picojoule_per_flop", "efficiency"),
        "ada": ("picojoule_per_flop", "efficiency"),
        "hopper": ("picojoule_per_flop", "efficiency"),
        "at-memory": ("efficiency",),
        "cpu": ("efficiency",),
    },
    "styles": {
        "product": ("compute",),
        "attention": ("compute",),
        "convolution": ("compute",),
        "grouped": ("compute", "passes"),
        "separable": ("compute", "passes"),
        "mixed": ("compute", "passes"),
        "windowed": ("passes",),
    },
}
"""Fields that are fitted, by table and row; `SHARED` belong to none."""
NAMES: dict[str, Callable[[Any], str]] = {
    "runtimes": lambda row: f"{row.engine}/{row.mode}",
    "silicon": lambda row: row.architecture,
    "styles": lambda row: row.name,
}
SHARED = ("tile",)
BOUNDS = {"compute": (0.1, 0.95), "memory": (0.5, 0.95), "narrow": (0.2, 1.1),
          "products": (0.2, 1.1), "efficiency": (0.2, 1.15)}  # fmt: skip
BELIEVED: dict[tuple[str, str], float] = {
    ("passes", "pytorch/eager"): 5.0,
    ("passes", "pytorch/compile"): 3.2,
    ("passes", "stable-fast/"): 3.2,
    ("passes", "tensorrt/"): 1.75,
    ("touch", "pytorch/eager"): 1.75,
    ("touch", "pytorch/1"): 1.75,
    ("touch", "pytorch/torchscript"): 1.75,
    ("touch", "tensorrt/"): 0.1,
    ("scores", "pytorch/1"): 8.0,
    ("scores", "pytorch/torchscript"): 8.0,
    ("scores", "tensorflow/xla"): 6.0,
    ("scores", "fastertransformer/"): 4.0,
    ("host_s", "pytorch/1"): 7e-5,
    ("compute", "product"): 0.85,
    ("compute", "mixed"): 0.85,
    ("compute", "attention"): 0.35,
    ("compute", "separable"): 0.35,
    ("efficiency", "at-memory"): 0.5,
    ("efficiency", "cpu"): 0.5,
    ("efficiency", "hopper"): 0.85,
    ("picojoule_per_flop", "8.0"): 1.4,
    ("picojoule_per_flop", "ampere"): 1.7,
    ("picojoule_per_flop", "ada"): 1.05,
    ("picojoule_per_flop", "hopper"): 1.05,
}
"""
Medians of what is believed, by field and row, where they differ from those of the field in `USUAL`.

Passes of convolutions: nothing fused 6.7 (counted in ResNet-50), norm and activation in one pass 4.3, all of it inside
the product 2.3; a quarter of that stays in the cache. Element-wise traffic of transformers over the fused passes of a
work list: 1.75 one by one (counted in BERT-base and ViT), a rest inside products. Scores: written, scaled, masked,
normalised and read, each apart 8, in one XLA loop 6, in one kernel between two products 4. Host: an operator of a
Python module. Shares of the peak: matrix products 0.85, ConvNeXt's among them; large products on H100 and H200 0.72 to
0.81 where A100 has 0.82 to 0.94 (kernel tables of data/efficiency). Energy: V100's 2.3 pJ, less by node.
"""
USUAL: dict[str, tuple[float, float]] = {
    "passes": (1.0, 0.25),
    "touch": (1.0, 0.4),
    "scores": (6.0, 0.4),
    "host_s": (3e-5, 0.4),
    "kernel_s": (8e-6, 0.5),
    "call_s": (1e-5, 0.7),
    "products": (1.0, 0.5),
    "narrow": (1.0, 0.2),
    "compute": (0.7, 0.25),
    "efficiency": (1.0, 0.25),
    "picojoule_per_flop": (2.3, 0.3),
    "tile": (4096.0, 0.7),
}
"""
Median and spread (of the logarithm) of what is believed of each field: judgment, but for what is counted above.

A style as an ordinary convolutional network, an engine as a graph that native code issues, a generation as its listed
peak, 8 bits as 16, a tile of 64 x 64 outputs; 110 TFLOP/s of a V100 at 255 W.
"""
SOFT = 0.15
"""Log error from which a row counts less."""

Key = tuple[str, str, str]


class Item(msgspec.Struct, frozen=True):
    """One measured number and the case it belongs to."""

    row: Row
    case: InferCase
    setup: Setup
    quantity: str
    value: float

    @property
    def group(self) -> Key:
        """What counts once in the fit."""
        return (self.row.block, self.case.accelerator, f"{self.case.engine}/{text(self.row, 'engine_mode')}")


def items() -> list[Item]:
    """Every measured number that a fit may use."""
    found: list[Item] = []
    for row in usable_rows(ROOT, "inference"):
        case = case_of(row) if kind_of(row) == "infer" else None
        if not isinstance(case, InferCase) or case.rate_per_s is not None:
            continue
        try:
            setup = setup_of(case)
            wanted = [number for number in measured_numbers(row) if number.quantity != "memory_gb"]
        except TonnageError as error:
            print(f"skipped {row.id}: {error}", file=sys.stderr)
            continue
        if not case.saturated:
            wanted = [number for number in wanted if number.quantity != "samples_per_s"] or wanted
        found += [Item(row, case, setup, number.quantity, number.value) for number in wanted[:1]]
    return found


def seconds(item: Item, facts: Offline) -> float:
    """What the model predicts for the measured quantity, in its unit."""
    times, latency, rate = load_times(setup_of(item.case, facts=facts))
    if item.quantity == "e2e_ms":
        return latency * 1e3
    if item.quantity == "tpot_ms":
        return (times.step_s or latency) * 1e3
    return rate * times.stages.per_sample


def parameters(facts: Offline) -> list[Key]:
    """(table, row, field) of everything that is fitted."""
    found: list[Key] = []
    for table, rows in FIELDS.items():
        known = {NAMES[table](row) for row in getattr(facts, table)}
        found += [(table, row, field) for row, fields in rows.items() if row in known for field in fields]
    return [*found, *(("", "", field) for field in SHARED)]


def believed(key: Key) -> float:
    """Of a number before any row is read, as a logarithm."""
    _, row, field = key
    return float(np.log(BELIEVED.get((field, row), USUAL[field][0])))


def read(facts: Offline, key: Key) -> float:
    """One fitted number."""
    table, name, field = key
    if not table:
        return float(getattr(facts, field))
    return float(next(getattr(row, field) for row in getattr(facts, table) if NAMES[table](row) == name))


def changed(facts: Offline, values: Iterable[tuple[Key, float]]) -> Offline:
    """The facts with other numbers."""
    by_row: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for (table, name, field), value in values:
        by_row[table, name][field] = value
    updates: dict[str, Any] = dict(by_row.pop(("", ""), {}))
    for table, name_of in NAMES.items():
        rows = getattr(facts, table)
        updates[table] = tuple(msgspec.structs.replace(row, **by_row.get((table, name_of(row)), {})) for row in rows)
    return msgspec.structs.replace(facts, **updates)


def touched(item: Item, key: Key) -> bool:
    """Whether a parameter can move an item."""
    table, name, _ = key
    if table == "runtimes":
        return NAMES[table](item.setup.runtime) == name
    if table == "silicon":
        return NAMES[table](item.setup.machine.silicon) == name
    if table == "styles" and name in {"grouped", "separable", "mixed", "windowed"}:
        return not item.setup.model.layers
    return True


def errors(chosen: Sequence[Item], facts: Offline) -> np.ndarray:
    """log(predicted / measured) of each item."""
    return np.array([np.log(seconds(item, facts) / item.value) for item in chosen])


def fitted_keys(facts: Offline) -> list[Key]:
    """What a fit from these facts moves: a number that is 0 has no logarithm and stays."""
    return [key for key in parameters(facts) if read(facts, key) > 0]


def problem(chosen: Sequence[Item], start: Offline) -> Problem:
    """The fit of log parameters, a term an item: those of a group weigh as the square root of their number."""
    keys, size = fitted_keys(start), Counter(item.group for item in chosen)

    def at(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
        facts = changed(start, zip(keys, np.exp(theta), strict=True))
        return errors([chosen[place] for place in places], facts)

    low, high = np.log([BOUNDS.get(field, (1e-12, 1e12)) for _, _, field in keys]).T
    return Problem(
        name="networks",
        errors=at,
        theta=np.log([read(start, key) for key in keys]),
        weight=np.array([SOFT * size[item.group] ** -0.25 for item in chosen]),
        soft=np.full(len(chosen), SOFT),
        prior=np.array([believed(key) for key in keys]),
        spread=np.array([USUAL[field][1] / SOFT for _, _, field in keys]),
        low=low,
        high=high,
    )


def fit(chosen: Sequence[Item], start: Offline, rounds: int = 30) -> Offline:
    """Levenberg-Marquardt on log parameters, rows weighted again in each round (soft-L1)."""
    keys, task, every = fitted_keys(start), problem(chosen, start), np.arange(len(chosen))
    theta, damping = task.theta, 0.1
    error = task.errors(theta, every)
    for _ in range(rounds):
        facts = changed(start, zip(keys, np.exp(theta), strict=True))
        scale = task.weight / SOFT / (1.0 + (error / SOFT) ** 2) ** 0.25
        left, right = _slopes(chosen, facts, keys, error) * scale[:, None], error * scale
        pull = 1.0 / task.spread**2
        normal, gradient = left.T @ left, left.T @ right + pull * (theta - task.prior)
        before = loss(task, every, error, theta)
        while damping < 1e4:
            ridge = np.diag(pull + damping * (np.diag(normal) + 1e-3))
            trial = np.clip(theta - np.linalg.solve(normal + ridge, gradient), task.low, task.high)
            error_then = task.errors(trial, every)
            after = loss(task, every, error_then, trial)
            if after < before:
                break
            damping *= 4.0
        else:
            break
        theta, error, damping = trial, error_then, damping / 4.0
        if before - after < 1e-4 * before:
            break
    return changed(start, zip(keys, np.exp(theta), strict=True))


def _slopes(chosen: Sequence[Item], facts: Offline, keys: Sequence[Key], error: np.ndarray) -> np.ndarray:
    """d error / d log parameter, recomputed only where a parameter can act."""
    step = 0.02
    slope = np.zeros((len(chosen), len(keys)))
    for column, key in enumerate(keys):
        moved = changed(facts, [(key, read(facts, key) * float(np.exp(step)))])
        mine = [index for index, item in enumerate(chosen) if touched(item, key)]
        slope[mine, column] = (errors([chosen[index] for index in mine], moved) - error[mine]) / step
    return slope


def unseen(facts: Offline, inside: Sequence[Item]) -> Offline:
    """The facts without what only the missing rows taught: a number that nothing left can move is neutral again."""
    lost = [key for key in parameters(facts) if not any(touched(item, key) for item in inside)]
    return changed(facts, [(key, float(np.exp(believed(key)))) for key in lost])


def write(facts: Offline) -> None:
    """Puts the fitted numbers into the file, in place; a field that a row lacks goes below its name."""
    blocks = TARGET.read_text(encoding="utf-8").split("\n\n")
    fitted = {key: read(facts, key) for key in parameters(facts)}
    for index, block in enumerate(blocks):
        lines = block.splitlines()
        table = lines[0].strip("[]") if lines[0].startswith("[[") else ""
        row = _row_name(lines[1:3], table) if table else ""
        for (key_table, key_row, field), value in fitted.items():
            if (key_table, key_row) != (table, row):
                continue
            line = f"{field} = {value:.4g}"
            at = next((n for n, old in enumerate(lines) if re.match(rf"{field} = ", old)), None)
            if at is None and table:
                lines.insert(3 if table == "runtimes" and lines[2].startswith("mode") else 2, line)
            elif at is not None:
                lines[at] = line
        blocks[index] = "\n".join(lines)
    TARGET.write_text("\n\n".join(blocks).rstrip("\n") + "\n", encoding="utf-8")


def _row_name(lines: Sequence[str], table: str) -> str:
    named = {key: value.strip('"') for key, _, value in (line.partition(" = ") for line in lines)}
    if table == "runtimes":
        return f"{named['engine']}/{named.get('mode', '')}"
    return named.get("architecture") or named.get("name", "")


def main(arguments: Sequence[str]) -> None:
    """Fit, print every number before and after, and write them if asked."""
    facts = fit(items(), offline())
    for key in parameters(facts):
        print(f"{'.'.join(part for part in key if part):44s} {read(offline(), key):10.4g} -> {read(facts, key):10.4g}")
    if "--write" in arguments:
        write(facts)


if __name__ == "__main__":
    main(sys.argv[1:])
