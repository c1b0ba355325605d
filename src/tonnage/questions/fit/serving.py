"""Serving rows of `tonnage fit`: one model in one arrangement under an engine, from its own memory identity.

Every remedy named was tried first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.catalog.engines import engine_lacking
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model, Moe
from tonnage.domain.precision import Precision, number_format
from tonnage.engines.registry import defaults, engine_spec, planned_engines, resolve_engine, unsupported_reason
from tonnage.errors import BadRequest
from tonnage.optimize.largest import largest_whole
from tonnage.optimize.layouts import legal
from tonnage.physics.memory import cache_layers, checkpoint_precision, state_bytes_per_sequence, weight_bytes
from tonnage.questions.fit.question import FitRequest, FitRow, Largest
from tonnage.simulation.kvcache import Demand, KvPool, kv_pool
from tonnage.units import plural

CONTEXT: Final = 8192
"""Context of one request when none is given, or the model's own when that is shorter. Said in the answer. [tokens]"""

MAX_RANKS: Final = 64


def serving_row(model: Model, accelerator: Accelerator, *, request: FitRequest) -> FitRow:
    """One accelerator in the arrangement asked for (one device when none is), with largest values and remedies."""
    layout = layout_of(request)
    largest = _largest(model, accelerator, layout=layout, request=request)
    request = with_solution(request, largest)
    row, pool = _try(model, accelerator, layout=layout, request=request)
    remedies = () if row.verdict.ok else tuple(_remedies(model, accelerator, request=request, largest=largest))
    verdict = row.verdict
    if not verdict.ok:
        nearest = remedies[0] if remedies else "no accelerator count up to 64 holds it"
        verdict = replace(verdict, nearest=nearest)
    return replace(row, largest=largest, remedies=remedies, verdict=verdict, kv_tokens=pool.tokens)


def with_solution(request: FitRequest, largest: tuple[Largest, ...]) -> FitRequest:
    """
    The request with the largest value of what it solves for filled in, so that its row shows the memory that fills.

    Unchanged where it solves for nothing, or where not even one fits.
    """
    value = next((int(found.value) for found in largest if found.what == request.solve), 0)
    if value < 1:
        return request
    return replace(request, **{str(request.solve).replace("-", "_"): value})


def smallest_serving(model: Model, accelerator: Accelerator, *, request: FitRequest) -> FitRow | None:
    """The smallest arrangement that holds it, or the one asked for; absent when none does."""
    given = request.tp or request.pp or request.dp
    precision, _ = _precision(model, accelerator, request=request)
    least = weight_bytes(model, precision).value
    layouts = iter([layout_of(request)]) if given else _arrangements(model, accelerator, engine=request.engine)
    for layout in layouts:
        if least / layout.ranks > accelerator.driver_memory_bytes:
            continue  # the weights alone are too large
        row, _ = _try(model, accelerator, layout=layout, request=request)
        if row.verdict.ok:
            return row
    return None


def holds_it(model: Model, accelerator: Accelerator, *, request: FitRequest) -> bool:
    """Whether the arrangement asked for holds the model and the demand."""
    return _try(model, accelerator, layout=layout_of(request), request=request)[1].verdict.ok


def _try(model: Model, accelerator: Accelerator, *, layout: Layout, request: FitRequest) -> tuple[FitRow, KvPool]:
    """
    One arrangement: its row without largest values and remedies, and the pool that it was read from.

    Raises
    ------
    BadRequest
        The engine cannot run on the accelerator.
    """
    precision, notes = _precision(model, accelerator, request=request)
    demand = demand_of(model, request)
    engine = defaults(_engine(request, demand), accelerator, model=model, layout=layout)
    resolved = resolve_engine(engine)
    if (lacking := engine_lacking(resolved.spec, accelerator, planned=planned_engines())) is not None:
        raise BadRequest(f"engine: {lacking.reason}; what would work: {lacking.nearest}")
    pool = kv_pool(model, accelerator, precision=precision, engine=resolved, layout=layout, demand=demand)
    node = accelerator.max_per_node or 8
    warnings = (f"tp {layout.tp} spans nodes of {node}",) if layout.tp > node else ()
    if (reason := unsupported_reason(request.engine, accelerator)) is not None:
        warnings = (*warnings, reason)
    row = FitRow(
        accelerator=accelerator.id,
        name=accelerator.name,
        count=layout.ranks,
        layout={name: degree for name, degree in msgspec.structs.asdict(layout).items() if degree > 1},
        precision=precision.by_name(),
        verdict=pool.verdict,
        total_bytes=pool.total_bytes,
        limit_bytes=pool.limit_bytes,
        memory=pool.need,
        kv_tokens=pool.tokens,
        engine=msgspec.to_builtins(engine),
        notes=(
            *notes,
            *pool.notes,
            *_offload_notes(request, pool, accelerator, ranks=layout.ranks),
            *_expert_notes(model),
            *warnings,
        ),
    )
    return row, pool


