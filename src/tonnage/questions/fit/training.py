"""
Does a training or fine-tuning job, or a batch through a model without layers, fit, and what would make it?

The rows of `tonnage fit --train` and `--finetune`: each a `TrainCase` whose open degrees `train.setup` chooses, its
peak memory from `physics/training_memory.py`, the larger batch and sequence that still fit, and remedies that were
tried.

A model without layers keeps nothing between requests: what is resident is weights and the activations of the batch
that runs. `--batch` (or `--concurrency`) is the samples of that batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from tonnage.catalog import NOTHING, Additions
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.case import InferCase, TrainCase, TrainCaseLayout
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.refusal import refusal
from tonnage.domain.training import Method, Recompute
from tonnage.errors import BadRequest
from tonnage.optimize.largest import largest_whole
from tonnage.physics.memory import checkpoint_precision, weight_bytes
from tonnage.physics.parameters import parameters
from tonnage.physics.rules import adapter_rule_bytes, training_rule_bytes
from tonnage.questions.fit.question import FitRequest, FitRow, Largest, Rule
from tonnage.questions.fit.serving import with_solution
from tonnage.units import percent, plural, show, whole_percent

if TYPE_CHECKING:
    from tonnage.questions.train.setup import Chosen

SEQ_LEN: Final = 2048
"""Sequence length when none is given; said in the answer. [tokens]"""
_MOST: Final = 4096
"""Largest batch looked at."""
_SHORT: Final = 512
"""Shortest sequence that is offered in place of one that does not fit, and the step of longer ones. [tokens]"""
Choose = Callable[[FitRequest, int], "Chosen"]
COUNTS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
ADAPTERS: Final = ("lora", "qlora", "dora")


def training_row(model: Model, accelerator: Accelerator, *, request: FitRequest) -> FitRow:
    """
    One accelerator type, as many as asked for, or as the degrees asked for take, with largest values and remedies.

    Where the request solves for the largest batch or sequence, the row is that of the largest.
    """
    count = request.count or _least_count(request)
    choose = partial(_choose, model, accelerator)
    chosen = choose(request, count)
    row = _row(chosen)
    row = msgspec.structs.replace(row, notes=(*row.notes, _trade(choose, request, count)))
    largest = _largest(choose, request, chosen)
    solved = with_solution(request, largest)
    if solved is not request:
        row = _row(choose(solved, count))
    if row.verdict.ok:
        return msgspec.structs.replace(row, largest=largest)
    remedies = tuple(_remedies(choose, request, chosen))
    nearest = remedies[0] if remedies else f"nothing up to {COUNTS[-1]} accelerators"
    verdict = msgspec.structs.replace(row.verdict, nearest=nearest)
    return msgspec.structs.replace(row, largest=largest, remedies=remedies, verdict=verdict)


def smallest_training(model: Model, accelerator: Accelerator, *, request: FitRequest) -> FitRow | None:
    """The smallest count up to 64 that holds the job, or the count asked for; absent when none does."""
    for count in (request.count,) if request.count else COUNTS[:7]:
        if count % _least_count(request):
            continue
        chosen = _choose(model, accelerator, request, count)
        if chosen.fits:
            return _row(chosen)
    return None


def training_rules(model: Model, request: FitRequest, *, row: FitRow) -> tuple[Rule, ...]:
    """The rules people quote for this kind of job beside the real need of all its accelerators."""
    real = row.memory.value * row.count
    values = parameters(model).value
    kept = show(row.memory.part("activations") * row.count, "bytes")
    if _method(request) in ADAPTERS:
        base = Precision(weights="nf4") if _method(request) == "qlora" else checkpoint_precision(model)
        held = weight_bytes(model, base).value
        return tuple(
            Rule(
                name=f"base model and {percent(share)}",
                rule_bytes=adapter_rule_bytes(base_bytes=held, share=share),
                real_bytes=real,
                why=f"ignores activations, here {kept}",
            )
            for share in (0.10, 0.20)
        )
    return tuple(
        Rule(
            name=f"{16 + 2 * wide} bytes per parameter",
            rule_bytes=training_rule_bytes(parameters=values, fp32_gradients=wide),
            real_bytes=real,
            why=f"leaves out activations, here {kept}" + (f" on {row.count} accelerators" if row.count > 1 else ""),
        )
        for wide in (0, 1)
    )


def training_assumptions(model: Model, request: FitRequest) -> tuple[str, ...]:
    """What was not said and had to be chosen."""
    found = []
    if request.batch is None:
        found.append(f"batch not given: 1 {_sample(model)} per accelerator and step")
    if request.seq_len is None and not is_network(model):
        found.append(f"sequence length not given: {SEQ_LEN:,} tokens")
    if request.precision is None:
        found.append("precision not given: bf16 products")
    return tuple(found)


def purpose(model: Model, request: FitRequest) -> str:
    """The job in a few words, for the sentence."""
    how = {"pretrain": "trained", "full": "fine-tuned in full"}.get(
        _method(request), f"fine-tuned with {request.method}"
    )
    if request.solve is not None:
        return f"{how} in {request.precision or 'bf16'}"
    batch, length = request.batch or 1, f"{request.seq_len or SEQ_LEN:,} tokens"
    each = plural(batch, "sample") if is_network(model) else f"{batch} x {length}"
    return f"{how} in {request.precision or 'bf16'} with {each} per accelerator"


def _sample(model: Model) -> str:
    """What a batch counts."""
    return "sample" if is_network(model) else "sequence"


def _method(request: FitRequest) -> Method:
    return cast("Method", "pretrain" if request.goal == "train" else request.method)


def _least_count(request: FitRequest) -> int:
    """Accelerators that the degrees asked for need; counts are multiples of it."""
    return (request.tp or 1) * (request.pp or 1) * (request.dp or 1)


def _choose(model: Model, accelerator: Accelerator, request: FitRequest, count: int) -> Chosen:
    """The job's setup; recomputation is part of the choice unless it is said."""
    from tonnage.questions.train.setup import resolve_setup  # `fit` for serving does without

    case = TrainCase(
        model=model.id,
        accelerator=accelerator.id,
        method=_method(request),
        count=count,
        layout=TrainCaseLayout(tp=request.tp, pp=request.pp, ep=request.ep, dp=request.dp, sharding=request.sharding),
        precision=_precision(request),
        micro_batch=request.batch or 1,
        seq_len=None if is_network(model) else request.seq_len or SEQ_LEN,
        image_px=request.resolution,
        recompute=cast("Recompute | None", request.recompute),
        optimizer=request.optimizer,
        lora_rank=request.lora_rank,
    )
    return resolve_setup(case, model=model, accelerator=accelerator)


