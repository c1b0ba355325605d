"""
How far from the truth is each prediction? Rows in, one score per row and quantity out, in order.

A row that cannot be predicted is never dropped: each of its quantities appears with the reason. A reason begins with
a short class ("does not fit", "bad cell", "internal error") and a colon, so that reasons can be counted. A crash
while one row is predicted is that row's reason, not the end of the run.

Many scores together are one line of errors for each block, kind and quantity, or each group within.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Final

from msgspec.structs import asdict, replace

from tonnage.domain.case import Case, Latency, Result, ServeCase, ServeResult
from tonnage.errors import BadRequest, TonnageError
from tonnage.questions.predict.predict import predict as planned
from tonnage.record import Record
from tonnage.version import __version__
from tonnage_accuracy.cases import case_of, kind_of
from tonnage_accuracy.grouping import Labels, group_by, labels_of
from tonnage_accuracy.limited import at_highest_rate, limits_of
from tonnage_accuracy.metrics import absolute_error_share, errors, quantile
from tonnage_accuracy.quantities import NAMES, Measured, measured_numbers, predicted_number
from tonnage_accuracy.records import AccuracyReport, BlockErrors, Figure, SkippedRow
from tonnage_accuracy.rows import Row, count, number

Predict = Callable[[Case], Result]

CRASH: Final = "internal error"
"""Class of the reasons that are our own fault."""

_CHUNK: Final = 16


class Score(Record, kw_only=True):
    """One measured number and what was predicted for it; without a prediction, why not."""

    id: str
    block: str
    kind: str
    quantity: str
    measured: float | None
    labels: Labels
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    basis: str = ""
    reason: str = ""
    level: str = ""
    """What the width of its interval was looked up by."""
    saturated: bool = False
    """Predicted to be above the knee, where a latency is queueing and depends on how many requests were sent."""


def score(rows: Iterable[Row], *, predict: Predict = planned, workers: int = 1) -> Iterator[Score]:
    """
    Every scored number of the usable rows.

    Parameters
    ----------
    rows : iterable of Row
        Rows marked as not usable are passed over.
    predict : callable, optional
        Case -> Result. With several workers it must be importable by name.
    workers : int, optional
        Processes; 1 = this one.

    Raises
    ------
    BadRequest
        A worker process died.
    """
    usable = (row for row in rows if row.usable)
    if workers <= 1:
        for row in usable:
            yield from score_row(row, predict)
        return
    chunks = iter(lambda: list(itertools.islice(usable, _CHUNK)), [])
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            for scores in pool.map(partial(_score_chunk, predict), list(chunks)):
                yield from scores
        except BrokenProcessPool:
            raise BadRequest("a worker process died, likely for lack of memory; use --workers 1") from None


def score_row(row: Row, predict: Predict) -> list[Score]:
    """Every scored number of one row."""
    scores = [(item, score_of(row, item)) for item in measured_numbers(row)]
    if not scores:
        return []
    try:
        case = case_of(row)
        limits = limits_of(row)
        if limits is not None and isinstance(case, ServeCase):
            result = at_highest_rate(case, limits, predict=predict)
        else:
            result = _beyond_cached(row, case, predict)
    except TonnageError as error:
        return [replace(own, reason=_reason(error)) for _, own in scores]
    except Exception as error:  # whatever breaks in one row is counted loudly and must not end the others
        return [replace(own, reason=f"{CRASH}: {type(error).__name__}: {error}"[:300]) for _, own in scores]
    return [_with_prediction(own, item, result, case) for item, own in scores]


def score_of(row: Row, wanted: Measured) -> Score:
    """A number of a row, without a prediction yet."""
    return Score(
        id=row.id,
        block=row.block,
        kind=kind_of(row),
        quantity=wanted.quantity,
        measured=wanted.value,
        labels=labels_of(row),
    )


def reason_class(reason: str) -> str:
    """The countable part of a reason; a crash keeps the name of what was raised."""
    parts = reason.split(":")
    return ":".join(parts[:2]) if parts[0] == CRASH else parts[0]


def _score_chunk(predict: Predict, rows: list[Row]) -> list[Score]:
    return [item for row in rows for item in score_row(row, predict)]


def _beyond_cached(row: Row, case: Case, predict: Predict) -> Result:
    """The prediction; of a prompt whose beginning is cached, what the whole takes less what that beginning does."""
    result = predict(case)
    cached = count(row, "cached_tokens") if number(row, "cached_tokens") else None
    if cached is None or not isinstance(case, ServeCase) or not isinstance(result, ServeResult):
        return result
    before = predict(replace(case, isl=float(cached)))
    if result.ttft_s is None or not isinstance(before, ServeResult) or before.ttft_s is None:
        return result
    mean = result.ttft_s.mean - before.ttft_s.mean
    share = mean / result.ttft_s.mean
    low, high = (None if end is None else end * share for end in (result.ttft_s.low, result.ttft_s.high))
    return replace(result, ttft_s=Latency(mean=mean, low=low, high=high))


def _with_prediction(own: Score, wanted: Measured, result: Result, case: Case) -> Score:
    if wanted.problem:
        return replace(own, reason=wanted.problem)
    answer = predicted_number(result, wanted, case=case)
    if answer is None:
        why = " ".join(result.why.split()) if result.why else "no reason given"
        reason = f"no prediction of {wanted.quantity}" if result.fits else f"predicted not to fit: {why}"[:300]
        return replace(own, reason=reason)
    return replace(
        own,
        predicted=answer.value,
        low=answer.low,
        high=answer.high,
        basis=result.basis,
        level=result.level,
        saturated=isinstance(result, ServeResult) and bool(result.saturated),
    )


_CLASSES: Final = {"UnknownName": "not in the catalogue", "Unmeasured": "not measured", "BadRequest": "bad request"}


def _reason(error: TonnageError) -> str:
    """A sentence that begins with a countable class; those of the row readers do already."""
    named = _CLASSES.get(type(error).__name__)
    sentence = " ".join(str(error).split())
    return f"{named}: {sentence}"[:300] if named else sentence[:300]


ALL: Final = "all"
"""Name of the block that stands for all of them."""

_LATENCIES: Final = {"ttft_ms", "tpot_ms", "e2e_ms"}
_MAX_CRASHES: Final = 50


def by_block(scores: Iterable[Score], by: str | None = None) -> list[BlockErrors]:
    """
    Errors by block, kind and quantity; with `by` (a name of `groups.LABELS`) also by that label.

    Blocks come in order of appearance, quantities in that of `quantities.NAMES`.
    """
    groups = group_by(scores, lambda s: (s.block, s.kind, s.quantity, getattr(s.labels, by) if by else None))
    found = [_errors(own, block=block, group=group) for (block, _, _, group), own in groups.items()]
    order = {block: place for place, block in enumerate(dict.fromkeys(line.block for line in found))}
    return sorted(found, key=lambda line: (order[line.block], line.kind, NAMES.index(line.quantity), line.group or ""))


def error_shares(scores: Iterable[Score]) -> list[float]:
    """|predicted - measured| / measured of what was predicted. [-]"""
    return [
        absolute_error_share(predicted=s.predicted, measured=s.measured) for s in scores if s.predicted and s.measured
    ]


def median_figures(lines: Iterable[tuple[str, str, Sequence[float], float]]) -> Iterator[Figure]:
    """Of a group and what its figure is called, the median of errors beside what it is to be at most."""
    for group, figure, shares, most in lines:
        yield Figure(group=group, figure=figure, rows=len(shares), value=quantile(shares, 0.5), at_most=most)


def by_quantity(scores: Iterable[Score]) -> list[BlockErrors]:
    """Errors by kind and quantity over all blocks, each block weighing as much as it has rows."""
    groups = group_by(scores, lambda s: (s.kind, s.quantity))
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
        crashes=tuple(SkippedRow(id=name, reason=why) for name, why in list(crashes.items())[:_MAX_CRASHES]),
        out_of_memory=len({score.id for score in out_of_memory}),
        out_of_memory_found=sum(score.predicted == 0 for score in facts),
        version=__version__,
    )


def _errors(scores: Sequence[Score], *, block: str, group: str | None) -> BlockErrors:
    done = [s for s in scores if s.predicted is not None and s.measured is not None]
    pairs = [(s.predicted, s.measured) for s in done if s.predicted is not None and s.measured is not None]
    found = asdict(errors(pairs, [(s.low, s.high) for s in done])) | {"rows": len(scores)}
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
        predicted=len(done),
        skipped=dict(Counter(reason_class(s.reason) for s in scores if s.predicted is None).most_common()),
        **(found if quantity != "fits" else found | {"bias": None}),
        group=group,
        below_knee=len(calm) if quantity in _LATENCIES else None,
        below_knee_median_ape=quantile(calm, 0.5),
    )
