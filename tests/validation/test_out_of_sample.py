"""Predictions without the rows that taught them."""

import gzip
import importlib
import math
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.validation.predictors import fixed
from tests.validation.samples import point, sample

from tonnage.catalog import engines, fitted
from tonnage.catalog.spreads import spread
from tonnage.domain.case import ServeCase, ServeResult, Traffic
from tonnage.errors import BadFact, UnknownName
from tonnage.questions.predict.predict import predict
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.grouping import Labels
from tonnage_accuracy.left_out import (
    COLUMNS,
    FILE,
    WIDTHS,
    LeftOut,
    left_out_predictions,
    left_out_scores,
)
from tonnage_accuracy.limited import Limits, at_highest_rate, limits_of
from tonnage_accuracy.out_of_sample import out_of_sample, set_aside
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import Score, score, score_row

GROUPS = """
fewest = 1
unseen = ["new"]
[together]
"both" = ["A", "B"]
[[aside]]
name = "old stack"
column = "unusable_reason"
any = ["early"]
[[restored]]
id = "A-1"
column = "silicon_tpot_ms"
value = "40"
why = "the other way"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Row A-1 was stored at 30 ms without its source, inside a factor of 3; nothing is stored of N-1."""
    for name in ("measurements", "tools/calibration"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "measurements" / "groups.toml").write_text(GROUPS, encoding="utf-8")
    cells = ["A-1", "tpot_ms", *[""] * (len(COLUMNS) - 4), "30", "calibrated:steady"]
    (tmp_path / FILE).write_bytes(gzip.compress(f"{','.join(COLUMNS)}\n{','.join(cells)}\n".encode()))
    error = f'{{"bias": 0, "width": {math.log(3)}, "sources": 9, "words": {{"calibrated": 1, "steady": 1}}}}'
    (tmp_path / WIDTHS).write_bytes(
        gzip.compress(f'{{"source": {{"both": {{"serve": {{"tpot_s": {error}}}}}}}}}'.encode())
    )
    return tmp_path


def row(block: str, table: str, usable: bool = True, **cells: object) -> Row:
    of = sample(id=f"{block}-1", silicon_ttft_ms=None, **cells)
    return Row(id=of.id, block=block, layout="serving", cells=of.cells, usable=usable, table=table)


def test_a_source_is_out_of_the_fit_and_out_of_the_width(root: Path) -> None:
    rows = [row("A", "old"), row("B", "old"), row("N", "new")]
    found = out_of_sample(rows, list(score(rows, predict=fixed)), root=root)
    by_source = {line.group: line for line in found.sources}
    assert set(by_source) == {"A", "N"}, "of B nothing is stored, and a fit has read it"
    assert by_source["A"].median_ape == pytest.approx(0.5), "30 ms stored, 20 measured"
    assert by_source["A"].half_width == pytest.approx((3 - 1 / 3) / 2), "the width that never saw InferenceMAX"
    assert by_source["N"].median_ape == 0, "as shipped"
    assert [(line.left_out, line.groups) for line in found.standings] == [("source", 2), ("family", 1), ("", 2)]
    assert [(line.figure, line.rows) for line in found.unseen] == [("TPOT", 1)]


def test_rows_set_aside_and_settings_put_back_are_shown_both_ways(root: Path) -> None:
    rows = [row("A", "old"), row("B", "old")]
    hidden = row("H", "old", usable=False, unusable_reason="early-2024 stack", silicon_tpot_ms=5)
    found = set_aside(rows, list(score(rows, predict=fixed)), every=[*rows, hidden], root=root, predict=fixed)
    assert [(item.name.partition(" ")[0], item.rows, item.predicted) for item in found] == [
        ("old", 1, 1),
        ("silicon_tpot_ms", 1, 1),
    ]
    assert [line.mean for line in found[0].with_them] == [3.0], "20 ms predicted, 5 measured, in a source of its own"
    back = found[1]
    assert (back.without[0].mean, back.with_them[0].mean) == (0.0, 0.5), "20 ms predicted, 40 in the other way"


def stored(folder: Path, text: str) -> Path:
    path = folder / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(text.encode()))
    return folder


def left_out_row(id_: str, value: str) -> str:
    return ",".join([id_, "tpot_ms", value, "calibrated:steady", *[""] * (len(COLUMNS) - 4)]) + "\n"


