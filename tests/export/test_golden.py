"""Every exporter's files, whole; a change that moves one says why."""

from pathlib import Path

import pytest
from tests.conftest import Golden
from tests.export.plans import CASES, exported, files_of, plan, targets_of

FOLDER = Path(__file__).parents[1] / "golden" / "export"


@pytest.mark.parametrize("case", CASES)
def test_files_are_the_kept_ones(case: str, request: pytest.FixtureRequest) -> None:
    target, changes = CASES[case]
    golden = Golden(FOLDER, bool(request.config.getoption("--update-golden")))
    for name, text in exported(plan(**changes), target).items():
        golden.check(f"{case}/{name}", text)


def test_every_target_is_kept() -> None:
    serving = targets_of("serve")
    kept = {target for target, _ in CASES.values()}
    assert kept == serving, f"CASES of tests/export/plans.py and the targets, where they differ: {kept ^ serving}"


@pytest.mark.parametrize("case", CASES)
def test_files_name_their_release_and_no_secret(case: str) -> None:
    target, changes = CASES[case]
    files = exported(plan(**changes), target)
    assert set(files) <= files_of(target)
    for name, text in files.items():
        assert "hf_" not in text
        if name.endswith(".json"):
            assert "Written by Tonnage" in text
            continue
        comments = [line for line in text.splitlines()[:10] if line.startswith("# For ")]
        assert comments, "the head names the release it was written for"
