"""
What is predicted for a case whose source, or whose model family, nobody had measured? The figures that come first.

A number stands on the fit that never saw its group, where `tools/calibration/left_out.py` has stored one, inside an
interval whose width never saw the group either (`tools/calibration/widths.py`). A number of a table that no fit has
read (`groups.toml`, `unseen`) and that has no stored one stands on the catalogue as shipped. Every other number is
missing.

A row gives each thing it measured once (`independent`): a total rate, an output rate and the time of the same batch are
one number, and so are the rates of a training step and its time. For each such figure the errors of a group (a source,
a model family) have a median; a *standing* is the mean over the groups with enough numbers, beside the worst of them.
So a source of 3,000 rows weighs as much as one of 20, as it does for somebody who brings a case of his own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from tonnage_accuracy.cases import kind_of
from tonnage_accuracy.grouping import Grouping, group_by, read_grouping
from tonnage_accuracy.left_out import left_out_predictions, left_out_scores, left_out_widths
from tonnage_accuracy.metrics import errors, quantile
from tonnage_accuracy.quantities import SPEEDS
from tonnage_accuracy.records import GroupErrors, OutOfSample, SetAside, Standing
from tonnage_accuracy.rows import Row, text
from tonnage_accuracy.scoring import Predict, Score, score

KINDS: Final = ("source", "family")


def out_of_sample(rows: Sequence[Row], scores: Sequence[Score], *, root: Path) -> OutOfSample:
    """Every figure by source and by family left out, and in sample by source."""
    grouping = read_grouping(root)
    lines: dict[str, list[GroupErrors]] = {}
    for kind in KINDS:
        found = without_group(rows, scores, root=root, kind=kind, grouping=grouping)
        lines[kind] = _lines(rows, found, grouping=grouping, kind=kind)
    fresh = {row.id for row in rows if row.table in grouping.unseen}
    taught = _lines(rows, [item for item in scores if item.id not in fresh], grouping=grouping, kind="source")
    new = _lines(rows, [item for item in scores if item.id in fresh], grouping=grouping, kind="source")
    standings = [
        *standing_figures(lines["source"], left_out="source"),
        *standing_figures(lines["family"], left_out="family"),
    ]
    return OutOfSample(
        standings=(*standings, *standing_figures(taught, left_out="")),
        sources=tuple(lines["source"]),
        families=tuple(lines["family"]),
        unseen=tuple(standing_figures(new, left_out="source")),
    )


def without_group(
    rows: Iterable[Row], scores: Sequence[Score], *, root: Path, kind: str, grouping: Grouping
) -> list[Score]:
    """The scores as predicted, and as wide, without the row's source or family."""
    stored, known = left_out_predictions(root, kind), {row.id: row for row in rows}
    name = grouping.leaves_with if kind == "source" else grouping.family
    groups = {id_: name(row) for id_, row in known.items()}
    found = left_out_scores(scores, stored, widths=left_out_widths(root, kind), group=groups)
    return [
        item
        if item.id in known and known[item.id].table in grouping.unseen and (item.id, item.quantity) not in stored
        else out
        for item, out in zip(scores, found, strict=True)
    ]


def group_scores(rows: Iterable[Row], scores: Sequence[Score], *, root: Path, kind: str) -> list[Score]:
    """The scores as predicted without the row's group of any kind, and as wide where such widths are stored."""
    grouping = read_grouping(root)
    if kind in {"source", "family"}:
        return without_group(rows, scores, root=root, kind=kind, grouping=grouping)
    return left_out_scores(scores, left_out_predictions(root, kind))


def set_aside(
    rows: Sequence[Row], scores: Sequence[Score], *, every: Iterable[Row], root: Path, predict: Predict
) -> list[SetAside]:
    """
    Figures with and without the rows that are set aside, and with settings put back that a measurement contradicts.

    In sample both ways: no fit read the rows that are set aside, and every fit read those that are not.
    """
    grouping = read_grouping(root)
    every = list(every)
    found = []
    for name in dict.fromkeys(rule.name for rule in grouping.aside):
        hidden = [replace(row, usable=True) for row in every if grouping.set_aside(row) == name]
        found.append(_beside(name, rows, scores, hidden, grouping=grouping, predict=predict))
    known = {row.id: row for row in rows}
    for change in grouping.restored:
        if change.id in known:
            row = known[change.id]
            back = replace(row, cells={**row.cells, change.column: change.value})
            title = f"{change.column} = {change.value} of {change.id}: {change.why}"
            found.append(_beside(title, rows, scores, [back], grouping=grouping, predict=predict))
    return [item for item in found if item.rows]


