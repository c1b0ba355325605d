"""How does an accuracy report look? As a table for a terminal, and as the page docs/accuracy.md.

Both show shares as percentages and put what was not predicted, and why, as large as what was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tonnage.record import Record
from tonnage.report.document import Document, Headline, Note, document, grid
from tonnage_accuracy.records import (
    AccuracyReport,
    BlockErrors,
    ConfidenceRegret,
    Figure,
    PeerErrors,
    Regret,
    Reliability,
    SetAside,
)
from tonnage_accuracy.sheets import (
    DUELS,
    POINTS,
    REGRET,
    Sheet,
    align_columns,
    aside_page,
    confidence_page,
    confidence_text,
    duel_sentence,
    log_page,
    log_text,
    markdown_table,
    percent,
    standing_rows,
    standings_page,
    titled,
)

HEADER = ("block", "kind", "quantity", "rows", "predicted", "median", "mean", "p90", "bias", "covered", "± width")
MOST_CRASHES = 10
FIRST_ROWS = 12
"""Lines of a first screen."""
NOTABLE = 0.25
"""Median error above which the page explains a block."""


class Page(Record, kw_only=True):
    """What the page adds to a report."""

    overall: tuple[BlockErrors, ...]
    """Errors over all blocks, by kind and quantity."""
    baselines: tuple[tuple[str, tuple[BlockErrors, ...]], ...] = ()
    """Rival predictions over the same rows: a name and their errors."""
    explanations: Mapping[tuple[str, str], str] = {}
    """Why a block and quantity are hard."""
    left_out: Mapping[tuple[str, str, str], Mapping[str, float | None]] = {}
    """Median errors of a block, kind and quantity by fits that never saw the row's group, by kind of group."""
    unseen: tuple[BlockErrors, ...] = ()
    """Errors and coverage over all blocks and kinds of groups, each row as predicted without its group."""
    peer: str = ""
    """Another tool's name and version, when its answers to the same rows are kept."""
    peers: tuple[PeerErrors, ...] = ()
    aside: tuple[SetAside, ...] = ()
    """Rows that figures leave out, and the figures with them."""
    regret: tuple[Regret, ...] = ()
    """Decisions by predictions, ours and those of fits that never saw the row's group."""
    confidence: tuple[ConfidenceRegret, ...] = ()
    reliability: tuple[Reliability, ...] = ()


def sentence(report: AccuracyReport) -> str:
    """The answer in one sentence."""
    share = report.predicted / report.rows if report.rows else 0.0
    crashed = f"; {len(report.crashes)} predictions CRASHED" if report.crashes else ""
    passed = f" ({report.unusable:,} more are marked not comparable)" if report.unusable else ""
    return f"{report.predicted:,} of {report.rows:,} usable rows predicted, {share:.1%}{passed}{crashed}."


def accuracy_document(report: AccuracyReport) -> Document:
    """The first screen: errors on what no fit had seen, else the blocks with the largest errors."""
    standings = [line for line in report.out_of_sample.standings if line.left_out == "source"]
    if standings:
        heads = ["figure~", "sources>", "numbers>", "mean error>", "90 % intervals hold>", "worst source~"]
        rows = [
            (
                line.figure,
                f"{line.groups}",
                f"{line.rows:,}",
                percent(line.mean),
                percent(line.coverage_mean),
                f"{line.worst_group} {percent(line.worst)}",
            )
            for line in standings[:FIRST_ROWS]
        ]
        title = "Each source left out of what is fitted; a source's error is its median, and sources weigh the same"
    else:
        heads = ["block~", "quantity~", "rows>", "median error>", "p90>", "90 % intervals hold>"]
        rows = [
            (
                line.block,
                line.quantity,
                f"{line.predicted:,} of {line.rows:,}",
                percent(line.median_ape),
                percent(line.p90_ape),
                percent(line.coverage_90),
            )
            for line in worst_first(report.blocks)[:FIRST_ROWS]
        ]
        title = "The largest errors, in sample: most of these rows were read by the fits that predict them"
    skipped = _count_skipped(report)
    left = sum(number for _, number in skipped)
    why = f"{left:,} numbers are not predicted, most of all: {skipped[0][0][1]} ({skipped[0][1]:,})." if skipped else ""
    return document(
        Headline(sentence(report), good=not report.crashes),
        grid(heads, rows, title=title),
        duel_sentence(report.predictor, report.duels) if report.duels else None,
        why,
        Note(hint="Every block, decisions, request logs, reasons: --why; each number: --rows FILE."),
    )


