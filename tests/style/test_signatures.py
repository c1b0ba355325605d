"""Signatures stay small: at most eight parameters, and a caller names all but the first two."""

import ast
from collections.abc import Iterable

import pytest
from tests.style.source import Function, decorators, functions, functions_in

MOST_PARAMETERS = 8
MOST_POSITIONAL = 2

COMMAND = {"command", "group", "option", "argument", "pass_context", "pass_obj"}
COMPILED = {"njit", "jit", "guvectorize", "vectorize", "register_jitable", "kernel"}


def is_command(function: Function) -> bool:
    """A click command: its options arrive as keywords, one each."""
    return function.floor == "cli" and bool(decorators(function.node) & COMMAND)


def is_compiled(function: Function) -> bool:
    """A numba function: numba knows no keyword-only parameters."""
    return bool(decorators(function.node) & COMPILED)


def obeys_another_library(function: Function) -> bool:
    """A protocol method, or a method of a class that click calls: its signature is not ours to choose."""
    dunder = function.name.startswith("__") and function.name != "__init__"
    bases = [] if function.owner is None else [ast.unparse(base) for base in function.owner.bases]
    return dunder or any(base.startswith("click.") or base == "Protocol" for base in bases)


def too_many(found: Iterable[Function]) -> list[str]:
    """Functions with more than eight parameters, private compiled kernels apart."""
    return [
        f"{function.place}: {len(function.parameters)} parameters, at most {MOST_PARAMETERS}"
        for function in found
        if len(function.parameters) > MOST_PARAMETERS
        and not (is_compiled(function) and function.floor == "simulation" and function.name.startswith("_"))
    ]


def too_positional(found: Iterable[Function]) -> list[str]:
    """Public functions of which a caller may pass a third argument without naming it."""
    return [
        f"{function.place}: put '*' before '{function.positional[MOST_POSITIONAL].arg}'"
        for function in found
        if len(function.positional) > MOST_POSITIONAL
        and (function.public or function.name == "__init__")
        and not function.nested
        and not is_command(function)
        and not is_compiled(function)
        and not obeys_another_library(function)
    ]


def test_no_function_has_more_than_eight_parameters() -> None:
    wrong = too_many(functions())
    assert not wrong, "\n" + "\n".join(wrong)


def test_parameters_beyond_two_are_keyword_only() -> None:
    wrong = too_positional(functions())
    assert not wrong, "\n" + "\n".join(wrong)


NINE = "a, b, *, c, d, e, f, g, h, i"


@pytest.mark.parametrize(
    ("text", "module", "caught"),
    [
        (f"def f({NINE}): ...", "physics/x.py", True),
        (f"def _f({NINE}): ...", "physics/x.py", True),
        (f"@njit\ndef _f({NINE}): ...", "simulation/x.py", False),
        (f"@numba.njit(cache=True)\ndef _f({NINE}): ...", "simulation/x.py", False),
        (f"@njit\ndef f({NINE}): ...", "simulation/x.py", True),
        (f"@click.command()\ndef f({NINE}): ...", "cli/x.py", True),
        ("@click.command()\ndef f(a, b, c, d, **options): ...", "cli/x.py", False),
    ],
)
def test_the_limit_of_eight_knows_its_exceptions(text: str, module: str, caught: bool) -> None:
    assert bool(too_many(functions_in(text, module))) is caught


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("def f(a, b, c): ...", True),
        ("def f(a, b, *, c): ...", False),
        ("def _f(a, b, c): ...", False),
        ("class A:\n def f(self, a, b): ...", False),
        ("class A:\n def f(self, a, b, c): ...", True),
        ("class A:\n def __init__(self, a, b, c): ...", True),
        ("class A:\n def __exit__(self, kind, error, trace): ...", False),
        ("class A:\n @staticmethod\n def f(a, b, c): ...", True),
        ("class A(click.ParamType):\n def convert(self, value, param, ctx): ...", False),
        ("def f(a, b):\n def g(a, b, c): ...", False),
    ],
)
def test_the_limit_of_two_knows_its_exceptions(text: str, caught: bool) -> None:
    assert bool(too_positional(functions_in(text, "questions/x.py"))) is caught