def _offload_notes(request: FitRequest, pool: KvPool, accelerator: Accelerator, *, ranks: int) -> Iterator[str]:
    """What cache in host memory asks of the host; nothing where none is asked for."""
    if request.kv_offload_bytes:
        from tonnage.core.host import offload_needs

        yield offload_needs(
            bytes_each=request.kv_offload_bytes,
            ranks=ranks,
            sequence_bytes=pool.bytes_per_sequence,
            link_bytes_per_s=accelerator.host_link.bytes_per_s,
        )


def _keeps_state(model: Model) -> bool:
    """Whether requests leave anything resident: a cache or a state. Encoders keep nothing."""
    return any(True for _ in cache_layers(model)) or state_bytes_per_sequence(model) > 0


def _expert_notes(model: Model) -> Iterator[str]:
    """From how many tokens of a step a mixture reads 95 % of its experts: n tokens hit E (1 - (1 - k/E)^n) of them."""
    for moe in {g.feed_forward for g in model.layers if isinstance(g.feed_forward, Moe)}:
        if moe.num_experts_per_tok >= moe.num_experts:
            continue
        tokens = math.ceil(math.log(0.05) / math.log(1 - moe.num_experts_per_tok / moe.num_experts))
        yield (
            f"mixture of experts: all {moe.num_experts} are resident, {moe.num_experts_per_tok} work on a token; "
            f"a step of {tokens:,} tokens already reads 95 % of them"
        )


def demand_of(model: Model, request: FitRequest) -> Demand:
    """
    What is to be resident at once: one request unless more are asked for, of the context asked for.

    Without one it is `CONTEXT`, or the model's own where that is shorter. An encoder-decoder is taken to read a source
    as long as its context.
    """
    context = request.context or min(CONTEXT, model.max_context or CONTEXT)
    source = float(context) if model.encoder and model.layers else 0.0
    return Demand(
        concurrency=float(request.concurrency or 1),
        context_tokens=float(context),
        shared_prefix_tokens=float(request.shared_prefix),
        source_tokens=source,
    )


def _engine(request: FitRequest, demand: Demand) -> Engine:
    """
    The engine as a user would start it: for the context asked for, not for the model's longest.

    Where requests share the context of the engine (llama.cpp), it is started for that of all of them.
    """
    context, slots = int(demand.context_tokens or CONTEXT), int(demand.concurrency)
    shared = engine_spec(request.engine).memory.kind == "cells"
    return Engine(
        name=request.engine,
        version=request.engine_version,
        max_model_len=context * slots if shared else context,
        max_num_seqs=slots if shared else None,
        kv_offload_bytes=request.kv_offload_bytes,
    )


def _precision(model: Model, accelerator: Accelerator, *, request: FitRequest) -> tuple[Precision, tuple[str, ...]]:
    """
    Formats of weights, activations and cache on this accelerator: those asked for, else the checkpoint's own.

    Where it cannot multiply the narrow format of the activations, these stay at 16 bits, and a note says so.
    """
    own = checkpoint_precision(model)
    if request.precision:
        weights = number_format(request.precision)
        # Of a checkpoint, the format of the cache is that of its 16-bit activations.
        activations = own.kv if weights.weight_only or weights.bits >= 16 else weights.name
        own = Precision(weights=weights.name, kv=own.kv, activations=activations)
    if request.kv:
        own = replace(own, kv=number_format(request.kv).name)
    narrow = number_format(own.activations)
    notes: list[str] = []
    if narrow.bits < 16 and accelerator.peak(narrow.compute) is None:
        own = replace(own, activations=own.kv if number_format(own.kv).bits >= 16 else "bf16")
        notes.append(
            f"{accelerator.name} has no {narrow.compute} units: {narrow.name} saves memory, products run at 16 bits"
        )
    if number_format(own.weights).name == "bf16" and "bf16" not in accelerator.peaks and "fp16" in accelerator.peaks:
        notes.append(f"{accelerator.name} has no bf16 units: run it in fp16, which takes the same memory")
    return own, tuple(notes)


def layout_of(request: FitRequest) -> Layout:
    """The degrees that are asked for; one rank of each that is not."""
    return Layout(tp=request.tp or 1, pp=request.pp or 1, dp=request.dp or 1, ep=request.ep or 1)


