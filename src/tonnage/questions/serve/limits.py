"""Which formats a site may run a model in, and why a configuration cannot serve: one verdict for each limit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from tonnage.catalog import part_name, parts_name
from tonnage.catalog.checkpoints import Checkpoint, published_in
from tonnage.catalog.engines import formats, support
from tonnage.core.header import Infeasible, Nearness
from tonnage.core.quality import FOUR_BITS, usual_formats
from tonnage.core.replica import Replica
from tonnage.core.sites import Site, none_passes
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Verdict
from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.model import Model
from tonnage.domain.plan import Configuration, Rejection, ServeOption
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.refusal import refusal
from tonnage.domain.requests.common import Slo
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.engines.registry import defaults, engine_spec, engine_title, planned_engines, release_of, resolve_engine
from tonnage.errors import BadRequest
from tonnage.optimize.layouts import replica_layouts
from tonnage.physics.memory import stored_bytes
from tonnage.simulation.capacity import Point
from tonnage.simulation.kvcache import Demand, kv_pool, longest_bytes
from tonnage.units import show

SPLIT: Final = 0.5
"""Of one accelerator's memory: weights beyond it are split into pipelines within a node, too. [-]"""
AS_PAID: Final = frozenset({"on-demand", "spot"})
"""Terms that are compared by what they cost."""


def check_context(model: Model, request: Serve) -> None:
    """Refuse lengths that the model cannot take."""
    longest = request.max_context or math.ceil(request.lengths.prompt_tokens + request.lengths.output_tokens)
    if model.max_context is not None and longest > model.max_context:
        raise BadRequest(
            f"context: {longest:,} tokens exceed the {model.max_context:,} that {model.id} was made for; "
            f"shorten prompt_tokens + output_tokens or choose a longer-context model"
        )


def precisions(
    request: Serve, model: Model, *, accelerator: Accelerator, engine: str, startable: bool = True
) -> tuple[Precision, ...]:
    """
    Formats worth looking at that the engine has kernels for there: the user's, else the usual ones.

    FP8 and four bits are looked at by default, the latter where the part multiplies them, and the plan says what is
    published of their quality. Of those that the request does not name, either the ones that the engine can start from
    the model's checkpoint, or of eight bits from one that is published, or (`startable` false) the others.
    """
    names = request.precisions or usual_formats(request.model, model)
    found = (_precision(name, request, model, accelerator=accelerator, engine=engine) for name in names)
    worth = [p for p in found if p is not None and (request.precisions or p.weights != FOUR_BITS or _native(p))]
    if not request.precisions:
        worth = [p for p in worth if starts(p, request, model=model, engine=engine) is startable]
    return tuple(dict.fromkeys(worth))


def configurations(
    request: Serve, model: Model, *, site: Site, engine: str, most: int, domain: int = 0, startable: bool
) -> Iterator[list[Configuration]]:
    """
    What an engine may run on a site: for each of the `precisions`, replicas of at most so many ranks, small ones first.

    `domain` is as `replica_layouts` takes it.
    """
    part, layered = site.accelerator, engine_spec(engine).layered
    for precision in precisions(request, model, accelerator=part, engine=engine, startable=startable):
        large = stored_bytes(model, precision) > SPLIT * part.memory_bytes
        yield [
            Configuration(
                accelerator=part.id,
                layout=layout,
                precision=precision,
                engine=_engine(request, model, accelerator=part, engine=engine, layout=layout, precision=precision),
                intra_link=site.intra_link,
            )
            for layout in replica_layouts(
                model, part, per_node=site.per_node, max_ranks=most, layered=layered, domain=domain, pipelines=large
            )
        ]


def _engine(
    request: Serve, model: Model, *, accelerator: Accelerator, engine: str, layout: Layout, precision: Precision
) -> Engine:
    """
    The engine with its settings; where every slot's cache is allocated at the start (llama.cpp), with as many slots as
    memory has room for, in powers of two: more wait for none, and decode in one step.

    A slot holds the longest request, or where none is stated the context that the engine takes by itself.
    """
    plain = Engine(name=engine, max_model_len=request.max_context)
    spec = engine_spec(engine)
    if spec.memory.kind != "cells":
        return plain
    filled = defaults(plain, accelerator, model=model, layout=layout)
    mean = math.ceil(request.lengths.prompt_tokens + request.lengths.output_tokens)
    each = request.max_context or max(filled.max_model_len or 0, mean)
    slots = spec.memory.most_slots
    while True:
        asked = replace(plain, max_num_seqs=slots, max_model_len=slots * each)
        running = resolve_engine(defaults(asked, accelerator, model=model, layout=layout))
        demand = Demand(concurrency=slots, context_tokens=each)
        fits = kv_pool(model, accelerator, precision=precision, engine=running, layout=layout, demand=demand).verdict.ok
        if fits or slots == 1:
            return asked
        slots //= 2


