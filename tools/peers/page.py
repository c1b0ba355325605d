"""
docs/peers.md: what other tools answer (dated facts with their sources), and what can be counted.

    python -m tools.peers.page

Facts stand in tools/peers/facts.csv. The counted part are the sums of docs/accuracy/aiconfigurator.csv, which
`make accuracy` writes from the answers that `make peers` keeps; both targets write this page at their end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tonnage_accuracy.tables import read_table

ROOT: Final = Path(__file__).resolve().parents[2]
FACTS: Final = ROOT / "tools" / "peers" / "facts.csv"
PAGE: Final = ROOT / "docs" / "peers.md"
ACCURACY: Final = ROOT / "docs" / "accuracy" / "aiconfigurator.csv"
SAID: Final = ROOT / "tools" / "peers" / "page.txt"
"""The words around both tables."""
MODES: Final = {"agg": "one pool", "disagg": "prompt and decode apart", "all": "all"}
QUANTITIES: Final = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "output_tokens_per_s": "output rate"}


def facts() -> list[str]:
    """The table of tools: a row each, with where and when it was read."""
    rows = list(read_table(FACTS))
    return [*_head(list(rows[0])), *(_line(list(row.values())) for row in rows)]


LOST: Final = 1.15
"""Ours over theirs, medians, from which a cell is listed as lost."""
ROWS: Final = 40
"""Fewest rows of a cell of engine, model and mode that is listed."""


def lost() -> list[str]:
    """Cells where its median error is well below ours without the row's family."""
    lines = _head(["engine", "model", "rows", "quantity", "number", "ours, family left out", "theirs", "ratio"])
    for row in read_table(ACCURACY):
        ours, theirs = row["ours, family left out"], row["median, theirs"]
        if row["engine"] == "all" or "%" not in ours or int(row["rows"].replace(",", "")) < ROWS:
            continue
        ratio = float(ours.rstrip(" %")) / float(theirs.rstrip(" %"))
        if ratio > LOST:
            named = QUANTITIES.get(row["quantity"], row["quantity"])
            lines.append(
                _line(
                    [row["engine"], row["model"], MODES[row["mode"]], named, row["rows"], ours, theirs, f"{ratio:.2f}"]
                )
            )
    return lines


def counted() -> list[str]:
    """Both tools' errors over all rows that both predict, from the accuracy page."""
    lines = _head(
        ["rows", "quantity", "number", "median, ours / theirs", "mean, ours / theirs", "ours, family left out"]
    )
    for row in read_table(ACCURACY):
        if row["engine"] == row["model"] == "all":
            both = [f"{row[f'{each}, ours']} / {row[f'{each}, theirs']}" for each in ("median", "mean")]
            named = QUANTITIES.get(row["quantity"], row["quantity"])
            lines.append(_line([MODES[row["mode"]], named, row["rows"], *both, row["ours, family left out"]]))
    return lines


def _head(columns: list[str]) -> list[str]:
    return [_line(columns), _line(["---"] * len(columns))]


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
