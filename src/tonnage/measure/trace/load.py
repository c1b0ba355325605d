"""
Which module does the user mean, and on what inputs does it run? The user's own code, by the name they give.

"module:callable" is imported from the folder the user stands in or from what is installed; "path/to/file.py:callable"
is that file. The callable returns a module, or a module and its example inputs. Nothing else is ever executed.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any, Final

from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.record import Record

DTYPES: Final = {
    "float32": "float32", "fp32": "float32", "float16": "float16", "fp16": "float16", "bfloat16": "bfloat16",
    "bf16": "bfloat16", "float64": "float64", "fp64": "float64", "int64": "int64", "int32": "int32", "bool": "bool",
    "uint8": "uint8", "int8": "int8",
}  # fmt: skip
"""Formats of an example input, as people write them, and PyTorch's names."""

_SHAPE: Final = re.compile(r"\d+(x\d+)*")


class InputSpec(Record, kw_only=True):
    """One example input as text: "1x3x224x224", "ids=1x128:int64"."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    name: str = ""
    """Keyword of the argument; empty = by position."""


class Given(Record, kw_only=True):
    """What a factory returned."""

    module: Any
    inputs: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}


def parse_input(text: str) -> InputSpec:
    """
    An example input from its text.

    Raises
    ------
    BadRequest
        No shape, a size of zero, or an unknown format.
    """
    name, equals, rest = text.rpartition("=")
    shape, _, dtype = rest.strip().partition(":")
    if not _SHAPE.fullmatch(shape.strip()) or (equals and not name.strip().isidentifier()):
        raise BadRequest(
            f"--input '{echo(text)}' is no shape; write sizes joined by x: '1x3x224x224', 'ids=1x128:int64'"
        )
    sizes = tuple(int(size) for size in shape.strip().split("x"))
    if min(sizes) < 1 or max(sizes) > 1 << 31:
        raise BadRequest(f"--input '{echo(text)}': every size must be from 1 to 2147483648")
    wanted = dtype.strip().lower() or "float32"
    if wanted not in DTYPES:
        raise UnknownName("input format", wanted, known=DTYPES)
    return InputSpec(shape=sizes, dtype=DTYPES[wanted], name=name.strip())


def load(target: str) -> Any:
    """
    The callable that a target names.

    Raises
    ------
    BadRequest
        The target is written wrongly, or there is no such module or callable.
    """
    where, colon, name = target.rpartition(":")
    if not colon or not where.strip() or not name.strip():
        raise BadRequest(
            f"'{echo(target)}' names no callable; write module:callable, such as my_models:make_net or net.py:make_net"
        )
    module = _from_file(where) if where.endswith(".py") else _import_target(where, target)
    try:
        found = module
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        public = [own for own in vars(module) if not own.startswith("_") and callable(vars(module)[own])]
        raise UnknownName(f"callable in {echo(where)}", name, known=public) from None
    if not callable(found):
        raise BadRequest(f"'{echo(target)}' is a {type(found).__name__}; it must be a class or function that is called")
    return found


def _import_target(where: str, target: str) -> Any:
    """The module of that name, from the user's folder or from what is installed; what fails is one sentence."""
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as missing:
        if missing.name is not None and where.split(".", maxsplit=1)[0] != missing.name.split(".", maxsplit=1)[0]:
            raise BadRequest(f"'{echo(where)}' imports '{echo(missing.name)}', which is not installed") from None
        raise BadRequest(
            f"no module '{echo(where)}' here or installed, asked for by '{echo(target)}'; a file is net.py:make_net"
        ) from None
    except Exception as problem:
        raise BadRequest(f"'{echo(where)}' cannot be imported: {type(problem).__name__}: {echo(problem)}") from problem
    finally:
        if added:
            sys.path.remove(here)


def _from_file(where: str) -> Any:
    """The module in a file, run once with its own folder importable."""
    path = Path(where).expanduser()
    if not path.is_file():
        raise BadRequest(f"'{echo(where)}': no such file; name one as path/to/net.py:make_net")
    spec = importlib.util.spec_from_file_location(f"traced_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickled classes look their module up
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise BadRequest(f"'{echo(where)}' cannot be imported: {type(problem).__name__}: {echo(problem)}") from problem
    finally:
        sys.path.remove(folder)
    return module