def starts(precision: Precision, request: Serve, *, model: Model, engine: str) -> bool:
    """Whether the engine runs these weights from the model's own checkpoint, or from a published one of eight bits."""
    stored = model.quantization or model.native_dtype
    if precision.experts is not None or engine_spec(engine).loads(precision.weights, stored=stored):
        return True
    name = precision.weights
    eight = number_format(name).bits >= 8 and number_format(stored).bits >= 16
    return eight and published_in(request.model, id=model.id, stored=name, engine=engine) is not None


def _native(precision: Precision) -> bool:
    """Products are computed in the format of the weights."""
    return precision.activations == precision.weights


def _precision(name: str, request: Serve, model: Model, *, accelerator: Accelerator, engine: str) -> Precision | None:
    """
    The formats a deployment with these weights runs in; None when the engine has no kernels there for weights or
    experts. Products are in 16 bits where the engine or the part has none narrower.
    """
    stored = number_format(name)
    # A part without bf16 runs the same checkpoint in fp16, at the same size.
    sixteen = "bf16" if support(engine, accelerator, weights="bf16") else "fp16"
    weights = sixteen if stored.name in {"bf16", "fp16"} else stored.name
    experts = model.experts_dtype if not request.precisions else None
    runs = [support(engine, accelerator, weights=part) for part in (weights, experts) if part is not None]
    if any(kernels is None for kernels in runs):
        return None
    multiplied = number_format(experts or weights)
    at_16_bits = multiplied.weight_only or multiplied.bits >= 16 or any(k is not None and k.at_16_bits for k in runs)
    return Precision(
        weights=weights,
        activations=sixteen if at_16_bits else multiplied.name,
        kv=request.kv_precision or sixteen,
        experts=experts,
    )


def needs_checkpoint(
    request: Serve | Batch,
    model: Model,
    *,
    first: ServeOption | BatchOption,
    options: Sequence[ServeOption | BatchOption],
) -> tuple[Rejection, ...]:
    """
    The first of `options`, which need another checkpoint than the model's own, with its price and what is published,
    where it is sure and costs less than the plan's first; else empty.
    """
    found = options[0] if options and options[0].sure else None
    if found is None or found.cost.value >= first.cost.value:
        return ()
    run, weights = found.configuration, found.configuration.precision.weights
    price = show(found.cost.value, found.cost.unit)
    named = published_for(run, request=request, model=model)
    reason = f"loads {named.checkpoint}" if named else f"needs a checkpoint in {weights} (none is known)"
    verdict = refusal("checkpoint", f"about {price}, {reason}", nearest=f"precision {weights}")
    return (Rejection(what=parts_name(found.accelerators, run.accelerator), verdict=verdict),)


def published_for(run: Configuration, *, request: Serve | Batch, model: Model) -> Checkpoint | None:
    """The published checkpoint of the weights of a configuration that its engine reads; None where none is known."""
    return published_in(request.model, id=model.id, stored=run.precision.stored, engine=run.engine.name)


def unmade(run: Configuration, *, request: Serve | Batch, model: Model) -> bool:
    """No checkpoint is known that the engine loads these weights from: somebody has to quantise one first."""
    return _not_the_models_own(run, model) and published_for(run, request=request, model=model) is None


def unmade_text(run: Configuration) -> str:
    """What the weights of a configuration ask for first, where they are `unmade`."""
    return f"no checkpoint in {run.precision.stored} is known: quantise one first"


def _not_the_models_own(run: Configuration, model: Model) -> bool:
    own = run.precision.experts is not None and run.precision.experts == model.experts_dtype
    stored = model.quantization or model.native_dtype
    return not own and not engine_spec(run.engine.name).loads(run.precision.weights, stored=stored)


