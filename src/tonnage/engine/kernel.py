"""
How are loops compiled, and where is the result kept?

Inner functions are compiled for their callers alone (`kernel`), and one door for Python (`door`): what a function
needs to be called from Python costs more to compile than the function. numba would optimise each function and make
machine code of it by itself, and once more inside each of its callers; `_pipelines` leaves both to the door, which
does them once, with the same result in two thirds of the time. The door is kept beside the code for the next
start, in the user's own cache folder where an installation cannot be written to, and nowhere where neither can.
Compiling takes some seconds, once: it is said in one line (through `logging`, which shows it on stderr unless somebody
listens).
"""

from __future__ import annotations

import logging
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
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
        "tonnage: compiling the simulator for this machine, once: about 9 s of one core"
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


TRIED_WITH: Final = ((0, 60), (0, 68))
"""First and last release of numba whose inner workings `_pipelines` has been tried with; others compile as they do."""


def _linked_once(library: Any, inner: weakref.WeakSet[Any]) -> None:
    """Finishes a door: everything that it calls, and that these call, is linked into it once."""
    parts: dict[Any, None] = {}
    ahead = list(library._linking_libraries)
    while ahead:
        part = ahead.pop()
        if part not in parts:
            parts[part] = None
            ahead += part._linking_libraries if part in inner else []
    library._linking_libraries[:] = parts
    type(library).finalize(library)


def _pipelines() -> dict[bool, Any]:
    """numba's pipeline for a door (True) and for an inner function, each with a lowering of its own."""
    from numba.core import compiler, compiler_machinery, cpu, typed_passes

    steps: Any = compiler
    machine: Any = cpu
    usual: Any = typed_passes.NativeLowering
    register: Any = compiler_machinery.register_pass
    inner: weakref.WeakSet[Any] = weakref.WeakSet()

    def lower_inner(self: Any, state: Any) -> bool:
        """To LLVM's language, not further: no optimisation, no machine code, nothing to call from Python."""
        library = state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library.finalize = lambda: setattr(library, "_finalized", True)
        inner.add(library)
        state.flags.no_compile = True
        done: bool = usual.run_pass(self, state)
        said = state["cr"]
        name = said.fndesc.qualname.split(".")[-1]
        # What numba would call from Python; it also is the name under which callers find the function.
        entry = machine._dynfunc.make_function(said.fndesc.lookup_module(), name, "", 0, said.env, (library,))
        state.targetctx.insert_user_function(entry, said.fndesc, [library])
        state["cr"] = steps._LowerResult(said.fndesc, said.call_helper, cfunc=entry, env=said.env)
        return done

    def lower_door(self: Any, state: Any) -> bool:
        library = state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        library.enable_object_caching()
        library.finalize = lambda: _linked_once(library, inner)
        return bool(usual.run_pass(self, state))

    def pipeline(name: str, run: Callable[[Any, Any], bool]) -> Any:
        own = register(mutates_CFG=True, analysis_only=False)(type(name, (usual,), {"_name": name, "run_pass": run}))

        def define(self: Any) -> list[Any]:
            passes = steps.DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.passes = [(own if each is usual else each, said) for each, said in passes.passes]
            passes.finalize()
            return [passes]

        return type(name, (steps.CompilerBase,), {"define_pipelines": define})

    return {False: pipeline("lower_inner", lower_inner), True: pipeline("lower_door", lower_door)}


_TRIED: Final = TRIED_WITH[0] <= numba.version_info[:2] <= TRIED_WITH[1]
_PIPELINES: Final[dict[bool, Any]] = _pipelines() if _TRIED else {}


def kernel(function: Function) -> Function:
    """
    Compiles a function when a compiled caller first needs it.

    Divisions follow NumPy (no exception), sums keep their order: the plain twin agrees to the last bit.
    """
    return _compiled(function, as_door=False, no_cpython_wrapper=True)


def door(function: Function) -> Function:
    """Compiles a function on its first call from Python and keeps the result, with all that it calls."""
    return _compiled(function, as_door=True, cache=_kept())


def _compiled(function: Function, *, as_door: bool, **more: bool) -> Function:
    options: Any = {**OPTIONS, **more}
    if as_door in _PIPELINES:
        options["pipeline_class"] = _PIPELINES[as_door]
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
