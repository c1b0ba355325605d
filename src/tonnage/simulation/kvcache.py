"""How many tokens of cache does an engine keep on an accelerator, and what takes the rest of the memory?

Engines follow five rules, and each has its own identity here; an engine's record (`MemoryRule`) says which is its:
- *share of the total* (vLLM): util x M - weights - activation peak - what is not PyTorch's [- graphs];
- *reserve* (SGLang): free after loading - (1 - f) x free before loading;
- *share of what is free* (TensorRT-LLM, LMDeploy, TGI, DeepSpeed-MII): after weights and one profiled step;
- *need* (Transformers, ExLlama, FasterTransformer): the cache of the batch or context asked for;
- *cells* (llama.cpp): the cache of all slots and the buffer of one graph, whether or not anybody asks (`cells.py`).

`kv_pool` opens the memory of the fullest rank into parts that end at the limit, and says whether what was asked for
fits; when it does not, by how much, and which part is largest.
"""

from __future__ import annotations

import math
from typing import Final

from msgspec.structs import replace

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity, Verdict
from tonnage.domain.engine_spec import MemoryRule, ResolvedEngine
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Attention, LatentAttention, Model
from tonnage.domain.precision import Precision
from tonnage.domain.refusal import refusal
from tonnage.physics.buffers import activation_peak
from tonnage.physics.memory import (
    cache_bytes_per_sequence,
    cross_cache_bytes_per_sequence,
    kv_bytes_per_token,
    weight_bytes,
)
from tonnage.record import Record, SparseRecord
from tonnage.simulation.cells import Slots, beside_weights, on_device, slots_of
from tonnage.simulation.drafting import draft_precision
from tonnage.units import GiB, MiB, show

GRAPH_BYTES: Final = 0.4 * GiB
"""CUDA graphs of one rank: logged 0.10 to 1.03 GiB (llm-d benchmark and vLLM 0.21 to 0.27 start logs). [bytes]"""
CONTEXT_BYTES: Final = 0.6 * GiB
"""CUDA context with its kernels: H100 reports 78.57 of 79.18 GiB free at start. [bytes]"""
FREED_BYTES: Final = 0.13 * GiB
"""Beyond PyTorch on one rank, V1 engine: logged 0.13 to 0.14 GiB in five starts. [bytes]"""
FREED_BYTES_V0: Final = 0.2 * GiB
"""The same up to vLLM 0.7: a dozen public logs, 0.02 to 0.39, median 0.2 GiB. [bytes]"""
GROUP_BYTES: Final = 0.42 * GiB
"""Added by a group of two ranks: 0.55 GiB logged with two, less 0.13 with one (vLLM V1, H100). [bytes]"""
LARGE_GROUP_BYTES: Final = 50 * MiB
"""Added again from four ranks: NCCL takes 392 instead of 342 MiB (AIConfigurator). [bytes]"""
GROUP_BYTES_V0: Final = 1.8 * GiB
"""The same up to 0.7 over NVLink: 1.79 GiB with two H100, 1.9 with eight A100 beyond one (start logs). [bytes]"""


class Demand(SparseRecord, kw_only=True):
    """What should be resident at once: sequences and the tokens each has. Absent = only what the engine keeps."""

    concurrency: float = 1.0
    context_tokens: float | None = None
    """Prompt and output of one sequence. [tokens]"""
    shared_prefix_tokens: float = 0.0
    """Leading tokens all sequences have in common, kept once where the engine caches prefixes. [tokens]"""
    source_tokens: float = 0.0
    """Encoder tokens that cross attention keeps. [tokens]"""
    drafter: Model | None = None
    """A draft whose weights stand beside the model's, and which keeps every token once more."""


class Device(SparseRecord, kw_only=True):
    """What a start log tells about the device, where it is known better than from the catalogue."""

    total_bytes: float | None = None
    """Memory the process sees. [bytes]"""
    beyond_torch_bytes: float | None = None
    """Held outside the engine's allocator: context, NCCL, libraries, other processes. [bytes]"""


