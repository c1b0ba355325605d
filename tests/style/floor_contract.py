"""
Which floor may import which: the contract that `make lint` runs through import-linter.

import-linter's own contracts forbid; ours allows. Each floor has one line in pyproject.toml naming what
it may import, and whatever is not named is refused, so that a new floor starts with no rights at all.
Only direct imports are looked at: every link of a longer chain is itself a direct import of the floor it
starts from.
"""

from typing import Any, cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

PACKAGE = "tonnage"


def read_floors(lines: list[str]) -> dict[str, frozenset[str]]:
    """The lines of pyproject.toml, "name: allowed allowed ...", as a table."""
    floors: dict[str, frozenset[str]] = {}
    for line in lines:
        name, colon, allowed = line.partition(":")
        if not colon or name.strip() in floors:
            raise ValueError(f"floor line {line!r}: expected 'name: allowed ...', each name once")
        floors[name.strip()] = frozenset(allowed.split())
    unknown = {part.split(".")[0] for allowed in floors.values() for part in allowed} - set(floors)
    if unknown:
        raise ValueError(f"floors allowed somewhere but without a line of their own: {sorted(unknown)}")
    return floors


def floor_of(module: str) -> str:
    """The floor a module stands on; the package's own `__init__` is a floor too."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def may_import(imported: str, allowed: frozenset[str]) -> bool:
    """Whether a module is on an allowed floor, or is or lies in an allowed module such as engine.metrics."""
    inside = imported.removeprefix(PACKAGE).removeprefix(".") or "__init__"
    return any(inside == part or inside.startswith(f"{part}.") for part in allowed)


def broken_imports(graph: ImportGraph, floors: dict[str, frozenset[str]]) -> list[str]:
    """One sentence for each import against the arrows, and for each floor that has no line."""
    broken = [
        f"{PACKAGE}.{floor}: a floor without a line; add one to [tool.importlinter] in pyproject.toml"
        for floor in sorted({floor_of(module) for module in graph.modules} - set(floors))
    ]
    for importer in sorted(graph.modules):
        floor = floor_of(importer)
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            if floor not in floors or floor_of(imported) == floor or may_import(imported, floors[floor]):
                continue
            for detail in graph.get_import_details(importer=importer, imported=imported):
                line = detail["line_number"]
                broken.append(f"{importer}:{line} imports {imported}, which {floor} may not")
    return broken


class FloorsContract(Contract):
    """The contract type `floors` of pyproject.toml."""

    floors = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        broken = broken_imports(graph, read_floors(cast(list[str], self.floors)))
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        metadata: dict[str, Any] = check.metadata
        for sentence in metadata["broken"]:
            output.print_error(sentence)
