"""
Which numbers of a row are scored, and which number of a result answers each?

A mean is scored against the mean and a median against the median. Where a source gives both, the mean is the one
scored, unless its collector suspects that first requests warmed the engine up. Rates are those of the whole system
behind the printed figure: a prediction covers every replica. Device memory counts only where it was really needed (a
pre-allocated pool says nothing; what PyTorch's tensors occupy is compared with weights and cache), and training speed
and memory only where the row is marked as usable for them; a row that prints FLOP/s and nothing else is scored on
those, counted as its source counts them. Energy is that of the accelerators, over the tokens answered: what is drawn of
their limit (the planner's share for serving), over the predicted rate. Diffusion prints one denoising iteration in the
column of the time per token.

A source counts six FLOP per weight and token (eight where it counts the recomputed forward pass as well), and the whole
or the causal half of attention; a row says which in `tflops_definition` and `attn_flops`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.answer import Quantity
from tonnage.domain.case import Case, Latency, Result, ServeCase, ServeResult, TrainResult
from tonnage.domain.model import Attention, Model
from tonnage.errors import BadFact, TonnageError
from tonnage.physics.parameters import layer_parameters
from tonnage.record import Record
from tonnage.units import GiB
from tonnage_accuracy.rows import Row, count, number, text
from tonnage_accuracy.train_cases import model_of

UNITS: Final = {
    "ttft_ms": "ms", "tpot_ms": "ms", "e2e_ms": "ms", "output_tokens_per_s": "tokens/s",
    "total_tokens_per_s": "tokens/s", "samples_per_s": "1/s", "kv_tokens": "tokens", "memory_gb": "GB",
    "energy_per_token_j": "J", "step_time_s": "s", "tokens_per_s_per_accel": "tokens/s", "samples_per_s_per_accel":
    "1/s", "tflops_per_accel": "TFLOP/s", "peak_mem_gb": "GB", "fits": "1 or 0",
}  # fmt: skip
"""Every scored quantity and its unit, in the order of the tables."""
NAMES: Final = tuple(UNITS)
SPEEDS: Final = ("step_time_s", "tokens_per_s_per_accel", "samples_per_s_per_accel", "tflops_per_accel")
"""Speeds of training: a row that prints several says the same with each."""

ATTRIBUTES: Final[dict[tuple[str, str], str]] = {
    ("serve", "ttft_ms"): "ttft_s",
    ("serve", "tpot_ms"): "tpot_s",
    ("serve", "e2e_ms"): "e2e_s",
    ("serve", "output_tokens_per_s"): "output_tokens_per_s",
    ("serve", "total_tokens_per_s"): "total_tokens_per_s",
    ("serve", "samples_per_s"): "requests_per_s",
    ("serve", "kv_tokens"): "kv_cache_tokens",
    ("serve", "memory_gb"): "memory",
    ("train", "step_time_s"): "step_s",
    ("train", "tokens_per_s_per_accel"): "tokens_per_s_per_accelerator",
    ("train", "samples_per_s_per_accel"): "samples_per_s_per_accelerator",
    ("train", "tflops_per_accel"): "samples_per_s_per_accelerator",
    ("train", "peak_mem_gb"): "memory_peak_bytes",
    ("infer", "e2e_ms"): "latency_s",
    ("infer", "tpot_ms"): "step_s",
    ("infer", "samples_per_s"): "samples_per_s",
    ("infer", "memory_gb"): "memory",
}
"""Kind of case and scored quantity -> the attribute of the result that answers it."""
QUANTITY_OF: Final = ATTRIBUTES | {("train", speed): "step_s" for speed in SPEEDS}
"""The same by the name of its error: rates of training are one over its step and share that of the step."""
_SCALE: Final = {"e2e_ms": 1e3, "tpot_ms": 1e3, "memory_gb": 1e-9, "peak_mem_gb": 1e-9}
"""From the unit of a result's quantity to that of the scored one, where they differ."""

Statistic = Literal["mean", "p50"]


class Measured(Record, kw_only=True):
    """One measured number of a row."""

    quantity: str
    value: float | None
    statistic: Statistic = "mean"
    problem: str = ""
    """Why the cell cannot be read; then there is no value."""
    flop: float = 0.0
    """What its source counts for one sequence, where FLOP/s are scored. [FLOP]"""
    tensors: bool = False
    """Memory of weights and cache alone, without what the process and its kernels need beside."""


