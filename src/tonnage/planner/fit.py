"""What must be resident, does it fit, and what is the largest x that still does?

`fit` resolves names and joins the floors: serving rows come from the engine's own memory identity
(`engine/kvcache.py`), training rows from `physics/training_memory.py` through `fit_train.py`. Every remedy it names
was tried first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from tonnage import __version__, catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.engine.engines import assumptions, defaults, unsupported
from tonnage.engine.kvcache import Demand, KvPool, kv_pool
from tonnage.errors import BadRequest
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.fit import FitAnswer, FitRequest, FitRow, Largest, Rule
from tonnage.nouns.layout import Engine, Layout
from tonnage.nouns.model import Model, Moe
from tonnage.nouns.precision import Precision, number_format
from tonnage.physics.memory import cache_layers, checkpoint_precision, state_bytes_per_sequence, weight_bytes
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.physics.rules import inference_rule_bytes
from tonnage.search.layouts import legal
from tonnage.units import show

__all__ = ["CONTEXT", "fit", "fit_model", "holds_it", "largest_whole", "serving_row"]

CONTEXT: Final = 8192
"""Context of one request when none is given, or the model's own when that is shorter. Said in the answer. [tokens]"""
MOST_RANKS: Final = 64
SEGMENTS: Final = ("datacenter", "workstation", "consumer")
"""What is looked through when no accelerator is named."""
LAYERED: Final = ("llamacpp", "hf", "exllamav2", "exllamav3")
"""Engines that spread layers over devices rather than cutting matrices."""


def fit(request: FitRequest, *, additions: Additions = NOTHING, offline: bool | None = None) -> FitAnswer:
    """The answer to a fit request: names looked up, each accelerator tried, largest values and remedies found."""
    if request.solve == "model":
        from tonnage.planner.fit_models import largest_model

        return largest_model(request, additions=additions)
    from tonnage.catalog.hub import resolve

    return fit_model(resolve(request.model, additions=additions, offline=offline), request, additions=additions)


def fit_model(model: Model, request: FitRequest, *, additions: Additions = NOTHING) -> FitAnswer:
    """The same for a model already at hand."""
    _check_context(model, request)
    named = [catalog.accelerator(name, additions) for name in request.accelerators]
    said = [catalog.ambiguity(name, additions) for name in request.accelerators]
    row, search = _faces(model, request)
    if named:
        rows = tuple(row(accelerator) for accelerator in named)
        too_small = 0
    else:
        every = [a for a in catalog.accelerators(additions).values() if a.segment in SEGMENTS and _usual(a, request)]
        found = [smallest for accelerator in every if (smallest := search(accelerator)) is not None]
        rows = tuple(sorted(found, key=lambda r: (r.count, r.total_bytes * r.count, -r.free_bytes, r.accelerator)))
        too_small = len(every) - len(found)
    first = next((r for r in rows if r.verdict.ok), rows[0] if rows else None)
    return FitAnswer(
        sentence=_sentence(model, request, rows=rows, too_small=too_small),
        fits=any(r.verdict.ok for r in rows),
        goal=request.goal,
        model=model.id,
        parameters=parameters(model).value,
        active_parameters=active_parameters(model).value,
        rows=rows,
        rules=_rules(model, request, first) if first is not None else (),
        request=request,
        version=__version__,
        assumed=(*model.assumed, *filter(None, said), *_assumed(model, request)),
        too_small=too_small,
    )


def _usual(accelerator: Accelerator, request: FitRequest) -> bool:
    """Worth looking at unasked: the engine runs on it; training and fine-tuning are not looked for on Apple parts."""
    if request.goal != "serve":
        return accelerator.vendor != "Apple"
    return unsupported(request.engine, accelerator) is None


Row = Callable[[Accelerator], FitRow]
Search = Callable[[Accelerator], FitRow | None]


def _faces(model: Model, request: FitRequest) -> tuple[Row, Search]:
    """How one named accelerator is answered, and how the smallest count of an unnamed one is found."""
    if request.goal == "serve":
        _check_layout(model, request)
        return partial(serving_row, model, request=request), partial(_smallest, model, request=request)
    from tonnage.planner.fit_train import smallest_training, training_row

    return partial(training_row, model, request=request), partial(smallest_training, model, request=request)


def serving_row(model: Model, accelerator: Accelerator, *, request: FitRequest) -> FitRow:
    """One accelerator in the arrangement asked for (one device when none is), with largest values and remedies."""
    layout = _layout(request)
    largest = _largest(model, accelerator, layout=layout, request=request)
    request = _solved(request, largest)
    row, pool = _try(model, accelerator, layout=layout, request=request)
    remedies = () if row.verdict.ok else tuple(_remedies(model, accelerator, request=request, largest=largest))
    verdict = row.verdict
    if not verdict.ok:
        nearest = remedies[0] if remedies else "no accelerator count up to 64 holds it"
        verdict = msgspec.structs.replace(verdict, nearest=nearest)
    return msgspec.structs.replace(row, largest=largest, remedies=remedies, verdict=verdict, kv_tokens=pool.tokens)


