"""Our own loops are optimised lightly, and nobody else's are."""

from typing import Any

import numba
import numba.core.event
import numpy as np
import pytest

from tonnage.engine import kernel


def test_the_level_is_lowered_for_our_own_functions_only() -> None:
    seen: list[tuple[str, int]] = []
    config: Any = numba.core.config

    def note(_: Any, event: Any) -> None:
        seen.append((event.data["dispatcher"].py_func.__name__, int(config.OPT)))

    listener = type("Note", (numba.core.event.Listener,), {"on_start": note, "on_end": lambda listener, event: None})()
    before = int(config.OPT)

    def ours(x: int) -> int:
        return x + 1

    def theirs(x: int) -> int:
        return x + 2

    numba.njit(lambda x: x)(1)  # what is said of the first compilation in a process is said now
    ours.__module__, theirs.__module__ = "tonnage.engine.anything", "somebody.else"
    numba.core.event.register("numba:compile", listener)
    try:
        assert (numba.njit(ours)(1), numba.njit(theirs)(1)) == (2, 3)
    finally:
        numba.core.event.unregister("numba:compile", listener)
    assert seen == [("ours", min(before, kernel.LEVEL)), ("theirs", before)]
    assert int(config.OPT) == before


def chain() -> tuple[Any, Any]:
    """Two inner functions and a door, one inside the other; the door, and the middle one."""

    def halved(x: float) -> float:
        return x / 2.0

    half = kernel.kernel(halved)

    def both(x: float, y: float) -> float:
        return max(half(x), half(y))

    larger = kernel.kernel(both)

    def summed(values: Any) -> float:
        total = 0.0
        for k in range(len(values) - 1):
            total += larger(values[k], values[k + 1]) + half(values[k])
        return total

    own = {"pipeline_class": kernel._PIPELINES[True]} if kernel._PIPELINES else {}
    return numba.njit(**kernel.OPTIONS, **own)(summed), larger


def test_what_is_linked_once_says_what_numba_says_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([1.0, 5.0, 3.0])
    assert kernel._PIPELINES, "a release of numba with which the shorter way has not been tried"
    door, _ = chain()
    monkeypatch.setattr(kernel, "_PIPELINES", {})
    usual, _ = chain()
    assert door(values) == usual(values) == 8.0


def test_an_inner_function_is_neither_linked_nor_made_machine_code_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def bodies(larger: Any) -> int:
        (made,) = larger.overloads.values()
        return sum(not each.is_declaration for each in made.library._final_module.functions)

    door, larger = chain()
    door(np.ones(3))
    monkeypatch.setattr(kernel, "_PIPELINES", {})
    usual, linked = chain()
    usual(np.ones(3))
    assert bodies(larger) == 1 <= bodies(linked)
