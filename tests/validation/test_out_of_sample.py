"""What nobody had fitted: left-out numbers and widths where they are kept, tables without a fit as they are."""

import gzip
from pathlib import Path

import pytest
from tests.validation.predictors import fixed
from tests.validation.samples import sample

from tonnage_accuracy.left_out import COLUMNS, FILE, WIDTH_COLUMNS, WIDTHS
from tonnage_accuracy.out_of_sample import out_of_sample, set_aside
from tonnage_accuracy.rows import Row
from tonnage_accuracy.scoring import score

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
    width = "source,both,serve,tpot_s,any,3"
    (tmp_path / WIDTHS).write_bytes(gzip.compress(f"{','.join(WIDTH_COLUMNS)}\n{width}\n".encode()))
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
