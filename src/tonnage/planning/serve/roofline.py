"""Where do the operators of the first option's steps lie under its accelerator's roof?"""

from __future__ import annotations

from typing import Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.case import Traffic
from tonnage.domain.model import Model
from tonnage.domain.plan import Roofline, RooflinePoint, ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.operators import operator_s
from tonnage.physics.transformer import decode_work, prefill_work
from tonnage.physics.work import Work
from tonnage.planning.deployment import case_of, deploy
from tonnage.simulation.steps import Placement

__all__ = ["roofline"]

MIN_SHARE: Final = 0.01
"""Operators that take less of their step are left out. [-]"""


def roofline(request: Serve, option: ServeOption, *, model: Model, additions: Additions) -> Roofline:
    """The operators of a decode step at the planned load and of one prompt, beside the ceilings they run under."""
    configuration, lengths = option.configuration, request.lengths
    accelerator = catalog.accelerator(configuration.accelerator, additions)
    case = case_of(configuration, model=model, lengths=lengths, traffic=Traffic(rate_per_s=1.0))
    placement = deploy(case, model=model, accelerator=accelerator).placement
    precision, layout = configuration.precision, configuration.layout
    decode = decode_work(
        model, sequences=max(1.0, option.capacity.concurrency / layout.dp),
        context=lengths.prompt_tokens + lengths.output_tokens / 2.0, precision=precision, layout=layout,
    )  # fmt: skip
    prefill = prefill_work(model, prompts=1.0, chunk=lengths.prompt_tokens, precision=precision, layout=layout)
    formats = {op.compute for op in (*decode, *prefill) if op.flop > 0}
    return Roofline(
        accelerator=accelerator.id,
        memory_bytes_per_s=accelerator.memory_bytes_per_s,
        peaks={name: peak_flop_per_s(accelerator, name) for name in sorted(formats)},
        points=(*_points("decode", decode, placement), *_points("prefill", prefill, placement)),
    )


def _points(phase: str, work: Work, placement: Placement) -> tuple[RooflinePoint, ...]:
    """One point an operator, those of the same name together, the slowest first."""
    sums: dict[tuple[str, str], tuple[float, float, float]] = {}
    for op in work:
        seconds, _ = operator_s(op, accelerator=placement.accelerator, ladder=placement.ladder)
        flop, moved, took = sums.get((op.name, op.compute), (0.0, 0.0, 0.0))
        sums[op.name, op.compute] = (
            flop + op.flop * op.count, moved + (op.read_bytes + op.write_bytes) * op.count, took + seconds * op.count
        )  # fmt: skip
    whole = sum(took for _, _, took in sums.values())
    points = [
        RooflinePoint(phase=phase, operator=name, compute=compute, flop_per_byte=flop / moved,
                      flop_per_s=flop / took, share=took / whole)
        for (name, compute), (flop, moved, took) in sums.items()
        if flop > 0 and moved > 0 and took / whole >= MIN_SHARE
    ]  # fmt: skip
    return tuple(sorted(points, key=lambda point: -point.share))
