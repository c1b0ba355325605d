"""Whose report is this, and what does it say in our definitions? One file a tool; a new tool is a new file.

Each module has `recognise(document)`, true for its own reports, and `read(document)`. A document is
the decoded JSON; a file of JSON lines is the list of its lines; MLPerf's summary is text. Fields are
mapped by what they mean: several tools use TPOT and ITL the other way round.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import msgspec

from tonnage.domain.measurement import Measurement
from tonnage.errors import BadFact, echo
from tonnage.foreign import check_values
from tonnage.measure.files import json_in, read_whole, refuse_heavy

_LOADGEN = b":::MLLOG "
"""Before each JSON object of MLPerf's detail log."""


def read_report(path: Path) -> Measurement:
    """
    Read the report of any tool that is known here.

    Raises
    ------
    BadFact
        Not JSON, or of no tool that is known.
    """
    document = _document(path)
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    for name in names:
        module = importlib.import_module(f"{__name__}.{name}")
        if module.recognise(document):
            try:
                found: Measurement = module.read(document)
            except (KeyError, TypeError, ArithmeticError, ValueError, IndexError, AttributeError) as error:
                raise BadFact(
                    f"'{echo(path)}' looks like a report of {name}, but cannot be read: "
                    f"{type(error).__name__} {echo(error)}"
                ) from None
            check_values(msgspec.to_builtins(found), where=f"'{echo(path)}'", lines=False)
            return found
    raise BadFact(f"'{echo(path)}' is a report of no tool known here; known: {', '.join(names)}")


def _document(path: Path) -> Any:
    """A report as modules take it: decoded JSON, the list of whole JSON lines, or the text of MLPerf's summary."""
    data = read_whole(path, what="a report")
    if data.lstrip(b"= \r\n").startswith(b"MLPerf"):
        return data.decode("utf-8", errors="replace")
    if data.startswith(_LOADGEN):
        data = data.replace(_LOADGEN, b"")
    refuse_heavy(data, path)
    found = json_in(data)
    if found is not None:
        return found
    lines = data[: data.rfind(b"\n") + 1].splitlines() or [data]
    try:
        return [msgspec.json.decode(line) for line in lines if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFact(f"'{echo(path)}' is neither JSON nor JSON lines: {error}") from None
