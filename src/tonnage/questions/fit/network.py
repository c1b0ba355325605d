"""Does a batch through a model without layers fit, and how large may it be? CNNs, denoisers, recommenders, traces.

Such a model keeps nothing between requests: what is resident is weights and the activations of the batch that runs.
`--batch` (or `--concurrency`) is the samples of that batch.
"""

from __future__ import annotations

from typing import Any

from tonnage.catalog import NOTHING, Additions
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity, Verdict
from tonnage.domain.case import InferCase
from tonnage.domain.model import Model
from tonnage.domain.refusal import refusal
from tonnage.errors import BadRequest
from tonnage.optimize.largest import largest_whole
from tonnage.questions.fit.answer import FitRequest, FitRow, Largest
from tonnage.units import show

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
    """One accelerator of a type with the batch asked for (one when not said), and the largest that fits."""
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
    usable = accelerator.driver_memory_bytes

    def needs(batch: int) -> float:
        return memory_of(setup, batch_times(setup, batch)).value

    most = largest_whole(lambda batch: needs(batch) <= usable, most=MAX_BATCH)
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
    """A row whose need is held against all that a process sees of one device; `said` is what needs it."""
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
