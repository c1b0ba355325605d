"""Our own loops are optimised lightly, and nobody else's are."""

from typing import Any

import numba
import numba.core.event

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
