"""
What of a measurement can teach nothing: numbers that no software can reach, or that the run's own note forbids.

A token cannot come sooner than its weights are read, a prompt not sooner than its arithmetic takes at the part's peak.
What is faster was not computed: it lay in a prefix cache, or another model, format or part ran.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.domain.accelerator import Accelerator, Measured
from tonnage.domain.layout import Layout
from tonnage.domain.measurement import Measurement, Point
from tonnage.domain.precision import number_format
from tonnage.errors import BadRequest, echo
from tonnage.physics.shares import Tokens
from tonnage.physics.transformer import step_work
from tonnage.planning.deployment import Deployment
from tonnage.planning.replica import decode_tokens
from tonnage.units import show

__all__ = ["refuse_disowned", "refuse_impossible"]

_PRODUCTS: Final = frozenset({"gemm", "grouped_gemm"})
_IN_CACHE_BYTES: Final = 1e9
"""Weights of a rank below which caches (96 MB on consumer parts, more on processors) may hold a good part. [bytes]"""
_DATA_SHEET: Final = 0.95
"""A bandwidth or a peak may be understated by this much: boosted clocks, rounded sheets. [-]"""
_LONGEST: Final = 400
"""Of a note that is repeated. [characters]"""


def refuse_disowned(found: Measurement) -> None:
    """
    Nothing, where a measurement stands by its numbers.

    Raises
    ------
    BadRequest
        Its own note forbids them.
    """
    if found.disowned:
        said = " ".join(map(echo, found.disowned.rstrip(".").split()))[:_LONGEST]
        raise BadRequest(f"the measurement's own note forbids its numbers: {said}")


def refuse_impossible(point: Point, at: Deployment, *, name: str) -> None:
    """
    Nothing, where the part can reach every number of a load.

    Raises
    ------
    BadRequest
        A token came sooner than its weights are read, or prompts and answers sooner than their arithmetic takes.
    """
    ttft_s = point.ttft_s.mean if point.ttft_s else None
    tpot_s = point.tpot_s.mean if point.tpot_s and (point.output_tokens or 0.0) > 1.0 else None
    _refuse_unread("TTFT", ttft_s, at, name=name)
    _refuse_unread("TPOT", None if at.engine.speculative_tokens else tpot_s, at, name=name)
    prompt, answer = point.computed_tokens, point.output_tokens
    if not prompt or not answer:
        return
    prompt_s = _arithmetic_s(at, Tokens(prompts=1.0, chunk=prompt, emitted=1.0))
    token_s = _arithmetic_s(at, Tokens(decodes=1.0, context=1.0, emitted=1.0))
    part = at.placement.accelerator
    check = "check the model, --weights, --tp, and whether a prefix cache had the prompts" + (
        f"; if all hold, measure {part.id} anew on a quiet machine" if part.measured != Measured() else ""
    )
    if ttft_s and ttft_s < _DATA_SHEET * prompt_s:
        raise BadRequest(
            f"TTFT {show(ttft_s, 's')} at {name} contradicts {part.name}: the arithmetic of {prompt:,.0f} prompt "
            f"tokens alone takes {show(prompt_s, 's')} at its peak; {check}"
        )
    most = answer / (prompt_s + (answer - 1.0) * token_s)
    rate = point.output_tokens_per_s or 0.0
    if rate * _DATA_SHEET > most > 0.0:
        raise BadRequest(
            f"{show(rate, 'tokens/s')} at {name} contradict {part.name}: the arithmetic of "
            f"prompts and answers allows {show(most, 'tokens/s')} at its peak; {check}"
        )


def _arithmetic_s(at: Deployment, tokens: Tokens) -> float:
    """Matrix products of one request, spread evenly over all ranks at their highest peak. [s]"""
    d = at.placement
    work = step_work(d.model, tokens, precision=d.precision, layout=Layout(), domain=d.domain, attends=d.attends)
    flop_s = sum(op.flop * op.count / _fastest(d.accelerator, op.weights) for op in work if op.kind in _PRODUCTS)
    return flop_s / d.layout.ranks


def _fastest(part: Accelerator, weights: str) -> float:
    """
    The highest peak at which weights of a format may be multiplied: no kernel rounds them to a narrower one. [FLOP/s]

    Of a part that was measured, formats that its library lacks count as faster by as much as they are narrower.
    """
    bits = number_format(weights).bits
    width = 4 if bits < 8.0 else 8 if bits < 16.0 else 16
    widths = {name: int(digits) for name in part.peaks for digits in re.findall(r"\d+", name)[:1]}
    able = {name: part.peaks[name] for name, own in widths.items() if own >= width} or part.peaks
    fastest = max(able.values())
    if part.measured == Measured():
        return fastest
    narrowest = min(widths[name] for name in able)
    ran = max(rate for name, rate in able.items() if widths[name] == narrowest)
    return max(fastest, ran * narrowest / max(width, 8))


def _refuse_unread(what: str, value: float | None, at: Deployment, *, name: str) -> None:
    if value is None:
        return
    one = decode_tokens(at, 1.0, context=1.0)
    d = at.placement
    work = step_work(d.model, one, precision=d.precision, layout=d.layout, domain=d.domain, attends=d.attends)
    read = sum(op.read_bytes * op.count for op in work if op.flop)
    least = read / d.accelerator.memory_bytes_per_s
    if read > _IN_CACHE_BYTES and value < _DATA_SHEET * least:
        raise BadRequest(
            f"{what} {value * 1e3:.3g} ms at {name} contradicts {d.accelerator.name}: reading the "
            f"{read / 1e9:.3g} GB of {d.precision.weights} weights that each rank holds takes {least * 1e3:.3g} ms; "
            "check the model, --weights, --tp, and whether tokens were drafted (--option speculative_tokens=N)"
        )