def _solved(request: FitRequest, largest: tuple[Largest, ...]) -> FitRequest:
    """The request with what was asked for put in, so that its row shows the largest value filling the memory."""
    value = next((int(found.value) for found in largest if found.what == request.solve), 0)
    if value < 1:
        return request
    return msgspec.structs.replace(request, **{str(request.solve).replace("-", "_"): value})


def _smallest(model: Model, accelerator: Accelerator, *, request: FitRequest) -> FitRow | None:
    """The smallest arrangement that holds it; absent when none does."""
    given = request.tp or request.pp or request.dp
    precision, _ = _precision(model, accelerator, request=request)
    least = weight_bytes(model, precision).value
    layouts = iter([_layout(request)]) if given else _arrangements(model, accelerator, engine=request.engine)
    for layout in layouts:
        if least / layout.ranks > accelerator.driver_memory_bytes:
            continue
        row, _ = _try(model, accelerator, layout=layout, request=request)
        if row.verdict.ok:
            return row
    return None


def holds_it(model: Model, accelerator: Accelerator, *, request: FitRequest) -> bool:
    """Whether the arrangement asked for holds the model and the demand."""
    return _try(model, accelerator, layout=_layout(request), request=request)[1].verdict.ok


def _try(model: Model, accelerator: Accelerator, *, layout: Layout, request: FitRequest) -> tuple[FitRow, KvPool]:
    """One arrangement looked at: need, limit, verdict."""
    precision, notes = _precision(model, accelerator, request=request)
    demand = _demand(model, request)
    engine = defaults(_engine(request, demand), accelerator, model=model, layout=layout)
    pool = kv_pool(model, accelerator, precision=precision, engine=engine, layout=layout, demand=demand)
    node = accelerator.max_per_node or 8
    spans = (f"tp {layout.tp} spans nodes of {node}",) if layout.tp > node else ()
    if (reason := unsupported(request.engine, accelerator)) is not None:
        spans = (*spans, reason)
    row = FitRow(
        accelerator=accelerator.id,
        name=accelerator.name,
        count=layout.ranks,
        layout={name: degree for name, degree in msgspec.structs.asdict(layout).items() if degree > 1},
        precision=msgspec.structs.asdict(precision),
        verdict=pool.verdict,
        total_bytes=pool.total_bytes,
        limit_bytes=pool.limit_bytes,
        memory=pool.need,
        kv_tokens=pool.tokens,
        engine=msgspec.to_builtins(engine),
        notes=(*notes, *pool.notes, *_experts(model), *spans),
    )
    return row, pool


def _keeps(model: Model) -> bool:
    """Whether requests leave anything resident: a cache or a state. Encoders keep nothing."""
    return any(True for _ in cache_layers(model)) or state_bytes_per_sequence(model) > 0


def _weights_name(precision: Precision) -> str:
    """The weight format as people say it, with that of the experts where it differs."""
    if precision.experts in {None, precision.weights}:
        return precision.weights
    return f"{precision.weights} (experts {precision.experts})"


def _experts(model: Model) -> Iterator[str]:
    """How soon a mixture reads nearly all it holds: experts hit by n tokens are E (1 - (1 - k/E)^n)."""
    for moe in {g.feed_forward for g in model.layers if isinstance(g.feed_forward, Moe)}:
        tokens = math.ceil(math.log(0.05) / math.log(1 - moe.num_experts_per_tok / moe.num_experts))
        yield (
            f"mixture of experts: all {moe.num_experts} are resident, {moe.num_experts_per_tok} work on a token; "
            f"a step of {tokens:,} tokens already reads 95 % of them"
        )


def _demand(model: Model, request: FitRequest) -> Demand:
    context = request.context or min(CONTEXT, model.max_context or CONTEXT)
    source = float(context) if model.encoder and model.layers else 0.0
    return Demand(
        concurrency=float(request.concurrency or 1),
        context_tokens=float(context),
        shared_prefix_tokens=float(request.shared_prefix),
        source_tokens=source,
    )


def _engine(request: FitRequest, demand: Demand) -> Engine:
    """The engine as a user would start it: for the context asked for, not for the model's longest."""
    context = int(demand.context_tokens or CONTEXT)
    whole = context * int(demand.concurrency) if request.engine == "llamacpp" else context
    return Engine(
        name=request.engine,
        version=request.engine_version,
        max_model_len=whole,
        kv_offload_bytes=request.kv_offload_bytes,
    )


