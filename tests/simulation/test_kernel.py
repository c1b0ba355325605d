"""What numba is asked for: pointers that reach the arrays, one line while compiling, a result that is kept."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from tonnage.simulation import kernel
from tonnage.simulation.kernel import at, inline, offset, pointer

ENGINE = Path(kernel.__file__).parent
PAIR = np.dtype([("x", "f8"), ("n", "i8")])


@kernel.kernel
def third(rows: object) -> object:
    later = offset(rows, 1)
    at(later, 1).n += 5
    return at(later, 1).x


@inline
def doubled(numbers: object, k: int) -> None:
    numbers[k] *= 2  # type: ignore[index]


@numba.njit
def both(records: object, numbers: object) -> object:
    doubled(offset(pointer(numbers), 2), 1)
    return third(pointer(records))


def test_pointers_reach_records_and_numbers_in_place() -> None:
    records, numbers = np.zeros((2, 2), PAIR), np.arange(6).reshape(2, 3)
    records["x"] = [[1.0, 2.0], [3.0, 4.0]]
    assert both(records, numbers) == 3.0
    assert records["n"].tolist() == [[0, 0], [5, 0]]
    assert numbers.tolist() == [[0, 1, 2], [6, 4, 5]]


def test_an_array_that_is_not_in_order_has_no_pointer() -> None:
    with pytest.raises(numba.TypingError):
        both(np.zeros((2, 4), PAIR)[:, ::2], np.arange(6))


KEPT = """
import logging, sys
from tonnage.simulation.kernel import announce, entry, kernel
logging.basicConfig(format="%(message)s")
@kernel
def half(x):
    return x / 2.0
def outer(x):
    announce()
    return half(x) + 1.0
print(entry(outer)(4.0))
"""


@pytest.mark.parametrize("writable", [True, False])
def test_compiling_is_said_once_and_the_next_process_loads(writable: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KEPT, encoding="utf-8")
    if not writable:  # a file where a folder is wanted stops the superuser, too
        (tmp_path / "__pycache__").write_text("", encoding="utf-8")
    home = str(tmp_path if writable else script)
    environment = {"HOME": home, "XDG_CACHE_HOME": home, "PYTHONPATH": str(ENGINE.parents[1])}
    runs = [
        subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout for run in runs] == ["3.0\n", "3.0\n"]
    lines = [re.findall(r"tonnage: compiling the simulator .*\n", run.stderr) for run in runs]
    assert [len(each) for each in lines] == ([1, 0] if writable else [1, 1])
    assert ["".join(each) for each in lines] == [run.stderr for run in runs]


def test_nothing_private_of_numba_is_named() -> None:
    wrong = [
        f"{path.name}: {line.strip()}"
        for path in sorted(ENGINE.parent.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"numba\.(core|cpython|np|misc)\b|_nrt|numba\.config|numba\._", line)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_a_stamp_changes_with_its_file(tmp_path: Path) -> None:
    source = tmp_path / "loop.py"
    source.write_text("a = 1\n", encoding="utf-8")
    before = kernel.stamp_of(str(source), None)
    assert kernel.stamp_of(str(source)) == before
    source.write_text("a = 10\n", encoding="utf-8")
    assert kernel.stamp_of(str(source)) != before


def test_the_line_goes_through_logging(caplog: pytest.LogCaptureFixture) -> None:
    @numba.njit
    def caller() -> int:
        kernel.announce()
        return 1

    with caplog.at_level(logging.WARNING, logger="tonnage"):
        assert (caller(), caller()) == (1, 1)
    assert [record.name for record in caplog.records] == ["tonnage"] * len(caplog.records)
    assert len(caplog.records) <= 1  # numba asks once in a process
