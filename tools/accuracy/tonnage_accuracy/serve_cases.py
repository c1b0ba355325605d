"""
Which serving case does a measured language-model row describe?

Two layouts come here: inference points (seven kinds of load) and serving points (fixed concurrency). What a row
states is used as stated; what it leaves open is chosen by the rules below, never by who published it:

- a batch run on several accelerators without degrees is one replica of all of them; a whole system under a rate, or
  driven as hard as it goes, is as many replicas as fit, each on the fewest accelerators that hold the model;
- expert parallelism beside data parallelism, or the attention flag, means data-parallel attention inside one replica;
  any other data-parallel degree counts replicas;
- a KV format that is not stated is 16 bits, except in TensorRT-LLM with FP8 or FP4 weights, whose checkpoints carry
  an 8-bit one.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tonnage import catalog
from tonnage.domain.case import Links, ServeCase, Traffic
from tonnage.domain.layout import SERVING_ENGINE, Disaggregation, Layout
from tonnage.domain.model import Moe
from tonnage.domain.precision import Precision, number_format
from tonnage.errors import BadFact, TonnageError
from tonnage_accuracy.rows import Row, count, flag, number, text

_FABRICS: Final = {"nvlink", "pcie", "xgmi", "ici"}
_SIXTEEN_BITS: Final = {"fp16", "bf16", "fp32"}
_EIGHT_BIT_KV: Final = {"fp8", "fp8_block", "nvfp4", "mxfp8"}
_REQUESTS_PER_CLIENT: Final = 10
"""The public serving benchmark sends ten requests a client; it is known by the lengths it draws (0.8-1.0)."""
_REQUESTS_PER_CLIENT_OF_POOLS: Final = 5
"""Separate pools were driven by their makers' scripts: five in SGLang's (`sa-bench`, `num_prompts=concurrency * 5`)."""
_FREE_SHARE: Final = 0.2
"""Of memory kept for cache and activations when a replica's size has to be chosen. [-]"""
_NARROWEST: Final = 128
"""Slice of an expert: block formats scale 128 x 128 values together, and engines refuse less."""
_STATED_IN_NOTES: Final = {
    "max_model_len": r"max_model_len\s*=?\s*(\d+)",
    "max_num_batched_tokens": r"n_ubatch\s*=?\s*(\d+)",
    "max_num_seqs": r"max_num_seqs(?:\s*=\s*num_prompts)?\s*=?\s*(\d+)",
}
"""Engine settings that start-up logs print and the sources repeat; no column carries them."""
_REQUESTS_IN_NOTES: Final = re.compile(r"(\d+) (?:requests|prompts)\b(?! x)")
_FRACTION_IN_NOTES: Final = {"vllm": "gpu_memory_utilization", "sglang": "mem-fraction-static"}
"""What each engine calls its share of memory; a note may quote another engine's beside it."""


def serve_case_of_point(row: Row) -> ServeCase:
    """
    The case of an inference row.

    Raises
    ------
    BadFact
        The row does not say enough, or a cell cannot be read.
    """
    split = _disaggregation(row) if flag(row, "disaggregated") else None
    layout, replicas = _layout(row) if split is None else (split.decode, 1)
    spread = _spread(row)
    phase, engine = text(row, "phase"), text(row, "engine")
    return ServeCase(
        **_stated(row, spread, split),
        traffic=_traffic(row, spread, split),
        layout=layout,
        engine="trtllm" if engine == "tensorrt" else engine or SERVING_ENGINE,
        engine_version=_version(row, split),
        beams=count(row, "beams") or 1,
        phase=phase if phase in {"prefill", "decode"} else "both",  # type: ignore[arg-type]
        split_mode="layer" if text(row, "split_mode") == "layer" else "tensor",
        accelerator_fraction=number(row, "accel_fraction") or 1.0,
        replicas=replicas,
    )


