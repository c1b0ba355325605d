"""Fit the shared numbers of training on published runs; `tonnage accuracy` scores them.

    python tools/calibration/training.py              the fit of step times, printed
    python tools/calibration/training.py --write      the same, and write catalog/data/training/coefficients.toml

Residuals are log(predicted / measured), soft-L1, each block weighted by the square root of its rows; every
coefficient has a log-normal prior around its seed, so that what the data cannot tell stays at the seed.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from refit import Problem, residuals

from tonnage import catalog
from tonnage.domain.model import Model
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.errors import TonnageError
from tonnage.questions.train.setup import resolve_setup
from tonnage.simulation.training import step_time
from tonnage_accuracy.quantities import flop_of_sequence
from tonnage_accuracy.rows import Row, number, text, usable_rows
from tonnage_accuracy.train_cases import train_case

ROOT = Path(__file__).parents[2]
TABLES = ("training", "training_2")
"""Those that the fit reads."""
SEEDS = Path(__file__).parent / "training_seeds.toml"
FILE = ROOT / "src/tonnage/catalog/data/training/coefficients.toml"


class Sample(NamedTuple):
    """One measured row, resolved."""

    row: Row
    setup: TrainSetup
    measured: float
    """Step time. [s]"""
    group: str
    """Source whose rows weigh together."""


def measured_step_s(row: Row, setup: TrainSetup) -> float | None:
    """Step time of the setup by whatever the row states: tokens/s, samples/s, seconds, or FLOP/s by its definition."""
    ranks, batch = setup.layout.ranks, setup.global_batch
    tokens = number(row, "tokens_per_s_per_accel_eff")
    if tokens and setup.seq_len > 1:
        return batch * setup.seq_len / ranks / tokens
    samples = number(row, "samples_per_s_per_accel")
    if samples:
        return batch / ranks / samples
    seconds = number(row, "step_time_s_eff")
    if seconds:
        return seconds
    rate = number(row, "tflops_per_accel")
    if rate and setup.model.layers:
        return batch * flop_of_sequence(row) / ranks / (rate * 1e12)
    return None


def samples() -> list[Sample]:
    """Every row whose speed is usable and whose case can be set up."""
    found = []
    for row in usable_rows(ROOT, *TABLES):
        if "speed" not in text(row, "usable_for"):
            continue
        try:
            case = train_case(row)
            model = case.model if isinstance(case.model, Model) else catalog.model(case.model)
            setup = resolve_setup(case, model=model, accelerator=catalog.accelerator(case.accelerator)).setup
            measured = measured_step_s(row, setup)
        except TonnageError:
            continue
        if measured:
            found.append(Sample(row, setup, measured, group_of(row)))
    return found


def group_of(row: Row) -> str:
    kind = "" if text(row, "kind") == "llm" else " vision/nlp"
    return row.block + (kind if row.block in {"dle", "lambda"} and "Transformer-XL" not in text(row, "model") else "")


def errors(found: Sequence[Sample], coefficients: TrainCoefficients) -> np.ndarray:
    return np.array(
        [math.log(step_time(replace(s.setup, coefficients=coefficients)).value / s.measured) for s in found]
    )


PRIORS: dict[str, float] = {
    "gemm.*": 0.3, "gemm.Ampere": 0.3, "gemm.Hopper": 0.3, "gemm.Blackwell": 0.3, "gemm.Volta": 0.3, "gemm.Ada": 0.3,
    "gemm.Turing": 0.3, "gemm.TPU": 1.0, "gemm.CDNA": 0.1, "narrow.Hopper": 0.3, "narrow.Blackwell": 0.3,
    "narrow.fp4": 0.3, "narrow_energy.Blackwell": 0.3, "narrow_energy.CDNA3": 0.3,
    "wide": 0.3, "single": 0.3, "unaligned": 0.5, "ragged": 1.0, "gemm_half": 0.5,
    "attention.*": 0.3, "attention.Ampere": 0.3, "attention.Hopper": 0.7, "attention.native": 0.3,
    "attention_half": 0.5, "memory.HBM": 0.1, "memory.GDDR": 0.1, "eager_stream": 0.3,
    "passes.megatron": 0.3, "passes.deepspeed": 0.4, "passes.fsdp": 0.3, "passes.eager": 0.3, "passes.compiled": 0.3,
    "passes.jax": 0.3,
    "layer_s.megatron": 0.5, "layer_s.fsdp": 0.5, "layer_s.eager": 0.5, "turn_s.megatron": 0.7, "turn_s.deepspeed": 0.7,
    "step_s.megatron": 0.7, "step_s.fsdp": 0.7, "step_s.eager": 0.7,
    "link": 0.2, "network": 0.2, "host_link": 0.4, "tensor_overlap": 0.5, "data_overlap": 0.3,
    "expert.*": 0.3, "expert.fused": 0.3, "expert_overlap": 0.4, "expert_layer_s.*": 1.0, "expert_layer_s.fused": 1.0,
    "straggler": 0.7, "convolution": 0.3,
    "network_passes": 0.5, "network_wide": 0.3, "channels_last": 0.3, "separable": 0.5, "dequantize": 0.5,
}  # fmt: skip
"""Fitted coefficients, by path in the struct, and the width of their prior around the seed, in logarithms or logits.
What no run can tell is not in the list and stays at its seed."""


def get(coefficients: TrainCoefficients, path: str) -> float:
    name, _, key = path.partition(".")
    value = getattr(coefficients, name)
    return value.get(key, value.get("*")) if key else value  # type: ignore[no-any-return]


def put(coefficients: TrainCoefficients, values: dict[str, float]) -> TrainCoefficients:
    changes: dict[str, Any] = {}
    for path, value in values.items():
        name, _, key = path.partition(".")
        if key:
            changes.setdefault(name, dict(getattr(coefficients, name)))[key] = value
        else:
            changes[name] = value
    return replace(coefficients, **changes)


_SHARES = {
    "attention", "convolution", "data_overlap", "expert", "expert_overlap", "gemm", "link", "memory", "narrow",
    "network", "ragged", "tensor_overlap", "unaligned",
}  # fmt: skip
"""Coefficients between 0 and 1, fitted on a logistic scale."""


def jacobian_of(residual: Callable[[np.ndarray], np.ndarray], x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Forward differences in every coefficient."""
    columns = []
    for i in range(len(x)):
        step = x.copy()
        step[i] += 1e-3
        columns.append((residual(step) - r) / 1e-3)
    return np.stack(columns, axis=1)


