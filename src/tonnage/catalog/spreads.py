"""
How far are predictions off? Fitted errors, and the chances that follow from an interval.

`spread("serve", "tpot_s", level)` says where measurements of such cases lie: ln(measured / predicted) has a median, the
bias, and nine in ten lie within one width of it. Errors are fitted by `tools/calibration/widths.py` on the predictions
of sources that no fit had seen; a level is whatever the predictor says its number rests on, words between colons
("known-host:steady:dense:calibrated:vllm", `core.error_model`), and each word widens the interval by a factor.

Errors have heavier tails than a normal's: the logarithm is a sinh of a normal (Johnson's SU, symmetric), of which one
number, `tail`, holds for all quantities. Source: N. L. Johnson, Biometrika 36 (1949), 149.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache, lru_cache
from statistics import NormalDist
from typing import Final

import msgspec

from tonnage.catalog.rows import DATA
from tonnage.domain.answer import Quantity, Spread
from tonnage.errors import BadFact, UnknownName
from tonnage.record import Record

FEWEST: Final = 9
"""Sources from which on a 90 % interval is certifiable: of n exchangeable sources the next one lies beyond all others
with a chance of 1 / (n + 1)."""
NINETY: Final = 1.6448536269514722
"""Standard deviations of a normal from the mean to the end of its 90 % interval."""
TAKES: Final = {
    ("serve", "total_tokens_per_s"): ("output_tokens_per_s", 1.0),
    ("serve", "requests_per_s"): ("output_tokens_per_s", 1.0),
    ("serve", "e2e_s"): ("output_tokens_per_s", -1.0),
    ("infer", "latency_s"): ("samples_per_s", -1.0),
    ("infer", "step_s"): ("samples_per_s", -1.0),
}
"""Kind and quantity -> the quantity whose error it has, and -1 where it is its time: one over a rate."""


class ErrorOf(Record, kw_only=True, forbid_unknown_fields=True):
    """The error of one quantity at the mean level, and what words of a level make of it."""

    bias: float
    """Median of ln(measured / predicted). [-]"""
    width: float
    """From there to either end of 90 %. [-]"""
    shared: float = 0.0
    """Of the squared scale, what all numbers of one source have in common. [-]"""
    sources: int
    rows: int = 0
    first: float = 1.0
    """How much further off first contact is than a source left out; in the width. [-]"""
    words: dict[str, float] = {}
    """Factors on the width. [-]"""
    evidence: dict[str, int] = {}
    """Sources by the first word of their levels."""


class Errors(Record, kw_only=True, forbid_unknown_fields=True):
    """Every fitted error, by kind of case and quantity."""

    source: str
    tail: float
    """How much heavier than a normal's the tails are; 0 = a normal. [-]"""
    unknown: float
    """Factor on the width for a word that nobody measured. [-]"""
    serve: dict[str, ErrorOf]
    train: dict[str, ErrorOf]
    infer: dict[str, ErrorOf]


@cache
def errors() -> Errors:
    """
    The fitted errors.

    Raises
    ------
    BadFact
        The file does not hold what `Errors` names.
    """
    try:
        return msgspec.toml.decode((DATA / "intervals" / "errors.toml").read_bytes(), type=Errors)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"intervals/errors.toml: {error}") from error


@lru_cache(maxsize=1024)
def spread(kind: str, quantity: str, *, level: str = "") -> Spread:
    """
    Where measurements of one quantity lie around its prediction.

    Parameters
    ----------
    kind : str
        Kind of case: serve, train, infer.
    quantity : str
        Name in the result noun: ttft_s, tpot_s, e2e_s, output_tokens_per_s, step_s, memory_peak_bytes, samples_per_s …
    level : str
        What the number rests on; a word that nobody measured is as wide as the prior says, none the mean.

    Raises
    ------
    UnknownName
        No such kind, or no error of that quantity.

    Examples
    --------
    >>> low, high = (spread("serve", "tpot_s").at(end) for end in (-1, 1))
    >>> low < 1 < high
    True
    """
    known: Mapping[str, ErrorOf] | None = getattr(errors(), kind, None) if kind in KINDS else None
    if known is None:
        raise UnknownName("kind of case", kind, known=KINDS)
    return spread_of(known, kind, quantity=quantity, level=level)


