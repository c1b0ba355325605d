"""
The share of test files that ask at a public face: they import nothing of Tonnage but public names.

    python -m tools.benchmarks.faces        the share, and the files that one or two imports keep from it

Public are the Python API (`tonnage.__all__`), its errors and the command (`tonnage.cli.root`, which click's runner
starts). Programs that are started, HTTP routes and `tools` need no import of ours. A helper of tests is as public as
what it imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tonnage

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PUBLIC = frozenset({"tonnage", "tonnage.cli.root", *(f"tonnage.{name}" for name in tonnage.__all__)})


def imported(text: str) -> Iterator[str]:
    """Dotted names that a file imports, wherever it does so."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def private(path: Path) -> frozenset[str]:
    """Names of Tonnage that a file of tests imports, itself or through a helper, and that are not public."""
    found: set[str] = set()
    for name in imported(path.read_text(encoding="utf-8")):
        if name.startswith("tonnage") and name not in PUBLIC and not name.startswith("tonnage.errors"):
            found.add(name)
        helper = _file_of(name)
        if helper is not None and helper != path:
            found |= private(helper)
    return frozenset(found)


def _file_of(name: str) -> Path | None:
    """The file of tests that an import names, as a module or as a name of one."""
    module = ROOT / Path(*name.split("."))
    paths = (path.with_suffix(".py") for path in (module, module.parent))
    return next((path for path in paths if name.startswith("tests.") and path.is_file()), None)


def imports_by_test() -> dict[str, frozenset[str]]:
    """Each file of tests, below the root: what keeps it from a public face."""
    return {path.relative_to(ROOT).as_posix(): private(path) for path in sorted(TESTS.rglob("test_*.py"))}


def public_share() -> float:
    """The share of test files that import public names alone."""
    found = imports_by_test()
    return sum(not names for names in found.values()) / len(found)


if __name__ == "__main__":
    print(f"{public_share():.1%} of {len(imports_by_test())} test files import public names alone")
    for path, names in imports_by_test().items():
        if 0 < len(names) <= 2:
            print(f"{path}: {', '.join(sorted(names))}")
