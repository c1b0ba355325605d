"""Every exporter's files, whole; a change that moves one says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Golden
from tests.export.plans import CASES, plan

from tonnage import export

FOLDER = Path(__file__).parents[1] / "golden" / "export"


@pytest.mark.parametrize("case", CASES)
def test_files_are_the_kept_ones(case: str, request: pytest.FixtureRequest) -> None:
    target, changes = CASES[case]
    made = plan(**changes)
    golden = Golden(FOLDER, bool(request.config.getoption("--update-golden")))
    for name, text in export.export(made, made.options[0], to=target).items():
        golden.check(f"{case}/{name}", text)


def test_every_target_is_kept() -> None:
    serving = {name for name, target in export.known_targets().items() if "serve" in target.kinds}
    kept = {target for target, _ in CASES.values()}
    assert kept == serving, f"CASES of tests/export/plans.py and the targets, where they differ: {kept ^ serving}"


@pytest.mark.parametrize("case", CASES)
def test_files_name_their_release_and_no_secret(case: str) -> None:
    target, changes = CASES[case]
    made = plan(**changes)
    known = export.known_targets()[target]
    files = export.export(made, made.options[0], to=target)
    assert set(files) <= set(known.files)
    for name, text in files.items():
        assert "hf_" not in text
        if name.endswith(".json"):
            assert "Written by Tonnage" in text
            continue
        comments = [line for line in text.splitlines()[:10] if line.startswith("# For ")]
        assert comments, "the head names the release it was written for"
