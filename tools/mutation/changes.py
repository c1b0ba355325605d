"""Which small wrongs can be done to a function: one operator, number, comparison or answer at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

Function = ast.FunctionDef

OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
CALLS: Final = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "any": "all", "all": "any"}


class Change(NamedTuple):
    """One wrong that can be done to one function."""

    file: Path
    function: str
    """Its name, with the class before it where it has one."""
    line: int
    end: int
    """Last line of what is changed: only tests that run a line of it can notice."""
    place: int
    """Which of the function's nodes."""
    way: int
    """Which of the node's ways to be wrong."""
    refusal: bool = False
    """The nodes are what refuses; they are taken away instead of turned round."""


def changes_in(file: Path) -> Iterator[Change]:
    """Every change of every function of a file, in the order of its lines."""
    for name, function in _functions(ast.parse(file.read_text(encoding="utf-8"))):
        for place, node in enumerate(_nodes(function)):
            lines = node.lineno, node.end_lineno or node.lineno
            yield from (Change(file, name, *lines, place, way) for way in range(_ways(node)))


def refusals_in(file: Path) -> Iterator[Change]:
    """Every refusal of every function of a file taken away, and every condition of one that has several."""
    for name, function in _functions(ast.parse(file.read_text(encoding="utf-8"))):
        for place, node in enumerate(_refusals(function)):
            lines = node.lineno, (node.test if isinstance(node, ast.If) else node).end_lineno or node.lineno
            several = len(node.test.values) if isinstance(node, ast.If) and isinstance(node.test, ast.BoolOp) else 0
            yield from (Change(file, name, *lines, place, way, True) for way in range(several + 1))


def changed(change: Change) -> tuple[ast.Module, str]:
    """The file with the change in it, and what was there and is there now."""
    tree = ast.parse(change.file.read_text(encoding="utf-8"))
    function = next(function for name, function in _functions(tree) if name == change.function)
    if change.refusal:
        return _without(tree, list(_refusals(function))[change.place], change.way)
    node = list(_nodes(function))[change.place]
    before = ast.unparse(node)
    _do(node, change.way, function)
    return ast.fix_missing_locations(tree), f"{before}  ->  {ast.unparse(node)}"


CHECKS: Final = ("check_", "_check", "refuse_", "_refuse", "plain_text", "need_")
"""Beginnings of names of functions that do nothing but refuse."""


def _refusals(function: Function) -> Iterator[ast.If | ast.Expr]:
    """What refuses: a condition whose body raises or answers with a status of 400 to 499, and a call of a check."""
    for node in ast.walk(function):
        match node:
            case ast.If(body=[*_, ast.Raise()]):
                yield node
            case ast.If(body=[*_, ast.Return()]) if _turns_away(node):
                yield node
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name.startswith(CHECKS):
                yield node


def _turns_away(condition: ast.If) -> bool:
    """Whether its body answers with a status of the client's mistake, or with a sentence."""
    found = [node for statement in condition.body for node in ast.walk(statement)]
    statuses = (node.value for node in found if isinstance(node, ast.Constant))
    said = any(isinstance(node, ast.Name) and node.id == "sentence" for node in found)
    return said or any(isinstance(value, int) and 400 <= value < 500 for value in statuses)


def _without(tree: ast.Module, node: ast.If | ast.Expr, way: int) -> tuple[ast.Module, str]:
    """The file without a refusal, or with one of its conditions settled so that the others decide."""
    shown = ast.unparse(node.test if isinstance(node, ast.If) else node)
    if isinstance(node, ast.Expr):
        node.value = ast.Constant(value=None)
    elif way == 0:
        node.test = ast.Constant(value=False)
    elif isinstance(node.test, ast.BoolOp):
        node.test.values[way - 1] = ast.Constant(value=isinstance(node.test.op, ast.And))
    return ast.fix_missing_locations(tree), f"{shown}  ->  without{f' its condition {way}' if way else ''}"


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{own.name}", own) for own in node.body if isinstance(own, Function))


def _nodes(function: Function) -> Iterator[ast.expr | ast.stmt]:
    """What can be changed in a function's body; what is raised is a sentence, and no formula."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr):
            continue
        if isinstance(node, ast.expr | ast.stmt) and _ways(node):
            yield node
        waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def _ways(node: ast.AST) -> int:
    """In how many ways a node can be changed."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            return int(type(op) in OPERATORS)
        case ast.Compare(ops=[op]):
            return int(type(op) in COMPARISONS)
        case ast.Constant(value=bool()):
            return 1
        case ast.Constant(value=int() | float()):
            return 2
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return int(name in CALLS)
        case ast.BoolOp() | ast.IfExp() | ast.UnaryOp(op=ast.USub() | ast.Not()):
            return 1
        case ast.Return(value=ast.Call() | ast.BinOp()):
            return 1
    return 0


def _do(node: ast.AST, kind: int, function: Function) -> None:
    """Change a node in place."""
    match node:
        case ast.BinOp() | ast.AugAssign():
            node.op = OPERATORS[type(node.op)]()
        case ast.Compare():
            node.ops = [COMPARISONS[type(node.ops[0])]()]
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float() as value):
            node.value = value + 1 if kind == 0 else (value * 2 or -1)
        case ast.Call(func=ast.Name() as called):
            called.id = CALLS[called.id]
        case ast.Call(func=ast.Attribute() as called):
            called.attr = CALLS[called.attr]
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.IfExp():
            node.body, node.orelse = node.orelse, node.body
        case ast.UnaryOp():
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(op=ast.Not(), operand=node.operand)
        case ast.Return():
            arguments = [*function.args.args, *function.args.kwonlyargs]
            node.value = ast.Name(id=arguments[0].arg, ctx=ast.Load()) if arguments else ast.Constant(value=None)
