"""Tests ask at the faces that users have: the share that imports public names alone grows."""

from pathlib import Path

from tools.benchmarks import faces

LEAST = 0.49
"""Raise it with what is converted."""


def test_the_share_of_tests_at_public_faces_does_not_fall() -> None:
    share = faces.public_share()
    assert share >= LEAST, "`python -m tools.benchmarks.faces` lists what stands nearest"
    assert share < LEAST + 0.02, "more than that: raise the ratchet"


def test_private_names_are_found_wherever_they_are_imported(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text("import tonnage\nfrom tonnage import fit\nfrom tonnage.cli import root\nfrom tools import stable\n")
    assert faces.private(path) == set()
    other = tmp_path / "test_y.py"
    other.write_text("def f():\n    from tonnage.units import GiB\nfrom tests.training_setups import training_setups\n")
    assert {"tonnage.units.GiB", "tonnage.domain.training.TrainSetup"} <= faces.private(other)
