"""
What do many scores say together? One line of errors for each block, kind and quantity, or each group within.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.domain.accuracy import AccuracyReport, BlockErrors, SkippedRow
from tonnage.validation.groups import grouped
from tonnage.validation.metrics import errors, quantile
from tonnage.validation.quantities import NAMES
from tonnage.validation.scoring import CRASH, Score, reason_class
from tonnage.version import __version__

__all__ = ["ALL", "by_block", "by_quantity", "report_of"]

ALL: Final = "all"
"""Name of the block that stands for all of them."""

_LATENCIES: Final = {"ttft_ms", "tpot_ms", "e2e_ms"}
_MOST_CRASHES: Final = 50


def by_block(scores: Iterable[Score], by: str | None = None) -> list[BlockErrors]:
    """
    Errors by block, kind and quantity; with `by` (a name of `groups.LABELS`) also by that label.

    Blocks come in order of appearance, quantities in that of `quantities.NAMES`.
    """
    groups = grouped(scores, lambda s: (s.block, s.kind, s.quantity, getattr(s.labels, by) if by else None))
    found = [_errors(own, block=block, group=group) for (block, _, _, group), own in groups.items()]
    order = {block: place for place, block in enumerate(dict.fromkeys(line.block for line in found))}
    return sorted(found, key=lambda line: (order[line.block], line.kind, NAMES.index(line.quantity), line.group or ""))


def by_quantity(scores: Iterable[Score]) -> list[BlockErrors]:
    """Errors by kind and quantity over all blocks, each block weighing as much as it has rows."""
    groups = grouped(scores, lambda s: (s.kind, s.quantity))
    found = [_errors(own, block=ALL, group=None) for own in groups.values()]
    return sorted(found, key=lambda line: (line.kind, NAMES.index(line.quantity)))


def report_of(
    scores: Sequence[Score], *, by: str | None = None, unusable: int = 0, out_of_memory: Sequence[Score] = ()
) -> AccuracyReport:
    """The whole report; `out_of_memory` are scores of runs that did not fit."""
    predicted = {score.id for score in scores if score.predicted is not None}
    crashes = {score.id: score.reason for score in scores if score.reason.startswith(CRASH)}
    facts = [score for score in out_of_memory if score.quantity == "fits" and score.predicted is not None]
    return AccuracyReport(
        blocks=tuple(by_block(scores, by)),
        rows=len({score.id for score in scores}),
        predicted=len(predicted),
        unusable=unusable,
        crashes=tuple(SkippedRow(id=name, reason=why) for name, why in list(crashes.items())[:_MOST_CRASHES]),
        out_of_memory=len({score.id for score in out_of_memory}),
        out_of_memory_found=sum(score.predicted == 0 for score in facts),
        version=__version__,
    )


def _errors(scores: Sequence[Score], *, block: str, group: str | None) -> BlockErrors:
    done = [s for s in scores if s.predicted is not None and s.measured is not None]
    pairs = [(s.predicted, s.measured) for s in done if s.predicted is not None and s.measured is not None]
    found = errors(pairs, [(s.low, s.high) for s in done])
    quantity = scores[0].quantity
    calm = [
        abs(s.predicted / s.measured - 1)
        for s in done
        if quantity in _LATENCIES and not s.saturated and s.predicted is not None and s.measured
    ]
    return BlockErrors(
        block=block,
        kind=scores[0].kind,
        quantity=quantity,
        rows=len(scores),
        predicted=len(done),
        skipped=dict(Counter(reason_class(s.reason) for s in scores if s.predicted is None).most_common()),
        median_ape=found.median_ape,
        mean_ape=found.mean_ape,
        p90_ape=found.p90_ape,
        bias=None if quantity == "fits" else found.bias,
        coverage_90=found.coverage_90,
        half_width=found.half_width,
        group=group,
        below_knee=len(calm) if quantity in _LATENCIES else None,
        below_knee_median_ape=quantile(calm, 0.5),
    )
