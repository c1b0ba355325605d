"""
What would other software, or a narrower format, do for the same job on the same accelerators?

A plan stays with the software and the format that people start with; a stack built for speed (layers and tensors split,
products in 8 bits) may be more than twice as fast on the part that is rented anyway. It is named as a lever, never
taken: it asks for other scripts, and 8-bit products for a look at the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.train_plan import TrainOption
from tonnage.engines.training import training_families
from tonnage.optimize.train_layouts import Arrangement
from tonnage.planning.train.job import TrainContext
from tonnage.planning.train.scaling import place_of, setup_label
from tonnage.planning.train.search import fastest_arrangements, runs_on
from tonnage.units import show

__all__ = ["faster_stack"]

WORTH_NAMING: Final = 1.2
"""Times as fast, from which another stack is named. [-]"""


def faster_stack(asked: TrainContext, best: TrainOption) -> str:
    """The fastest other stack for an option, in a sentence; empty where none is much faster."""
    now = best.step_s.value / best.configuration.global_batch
    tried = ((_per_sequence(found), name, found) for name, found in _others(asked, best))
    least = min(tried, key=lambda entry: entry[0], default=None)
    if least is None or now / least[0] < WORTH_NAMING:
        return ""
    each, name, found = least
    times = now / each
    rest = " (8-bit products: watch the loss)" if name.endswith("FP8") and asked.job.precision != "fp8" else ""
    return (
        f"{name} on the same accelerators: {times:.2g}x as fast ({setup_label(found.setup)}), about "
        f"{show(best.run.wall_s.value / times, 's')}{rest}"
    )


def _per_sequence(found: Arrangement) -> float:
    return found.step_s / found.setup.global_batch


def _others(asked: TrainContext, best: TrainOption) -> Iterator[tuple[str, Arrangement]]:
    """Software that splits layers by habit, in the option's format and in 8 bits where the part computes in them."""
    card = catalog.accelerators(asked.additions)[best.configuration.accelerator]
    place = place_of(asked, best)
    formats = [asked.job.precision, *(["fp8"] if "fp8" in card.peaks and asked.job.precision == "bf16" else [])]
    names = [asked.request.framework] if asked.request.framework else []
    names += [spec.example for spec in training_families().values() if spec.model_parallel and not names]
    for name in names:
        if not runs_on(name, card):
            continue
        for precision in formats:
            job = replace(asked.job, precision=precision)
            found = fastest_arrangements(asked.model, place, job=job, coefficients=asked.coefficients, framework=name)
            fastest = found.likely(asked.request.confidence)
            if fastest is not None:
                yield f"{name}, {precision.upper()}", fastest
