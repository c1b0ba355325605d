"""Predictions by fits that never saw the row: read from a table, and never mixed up with those that did."""

import gzip
from pathlib import Path

import pytest

from tonnage.catalog.fitted import factor
from tonnage.errors import BadFact, UnknownName
from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.left_out import COLUMNS, FILE, LeftOut, left_out_predictions, left_out_scores
from tonnage_accuracy.scoring import Score


def stored(folder: Path, text: str) -> Path:
    path = folder / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(text.encode()))
    return folder


def row(id_: str, value: str) -> str:
    return ",".join([id_, "tpot_ms", value, "calibrated:steady", *[""] * (len(COLUMNS) - 4)]) + "\n"


def test_a_number_is_found_under_the_group_it_was_predicted_without(tmp_path: Path) -> None:
    root = stored(tmp_path, ",".join(COLUMNS) + "\n" + row("a", "12.5"))
    assert left_out_predictions(root, "accelerator")["a", "tpot_ms"].predicted == 12.5
    assert left_out_predictions(root, "family") == {}


def test_without_a_table_there_is_nothing(tmp_path: Path) -> None:
    assert left_out_predictions(tmp_path, "source") == {}


def test_another_kind_of_group_or_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="colour"):
        left_out_predictions(tmp_path, "colour")
    with pytest.raises(BadFact, match="columns"):
        left_out_predictions(stored(tmp_path, "id,quantity\n"), "family")


def test_scores_take_the_stored_value_and_their_interval_moves_along(tmp_path: Path) -> None:
    root = stored(tmp_path, ",".join(COLUMNS) + "\n" + row("a", "20"))
    base = Score(
        id="a",
        block="B",
        kind="serve",
        quantity="tpot_ms",
        measured=15.0,
        labels=Labels(),
        predicted=10.0,
        low=8.0,
        high=12.5,
    )
    other = Score(id="b", block="B", kind="serve", quantity="tpot_ms", measured=15.0, labels=Labels(), predicted=1.0)
    found = left_out_scores([base, other], left_out_predictions(root, "accelerator"))
    width = factor("serve", "tpot_s", rung="calibrated:steady")
    assert (found[0].predicted, found[0].low, found[0].high) == pytest.approx((20.0, 20.0 / width, 20.0 * width))
    assert found[1].predicted is None
    assert "stored" in found[1].reason


def test_an_interval_without_factors_keeps_its_ratio_around_the_left_out_number() -> None:
    base = Score(
        id="a",
        block="B",
        kind="serve",
        quantity="energy_per_token_j",
        measured=1.0,
        labels=Labels(),
        predicted=2.0,
        low=1.0,
        high=3.0,
    )
    (found,) = left_out_scores([base], {("a", "energy_per_token_j"): LeftOut(4.0, "")})
    assert (found.predicted, found.low, found.high) == (4.0, 2.0, 6.0)


def test_an_interval_keeps_what_a_queue_adds_to_its_tables_factor() -> None:
    level = "calibrated:steady"
    width = factor("serve", "ttft_s", rung=level)
    base = Score(
        id="a",
        block="B",
        kind="serve",
        quantity="ttft_ms",
        measured=30.0,
        labels=Labels(),
        predicted=10.0,
        low=10.0 / width,
        high=20.0 * width,
        level=level,
    )
    (found,) = left_out_scores([base], {("a", "ttft_ms"): LeftOut(5.0, level)})
    assert (found.low, found.high) == pytest.approx((5.0 / width, 10.0 * width))
