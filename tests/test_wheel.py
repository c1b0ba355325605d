"""The wheel holds what the code opens and nothing else: every data file, the licences, no tests."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def packed(out: Path) -> Path:
    """The wheel of this tree, built by the backend that pyproject.toml names."""
    code = f"import hatchling.build; print(hatchling.build.build_wheel({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
        capture_output=True,
        text=True,
        check=True,
    )
    return out / done.stdout.split()[-1]


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_the_licences_and_no_tests_and_is_built_the_same_twice(
    tmp_path: Path,
) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed; `make wheel` fetches it")
    first = packed(tmp_path / "1")
    with zipfile.ZipFile(first) as wheel:
        names = set(wheel.namelist())
    # Folders of data are opened by name and walked: every file that git tracks in the package must travel.
    listed = subprocess.run(["git", "ls-files", "-z", "src/tonnage"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files belong to the package is unknown")
    own = {name.removeprefix("src/") for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()}
    assert own <= names
    assert {"LICENSE", "NOTICE"} <= {Path(name).name for name in names if "/licenses/" in name}
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"tonnage"}
    assert not [name for name in names if "test" in name.lower() and name not in own]
    assert first.read_bytes() == packed(tmp_path / "2").read_bytes()