class Predicted(Record, kw_only=True):
    """What a result says about one measured number."""

    value: float
    low: float | None = None
    high: float | None = None


def measured_numbers(row: Row) -> list[Measured]:
    """Every number of the row that is scored; one whose cell cannot be read says so and has no value."""
    if row.layout == "training":
        return _of_training(row)
    if row.layout == "serving":
        return _present(row, (("ttft_ms", "silicon_ttft_ms"), ("tpot_ms", "silicon_tpot_ms")))
    found = _present(
        row,
        (
            ("e2e_ms", "e2e_ms"),
            ("output_tokens_per_s", "output_tokens_per_s_total"),
            ("total_tokens_per_s", "total_tokens_per_s"),
            ("samples_per_s", "samples_per_s"),
            ("kv_tokens", "kv_tokens"),
            ("energy_per_token_j", "energy_per_token_joules"),
        ),
    )
    for name in ("ttft", "tpot"):
        found += _first_statistic(row, name)
    if text(row, "memory_kind") in {"need", "tensors"}:
        found += [_of_kind(cell, text(row, "memory_kind")) for cell in _present(row, (("memory_gb", "memory_gb"),))]
    return sorted(found, key=lambda item: NAMES.index(item.quantity))


def _of_kind(cell: Measured, kind: str) -> Measured:
    """What a framework says its tensors occupy is weights and cache, printed in GiB."""
    if kind != "tensors" or cell.value is None:
        return cell
    return replace(cell, value=cell.value * GiB / 1e9, tensors=True)


def predicted_number(result: Result, wanted: Measured, *, case: Case | None = None) -> Predicted | None:
    """The result's answer to one measured number, in its unit; none when the result has no such number."""
    if wanted.quantity == "fits":
        return Predicted(value=float(result.fits))
    if wanted.quantity == "energy_per_token_j":
        return _energy(case, result)
    if isinstance(result, ServeResult) and wanted.quantity == "memory_gb":
        return _served_memory(result.memory or {}, wanted)
    kind = "serve" if isinstance(result, ServeResult) else "train" if isinstance(result, TrainResult) else "infer"
    found: Latency | Quantity | float | None = getattr(result, ATTRIBUTES.get((kind, wanted.quantity), ""), None)
    if found is None or isinstance(found, Latency):
        return _latency(found, wanted.statistic)
    if isinstance(found, Quantity):
        return _scaled(found, wanted.flop * 1e-12 if wanted.flop else _SCALE.get(wanted.quantity, 1.0))
    return Predicted(value=found)


def _of_training(row: Row) -> list[Measured]:
    usable_for = text(row, "usable_for") or "speed+memory"
    found: list[Measured] = []
    if "speed" in usable_for:
        found += _present(
            row,
            (
                ("step_time_s", "step_time_s_eff"),
                ("tokens_per_s_per_accel", "tokens_per_s_per_accel_eff"),
                ("samples_per_s_per_accel", "samples_per_s_per_accel"),
            ),
        ) or _flop_rate(row)
    if "memory" in usable_for:
        found += _present(row, (("peak_mem_gb", "peak_mem_gb"),))
    outcome = text(row, "outcome")
    if outcome:
        found.append(Measured(quantity="fits", value=float(outcome != "oom")))
    return found


def _flop_rate(row: Row) -> list[Measured]:
    """FLOP/s of a language model, of a source that prints no other speed."""
    cell = _cell(row, "tflops_per_accel", "tflops_per_accel", "mean") if text(row, "kind") in {"llm", "moe"} else None
    if cell is None or cell.problem:
        return [cell] if cell else []
    try:
        return [replace(cell, flop=flop_of_sequence(row))]
    except TonnageError as error:
        return [replace(cell, value=None, problem=str(error))]


def _present(row: Row, columns: tuple[tuple[str, str], ...]) -> list[Measured]:
    found = [_cell(row, column, quantity, "mean") for quantity, column in columns]
    return [item for item in found if item is not None]


