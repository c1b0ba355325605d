"""A shipped table that somebody edited wrongly is refused with file, row and column."""

import sys
from pathlib import Path

import pytest

from tonnage.catalog.accelerators import _read_shipped
from tonnage.catalog.providers import StoragePrice
from tonnage.catalog.rows import number, read_rows, table, yes_no
from tonnage.errors import BadFact


def test_cells_become_numbers_in_base_units_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('id,rate_gb_per_s,ecc\na,"3,",1\nb,,\nc,2.5,0\n', encoding="utf-8")
    bad, unknown, good = table(path)
    assert (number(good, "rate_gb_per_s", factor=1e9), yes_no(good, "ecc")) == (2.5e9, False)
    assert (number(unknown, "rate_gb_per_s"), yes_no(unknown, "ecc")) == (None, None)
    with pytest.raises(BadFact, match="a: rate_gb_per_s is '3,', but a number is expected"):
        number(bad, "rate_gb_per_s")


def test_a_row_of_the_wrong_length_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,rate\na,1\nb,1,2\n", encoding="utf-8")
    with pytest.raises(BadFact, match=r"x\.csv, row 3: 3 cells, but 2 columns"):
        list(table(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("provider,dollars,tier,source,checked\na,much,b,c,d\n", "x.csv, row 2: dollars is 'much'"),
        ("provider,dollars,tier,source,checked\na,1,b,c,d\na,-1,b,c,d\n", "x.csv, row 3: dollars is '-1'"),
        ("provider,dollars,tier,source,checked\na,nan,b,c,d\n", "x.csv, row 2: dollars is 'nan'"),
        ("provider,dollars,tier,source,checked\na,,b,c,d\n", "x.csv, row 2: dollars is ''"),
        ("provider,dollars,tier,source\na,1,b,c\n", "x.csv, row 2: Object missing required field `checked`"),
    ],
)
def test_a_row_that_is_no_record_is_refused_with_its_file_row_and_cell(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFact) as found:
        read_rows(path, StoragePrice, usd_per_gb_month=("dollars", 1.0))
    assert said in str(found.value)


def test_another_table_among_those_of_accelerators_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "caps.csv").write_text("accelerator,most_w\nl4,72\n", encoding="utf-8")
    monkeypatch.setattr(sys.modules["tonnage.catalog.accelerators"], "DATA", tmp_path)
    with pytest.raises(BadFact, match=r"caps\.csv: no column '.*'; files of this folder list accelerators"):
        _read_shipped.__wrapped__()