def _precision(model: Model, accelerator: Accelerator, *, request: FitRequest) -> tuple[Precision, tuple[str, ...]]:
    """Formats on this accelerator, with a note where it stores a format that it cannot multiply."""
    own = checkpoint_precision(model)
    if request.precision:
        weights = number_format(request.precision)
        sixteen = own.kv
        activations = sixteen if weights.weight_only or weights.bits >= 16 else weights.name
        own = Precision(weights=weights.name, kv=own.kv, activations=activations)
    if request.kv:
        own = msgspec.structs.replace(own, kv=number_format(request.kv).name)
    narrow = number_format(own.activations)
    notes: list[str] = []
    if narrow.bits < 16 and accelerator.peak(narrow.compute) is None:
        own = msgspec.structs.replace(own, activations=own.kv if number_format(own.kv).bits >= 16 else "bf16")
        notes.append(
            f"{accelerator.name} has no {narrow.compute} units: {narrow.name} saves memory, products run at 16 bits"
        )
    if number_format(own.weights).name == "bf16" and "bf16" not in accelerator.peaks and "fp16" in accelerator.peaks:
        notes.append(f"{accelerator.name} has no bf16 units: run it in fp16, which takes the same memory")
    return own, tuple(notes)


def _layout(request: FitRequest) -> Layout:
    return Layout(tp=request.tp or 1, pp=request.pp or 1, dp=request.dp or 1, ep=request.ep or 1)


def _arrangements(model: Model, accelerator: Accelerator, *, engine: str) -> Iterator[Layout]:
    """Ways to spread a model, fewest devices first: cut inside a node, then staged over nodes."""
    node = accelerator.max_per_node or 8
    if engine in LAYERED:
        yield from (Layout(pp=n) for n in (1, 2, 3, 4, 6, 8) if n <= node and legal(model, Layout(pp=n)).ok)
        return
    widest = 1
    for tp in (1, 2, 4, 8, 16, 32, 64):
        if tp <= node and legal(model, Layout(tp=tp)).ok:
            widest = tp
            yield Layout(tp=tp)
    for pp in (2, 3, 4, 6, 8):
        layout = Layout(tp=widest, pp=pp)
        if layout.ranks <= MOST_RANKS and legal(model, layout).ok:
            yield layout


def _largest(model: Model, accelerator: Accelerator, *, layout: Layout, request: FitRequest) -> tuple[Largest, ...]:
    """Largest context at the concurrency asked for, and largest concurrency at the context asked for."""
    demand = _demand(model, request)
    context, concurrency = int(demand.context_tokens or 0), int(demand.concurrency)
    if not _keeps(model):
        return ()

    def fits(changed: Mapping[str, int]) -> bool:
        tried = msgspec.structs.replace(request, **changed)
        return _try(model, accelerator, layout=layout, request=tried)[1].verdict.ok

    most, crowd = model.max_context or 2**24, 2**20
    own = "the model's own limit" if model.max_context else "nothing up to here"
    longest = largest_whole(lambda n: fits({"context": n}), most=most)
    widest = largest_whole(lambda n: fits({"concurrency": n}), most=crowd)
    plural = "s" if concurrency != 1 else ""
    return (
        Largest(
            what="context", value=float(longest), unit="tokens", given=f"{concurrency:,} request{plural}",
            binds="memory" if longest < most else own,
        ),
        Largest(
            what="concurrency", value=float(widest), unit="requests", given=f"{context:,} tokens each",
            binds="memory" if widest < crowd else "nothing up to here",
        ),
    )  # fmt: skip


