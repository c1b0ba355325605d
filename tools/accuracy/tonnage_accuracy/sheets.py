"""Tables of the accuracy report: errors on rows left out, another program's, picks by prediction, replayed logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tonnage_accuracy.records import (
    ConfidenceRegret,
    Duel,
    GroupErrors,
    LogErrors,
    OutOfSample,
    PointsTaught,
    Regret,
    Reliability,
    SetAside,
    Standing,
)


class Sheet(NamedTuple):
    """A table with a row for each of some lines."""

    title: str
    """Before it in a text."""
    about: str
    """Before it on the page: a heading, and what its columns mean."""
    header: tuple[str, ...]
    row: Callable[..., tuple[str, ...]]

    def rows(self, lines: Sequence[object]) -> list[tuple[str, ...]]:
        """Header and one row a line; none without lines."""
        return [self.header, *map(self.row, lines)] if lines else []

    def text(self, lines: Sequence[object]) -> list[str]:
        """Title and table for a terminal."""
        return titled(self.title, self.rows(lines)) if lines else []

    def page(self, lines: Sequence[object]) -> list[str]:
        """The section of the page."""
        return [self.about, markdown_table(self.header, self.rows(lines)[1:])] if lines else []


def percent(share: float | None, *, signed: bool = False) -> str:
    """ "12.3 %"; a dash for none, and a factor from a hundredfold on."""
    if share is None:
        return "-"
    shown = f"{share * 100:+.1f}" if signed else f"{share * 100:.1f}"
    return f"{shown} %" if abs(share) < 100 else f"{share:.1e} x"


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; numbers to the right, the last column as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def cell(value: str, width: int) -> str:
        return value.rjust(width) if value[:1] in "+-0123456789" else value.ljust(width)

    return "\n".join(
        "  " + "  ".join(cell(value, width) for value, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def titled(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """A table for a terminal below its title."""
    return ["", title, "", align_columns(rows)]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of the page."""
    if not rows:
        return "None."
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines)


STANDING_HEADER: Final = ("figure", "left out", "groups", "numbers", "mean of medians", "median of medians",
                          "worst group", "covered, mean", "covered, least", "± width")  # fmt: skip
_LEFT_OUT: Final = {"source": "its source", "family": "its family", "": "nothing (in sample)"}

_STANDING_HEAD: Final = """## On a case that nobody had fitted

What to expect of a question of one's own. Each row is predicted, and its interval drawn, as if its whole source, or its
whole model family, had never been seen: out of every fit
(`python tools/calibration/left_out.py --only source family`) and out of the widths, where those without it are stored
(`python tools/calibration/widths.py`: today those without a source; a
family's intervals are as wide as shipped). Structure that was set by hand with the rows in view cannot be taken back.
A row counts once for each thing it measured: of several rates one, and none beside the times that it is made of.
The error of a group is its median; a figure is the mean over the groups with at least eight numbers, so that a source
of 3,000 rows weighs as much as one of 20. Groups, and what counts as one source or family, are fixed in
[measurements/groups.toml](../measurements/groups.toml). *Covered* is the share of measured values inside their 90 %
interval."""

_UNSEEN: Final = """### Tables that no fit has read

As shipped, by source: no fit reads these rows. What was set by hand with them in view (on 2026-11-23 llama.cpp's
prompts on Radeon, which STRIX measures: its figure before was 37.5 %) is in sample for them all the same, and stands
in [the log](log/index.md) beside what is wrong with the largest errors. SPARK, above, was in view that day too: its
TPOT was at 30.3 %, its TTFT at 31.8 %, and with these the means of sources left out are 13.0 and 23.1 %."""

_SOURCES: Final = """### Source by source

Each source left out. *Open setting*: most of its rows leave that open, and it moves the figure by more than 1.3
times."""

_ASIDE: Final = """## Rows set aside, both ways

In sample, mean over sources of the medians of those sources' figures, without the rows and with them."""


def standing_rows(found: OutOfSample) -> list[tuple[str, ...]]:
    """Header and one row for each figure and what was left out; none without left-out predictions."""
    rows = [_standing(line) for line in sorted(found.standings, key=lambda line: _place(found.standings, line))]
    return [STANDING_HEADER, *rows] if rows else []


