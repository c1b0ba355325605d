"""
What would much simpler predictions score on the same rows? A number means little without a rival.

Two rivals for speed, none of which knows an engine, a kernel or a link:

- *raw roofline*: weights over bandwidth or FLOP over peak, whichever is longer, at 100 % utilisation of every
  accelerator, and for training 6 FLOP a parameter and token;
- *roofline at constant utilisation*: the same times one factor per kind and quantity, chosen on these very rows so
  that half of them lie on either side: the best that a constant utilisation can do for a typical row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from operator import attrgetter

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity
from tonnage.domain.case import (
    Case,
    InferCase,
    InferResult,
    Latency,
    Result,
    ServeCase,
    ServeResult,
    TrainCase,
    TrainResult,
)
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mlp, Model, Moe
from tonnage.domain.precision import Precision, number_format
from tonnage.errors import Unmeasured
from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.metrics import log_ratio, quantile
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import Score, score

SPEED = {
    "ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_s", "total_tokens_per_s", "samples_per_s", "step_time_s",
    "tokens_per_s_per_accel", "samples_per_s_per_accel",
}  # fmt: skip
"""Quantities the rivals predict."""

_BASIS = "assumed"


def baseline_scores(rows: Iterable[Row], ours: Iterable[Score]) -> list[tuple[str, list[Score]]]:
    """Both rivals over the rows and quantities that we predict too, so that medians compare."""
    predicted = {(item.id, item.quantity) for item in ours if item.predicted is not None}
    raw = [item for item in score(rows, predict=raw_roofline) if (item.id, item.quantity) in predicted]
    raw = [item for item in raw if item.quantity in SPEED and item.predicted is not None]
    return [("raw roofline", raw), ("roofline at constant utilisation", constant_utilisation(raw))]


def constant_utilisation(scores: Iterable[Score]) -> list[Score]:
    """The same scores with one factor per kind and quantity, the median of measured over predicted."""
    found: list[Score] = []
    for own in group_by(scores, lambda item: (item.kind, item.quantity)).values():
        pairs = [(item.predicted, item.measured) for item in own if item.predicted and item.measured]
        ratios = [log_ratio(predicted=p, measured=m) for p, m in pairs]
        known = [ratio for ratio in ratios if ratio is not None]
        factor = math.exp(-(quantile(known, 0.5) or 0.0))
        found += [replace(item, predicted=item.predicted * factor) for item in own if item.predicted is not None]
    return found


def raw_roofline(case: Case) -> Result:
    """
    A prediction from peaks alone.

    Raises
    ------
    Unmeasured
        The parameters, FLOP or peak that it needs are not known.
    """
    card = catalog.accelerator(case.accelerator)
    if isinstance(case, TrainCase):
        return _train(case, card)
    return _infer(case, card) if isinstance(case, InferCase) else _serve(case, card)


def _serve(case: ServeCase, card: Accelerator) -> ServeResult:
    model = resolve(case.model)
    precision = case.precision or Precision()
    total, active = _parameters(model)
    weights = number_format(precision.stored).bytes
    share = case.layout.ranks * case.accelerator_fraction
    flop_per_s = share * _peak(card, precision.activations)
    bytes_per_s = share * card.memory_bytes_per_s
    replicas, traffic = max(case.replicas, 1), case.traffic

    def step_s(batch: float) -> float:
        read = min(total, active * batch) * weights
        return max(read / bytes_per_s, 2 * active * batch / flop_per_s)

    rate = flop_per_s / (2 * active * max(case.isl + case.osl, 1))
    batch = traffic.batch or traffic.concurrency or 256
    each = max(batch / replicas, 1.0)
    ttft = max(2 * active * max(case.isl, 1) * (each if traffic.static else 1) / flop_per_s, step_s(1))
    tpot = step_s(each)
    e2e = ttft + max(case.osl - 1, 0) * tpot
    requests = traffic.rate_per_s or (rate * replicas if traffic.saturated else each * replicas / e2e)
    if case.phase == "decode":
        requests = each * replicas / max(case.osl * tpot, 1e-12)
    return ServeResult(
        fits=True,
        basis=_BASIS,
        ttft_s=Latency(mean=ttft, p50=ttft),
        tpot_s=Latency(mean=tpot, p50=tpot),
        e2e_s=Latency(mean=e2e, p50=e2e),
        output_tokens_per_s=_quantity(requests * case.osl, "tokens/s"),
        total_tokens_per_s=_quantity(requests * (case.isl + case.osl), "tokens/s"),
        requests_per_s=_quantity(requests, "1/s"),
    )


def _train(case: TrainCase, card: Accelerator) -> TrainResult:
    model = resolve(case.model)
    peak = _peak(card, case.precision) * case.accelerator_fraction
    if model.network is not None:
        samples = peak / (3 * _network_flop(model.network.flop, model.network.input_px, case.image_px))
        step = (case.global_batch or 0) / case.count / samples
        return TrainResult(
            fits=True,
            basis=_BASIS,
            step_s=_quantity(step, "s") if step else None,
            samples_per_s_per_accelerator=_quantity(samples, "1/s"),
        )
    tokens = peak / ((4 if case.method in {"lora", "qlora"} else 6) * _parameters(model)[1])
    length = case.seq_len or 1
    step = (case.global_batch or 0) * length / case.count / tokens
    return TrainResult(
        fits=True,
        basis=_BASIS,
        step_s=_quantity(step, "s") if step else None,
        tokens_per_s_per_accelerator=_quantity(tokens, "tokens/s"),
        samples_per_s_per_accelerator=_quantity(tokens / length, "1/s"),
    )


def _infer(case: InferCase, card: Accelerator) -> InferResult:
    model = resolve(case.model)
    peak = _peak(card, case.precision) * case.accelerator_fraction
    if case.flop is not None:
        flop = case.flop
    elif model.network is not None:
        flop = _network_flop(model.network.flop, model.network.input_px, case.resolution)
    elif case.seq_len:
        flop = 2 * _parameters(model)[1] * case.seq_len
    else:
        raise Unmeasured(f"FLOP of one sample of {model.id} are not known")
    steps = case.steps or 1
    latency = case.batch * flop * steps / peak
    return InferResult(
        fits=True,
        basis=_BASIS,
        samples_per_s=_quantity(case.count * peak / (flop * steps), "1/s"),
        latency_s=_quantity(latency, "s"),
        step_s=_quantity(case.batch * flop / peak, "s"),
    )


def _quantity(value: float, unit: str) -> Quantity:
    return Quantity(value=value, unit=unit)


def _network_flop(flop: float, listed_px: int | None, px: int | None) -> float:
    return flop * (px / listed_px) ** 2 if px and listed_px else flop


def _peak(card: Accelerator, precision: str) -> float:
    dtype = number_format(precision).compute
    for name in (dtype, "fp16", "bf16", "fp32"):
        peak = card.peak(name)
        if peak:
            return peak
    raise Unmeasured(f"no peak of {card.id} is known")


def _parameters(model: Model) -> tuple[float, float]:
    """All parameters and those active for a token, as published, else counted from the large matrices."""
    if model.published_parameters:
        return model.published_parameters, model.published_active_parameters or model.published_parameters
    groups = [*model.layers, *model.encoder]
    embedding = model.vocab_size * model.hidden_size
    total, active = (
        embedding + sum(group.count * _layer(group, model.hidden_size, attrgetter(experts)) for group in groups)
        for experts in ("num_experts", "num_experts_per_tok")
    )
    if total <= 0:
        raise Unmeasured(f"the parameters of {model.id} are not known")
    return total, active


def _layer(group: LayerGroup, width: int, experts: Callable[[Moe], int]) -> float:
    width = group.hidden_size or width
    mixer, wide, count = group.mixer, group.feed_forward, 0.0
    if isinstance(mixer, Attention):
        count += 2 * width * mixer.head_dim * (mixer.num_attention_heads + mixer.num_key_value_heads)
    elif isinstance(mixer, LatentAttention):
        heads = mixer.num_attention_heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        count += 2 * width * mixer.num_attention_heads * mixer.v_head_dim + mixer.kv_lora_rank * (width + heads)
    if isinstance(wide, Mlp):
        count += (3 if wide.gated else 2) * width * wide.intermediate_size
    elif isinstance(wide, Moe):
        matrices = 3 if wide.gated else 2
        count += matrices * width * (experts(wide) * wide.moe_intermediate_size + wide.shared_intermediate_size)
    return count
