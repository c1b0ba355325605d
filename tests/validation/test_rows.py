"""Files of measurements: recognised by header, gzipped or not; what is wrong with one is said in a sentence."""

import csv
import gzip
from pathlib import Path

import pytest
from tests.validation.samples import row

from tonnage.catalog.published import published_results
from tonnage.core.near import near
from tonnage.errors import BadFact
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.rows import count, flag, number, read_rows, text

ROOT = Path(__file__).parents[2]
HEADER = "id,block,accelerator_id,load,e2e_ms,usable"
LINE = "A-1,A,h100-sxm5-80gb,static_batch,12.5,1"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "anything"])
@pytest.mark.parametrize("zipped", [True, False])
def test_the_content_and_not_the_name_says_how_to_read(tmp_path: Path, name: str, zipped: bool) -> None:
    content = f"{HEADER}\n{LINE}\n".encode()
    rows = list(read_rows(write(tmp_path / name, gzip.compress(content) if zipped else content)))
    assert [(r.id, r.block, r.layout, r.usable) for r in rows] == [("A-1", "A", "inference", True)]
    assert number(rows[0], "e2e_ms") == 12.5


@pytest.mark.parametrize(
    ("columns", "layout"),
    [
        ("silicon_ttft_ms", "serving"),
        ("tokens_per_s_per_accel_eff", "training"),
        ("peak_mem_gb", "training"),
        ("samples_per_s", "inference"),
        ("kv_tokens,load", "inference"),
    ],
)
def test_a_header_tells_the_layout(tmp_path: Path, columns: str, layout: str) -> None:
    path = write(
        tmp_path / "x.csv", f"id,accelerator_id,{columns}\nB-7,h100-sxm5-80gb{',1' * len(columns.split(','))}\n"
    )
    found = next(read_rows(path))
    assert (found.layout, found.block, found.usable) == (layout, "B", True)


def test_rows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", f"{HEADER}\n{LINE}\nbroken,line\n")
    rows = read_rows(path)
    assert next(rows).id == "A-1"
    with pytest.raises(BadFact, match="line 3 has 2 cells where the header has 6"):
        next(rows)


def test_quoted_cells_blank_lines_and_windows_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", f'\ufeff{HEADER}\r\n\r\n"A-1",A,"a, b",x,,0\r\n')
    found = list(read_rows(path))
    assert len(found) == 1
    assert found[0].cells["accelerator_id"] == "a, b"
    assert not found[0].usable
    assert "e2e_ms" not in found[0].cells


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n1,2\n", "no table of measurements"),
        (b"id,accelerator_id\nA,B\n", "no column of a training, inference or serving result"),
        (b"e2e_ms,accelerator_id\n1,2\n", "has no column id"),
        (b"id,accelerator_id,e2e_ms,e2e_ms\n", "two columns named 'e2e_ms'"),
        (b"id,accelerator_id,e2e_ms\n,h100,1\n", "line 2 has no id"),
        (b"\x1f\x8b broken", "damaged gzip"),
        (gzip.compress(f"{HEADER}\n{LINE}\n".encode() * 500, mtime=0)[:-20], "damaged gzip"),
        (b"id,accelerator_id,e2e_ms\n\xff\xfe,h,1\n", "not UTF-8"),
        (b"id,accelerator_id,e2e_ms\n" + b"x" * 100_000 + b",h,1\n", "not a CSV table"),
        (b",".join(b"c%d" % i for i in range(2000)), "has 2000 columns"),
    ],
)
def test_a_bad_file_ends_in_one_sentence_that_names_it(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(BadFact, match=said) as error:
        list(read_rows(write(tmp_path / "measured.csv", content)))
    assert "measured.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_said(tmp_path: Path) -> None:
    with pytest.raises(BadFact, match="does not exist"):
        list(read_rows(tmp_path / "none.csv"))
    with pytest.raises(BadFact, match="is a folder"):
        list(read_rows(tmp_path))


def test_cells_are_read_with_their_kind() -> None:
    some = row("inference", a="2.5", b="4", c="yes", d="0")
    assert (number(some, "a"), count(some, "b"), flag(some, "c"), flag(some, "d")) == (2.5, 4, True, False)
    assert (number(some, "z"), count(some, "z"), flag(some, "z"), text(some, "z")) == (None, None, None, "")


@pytest.mark.parametrize("cell", ["x", "nan", "inf", "1e999", "-1", "--3"])
def test_a_cell_that_is_no_number_names_its_column(cell: str) -> None:
    with pytest.raises(BadFact, match="bad cell tp"):
        number(row("inference", tp=cell), "tp")


@pytest.mark.parametrize("cell", ["0", "2.5", "1e9"])
def test_a_cell_that_is_no_count_names_its_column(cell: str) -> None:
    with pytest.raises(BadFact, match="bad cell tp"):
        count(row("inference", tp=cell), "tp")


def test_a_cell_that_is_no_flag_names_its_column() -> None:
    with pytest.raises(BadFact, match="bad cell usable_x"):
        flag(row("inference", usable_x="maybe"), "usable_x")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (HEADER.encode() + b"\n" + b"\n" * 200_000, "more than 100,000 empty lines"),
        (HEADER.encode() + b"\n" + b"\r\n" * 200_000, "more than 100,000 empty lines"),
        (HEADER.encode() + b"\n" + b'"' + b"\n" * 200_000, "larger than field limit|more than 100,000 empty lines"),
        (b"x" * 5_000_000, "line 1 is longer than 4 MiB"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_would_never_end_is_refused(tmp_path: Path, data: bytes, says: str, packed: bool) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(gzip.compress(data, 1) if packed else data)
    with pytest.raises(BadFact, match=says):
        list(read_rows(path))


def test_the_table_is_small_and_its_rows_are_those_of_the_measurements() -> None:
    path = ROOT / "src" / "tonnage" / "catalog" / "data" / "published" / "results.csv.gz"
    assert path.stat().st_size < 300_000
    known = {one.id: one for table in (ROOT / "measurements").glob("*.csv.gz") for one in read_rows(table)}
    for result in published_results():
        assert known[result.id].usable, result.id
        assert result.measured and result.count > 0 and result.source
    assert len(published_results()) > 10_000


def test_the_run_that_is_asked_for_comes_first_without_a_difference() -> None:
    rows = read_rows(ROOT / "measurements" / "inference_2.csv.gz")
    found = near(case_of(next(one for one in rows if one.id == "MLE-0118")), limit=3)
    assert (found[0].result.id, found[0].distance, found[0].differs) == ("MLE-0118", 0.0, ())
    assert found[0].result.measured["energy_per_token_j"] > 0, "what was measured of the same run stands with it"


def test_the_table_holds_what_calibration_would_write() -> None:
    path = ROOT / "src" / "tonnage" / "catalog" / "data" / "published" / "results.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        kept = {line["id"]: line for line in csv.DictReader(file)}
    rows = [one for one in read_rows(ROOT / "measurements" / "serving_silicon_2.csv.gz") if one.usable]
    assert sum(one.id in kept for one in rows) >= 0.99 * len(rows)
    for one in rows[::50]:
        assert float(kept[one.id]["tpot_ms"]) == pytest.approx(float(one.cells["silicon_tpot_ms"]), rel=1e-3)
