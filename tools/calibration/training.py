"""Fit the shared numbers of training on published runs, and say how well whole sources are predicted without them.

    python tools/calibration/training.py report            errors of the file as it is, by block
    python tools/calibration/training.py fit               in-sample and leave-one-block-out fit of step times, printed
    python tools/calibration/training.py fit --write       the same, and write catalog/data/training/coefficients.toml
    python tools/calibration/training.py memory            peaks and fits by block

Residuals are log(predicted / measured), soft-L1, each block weighted by the square root of its rows; every
coefficient has a log-normal prior around its seed, so that what the data cannot tell stays at the seed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.case import TrainCase
from tonnage.domain.model import Model
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.errors import TonnageError
from tonnage.physics.training_memory import training_memory
from tonnage.questions.train.setup import Chosen, resolve_setup
from tonnage.simulation.training import step_time
from tonnage_accuracy.quantities import flop_of_sequence
from tonnage_accuracy.rows import Row, number, read_rows, text
from tonnage_accuracy.train_cases import train_case

ROWS = tuple(Path(__file__).parents[2] / "measurements" / name for name in ("training.csv.gz", "training_2.csv.gz"))
"""Tables that the fit reads."""
SEEDS = Path(__file__).parent / "training_seeds.toml"
FILE = Path(__file__).parents[2] / "src/tonnage/catalog/data/training/coefficients.toml"


class Sample(NamedTuple):
    """One measured row, resolved."""

    row: Row
    case: TrainCase
    setup: TrainSetup
    measured: float
    """Step time. [s]"""
    group: str
    """Source group the error is reported under."""


def resolve(row: Row) -> tuple[TrainCase, Chosen]:
    case = train_case(row)
    model = case.model if isinstance(case.model, Model) else catalog.model(case.model)
    accelerator = catalog.accelerator(case.accelerator)
    return case, resolve_setup(case, model=model, accelerator=accelerator)


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


def samples(rows: Iterable[Row], problems: list[str] | None = None) -> list[Sample]:
    found = []
    for row in rows:
        if not row.usable or "speed" not in text(row, "usable_for"):
            continue
        try:
            case, chosen = resolve(row)
            measured = measured_step_s(row, chosen.setup)
        except TonnageError as error:
            if problems is not None:
                problems.append(f"{row.id}: {error}")
            continue
        if measured:
            found.append(Sample(row, case, chosen.setup, measured, group_of(row)))
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


def least_squares(
    residual: Callable[[np.ndarray], np.ndarray], start: np.ndarray, rounds: int = 25
) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg-Marquardt on residuals that carry their soft-L1 weights; the solution and its Jacobian."""
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
    return x, jacobian


def soft_l1(errors_: np.ndarray, scale: float = 0.1) -> np.ndarray:
    z = (errors_ / scale) ** 2
    return np.sign(errors_) * np.sqrt(2 * (np.sqrt(1 + z) - 1))


class Problem(NamedTuple):
    """What is minimised: residuals of the samples, then those of the priors."""

    found: Sequence[Sample]
    seeds: TrainCoefficients
    weight: np.ndarray

    def coefficients(self, x: np.ndarray) -> TrainCoefficients:
        return put(self.seeds, {p: _from(p, v) for p, v in zip(PRIORS, x, strict=True)})

    def center(self) -> np.ndarray:
        return np.array([_to(p, get(self.seeds, p)) for p in PRIORS])

    def residual(self, x: np.ndarray) -> np.ndarray:
        data = self.weight * soft_l1(errors(self.found, self.coefficients(x)))
        return np.concatenate([data, (x - self.center()) / np.array(list(PRIORS.values()))])


def problem(found: Sequence[Sample], seeds: TrainCoefficients) -> Problem:
    sizes: dict[str, int] = defaultdict(int)
    for sample in found:
        sizes[sample.group] += 1
    return Problem(found, seeds, np.array([(1.0 / sizes[s.group]) ** 0.25 for s in found]))