def _stated(row: Row, spread: tuple[float, float] | None, split: Disaggregation | None) -> dict[str, Any]:
    """What rows of both layouts state in the same columns."""
    isl, osl = _lengths(row, spread)
    return {
        "model": _model(row),
        "accelerator": text(row, "accelerator_id"),
        "isl": isl,
        "osl": osl,
        "precision": _precision(row),
        "engine_options": _options(row),
        "length_spread": spread,
        "links": links(row),
        "disaggregation": split,
        "year": year(row),
        "id": row.id,
    }


def serve_case_of_sample(row: Row) -> ServeCase:
    """
    The case of a serving row: clients in a closed loop, the lengths drawn as the benchmark draws them.

    Raises
    ------
    BadFact
        The row does not say enough, or a cell cannot be read.
    """
    clients = number(row, "concurrency")
    if not clients:
        raise BadFact("not stated: concurrency")
    spread = _spread(row)
    split = _disaggregation(row) if flag(row, "disaggregated") else None
    engine = text(row, "engine") or text(row, "backend") or SERVING_ENGINE
    version = _version(row, split)
    if not re.search(r"\d", version or "") or "nightly" in str(version):  # a nightly build's name dates nothing
        version = text(row, "measured")[:7] or None
    requests = count(row, "requests_per_client") or _usual_requests(spread, split)
    return ServeCase(
        **_stated(row, spread, split),
        traffic=Traffic(concurrency=clients, requests_per_client=requests, start="together"),
        layout=split.decode if split is not None else _sample_layout(row),
        engine=engine,
        engine_version=version,
    )


def _version(row: Row, split: Disaggregation | None) -> str | None:
    """The engine's version as printed; TensorRT-LLM's separate pools print the orchestrator's, which says nothing."""
    if split is not None and (text(row, "engine") or text(row, "backend")) == "trtllm":
        return None
    return text(row, "backend_version") or text(row, "engine_version") or None


def _usual_requests(spread: tuple[float, float] | None, split: Disaggregation | None) -> int | None:
    """Requests that the public benchmark sends for each client, where the lengths it draws show that it ran."""
    if spread is None:
        return None
    return _REQUESTS_PER_CLIENT if split is None else _REQUESTS_PER_CLIENT_OF_POOLS


def _noted_requests(row: Row, clients: int | None) -> int | None:
    """Requests of each client where the notes begin with those of the whole run ("320 requests; …")."""
    noted = _REQUESTS_IN_NOTES.match(text(row, "notes"))
    return max(1, round(int(noted[1]) / clients)) if noted and clients else None


def links(row: Row) -> Links:
    """The row's own links; what it does not know is the accelerator's usual link."""
    intra = text(row, "node_links").lower()
    inter = number(row, "internode_gbytes_per_s")
    return Links(intra=intra if intra in _FABRICS else None, inter_bytes_per_s=inter * 1e9 if inter else None)


def year(row: Row) -> int | None:
    """When it was measured or published."""
    dated = text(row, "measured")[:4]
    return int(dated) if dated.isdigit() else count(row, "year")


def _model(row: Row) -> str:
    name = text(row, "model_id")
    if not name:
        raise BadFact("model not in the catalogue: the row names none")
    return name


def _traffic(row: Row, spread: tuple[float, float] | None, split: Disaggregation | None) -> Traffic:
    load = text(row, "load")
    size = count(row, "concurrency_or_batch")
    rate = number(row, "request_rate_qps")
    if load in {"static_batch", "closed_loop", "burst"} and size is None:
        raise BadFact("not stated: concurrency_or_batch")
    match load:
        case "single_stream":
            return Traffic(batch=1, static=True)
        case "static_batch":
            return Traffic(batch=size, static=True)
        case "closed_loop":
            drawn = spread if spread and spread[0] < spread[1] else None
            each = count(row, "requests_per_client") or _noted_requests(row, size) or _usual_requests(drawn, split)
            return Traffic(concurrency=size, requests_per_client=each, start="together")
        case "burst":
            return Traffic(batch=size)
        case "open_loop" if rate:
            return Traffic(rate_per_s=rate)
        case "saturated":  # a stated number of clients is what drove it
            each = count(row, "requests_per_client")
            return (
                Traffic(concurrency=size, requests_per_client=each, start="together")
                if size
                else Traffic(saturated=True)
            )
        case "memory_only":  # the pool is made before any request comes; the load does not matter
            return Traffic(concurrency=1)
    raise BadFact("not stated: request_rate_qps" if load == "open_loop" else f"unknown load: '{load}'")