def _precision(request: FitRequest) -> str:
    """The format of the products, bf16 unless given; refused where no training step multiplies in it."""
    name = number_format(request.precision or "bf16").name
    if name not in {"fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"}:
        raise BadRequest(
            f"precision: products of a training step do not run in '{name}'; give bf16, fp16, tf32, fp32 or fp8, and "
            f"--finetune qlora for a 4-bit base"
        )
    return name


def _row(chosen: Chosen) -> FitRow:
    """The row of a resolved setup: the peak of its fullest rank, held against all that a process sees."""
    setup, layout = chosen.setup, chosen.setup.layout
    degrees = {n: d for n in ("tp", "pp", "cp", "ep", "dp") if isinstance(d := getattr(layout, n), int) and d > 1}
    return memory_row(
        setup.accelerator,
        chosen.memory,
        said="the peak",
        count=layout.ranks,
        layout={**degrees, "sharding": layout.sharding, "recompute": setup.recompute},
        precision={"compute": setup.precision, "weights": setup.weights, "optimizer": setup.optimizer},
        notes=(*chosen.notes, *_tight(chosen)),
    )


def _tight(chosen: Chosen) -> tuple[str, ...]:
    """A note where the peak fits by its estimate, but with a smaller chance than plans ask for; else empty."""
    from tonnage.catalog.spreads import chance_within
    from tonnage.core.train_estimate import with_interval
    from tonnage.questions.train.search import MEMORY_SURE

    setup = chosen.setup
    sure = chance_within(with_interval(chosen.memory, setup), setup.accelerator.driver_memory_bytes)
    if not chosen.fits or sure >= MEMORY_SURE:
        return ()
    return (f"fits with a chance of {whole_percent(sure)} only, by the errors of published peaks",)