def standings_page(found: OutOfSample) -> list[str]:
    """The sections of the page; nothing without left-out predictions."""
    if not found.standings:
        return []
    header, *rows = standing_rows(found)
    parts = [_STANDING_HEAD, markdown_table(header, rows)]
    if found.unseen:
        parts += [_UNSEEN, markdown_table(header, [*map(_standing, found.unseen)])]
    named = ("figure", "source", "numbers", "median", "mean", "bias", "covered", "± width", "open setting")
    parts += [_SOURCES, markdown_table(named, [*map(_group, found.sources)])]
    named = ("figure", "family", *named[2:])
    parts += ["### Family by family", markdown_table(named, [*map(_group, found.families)])]
    return parts


def aside_page(found: Sequence[SetAside]) -> list[str]:
    """The section on rows that figures leave out; nothing without such rows."""
    rows = []
    for item in found:
        after = {line.figure: line for line in item.with_them}
        before = {line.figure: line for line in item.without}
        for figure in dict.fromkeys((*before, *after)):
            rows.append(
                (
                    item.name,
                    f"{item.predicted:,} of {item.rows:,}",
                    figure,
                    *_mean(before.get(figure)),
                    *_mean(after.get(figure)),
                )
            )
    header = ("rows", "predicted", "figure", "without", "its worst source", "with them", "its worst source")
    return [_ASIDE, markdown_table(header, rows)] if rows else []


def _mean(line: Standing | None) -> tuple[str, str]:
    return ("-", "-") if line is None else (percent(line.mean), f"{line.worst_group} {percent(line.worst)}")


def _place(every: Sequence[Standing], line: Standing) -> tuple[int, int]:
    figures = list(dict.fromkeys(other.figure for other in every))
    return figures.index(line.figure), list(_LEFT_OUT).index(line.left_out)


def _standing(line: Standing) -> tuple[str, ...]:
    over = f", {line.over_40} over 40 %" if line.over_40 else ""
    over += f" ({line.over_40_unknown} with an open setting)" if line.over_40_unknown else ""
    least = f"{percent(line.coverage_least)} ({line.coverage_least_group})" if line.coverage_least_group else "-"
    return (
        line.figure,
        _LEFT_OUT[line.left_out],
        f"{line.groups}",
        f"{line.rows:,}",
        percent(line.mean),
        percent(line.median),
        f"{line.worst_group} {percent(line.worst)}{over}",
        percent(line.coverage_mean),
        least,
        percent(line.half_width),
    )


def _group(line: GroupErrors) -> tuple[str, ...]:
    numbers = f"{line.rows:,}" + (f" (+{line.missing:,} without)" if line.missing else "")
    return (
        line.figure,
        line.group,
        numbers,
        percent(line.median_ape),
        percent(line.mean_ape),
        percent(line.bias, signed=True),
        percent(line.coverage_90),
        percent(line.half_width),
        line.unknown,
    )


DUEL_HEADER: Final = ("figure", "source", "numbers", "theirs", "ours, source out", "ours, family out",
                      "ours, as shipped", "nearer", "their cover", "note")  # fmt: skip
MEAN: Final = "mean"


def duel_sentence(name: str, lines: Sequence[Duel]) -> str:
    """Who is nearer in how many groups, on equal terms: left out against not fitted, as shipped against fitted."""
    judged = [line for line in lines if line.source != MEAN]
    lost = sum(_ours(line) > line.theirs for line in judged)
    fitted = sum(line.theirs_fitted for line in judged)
    said = (
        f"{name}: nearer than ours in {lost} of {len(judged)} groups (figure x source), further in {len(judged) - lost}"
    )
    return f"{said}; its own fits have read {fitted} of them, as it says." if fitted else f"{said}."


def _ours(line: Duel) -> float:
    """Ours on the same terms as theirs."""
    return line.ours if line.theirs_fitted or line.ours_source is None else line.ours_source


def _duel_row(line: Duel) -> tuple[str, ...]:
    notes = ["theirs in sample"] if line.theirs_fitted else []
    notes += [f"{line.asked - line.rows:,} not by both"] if line.asked > line.rows else []
    return (
        line.figure, line.source, f"{line.rows:,}", percent(line.theirs), percent(line.ours_source),
        percent(line.ours_family), percent(line.ours), "theirs" if line.theirs < _ours(line) else "ours",
        percent(line.theirs_coverage), ", ".join(notes),
    )  # fmt: skip