def other_checkpoints(
    options: Iterable[ServeOption | BatchOption], *, request: Serve | Batch, model: Model
) -> dict[str, dict[str, str | None]]:
    """
    What the options load and run beside the planned model.

    `checkpoints`: by weight format those of the options that do not start from the model's own: an id, None where none
    is known; absent where all do. One engine's: the first option's of each format. `checkpoint_terms`: the size and
    licence of those that are known. `engines`: the release of each engine, which predictions, images and flags are of.
    """
    found, releases = dict[str, Checkpoint | None](), dict[str, str | None]()
    for run in (option.configuration for option in options):
        if _not_the_models_own(run, model):
            found.setdefault(run.precision.stored, published_for(run, request=request, model=model))
        if release := release_of(run.engine.name, run.engine):
            releases[run.engine.name] = release
    facts: dict[str, dict[str, str | None]] = {
        "checkpoints": {stored: one.checkpoint if one else None for stored, one in found.items()},
        "checkpoint_terms": {stored: one.terms for stored, one in found.items() if one},
        "engines": releases,
    }
    return {name: known for name, known in facts.items() if known}


def missed_memory(missed: Sequence[Infeasible]) -> bool:
    """Whether a single accelerator was too small for something."""
    return any(miss.verdict.limit in {"memory", "cache"} and miss.configuration.layout.ranks == 1 for miss in missed)


def what_stops(missed: Sequence[Infeasible], excluded: Sequence[Rejection], *, by: Nearness) -> Verdict:
    """
    When nothing serves: the verdict of the configuration that came closest, or of the filters where no configuration
    was tried. Where speed is what stops, it says the best latencies that any reached.
    """
    if not missed:
        return none_passes(excluded)
    named = {miss.verdict.limit for miss in missed}
    if named <= {"memory", "cache", "offer", "tp"}:
        return min(missed, key=by).verdict
    reachable = [miss for miss in missed if miss.alone is not None]
    if reachable and not any(miss.verdict.limit in {"budget", "count"} for miss in missed):
        return unreachable_text(reachable)
    return min(missed, key=by).verdict


def without_kernels(request: Serve, site: Site, *, engine: str) -> Infeasible:
    """The verdict on a site where the engine runs none of the formats, on a configuration that stands for all."""
    weights = request.precisions[0] if request.precisions else "any format"
    configuration = Configuration(
        accelerator=site.accelerator.id,
        layout=Layout(),
        precision=Precision(weights=weights),
        engine=Engine(name=engine),
    )
    return Infeasible(configuration=configuration, verdict=no_kernels(request, site, engine=engine))


def no_kernels(request: Serve, site: Site, *, engine: str) -> Verdict:
    """The verdict that the engine does not run there at all, or not in the formats asked for."""
    runs = formats(engine, site.accelerator)
    if not runs:
        part = f"{part_name(site.accelerator.id)} ({site.accelerator.architecture})"
        reason = f"{engine} on {part} is unverified: no source of ours shows it"
        anywhere = (name for name in planned_engines() if engine_spec(name).vendors is None and name != engine)
        others = sorted(name for name in anywhere if formats(name, site.accelerator))
        nearest = f"engine {' or '.join(others)}" if others else "another accelerator"
        return refusal("engine", reason, nearest=nearest)
    asked = ", ".join(request.precisions) or "the checkpoint's format"
    known = ", ".join(sorted(runs))
    return refusal(
        "engine",
        f"{engine} with {asked} on {part_name(site.accelerator.id)} is unverified: no source of ours shows it",
        nearest=known,
    )


def misses_context(request: Serve, replica: Replica) -> Verdict | None:
    """
    Why a request of the longest context asked for does not fit the cache; None where it does, or none is asked for.

    An engine refuses to start with a context that its whole cache cannot hold once.
    """
    if request.max_context is None:
        return None
    at, pool = replica.placement, replica.pool
    speculation = at.speculation
    demand = Demand(
        context_tokens=float(request.max_context), drafter=speculation.drafter if speculation is not None else None
    )
    one = longest_bytes(at.model, at.precision, layout=replica.memory_layout, engine=replica.running, demand=demand)
    if one <= pool.free_bytes:
        return None
    return too_little_cache(request.max_context, request.max_context * max(0.0, pool.free_bytes) / one)


def too_little_cache(need: float, kv_tokens: float) -> Verdict:
    """The pool holds less than one request of `need` tokens."""
    return refusal(
        "cache",
        f"{kv_tokens:,.0f} tokens of KV cache are left and one request needs {need:,.0f}",
        short_by=need - kv_tokens,
        nearest="more accelerators per replica, fewer bits per weight, or shorter requests",
    )


