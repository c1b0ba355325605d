"""What must be resident, does it fit, and what is the largest x that still does?

A model against accelerators: rows (`serving.py`, `training.py`), rules of thumb beside them, and the sentence that
answers. "Which model?" is answered by those that people can download, ranked by a published score where there is one
and by size behind them; and by the size of the largest dense decoder, found by bisection over bare sizes ("13B").
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions, model_name
from tonnage.catalog.engines import formats, names_parts_of
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.published import downloads
from tonnage.catalog.standings import TASKS, Task, order_of, score_text, standing
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.layout import Engine
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision, number_format
from tonnage.engines.registry import assumptions, engine_name, unsupported_reason
from tonnage.errors import BadRequest
from tonnage.optimize.largest import largest_whole
from tonnage.optimize.layouts import legal
from tonnage.physics.memory import checkpoint_precision
from tonnage.physics.parameters import active_parameters, parameters
from tonnage.physics.rules import inference_rule_bytes
from tonnage.questions.fit.question import FitAnswer, FitRequest, FitRow, Largest, Rule
from tonnage.questions.fit.serving import (
    CONTEXT,
    MAX_RANKS,
    check_layout,
    demand_of,
    holds_it,
    layout_of,
    serving_row,
    smallest_serving,
)
from tonnage.questions.fit.training import (
    PRECISION,
    is_network,
    network_row,
    purpose,
    samples_of,
    smallest_network,
    smallest_training,
    training_assumptions,
    training_row,
    training_rules,
)
from tonnage.units import plural, show
from tonnage.version import __version__

SEGMENTS: Final = ("datacenter", "workstation", "consumer")
"""What is looked through when no accelerator is named."""

Row = Callable[[Accelerator], FitRow]

Search = Callable[[Accelerator], FitRow | None]


def fit_model(model: Model, request: FitRequest, *, additions: Additions = NOTHING) -> FitAnswer:
    """
    The answer to a fit request about a model that was looked up before.

    Each named accelerator has its row, whether it fits or not. Without a name the usual types are tried, each with the
    smallest count that holds the job; types that no count holds have no row and are counted in `too_small`.
    """
    _check_context(model, request)
    _check_samples(model, request)
    named = [catalog.predictable_accelerator(name, additions) for name in request.accelerators]
    said = [catalog.ambiguity(name, additions) for name in request.accelerators] + [*map(catalog.status_note, named)]
    row, search = _faces(model, request, additions=additions)
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
        assumed=(*model.assumed, *filter(None, said), *_assumptions(model, request)),
        too_small=too_small,
    )


def _usual(accelerator: Accelerator, request: FitRequest) -> bool:
    """
    Whether a type is tried when no accelerator is named: on sale, and the engine runs on it in the format asked for.

    A part whose formats no source names is tried unless sources name other parts of its vendor. Training and
    fine-tuning ask for no engine, and are not tried on Apple parts.
    """
    if accelerator.status != "released":
        return False
    if request.goal != "serve":
        return accelerator.vendor != "Apple"
    if unsupported_reason(request.engine, accelerator) is not None:
        return False
    listed = formats(engine_name(request.engine), accelerator)
    wanted = None if request.precision is None else number_format(request.precision).name
    if not listed:
        return not names_parts_of(engine_name(request.engine), accelerator.vendor)
    return wanted is None or wanted in listed or "*" in listed


def _faces(model: Model, request: FitRequest, *, additions: Additions) -> tuple[Row, Search]:
    """How one named accelerator is answered, and how the smallest count of an unnamed one is found."""
    if request.goal == "serve" and is_network(model):
        return (
            partial(network_row, model, request=request, additions=additions),
            partial(smallest_network, model, request=request, additions=additions),
        )
    if request.goal == "serve":
        check_layout(model, request)
        return partial(serving_row, model, request=request), partial(smallest_serving, model, request=request)
    return partial(training_row, model, request=request), partial(smallest_training, model, request=request)


def _rules(model: Model, request: FitRequest, row: FitRow) -> tuple[Rule, ...]:
    """Rules of thumb for the kind of job of a row, beside what its accelerators need together."""
    if request.goal != "serve":
        return training_rules(model, request, row=row)
    if is_network(model):
        held = row.memory.part("weights")
        return (
            Rule(
                name="weights and 20 %",
                rule_bytes=1.2 * held,
                real_bytes=row.memory.value,
                why="knows neither the batch nor what the framework takes",
            ),
        )
    # A mixture of experts has most of its weights in the experts: the rule is that of their format.
    stored = number_format(str(row.precision.get("experts") or row.precision.get("weights", "bf16")))
    rule_bytes = inference_rule_bytes(parameters=parameters(model).value, bits=stored.bits)
    real = row.memory.value * row.count
    weights = row.memory.weights * row.count
    cache = row.memory.part("KV cache") * row.count
    why = f"leaves out {show(cache, 'bytes')} of cache and {show(real - weights - cache, 'bytes')} of buffers"
    each = {4.0: "4", 2.0: "2", 1.0: "1", 0.5: "half a"}[rule_bytes / max(parameters(model).value, 1.0)]
    name = f"{each} byte{'s' if each in '42' else ''} per parameter"
    return (
        Rule(name=name, rule_bytes=rule_bytes, real_bytes=real, why=why),
        Rule(
            name="weights and 20 %",
            rule_bytes=1.2 * rule_bytes,
            real_bytes=real,
            why="knows neither context nor requests",
        ),
    )


def _assumptions(model: Model, request: FitRequest) -> tuple[str, ...]:
    """What the request leaves open and what is taken instead, a sentence each."""
    if request.goal != "serve":
        return training_assumptions(model, request)
    if is_network(model):
        told = request.batch or request.concurrency or request.solve
        said = [] if told else ["batch not given: 1 sample"]
        return (*said, *(() if request.precision else (f"precision not given: {PRECISION}",)))
    found = list(assumptions(Engine(name=request.engine, version=request.engine_version)))
    if request.context is None:
        found.append(f"context not given: {demand_of(model, request).context_tokens:,.0f} tokens")
    if request.concurrency is None:
        found.append("concurrency not given: 1 request")
    if request.precision is None:
        found.append(f"precision not given: the checkpoint's own, {checkpoint_precision(model).weights}")
    return tuple(found)


def _sentence(model: Model, request: FitRequest, *, rows: tuple[FitRow, ...], too_small: int) -> str:
    """
    The answer in one sentence: of the first named accelerator that fits, else of the first named one.

    Without a named accelerator it tells the smallest that fits (the first row), or that none does.
    """
    what = f"{model_name(model.id)} {_purpose(model, request)}"
    if not rows:
        return f"{what} fits none of the {too_small} accelerator types looked at, on up to {MAX_RANKS} of each."
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
    """Format and load in a few words, for the sentence; the format alone where the load is what is looked for."""
    if request.goal != "serve":
        return purpose(model, request)
    if is_network(model):
        batch = "" if request.solve else f" with a batch of {samples_of(request):,}"
        return f"in {request.precision or PRECISION}{batch}"
    demand = demand_of(model, request)
    count, context = demand.concurrency, demand.context_tokens
    weights = request.precision or _weights_name(checkpoint_precision(model))
    if request.solve is not None:
        return f"in {weights}"
    return f"in {weights} with {plural(count, 'request')} of {context:,.0f} tokens"


def _weights_name(precision: Precision) -> str:
    """The weight format as people say it, with that of the experts where it differs."""
    if precision.experts in {None, precision.weights}:
        return precision.weights
    return f"{precision.weights} (experts {precision.experts})"


def _check_context(model: Model, request: FitRequest) -> None:
    """A context or a training sequence is no longer than the model is made for, where that is known, unless meant."""
    length, field = (request.context, "context") if request.goal == "serve" else (request.seq_len, "seq-len")
    most = model.max_context
    if length is not None and most is not None and length > most and not request.extend_context:
        raise BadRequest(
            f"{field}: {length:,} tokens exceed the {most:,} that {model.id} is made for; give at most {most:,}, or "
            f"--extend-context if its positions are stretched (RoPE scaling)"
        )


def _check_samples(model: Model, request: FitRequest) -> None:
    """A batch and a resolution are of models that read images or audio whole, or of training."""
    if is_network(model):
        if request.solve == "seq-len":
            raise BadRequest(f"--solve seq-len: {model.id} has no sequence; choose batch")
        if request.goal == "serve" and request.batch is not None and request.concurrency is not None:
            raise BadRequest("batch and concurrency are both the samples of a batch; drop one of the two")
        return
    if request.goal != "serve":
        return
    if request.batch is not None or request.solve == "batch":
        raise BadRequest(
            f"batch belongs to training, and this asks about serving; for {model.id} give --concurrency (or say "
            "--train, or --finetune lora)"
        )
    if request.resolution is not None:
        raise BadRequest(f"resolution: {model.id} reads tokens; give --context, those of one input")


LANGUAGE: Final = ("llm", "llm-moe", "hybrid", "hybrid-moe", "ssm", "vlm")
MAX_BILLIONS: Final = 4000
SHOWN: Final = 8
"""Models that are named in the answer."""


def largest_model(request: FitRequest, *, additions: Additions) -> FitAnswer:
    """
    Downloadable models that fit one accelerator, best first; the first is answered in full.

    They come with the size of the largest dense decoder that fits, in whole billions of parameters.

    Raises
    ------
    BadRequest
        Not exactly one accelerator is named, or none of the models fits it.
    """
    if len(request.accelerators) != 1:
        raise BadRequest("--solve model needs exactly one --accelerator to fill")
    named = catalog.predictable_accelerator(request.accelerators[0], additions)
    known = _downloadable(request.task, additions=additions)
    found = [model for model in known if _model_fits(model, named, request)]
    if not found:
        raise BadRequest(
            f"no language model of the catalogue fits {named.name}; ask about one with `tonnage fit MODEL`"
        )
    billions = largest_whole(lambda n: _model_fits(_bare(n, additions), named, request), most=MAX_BILLIONS)
    best = found[0]
    answer = fit_model(best, replace(request, model=best.id, solve=None), additions=additions)
    sizes = [_model_size(model, given=_score(model, request.task)) for model in found[:SHOWN]]
    sizes.append(
        Largest(
            what="model", value=billions * 1e9, unit="parameters", binds="memory", name=f"{billions}B dense decoder"
        )
    )
    rows = tuple(replace(row, largest=(*sizes, *row.largest)) for row in answer.rows)
    return replace(
        answer,
        sentence=_models_sentence(found, request.task, known=len(known), named=named, billions=billions),
        rows=rows,
        request=request,
    )


def _downloadable(task: Task, *, additions: Additions) -> list[Model]:
    """
    Language models with known layers that people can download, and the user's own: those that a published score of the
    task places first, the others by size, the largest first.
    """
    every = catalog.models(additions)
    shipped = catalog.models()
    own = [model for id, model in every.items() if id not in shipped]
    wanted = [*(every[download.model] for download in downloads()), *own]
    fitting = [model for model in wanted if model.kind in LANGUAGE and model.layers]
    return sorted(fitting, key=lambda model: (order_of(standing(model.id, task)), -parameters(model).value))


def _model_fits(model: Model, accelerator: Accelerator, request: FitRequest) -> bool:
    """
    Whether a model fits: trained on the count asked for (one if open), or served in the degrees asked for.

    A context that is left open is `CONTEXT`, or the model's own where that is shorter; one that the model is not made
    for does not fit unless the request extends it.
    """
    if request.goal != "serve":
        job = replace(request, solve=None, count=request.count or 1)
        return smallest_training(model, accelerator, request=job) is not None
    own = model.max_context or CONTEXT
    context = request.context or min(CONTEXT, own)
    if context > own and not request.extend_context:
        return False
    if not legal(model, layout_of(request)).ok:
        return False
    return holds_it(model, accelerator, request=replace(request, context=context))


def _model_size(model: Model, *, given: str) -> Largest:
    return Largest(
        what="model", value=parameters(model).value, unit="parameters", binds="memory", given=given, name=model.id
    )


def _score(model: Model, task: Task) -> str:
    stands = standing(model.id, task)
    return f"{TASKS[task][0]} {score_text(stands)}" if stands else ""


def _models_sentence(found: list[Model], task: Task, *, known: int, named: Accelerator, billions: int) -> str:
    best, largest = found[0], max(found, key=lambda model: parameters(model).value)
    by = f"by published {TASKS[task][0]}" if standing(best.id, task) else "by size"
    beside = (
        "" if largest is best else f", the largest {model_name(largest.id)} ({parameters(largest).value / 1e9:,.3g} B)"
    )
    return (
        f"{len(found)} of {known} downloadable models fit 1 x {named.name}: the best {by} is {model_name(best.id)} "
        f"({parameters(best).value / 1e9:,.3g} B parameters){beside}; a dense decoder may have up to {billions} B."
    )


def _bare(billions: int, additions: Additions) -> Model:
    return resolve(f"{billions}B", additions=additions, offline=True)


def fit(request: FitRequest, *, additions: Additions = NOTHING, offline: bool | None = None) -> FitAnswer:
    """The answer to a fit request: names looked up, each accelerator tried, largest values and remedies found."""
    if request.solve == "model":
        return largest_model(request, additions=additions)
    return fit_model(resolve(request.model, additions=additions, offline=offline), request, additions=additions)
