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
    header: tuple[str, ...]
    row: Callable[..., tuple[str, ...]]

    def rows(self, lines: Sequence[object]) -> list[tuple[str, ...]]:
        """Header and one row a line; none without lines."""
        return [self.header, *map(self.row, lines)] if lines else []

    def text(self, lines: Sequence[object]) -> list[str]:
        """Title and table for a terminal."""
        return titled(self.title, self.rows(lines)) if lines else []


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


def standing_rows(found: OutOfSample) -> list[tuple[str, ...]]:
    """Header and one row for each figure and what was left out; none without left-out predictions."""
    ordered: list[Standing] = sorted(found.standings, key=lambda line: _place(found.standings, line))
    return STANDINGS.rows(ordered)


def group_rows(lines: Sequence[GroupErrors], kind: str) -> list[tuple[str, ...]]:
    """Header and one row for each figure and group of a kind: source, family."""
    header = ("figure", kind, "numbers", "median", "mean", "bias", "covered", "± width", "open setting")
    return [header, *map(_group, lines)] if lines else []


def aside_rows(found: Sequence[SetAside]) -> list[tuple[str, ...]]:
    """Rows that figures leave out, and the figures without and with them; none without such rows."""
    rows = []
    for item in found:
        after = {line.figure: line for line in item.with_them}
        before = {line.figure: line for line in item.without}
        predicted = f"{item.predicted:,} of {item.rows:,}"
        for figure in dict.fromkeys((*before, *after)):
            rows.append((item.name, predicted, figure, *_mean(before.get(figure)), *_mean(after.get(figure))))
    header = ("rows", "predicted", "figure", "without", "its worst source", "with them", "its worst source")
    return [header, *rows] if rows else []


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


STANDINGS: Final = Sheet("By groups that weigh the same, each left out of what is fitted:", STANDING_HEADER, _standing)


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


DUELS: Final = Sheet("", DUEL_HEADER, _duel_row)


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
    _POINTS_HEADER,
    _points_row,
)

USUAL_MS: Final = (20.0, 35.0, 50.0)
"""Limits over which the mean is taken; 10 ms is met by few configurations. [ms]"""
REGRET_HEADER = ("predicted by", "TPOT limit", "questions", "choices", "reached, median", "mean", "p10", "limit kept",
          "median if a miss is nothing", "at its own TPOT", "at random")  # fmt: skip


def confidence_sheet(lines: Sequence[ConfidenceRegret]) -> Sheet:
    """Choosing by chance: reached / kept by limit."""
    limits = lines[0].limits_ms if lines else ()
    header = ("predicted by", "rule", "questions", "none has it", *(f"{ms:g} ms" for ms in limits), "mean")
    title = "Picks by their chance of keeping the limit, a miss or no answer counted as nothing:"
    return Sheet(title, header, _confidence_row)


def _confidence_row(line: ConfidenceRegret) -> tuple[str, ...]:
    usual = [i for i, ms in enumerate(line.limits_ms) if ms in USUAL_MS]
    means = [sum(values[i] for i in usual) / len(usual) for values in (line.reached, line.kept)]
    pairs = [*zip(line.reached, line.kept, strict=True), (means[0], means[1])]
    shares = (f"{reached:.0%} / {kept:.0%}" for reached, kept in pairs)
    return (line.who or "this fit", line.rule, f"{line.questions}", f"{line.unanswered}", *shares)


def _reliability_row(one: Reliability) -> tuple[str, ...]:
    return (one.who or "this fit", f"{one.low:.0%} to {one.high:.0%}", f"{one.plans}", f"{one.said:.0%}",
            f"{one.held:.0%}")  # fmt: skip


RELIABILITY: Final = Sheet(
    "", ("predicted by", "chance said", "picks", "mean chance", "kept the limit"), _reliability_row
)


def confidence_text(lines: Sequence[ConfidenceRegret], held: Sequence[Reliability]) -> list[str]:
    """Choosing by chance, then how far the chances hold, for a terminal."""
    return [*confidence_sheet(lines).text(lines), *RELIABILITY.text(held)[2:]]


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
    REGRET_HEADER,
    _regret_row,
)

PHYSICS: Final = "physics"


def log_text(errors: Sequence[LogErrors]) -> list[str]:
    """Logs played again, for a terminal."""
    return LOGS.text(log_order(errors))


def log_order(errors: Sequence[LogErrors]) -> list[LogErrors]:
    """Predicted by physics first."""
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
    ("log", "model", "layout", "predicted by", "TTFT p50 / p90 / p95 / p99", "TPOT", "E2E", "largest"),
    _log_row,
)