def least_squares(residual: Callable[[np.ndarray], np.ndarray], start: np.ndarray, rounds: int = 25) -> np.ndarray:
    """Levenberg-Marquardt on residuals that carry their soft-L1 weights."""
    x, damping = start.copy(), 1e-2
    r = residual(x)
    cost = float(r @ r)
    jacobian = jacobian_of(residual, x, r)
    for _ in range(rounds):
        gain = 0.0
        for _ in range(6):
            normal = jacobian.T @ jacobian
            move = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -jacobian.T @ r)
            trial = residual(x + move)
            if float(trial @ trial) < cost:
                gain = cost - float(trial @ trial)
                x, r, cost, damping = x + move, trial, float(trial @ trial), damping / 3
                break
            damping *= 4
        if gain < 1e-5 * cost:
            break
        jacobian = jacobian_of(residual, x, r)
    return x


def problem(found: Sequence[Sample], seeds: TrainCoefficients, start: TrainCoefficients) -> Problem:
    """The fit of step times: a term a row, each block weighing as the square root of its rows, from `start`."""
    sizes = Counter(sample.group for sample in found)
    return Problem(
        name="training",
        errors=lambda theta, places: errors([found[place] for place in places], coefficients(seeds, theta)),
        theta=np.array([_to(path, get(start, path)) for path in PRIORS]),
        weight=np.array([(1.0 / sizes[sample.group]) ** 0.25 for sample in found]),
        soft=np.full(len(found), 0.1),
        prior=np.array([_to(path, get(seeds, path)) for path in PRIORS]),
        spread=np.array(list(PRIORS.values())),
        low=np.full(len(PRIORS), -50.0),
        high=np.full(len(PRIORS), 50.0),
    )


def coefficients(others: TrainCoefficients, theta: Iterable[float]) -> TrainCoefficients:
    """Those at a place of the fit; what is not fitted as in `others`."""
    return put(others, {path: _from(path, value) for path, value in zip(PRIORS, theta, strict=True)})


def _to(path: str, value: float) -> float:
    if path.partition(".")[0] in _SHARES:
        value = min(max(value, 0.02), 0.98)
        return math.log(value / (1 - value))
    return math.log(max(value, 1e-9))


def _from(path: str, x: float) -> float:
    if path.partition(".")[0] in _SHARES:
        return 1 / (1 + math.exp(-x))
    return math.exp(x)


def write(coefficients: TrainCoefficients) -> None:
    lines = [
        "# Numbers of training that are fitted on published runs and shared by all models.",
        "# Written by tools/calibration/training.py; the meaning of each stands in domain/training.py.",
    ]
    for name, value in msgspec.structs.asdict(coefficients).items():
        if isinstance(value, dict):
            inner = ", ".join(f"{_key(k)} = {v:.4g}" for k, v in value.items())
            lines.append(f"{name} = {{ {inner} }}")
        elif isinstance(value, str):
            lines.append(f'{name} = "{_stated(name, value)}"')
        else:
            lines.append(f"{name} = {value:.4g}")
    FILE.write_text("\n".join(lines) + "\n")


def _stated(name: str, value: str) -> str:
    return (
        f"tools/calibration/training.py on measurements/training*.csv.gz ({date.today().isoformat()})"
        if name == "source"
        else (date.today().isoformat() if name == "fitted" else value)
    )


def _key(name: str) -> str:
    return name if name.isalnum() else f'"{name}"'


def main() -> None:
    """Fit, print every coefficient beside its seed, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    seeds = read_seeds()
    task = problem(samples(), seeds, seeds)
    fitted = coefficients(seeds, least_squares(lambda theta: residuals(task, theta), task.theta))
    for path in PRIORS:
        print(f"{path:20s} {get(seeds, path):10.4g} -> {get(fitted, path):10.4g}")
    if parser.parse_args().write:
        write(fitted)


def read_seeds() -> TrainCoefficients:
    """Where the fit begins and its priors are centred."""
    return msgspec.toml.decode(SEEDS.read_bytes(), type=TrainCoefficients)


if __name__ == "__main__":
    main()
