"""
How wide must an interval be to hold nine measurements in ten? Split conformal on |ln(predicted / measured)|.

Scores are sorted into levels by what they rest on (Mondrian: kind, quantity, basis; and, where one engine has groups
enough, a level "basis:engine" of its own), and each level gets its own factor. Rows of one deployment are
near-duplicates, so the unit that is exchanged is the *group* (block, model, accelerator and engine), not the row:
every group weighs the same, and the quantile is that of a row drawn from a new group, with the finite-sample
correction of conformal prediction for the number of groups. Coverage is measured the same way: each group in turn is
left out, the factor is fitted on the others, and the share of its rows inside is counted; then the same with all
groups of one source at once. Source: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World"; for groups,
Dunn, Wasserman and Ramdas, arXiv 1809.07441.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tonnage.accuracy.groups import grouped
from tonnage.accuracy.metrics import log_ratio
from tonnage.accuracy.scoring import Score

__all__ = [
    "ANY",
    "FEWEST_GROUPS",
    "QUANTITY_OF",
    "SATURATED",
    "Factor",
    "Group",
    "fit",
    "group_of",
    "leave_group_out_coverage",
    "level_factor",
]

LEVEL: Final = 0.9
FEWEST_GROUPS: Final = 12
"""With fewer groups the corrected quantile is close to the largest residual; such levels take the pooled factor."""
ANY: Final = "any"
SATURATED: Final = "saturated"

QUANTITY_OF: Final[dict[tuple[str, str], str]] = {
    ("serve", "ttft_ms"): "ttft_s",
    ("serve", "tpot_ms"): "tpot_s",
    ("serve", "e2e_ms"): "e2e_s",
    ("serve", "output_tokens_per_s"): "output_tokens_per_s",
    ("serve", "total_tokens_per_s"): "total_tokens_per_s",
    ("serve", "samples_per_s"): "requests_per_s",
    ("serve", "kv_tokens"): "kv_cache_tokens",
    ("serve", "memory_gb"): "memory",
    ("train", "step_time_s"): "step_s",
    ("train", "tokens_per_s_per_accel"): "tokens_per_s_per_accelerator",
    ("train", "samples_per_s_per_accel"): "samples_per_s_per_accelerator",
    ("train", "peak_mem_gb"): "memory_peak_bytes",
    ("infer", "e2e_ms"): "latency_s",
    ("infer", "tpot_ms"): "step_s",
    ("infer", "samples_per_s"): "samples_per_s",
    ("infer", "memory_gb"): "memory",
}
"""Kind and scored quantity -> name in the result noun, as `catalog.intervals` keeps it."""


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
    """Mean share of a left-out group's rows inside; none with too few groups to leave one out."""
    coverage_blocks: float | None
    """The same with all groups of a source left out at once: how it holds on somebody else's measurements."""


def fit(scores: Iterable[Score]) -> list[Factor]:
    """
    The factor of every kind, quantity and basis that has enough groups, and of every kind and quantity pooled.

    Quantities without a name in the results (`fits`) have no interval and are left out.
    """
    usable = [s for s in scores if s.predicted and s.measured and (s.kind, s.quantity) in QUANTITY_OF]
    found: list[Factor] = []
    for (kind, quantity), own in sorted(grouped(usable, lambda s: (s.kind, s.quantity)).items()):
        levels = {ANY: own, **dict(sorted(grouped(own, _rung).items()))}
        levels |= dict(sorted(grouped(own, lambda s: f"{_rung(s)}:{s.labels.engine}").items()))
        for rung, level in levels.items():
            residuals = residuals_by_group(level)
            if rung != ANY and len(residuals) < FEWEST_GROUPS:
                continue
            found.append(
                Factor(
                    kind=kind,
                    quantity=QUANTITY_OF[kind, quantity],
                    rung=rung,
                    factor=level_factor(residuals),
                    groups=len(residuals),
                    rows=len(level),
                    coverage_90=leave_group_out_coverage(residuals),
                    coverage_blocks=_leave_block_out_coverage(residuals),
                )
            )
    return found


def group_of(score: Score) -> Group:
    """What must be left out together: one source's runs of one model on one accelerator with one engine."""
    return score.block, score.labels.model, score.labels.accelerator, score.labels.engine


def _rung(score: Score) -> str:
    """What a number rests on; above the knee a latency is queueing, whatever its steps rest on."""
    return SATURATED if score.saturated else score.basis


def residuals_by_group(scores: Iterable[Score]) -> dict[Group, list[float]]:
    """|ln(predicted / measured)| of each group; scores without a ratio are left out."""
    found: dict[Group, list[float]] = {}
    for group, own in grouped(scores, group_of).items():
        ratios = [log_ratio(predicted=s.predicted or 0.0, measured=s.measured or 0.0) for s in own]
        known = [abs(ratio) for ratio in ratios if ratio is not None]
        if known:
            found[group] = known
    return found


def level_factor(residuals: Mapping[Group, Sequence[float]]) -> float:
    """
    exp of the group-weighted quantile at 0.9 (1 + 1/groups), at most the largest residual.

    Examples
    --------
    >>> residuals = {("block", f"model {n}", "", ""): [0.01 * n] for n in range(1, 100)}
    >>> round(math.log(level_factor(residuals)), 3)
    0.9
    """
    share = min(LEVEL * (1 + 1 / len(residuals)), 1.0)
    weighted = sorted((value, 1 / len(own)) for own in residuals.values() for value in own)
    reached, needed = 0.0, share * len(residuals)
    for value, weight in weighted:
        reached += weight
        if reached >= needed - 1e-9:
            return math.exp(value)
    return math.exp(weighted[-1][0])


def leave_group_out_coverage(residuals: Mapping[Group, Sequence[float]]) -> float | None:
    """Share of rows inside, averaged over groups, each judged by the factor of all the others."""
    if len(residuals) < 3:
        return None
    shares = []
    for name, own in residuals.items():
        limit = math.log(level_factor({other: values for other, values in residuals.items() if other != name}))
        shares.append(sum(value <= limit + 1e-12 for value in own) / len(own))
    return sum(shares) / len(shares)


def _leave_block_out_coverage(residuals: Mapping[Group, Sequence[float]]) -> float | None:
    """Share of rows inside, averaged over groups, each judged by the factor of the groups of all other blocks."""
    blocks = {group[0] for group in residuals}
    if len(blocks) < 3:
        return None
    shares = []
    for block in blocks:
        others = {group: values for group, values in residuals.items() if group[0] != block}
        limit = math.log(level_factor(others))
        own = [values for group, values in residuals.items() if group[0] == block]
        shares += [sum(value <= limit + 1e-12 for value in values) / len(values) for values in own]
    return sum(shares) / len(shares)
