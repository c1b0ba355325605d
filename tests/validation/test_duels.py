"""Ours beside theirs on the numbers that both predict: equal terms, and losses shown."""

from pathlib import Path

import pytest
from tests.validation.samples import sample

from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.peers import MEAN, medians_by_source
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import Score
from tonnage_accuracy.sheets import DUELS, duel_sentence


def rows(block: str, count: int) -> list[Row]:
    made = [sample(id=f"{block}-{place}") for place in range(count)]
    return [Row(id=row.id, block=block, layout="serving", cells=row.cells, table="new") for row in made]


def scores(of: list[Row], predicted: float | None) -> list[Score]:
    return [
        Score(
            id=row.id,
            block=row.block,
            kind="serve",
            quantity="tpot_ms",
            measured=10.0,
            labels=Labels(),
            predicted=predicted,
            low=9.0 if predicted else None,
            high=11.0 if predicted else None,
        )
        for row in of
    ]


def test_only_numbers_that_both_predict_count_and_the_mean_is_over_sources(tmp_path: Path) -> None:
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "groups.toml").write_text("unseen = ['new']\n", encoding="utf-8")
    many, few = rows("many", 40), rows("few", 10)
    theirs = [*scores(many, 11.0), *scores(few[:8], 15.0), *scores(few[8:], None)]
    ours = [*scores(many, 12.0), *scores(few, 10.0)]
    found = medians_by_source([*many, *few], theirs, ours=ours, root=tmp_path, fitted_on=["many"])
    lines = {line.source: line for line in found}
    assert set(lines) == {"many", "few", MEAN}
    assert (lines["few"].rows, lines["few"].asked) == (8, 10)
    assert lines["many"].theirs == pytest.approx(0.1) and lines["many"].ours == pytest.approx(0.2)
    assert (lines["many"].theirs_fitted, lines["few"].theirs_fitted) == (True, False)
    assert lines["few"].ours_source == 0.0, "a table that no fit has read is left out as it is"
    assert (lines["few"].theirs_coverage, lines[MEAN].theirs) == (1.0, pytest.approx(0.3))
    assert "nearer than ours in 1 of 2 groups" in duel_sentence("x", found)
    assert "have read 1 of them" in duel_sentence("x", found)
    shown = {row[1]: row for row in DUELS.rows(found)}
    assert shown["many"][7] == "theirs" and "theirs in sample" in shown["many"][-1]
    assert shown["few"][7] == "ours" and "2 not by both" in shown["few"][-1]
