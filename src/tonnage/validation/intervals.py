"""
How wide must an interval be to hold nine measurements in ten? Split conformal on |ln(predicted / measured)|.

The residuals are those of predictions by fits that had not seen the row's accelerator, model family, engine or source
(`accuracy.left_out`). They are sorted into levels, a tree (Mondrian): everything, then what the number rests on, the
load, the structure of the model, the software (`planner.error_model`). Rows of one deployment are near-duplicates, so
the unit that is exchanged is the *group* (block, model, accelerator and engine): within a level every group weighs the
same. A level with few groups is drawn towards its parent, in the logarithm of the width, as if the parent were
`PARENT_GROUPS` groups more; groups of one source err together, so that a source counts as `SOURCE_GROUPS` at most. The
share of residuals that a width must hold is not 0.9 but whatever makes measured coverage 0.9: each group in turn is
judged by widths fitted on all the others (a time per token by those of other sources: `BY_SOURCE`), and one share for
each kind and quantity is chosen so that coverage, the mean of that by groups and that by rows, is 0.9.

Where one end decides more than the other (`UPPER`: does a peak fit?), that end has a factor of its own, fitted in the
same way on ln(measured / predicted) so that 95 % of measurements lie below it: half of the misses that 90 % allows.
What lies below its prediction counts as `LEAST_UPPER`, so that a few lucky tables of one source make no peak certain.

Source: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World"; for groups, Dunn, Wasserman and Ramdas,
arXiv 1809.07441.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from tonnage.validation.grouping import group_by
from tonnage.validation.metrics import log_ratio
from tonnage.validation.scoring import Score

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "ANY",
    "BY_SOURCE",
    "LEAST_UPPER",
    "MIN_GROUPS",
    "PARENT_GROUPS",
    "QUANTITY_OF",
    "UPPER",
    "Factor",
    "Group",
    "fit",
    "group_of",
    "levels_of",
    "widths",
]

LEVEL: Final = 0.9
UPPER_LEVEL: Final = 0.95
"""Share of measurements below the upper end of a 90 % interval."""
LEAST_UPPER: Final = 0.05
"""ln(measured / predicted) of a number that lies below: about the median error of a peak (docs/accuracy.md). [-]"""
MIN_GROUPS: Final = 3
"""A level with fewer groups has no row of its own."""
PARENT_GROUPS: Final = 4.0
"""How many groups a level's parent weighs in its width."""
SOURCE_GROUPS: Final = 2.0
"""
How many groups those of one source weigh against their level's parent, at most. Of 1, 2, 3 and no limit, 2 covers
sources and families left out best for the width (log, 2026-11-22).
"""
BY_SOURCE: Final = frozenset({"tpot_s"})
"""
Quantities whose groups are judged without their whole source, so that what its runs share (their host) is in the width.
Times per token: the least covered source of 13 goes from 65 to 71 %, the mean from 90.6 to 91.3 at the same median
width. First tokens, rates and training steps would be a quarter to two thirds as wide again and hold 93 to 96 %.
"""
ANY: Final = "any"
_SHARES: Final = (0.6, 0.999)
_HALVINGS: Final = 9
_APART: Final = 0.08
"""Coverage by rows counts no further than this from coverage by groups: one crowded group must not set all widths."""

QUANTITY_OF: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("serve", "ttft_ms"): ("ttft_s",),
    ("serve", "tpot_ms"): ("tpot_s",),
    ("serve", "e2e_ms"): ("e2e_s",),
    ("serve", "output_tokens_per_s"): ("output_tokens_per_s",),
    ("serve", "total_tokens_per_s"): ("total_tokens_per_s",),
    ("serve", "samples_per_s"): ("requests_per_s",),
    ("serve", "kv_tokens"): ("kv_cache_tokens",),
    ("serve", "memory_gb"): ("memory",),
    ("train", "step_time_s"): ("step_s",),
    ("train", "tokens_per_s_per_accel"): ("step_s",),
    ("train", "samples_per_s_per_accel"): ("step_s",),
    ("train", "tflops_per_accel"): ("step_s",),
    ("train", "peak_mem_gb"): ("memory_peak_bytes",),
    ("infer", "e2e_ms"): ("latency_s",),
    ("infer", "tpot_ms"): ("step_s",),
    ("infer", "samples_per_s"): ("samples_per_s",),
    ("infer", "memory_gb"): ("memory",),
}
"""Kind and scored quantity -> name in the result noun, as `catalog.intervals` keeps it. Rates of training are one
over its step time and share its width."""

UPPER: Final[dict[str, str]] = {"memory_peak_bytes": "memory_peak_bytes_upper"}
"""Name in the result noun -> name of the factor of its upper end, where that has one."""