def leave_out(task: Problem, x: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Errors of every block predicted without it: Gauss-Newton from the full fit with the block's rows struck out."""
    outside = np.empty(len(task.found))
    blocks = np.array([s.row.block for s in task.found])
    for block in sorted(set(blocks)):
        kept = np.concatenate([blocks != block, np.ones(len(PRIORS), dtype=bool)])
        j = jacobian[kept]
        normal = j.T @ j
        here = x.copy()
        for _ in range(4):
            move = np.linalg.solve(normal, -j.T @ task.residual(here)[kept])
            here = here + np.clip(move, -0.5, 0.5)
        mine = np.flatnonzero(blocks == block)
        outside[mine] = errors([task.found[i] for i in mine], task.coefficients(here))
    return outside


def _to(path: str, value: float) -> float:
    if path.partition(".")[0] in _SHARES:
        value = min(max(value, 0.02), 0.98)
        return math.log(value / (1 - value))
    return math.log(max(value, 1e-9))


def _from(path: str, x: float) -> float:
    if path.partition(".")[0] in _SHARES:
        return 1 / (1 + math.exp(-x))
    return math.exp(x)


def table(found: Sequence[Sample], values: np.ndarray, other: np.ndarray | None = None) -> None:
    groups = defaultdict(list)
    for index, sample in enumerate(found):
        groups[sample.group].append(index)
    print(f"{'block':22s} rows  median   bias    p90" + ("   left out: median   bias" if other is not None else ""))
    for name, rows in sorted(groups.items()):
        line = _line(name, values[rows])
        if other is not None:
            line += f"   {100 * np.median(np.abs(other[rows])):15.1f} {100 * np.median(other[rows]):+7.1f}"
        print(line)
    language = [i for i, s in enumerate(found) if "vision" not in s.group and s.group not in {"sd-mosaic"}]
    print(_line("language models", values[language]))
    print(_line("all", values))
    if other is not None:
        print(_line("language, left out", other[language]))
        print(_line("all, left out", other))


def _line(name: str, values: np.ndarray) -> str:
    size = np.abs(values)
    figures = (100 * np.median(size), 100 * np.median(values), 100 * np.quantile(size, 0.9))
    return f"{name:22s} {len(values):4d} {figures[0]:7.1f} {figures[1]:+6.1f} {figures[2]:6.1f}"


def memory_report(rows: Iterable[Row], coefficients: TrainCoefficients) -> None:
    groups: dict[str, list[float]] = defaultdict(list)
    right = unsafe = total = 0
    for row in rows:
        peak, outcome = number(row, "peak_mem_gb"), text(row, "outcome")
        if not row.usable and outcome != "oom":
            continue
        try:
            case, chosen = resolve(row)
        except TonnageError:
            continue
        ran = outcome != "oom"
        total += 1
        right += chosen.fits == ran
        unsafe += chosen.fits and not ran
        if chosen.fits != ran and "-v" in sys.argv:
            print(f"  {row.id}: ran {ran}, predicted {chosen.memory.value / 1e9:.0f} GB, {chosen.setup.recompute}")
        if peak and row.usable:
            found = training_memory(replace(chosen.setup, coefficients=coefficients), memory_kind=case.memory_kind)
            groups[row.block].append(math.log(found.value / (peak * 1e9)))
    for name, values in groups.items():
        print(_line(name, np.array(values)))
    print(_line("all", np.array([v for values in groups.values() for v in values])))
    print(f"fits: {right} of {total} right ({100 * right / total:.1f} %), {unsafe} unsafe")


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["report", "fit", "memory"])
    parser.add_argument("--file", nargs="+", default=[str(path) for path in ROWS])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--leave-out", action="store_true")
    parser.add_argument("--show", default="")
    parser.add_argument("-v", action="store_true")
    said = parser.parse_args()
    coefficients = training_coefficients()
    rows = [row for path in said.file for row in read_rows(path)]
    if said.what == "memory":
        memory_report(rows, coefficients)
        return
    problems: list[str] = []
    found = samples(rows, problems)
    for sentence in problems[:20]:
        print(sentence)
    if said.what == "report":
        values = errors(found, coefficients)
        table(found, values)
        if said.show:
            show(found, coefficients, said.show)
        return
    seeds = msgspec.toml.decode(SEEDS.read_bytes(), type=TrainCoefficients)
    task = problem(found, seeds)
    x, jacobian = least_squares(task.residual, task.center())
    fitted = task.coefficients(x)
    inside = errors(found, fitted)
    outside = leave_out(task, x, jacobian) if said.leave_out else None
    table(found, inside, outside)
    if said.show:
        show(found, fitted, said.show)
    for path in PRIORS:
        print(f"{path:20s} {get(seeds, path):10.4g} -> {get(fitted, path):10.4g}")
    if said.write:
        write(fitted)


def show(found: Sequence[Sample], coefficients: TrainCoefficients, prefix: str) -> None:
    for s in found:
        if not s.row.id.startswith(prefix):
            continue
        step = step_time(replace(s.setup, coefficients=coefficients))
        layout = s.setup.layout
        parts = " ".join(f"{p.name[:7]} {100 * p.value / step.value:.0f}" for p in step.parts)
        print(
            f"{s.row.id} {s.setup.model.id[-22:]} {s.setup.accelerator.id[:9]} n{layout.ranks} {s.setup.precision} "
            f"tp{layout.tp} pp{layout.pp}/{layout.vpp} cp{layout.cp} ep{layout.ep} dp{layout.dp} {layout.sharding} "
            f"mb{s.setup.micro_batch}x{s.setup.num_micro_batches} s{s.setup.seq_len} {s.setup.recompute[:4]} "
            f"{s.measured:.3f}s {100 * (step.value / s.measured - 1):+.0f}% | {parts}"
        )


if __name__ == "__main__":
    main()
