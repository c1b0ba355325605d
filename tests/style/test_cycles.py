"""No module needs itself, however late it imports: the graph of all imports, those inside functions too, is acyclic."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.style.source import PACKAGE, ROOT, tree_of

Graph = dict[str, set[str]]


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Modules of the package that a file imports when it runs; what is imported for types alone does not count."""
    types_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in types_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def graph(root: Path) -> Graph:
    paths = {module_name(path, root): path for path in root.rglob("*.py")}
    return {
        name: set(imported(tree_of(path.read_text(encoding="utf-8")), set(paths))) - {name}
        for name, path in paths.items()
    }


def cycles(edges: Graph) -> list[list[str]]:
    """What is left when modules that import nothing left, or that nothing left imports, are taken away."""
    left = {name: set(targets) for name, targets in edges.items()}
    while True:
        used = {target for targets in left.values() for target in targets}
        gone = {name for name, targets in left.items() if not targets or name not in used}
        if not gone:
            break
        left = {name: targets - gone for name, targets in left.items() if name not in gone}
    return [[name, *sorted(targets)] for name, targets in sorted(left.items())]


@pytest.mark.parametrize("root", [PACKAGE, ROOT / "tools/accuracy/tonnage_accuracy"], ids=lambda root: root.name)
def test_no_module_imports_itself_through_others(root: Path) -> None:
    found = cycles(graph(root))
    assert not found, "\n" + "\n".join(f"{one[0]} -> {', '.join(one[1:])}" for one in found)


def test_a_cycle_is_found_wherever_it_is_hidden() -> None:
    known = {"a", "b", "c"}
    late = ast.parse("def f():\n    from b import x\n")
    typed = ast.parse("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b import x\n")
    assert set(imported(late, known)) == {"b"} and not set(imported(typed, known))
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert cycles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b"], ["b", "a"]]
