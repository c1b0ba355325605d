"""
What does an answer cost in quality, and which formats keep the floor that was asked for?

Published evaluations alone decide. A format passes a floor when the model's own evaluation, or that of another tuning
of the same weights, keeps so much of its score; scores of other models are told and pass nothing, for a model may be
the one that loses. Weights as released always pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from msgspec.structs import replace

from tonnage.catalog.published import cache_change, format_change
from tonnage.domain.answer import Verdict
from tonnage.domain.model import Model
from tonnage.domain.plan import Rejection
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.published import QualityChange
from tonnage.domain.refusal import refusal
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.units import percent

OWN: Final = frozenset({"this model", "another tuning of it"})
SIXTEEN_BITS: Final = frozenset({"bf16", "fp16", "fp32", "gguf-f16", "gguf-bf16", "gguf-f32"})
FOUR_BITS: Final = "nvfp4"
Request = TypeVar("Request", Serve, Batch)


def weights_change(name: str, model: Model, *, weights: str) -> QualityChange | None:
    """What weights in this format keep of the model's score; None where they are as released."""
    own = {model.quantization, model.experts_dtype, model.native_dtype}
    if weights in own or (weights in SIXTEEN_BITS and model.quantization is None):
        return None
    return format_change(name, weights)


def changes_among(
    precisions: Iterable[Precision], *, request: Serve | Batch, model: Model
) -> tuple[QualityChange, ...]:
    """What weights and caches in fewer bits keep of the score, each once, in the order of the options."""
    found: dict[QualityChange, None] = {}
    for precision in dict.fromkeys(precisions):
        changes = [weights_change(request.model, model, weights=precision.weights)]
        if number_format(precision.kv).bits < 16:
            changes.append(cache_change(request.model, precision.kv))
        found.update((judge_change(change, request.quality_floor), None) for change in changes if change is not None)
    return tuple(found)


def judge_change(change: QualityChange, floor: float | None) -> QualityChange:
    """
    The change in words, and whether it passes a floor of the share of the score that is kept [-]; None judges nothing.

    What nobody published of this model does not pass.
    """
    told = quality_text(change)
    if floor is None:
        return replace(change, told=told)
    passes = change.kept is not None and change.on in OWN and change.kept >= floor
    return replace(change, told=told, passes=passes)


def usual_formats(name: str, model: Model) -> tuple[str, ...]:
    """
    Weight formats looked at where none is named: the checkpoint's own, FP8 unless that is quantised already, and NVFP4
    where its quality is published.

    Experts that come in a format of their own stay in it.
    """
    own = model.quantization or model.native_dtype
    if model.experts_dtype:
        return (own,)
    change = weights_change(name, model, weights=FOUR_BITS)
    known = change is not None and change.kept is not None
    return (own, *(() if model.quantization else ("fp8",)), *((FOUR_BITS,) if known else ()))


def apply_quality_floor(request: Request, model: Model) -> tuple[Request, tuple[Rejection, ...], Verdict | None]:
    """
    The request without the formats that its quality floor refuses, what was refused, and why nothing is left.

    The last is None where something is left. A request without a floor, or of which nothing is left, comes back as it
    is.
    """
    floor = request.quality_floor
    if floor is None:
        return request, (), None
    names = request.precisions or usual_formats(request.model, model)
    changes = {name: weights_change(request.model, model, weights=number_format(name).name) for name in names}
    bad = {n: c for n, c in changes.items() if c is not None and not judge_change(c, floor).passes}
    refused = tuple(Rejection(what=change.what, verdict=_refusal(change, floor)) for change in bad.values())
    kept = tuple(name for name in names if name not in bad)
    if not kept:
        verdicts = (each.verdict for each in refused)
        return request, refused, min(verdicts, key=lambda v: v.short_by if v.short_by is not None else 2.0)
    return replace(request, precisions=kept) if bad else request, refused, None


def _refusal(change: QualityChange, floor: float) -> Verdict:
    kept = change.kept if change.on in OWN else None
    other = "no quality floor" if kept is None else f"quality {percent(kept, 1)}"
    return refusal(
        "quality",
        f"{quality_text(change)}; at least {percent(floor, 1)} is asked for",
        short_by=None if kept is None else floor - kept,
        nearest=f"the weights as released, or {other}",
    )


def quality_text(change: QualityChange) -> str:
    """
    What is known, in one line.

    Examples
    --------
    >>> quality_text(QualityChange(what="int4 weights"))
    'int4 weights: nobody published what it keeps of the score; compare both on your own tasks before shipping'
    """
    if change.kept is None:
        more = (
            ""
            if change.perplexity is None
            else f" (perplexity rises by {percent(change.perplexity, 1)} on {change.on})"
        )
        return (
            f"{change.what}: nobody published what it keeps of the score{more}; compare both on your own tasks before "
            "shipping"
        )
    low, high = change.low or change.kept, change.high or change.kept
    count = f"{change.evaluations} published evaluation{'' if change.evaluations == 1 else 's'} of {change.on}"
    spread = f", {percent(low, 1)} to {percent(high, 1)}" if change.evaluations > 1 else ""
    noise = f", one of which is good to about {percent(change.noise)}" if change.noise else ""
    first = f"; look first at {change.worst}" if change.evaluations > 1 and low < 1.0 else ""
    own = "" if change.on in OWN else "; not of this model: compare both on your own tasks before shipping"
    return f"{change.what}: keeps {percent(change.kept, 1)} of the score in {count}{spread}{noise}{first}{own}"


def quality_kept(change: QualityChange | None) -> str:
    """
    What a format keeps by published figures, in a cell of a table; None = the weights are as released.

    Examples
    --------
    >>> quality_kept(QualityChange(what="int4 weights", perplexity=0.0152)), quality_kept(None)
    ('perplexity +1.5 %', 'as released')
    """
    if change is None:
        return "as released"
    if change.kept is not None:
        return f"{change.kept * 100.0:.1f} % of the score"
    return "unpublished" if change.perplexity is None else f"perplexity +{change.perplexity * 100.0:.1f} %"


def share_kept(change: QualityChange | None) -> float:
    """
    The share of its score that a model is taken to keep where models are compared: as published, else what perplexity
    rises by is taken off; all of it where nobody published either, and never more. [-]

    Examples
    --------
    >>> round(share_kept(QualityChange(what="q3_k_m weights", perplexity=0.043)), 3)
    0.959
    """
    if change is None:
        return 1.0
    return min(1.0, change.kept if change.kept is not None else 1.0 / (1.0 + (change.perplexity or 0.0)))