Group = tuple[str, str, str, str]
"""Block, model, accelerator, engine."""


class Factor(msgspec.Struct, frozen=True, kw_only=True):
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


class Numbers(msgspec.Struct, frozen=True):
    """Residuals of one level in ascending order, with the group and the weight of each."""

    values: np.ndarray
    groups: np.ndarray
    weights: np.ndarray
    sources: Mapping[int, int]
    """Of each group, its source."""


Levels = Mapping[str, Numbers]
Residual = tuple[str, Group, float]
"""Level, group, size of ln(measured / predicted)."""


class Places(msgspec.Struct, frozen=True):
    """Numbers by which arrays name groups and sources."""

    groups: Mapping[Group, int]
    sources: Mapping[Group, int]
    """Of each group, that of its source."""
    whole: bool = False
    """A group is judged without its source's others."""


def fit(scores: Iterable[Score], *, source: Callable[[str], str] = str) -> list[Factor]:
    """
    The factor of every kind and quantity, and of every level below with enough groups.

    A number may come several times, as predicted without this and without that. Quantities without a name in the
    results (`fits`) have no interval and are left out. `source` names what publishes a block.
    """
    usable = [s for s in scores if s.predicted and s.measured and (s.kind, s.quantity) in QUANTITY_OF]
    found: list[Factor] = []
    for (kind, quantity), own in sorted(
        group_by(usable, lambda s: (s.kind, QUANTITY_OF[s.kind, s.quantity][0])).items()
    ):
        for name, level, residuals in _ends(quantity, own):
            fitted = _fit(_places(residuals, source, name), residuals, level=level)
            found += [msgspec.structs.replace(one, kind=kind, quantity=name) for one in fitted]
    return found


def _ends(quantity: str, scores: Sequence[Score]) -> Iterator[tuple[str, float, list[Residual]]]:
    """What is fitted of a quantity: name of the factor, share of numbers to hold, residuals."""
    yield quantity, LEVEL, list(_residuals(scores, abs))
    if quantity in UPPER:
        yield UPPER[quantity], UPPER_LEVEL, list(_residuals(scores, lambda above: max(above, LEAST_UPPER)))


def widths(scores: Iterable[Score], *, source: Callable[[str], str] = str) -> dict[tuple[str, str, str], float]:
    """
    Only the factors of `fit`, by kind, quantity and level: what the shipped table would hold without other rows.
    """
    usable = [s for s in scores if s.predicted and s.measured and (s.kind, s.quantity) in QUANTITY_OF]
    found: dict[tuple[str, str, str], float] = {}
    for (kind, quantity), own in group_by(usable, lambda s: (s.kind, QUANTITY_OF[s.kind, s.quantity][0])).items():
        for called, level, residuals in _ends(quantity, own):
            places = _places(residuals, source, called)
            levels = _levels(residuals, places)
            share = _share(levels, residuals, places, level=level)
            for name in levels:
                if name == ANY or len(set(levels[name].groups.tolist())) >= MIN_GROUPS:
                    found[kind, called, name] = math.exp(_width(levels, name, share))
    return found


def group_of(score: Score) -> Group:
    """What must be left out together: one source's runs of one model on one accelerator with one engine."""
    return score.block, score.labels.model, score.labels.accelerator, score.labels.engine


def levels_of(level: str) -> list[str]:
    """
    A level and its parents, the widest first.

    Examples
    --------
    >>> levels_of("calibrated:steady:dense:vllm")
    ['any', 'calibrated', 'calibrated:steady', 'calibrated:steady:dense', 'calibrated:steady:dense:vllm']
    """
    words = level.split(":") if level else []
    return [ANY, *(":".join(words[: place + 1]) for place in range(len(words)))]


def _residuals(scores: Iterable[Score], size: Callable[[float], float]) -> Iterable[Residual]:
    """Of each score the size of ln(measured / predicted)."""
    for score in scores:
        ratio = log_ratio(predicted=score.predicted or 0.0, measured=score.measured or 0.0)
        if ratio is not None:
            yield score.level, group_of(score), size(-ratio)


def _places(residuals: Sequence[Residual], source: Callable[[str], str], quantity: str) -> Places:
    groups = dict.fromkeys(group for _, group, _ in residuals)
    sources = {name: place for place, name in enumerate(dict.fromkeys(source(group[0]) for group in groups))}
    return Places(
        {group: place for place, group in enumerate(groups)},
        {group: sources[source(group[0])] for group in groups},
        quantity in BY_SOURCE and len(sources) >= MIN_GROUPS,
    )


