"""
How wide must an interval be to hold nine measurements in ten of a source that nobody had seen? Quantiles of
|ln(measured / predicted)|.

The residuals are those of predictions by fits that had not seen the row's accelerator, model family, engine or source
(`tonnage_accuracy.left_out`). They are sorted into levels, a tree: everything, then, for serving, whether the
engine's host was measured, the load, the structure of the model and what its kernels rest on
(`planning.error_model.serve_level`). Rows of one deployment are near-duplicates, so that within a level every *group*
(block, model, accelerator and engine) weighs the same; groups of one source err together, so that a source weighs as
much as the square root of its groups. The width of a level is the nine-tenths quantile, drawn towards its parent, in
the logarithm, as if the parent were `PARENT_SOURCES` sources more.

How deep a tree goes is judged and not chosen: each source in turn is scored by widths that all others give, and as few
words of a level are kept as make that score least within `WORTH`. It is the interval score, the width and
`1 / (1 - share)` times what lies beyond it, which is least for the true quantile. Where fewer than `MIN_SOURCES`
publish a quantity, or where no machine is in it (`COUNTED`), each group is a source of its own.

Where one end decides more than the other (`UPPER`: does a peak fit?), that end has a factor of its own, fitted in the
same way on ln(measured / predicted) so that 95 % of measurements lie below it: half of the misses that 90 % allows.
What lies below its prediction counts as `LEAST_UPPER`, so that a few lucky tables of one source make no peak certain.
Such an end keeps every word: how far peaks lie above is a matter of the software, which the score over all hides.

Source: Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 102 (2007), 6.2; for
groups, Dunn, Wasserman and Ramdas, arXiv 1809.07441.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from tonnage.record import Record
from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.metrics import log_ratio
from tonnage_accuracy.quantities import ATTRIBUTES, SPEEDS
from tonnage_accuracy.scoring import Score

if TYPE_CHECKING:
    import numpy as np


LEVEL: Final = 0.9
UPPER_LEVEL: Final = 0.95
"""Share of measurements below the upper end of a 90 % interval."""
LEAST_UPPER: Final = 0.05
"""ln(measured / predicted) of a number that lies below: about the median error of a peak (docs/accuracy.md). [-]"""
MIN_GROUPS: Final = 3
"""A level with fewer groups has no row of its own."""
PARENT_SOURCES: Final = 8.0
"""
How many sources a level's parent weighs in its width. Between 3 and 16 the interval score of sources left out moves by
1 % (log, 2026-11-23).
"""
MIN_SOURCES: Final = 3
"""Fewer sources are no sample of sources: groups are then left out one by one."""
WORTH: Final = 0.02
"""More words of a level are kept only where they lower the score of sources left out by more than this share. [-]"""
ANY: Final = "any"
_BIN: Final = 0.005
_BINS: Final = 800
"""Residuals are counted in bins of so much of ln(measured / predicted), up to a factor of 55. [-]"""

QUANTITY_OF: Final = ATTRIBUTES | {("train", speed): "step_s" for speed in SPEEDS}
"""Kind and scored quantity -> name in the result noun, as `catalog.fitted` keeps it. Rates of training are one
over its step time and share its width."""

COUNTED: Final = frozenset({"memory", "memory_peak_bytes", "kv_cache_tokens"})
"""Bytes are counted and not timed: no machine of a publisher is in their errors, and each group is its own source."""

UPPER: Final[dict[str, str]] = {"memory_peak_bytes": "memory_peak_bytes_upper"}
"""Name in the result noun -> name of the factor of its upper end, where that has one."""

Group = tuple[str, str, str, str]
"""Block, model, accelerator, engine."""


class Factor(Record, kw_only=True):
    """One fitted factor and how well it held on groups it had not seen."""

    kind: str
    quantity: str
    rung: str
    factor: float
    groups: int
    rows: int
    coverage_90: float | None
    """Mean share of a left-out group's numbers inside; none with too few groups to leave one out."""
    coverage_rows: float | None
    """Share of all left-out numbers inside."""


Residual = tuple[str, Group, float]
"""Level, group, size of ln(measured / predicted)."""


