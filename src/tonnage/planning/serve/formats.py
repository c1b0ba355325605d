"""Which weight formats are worth looking at: asked for, native or FP8, and with kernels in the engine there."""

from __future__ import annotations

import math

from tonnage.catalog.engines import formats, support
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Verdict
from tonnage.domain.model import Model
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.workload import Serve
from tonnage.engines.registry import engine_spec, planned_engines
from tonnage.errors import BadRequest
from tonnage.planning.sites import Site

__all__ = ["check_context", "no_kernels", "precisions"]


def check_context(model: Model, request: Serve) -> None:
    """Refuse lengths that the model cannot take."""
    longest = request.max_context or math.ceil(request.lengths.prompt_tokens + request.lengths.output_tokens)
    if model.max_context is not None and longest > model.max_context:
        raise BadRequest(
            f"context: {longest:,} tokens exceed the {model.max_context:,} that {model.id} was made for; "
            f"shorten prompt_tokens + output_tokens or choose a longer-context model"
        )


def precisions(request: Serve, model: Model, *, accelerator: Accelerator, engine: str) -> tuple[Precision, ...]:
    """
    Formats worth looking at that the engine has kernels for there: the user's, else the checkpoint's own and FP8.

    FP8 weights are looked at by default, and the plan says that their quality is the user's to validate; four bits
    only when asked for.
    """
    own = model.quantization or model.native_dtype
    names = request.precisions or ((own,) if model.quantization or model.experts_dtype else (own, "fp8"))
    found = (_precision(name, request, model, accelerator=accelerator, engine=engine) for name in names)
    return tuple(dict.fromkeys(precision for precision in found if precision is not None))


def _precision(name: str, request: Serve, model: Model, *, accelerator: Accelerator, engine: str) -> Precision | None:
    """The formats a deployment with these weights runs in; None when the engine has no kernels for one of them."""
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


def no_kernels(request: Serve, site: Site, *, engine: str) -> Verdict:
    """The engine does not run there, or not in the formats asked for."""
    runs = formats(engine, site.accelerator)
    if not runs:
        part = f"{site.accelerator.id} ({site.accelerator.architecture})"
        reason = f"{engine} on {part} is unverified: no source of ours shows it"
        anywhere = (name for name in planned_engines() if engine_spec(name).vendors is None and name != engine)
        others = sorted(name for name in anywhere if formats(name, site.accelerator))
        nearest = f"engine {' or '.join(others)}" if others else "another accelerator"
        return Verdict(ok=False, limit="engine", reason=reason, nearest=nearest)
    asked = ", ".join(request.precisions) or "the checkpoint's format"
    known = ", ".join(sorted(runs))
    return Verdict(
        ok=False,
        limit="engine",
        nearest=known,
        reason=f"{engine} with {asked} on {site.accelerator.id} is unverified: no source of ours shows it",
    )