KINDS: Final = ("serve", "train", "infer")


def spread_of(known: Mapping[str, ErrorOf], kind: str, *, quantity: str, level: str) -> Spread:
    """
    The spread of one quantity in a table of errors by quantity.

    Raises
    ------
    UnknownName
        No error of that quantity.
    """
    name, sign = TAKES.get((kind, quantity), (quantity, 1.0))
    if name not in known:
        raise UnknownName("interval", quantity, known=known)
    own, words = known[name], level.split(":") if level else []
    wider = math.prod(own.words.get(word, errors().unknown) for word in words)
    sources = min(own.sources, own.evidence.get(words[0], 0) if words else own.sources)
    return Spread(own.width * wider, sign * own.bias, sources >= FEWEST)


def score_of(x: float) -> float:
    """
    How far an error goes that is `x` times the way to the end of its 90 % interval, in a normal's standard deviations.

    Examples
    --------
    >>> score_of(0.0), round(score_of(-1.0), 4), score_of(math.inf)
    (0.0, -1.6449, inf)
    """
    tail = errors().tail
    return math.asinh(x * math.sinh(tail * NINETY)) / tail if math.isfinite(x) else x


def chance_of(x: float) -> float:
    """
    Probability that an error goes no further than `x` times the way to the end of its 90 % interval. [-]

    Examples
    --------
    >>> chance_of(0.0), round(chance_of(1.0), 6), chance_of(end_of(False))
    (0.5, 0.95, 0.0)
    """
    return 0.5 * (1.0 + math.erf(score_of(x) / math.sqrt(2.0)))


def end_at(chance: float) -> float:
    """
    How far an error goes at most with that chance, in ways to the end of its 90 % interval: `chance_of` undone. [-]

    Examples
    --------
    >>> round(end_at(0.95), 4), round(chance_of(end_at(0.8)), 6)
    (1.0, 0.8)
    """
    tail, far = errors().tail, 1e-10
    return math.sinh(tail * NormalDist().inv_cdf(min(max(chance, far), 1.0 - far))) / math.sinh(tail * NINETY)


def end_of(holds: bool) -> float:
    """How far an error may go where there is none: any way if the limit holds as predicted, nowhere if not. [-]"""
    return math.inf if holds else -math.inf


def end_within(quantity: Quantity, limit: float | None) -> float:
    """
    How far the error of a quantity may go, as `chance_of` takes it, until it is beyond a limit; each side is as wide as
    its own end says. [-]

    Infinite without a limit; without an interval infinite where the value keeps the limit, else minus infinity.

    Examples
    --------
    >>> end_within(Quantity(value=2.0, unit="s", low=1.0, high=4.0), 8.0)
    2.0
    """
    low, high, value = quantity.low, quantity.high, quantity.value
    if limit is None:
        return math.inf
    if low is None or high is None or min(value, limit) <= 0.0 or math.isinf(value):
        return end_of(value <= limit)
    middle = quantity.middle or value
    if limit >= middle:
        return math.log(limit / middle) / math.log(high / middle) if high > middle else math.inf
    return math.log(limit / middle) / math.log(middle / low) if 0.0 < low < middle else -math.inf


def chance_within(quantity: Quantity, limit: float | None) -> float:
    """
    Probability that a quantity turns out at most `limit`, by its own interval; certain without a limit. [-]

    Examples
    --------
    >>> chance_within(Quantity(value=2.0, unit="s", low=1.0, high=4.0), 4.0)
    0.95
    """
    return round(chance_of(end_within(quantity, limit)), 12)
