"""
A test has the same id in every process that collects it; pytest-xdist refuses a run whose workers disagree.

Ids are made of what `parametrize` is given, so nothing there may hold a clock, chance or a memory address: a gzip of
bytes carries the second in which it was made unless it is told a time.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CHANGING = {"time.time", "time.time_ns", "datetime.now", "uuid.uuid4", "os.urandom", "os.getpid", "id", "object"}


def changing(code: str) -> list[str]:
    """Calls in decorators and in what a module computes on import whose value differs between processes."""
    tree = ast.parse(code)
    return [f"line {call.lineno}: {ast.unparse(call)[:60]}" for call in collected(tree) if differs(call)]


def collected(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls made while tests are collected."""
    for node in tree.body:
        at_import = [node] if isinstance(node, ast.Assign | ast.AnnAssign) else []
        for part in (*at_import, *getattr(node, "decorator_list", ())):
            yield from (call for call in ast.walk(part) if isinstance(call, ast.Call))


def differs(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    if name in {"gzip.compress", "gzip.GzipFile"}:
        return not any(keyword.arg == "mtime" for keyword in call.keywords)
    return name in CHANGING or name.endswith("date.today")


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("@pytest.mark.parametrize('x', [gzip.compress(b'a')])\ndef test_a(x): ...", 1),
        ("@pytest.mark.parametrize('x', [gzip.compress(b'a', mtime=0)])\ndef test_a(x): ...", 0),
        ("ROWS = [time.time()]", 1),
        ("def test_a():\n    gzip.compress(b'a')", 0),
    ],
)
def test_what_differs_between_processes_is_found(code: str, found: int) -> None:
    assert len(changing(code)) == found


def test_ids_are_the_same_in_every_process() -> None:
    found = {
        str(path.relative_to(TESTS)): calls
        for path in TESTS.rglob("test_*.py")
        if (calls := changing(path.read_text(encoding="utf-8")))
    }
    assert not found, found