def _first_statistic(row: Row, name: str) -> list[Measured]:
    """
    The mean where it is printed, else the median; of first tokens in a closed loop the median before the mean.

    A run of ten requests a client holds the first ones, which wait for kernels to compile, and all prompts at once: on
    four clients of an idle server means are up to five times their medians.
    """
    statistics: tuple[Statistic, ...] = ("mean", "p50")
    if name == "ttft" and text(row, "load") == "closed_loop":
        statistics = ("p50", "mean")
    for statistic in statistics:
        found = _cell(row, f"{name}_{statistic}_ms", f"{name}_ms", statistic)
        if found is not None:
            return [found]
    return []


def _cell(row: Row, column: str, quantity: str, statistic: Statistic) -> Measured | None:
    """A measured number; none when not stated, and a printed zero is not a measurement."""
    try:
        value = number(row, column)
    except BadFact as error:
        return Measured(quantity=quantity, value=None, statistic=statistic, problem=str(error))
    return Measured(quantity=quantity, value=value, statistic=statistic) if value else None


def _served_memory(memory: Mapping[str, Any], wanted: Measured) -> Predicted | None:
    """Everything that is held, or what tensors hold alone."""
    if wanted.tensors and memory:
        held = [part for part in memory["parts"] if part["name"].startswith(("weights", "KV cache"))]
        return Predicted(value=sum(part["value"] for part in held) / 1e9)
    if "total_bytes" not in memory:
        return None
    low, high = (None if memory.get(end) is None else memory[end] / 1e9 for end in ("low", "high"))
    return Predicted(value=memory["total_bytes"] / 1e9, low=low, high=high)


def _energy(case: Case | None, result: Result) -> Predicted | None:
    """Joules that the accelerators alone draw for an answered token, as their own counters say; hosts are not in it."""
    if not isinstance(case, ServeCase) or not isinstance(result, ServeResult) or result.output_tokens_per_s is None:
        return None
    rate = result.output_tokens_per_s
    boards = case.replicas * case.layout.ranks * case.accelerator_fraction
    if case.disaggregation is not None:
        split = case.disaggregation
        boards = sum(split.ranks)
    drawn = result.board_w
    if drawn is None or drawn.low is None or drawn.high is None:
        return None
    value = boards * drawn.value / rate.value
    if rate.low is None or rate.high is None:
        return Predicted(value=value)
    down = math.hypot(math.log(rate.high / rate.value), math.log(drawn.value / drawn.low))
    up = math.hypot(math.log(rate.value / rate.low), math.log(drawn.high / drawn.value))
    return Predicted(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def _scaled(quantity: Quantity, factor: float) -> Predicted:
    low, high = (None if end is None else end * factor for end in (quantity.low, quantity.high))
    return Predicted(value=quantity.value * factor, low=low, high=high)


def _latency(latency: Latency | None, statistic: Statistic) -> Predicted | None:
    """Milliseconds; the interval of a median is as wide, in ratio, as that of the mean."""
    if latency is None:
        return None
    value = latency.mean if statistic == "mean" else latency.p50
    if value is None:
        return None
    ratio = value / latency.mean if latency.mean > 0 else 1.0
    low, high = (None if end is None else end * ratio * 1e3 for end in (latency.low, latency.high))
    return Predicted(value=value * 1e3, low=low, high=high)


def flop_of_sequence(row: Row) -> float:
    """
    FLOP of one sequence, forward and backward, as the row's source counts them.

    Raises
    ------
    BadFact
        The row gives no sequence length, or its model has no attention.
    """
    said = model_of(row)
    model = said if isinstance(said, Model) else catalog.model(said)
    tokens = count(row, "seq_len")
    mixer = model.layers[0].mixer if model.layers else None
    if tokens is None or not isinstance(mixer, Attention):
        raise BadFact("not stated: what its FLOP/s count")
    weights = sum(group.count * layer_parameters(group, model.hidden_size, active=True) for group in model.layers)
    width = mixer.num_attention_heads * mixer.head_dim
    attention = 2.0 * model.num_layers * width * tokens * (0.5 if text(row, "attn_flops") == "causal" else 1.0)
    repeated = text(row, "tflops_definition") == "hardware" and text(row, "act_ckpt") == "full"
    passes = 8.0 if repeated else 6.0
    return tokens * (passes * (weights + attention) + 6.0 * model.hidden_size * model.vocab_size)
