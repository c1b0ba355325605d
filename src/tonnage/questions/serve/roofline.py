"""The operators of an option beside the ceilings that its accelerator sets."""

from __future__ import annotations

from functools import partial
from typing import Final

from tonnage.domain.plan import ServeOption
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import Roofline, RooflinePoint
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.operators import operator_s
from tonnage.physics.transformer import Tokens, step_work
from tonnage.physics.work import Work
from tonnage.questions.serve.option import Candidate
from tonnage.simulation.step_parts import Placement

MIN_SHARE: Final = 0.01
"""Operators that take less of their step are left out. [-]"""


def roofline(request: Serve, option: ServeOption, *, found: Candidate) -> Roofline:
    """The operators of a decode step at the planned load and of one prompt, beside the ceilings they run under."""
    lengths, accelerator = request.lengths, found.site.accelerator
    placement, layout = found.replica.placement, option.configuration.layout
    work = partial(step_work, placement.model, precision=placement.precision, layout=layout, attends=placement.attends)
    running = max(1.0, option.capacity.concurrency / layout.dp)
    context = lengths.prompt_tokens + lengths.output_tokens / 2.0
    decode = work(Tokens(decodes=running, context=context, emitted=running))
    prefill = work(Tokens(prompts=1.0, chunk=lengths.prompt_tokens, emitted=1.0))
    formats = {op.compute for op in (*decode, *prefill) if op.flop > 0}
    return Roofline(
        accelerator=accelerator.id,
        memory_bytes_per_s=accelerator.memory_bytes_per_s,
        peaks={name: peak_flop_per_s(accelerator, name) for name in sorted(formats)},
        points=(*_points("decode", decode, placement), *_points("prefill", prefill, placement)),
    )


def _points(phase: str, work: Work, placement: Placement) -> tuple[RooflinePoint, ...]:
    """
    One point for each operator and format, the slowest first; operators that take under `MIN_SHARE` of the step or
    compute nothing are left out.
    """
    sums: dict[tuple[str, str], tuple[float, float, float]] = {}
    for op in work:
        seconds = operator_s(op, accelerator=placement.accelerator, ladder=placement.ladder)[0]
        flop, moved, took = sums.get((op.name, op.compute), (0.0, 0.0, 0.0))
        sums[op.name, op.compute] = (
            flop + op.flop * op.count,
            moved + (op.read_bytes + op.write_bytes) * op.count,
            took + seconds * op.count,
        )
    whole = sum(took for _, _, took in sums.values())
    points = [
        RooflinePoint(
            phase=phase,
            operator=name,
            compute=compute,
            flop_per_byte=flop / moved,
            flop_per_s=flop / took,
            share=took / whole,
        )
        for (name, compute), (flop, moved, took) in sums.items()
        if flop > 0 and moved > 0 and took / whole >= MIN_SHARE
    ]
    return tuple(sorted(points, key=lambda point: -point.share))