def test_a_number_is_found_under_the_group_it_was_predicted_without(tmp_path: Path) -> None:
    root = stored(tmp_path, ",".join(COLUMNS) + "\n" + left_out_row("a", "12.5"))
    assert left_out_predictions(root, "accelerator")["a", "tpot_ms"].predicted == 12.5
    assert left_out_predictions(root, "family") == {}


def test_without_a_table_there_is_nothing(tmp_path: Path) -> None:
    assert left_out_predictions(tmp_path, "source") == {}


def test_another_kind_of_group_or_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="colour"):
        left_out_predictions(tmp_path, "colour")
    with pytest.raises(BadFact, match="columns"):
        left_out_predictions(stored(tmp_path, "id,quantity\na,tpot_ms\n"), "family")


def test_scores_take_the_stored_value_and_their_interval_moves_along(tmp_path: Path) -> None:
    root = stored(tmp_path, ",".join(COLUMNS) + "\n" + left_out_row("a", "20"))
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
    of = spread("serve", "tpot_s", level="calibrated:steady")
    assert (found[0].low, found[0].predicted, found[0].high) == pytest.approx((20 * of.at(-1), 20.0, 20 * of.at(1)))
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
    of = spread("serve", "ttft_s", level=level)
    base = Score(
        id="a",
        block="B",
        kind="serve",
        quantity="ttft_ms",
        measured=30.0,
        labels=Labels(),
        predicted=10.0,
        low=10.0 * of.at(-1.0),
        high=20.0 * of.at(1.0),
        level=level,
    )
    (found,) = left_out_scores([base], {("a", "ttft_ms"): LeftOut(5.0, level)})
    assert (found.low, found.high) == pytest.approx((5.0 * of.at(-1.0), 10.0 * of.at(1.0)))


SERVER = {
    "load": "open_loop",
    "request_rate_qps": 3.0,
    "concurrency_or_batch": None,
    "ttft_p99_limit_ms": 2000,
    "tpot_p99_limit_ms": 60,
    "tpot_mean_ms": 40,
}


def served(tpot_s: float) -> ServeResult:
    case = case_of(point(**SERVER))
    assert isinstance(case, ServeCase)
    found = at_highest_rate(case, Limits(2.0, tpot_s), predict=predict)
    assert isinstance(found, ServeResult)
    return found


def test_a_percent_more_breaks_a_limit_and_the_rate_keeps_them() -> None:
    found, case = served(0.06), case_of(point(**SERVER))
    assert found.tpot_s and found.tpot_s.p99 and found.requests_per_s and isinstance(case, ServeCase)
    assert found.tpot_s.p99 <= 0.06
    more = predict(replace(case, traffic=Traffic(rate_per_s=found.requests_per_s.value * 1.03)))
    assert isinstance(more, ServeResult) and more.tpot_s and more.tpot_s.p99
    assert more.saturated or more.tpot_s.p99 > 0.06


def test_tighter_limits_take_less_and_the_stated_rate_decides_nothing() -> None:
    rates = [found.value for found in (served(t).requests_per_s for t in (0.03, 0.06)) if found]
    assert rates[0] < rates[1]
    (other,) = (s for s in score_row(point(**SERVER | {"request_rate_qps": 6.0}), predict) if s.quantity == "tpot_ms")
    (same,) = (s for s in score_row(point(**SERVER), predict) if s.quantity == "tpot_ms")
    assert other.predicted == pytest.approx(same.predicted, rel=0.05)


def test_a_rate_is_less_sure_than_a_step_and_a_first_token_does_not_run_away() -> None:
    found = served(0.06)
    rate, first = found.output_tokens_per_s, found.ttft_s
    assert rate and rate.low and rate.high and first and first.low and first.high
    assert rate.low < rate.value < rate.high
    bias = spread("serve", "ttft_s", level=found.level).bias
    assert math.log(first.high / first.mean) - bias == pytest.approx(math.log(first.mean / first.low) + bias)


def test_limits_that_nothing_keeps_are_said_to_be() -> None:
    with pytest.raises(BadFact, match="no rate is predicted"):
        served(1e-6)
    assert limits_of(point(load="open_loop", request_rate_qps=3.0)) is None


def test_what_refits_replace_is_what_predictions_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools" / "calibration"))
    found = [getattr(module, name) for module, name in importlib.import_module("left_out").DOORS]
    assert found == [engines._eras, fitted.training_coefficients, fitted.offline]