class Counted(NamedTuple):
    """Residuals of one quantity: how many groups of each source have them in each bin, by level."""

    counts: Mapping[str, np.ndarray]
    """By level, sources x bins: groups with numbers in it or below it, each spread over the bins of these."""
    own: Mapping[str, np.ndarray]
    """The same of numbers of that very level, where a group weighs 1 in all its levels together."""
    source: Mapping[Group, int]
    share: float
    """Of the numbers, what a width holds."""


def fit(scores: Iterable[Score], *, source: Callable[[str], str] = str) -> list[Factor]:
    """
    The factor of every kind and quantity, and of every level below with enough groups.

    A number may come several times, as predicted without this and without that. Quantities without a name in the
    results (`fits`) have no interval and are left out. `source` names what publishes a block.
    """
    found: list[Factor] = []
    for kind, quantity, of, residuals in _fitted(scores, source):
        found += [msgspec.structs.replace(one, kind=kind, quantity=quantity) for one in _fit(of, residuals)]
    return sorted(found, key=lambda one: (one.kind, one.quantity))


def _fitted(
    scores: Iterable[Score], source: Callable[[str], str]
) -> Iterator[tuple[str, str, Counted, list[Residual]]]:
    """What is fitted: kind, name of the factor, and its residuals, counted and as they are."""
    usable = [s for s in scores if s.predicted and s.measured and (s.kind, s.quantity) in QUANTITY_OF]
    for (kind, quantity), own in group_by(usable, lambda s: (s.kind, QUANTITY_OF[s.kind, s.quantity])).items():
        publisher = None if quantity in COUNTED else source
        both = list(_residuals(own, abs))
        yield kind, quantity, _counted(both, publisher, LEVEL), both
        if quantity in UPPER:
            above = list(_residuals(own, lambda above: max(above, LEAST_UPPER)))
            yield kind, UPPER[quantity], _counted(above, publisher, UPPER_LEVEL), above


def widths(scores: Iterable[Score], *, source: Callable[[str], str] = str) -> dict[tuple[str, str, str], float]:
    """
    Only the factors of `fit`, by kind, quantity and level: what the shipped table would hold without other rows.
    """
    return {
        (kind, quantity, name): math.exp(width[-1])
        for kind, quantity, of, _ in _fitted(scores, source)
        for name, width in _widths(of).items()
    }


def group_of(score: Score) -> Group:
    """What must be left out together: one source's runs of one model on one accelerator with one engine."""
    return score.block, score.labels.model, score.labels.accelerator, score.labels.engine


def levels_of(level: str) -> list[str]:
    """
    A level and its parents, the widest first.

    Examples
    --------
    >>> levels_of("calibrated:whole:dense")
    ['any', 'calibrated', 'calibrated:whole', 'calibrated:whole:dense']
    """
    words = level.split(":") if level else []
    return [ANY, *(":".join(words[: place + 1]) for place in range(len(words)))]


def _residuals(scores: Iterable[Score], size: Callable[[float], float]) -> Iterable[Residual]:
    """Of each score the size of ln(measured / predicted)."""
    for score in scores:
        ratio = log_ratio(predicted=score.predicted or 0.0, measured=score.measured or 0.0)
        if ratio is not None:
            yield score.level, group_of(score), size(-ratio)


def _counted(residuals: Sequence[Residual], source: Callable[[str], str] | None, share: float) -> Counted:
    groups = group_by(residuals, lambda item: item[1])
    names: dict[Group, Hashable] = {group: source(group[0]) if source else group for group in groups}
    if len(set(names.values())) < MIN_SOURCES:
        names = {group: group for group in groups}
    places = {name: place for place, name in enumerate(dict.fromkeys(names.values()))}
    of = {group: places[name] for group, name in names.items()}
    members: dict[str, list[Residual]] = {}
    for item in residuals:
        for name in levels_of(item[0]):
            members.setdefault(name, []).append(item)
    told = {name: len({group for _, group, _ in own}) for name, own in members.items()}
    levels = [name for name in sorted(members, key=_depth) if name == ANY or told[name] >= MIN_GROUPS]
    every = {group: len(own) for group, own in groups.items()}
    return Counted(
        {name: _bins(members[name], of, Counter(group for _, group, _ in members[name])) for name in levels},
        {name: _bins(own, of, every) for name, own in group_by(residuals, lambda item: item[0] or ANY).items()},
        of,
        share,
    )