def _trade(choose: Choose, request: FitRequest, count: int) -> str:
    """Activation checkpointing as a trade: memory of each mode beside the compute it repeats."""
    sizes = []
    for mode in ("none", "selective", "full"):
        tried = msgspec.structs.replace(request, recompute=mode)
        sizes.append(f"{mode} {show(choose(tried, count).memory.value, 'bytes')}")
    return f"activation recomputation: {', '.join(sizes)}; full repeats the forward pass (a third more FLOP)"


def _largest(choose: Choose, request: FitRequest, chosen: Chosen) -> tuple[Largest, ...]:
    """Largest batch and sequence in the arrangement chosen, recomputation included; 0 where not even one fits."""
    layout, setup, model = chosen.setup.layout, chosen.setup, chosen.setup.model
    fixed = msgspec.structs.replace(
        request, tp=layout.tp, pp=layout.pp, dp=layout.dp, sharding=layout.sharding, recompute=setup.recompute
    )

    def fits(**changed: Any) -> bool:
        return choose(msgspec.structs.replace(fixed, **changed), layout.ranks).fits

    batch, length = request.batch or 1, request.seq_len or SEQ_LEN
    kept = f"recompute {setup.recompute}"
    widest = float(largest_whole(lambda n: fits(batch=n), most=_MOST))
    bound = "memory" if widest < _MOST else "the largest looked at"
    if is_network(model):
        return (Largest(what="batch", value=widest, unit="samples", given=kept, binds=bound),)
    most = model.max_context or 2**20
    longest = largest_whole(lambda n: fits(seq_len=n), most=most)
    return (
        Largest(what="batch", value=widest, unit="sequences", given=f"{length:,} tokens, {kept}", binds=bound),
        Largest(
            what="seq-len",
            value=float(longest),
            unit="tokens",
            given=f"{plural(batch, 'sequence')}, {kept}",
            binds="memory" if longest < most else "the model's own limit",
        ),
    )


