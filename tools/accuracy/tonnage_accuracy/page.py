"""How does an accuracy report look? As tables for a terminal, as docs/accuracy.md, and as the tables beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from tonnage.record import Record
from tonnage.report.document import Document, Headline, Note, document, grid
from tonnage_accuracy.first_contact import LINES, curve, prequential
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
    LOGS,
    POINTS,
    REGRET,
    RELIABILITY,
    STANDINGS,
    Sheet,
    align_columns,
    aside_rows,
    confidence_sheet,
    confidence_text,
    duel_sentence,
    group_rows,
    log_order,
    log_text,
    markdown_table,
    percent,
    standing_rows,
    titled,
)
from tonnage_accuracy.tables import read_table

HEADER = ("block", "kind", "quantity", "rows", "predicted", "median", "mean", "p90", "bias", "covered", "± width")
MOST_CRASHES = 10
FIRST_ROWS = 12
"""Lines of a first screen."""
NOTABLE = 0.25
"""Median error above which a block is explained."""
Rows = Sequence[tuple[str, ...]]
IN_WORDS: Final = ("what is predicted", "sources", "numbers", "error", "intervals hold", "worst source")
FIGURES: Final = {
    "TTFT": "time to first token",
    "TPOT": "time per output token",
    "output rate": "output tokens per second",
    "prompt": "prompt processing",
    "memory": "memory of serving",
    "networks": "networks that are no chat models",
    "training step": "time of a training step",
    "peak memory": "peak memory of training",
}
PICKED: Final = ("source left out", "chance 80%")
"""Of the choices by chance, those told on the page."""


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
    peers: tuple[PeerErrors, ...] = ()
    """Another tool's answers to the same rows."""
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
        parts += titled(STANDINGS.title, standing_rows(report.out_of_sample))
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


def page_tables(report: AccuracyReport, page: Page) -> dict[str, Rows]:
    """The tables beside the page, by the name of their file: a header, then rows; none where there is nothing."""
    skipped = [(block, f"{number:,}", why) for (block, why), number in _count_skipped(report)]
    found: dict[str, Rows] = {
        "unseen": STANDINGS.rows(report.out_of_sample.unseen),
        "standings": standing_rows(report.out_of_sample),
        "sources": group_rows(report.out_of_sample.sources, "source"),
        "families": group_rows(report.out_of_sample.families, "family"),
        "without-groups": _without_groups(page),
        "all-blocks": [(*HEADER[1:], *(f"median of {name}" for name, _ in page.baselines)),
                       *(_overall(line, page) for line in page.overall)],
        "blocks": _blocks(report, page),
        "training": TRAINING.rows(report.training),
        "networks": NETWORKS.rows(report.networks),
        "aiconfigurator": _peers(page),
        "picks": REGRET.rows(page.regret),
        "confidence": confidence_sheet(page.confidence).rows(page.confidence),
        "reliability": RELIABILITY.rows(page.reliability),
        "logs": LOGS.rows(log_order(report.logs)),
        "published-points": POINTS.rows(report.points),
        "set-aside": aside_rows(page.aside),
        "not-predicted": [("block", "rows x quantities", "reason"), *skipped] if skipped else [],
    }  # fmt: skip
    return {name: rows for name, rows in found.items() if rows}


def as_markdown(said: str, found: Mapping[str, Rows], *, names: Mapping[str, str]) -> str:
    """
    The page docs/accuracy.md.

    Parameters
    ----------
    said : str
        The answer in one sentence.
    found : mapping
        The tables beside it.
    names : mapping
        Words for the ids of sources.
    """
    head, *lines = curve(prequential(read_table(LINES)))
    text = Template((Path(__file__).parent / "page.txt").read_text(encoding="utf-8"))
    return text.substitute(
        said=said,
        first_contact=markdown_table(head, lines),
        unseen=_in_words(found.get("unseen", ()), names),
        standings=_in_words(found.get("standings", ()), names),
        picks=_picks(found.get("confidence", ())),
    )