def _arrangements(model: Model, accelerator: Accelerator, *, engine: str) -> Iterator[Layout]:
    """
    Ways to spread a model, fewest devices first: cut inside a node, then staged over nodes, up to `MAX_RANKS`.

    Engines that spread whole layers have pipeline stages inside a node alone.
    """
    node = accelerator.max_per_node or 8
    if engine_spec(engine).layered:
        yield from (Layout(pp=n) for n in (1, 2, 3, 4, 6, 8) if n <= node and legal(model, Layout(pp=n)).ok)
        return
    widest = 1
    for tp in (1, 2, 4, 8, 16, 32, 64):
        if tp <= node and legal(model, Layout(tp=tp)).ok:
            widest = tp
            yield Layout(tp=tp)
    for pp in (2, 3, 4, 6, 8):
        layout = Layout(tp=widest, pp=pp)
        if layout.ranks <= MAX_RANKS and legal(model, layout).ok:
            yield layout


def _largest(model: Model, accelerator: Accelerator, *, layout: Layout, request: FitRequest) -> tuple[Largest, ...]:
    """
    Largest context at the concurrency asked for, and largest concurrency at the context asked for.

    0 where not even one fits; nothing where requests of the model keep nothing.
    """
    demand = demand_of(model, request)
    context, concurrency = int(demand.context_tokens or 0), int(demand.concurrency)
    if not _keeps_state(model):
        return ()

    def fits(changed: Mapping[str, int]) -> bool:
        tried = replace(request, **changed)
        return _try(model, accelerator, layout=layout, request=tried)[1].verdict.ok

    most, crowd = model.max_context or 2**24, 2**20
    own = "the model's own limit" if model.max_context else "nothing up to here"
    longest = largest_whole(lambda n: fits({"context": n}), most=most)
    widest = largest_whole(lambda n: fits({"concurrency": n}), most=crowd)
    return (
        Largest(
            what="context",
            value=float(longest),
            unit="tokens",
            given=plural(concurrency, "request"),
            binds="memory" if longest < most else own,
        ),
        Largest(
            what="concurrency",
            value=float(widest),
            unit="requests",
            given=f"{context:,} tokens each",
            binds="memory" if widest < crowd else "nothing up to here",
        ),
    )


def _remedies(
    model: Model, accelerator: Accelerator, *, request: FitRequest, largest: tuple[Largest, ...]
) -> Iterator[str]:
    """What would make it fit, the smallest change first; each was tried."""

    def holds(**changed: Any) -> FitRow | None:
        tried = replace(request, **changed)
        row, pool = _try(model, accelerator, layout=layout_of(tried), request=tried)
        return row if pool.verdict.ok else None

    for found in reversed(largest):
        if found.what == "concurrency" and found.value >= 1:
            yield f"{plural(found.value, 'request')} at once instead of {request.concurrency or 1:,}"
        if found.what == "context" and found.value >= 256:
            yield f"{found.value:,.0f} tokens of context instead of {demand_of(model, request).context_tokens:,.0f}"
    if request.kv is None and engine_spec(request.engine).fp8_cache and holds(kv="fp8"):
        yield "an 8-bit cache (--kv fp8)"
    own = checkpoint_precision(model)
    bits = number_format(request.precision or own.experts or own.weights).bits
    for lower in ("fp8", "int4"):
        if number_format(lower).bits < bits and holds(precision=lower):
            yield f"{lower} weights (--precision {lower})"
            break
    if not (request.tp or request.pp or request.dp):
        for layout in _arrangements(model, accelerator, engine=request.engine):
            row, pool = _try(model, accelerator, layout=layout, request=request)
            if pool.verdict.ok:
                degrees = " ".join(f"{name} {degree}" for name, degree in row.layout.items())
                yield f"{row.count} x {accelerator.name} ({degrees})"
                break
    else:
        for tp in (2, 4, 8, 16):
            if tp > (request.tp or 1) and legal(model, Layout(tp=tp)).ok and holds(tp=tp):
                yield f"tp {tp} instead of {request.tp or 1}"
                break


def check_layout(model: Model, request: FitRequest) -> None:
    """
    The degrees asked for divide the model, and it is a language model.

    Raises
    ------
    BadRequest
        A degree does not divide the model, or the model is no language model.
    """
    layout = layout_of(request)
    verdict = legal(model, layout)
    if not verdict.ok:
        raise BadRequest(f"{verdict.limit}: {verdict.reason}; the nearest that works is {verdict.nearest}")
    if not model.layers and not model.encoder:
        raise BadRequest(
            f"{model.id} is no language model: it keeps no cache; its memory by batch is answered by `tonnage predict`"
        )