DUELS: Final = Sheet("", "", DUEL_HEADER, _duel_row)


_POINTS_HEAD: Final = """## Published rows as points of their stack

What `--calibration published` does: rows of the same model with the same engine on the same part move a prediction,
the nearer in load, lengths, degrees, release and formats the more. A *run* is one published configuration: publisher,
model, part, engine, release, formats. Each number stands on fits without its family (without its source where sources
are left out) and is moved by the points that are not left out with it; *with points left* counts the numbers that any
are left for. Where a family or a stack is left out none is, so nothing moves. Other loads of its own configuration
cut an error to a third or a quarter, other configurations of its publisher cut little but the tail, and rows of
another publisher told nothing and made rates worse: so points count where somebody asks for them, and narrow no
interval."""
_POINTS_HEADER: Final = ("left out", "quantity", "numbers", "without points", "with points left", "runs", "without",
                         "with", "p90 without", "p90 with", "runs worse by 2 points")  # fmt: skip


def _points_row(line: PointsTaught) -> tuple[str, ...]:
    shares = line.taught_before, line.taught_after, line.taught_before_p90, line.taught_after_p90, line.worse
    return (
        f"its {line.left_out}",
        line.quantity,
        f"{line.numbers:,}",
        percent(line.before),
        f"{line.taught:,}",
        f"{line.runs:,}",
        *map(percent, shares),
    )


POINTS: Final = Sheet(
    "Published rows as points of their model on their stack (--calibration published):",
    _POINTS_HEAD,
    _POINTS_HEADER,
    _points_row,
)

USUAL_MS: Final = (20.0, 35.0, 50.0)
"""Limits over which the mean is taken; 10 ms is met by few configurations. [ms]"""
REGRET_HEADER = ("predicted by", "TPOT limit", "questions", "choices", "reached, median", "mean", "p10", "limit kept",
          "median if a miss is nothing", "at its own TPOT", "at random")  # fmt: skip

_REGRET_HEAD = """## Decisions by these predictions

Of the serving points with the same model, lengths and accelerator (whatever the engine, the formats, the layout, the
clients), which configuration gives most output tokens per second and accelerator within a limit on the time per
output token? The pick is the best *predicted* to keep the limit; *reached* is its measured rate over that of the best
*measured* to keep it, at most 1. A pick that misses its limit is counted under *limit kept*; *if a miss is nothing*
counts it as 0, *at its own TPOT* compares it with the best at the time per token that it really has. *At random* is
the mean of all that keep the limit. *Left out* are predictions of fits that never saw the row's group."""


_CONFIDENCE_HEAD: Final = """### Decided by chance

The same questions, answered as a plan answers them: the best among the configurations whose chance of keeping the limit
is at least a confidence; where none has it (*none has it*), the likeliest. Cells are *reached* / *limit kept*; a pick
that misses its limit reaches and keeps nothing; *mean* is over 20, 35 and 50 ms. *Else no answer* and *margin* (a
predicted TPOT so far under the limit) are rules that were tried before. *Left out*: predictions, and widths where they
are stored, of fits that never saw the row's group; what such a fit cannot predict is no option. *Sound rows*: without
the rows that contradict themselves by their own arithmetic (`validation/contradictions.py`). How small errors would
have to be for more: `python -m tools.regret --bound`."""
_RELIABILITY_HEAD: Final = """Picks at any of these confidences and limits, by the chance that was said of them, and how
many kept the limit: said and kept are equal where chances are true, and *kept* above *said* is caution."""


def _confidence(lines: Sequence[ConfidenceRegret]) -> Sheet:
    limits = lines[0].limits_ms if lines else ()
    header = ("predicted by", "rule", "questions", "none has it", *(f"{ms:g} ms" for ms in limits), "mean")
    title = "Picks by their chance of keeping the limit, a miss or no answer counted as nothing:"
    return Sheet(title, _CONFIDENCE_HEAD, header, _confidence_row)


def _confidence_row(line: ConfidenceRegret) -> tuple[str, ...]:
    usual = [i for i, ms in enumerate(line.limits_ms) if ms in USUAL_MS]
    means = [sum(values[i] for i in usual) / len(usual) for values in (line.reached, line.kept)]
    pairs = [*zip(line.reached, line.kept, strict=True), (means[0], means[1])]
    shares = (f"{reached:.0%} / {kept:.0%}" for reached, kept in pairs)
    return (line.who or "this fit", line.rule, f"{line.questions}", f"{line.unanswered}", *shares)