def _fit(places: Places, residuals: Sequence[Residual], *, level: float) -> list[Factor]:
    """Factors of one kind and quantity."""
    levels = _levels(residuals, places)
    share = _share(levels, residuals, places, level=level)
    held = _inside_widths(levels, residuals, places, share)
    found = []
    for name in levels:
        groups = sorted(set(levels[name].groups.tolist()))
        if name != ANY and len(groups) < MIN_GROUPS:
            continue
        inside = [own for (level, _, _), own in zip(residuals, held, strict=True) if name in levels_of(level)]
        by_group = group_by(
            [
                (number, own)
                for (level, number, _), own in zip(residuals, held, strict=True)
                if name in levels_of(level)
            ],
            lambda item: item[0],
        )
        shares = [sum(own for _, own in items) / len(items) for items in by_group.values()]
        judged = len(places.groups) >= MIN_GROUPS
        found.append(
            Factor(
                kind="",
                quantity="",
                rung=name,
                factor=math.exp(_width(levels, name, share)),
                groups=len(groups),
                rows=len(inside),
                coverage_90=sum(shares) / len(shares) if judged else None,
                coverage_rows=sum(inside) / len(inside) if judged else None,
            )
        )
    return found


def _levels(residuals: Sequence[Residual], places: Places) -> dict[str, Numbers]:
    """Every level that occurs, widest first, with the residuals in it and below it."""
    import numpy as np

    source_of = {place: places.sources[group] for group, place in places.groups.items()}
    members: dict[str, list[tuple[float, int]]] = {ANY: []}
    for level, group, value in residuals:
        for name in levels_of(level):
            members.setdefault(name, []).append((value, places.groups[group]))
    found = {}
    for name, own in sorted(members.items(), key=lambda item: (item[0] != ANY, item[0].count(":"), item[0])):
        own.sort()
        groups = np.array([group for _, group in own], dtype=int)
        weights = 1.0 / np.bincount(groups)[groups]
        sources = {place: source_of[place] for place in sorted(set(groups.tolist()))}
        found[name] = Numbers(np.array([value for value, _ in own]), groups, weights, sources)
    return found


def _share(levels: Levels, residuals: Sequence[Residual], places: Places, *, level: float) -> float:
    """The share of residuals to hold for which left-out coverage, by groups and by rows, is `level`."""
    if len(places.groups) < MIN_GROUPS:
        return 1.0
    low, high = _SHARES
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        held = _inside_widths(levels, residuals, places, middle)
        shares = [sum(own) / len(own) for own in _by_group(residuals, held)]
        groups, rows = sum(shares) / len(shares), sum(held) / len(held)
        covered = groups + max(-_APART, min(rows - groups, _APART)) / 2
        low, high = (low, middle) if covered >= level else (middle, high)
    return high


def _by_group(residuals: Sequence[Residual], held: Sequence[bool]) -> Iterable[list[bool]]:
    pairs = group_by(zip(residuals, held, strict=True), lambda item: item[0][1])
    return ([own for _, own in items] for items in pairs.values())


def _inside_widths(levels: Levels, residuals: Sequence[Residual], places: Places, share: float) -> list[bool]:
    """Whether each number lies inside the width fitted without its group, or its source's (`BY_SOURCE`)."""
    alike: dict[int, set[int]] = {}
    for group, place in places.groups.items():
        alike.setdefault(places.sources[group], set()).add(place)
    widths: dict[tuple[str, int], float] = {}
    held = []
    for level, group, value in residuals:
        left_out = places.sources[group] if places.whole else places.groups[group]
        if (level, left_out) not in widths:
            without = alike[left_out] if places.whole else {left_out}
            widths[level, left_out] = _width(levels, level, share, without=frozenset(without))
        held.append(value <= widths[level, left_out] + 1e-12)
    return held


def _width(levels: Levels, level: str, share: float, *, without: frozenset[int] = frozenset()) -> float:
    """The width of a level, drawn towards its parents', in ln; some groups may be left out."""
    import numpy as np

    width = 0.0
    for name in levels_of(level):
        own = levels[name]
        kept = ~np.isin(own.groups, list(without)) if without else np.ones(len(own.groups), dtype=bool)
        groups = own.weights[kept].sum()
        if name != ANY and groups < MIN_GROUPS - 0.5:
            break
        if groups <= 0:
            continue
        reached = own.weights[kept].cumsum()
        place = min(int(reached.searchsorted(share * groups - 1e-9)), len(reached) - 1)
        found = max(float(own.values[kept][place]), 1e-4)
        parent = PARENT_GROUPS if name != ANY else 0.0
        told = min(groups, SOURCE_GROUPS * len({of for group, of in own.sources.items() if group not in without}))
        width = math.exp((told * math.log(found) + parent * math.log(width or 1.0)) / (told + parent))
    return width
