"""Rows that share an origin are one group: as declared, and by their columns."""

from pathlib import Path

import pytest
from tests.validation.samples import point, row, sample, training

from tonnage.errors import BadFact
from tonnage_accuracy.grouping import FILE, UNKNOWN, Grouping, group_by, labels_of, read_grouping
from tonnage_accuracy.rows import read_rows

ROOT = Path(__file__).parents[2]
FIXED = read_grouping(ROOT)


def test_without_a_file_a_row_is_its_block_and_its_catalogue_family(tmp_path: Path) -> None:
    plain = read_grouping(tmp_path)
    assert plain == Grouping()
    assert (plain.group(point(), "source"), plain.family(point())) == ("X", "Llama3")
    assert plain.leaves_with(point()) == "X"


def test_families_of_one_shape_leave_together() -> None:
    names = ("meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3.1-8B", "meta-llama/Llama-3.3-70B-Instruct")
    assert {FIXED.family(point(model_id=name)) for name in names} == {"Llama3"}
    assert FIXED.family(sample()) == "DeepSeek"


def test_blocks_of_one_publisher_leave_together_and_stay_apart_as_groups() -> None:
    one, other = row("serving", block="SIL"), row("inference", block="IMAX")
    assert FIXED.leaves_with(one) == FIXED.leaves_with(other) == "InferenceMAX"
    assert (FIXED.group(one, "source"), FIXED.group(other, "source")) == ("SIL", "IMAX")


@pytest.mark.parametrize(
    ("cells", "setting"),
    [
        ({"length_basis": "stated"}, ""),
        ({"length_basis": "prompt mean: estimate; output mean: published_mean"}, "prompt length"),
        ({"load": "saturated"}, "accelerators of a replica"),
        ({"load": "saturated", "tp": 8}, ""),
    ],
)
def test_a_setting_that_a_row_leaves_open_is_named(cells: dict[str, object], setting: str) -> None:
    assert FIXED.left_open(point(**cells)) == setting


def test_a_group_is_open_where_more_than_half_of_its_rows_are() -> None:
    stated, open_ = point(length_basis="stated"), point(length_basis="estimate")
    assert FIXED.mostly_open([stated, open_]) == ""
    assert FIXED.mostly_open([stated, open_, open_]) == "prompt length"


def test_every_name_in_the_fixed_file_is_one_of_the_measurements() -> None:
    rows = [found for path in sorted((ROOT / "measurements").glob("*.csv.gz")) for found in read_rows(path)]
    blocks = {found.block for found in rows}
    assert FIXED.fixed == "2026-11-22"
    assert FIXED.unseen <= {found.table for found in rows}
    assert {block for names in FIXED.together.values() for block in names} <= blocks
    assert {change.id for change in FIXED.restored} <= {found.id for found in rows}
    plain = {Grouping().family(found) for found in rows}
    assert {name for names in FIXED.families.values() for name in names} <= plain | {"Gemma4"}
    twice = [name for names in FIXED.families.values() for name in names]
    assert len(twice) == len(set(twice))
    assert all(any(FIXED.set_aside(found) == rule.name for found in rows) for rule in FIXED.aside)


def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_text("colour = 'red'\n", encoding="utf-8")
    with pytest.raises(BadFact, match=r"groups\.toml: .*colour"):
        read_grouping(tmp_path)


def test_labels_say_what_a_row_is_about() -> None:
    found = labels_of(point())
    assert (found.engine, found.accelerator, found.precision, found.load) == (
        "vllm",
        "a100-sxm4-80gb",
        "fp16",
        "static_batch",
    )
    assert "llama" in found.family.lower()
    assert labels_of(sample()).load == "closed_loop"
    trained = labels_of(training())
    assert (trained.precision, trained.load) == ("fp8", "pretrain")


def test_what_is_not_stated_says_so() -> None:
    found = labels_of(point(engine=None, model_id=None, accelerator_id=None))
    assert (found.engine, found.model, found.accelerator) == (UNKNOWN, UNKNOWN, UNKNOWN)


def test_groups_keep_their_order() -> None:
    assert group_by([3, 1, 4, 1, 5], lambda number: number % 2) == {1: [3, 1, 1, 5], 0: [4]}
