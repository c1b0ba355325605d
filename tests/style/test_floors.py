"""The floor contract says yes and no where it should; whether src keeps it is `make lint`."""

import tomllib
from pathlib import Path

import pytest
from grimp import ImportGraph
from tests.style.floor_contract import broken_imports, read_floors
from tools.architecture import PAGE, page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def floors() -> dict[str, frozenset[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return read_floors(contract["floors"])


def graph_with(importer: str, imported: str) -> ImportGraph:
    graph = ImportGraph()
    graph.add_import(importer=importer, imported=imported, line_number=3, line_contents="import")
    return graph


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("tonnage.physics.memory", "tonnage.units"),
        ("tonnage.physics.memory", "tonnage.physics.work"),
        ("tonnage.simulation.serving", "tonnage.physics.operators"),
        ("tonnage.measure.client", "tonnage.simulation.metrics"),
        ("tonnage.questions.serve.plan", "tonnage.pricing.offers"),
        ("tonnage.cli.plan", "tonnage.version"),
        ("tonnage.__main__", "tonnage.cli"),
    ],
)
def test_an_arrow_that_points_up_is_kept(floors: dict[str, frozenset[str]], importer: str, imported: str) -> None:
    assert broken_imports(graph_with(importer, imported), floors) == []


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("tonnage.physics.memory", "tonnage.catalog.hub"),
        ("tonnage.physics.memory", "tonnage"),
        ("tonnage.optimize.largest", "tonnage.pricing"),
        ("tonnage.measure.client", "tonnage.simulation.serving"),
        ("tonnage.questions.serve.plan", "tonnage.cli.plan"),
        ("tonnage.units", "tonnage.domain.model"),
        ("tonnage.web.app", "tonnage.cli.plan"),
    ],
)
def test_an_arrow_that_points_down_is_named_with_its_line(
    floors: dict[str, frozenset[str]], importer: str, imported: str
) -> None:
    (sentence,) = broken_imports(graph_with(importer, imported), floors)
    assert sentence.startswith(f"{importer}:3 imports {imported}")


def test_a_folder_without_a_line_is_named(floors: dict[str, frozenset[str]]) -> None:
    (sentence,) = broken_imports(graph_with("tonnage.basement.mice", "tonnage.basement.cheese"), floors)
    assert "tonnage.basement" in sentence


def test_the_floors_have_no_cycle(floors: dict[str, frozenset[str]]) -> None:
    rest = {name: {part.split(".")[0] for part in allowed} - {"__init__"} for name, allowed in floors.items()}
    while rest:
        bottom = {name for name, allowed in rest.items() if not allowed & set(rest)}
        assert bottom, f"these floors import each other: {sorted(rest)}"
        rest = {name: allowed for name, allowed in rest.items() if name not in bottom}


def test_a_line_without_a_colon_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 'name: allowed"):
        read_floors(["physics units"])


def test_the_drawing_of_layers_is_that_of_the_imports() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run: python -m tools.architecture --write"
