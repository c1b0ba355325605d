"""What must be resident, as a person reads it: the sentence, the stack against its limit, the largest x, the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tonnage.domain.fit import FitAnswer, FitRow, Rule
from tonnage.report.console import lines, make_console
from tonnage.units import show

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["show_fit"]

MOST_STACKS: Final = 6
"""Accelerators whose memory is opened one by one; beyond, one line each."""
SMALL: Final = 0.002
"""Parts under this share of the limit are put together. [-]"""


def show_fit(answer: FitAnswer, *, top: int = 20) -> None:
    """Print a fit answer."""
    console = make_console()
    console.print(answer.sentence, style="bold" if answer.fits else "bold red", markup=False, soft_wrap=True)
    named = bool(answer.request.accelerators)
    if named and len(answer.rows) <= MOST_STACKS:
        for row in answer.rows:
            console.print()
            console.print(_stack(row))
    elif answer.rows:
        console.print()
        console.print(_overview(answer.rows[:top]))
        hidden = len(answer.rows) - top
        if hidden > 0:
            console.print(f"  … and {hidden} more (--top {len(answer.rows)} shows them)", markup=False)
    lines(console, "Largest that fits", texts=_largest(answer.rows) if named else [])
    lines(console, "What would make it fit", texts=_remedies(answer.rows))
    lines(console, "Rules of thumb beside it", texts=[_rule(rule) for rule in answer.rules])
    lines(console, "Notes", texts=_notes(answer.rows[: MOST_STACKS if named else 1]))
    lines(console, "Taken as given", texts=list(answer.assumed))
    _parameters(console, answer)


def _stack(row: FitRow) -> Table:
    """Parts of one accelerator's memory from the largest, then what is free, up to the limit and the total."""
    from rich import box
    from rich.table import Table

    verdict = "fits" if row.verdict.ok else f"short by {show(row.verdict.short_by or 0.0, 'bytes')}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, title_justify="left",
                  title=f"{_arrangement(row)}: {verdict}")  # fmt: skip
    table.add_column("on each accelerator" if row.count > 1 else "part", no_wrap=True)
    for name in ("size", "of limit"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("basis", no_wrap=True)
    table.add_column("from")
    for name, value, basis, source in _parts(row):
        table.add_row(name, show(value, "bytes"), f"{value / row.limit_bytes:.1%}", basis, source)
    table.add_section()
    table.add_row("needed", show(row.memory.value, "bytes"), f"{row.memory.value / row.limit_bytes:.1%}",
                  row.memory.basis.value, _interval(row))  # fmt: skip
    table.add_row("free" if row.free_bytes >= 0 else "short", show(abs(row.free_bytes), "bytes"),
                  f"{abs(row.free_bytes) / row.limit_bytes:.1%}", "", "")  # fmt: skip
    kept = row.total_bytes - row.limit_bytes
    share = f"{show(kept, 'bytes')} of {show(row.total_bytes, 'bytes')} are left to others" if kept > 0 else ""
    table.add_row("limit", show(row.limit_bytes, "bytes"), "100%", "", share)
    return table


def _parts(row: FitRow) -> Iterator[tuple[str, float, str, str]]:
    """Parts worth a line, largest first; the rest of one kind together."""
    small = 0.0
    for part in sorted(row.memory.parts, key=lambda part: -part.value):
        if part.value < SMALL * row.limit_bytes:
            small += part.value
        else:
            yield part.name, part.value, part.basis.value, part.source
    if small:
        yield "small parts", small, "", "each under 0.2 % of the limit (all in --json)"


def _overview(rows: tuple[FitRow, ...]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("accelerator", "count", "layout", "weights"):
        table.add_column(name, justify="right" if name == "count" else "left", no_wrap=True)
    for name in ("needed on each", "usable", "free", "KV tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        free = show(row.free_bytes, "bytes") if row.free_bytes >= 0 else f"short {show(-row.free_bytes, 'bytes')}"
        table.add_row(
            row.name,
            str(row.count),
            _degrees(row),
            str(row.precision.get("weights", "")),
            show(row.memory.value, "bytes"),
            show(row.limit_bytes, "bytes"),
            free,
            f"{row.kv_tokens:,.0f}" if row.kv_tokens is not None else "",
        )
    return table


def _arrangement(row: FitRow) -> str:
    return f"{row.count} x {row.name} ({_degrees(row)}, {row.precision.get('weights', '')})"


def _degrees(row: FitRow) -> str:
    degrees = [f"{name} {value}" for name, value in row.layout.items() if value not in (1, "none", None)]
    return " ".join(degrees) or "one device"


def _interval(row: FitRow) -> str:
    low, high = row.memory.low, row.memory.high
    return (
        f"90 % between {show(low, 'bytes')} and {show(high, 'bytes')}" if low is not None and high is not None else ""
    )


def _largest(rows: tuple[FitRow, ...]) -> list[str]:
    found = []
    for row in rows[:MOST_STACKS]:
        where = f"{row.count} x {row.name}: " if len(rows) > 1 else ""
        for largest in row.largest:
            if largest.value < 1:
                found.append(f"{where}{largest.what}: none ({largest.given})")
            elif largest.name is not None:
                given = f", {largest.given}" if largest.given else ""
                found.append(f"{where}{largest.what}: {largest.name}, {largest.value / 1e9:,.3g} B parameters{given}")
            else:
                given = f"{largest.given}; " if largest.given else ""
                unit = largest.unit.removesuffix("s") if largest.value == 1 else largest.unit
                found.append(f"{where}{largest.what}: {largest.value:,.0f} {unit} ({given}{largest.binds} binds)")
    return found


def _remedies(rows: tuple[FitRow, ...]) -> list[str]:
    losers = [row for row in rows[:MOST_STACKS] if not row.verdict.ok]
    return [f"{row.name}: {remedy}" if len(rows) > 1 else remedy for row in losers for remedy in row.remedies]


def _rule(rule: Rule) -> str:
    side = "under" if rule.off < 0 else "over"
    off = f"{abs(rule.off):.0%} {side} the real {show(rule.real_bytes, 'bytes')}"
    return f"{rule.name}: {show(rule.rule_bytes, 'bytes')}, {off}; it {rule.why}"


def _notes(rows: tuple[FitRow, ...]) -> list[str]:
    return list(dict.fromkeys(note for row in rows for note in row.notes))


def _parameters(console: Console, answer: FitAnswer) -> None:
    active = answer.active_parameters
    moe = f", {active / 1e9:,.3g} B active per token" if active < 0.95 * answer.parameters else ""
    console.print(f"\n{answer.model}: {answer.parameters / 1e9:,.4g} B parameters{moe}.", style="dim", markup=False)