def _remedies(choose: Choose, request: FitRequest, chosen: Chosen) -> Iterator[str]:
    """What would make it fit, the smallest change first; each was tried."""
    model, count = chosen.setup.model, chosen.setup.layout.ranks

    def fits(count: int = count, **changed: Any) -> bool:
        return choose(msgspec.structs.replace(request, **changed), count).fits

    if request.recompute not in {None, "full"} and fits(recompute="full"):
        yield "full activation recomputation (--recompute full)"
    batch, length = request.batch or 1, request.seq_len or SEQ_LEN
    if batch > 1 and fits(batch=1):
        most = largest_whole(lambda n: fits(batch=n), most=batch - 1)
        yield f"{plural(most, _sample(model))} per accelerator and step (--batch {most})"
    if not is_network(model) and length > _SHORT and fits(seq_len=_SHORT):
        longest = largest_whole(lambda n: fits(seq_len=n * _SHORT), most=(length - 1) // _SHORT) * _SHORT
        yield f"sequences of {longest:,} tokens (--seq-len {longest})"
    if request.optimizer == "adamw" and request.goal == "finetune" and fits(optimizer="adamw-8bit"):
        yield "8-bit optimizer states (--optimizer adamw-8bit)"
    if not (request.tp or request.pp or request.dp):
        more = next((n for n in COUNTS if n > count and fits(n)), None)
        if more is not None:
            yield f"{more} x {chosen.setup.accelerator.name}"
    if request.goal == "finetune":
        for method in ADAPTERS[:2]:
            if method != request.method and fits(method=method):
                yield f"{method} instead of {request.method} (--finetune {method})"
                break


PRECISION = "fp16"
MAX_BATCH = 65536


def is_network(model: Model) -> bool:
    """Whether the model is known without layers that a cache could belong to."""
    return not model.layers and not model.encoder


def samples_of(request: FitRequest) -> int:
    """Samples of the batch asked for, one when not said."""
    return request.batch or request.concurrency or 1


def network_row(
    model: Model, accelerator: Accelerator, *, request: FitRequest, additions: Additions = NOTHING
) -> FitRow:
    """
    One accelerator of a type for inference: the need of the batch asked for (one sample when not said), and the largest
    batch that fits.

    With `solve` (batch or concurrency) the row is judged at the largest batch, or where not even one sample fits at the
    batch asked for. Memory is held against the driver's total, as the need counts the process's own share.

    Raises
    ------
    BadRequest
        A degree of parallelism or a context is asked for, which networks do not have.
    """
    from tonnage.questions.predict.infer_work import precision_of  # `fit` of a language model does without
    from tonnage.questions.predict.inference import batch_times, memory_of, setup_of

    if (request.tp or 1) * (request.pp or 1) * (request.dp or 1) > 1:
        raise BadRequest(f"{model.id} runs whole on each accelerator; leave out tp, pp and dp")
    if request.context is not None or request.solve == "context":
        raise BadRequest(f"{model.id} has no context; give --batch, its samples")
    case = InferCase(
        model=model, accelerator=accelerator.id, precision=request.precision or PRECISION, resolution=request.resolution
    )
    setup = setup_of(case, additions)
    driver_total = accelerator.driver_memory_bytes

    def needs(batch: int) -> float:
        return memory_of(setup, batch_times(setup, batch)).value

    most = largest_whole(lambda batch: needs(batch) <= driver_total, most=MAX_BATCH)
    solved = request.solve if request.solve in {"batch", "concurrency"} else None
    batch = most if solved and most else samples_of(request)
    memory = memory_of(setup, batch_times(setup, batch))
    largest = Largest(
        what=solved or "batch",
        value=float(most),
        unit="samples",
        given=case.precision,
        binds="memory" if most < MAX_BATCH else "the largest looked at",
    )
    return memory_row(
        accelerator,
        memory,
        said=f"a batch of {batch:,}",
        nearest=f"a batch of {most:,}" if most else "an accelerator with more memory",
        count=1,
        layout={},
        precision=precision_of(case.precision).by_name(),
        largest=(largest,) if most else (),
        notes=batch_times(setup, 1).stages.notes,
    )


def memory_row(
    accelerator: Accelerator, memory: Quantity, *, said: str, nearest: str | None = None, **row: Any
) -> FitRow:
    """
    A row whose need is held against all the memory that a process sees of one device, without headroom.

    `said` names what needs it, for the reason of a refusal; `row` are the other fields of the row.
    """
    limit = accelerator.driver_memory_bytes
    short = memory.value - limit
    verdict = Verdict(ok=True)
    if short > 0.0:
        biggest = max(memory.parts, key=lambda part: part.value)
        verdict = refusal(
            "memory",
            f"{said} exceeds {show(limit, 'bytes')} by {show(short, 'bytes')}; largest part: {biggest.name}",
            short_by=short,
            nearest=nearest,
        )
    return FitRow(
        accelerator=accelerator.id,
        name=accelerator.name,
        verdict=verdict,
        total_bytes=limit,
        limit_bytes=limit,
        memory=memory,
        **row,
    )


def smallest_network(
    model: Model, accelerator: Accelerator, *, request: FitRequest, additions: Additions = NOTHING
) -> FitRow | None:
    """The row of one accelerator, where the batch fits."""
    row = network_row(model, accelerator, request=request, additions=additions)
    return row if row.verdict.ok else None