def _reliability_row(one: Reliability) -> tuple[str, ...]:
    return (one.who or "this fit", f"{one.low:.0%} to {one.high:.0%}", f"{one.plans}", f"{one.said:.0%}",
            f"{one.held:.0%}")  # fmt: skip


_RELIABILITY: Final = Sheet(
    "", _RELIABILITY_HEAD, ("predicted by", "chance said", "picks", "mean chance", "kept the limit"), _reliability_row
)


def confidence_page(lines: Sequence[ConfidenceRegret], held: Sequence[Reliability]) -> list[str]:
    """The section of the page on choosing by chance: reached / kept by limit, then the reliability of the chances."""
    return [*_confidence(lines).page(lines), *_RELIABILITY.page(held)]


def confidence_text(lines: Sequence[ConfidenceRegret], held: Sequence[Reliability]) -> list[str]:
    """The same for a terminal."""
    return [*_confidence(lines).text(lines), *_RELIABILITY.text(held)[2:]]


def _regret_row(line: Regret) -> tuple[str, ...]:
    over = "" if line.median_over is None else f" (others {line.median_over:.0%} over)"
    return (
        (line.who or "this fit") + (f", one {line.by}" if line.by else ""),
        "all" if line.limit_ms is None else f"{line.limit_ms:g} ms",
        f"{line.questions}",
        f"{line.choices:.0f}",
        f"{line.median_reached:.1%}",
        f"{line.mean_reached:.1%}",
        f"{line.p10_reached:.1%}",
        f"{line.kept:.0%}{over}",
        f"{line.median_strict:.1%}",
        f"{line.median_frontier:.1%}",
        f"{line.random:.1%}",
    )


REGRET: Final = Sheet(
    "Picks by these predictions among measured configurations (tokens/s per accelerator):",
    _REGRET_HEAD,
    REGRET_HEADER,
    _regret_row,
)

PHYSICS: Final = "physics"

_LOG_HEAD: Final = """## Request logs of real engines, played again

Arrivals, lengths and settings are the log's; steps and scheduler are ours. Predicted over measured, less one, at each
percentile. *physics*: as a user's case is predicted, nothing taken from the log. *links through the host*: the same
for two accelerators that do not reach each other's memory over PCIe (`links.intra` = `pcie-host`); the logs do not
say whether theirs did. *fitted on*: datasheet and generic curve, no kernel table, with three numbers (what memory
bounds, what arithmetic bounds, host time of a step) set by the percentiles of that one log, and the size of the cache
as the engine printed it. These logs bring requests faster than their engines answer, so a queue grows until the last
has come: an error of the rate comes back twice or more in TTFT.
`python -m tools.calibration.logs FOLDER --write` refreshes the table from the logs."""


def log_page(errors: Sequence[LogErrors]) -> list[str]:
    """The section of the page; nothing without logs."""
    sources = "; ".join(sorted({f"{line.source}, predicted {line.date}" for line in errors}))
    return [*LOGS.page(_log_order(errors)), f"Logs: {sources}."] if errors else []


def log_text(errors: Sequence[LogErrors]) -> list[str]:
    """The same for a terminal."""
    return LOGS.text(_log_order(errors))


def _log_order(errors: Sequence[LogErrors]) -> list[LogErrors]:
    return sorted(errors, key=lambda line: (line.by != PHYSICS, line.by, line.log))


def _log_row(line: LogErrors) -> tuple[str, ...]:
    largest = max(abs(error) for error in (*line.ttft, *line.tpot, *line.e2e))
    return (
        line.accelerator,
        line.model.rpartition("/")[2],
        line.layout,
        line.by,
        *(" / ".join(f"{error:+.0%}" for error in errors) for errors in (line.ttft, line.tpot, line.e2e)),
        f"{largest:.0%}",
    )


LOGS: Final = Sheet(
    "Request logs played again, predicted over measured, less one:",
    _LOG_HEAD,
    ("log", "model", "layout", "predicted by", "TTFT p50 / p90 / p95 / p99", "TPOT", "E2E", "largest"),
    _log_row,
)
