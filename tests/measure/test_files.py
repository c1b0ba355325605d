"""Files of other tools, whole: within limits, or one sentence."""

import gzip
from pathlib import Path

import pytest

from tonnage.errors import BadFact
from tonnage.measure import files
from tonnage.measure.files import read_whole
from tonnage.measure.importers import read_report
from tonnage.measure.records import read_log
from tonnage.measure.train.kineto import measurement_of_trace
from tonnage.measure.train.records import read_rank

READERS = [read_report, read_log, measurement_of_trace, read_rank]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("data", [b"[" + b"{}," * 3_000_000 + b"{}]", b"[" + b"[]," * 3_000_000 + b"[]]"])
def test_more_values_than_memory_is_for(tmp_path: Path, read: object, data: bytes) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(data)
    with pytest.raises(BadFact, match=r"too many values to be read at once \(\d+ MB, at most 300 MB\)"):
        read(path)  # type: ignore[operator]


@pytest.mark.parametrize("read", READERS)
def test_larger_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: object) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 1_000)
    path = tmp_path / "report.json"
    path.write_bytes(b" " * 1_001)
    with pytest.raises(BadFact, match="is larger than"):
        read(path)  # type: ignore[operator]


def test_a_packed_trace_is_unpacked_no_further_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"[1]") + gzip.compress(b" "))
    assert read_whole(path, what="x", unpack=True) == b"[1] "
    path.write_bytes(gzip.compress(b"\n" * 50_000))
    monkeypatch.setattr(files, "MAX_BYTES", 10_000)
    with pytest.raises(BadFact, match="larger than"):
        read_whole(path, what="x", unpack=True)
    path.write_bytes(gzip.compress(b"abc" * 99)[:-9])
    with pytest.raises(BadFact, match="damaged gzip"):
        read_whole(path, what="x", unpack=True)


@pytest.mark.parametrize("name", ["none", ".", "a\0b", "x" * 3_000])
def test_paths_that_are_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadFact, match=r"does not exist|folder|no path|cannot be read"):
        read_whole(tmp_path / name, what="a report")
