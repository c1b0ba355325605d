"""A check as a person reads it: in a terminal, or as Markdown for a pull-request comment."""

from __future__ import annotations

from tonnage.domain.compare import Change, Check
from tonnage.report.console import make_console
from tonnage.units import show

__all__ = ["as_markdown", "show_check"]


def show_check(check: Check) -> None:
    """Print a check: the sentence, then every figure with what moved marked."""
    from rich import box
    from rich.table import Table

    console = make_console()
    bad = check.changed or not check.feasible
    console.print(check.sentence, style="bold red" if bad else "bold", markup=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "before", "now", "change", ""):
        table.add_column(name, justify="right" if name == "change" else "left")
    for change in check.changes:
        table.add_row(*_cells(change), "changed" if change.beyond else "")
    console.print(table)
    console.print(f"Kept plan: {check.made_before}. Made now: {check.made_now}.", style="dim", markup=False)


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
    relative = "" if change.relative is None else f"{change.relative:+.1%}"
    return [change.what, _value(change.before, change.unit), _value(change.now, change.unit), relative]


def _value(value: float | str | None, unit: str) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else show(value, unit)


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line: names in a plan file may hold anything."""
    line = " ".join(text.split())
    return "".join(f"&#{ord(c)};" if c in "&<>|`*_[]\\@#" else c for c in line)
