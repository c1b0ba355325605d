"""A check as a document: every figure with what moved marked; or as Markdown for a pull-request comment."""

from __future__ import annotations

import html
from collections.abc import Sequence

from tonnage.catalog import model_name
from tonnage.questions.compare.answer import Change, Check, Verification, to_what
from tonnage.report.document import Document, Headline, Note, Table, blocks, grid
from tonnage.report.wording import figure_name
from tonnage.units import percent, show

FIRST_ROWS = 12
"""Figures of the first screen, those that moved first."""


def check_document(check: Check, *, most: int | None = None) -> Document:
    """
    A check as blocks: the sentence, what moved first (`most` figures, None = as many as a first screen has), then every
    figure.
    """
    moved_first = sorted(check.changes, key=lambda change: not change.beyond)
    shown = moved_first[: most or FIRST_ROWS]
    rest = len(moved_first) - len(shown)
    made = f"Kept plan: {check.made_before}. Made now: {check.made_now}."
    more = f"{rest} more figures: --why." if rest else ""
    lead = Headline(check.sentence, good=not check.changed and check.feasible)
    first = blocks(lead, _figures(shown), Note(made, hint=more))
    return Document(first, (_figures(check.changes),) if rest else ())


def _figures(changes: Sequence[Change]) -> Table:
    heads = ("", "before~", "now~", "change>", "")
    return grid(heads, [(*_cells(c), "changed" if c.beyond else "") for c in changes])


def verification_document(found: Verification, *, most: int | None = None) -> Document:
    """A verification as blocks: the sentence, versions, figures of the leading option that moved, first differences."""
    heads = ("where~", "before~", "now~")
    shown = tuple(found.first[: most or FIRST_ROWS])
    data = f"data {found.data_before}" if found.data_before else "data not said"
    file = f"File: tonnage {found.version_before}, {data}."
    here = f"Here: tonnage {found.version_now}, data {found.data_now}."
    first = blocks(
        Headline(found.sentence, good=found.same),
        _figures(found.changes) if found.changes else grid(heads, shown, title="First differences"),
        Note(f"Question {found.question}, made {found.made}. {file} {here}"),
        f"For the record: {record(found)}." if found.same else None,
    )
    return Document(first, (grid(heads, found.first, title="First differences"),) if found.changes else ())


def record(found: Verification) -> str:
    """One line for a procurement note: what made the numbers, of which question, and that they were made again."""
    outcome = f"made again {to_what(found.identical)}" if found.same else "not the same when made again"
    return (
        f"Tonnage {found.version_before}, data {found.data_before or 'not said'}, question {found.question}, "
        f"as of {found.made}, {outcome}"
    )


def badge(found: Verification) -> str:
    """The outcome as a small picture: what it is, the question, yes or no."""
    left, right = f"tonnage {found.question}", "verified" if found.same else "differs"
    width, end = 7 * len(left) + 12, 7 * len(right) + 12
    colour = "#2e7d32" if found.same else "#b71c1c"
    text = 'y="14" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" fill="#fff"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + end}" height="20" role="img">'
        f"<title>{html.escape(record(found))}</title>"
        f'<rect width="{width}" height="20" fill="#424242"/>'
        f'<rect x="{width}" width="{end}" height="20" fill="{colour}"/>'
        f'<text x="{width / 2:g}" {text}>{html.escape(left)}</text>'
        f'<text x="{width + end / 2:g}" {text}>{right}</text></svg>\n'
    )


def as_markdown(check: Check) -> str:
    """The check as a comment: what moved first, everything else folded away."""
    moved = [change for change in check.changes if change.beyond]
    rest = [change for change in check.changes if not change.beyond]
    parts = [f"### Tonnage: {_plain(check.sentence)}", "", f"{_plain(check.now)}", ""]
    if moved:
        parts += [*_table(moved), ""]
    if rest:
        title = f"<details><summary>Within {show(check.tolerance, 'fraction')} of the kept plan ({len(rest)})</summary>"
        parts += [title, "", *_table(rest), "", "</details>", ""]
    parts.append(f"Kept plan: {_plain(check.made_before)}: {_plain(check.before)}")
    parts.append(f"Made now: {_plain(check.made_now)}.")
    return "\n".join(parts) + "\n"


def _table(changes: list[Change]) -> list[str]:
    rows = [[_plain(cell) for cell in _cells(change)] for change in changes]
    for row, change in zip(rows, changes, strict=True):
        row[3] = f"**{row[3]}**" if change.worse else row[3]
    return ["| | before | now | change |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]


def _cells(change: Change) -> list[str]:
    relative = "" if change.relative is None else percent(change.relative, 1, sign="+")
    return [figure_name(change.what), *values_text(change), relative]


def values_text(change: Change) -> list[str]:
    """Before and now, as people read them."""
    return [
        "–"
        if value is None
        else show(value, change.unit)
        if isinstance(value, float)
        else model_name(value)
        if change.what == "model"
        else value
        for value in (change.before, change.now)
    ]


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line: names in a plan file may hold anything."""
    line = " ".join(text.split())
    return "".join(f"&#{ord(c)};" if c in "&<>|`*_[]\\@#" else c for c in line)
