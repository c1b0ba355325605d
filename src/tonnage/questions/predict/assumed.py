"""
Which settings that a case leaves open would move its numbers? Each is predicted again under its other value.

A setting counts where it moves a number by more than a tenth (`MOVES`); the interval of that number then reaches to
what the other value gives. What the case states, or what its engine fixes, is no assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from tonnage.core.deployment import Deployment
from tonnage.domain.answer import Quantity
from tonnage.domain.case import Assumed, Case, Latency, ServeCase, TrainCase
from tonnage.domain.layout import Layout
from tonnage.domain.model import LatentAttention
from tonnage.domain.training import Recompute, TrainSetup

MOVES: Final = 0.1
SHORT_CHUNK: Final = 2048
LONG_CHUNK: Final = 8192
"""Token budgets of a step that published launches set: vLLM's and SGLang's defaults on small and large cards."""
SPREAD: Final = (0.8, 1.0)
"""Lengths as the public serving benchmarks draw them (random-range-ratio 0.8 of InferenceMAX)."""
NUMBERS: Final = ("ttft_s", "tpot_s", "output_tokens_per_s", "step_s", "memory_peak_bytes")
_Result = TypeVar("_Result", bound=Any)


class Other(NamedTuple):
    """A setting that was not stated: what was taken, and the same case under another value."""

    setting: str
    taken: str
    other: str
    case: Case


def serving_settings(case: ServeCase, at: Deployment) -> Iterator[Other]:
    """What a serving case leaves open of its engine, layout and lengths."""
    engine, spec, stated = at.engine, at.running.spec, at.case.engine_options

    def option(name: str, value: object) -> ServeCase:
        return replace(case, engine_options={**stated, name: value})

    if case.engine_version is None and len(spec.releases) > 1:
        newest = spec.releases[-1][0] if case.year is None else f"{case.year}-12"
        older = f"{int(newest[:4]) - 1}{newest[4:]}"
        yield Other("engine release", newest, older, replace(case, engine_version=older))
    if stated.get("async_scheduling") is None and engine.async_scheduling is not None:
        ahead = engine.async_scheduling
        yield Other("async_scheduling", _on(ahead), _on(not ahead), option("async_scheduling", not ahead))
    chunk = engine.max_num_batched_tokens
    if stated.get("max_num_batched_tokens") is None and chunk and engine.chunked_prefill:
        other = SHORT_CHUNK if chunk >= LONG_CHUNK else LONG_CHUNK
        changed = option("max_num_batched_tokens", other)
        yield Other("max_num_batched_tokens", f"{chunk:,}", f"{other:,}", changed)
    latent = any(isinstance(group.mixer, LatentAttention) for group in at.placement.model.groups)
    if latent and case.layout.tp > 1 and case.layout.dp == 1 and case.disaggregation is None:
        ranks = case.layout.tp
        layout = Layout(tp=1, dp=ranks, ep=ranks, pp=case.layout.pp)
        yield Other("attention data parallelism", "off", "on", replace(case, layout=layout))
    if case.length_spread is None and case.traffic.concurrency:
        yield Other("length spread", "equal", "drawn from 80 to 100 %", replace(case, length_spread=SPREAD))


def training_settings(case: TrainCase, setup: TrainSetup) -> Iterator[Other]:
    """What a case of training layers of a language model leaves open of its framework."""
    if not setup.model.layers:
        return
    if case.recompute is None:
        other: Recompute = "none" if setup.recompute == "full" else "full"
        yield Other("recompute", setup.recompute, other, replace(case, recompute=other))
    if case.framework is None and case.method == "qlora" and case.residual_precision is None:
        formats = ("fp32", "bf16") if setup.residual_is_wide else ("bf16", "fp32")
        yield Other("residual_precision", *formats, replace(case, residual_precision=formats[1]))
    if case.framework is None and case.method != "pretrain" and case.loss is None and setup.loss == "whole":
        yield Other("loss", "whole", "fused", replace(case, loss="fused"))
    if case.flash_attention is None and not setup.flash_attention:
        yield Other("flash_attention", "off", "on", replace(case, flash_attention=True))


def with_assumed(result: _Result, others: Iterator[Other], *, again: Callable[[Any], Any]) -> _Result:
    """
    The result with each setting that moves its numbers named, and its intervals reaching to what they would be.

    Parameters
    ----------
    again : callable
        Case -> its result without this step. A case that fails, or does not fit, moves nothing.
    """
    found = []
    for other in others:
        changed = again(other.case)
        moved = {
            name: value
            for name in NUMBERS
            if (value := _value(changed, name)) and (now := _value(result, name)) and abs(value / now - 1.0) > MOVES
        }
        if changed.fits and moved:
            found.append(Assumed(setting=other.setting, taken=other.taken, other=other.other, numbers=moved))
            result = replace(result, **{name: _reaching(getattr(result, name), value) for name, value in moved.items()})
    return replace(result, assumed=tuple(found))


def _on(value: bool) -> str:
    return "on" if value else "off"


def _value(result: Any, name: str) -> float | None:
    found: Latency | Quantity | None = getattr(result, name, None)
    return None if found is None else found.mean if isinstance(found, Latency) else found.value


def _reaching(found: Latency | Quantity, value: float) -> Latency | Quantity:
    """The number with an interval that holds a value."""
    low, high = (value if end is None else end for end in (found.low, found.high))
    return replace(found, low=min(low, value), high=max(high, value))