def as_text(report: AccuracyReport) -> str:
    """The whole report for a terminal."""
    grouped = any(line.group is not None for line in report.blocks)
    header = (*HEADER[:2], "group", *HEADER[2:]) if grouped else HEADER
    rows = [_cells(line, grouped) for line in report.blocks]
    parts = [sentence(report)]
    if report.out_of_sample.standings:
        title = "By groups that weigh the same, each left out of what is fitted:"
        parts += titled(title, standing_rows(report.out_of_sample))
    parts += POINTS.text(report.points)
    if report.duels:
        told = duel_sentence(report.predictor, report.duels)
        parts += titled(told, DUELS.rows(report.duels))
    parts += [
        "",
        align_columns([header, *rows]),
        *TRAINING.text(report.training),
        *NETWORKS.text(report.networks),
        *REGRET.text(report.regret),
        *confidence_text(report.confidence, report.reliability),
        *log_text(report.logs),
    ]
    calm = [line for line in report.blocks if line.below_knee not in (None, line.predicted)]
    if calm:
        lines = [
            (line.block, line.quantity, f"{line.below_knee:,}", percent(line.below_knee_median_ape)) for line in calm
        ]
        parts += titled(
            "Latencies below the knee only (above it they are queueing):",
            [("block", "quantity", "rows", "median"), *lines],
        )
    skipped = _count_skipped(report)
    if skipped:
        cells = [(block, f"{number:,}", why) for (block, why), number in skipped]
        parts += titled("Not predicted (rows x quantities):", cells)
    if report.out_of_memory:
        parts += ["", f"Runs that did not fit: {report.out_of_memory_found} of {report.out_of_memory} predicted so."]
    if report.crashes:
        same = Counter(crash.reason for crash in report.crashes).most_common(MOST_CRASHES)
        first = {crash.reason: crash.id for crash in reversed(report.crashes)}
        parts += ["", "Crashes, each a bug to report:", ""]
        parts += [f"  {number} x {why} (first {first[why]})" for why, number in same]
    return "\n".join(parts)


def worst_first(lines: Sequence[BlockErrors]) -> list[BlockErrors]:
    """Largest median error first; what was never predicted comes before everything."""
    return sorted(lines, key=lambda line: -(line.median_ape if line.median_ape is not None else float("inf")))