class KvPool(Record, kw_only=True):
    """The cache of one rank, beside everything else in its memory."""

    tokens: float
    """Tokens the replica can keep, as the engine logs it. [tokens]"""
    blocks: int
    bytes: float
    """The pool, on one rank. [bytes]"""
    bytes_per_sequence: float
    """Of one sequence of the demanded context, on one rank. [bytes]"""
    sequences: float
    """Sequences of the demanded context that the pool holds, over the replica's attention ranks."""
    free_bytes: float
    """Left for cache beside weights and buffers; negative = those alone are too large. [bytes]"""
    limit_bytes: float
    """What the engine allows itself. [bytes]"""
    total_bytes: float
    """Memory the process sees. [bytes]"""
    memory: Quantity
    """Everything resident on the fullest rank, the pool included. [bytes]"""
    need: Quantity
    """The same with only the demanded cache in place of the pool. [bytes]"""
    verdict: Verdict
    notes: tuple[str, ...] = ()


class _Held(Record, kw_only=True):
    """What stands beside the cache, and the limit both share."""

    limit_bytes: float
    parts: tuple[Quantity, ...]

    @property
    def free_bytes(self) -> float:
        return self.limit_bytes - sum(part.value for part in self.parts)


def kv_pool(
    model: Model,
    accelerator: Accelerator,
    *,
    precision: Precision,
    engine: ResolvedEngine,
    layout: Layout | None = None,
    demand: Demand | None = None,
    device: Device | None = None,
    images: tuple[Quantity, ...] = (),
) -> KvPool:
    """
    The cache pool of one rank and whether the demand fits it; `engine` has its settings filled (`engines.registry`).

    `device` says what a log knows better than the catalogue; `images` is what encoding them holds beside all else.
    Without a demanded context the verdict is about weights and buffers, and what the engine allocates by itself.
    """
    layout, demand, device = layout or Layout(), demand or Demand(), device or Device()
    rule, settings = engine.spec.memory, engine.settings
    total = device.total_bytes or accelerator.visible_memory_bytes
    weights = weight_bytes(model, precision, layout=layout)
    beside = (*images, *_draft_weights(demand.drafter, precision, layout))
    if beside:
        weights = Quantity.of_parts("bytes", (*weights.parts, *beside))
    match rule.kind:
        case "total":
            beyond = _beyond_torch(engine, layout.ranks, accelerator, device)
            held = _share_of_total(model, engine, layout, weights=weights, total=total, beyond=beyond)
        case "reserve":
            held = _reserve(engine, layout, weights=weights, total=total)
        case "free":
            held = _share_of_free(model, engine, layout, weights=weights, total=total)
        case "need":
            on_driver = accelerator.segment != "cpu" and accelerator.vendor != "Apple"
            context = CONTEXT_BYTES if on_driver else 0.0
            held = _by_need(model, engine, demand, weights=weights, total=total, context=context)
        case "cells":
            buffers = beside_weights(model, accelerator, engine=engine, layout=layout, slots=_slots(engine, demand))
            kept = _weight_parts(on_device(weights, accelerator))
            held = _Held(limit_bytes=total, parts=(*kept, *buffers))
    offload = settings.kv_offload_bytes or 0.0
    free = held.free_bytes + offload
    per_sequence, shared = _sequence_bytes(model, precision, layout, engine=engine, demand=demand)
    wanted = shared + per_sequence * demand.concurrency / layout.dp if demand.context_tokens else 0.0
    by_need = rule.kind in {"need", "cells"}
    if by_need:
        wanted = _allocated_cache(model, precision, layout, engine=engine, demand=demand, wanted=wanted)
    per_token = _token_bytes(model, precision, layout, demand=demand)
    pool = wanted if by_need else free
    block = settings.block_tokens or 1
    blocks = max(0, math.floor(pool / (block * per_token))) if per_token else 0
    if rule.kind == "cells":
        blocks = math.floor(_slots(engine, demand).tokens)
    cache = Quantity(
        name="KV cache", value=max(0.0, pool - offload), source=f"{precision.kv}, {show(per_token, 'bytes')}/token"
    )
    needed = Quantity(name="KV cache", value=max(0.0, wanted - offload), source=_of_sequences(demand.concurrency))
    need = _sum_interval(Quantity.of_parts("bytes", (*held.parts, needed)))
    return KvPool(
        tokens=float(blocks * block * layout.dp),
        blocks=blocks,
        bytes=max(0.0, pool),
        bytes_per_sequence=per_sequence,
        sequences=max(0.0, (free - shared) / per_sequence * layout.dp) if per_sequence else math.inf,
        free_bytes=free,
        limit_bytes=held.limit_bytes,
        total_bytes=total,
        memory=_sum_interval(Quantity.of_parts("bytes", (*held.parts, cache))),
        need=need,
        verdict=_verdict(held, need=need, free=free, wanted=wanted, accelerator=accelerator),
        notes=_notes(model, demand, settings),
    )


