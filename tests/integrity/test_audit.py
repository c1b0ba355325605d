"""The audit of dependencies: what it finds, and that an audit of nothing is no success."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("packaging")
SCRIPT = Path(__file__).parents[2] / ".ci" / "audit.py"

ADVISORY = """\
id: PYSEC-1
affected:
- package: {ecosystem: PyPI, name: Some_Package}
  ranges:
  - type: ECOSYSTEM
    events: [{introduced: "1.0"}, {fixed: "1.4.2"}, {introduced: "2.0"}]
  versions: ["0.9"]
"""


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("version", "hit"),
    [("0.8", False), ("0.9", True), ("1.0", True), ("1.4.1", True), ("1.4.2", False), ("1.10", False), ("2.1", True)],
)
def test_advisories_are_read_by_version(audit: Any, tmp_path: Path, version: str, *, hit: bool) -> None:
    (tmp_path / "one.yaml").write_text(ADVISORY)
    pin = f"some-package=={version}"
    found = audit.looked_up([pin, "other==1.0"], tmp_path)
    assert found == {pin: ["PYSEC-1"] if hit else [], "other==1.0": []}
    assert audit.told(found) is not hit
    (tmp_path / "one.yaml").write_text(ADVISORY + "withdrawn: 2026-01-01\n")
    assert audit.told(audit.looked_up([pin], tmp_path))


def test_an_audit_of_nothing_fails(audit: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skipped = {"dependencies": [{"name": "numpy", "skip_reason": "not found"}]}
    assert not audit.told(audit.learnt(["numpy==2.0"], skipped))
    assert "audited 0 of 1 packages" in capsys.readouterr().out
    assert not audit.told(audit.looked_up(["numpy==2.0"], tmp_path))


def test_what_a_server_knows_is_kept_by_package(audit: Any) -> None:
    answer = {"dependencies": [{"name": "NumPy", "version": "1.0", "vulns": [{"id": "PYSEC-2"}]}]}
    assert audit.learnt(["numpy==1.0"], answer) == {"numpy==1.0": ["PYSEC-2"]}