def _in_words(rows: Rows, names: Mapping[str, str]) -> str:
    """Of a table of standings what is predicted without its source: one row for each figure."""
    lines = []
    for figure, left_out, groups, numbers, mean, _, worst, covered, *_ in rows[1:]:
        if left_out == "its source":
            source, _, error = worst.partition(" ")
            named = f"{names.get(source, source)}: {error.partition(',')[0]}"
            lines.append((FIGURES.get(figure, figure), groups, numbers, mean, covered, named))
    return markdown_table(IN_WORDS, lines)


def _picks(rows: Rows) -> str:
    """What a choice reaches where nothing of its source was fitted."""
    shares = next((row[-1] for row in rows if row[:2] == PICKED), "")
    reached, _, kept = shares.partition(" / ")
    return f"Such a choice keeps its limit in {kept} of the cases and reaches {reached} of the best." if kept else ""


def _blocks(report: AccuracyReport, page: Page) -> Rows:
    """Every block and quantity, the worst first, with what is known of why."""
    kinds = _kinds(page)
    rows = []
    for line in worst_first(report.blocks):
        cells = _cells(line, False)
        own = page.left_out.get((line.block, line.kind, line.quantity), {})
        why = page.explanations.get((line.block, line.quantity)) or page.explanations.get((line.block, "*"), "")
        loud = line.median_ape is None or line.median_ape > NOTABLE or (line.mean_ape or 0) > NOTABLE
        rows.append((*cells, *(percent(own.get(kind)) for kind in kinds), why if loud else ""))
    return [(*HEADER, *(f"without its {kind}" for kind in kinds), "why"), *rows]


def _kinds(page: Page) -> list[str]:
    return list(dict.fromkeys(kind for medians in page.left_out.values() for kind in medians))


def _without_groups(page: Page) -> Rows:
    """Over all blocks: in sample beside what fits say that never saw the row's accelerator, family, engine, source."""
    kinds = _kinds(page)
    rows = []
    for line in page.overall:
        medians = page.left_out.get(("all", line.kind, line.quantity))
        outside = _alike(page.unseen, line)
        if medians:
            inside = (percent(outside.coverage_90), percent(outside.half_width)) if outside else ("-", "-")
            cells = (percent(medians.get(kind)) for kind in kinds)
            rows.append((line.kind, line.quantity, percent(line.median_ape), *cells, *inside))
    header = ("kind", "quantity", "in sample", *(f"without its {kind}" for kind in kinds), "covered", "± width")
    return [header, *rows] if rows else []


def _peers(page: Page) -> Rows:
    """Another tool's errors on the same rows; ours are in sample but for the last column."""
    rows = [
        (
            line.engine,
            line.model,
            line.mode,
            line.quantity,
            f"{line.rows:,}",
            percent(line.ours_median),
            percent(line.theirs_median),
            percent(line.ours_mean),
            percent(line.theirs_mean),
            percent(line.left_out_median),
        )
        for line in page.peers
    ]
    header = ("engine", "model", "mode", "quantity", "rows", "median, ours", "median, theirs", "mean, ours",
              "mean, theirs", "ours, family left out")  # fmt: skip
    return [header, *rows] if rows else []


def _alike(lines: Sequence[BlockErrors], line: BlockErrors) -> BlockErrors | None:
    """Errors of the same kind and quantity."""
    return next((one for one in lines if (one.kind, one.quantity) == (line.kind, line.quantity)), None)


def _overall(line: BlockErrors, page: Page) -> tuple[str, ...]:
    medians = [found.median_ape if (found := _alike(own, line)) else None for _, own in page.baselines]
    return (*_cells(line, False)[1:], *map(percent, medians))


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


TRAINING: Final = Sheet("Training, group by group:", TRAINING_HEADER, _training_row)
NETWORKS: Final = Sheet("Networks and single streams, group by group:", TRAINING_HEADER, _training_row)
