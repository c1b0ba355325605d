"""How near are predictions to what nobody had fitted? The part of the accuracy page that comes first, and its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.domain.accuracy import GroupErrors, OutOfSample, SetAside, Standing

__all__ = ["aside_page", "standing_rows", "standings_page"]

HEADER: Final = ("figure", "left out", "groups", "numbers", "mean of medians", "median of medians", "worst group",
                 "covered, mean", "covered, least", "± width")  # fmt: skip
_LEFT_OUT: Final = {"source": "its source", "family": "its family", "": "nothing (in sample)"}

_HEAD: Final = """## On a case that nobody had fitted

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

As shipped, by source: out of sample without any refit. What is wrong with the largest of these errors stands in
[the log](log/index.md)."""

_SOURCES: Final = """### Source by source

Each source left out. *Open setting*: most of its rows leave that open, and it moves the figure by more than 1.3
times."""

_ASIDE: Final = """## Rows set aside, both ways

In sample, mean over sources of the medians of those sources' figures, without the rows and with them."""


def standing_rows(found: OutOfSample) -> list[tuple[str, ...]]:
    """Header and one row for each figure and what was left out; none without left-out predictions."""
    rows = [_standing(line) for line in sorted(found.standings, key=lambda line: _place(found.standings, line))]
    return [HEADER, *rows] if rows else []


def standings_page(found: OutOfSample) -> list[str]:
    """The sections of the page; nothing without left-out predictions."""
    if not found.standings:
        return []
    header, *rows = standing_rows(found)
    parts = [_HEAD, _table(header, rows)]
    if found.unseen:
        parts += [_UNSEEN, _table(header, [_standing(line) for line in found.unseen])]
    named = ("figure", "source", "numbers", "median", "mean", "bias", "covered", "± width", "open setting")
    parts += [_SOURCES, _table(named, [_group(line) for line in found.sources])]
    named = ("figure", "family", *named[2:])
    parts += ["### Family by family", _table(named, [_group(line) for line in found.families])]
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
    return [_ASIDE, _table(header, rows)] if rows else []


def _mean(line: Standing | None) -> tuple[str, str]:
    return ("-", "-") if line is None else (_percent(line.mean), f"{line.worst_group} {_percent(line.worst)}")


def _place(every: Sequence[Standing], line: Standing) -> tuple[int, int]:
    figures = list(dict.fromkeys(other.figure for other in every))
    return figures.index(line.figure), list(_LEFT_OUT).index(line.left_out)


def _standing(line: Standing) -> tuple[str, ...]:
    over = f", {line.over_40} over 40 %" if line.over_40 else ""
    over += f" ({line.over_40_unknown} with an open setting)" if line.over_40_unknown else ""
    least = f"{_percent(line.coverage_least)} ({line.coverage_least_group})" if line.coverage_least_group else "-"
    return (
        line.figure, _LEFT_OUT[line.left_out], f"{line.groups}", f"{line.rows:,}", _percent(line.mean),
        _percent(line.median), f"{line.worst_group} {_percent(line.worst)}{over}", _percent(line.coverage_mean), least,
        _percent(line.half_width),
    )  # fmt: skip


def _group(line: GroupErrors) -> tuple[str, ...]:
    numbers = f"{line.rows:,}" + (f" (+{line.missing:,} without)" if line.missing else "")
    return (
        line.figure, line.group, numbers, _percent(line.median_ape), _percent(line.mean_ape),
        _percent(line.bias, signed=True), _percent(line.coverage_90), _percent(line.half_width), line.unknown,
    )  # fmt: skip


def _percent(share: float | None, *, signed: bool = False) -> str:
    if share is None:
        return "-"
    return f"{share * 100:+.1f} %" if signed else f"{share * 100:.1f} %"


def _table(header: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = list(header)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines)