def _beside(
    name: str,
    rows: Sequence[Row],
    scores: Sequence[Score],
    hidden: Sequence[Row],
    *,
    grouping: Grouping,
    predict: Predict,
) -> SetAside:
    more = list(score(hidden, predict=predict))
    ids, blocks = {row.id for row in hidden}, {row.block for row in hidden}
    near = [item for item in scores if item.block in blocks]
    both = [*(item for item in near if item.id not in ids), *more]
    whole = [*(row for row in rows if row.id not in ids), *hidden]
    figures = {
        line.figure
        for line in standing_figures(_lines(whole, more, grouping=grouping, kind="source", fewest=1), left_out="")
    }
    return SetAside(
        name=name,
        rows=len(ids),
        predicted=len({item.id for item in more if item.predicted is not None}),
        without=_of(figures, _lines(rows, near, grouping=grouping, kind="source")),
        with_them=_of(figures, _lines(whole, both, grouping=grouping, kind="source")),
    )


def _of(figures: set[str], lines: Iterable[GroupErrors]) -> tuple[Standing, ...]:
    return tuple(line for line in standing_figures(lines, left_out="") if line.figure in figures)


def _lines(
    rows: Sequence[Row], scores: Iterable[Score], *, grouping: Grouping, kind: str, fewest: int = 0
) -> list[GroupErrors]:
    return group_errors(
        rows,
        scores,
        group=lambda row: grouping.group(row, kind),
        fewest=fewest or grouping.fewest,
        unknown=grouping.mostly_open,
    )


FIGURES: Final = (
    "TTFT", "TPOT", "output rate", "prompt", "energy per token", "KV capacity", "memory", "networks", "training step",
    "peak memory",
)  # fmt: skip
"""What rows measure, in the order of the tables."""

_RATES: Final = ("output_tokens_per_s", "total_tokens_per_s", "samples_per_s", "e2e_ms")
_NETWORKS: Final = ("e2e_ms", "samples_per_s", "tpot_ms")
_ONE_OF: Final = {"train": (("training step", SPEEDS),), "infer": (("networks", _NETWORKS),), "serve": ()}
_ALONE: Final = {
    "tpot_ms": "TPOT",
    "ttft_ms": "TTFT",
    "energy_per_token_j": "energy per token",
    "kv_tokens": "KV capacity",
    "memory_gb": "memory",
    "peak_mem_gb": "peak memory",
}
_ONE_BATCH: Final = {"single_stream", "static_batch"}
"""Loads whose rate and whole time say the same, and are made of the times of first and later tokens."""


def independent_figures(row: Row, quantities: Iterable[str]) -> dict[str, str]:
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


def countable(rows: Mapping[str, Row], scores: Iterable[Score]) -> list[tuple[str, Score]]:
    """Every number of those rows that counts, with its figure."""
    found = []
    for id_, own in group_by((item for item in scores if item.id in rows), lambda item: item.id).items():
        taken = independent_figures(rows[id_], (item.quantity for item in own if item.measured))
        found += [(taken[item.quantity], item) for item in own if item.quantity in taken]
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
    counted = group_by(countable(known, scores), lambda pair: (pair[0], group(known[pair[1].id])))
    found = []
    for (figure, name), pairs in counted.items():
        own = [item for _, item in pairs]
        done = [item for item in own if item.predicted is not None and item.measured]
        if len(done) >= fewest:
            open_setting = unknown([known[item.id] for item in done])
            found.append(_errors(figure, name, done, missing=len(own) - len(done), unknown=open_setting))
    return sorted(found, key=lambda line: (FIGURES.index(line.figure), -line.median_ape, line.group))


def standing_figures(lines: Iterable[GroupErrors], *, left_out: str) -> list[Standing]:
    """One line for each figure: the mean over groups of their medians, the worst group, coverage by group."""
    found = []
    for figure, own in group_by(lines, lambda line: line.figure).items():
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
        median_ape=whole.median_ape or 0.0,
        mean_ape=whole.mean_ape or 0.0,
        bias=whole.bias,
        coverage_90=whole.coverage_90,
        half_width=whole.half_width,
        unknown=unknown,
    )
