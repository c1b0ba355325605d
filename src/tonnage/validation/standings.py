"""
How near are predictions to what nobody had fitted? Errors by group, each group weighing the same.

A row gives each thing it measured once (`independent`): a total rate, an output rate and the time of the same batch are
one number, and so are the rates of a training step and its time. For each such figure the errors of a group (a source,
a model family) have a median; a *standing* is the mean over the groups with enough numbers, beside the worst of them.
So a source of 3,000 rows weighs as much as one of 20, as it does for somebody who brings a case of his own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tonnage.domain.accuracy import GroupErrors, Standing
from tonnage.validation.cases import kind_of
from tonnage.validation.groups import grouped
from tonnage.validation.metrics import ape, errors, quantile
from tonnage.validation.rows import Row, text
from tonnage.validation.scoring import Score

__all__ = ["FIGURES", "group_errors", "independent", "standing"]

FIGURES: Final = (
    "TTFT", "TPOT", "output rate", "prompt", "energy per token", "KV capacity", "memory", "networks", "training step",
    "peak memory",
)  # fmt: skip
"""What rows measure, in the order of the tables."""

_RATES: Final = ("output_tokens_per_s", "total_tokens_per_s", "samples_per_s", "e2e_ms")
_STEPS: Final = ("step_time_s", "tokens_per_s_per_accel", "samples_per_s_per_accel", "tflops_per_accel")
_NETWORKS: Final = ("e2e_ms", "samples_per_s", "tpot_ms")
_ONE_OF: Final = {"train": (("training step", _STEPS),), "infer": (("networks", _NETWORKS),), "serve": ()}
_ALONE: Final = {
    "tpot_ms": "TPOT", "ttft_ms": "TTFT", "energy_per_token_j": "energy per token", "kv_tokens": "KV capacity",
    "memory_gb": "memory", "peak_mem_gb": "peak memory",
}  # fmt: skip
_ONE_BATCH: Final = {"single_stream", "static_batch"}
"""Loads whose rate and whole time say the same, and are made of the times of first and later tokens."""


def independent(row: Row, quantities: Iterable[str]) -> dict[str, str]:
    """
    Scored quantity -> figure, for one quantity of each thing that the row measured.

    Of several rates the first of output tokens, all tokens and requests is taken; a whole time only where no rate is
    printed; neither where one batch ran and its time per token is printed.
    """
    present, kind = set(quantities), kind_of(row)
    found = {}
    for figure, names in _ONE_OF[kind]:
        first = next((name for name in names if name in present), None)
        if first is not None:
            found[first] = figure
    if kind != "infer":
        found |= {name: figure for name, figure in _ALONE.items() if name in present}
    if kind == "serve":
        if "ttft_ms" in found and text(row, "phase") == "prefill":
            found["ttft_ms"] = "prompt"
        rate = next((name for name in _RATES if name in present), None)
        if rate is not None and not ("tpot_ms" in present and text(row, "load") in _ONE_BATCH):
            found[rate] = "output rate"
    return found


def group_errors(
    rows: Iterable[Row],
    scores: Iterable[Score],
    *,
    group: Callable[[Row], str],
    fewest: int,
    unknown: Callable[[Sequence[Row]], str] = lambda rows: "",
) -> list[GroupErrors]:
    """
    Errors of every figure and group with enough predicted numbers, in the order of `FIGURES` and the worst first.

    Parameters
    ----------
    group : callable
        Row -> name of its group.
    fewest : int
        Numbers below which a group does not count.
    unknown : callable, optional
        Rows of a group -> the setting that most of them leave open.
    """
    known = {row.id: row for row in rows}
    counted: dict[tuple[str, str], list[Score]] = {}
    for id_, own in grouped((item for item in scores if item.id in known), lambda item: item.id).items():
        taken = independent(known[id_], (item.quantity for item in own if item.measured))
        for item in own:
            if item.quantity in taken:
                counted.setdefault((taken[item.quantity], group(known[id_])), []).append(item)
    found = []
    for (figure, name), own in counted.items():
        done = [item for item in own if item.predicted is not None and item.measured]
        if len(done) >= fewest:
            open_setting = unknown([known[item.id] for item in done])
            found.append(_errors(figure, name, done, missing=len(own) - len(done), unknown=open_setting))
    return sorted(found, key=lambda line: (FIGURES.index(line.figure), -line.median_ape, line.group))


def standing(lines: Iterable[GroupErrors], *, left_out: str) -> list[Standing]:
    """One line for each figure: the mean over groups of their medians, the worst group, coverage by group."""
    found = []
    for figure, own in grouped(lines, lambda line: line.figure).items():
        medians = [line.median_ape for line in own]
        shares = [(line.coverage_90, line.group) for line in own if line.coverage_90 is not None]
        widths = [line.half_width for line in own if line.half_width is not None]
        worst = max(own, key=lambda line: line.median_ape)
        found.append(
            Standing(
                figure=figure,
                left_out=left_out,
                groups=len(own),
                rows=sum(line.rows for line in own),
                mean=sum(medians) / len(medians),
                median=quantile(medians, 0.5) or 0.0,
                worst=worst.median_ape,
                worst_group=worst.group,
                over_40=sum(line.median_ape > 0.4 for line in own),
                over_40_unknown=sum(line.median_ape > 0.4 and bool(line.unknown) for line in own),
                coverage_mean=sum(share for share, _ in shares) / len(shares) if shares else None,
                coverage_least=min(shares)[0] if shares else None,
                coverage_least_group=min(shares)[1] if shares else "",
                half_width=quantile(widths, 0.5),
            )
        )
    return sorted(found, key=lambda line: FIGURES.index(line.figure))


def _errors(figure: str, name: str, scores: Sequence[Score], *, missing: int, unknown: str) -> GroupErrors:
    pairs = [(item.predicted or 0.0, item.measured or 0.0) for item in scores]
    whole = errors(pairs, [(item.low, item.high) for item in scores])
    return GroupErrors(
        figure=figure,
        group=name,
        rows=len(scores),
        missing=missing,
        median_ape=quantile([ape(predicted=p, measured=m) for p, m in pairs], 0.5) or 0.0,
        mean_ape=whole.mean_ape or 0.0,
        bias=whole.bias,
        coverage_90=whole.coverage_90,
        half_width=whole.half_width,
        unknown=unknown,
    )