def misses_objective(slo: Slo, alone: Point, *, limit: str) -> Verdict:
    """
    The verdict that even a single request misses an objective at the percentile; `limit` is "ttft", "tpot" or "e2e".
    """
    reached = {"ttft": alone.ttft_tail_s, "tpot": alone.tpot_tail_s, "e2e": alone.e2e_tail_s}[limit]
    wanted = {"ttft": slo.ttft_s, "tpot": slo.tpot_s, "e2e": slo.e2e_s}[limit] or 0.0
    return refusal(
        limit,
        f"a request alone takes {limit.upper()} {show(reached, 's')}, above the {show(wanted, 's')} asked for",
        short_by=reached - wanted,
        nearest=f"{limit.upper()} {show(reached, 's')}",
        unit="s",
    )


def unreachable_text(missed: Sequence[Infeasible]) -> Verdict:
    """No configuration meets the objectives: the best each latency reaches, and where."""
    alone = [
        (miss.alone, miss.configuration.label(part_name, engine_title)) for miss in missed if miss.alone is not None
    ]
    ttft, ttft_on = min((point.ttft_tail_s, label) for point, label in alone)
    tpot, tpot_on = min((point.tpot_tail_s, label) for point, label in alone)
    nearest = f"TTFT {show(ttft, 's')} on {ttft_on}, TPOT {show(tpot, 's')} on {tpot_on}"
    latency = [miss.verdict for miss in missed if miss.alone is not None]
    closest = min(latency, key=lambda verdict: verdict.short_by or 0.0)
    return replace(closest, reason=f"no accelerator is fast enough; {closest.reason}", nearest=nearest)


def most_compared(request: Serve) -> float:
    """
    What a fleet within the budget is compared by, at most; infinite without one, and where a commitment is allowed,
    which is compared by more than it costs. [USD/h]
    """
    if request.budget_usd_per_h is None or not AS_PAID.issuperset(request.filters.terms):
        return math.inf
    return math.nextafter(request.budget_usd_per_h, math.inf)


def beyond_limits(request: Serve, accelerators: int, *, usd_per_h: float) -> Verdict | None:
    """Whether a plan exceeds the count or the budget of the request, and by how much; None where it keeps both."""
    most = request.filters.max_count
    if most is not None and accelerators > most:
        return refusal(
            "count",
            f"the load needs {accelerators} accelerators and at most {most} are allowed",
            short_by=float(accelerators - most),
            nearest=f"a limit of {accelerators} accelerators",
        )
    budget = request.budget_usd_per_h
    if budget is not None and usd_per_h > budget:
        cost = show(usd_per_h, "USD/h")
        return refusal(
            "budget",
            f"{accelerators} accelerators cost {cost}, above {show(budget, 'USD/h')}",
            short_by=usd_per_h - budget,
            nearest=f"budget {cost}",
            unit="USD/h",
        )
    return None


def too_dear(least: float, *, best: float, times: float, count: int | None = None) -> Verdict:
    """
    What it costs is over `times` the plan's cost: of the smallest replica that was left out [USD/h], or with `count` of
    as many accelerators as the load needs.
    """
    what = f"{show(least, 'USD/h')} or more" if count is None else show(least, "USD/h")
    who = "a replica costs" if count is None else f"the {count:,} that the load needs cost"
    return refusal(
        "cost",
        f"{who} {what}, over {times:g} times the plan's {show(best, 'USD/h')}",
        short_by=least - times * best,
        nearest="name the accelerator alone to see it",
        unit="USD/h",
    )


def no_offer(site: Site, configuration: Configuration, *, accelerators: int | None = None) -> Verdict:
    """
    No instance holds a replica of this size, or with `accelerators` for the whole load, more are needed than the site
    has in stock.
    """
    stock, need = site.stock, accelerators or configuration.layout.ranks
    if stock is not None and need > stock:
        return refusal(
            "count",
            f"the load needs {need} {part_name(site.accelerator.id)} and {stock} are there",
            short_by=float(need - stock),
            nearest=f"{need} of them, or `tonnage plan own` with this load, which says what to rent beside",
        )
    return refusal(
        "offer",
        f"no offer holds a replica of {configuration.layout.ranks} {part_name(site.accelerator.id)}",
        nearest=f"at most {site.largest_offer} per instance",
    )
