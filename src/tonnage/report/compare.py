"""Several answers side by side, as a person reads them: the sentence, one row per figure, the best of each marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tonnage.domain.compare import Compared, Comparison
from tonnage.report.console import lines, make_console
from tonnage.units import show

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["show_comparison"]

BEST: Final = "*"
WIDE: Final = 5
"""Sides beyond which a row is a side, so that the table stays as wide as a terminal."""
TOLD: Final = ("goodput", "p95 ttft", "p95 tpot", "p95 e2e", "output tokens", "accelerators", "cost", "ttft", "tpot",
               "step", "fits")  # fmt: skip
"""Figures of many sides; all of them are in the JSON."""


def show_comparison(found: Comparison) -> None:
    """Print a comparison."""
    console = make_console()
    console.print(found.sentence, style="bold" if found.fits else "bold red", markup=False)
    console.print()
    console.print(_by_figure(found) if len(found.sides) <= WIDE else _by_side(found))
    console.print(f"{BEST} best of its kind", style="dim", markup=False)
    lines(console, "Taken as given", texts=list(found.assumed))


def _by_figure(found: Comparison) -> Table:
    """A row for each figure."""
    table = _table(("", *found.sides))
    for row in found.figures:
        table.add_row(row.what, *(_cell(row, i) for i in range(len(found.sides))))
    return table


def _by_side(found: Comparison) -> Table:
    """A row for each side, with the figures that tell most."""
    rows = [row for row in found.figures if row.what in TOLD]
    table = _table(("", *(row.what for row in rows)))
    for i, side in enumerate(found.sides):
        table.add_row(side, *(_cell(row, i) for row in rows))
    return table


def _table(names: tuple[str, ...]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name else "left", overflow="fold")
    return table


def _cell(row: Compared, place: int) -> str:
    value = row.values[place]
    if value is None:
        return ""
    text = value if isinstance(value, str) else _shown(value, row.unit)
    return f"{text} {BEST}" if row.best == place else text


def _shown(value: float, unit: str) -> str:
    """A rate in one unit for every side, so that a row can be compared at a glance."""
    if unit == "1/s":
        return f"{value:,.0f}/s" if value >= 1000 else f"{value:.3g}/s"
    return show(value, unit) if unit else f"{value:,.3g}"