def longest_bytes(
    model: Model, precision: Precision, *, layout: Layout, engine: ResolvedEngine, demand: Demand
) -> float:
    """What one sequence of the demanded context holds of the cache on one rank, the whole of its prefix. [bytes]"""
    return sum(_sequence_bytes(model, precision, layout, engine=engine, demand=demand))


SPREAD: Final = {Basis.MEASURED: 0.003, Basis.DERIVED: 0.01, Basis.CALIBRATED: 0.25, Basis.ASSUMED: 0.75}
"""Share by which 90 % of parts of each basis miss: start logs for buffers, file sizes for weights. [-]"""


def _sum_interval(memory: Quantity) -> Quantity:
    """The sum with its interval: parts miss independently."""
    width = math.sqrt(sum((SPREAD[part.basis] * part.value) ** 2 for part in memory.parts))
    return replace(memory, low=memory.value - width, high=memory.value + width)


def _of_sequences(count: float) -> str:
    return f"{count:,.0f} sequence{'s' if count != 1 else ''}"


def _sequence_bytes(
    model: Model, precision: Precision, layout: Layout, *, engine: ResolvedEngine, demand: Demand
) -> tuple[float, float]:
    """
    Bytes of one sequence beyond the shared prefix, and of the prefix itself, on one rank.

    Without a demanded context a sequence has the engine's longest, else the model's; contexts are whole blocks.
    """
    settings = engine.settings
    context = demand.context_tokens or float(settings.max_model_len or model.max_context or 0)
    block = settings.block_tokens or 1
    context = -(-context // block) * block
    windows = engine.release >= engine.spec.memory.windows_since
    if engine.spec.memory.kind == "cells":
        one = replace(_slots(engine, demand), count=1.0, context=context)
        return _slot_bytes(model, precision, layout, slots=one, drafter=demand.drafter), 0.0
    cross = cross_cache_bytes_per_sequence(model, precision.kv, layout=layout, source_tokens=demand.source_tokens)
    whole = cache_bytes_per_sequence(model, precision.kv, layout=layout, context=context, windows=windows)
    if demand.drafter is not None:
        whole += cache_bytes_per_sequence(
            demand.drafter, precision.kv, layout=_draft_layout(layout), context=context, windows=windows
        )
    prefix = min(demand.shared_prefix_tokens, context) if settings.prefix_caching else 0.0
    grows = _token_bytes(model, precision, layout, demand=demand) * prefix
    shared = min(whole, grows)
    return whole - shared + cross, shared


def _token_bytes(model: Model, precision: Precision, layout: Layout, *, demand: Demand) -> float:
    """Cache of one token on one rank, a draft's beside the model's. [bytes]"""
    own = kv_bytes_per_token(model, precision.kv, layout=layout).value
    if demand.drafter is None:
        return own
    return own + kv_bytes_per_token(demand.drafter, precision.kv, layout=_draft_layout(layout)).value


def _draft_layout(layout: Layout) -> Layout:
    """A draft stands on the tensor-parallel ranks of its target's last stage."""
    return Layout(tp=layout.tp, dp=layout.dp)


def _draft_weights(drafter: Model | None, precision: Precision, layout: Layout) -> tuple[Quantity, ...]:
    """A draft's weights on one rank; its embedding is the target's. [bytes]"""
    if drafter is None:
        return ()
    found = weight_bytes(drafter, draft_precision(precision), layout=_draft_layout(layout))
    return (Quantity(name="draft", value=found.value, source=drafter.id),)


def _allocated_cache(
    model: Model, precision: Precision, layout: Layout, *, engine: ResolvedEngine, demand: Demand, wanted: float
) -> float:
    """Cache that is allocated by need: for the whole context at the start, or for the batch."""
    if engine.spec.memory.kind == "cells":
        return _slot_bytes(model, precision, layout, slots=_slots(engine, demand), drafter=demand.drafter)
    length = engine.settings.max_model_len
    if engine.spec.memory.whole_context and length:
        whole = cache_bytes_per_sequence(model, precision.kv, layout=layout, context=length, windows=False)
        return max(wanted, whole)
    return wanted


def _slots(engine: ResolvedEngine, demand: Demand) -> Slots:
    return slots_of(engine, concurrency=demand.concurrency, context=demand.context_tokens or 0.0)


def _slot_bytes(model: Model, precision: Precision, layout: Layout, *, slots: Slots, drafter: Model | None) -> float:
    """Cache of the slots on one rank, a draft's beside the model's. [bytes]"""
    own = slots.cache_bytes(model, precision.kv, layout=layout)
    return own if drafter is None else own + slots.cache_bytes(drafter, precision.kv, layout=_draft_layout(layout))


def _share_of_total(
    model: Model, engine: ResolvedEngine, layout: Layout, *, weights: Quantity, total: float, beyond: Quantity
) -> _Held:
    """util x M = W + A_peak + O_nontorch [+ G_graphs where they count] + KV (docs/physics.md 4)."""
    rule, settings = engine.spec.memory, engine.settings
    peak = activation_peak(
        model,
        layout,
        max_num_seqs=settings.max_num_seqs or 256,
        step_tokens=settings.max_num_batched_tokens or 2048,
    )
    parts = [*_weight_parts(weights), _rotary(model), *_name_parts(peak, "activations"), beyond]
    if rule.all_reduce_held and rule.all_reduce_held[0] <= engine.release < rule.all_reduce_held[1] and layout.tp > 1:
        parts.append(_held_by_all_reduce(model, settings))
    if rule.graphs_since is not None and engine.release >= rule.graphs_since and settings.cuda_graphs is not False:
        parts.append(_graphs())
    return _Held(limit_bytes=_fraction(rule, settings) * total, parts=tuple(parts))


def _fraction(rule: MemoryRule, settings: Engine) -> float:
    return settings.memory_fraction or rule.fraction


def _held_by_all_reduce(model: Model, engine: Engine) -> Quantity:
    """
    Outputs of every all-reduce of the profiled step, two a layer, 16 bits.

    From 0.2.5 (pull request 2031) the profile counted the allocator's cache; tensors handed to the communication
    stream stay there until it catches up. Later releases all-reduce on the compute stream.
    """
    layers = sum(group.count for group in model.layers)
    value = 2.0 * layers * (engine.max_num_batched_tokens or 2048) * model.hidden_size * 2.0
    return Quantity(name="held by all-reduce", value=value, source="2 L T D x 2 bytes; vLLM pull request 2031")


def _rotary(model: Model) -> Quantity:
    """Cosine and sine tables, 16 bits, for every position of the model's context."""
    widths = (
        group.mixer.qk_rope_head_dim if isinstance(group.mixer, LatentAttention) else group.mixer.head_dim
        for group in model.layers
        if isinstance(group.mixer, Attention | LatentAttention)
    )
    value = 2.0 * (model.max_context or 0) * max(widths, default=0)
    return Quantity(name="weights: rotary tables", value=value, source="max_context x head width x 2 bytes")


def _beyond_torch(engine: ResolvedEngine, ranks: int, accelerator: Accelerator, device: Device) -> Quantity:
    """What a rank holds outside PyTorch's allocator: as a start log tells, else by release and number of ranks."""
    basis = Basis.CALIBRATED
    if device.beyond_torch_bytes is not None:
        value, source, basis = device.beyond_torch_bytes, "given", Basis.MEASURED
    elif engine.release < engine.spec.memory.torch_alone_since:
        switched = ranks > 1 and accelerator.link.domain > 2
        value, source = FREED_BYTES_V0 + (GROUP_BYTES_V0 if switched else 0.0), "vLLM 0.6 start logs"
    else:
        group = 0.0 if ranks == 1 else GROUP_BYTES + (LARGE_GROUP_BYTES if ranks >= 4 else 0.0)
        value, source = FREED_BYTES + group, "vLLM V1 start logs; NCCL from AIConfigurator"
    return Quantity(name="NCCL and libraries", value=value, basis=basis, source=source)


def _reserve(engine: ResolvedEngine, layout: Layout, *, weights: Quantity, total: float) -> _Held:
    """KV = free after loading - (1 - f) x free before loading; the reserve serves activations and graphs."""
    start = CONTEXT_BYTES + (2 * GROUP_BYTES + LARGE_GROUP_BYTES if layout.ranks > 1 else 0.0)
    rule = engine.spec.memory
    fraction = _fraction(rule, engine.settings)
    reserve = (1 - fraction) * (total - start)
    parts = (
        *_weight_parts(weights),
        Quantity(name="activations and graphs", value=reserve, source=f"{rule.setting} {fraction:g}"),
        Quantity(name="context and NCCL", value=start, basis=Basis.CALIBRATED, source="free memory at start in logs"),
    )
    return _Held(limit_bytes=total, parts=parts)


def _share_of_free(model: Model, engine: ResolvedEngine, layout: Layout, *, weights: Quantity, total: float) -> _Held:
    """KV = f x (total - weights - activation buffers - context); the rest stays free."""
    peak = activation_peak(
        model,
        layout,
        max_num_seqs=0,  # these engines sample in a few rows at a time and profile the token budget only
        step_tokens=engine.settings.max_num_batched_tokens or 8192,
    )
    group = GROUP_BYTES + (LARGE_GROUP_BYTES if layout.ranks >= 4 else 0.0) if layout.ranks > 1 else 0.0
    fixed = (
        *_weight_parts(weights),
        *_name_parts(peak, "activations"),
        Quantity(name="context and NCCL", value=CONTEXT_BYTES + group, basis=Basis.CALIBRATED, source="start logs"),
    )
    free = total - sum(part.value for part in fixed)
    rule = engine.spec.memory
    if rule.kept_bytes is not None:
        kept, source = rule.kept_bytes, rule.setting
    else:
        fraction = _fraction(rule, engine.settings)
        kept, source = (1 - fraction) * max(0.0, free), f"{engine.spec.name}: pool is {fraction:g} of what is free"
    return _Held(limit_bytes=total, parts=(*fixed, Quantity(name="left free", value=kept, source=source)))


def _by_need(
    model: Model, engine: ResolvedEngine, demand: Demand, *, weights: Quantity, total: float, context: float
) -> _Held:
    """Weights, context, and the buffers of one step; the cache comes on top as it is needed."""
    rule = engine.spec.memory
    whole = demand.concurrency * (demand.context_tokens or 512.0)
    tokens = min(whole, float(engine.settings.max_num_batched_tokens or whole))
    step = activation_peak(model, Layout(), max_num_seqs=0, step_tokens=tokens * rule.activation_buffers)
    parts = (
        *_weight_parts(weights),
        *_name_parts(step, "activations"),
        Quantity(
            name="logits", value=4 * demand.concurrency * model.vocab_size, source="32-bit logits of the rows that emit"
        ),
        Quantity(
            name="context and libraries",
            value=context + rule.library_bytes,
            basis=Basis.CALIBRATED,
            source="device memory beyond weights and cache, seven engines on A100",
        ),
    )
    return _Held(limit_bytes=total, parts=parts)


def _weight_parts(weights: Quantity) -> tuple[Quantity, ...]:
    """What stands beside the cache whatever the step: weights, and what encoding images holds."""
    return tuple(
        part if part.name.startswith("images: ") else replace(part, name=f"weights: {part.name.replace('_', ' ')}")
        for part in weights.parts
    )


def _name_parts(quantity: Quantity, name: str) -> tuple[Quantity, ...]:
    return tuple(replace(part, name=name, source=f"{part.source} ({part.name})") for part in quantity.parts)


def _graphs() -> Quantity:
    return Quantity(name="CUDA graphs", value=GRAPH_BYTES, basis=Basis.ASSUMED, source="start logs: 0.1 to 1.0 GiB")


def _verdict(held: _Held, *, need: Quantity, free: float, wanted: float, accelerator: Accelerator) -> Verdict:
    """
    Whether the cache that is wanted fits what weights and buffers leave free on a rank (host memory included).

    Where these leave nothing it does not, even if no cache is wanted. The refusal names no nearest change: callers try
    some.
    """
    if free >= wanted and free > 0:
        return Verdict(ok=True)
    short = wanted - free if free < wanted else -free
    largest = max(need.parts, key=lambda part: part.value, default=None)
    what = "weights and buffers alone exceed" if free <= 0 else "the cache asked for exceeds"
    return refusal(
        "memory",
        f"{what} the {show(held.limit_bytes, 'bytes')} that may be used on {accelerator.name} "
        f"by {show(short, 'bytes')}" + (f"; largest part: {largest.name}" if largest else ""),
        short_by=short,
    )


def _notes(model: Model, demand: Demand, engine: Engine) -> tuple[str, ...]:
    notes = []
    context = demand.context_tokens
    if context and model.max_context and context > model.max_context:
        notes.append(f"{context:,.0f} tokens exceed the {model.max_context:,} that the model is made for")
    if any(isinstance(group.mixer, Attention) and group.mixer.window for group in model.layers):
        notes.append("windowed layers stop growing at their window")
    if engine.kv_offload_bytes:
        notes.append(f"{show(engine.kv_offload_bytes, 'bytes')} of cache are kept in host memory")
    return tuple(notes)
