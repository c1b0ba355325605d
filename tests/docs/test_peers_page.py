"""The page that compares is what its table of facts says, each with day and source, and counts what both predict."""

import csv
from datetime import date

import pytest
from tools.peers import page

TEXT = page.PAGE.read_text(encoding="utf-8")


def test_every_tool_has_a_version_a_source_and_a_day() -> None:
    with page.FACTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 8
    for row in rows:
        assert row["version"] and row["source"] and date.fromisoformat(row["read"]), row["tool"]


def test_the_page_shows_the_facts_as_they_stand() -> None:
    assert "\n".join(page.facts()) in TEXT


def test_what_is_counted_is_in_the_page_for_every_sum_of_the_accuracy_page() -> None:
    # Its figures move with each refit; `make accuracy` writes them here as well.
    keys = [line.split(" | ")[:2] for line in page.counted()]
    assert len(keys) >= 6
    shown = [line.split(" | ")[:2] for line in TEXT.splitlines()]
    assert all(key in shown for key in keys)


def test_lost_cells_are_shown_with_their_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Today none is; with the ratio from which a cell counts as lost set lower, the rows are those of the page."""
    monkeypatch.setattr(page, "LOST", 0.7)
    cells = [line.strip("| ").split(" | ") for line in page.lost()[2:]]
    assert cells
    for *_, number, ours, theirs, ratio in cells:
        assert int(number.replace(",", "")) >= page.ROWS
        assert float(ratio) > page.LOST
        assert float(ours.rstrip(" %")) / float(theirs.rstrip(" %")) == pytest.approx(float(ratio), abs=0.01)
