"""
How are the simulator's loops compiled, how do they reach their arrays, and where is the result kept?

By numba, through what it documents: `njit` and `numba.extending` (docs/decisions/0014-numba.md says why). Three ideas:

- `kernel` marks a function that compiled callers call, `entry` the one that Python calls. Only an entry is kept on
  disk: it contains the code of all kernels below it, and numba looks for changes in the file of the kept function only.
  An entry therefore encloses a `stamp_of` every file that it was compiled from.
- Compiled code takes an array as seven numbers and a counter of references, raised and lowered atomically wherever the
  array is handed on. With a dozen arrays a replica that cost three to eight times the simulator's time, and twice the
  compiler's. Kernels therefore work on bare pointers, as C does: `pointer` makes one of an array, `at` is an element
  that is a record, `offset` a pointer further on. A pointer knows no length and keeps nothing alive: whoever calls the
  entry holds the arrays.
- Compiling takes some seconds, once: it is said in one line (through `logging`, which shows it on stderr unless
  somebody listens).

tests/uncompiled.py runs the loops as plain Python, with views of the arrays for pointers.
"""

from __future__ import annotations

import atexit
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from tonnage.errors import NO_SIMULATOR, BadRequest

try:
    import numba
    from numba.extending import intrinsic, overload
except ModuleNotFoundError:
    raise BadRequest(NO_SIMULATOR) from None


Function = TypeVar("Function", bound=Callable[..., object])

_NUMBA: Final[Any] = numba
"""Of which some releases say types and others do not."""
atexit.register(gc.freeze)
"""At its end Python looks for cycles among all objects, and numba's are so many that it takes 0.4 s of CPU."""
ERRORS: Final = "numpy"
"""Divisions follow NumPy and raise nothing; sums keep their order, so that the plain twin agrees to the last bit."""


def kernel(function: Function) -> Function:
    """Compiles a function when a compiled caller first needs it."""
    compiled: Function = _NUMBA.njit(error_model=ERRORS)(function)
    return compiled


def inline(function: Function) -> Function:
    """
    Copies a function into its compiled callers, before types are known.

    For a function with one caller, which numba would compile by itself and once more as a part of its caller; and for
    one that returns records, which compiled code cannot hand back.
    """
    compiled: Function = _NUMBA.njit(inline="always")(function)
    return compiled


def entry(function: Function) -> Function:
    """
    Compiles a function on its first call from Python, and keeps the result with all that it calls.

    numba looks for a place: NUMBA_CACHE_DIR, beside the code, the user's cache folder. Where none can be written to,
    every process compiles for itself.
    """
    try:
        compiled: Function = _NUMBA.njit(error_model=ERRORS, cache=True)(function)
    except RuntimeError:  # numba's word for: no place to keep it
        compiled = _NUMBA.njit(error_model=ERRORS)(function)
    return compiled


def stamp_of(*sources: str | None) -> int:
    """
    A number that changes when one of the files does.

    A kept result is found by its function's own file, code and enclosed values: an entry that encloses the stamp of
    all files it was compiled from is never served by what they used to say.
    """
    facts = [Path(source).stat() for source in sources if source]
    return hash(tuple((fact.st_mtime_ns, fact.st_size) for fact in facts))


def announce() -> None:
    """Called first in an entry: says that it is being compiled, and does nothing when it runs."""


@overload(announce)
def _announcement() -> Callable[[], None]:
    """numba asks for what `announce` means while it compiles a caller, never when it loads a kept one."""
    logging.getLogger("tonnage").warning(
        "tonnage: compiling the simulator for this machine, once: about 15 s of one core"
    )

    return lambda: None


def _typed_address(_: Any, address: Any, array: Any) -> Any:
    """An address as a pointer to elements of an array's type; numba refuses arrays that are not in C order."""
    if not isinstance(array, _NUMBA.types.Array) or array.layout != "C":
        return None

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return _NUMBA.types.CPointer(array.dtype)(address, array), code


def _address_of(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
    """The code of both `at` and `offset`: an address further on by so many elements."""
    return builder.gep(arguments[0], [arguments[1]])


def _record(_: Any, rows: Any, k: Any) -> Any:
    """numba knows a record by its address."""
    return rows.dtype(rows, _NUMBA.types.intp), _address_of


def _pointer_to(_: Any, rows: Any, k: Any) -> Any:
    return rows(rows, _NUMBA.types.intp), _address_of


_typed: Final[Any] = intrinsic(_typed_address)

at: Final[Any] = intrinsic(_record)
"""`at(rows, k)`: record k of those that a pointer points to, in place: its fields can be read and set."""

offset: Final[Any] = intrinsic(_pointer_to)
"""`offset(rows, k)`: a pointer to element k of those that a pointer points to."""


@inline
def pointer(array: Any) -> Any:
    """A pointer to the first element of an array in C order, whatever its number of dimensions."""
    return _typed(array.ctypes.data, array)
