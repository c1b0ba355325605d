"""
Tonnage's own source as the style tests see it: every function and class below src/, read without importing it.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tonnage"

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """One function, with what is needed to judge its signature."""

    place: str
    """File and line, as an editor wants them."""
    floor: str
    """The folder or file below src/tonnage: "physics", "units"."""
    module: str
    """The file's path below src/tonnage."""
    name: str
    node: FunctionNode
    owner: ast.ClassDef | None
    """The class whose method this is."""
    nested: bool
    """Whether it is defined inside another function."""

    @property
    def public(self) -> bool:
        return not self.name.startswith("_") and not (self.owner and self.owner.name.startswith("_"))

    @property
    def positional(self) -> list[ast.arg]:
        """The parameters a caller may pass without naming them, self and cls left out."""
        named = [*self.node.args.posonlyargs, *self.node.args.args]
        bound = self.owner is not None and "staticmethod" not in decorators(self.node)
        return named[1:] if bound else named

    @property
    def parameters(self) -> list[ast.arg]:
        return [*self.positional, *self.node.args.kwonlyargs]


def decorators(node: FunctionNode | ast.ClassDef) -> set[str]:
    """Every name in the decorators: {"click", "option"} for @click.option(...)."""
    return {name for decorator in node.decorator_list for name in names_in(strip_arguments(decorator)).split(".")}


def strip_arguments(node: ast.expr) -> ast.expr:
    """The callee of a call or the generic of a subscript; anything else as it is."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def names_in(node: ast.expr) -> str:
    """A dotted name as written."""
    return ast.unparse(node)


def functions_in(text: str, module: str) -> Iterator[Function]:
    """Every function of one file."""
    floor = module.split("/", maxsplit=1)[0].removesuffix(".py")

    def visit(node: ast.AST, owner: ast.ClassDef | None, nested: bool) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FunctionNode):
                place = f"src/tonnage/{module}:{child.lineno} {child.name}"
                yield Function(place, floor, module, child.name, child, owner, nested)
                yield from visit(child, None, True)
            elif isinstance(child, ast.ClassDef):
                yield from visit(child, child, nested)
            else:
                yield from visit(child, owner, nested)

    yield from visit(tree_of(text), None, False)


@cache
def tree_of(text: str) -> ast.Module:
    """A file's syntax tree, made once for all tests of a process; nobody changes it."""
    return ast.parse(text)


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """Every node of a file, walked once for all tests of a process."""
    return tuple(ast.walk(tree_of(text)))


@cache
def modules() -> tuple[tuple[str, str], ...]:
    """Every file below src/tonnage: its path there, and its text."""
    return tuple(
        (path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


@cache
def functions() -> tuple[Function, ...]:
    """Every function below src/tonnage."""
    return tuple(function for module, text in modules() for function in functions_in(text, module))