def largest_whole(fits: Callable[[int], bool], *, most: int) -> int:
    """The largest whole number from 1 to `most` for which `fits` holds; 0 when not even 1 does. Fits is monotone."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while high < most and fits(high):
        low, high = high, high * 2
    if high >= most and fits(most):
        return most
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _remedies(
    model: Model, accelerator: Accelerator, *, request: FitRequest, largest: tuple[Largest, ...]
) -> Iterator[str]:
    """What would make it fit, the smallest change first; each was tried."""

    def holds(**changed: Any) -> FitRow | None:
        tried = msgspec.structs.replace(request, **changed)
        row, pool = _try(model, accelerator, layout=_layout(tried), request=tried)
        return row if pool.verdict.ok else None

    for found in reversed(largest):
        if found.what == "concurrency" and found.value >= 1:
            yield f"{found.value:,.0f} requests at once instead of {request.concurrency or 1:,}"
        if found.what == "context" and found.value >= 256:
            yield f"{found.value:,.0f} tokens of context instead of {_demand(model, request).context_tokens:,.0f}"
    if request.kv is None and request.engine not in {"exllamav2", "exllamav3"} and holds(kv="fp8"):
        yield "an 8-bit cache (--kv fp8)"
    bits = number_format(request.precision or checkpoint_precision(model).weights).bits
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


def _rules(model: Model, request: FitRequest, row: FitRow) -> tuple[Rule, ...]:
    if request.goal != "serve":
        from tonnage.planner.fit_train import training_rules

        return training_rules(model, request, row=row)
    held = row.precision.get("experts") or row.precision.get("weights", "bf16")
    weights = number_format(str(held))
    said = inference_rule_bytes(parameters=parameters(model).value, bits=weights.bits)
    real = row.memory.value * row.count
    stored = sum(part.value for part in row.memory.parts if part.name.startswith("weights")) * row.count
    cache = row.memory.part("KV cache") * row.count
    why = f"leaves out {show(cache, 'bytes')} of cache and {show(real - stored - cache, 'bytes')} of buffers"
    each = {4.0: "4", 2.0: "2", 1.0: "1", 0.5: "half a"}[said / max(parameters(model).value, 1.0)]
    return (
        Rule(name=f"{each} byte{'s' if each in '42' else ''} per parameter", rule_bytes=said, real_bytes=real, why=why),
        Rule(name="weights and 20 %", rule_bytes=1.2 * said, real_bytes=real, why="knows neither context nor requests"),
    )


def _assumed(model: Model, request: FitRequest) -> tuple[str, ...]:
    if request.goal != "serve":
        from tonnage.planner.fit_train import training_assumptions

        return training_assumptions(request)
    found = list(assumptions(Engine(name=request.engine, version=request.engine_version)))
    if request.context is None:
        found.append(f"context not given: {_demand(model, request).context_tokens:,.0f} tokens")
    if request.concurrency is None:
        found.append("concurrency not given: 1 request")
    if request.precision is None:
        found.append(f"precision not given: the checkpoint's own, {checkpoint_precision(model).weights}")
    return tuple(found)


def _sentence(model: Model, request: FitRequest, *, rows: tuple[FitRow, ...], too_small: int) -> str:
    what = f"{model.id} {_purpose(model, request)}"
    if not rows:
        return f"{what} fits none of the {too_small} accelerator types looked at, on up to {MOST_RANKS} of each."
    if not request.accelerators:
        first, on_one = rows[0], sum(row.count == 1 for row in rows)
        return (
            f"{what} needs {show(first.memory.value * first.count, 'bytes')}; the smallest that holds it is "
            f"{first.count} x {first.name}, and {on_one} of {len(rows) + too_small} accelerator types hold it alone."
        )
    row = next((row for row in rows if row.verdict.ok), rows[0])
    if request.solve is not None and row.verdict.ok:
        found = next(found for found in row.largest if found.what == request.solve)
        return (
            f"{what} on {row.count} x {row.name}: the largest {found.what} is {found.value:,.0f} {found.unit} "
            f"({found.given}; {found.binds} binds)."
        )
    where = f"{row.count} x {row.name}"
    need, limit = show(row.memory.value, "bytes"), show(row.limit_bytes, "bytes")
    each = " on each" if row.count > 1 else ""
    if row.verdict.ok:
        return f"{what} fits {where}: {need} of {limit} usable{each}, {show(row.free_bytes, 'bytes')} free."
    short = show(row.verdict.short_by or 0.0, "bytes")
    return f"{what} does not fit {where}: short by {short}{each} of {limit} usable; nearest: {row.verdict.nearest}."


def _purpose(model: Model, request: FitRequest) -> str:
    if request.goal != "serve":
        from tonnage.planner.fit_train import purpose

        return purpose(request)
    demand = _demand(model, request)
    count, context = demand.concurrency, demand.context_tokens
    weights = request.precision or _weights_name(checkpoint_precision(model))
    if request.solve is not None:
        return f"in {weights}"
    return f"in {weights} with {count:,.0f} request{'s' if count != 1 else ''} of {context:,.0f} tokens"


def _check_context(model: Model, request: FitRequest) -> None:
    length, field = (request.context, "context") if request.goal == "serve" else (request.seq_len, "seq-len")
    most = model.max_context
    if length is not None and most is not None and length > most and not request.extend_context:
        raise BadRequest(
            f"{field}: {length:,} tokens exceed the {most:,} that {model.id} is made for; give at most {most:,}, or "
            f"--extend-context if its positions are stretched (RoPE scaling)"
        )


def _check_layout(model: Model, request: FitRequest) -> None:
    layout = _layout(request)
    verdict = legal(model, layout)
    if not verdict.ok:
        raise BadRequest(f"{verdict.limit}: {verdict.reason}; the nearest that works is {verdict.nearest}")
    if not model.layers and not model.encoder:
        raise BadRequest(
            f"{model.id} is no language model: it keeps no cache; its memory by batch is answered by `tonnage predict`"
        )