def as_markdown(report: AccuracyReport, page: Page) -> str:
    """The page docs/accuracy.md."""
    parts = [
        "# How accurate it is",
        "Generated by `make accuracy`; do not edit. Every usable row of "
        "[the published measurements](../measurements/README.md) becomes a case, the case is predicted as a user's "
        "would be, and the error is |predicted − measured| / measured. Bias is the geometric mean of predicted over "
        "measured, less one. *Covered* is the share of measured values inside their 90 % interval, *± width* half of "
        "that interval as a share of the prediction. `fits` counts wrong verdicts under *mean*.",
        sentence(report),
        *standings_page(report.out_of_sample),
        *POINTS.page(report.points),
        *aside_page(page.aside),
        "## In sample, over all blocks",
        "Each row weighs the same here, and most were read by the fits that predict them.",
        markdown_table([*HEADER[1:], "baseline median"], [_overall(line, page) for line in page.overall]),
        "Baselines: " + "; ".join(name for name, _ in page.baselines) + "." if page.baselines else "",
        *_unseen(page),
        *TRAINING.page(report.training),
        *NETWORKS.page(report.networks),
        *_peers(page),
        *REGRET.page(page.regret),
        *confidence_page(page.confidence, page.reliability),
        *log_page(report.logs),
        "## Block by block, worst first",
        _blocks(report, page),
        "## Not predicted",
        markdown_table(
            ["block", "rows x quantities", "reason"],
            [[block, f"{number:,}", why] for (block, why), number in _count_skipped(report)],
        ),
    ]
    if report.out_of_memory:
        parts += [
            "## Runs that did not fit",
            f"{report.out_of_memory} rows record a run that went out of memory. They carry no speed, so no table "
            f"above counts them; {report.out_of_memory_found} are predicted not to fit.",
        ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _blocks(report: AccuracyReport, page: Page) -> str:
    kinds = _kinds(page)
    header = [*HEADER[:6], *(["left out: " + ", ".join(kinds)] if kinds else []), *HEADER[6:], "why"]
    rows = []
    for line in worst_first(report.blocks):
        cells = _cells(line, False)
        own = page.left_out.get((line.block, line.kind, line.quantity), {})
        left = [" / ".join(percent(own.get(kind)) for kind in kinds)] if kinds else []
        why = page.explanations.get((line.block, line.quantity)) or page.explanations.get((line.block, "*"), "")
        loud = line.median_ape is None or line.median_ape > NOTABLE or (line.mean_ape or 0) > NOTABLE
        rows.append([*cells[:6], *left, *cells[6:], why if loud else ""])
    return markdown_table(header, rows)


def _kinds(page: Page) -> list[str]:
    return list(dict.fromkeys(kind for medians in page.left_out.values() for kind in medians))


def _unseen(page: Page) -> list[str]:
    """In sample beside left out, over all blocks."""
    kinds = _kinds(page)
    if not kinds:
        return []
    rows = []
    for line in page.overall:
        medians = page.left_out.get(("all", line.kind, line.quantity))
        outside = _alike(page.unseen, line)
        if medians:
            inside = [percent(outside.coverage_90), percent(outside.half_width)] if outside else ["-", "-"]
            cells = [percent(medians.get(kind)) for kind in kinds]
            rows.append([line.kind, line.quantity, percent(line.median_ape), *cells, *inside])
    return [
        "## Each row without its accelerator, family, engine, source",
        "Median errors over rows with all rows of one accelerator, model family, engine or source taken out of every "
        "fit, in turn (`python tools/calibration/left_out.py`). *Covered* counts every number once for each of these, "
        "inside the interval that its level then has.",
        markdown_table(
            ["kind", "quantity", "in sample", *(f"without its {kind}" for kind in kinds), "covered", "± width"], rows
        ),
    ]


def _peers(page: Page) -> list[str]:
    """Another tool's errors on the same rows."""
    if not page.peers:
        return []
    rows = [
        [
            line.engine,
            line.model,
            line.mode,
            line.quantity,
            f"{line.rows:,}",
            *_beside(line.ours_median, line.theirs_median),
            *_beside(line.ours_mean, line.theirs_mean),
            percent(line.left_out_median),
        ]
        for line in page.peers
    ]
    header = ["engine", "model", "mode", "quantity", "rows", "median, ours / theirs", "ratio", "mean, ours / theirs",
              "ratio", "ours, family left out"]  # fmt: skip
    return [
        f"## Beside {page.peer}",
        "Its own estimate of the same serving rows (`make peers`; [how it was asked](../tools/peers/README.md)), "
        "scored on exactly the rows that both predict. Ours are in sample: the overheads of engines are fitted on "
        "these rows, among others; the last column is not.",
        markdown_table(header, rows),
    ]


def _beside(ours: float, theirs: float) -> tuple[str, str]:
    return f"{percent(ours)} / {percent(theirs)}", f"{ours / theirs:.2f}" if theirs else "-"


def _alike(lines: Sequence[BlockErrors], line: BlockErrors) -> BlockErrors | None:
    """Errors of the same kind and quantity."""
    return next((one for one in lines if (one.kind, one.quantity) == (line.kind, line.quantity)), None)


def _overall(line: BlockErrors, page: Page) -> list[str]:
    medians = [found.median_ape if (found := _alike(own, line)) else None for _, own in page.baselines]
    shown = " / ".join(map(percent, medians)) if any(median is not None for median in medians) else ""
    return [*_cells(line, False)[1:], shown]


def _cells(line: BlockErrors, grouped: bool) -> tuple[str, ...]:
    group = (line.group or "",) if grouped else ()
    return (
        line.block,
        line.kind,
        *group,
        line.quantity,
        f"{line.rows:,}",
        f"{line.predicted:,}",
        percent(line.median_ape),
        percent(line.mean_ape),
        percent(line.p90_ape),
        percent(line.bias, signed=True),
        percent(line.coverage_90),
        percent(line.half_width),
    )


def _count_skipped(report: AccuracyReport) -> list[tuple[tuple[str, str], int]]:
    counts: Counter[tuple[str, str]] = Counter()
    for line in report.blocks:
        for why, number in line.skipped.items():
            counts[line.block, why] += number
    return counts.most_common()


TRAINING_HEADER = ("group", "figure", "numbers", "value", "to reach", "reached")

_TRAINING_HEAD = """## Training, group by group

Each row of training counts once, by the first speed that it prints; a row that prints FLOP/s only is counted as its
source counts them. *Left out* is what fits say that never saw the row's source (or accelerator). Growth compares two
counts of the same job, where only the data-parallel ranks grow. vTrain's tables (`measurements/outside`) are in no
fit. A published layout is compared with the best arrangement of the same job that the search finds, by predicted
step time."""


_NETWORKS = """## Networks and single streams, group by group

Batches through models that do not serve chats, and one request at a time through llama.cpp, ExLlama and MLC; prompts of
one accelerator are rows without an answer, which no fit reads. *Own* are real runs on a processor that `tonnage measure
device` measured just before ([measurements/own](../measurements/own/runs.csv)): PyTorch networks traced, predicted from
the device's file, then run; the best of many runs in seconds of the one thread, for the machine was shared."""


def _training_row(line: Figure) -> tuple[str, ...]:
    met = line.met
    stated = line.at_most is not None or line.at_least is not None
    return (
        line.group,
        line.figure,
        f"{line.rows:,}",
        "-" if line.value is None else f"{line.value:.1%}",
        _bounds(line),
        "" if met is None or not stated else "yes" if met else "NO",
    )


def _bounds(line: Figure) -> str:
    if line.at_least is not None and line.at_most is not None:
        return f"{line.at_least:.0%} to {line.at_most:.0%}"
    if line.at_most is not None:
        return f"at most {line.at_most:.0%}"
    return f"at least {line.at_least:.0%}" if line.at_least is not None else "-"


TRAINING: Final = Sheet("Training, group by group:", _TRAINING_HEAD, TRAINING_HEADER, _training_row)
NETWORKS: Final = Sheet("Networks and single streams, group by group:", _NETWORKS, TRAINING_HEADER, _training_row)
