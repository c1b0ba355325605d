"""The bill of materials beside the wheel: everything that an installation brings, once, and nothing undefined."""

import importlib.metadata
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("packaging")
from tools.sbom import bill

ROOT = Path(__file__).parents[2]


def wheel(folder: Path) -> Path:
    """A wheel with the requirements of `pyproject.toml` as the backend writes them."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [f"Requires-Dist: {line}" for line in project["dependencies"]]
    for extra, wanted in project["optional-dependencies"].items():
        for one in wanted:
            name, _, marker = one.partition(";")
            also = f"({marker.strip()}) and " if marker else ""
            lines.append(f"Requires-Dist: {name.strip()}; {also}extra == '{extra}'")
    about = "\n".join(
        ["Metadata-Version: 2.4", "Name: tonnage", "Version: 0.1.0", "License-Expression: Apache-2.0", *lines]
    )
    path = folder / "tonnage-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(zipfile.ZipInfo("tonnage-0.1.0.dist-info/METADATA"), about)
    return path


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return bill(wheel(tmp_path_factory.mktemp("wheel")))


def test_every_requirement_stands_there_with_version_licence_and_address(document: dict[str, Any]) -> None:
    parts = {part["name"]: part for part in document["components"]}
    for name in ("msgspec", "click", "rich", "pyyaml", "numpy", "highspy", "platformdirs"):
        part = parts[name]
        assert part["scope"] == "required", name
        assert part["version"] == importlib.metadata.version(name)
        assert part["purl"] == f"pkg:pypi/{name}@{part['version']}"
        assert part["licenses"], name
    assert {parts[name]["scope"] for name in ("litestar", "torch", "numba", "llvmlite")} == {"optional"}
    if parts["psycopg"].get("version"):
        assert "psycopg-binary" in parts  # what the extra of an extra brings
    assert not {"pytest", "ruff", "mkdocs", "tonnage"} & parts.keys()


def test_every_reference_is_defined_once(document: dict[str, Any]) -> None:
    own = document["metadata"]["component"]["bom-ref"]
    defined = [own, *(part["bom-ref"] for part in document["components"])]
    assert len(set(defined)) == len(defined)
    edges = {edge["ref"]: edge["dependsOn"] for edge in document["dependencies"]}
    assert set(edges) == set(defined)
    assert {reference for inner in edges.values() for reference in inner} <= set(defined)


def test_the_same_wheel_gives_the_same_text(document: dict[str, Any], tmp_path: Path) -> None:
    assert json.dumps(bill(wheel(tmp_path))) == json.dumps(document)
    assert document["metadata"]["component"]["hashes"][0]["alg"] == "SHA-256"