def _spread(row: Row) -> tuple[float, float] | None:
    stated = re.fullmatch(r"(\d*\.?\d+)(?:\s*-\s*(\d*\.?\d+))?", text(row, "length_spread"))
    return (float(stated[1]), float(stated[2] or stated[1])) if stated else None


def _lengths(row: Row, spread: tuple[float, float] | None) -> tuple[float, float]:
    """Nominal lengths: the columns hold means, and a uniform draw has its nominal above its mean."""
    isl, osl = number(row, "isl_tokens"), number(row, "osl_tokens")
    if text(row, "load") == "memory_only":
        return isl or 128.0, osl or 128.0
    if isl is None or not osl:
        raise BadFact("not stated: prompt or answer length")
    mean = sum(spread) / 2 if spread else 1.0
    return isl / mean, osl / mean


def _layout(row: Row) -> tuple[Layout, int]:
    """Layout of one replica, and how many replicas there are."""
    total = count(row, "num_accel_total") or count(row, "num_accel") or 1
    tp, pp, dp = count(row, "tp"), count(row, "pp") or 1, count(row, "dp") or 1
    ep = count(row, "ep") or 1
    if flag(row, "attention_dp") or (dp > 1 and ep > 1):
        ranks = max(total // pp, 1)
        groups = dp if dp > 1 else tp or ranks
        return Layout(tp=max(ranks // groups, 1), pp=pp, dp=groups, ep=ep), 1
    if text(row, "split_mode") == "layer":
        return Layout(pp=count(row, "accel_per_replica") or total), 1
    if tp is not None or pp > 1:
        layout = Layout(tp=tp or max(total // (pp * dp), 1), pp=pp, ep=ep)
        return layout, max(total // layout.ranks, 1)
    size = count(row, "accel_per_replica")
    if size is None:
        whole = text(row, "load") not in {"saturated", "open_loop", "single_stream"}
        size = total // dp if whole or dp > 1 else _smallest_replica(row, total)
    return Layout(tp=max(size, 1), ep=ep), max(total // max(size, 1), 1)


def _smallest_replica(row: Row, total: int) -> int:
    """The fewest accelerators, a power of two, that hold the weights with a share of memory to spare."""
    parameters = number(row, "params_b")
    if not parameters:
        return total
    card = catalog.accelerator(text(row, "accelerator_id")).driver_memory_bytes * (number(row, "accel_fraction") or 1)
    need = parameters * 1e9 * number_format(text(row, "weight_precision") or "fp16").bytes
    size = 1
    while size * 2 <= total and need > (1 - _FREE_SHARE) * size * card:
        size *= 2
    return size


def _sample_layout(row: Row) -> Layout:
    """Serving rows print tp over all ranks; data-parallel attention divides it."""
    total = count(row, "num_accelerators") or 1
    tp, dp = count(row, "tp_norm") or total, count(row, "attention_dp_norm") or 1
    pp = count(row, "pp_size") or 1
    attention = tp // dp if dp > 1 and tp * pp == total else tp
    return Layout(tp=max(attention, 1), pp=pp, dp=dp, ep=count(row, "ep_norm") or 1)


def _disaggregation(row: Row) -> Disaggregation:
    def side(name: str) -> tuple[int, Layout]:
        workers = count(row, f"{name}_num_workers") or count(row, f"{name}_workers")
        tp = count(row, f"{name}_tp_size") or count(row, f"{name}_tp") or 1
        dp = count(row, f"{name}_attention_dp_size") or 1
        experts = number(row, f"{name}_moe_ep_size") or number(row, f"{name}_ep") or 1
        if workers is None:
            raise BadFact(f"not stated: {name} workers")
        held = (count(row, f"{name}_accel") or 0) // workers
        if flag(row, "layout_ok") is False and held:  # the printed degrees are not those of the launch
            tp, experts = held, held if flag(row, f"{name}_dpa") else experts
        if flag(row, f"{name}_dpa"):
            dp, tp = tp, 1
        pp = count(row, f"{name}_pp_size") or 1
        return workers, Layout(tp=tp, pp=pp, dp=dp, ep=_whole_experts(row, tp * dp, max(int(experts), 1)))

    prefill_workers, prefill = side("prefill")
    decode_workers, decode = side("decode")
    return Disaggregation(
        prefill_workers=prefill_workers, prefill=prefill, decode_workers=decode_workers, decode=decode
    )


def _whole_experts(row: Row, ranks: int, groups: int) -> int:
    """Groups of experts; where a printed degree would cut experts below what kernels take, they are whole."""
    try:
        layers = catalog.model(text(row, "model_id")).layers
    except TonnageError:
        return groups
    widths = [g.feed_forward.moe_intermediate_size for g in layers if isinstance(g.feed_forward, Moe)]
    return ranks if any(width * groups < _NARROWEST * ranks for width in widths) else groups


def _precision(row: Row) -> Precision | None:
    weights = text(row, "weight_precision")
    if not weights:
        return None
    activations = text(row, "act_precision") or ("bf16" if weights == "mxfp4" else "fp16")
    experts = text(row, "moe_weight_precision") or None
    if weights == "int8" and activations in _SIXTEEN_BITS:
        weights = "gptq_int8" if text(row, "quant_method") == "gptq" else "int8_weight"
    if weights == "int4" and text(row, "quant_method") in {"awq", "gptq"}:
        weights = text(row, "quant_method")
    if weights == _experts_alone(row):
        weights, experts = "bf16", weights
    return Precision(
        weights=weights,
        kv=text(row, "kv_precision") or _usual_kv(text(row, "engine"), weights, activations),
        activations=activations,
        experts=experts if experts != weights else None,
    )


def _usual_kv(engine: str, weights: str, activations: str) -> str:
    if engine in {"trtllm", "tensorrt"} and weights in _EIGHT_BIT_KV:
        return "fp8"
    return activations if activations in {"fp16", "bf16"} else "bf16"


def _experts_alone(row: Row) -> str | None:
    """The format that this model's checkpoint keeps its experts in, and nothing else."""
    try:
        dtype: str | None = catalog.model(text(row, "model_id")).experts_dtype
    except TonnageError:
        return None
    return dtype


def _options(row: Row) -> dict[str, Any]:
    stated: dict[str, Any] = {}
    for option, pattern in _STATED_IN_NOTES.items():
        found = re.search(pattern, text(row, "notes"))
        if found:
            stated[option] = int(found[1])
    share = _FRACTION_IN_NOTES.get(text(row, "engine"))
    if share and (found := re.search(rf"{share}\s*=?\s*(0\.\d+)", text(row, "notes"))):
        stated["memory_fraction"] = float(found[1])
    for option, column in (
        ("max_num_batched_tokens", "max_batched_tokens"),
        ("max_num_batched_tokens", "n_ubatch"),
        ("max_num_seqs", "max_batch"),
        ("receive_interval", "receive_interval"),
        ("batch_wait_steps", "batch_wait_steps"),
    ):
        value = count(row, column)
        if value is not None:
            stated[option] = value
    for name in ("async_scheduling", "mixed_chunk"):
        if text(row, name):
            stated[name] = flag(row, name)
    return stated
