"""
docs/peers.md: what other tools answer (dated facts with their sources), and what can be counted.

    python -m tools.peers.page

Facts stand in tools/peers/facts.csv. The counted part are the sums of the table that `make accuracy` writes into
docs/accuracy.md from the answers that `make peers` keeps; both targets write this page at their end.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FACTS: Final = ROOT / "tools" / "peers" / "facts.csv"
PAGE: Final = ROOT / "docs" / "peers.md"
ACCURACY: Final = ROOT / "docs" / "accuracy.md"
SAID: Final = ROOT / "tools" / "peers" / "page.txt"
"""The words around both tables."""
MODES: Final = {"agg": "one pool", "disagg": "prompt and decode apart", "all": "all"}
QUANTITIES: Final = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "output_tokens_per_s": "output rate"}


def facts() -> list[str]:
    """The table of tools: a row each, with where and when it was read."""
    with FACTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    return [_line(rows[0]), _line(["---"] * len(rows[0])), *map(_line, rows[1:])]


LOST: Final = 1.15
"""Ours over theirs, medians, from which a cell is listed as lost."""
ROWS: Final = 40
"""Fewest rows of a cell of engine, model and mode that is listed."""


def _table() -> str:
    """The accuracy page's table by engine and model."""
    return ACCURACY.read_text(encoding="utf-8").partition("\n## Beside aiconfigurator")[2].partition("\n## ")[0]


def lost() -> list[str]:
    """Cells where its median error is well below ours without the row's family."""
    lines = [
        "| engine | model | rows | quantity | number | ours, family left out | theirs | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in re.findall(r"^\| (?!all|engine|---)(.*) \|$", _table(), flags=re.MULTILINE):
        engine, model, mode, quantity, number, median, *_, left_out = row.split(" | ")
        theirs = median.partition(" / ")[2]
        if "%" not in left_out or int(number.replace(",", "")) < ROWS:
            continue
        ratio = float(left_out.rstrip(" %")) / float(theirs.rstrip(" %"))
        if ratio > LOST:
            named = QUANTITIES.get(quantity, quantity)
            lines.append(_line([engine, model, MODES[mode], named, number, left_out, theirs, f"{ratio:.2f}"]))
    return lines


def counted() -> list[str]:
    """Both tools' errors over all rows that both predict, from the accuracy page."""
    lines = [
        "| rows | quantity | number | median, ours / theirs | mean, ours / theirs | ours, family left out |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in re.findall(r"^\| all \| all \| (.*) \|$", _table(), flags=re.MULTILINE):
        mode, quantity, number, median, _, mean, _, left_out = row.split(" | ")
        lines.append(_line([MODES[mode], QUANTITIES.get(quantity, quantity), number, median, mean, left_out]))
    return lines


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The page as it should stand."""
    said = SAID.read_text(encoding="utf-8")
    for name, lines in (("facts", facts()), ("counted", counted()), ("lost", lost())):
        said = said.replace(f"{{{name}}}", "\n".join(lines))
    return said


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
