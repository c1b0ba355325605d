"""
How are loops compiled, and where is the result kept?

Inner functions are compiled for their callers alone (`kernel`), and one door for Python (`door`): what a function
needs to be called from Python costs more to compile than the function. The door is kept beside the code for the next
start, in the user's own cache folder where an installation cannot be written to, and nowhere where neither can.
Compiling takes some seconds, once: it is said in one line (through `logging`, which shows it on stderr unless somebody
listens).
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numba.core.config
import numba.core.event
from numba import njit
from platformdirs import user_cache_path

__all__ = ["door", "kernel", "stamp_of"]

Function = TypeVar("Function", bound=Callable[..., object])

_EVENTS: Any = numba.core.event
_CONFIG: Any = numba.core.config


def _say(listener: Any, _: Any) -> None:
    """Says that something is compiled, the first time in a process."""
    _EVENTS.unregister("numba:compile", listener)
    logging.getLogger("tonnage").warning(
        "tonnage: compiling the simulator for this machine, once: about 14 s of one core"
    )


def _lighter(_: Any, event: Any) -> None:
    """Lets our own loops be optimised lightly: they gain nothing from more, which takes a quarter longer to compile."""
    _LEVELS.append(_CONFIG.OPT)
    if event.data["dispatcher"].py_func.__module__.startswith("tonnage.") and int(_CONFIG.OPT) > LEVEL:
        _CONFIG.OPT = type(_CONFIG.OPT)(LEVEL)


def _as_before(_: Any, __: Any) -> None:
    if _LEVELS:
        _CONFIG.OPT = _LEVELS.pop()


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _kept() -> bool:
    """Whether compiled code finds a place; sets the one outside the installation, unless the user named one."""
    if _CONFIG.CACHE_DIR or _writable(Path(__file__).parent / "__pycache__"):
        return True
    own = user_cache_path("tonnage") / "compiled"
    if _writable(own):
        _CONFIG.CACHE_DIR = str(own)
        return True
    return False


OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""No exceptions from divisions; nothing allocated, which a third of the compile time would go to."""

LEVEL: Final = 1
"""Of LLVM's optimisation. At 1 as at 3: 0.99 and 1.03 M chat requests a second, 106 and 107 k that preempt, 269 and
293 k with prefix blocks; the first compilation takes 14 against 19 s."""
_LEVELS: Final[list[Any]] = []
"""What the level was before each function that is being compiled, for code of others in the same process."""

# numba asks for a subclass of its own with two methods; the house has none.
# Before the other: numba passes over the next listener when one takes itself off the list.
_LIGHT: Final = type("Light", (numba.core.event.Listener,), {"on_start": _lighter, "on_end": _as_before})
_EVENTS.register("numba:compile", _LIGHT())
_ONCE: Final = type("Once", (numba.core.event.Listener,), {"on_start": _say, "on_end": lambda listener, event: None})
_EVENTS.register("numba:compile", _ONCE())


def kernel(function: Function) -> Function:
    """
    Compiles a function when a compiled caller first needs it.

    Divisions follow NumPy (no exception), sums keep their order: the plain twin agrees to the last bit.
    """
    return _compiled(function, no_cpython_wrapper=True)


def door(function: Function) -> Function:
    """Compiles a function on its first call from Python and keeps the result, with all that it calls."""
    return _compiled(function, cache=_kept())


def _compiled(function: Function, **more: bool) -> Function:
    options: Any = {**OPTIONS, **more}
    compiled: Function = njit(**options)(function)
    return compiled


def stamp_of(*sources: str | None) -> int:
    """
    A number that changes when one of the files does.

    A kept result is found by its function's own file, code and enclosed values: a door that encloses the stamp of
    all files it was compiled from is never served by what they used to say.
    """
    facts = [Path(source).stat() for source in sources if source]
    return hash(tuple((fact.st_mtime_ns, fact.st_size) for fact in facts))
