"""What would change a plan, as one line: the input, the value with its interval, what the answer becomes, ties said."""

from __future__ import annotations

from tonnage.nouns.plan import Flip
from tonnage.units import show

__all__ = ["flip_text"]


def flip_text(flip: Flip) -> str:
    """ "deadline below 5.2 h (3.1 h-8 h): 8 x b200 for $90 in 2 h [ties as it is]"."""
    tie = " [ties as it is]" if flip.ties else ""
    return f"{flip.input} {show(flip.value, flip.unit)}{_interval(flip)}: {flip.becomes}{tie}"


def _interval(flip: Flip) -> str:
    if flip.low is None and flip.high is None:
        return ""
    low, high = (None if end is None else show(end, flip.unit, digits=2) for end in (flip.low, flip.high))
    if low is not None and high is not None:
        return f" ({low}-{high})" if low != high else ""
    return f" ({low} or more)" if low is not None else f" ({high} or less)"