def _bins(residuals: Iterable[Residual], of: Mapping[Group, int], numbers: Mapping[Group, int]) -> np.ndarray:
    """Residuals by source and bin, each weighing one over its group's numbers."""
    import numpy as np

    found = np.zeros((1 + max(of.values()), _BINS))
    for _, group, value in residuals:
        found[of[group], min(max(math.ceil(value / _BIN - 1e-9), 1), _BINS - 1)] += 1.0 / numbers[group]
    return found


def _depth(name: str) -> int:
    """How many words of a level a name has."""
    return 0 if name == ANY else 1 + name.count(":")


def _kept(level: str, names: Container[str], depth: int | None = None) -> list[str]:
    """The level and its parents that have rows, the widest first, down to a depth."""
    words = levels_of("" if level == ANY else level)
    return [name for name in words[: None if depth is None else depth + 1] if name in names]


def _widths(of: Counted) -> dict[str, np.ndarray]:
    """The width of every level that is kept, in ln: with each source left out in turn, and at last with none."""
    found: dict[str, np.ndarray] = {}
    for name, counts in of.counts.items():
        parent = None if name == ANY else found[_kept(name, found)[-1]]
        found[name] = _drawn(counts, of.share, parent)
    deepest = max(map(_depth, found))
    scores = [_score(of, found, depth) for depth in range(deepest + 1)]
    kept = next(depth for depth, score in enumerate(scores) if score <= min(scores) * (1.0 + WORTH))
    if of.share == UPPER_LEVEL:
        kept = deepest
    return {name: width for name, width in found.items() if _depth(name) <= kept}


def _drawn(counts: np.ndarray, share: float, parent: np.ndarray | None) -> np.ndarray:
    """The widths of a level, drawn towards its parent's."""
    import numpy as np

    groups = counts.sum(axis=1)
    weighted = counts / np.sqrt(np.maximum(groups, 1e-12))[:, None]
    whole = weighted.sum(axis=0)
    reached = np.maximum(np.vstack([whole - weighted, whole]), 0.0).cumsum(axis=1)
    sources = np.append((groups > 0).sum() - (groups > 0), (groups > 0).sum())
    if parent is None:  # of n exchangeable groups the next one is inside with n / (n + 1) of what n hold
        share = min(share * (1.0 + 1.0 / groups.sum()), 1.0)
    own = np.log(_BIN * np.maximum((reached < share * reached[:, -1:] - 1e-9).sum(axis=1), 1))
    if parent is None:
        width = np.where(sources > 0, own, own[-1])
    else:
        drawn = np.where(sources > 0, sources * own, 0.0) + PARENT_SOURCES * np.log(parent)
        width = drawn / (sources + PARENT_SOURCES)
    found: np.ndarray = np.exp(width)
    return found


def _score(of: Counted, widths: Mapping[str, np.ndarray], depth: int) -> float:
    """The interval score of sources left out, where only so many words of a level tell: a mean over sources."""
    import numpy as np

    values = np.arange(_BINS) * _BIN
    groups, total = (np.zeros(len(of.counts[ANY])) for _ in range(2))
    for level, own in of.own.items():
        width = widths[_kept(level, widths, depth)[-1]][:-1, None]
        total += (own * (width + np.maximum(0.0, values - width) / (1.0 - of.share))).sum(axis=1)
        groups += own.sum(axis=1)
    return float((total / np.sqrt(groups)).sum() / np.sqrt(groups).sum())


def _fit(of: Counted, residuals: Sequence[Residual]) -> list[Factor]:
    """Factors of one kind and quantity."""
    widths = _widths(of)
    held: dict[str, dict[Group, list[bool]]] = {}
    for level, group, value in residuals:
        names = _kept(level, widths)
        inside = bool(value <= widths[names[-1]][of.source[group]] + 1e-9)
        for name in names:
            held.setdefault(name, {}).setdefault(group, []).append(inside)
    judged = len(set(of.source.values())) >= MIN_SOURCES
    found = []
    for name, width in widths.items():
        groups = list(held[name].values())
        shares = [sum(own) / len(own) for own in groups]
        rows = sum(map(len, groups))
        found.append(
            Factor(
                kind="",
                quantity="",
                rung=name,
                factor=math.exp(width[-1]),
                groups=len(groups),
                rows=rows,
                coverage_90=sum(shares) / len(shares) if judged else None,
                coverage_rows=sum(map(sum, groups)) / rows if judged else None,
            )
        )
    return found
