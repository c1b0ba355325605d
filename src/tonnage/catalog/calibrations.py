"""
What has the user's own stack measured? `[[calibration]]` tables of the user's files -> `Calibration`, and back.

They live where own accelerators do: a file named by --additions or TONNAGE_CATALOG, or the user folder, whence every
question takes them without being told. Of two for the same accelerator and engine the later file counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.catalog.additions import Additions, tables, user_folder
from tonnage.domain.calibration import Calibration, Stretch
from tonnage.errors import BadFact, UnknownName, echo
from tonnage.units import read

__all__ = ["calibration_toml", "calibrations", "saved_calibration"]

_FACTORS: Final = ("memory", "compute")
_TIMES: Final = {"step": "step_s", "request": "request_s"}
_TEXTS: Final = ("accelerator", "engine", "date", "machine", "engine_version")
_OTHERS: Final = ("models", "points", "spread", "factors")
_LARGEST: Final = 1e4
"""A factor beyond this is a slip of the pen."""


def calibrations(additions: Additions) -> tuple[Calibration, ...]:
    """
    Every calibration of the user's files, in order.

    Raises
    ------
    BadFact
        A field is missing, unknown, without unit or impossible.
    """
    return tuple(_from_table(given, where=where) for where, given in tables(additions, "calibration"))


def _from_table(given: Mapping[str, Any], *, where: str) -> Calibration:
    allowed = (*_FACTORS, *_TIMES, *_TEXTS, *_OTHERS)
    for field in given:
        if field not in allowed:
            raise BadFact(f"{where}: {UnknownName('field', field, known=allowed)}")
    for field in ("accelerator", "engine", *_FACTORS):
        if field not in given:
            raise BadFact(f"{where}: {field} is missing; `tonnage calibrate` writes a whole file")
    numbers = {name: _factor(given[name], name, where) for name in _FACTORS}
    for name, field in _TIMES.items():
        if name in given:
            numbers[field] = read(str(given[name]), "s", field=f"{where}: {name}")
    try:
        return Calibration(
            stretch=Stretch(**numbers),
            **{name: str(given[name]) for name in _TEXTS if name in given},
            spread={k: float(v) for k, v in given.get("spread", {}).items()},
            factors={k: max(1.0, _factor(v, f"factors.{k}", where)) for k, v in given.get("factors", {}).items()},
            models=tuple(str(name) for name in given.get("models", ())),
            points=int(given.get("points", 0)),
            source=where.rpartition(":")[0],
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise BadFact(f"{where}: {echo(error)}; `tonnage calibrate` writes a whole file") from None


def _factor(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1.0 / _LARGEST < value < _LARGEST:
        raise BadFact(f"{where}: {name} is '{echo(value)}', but a positive factor is expected")
    return float(value)


def calibration_toml(found: Calibration) -> str:
    """The calibration as a file of additions: it counts wherever --additions or the user folder brings it."""
    s = found.stretch
    lines = [
        f"# Fitted by `tonnage calibrate` on {found.date} to the user's own measurements. Factors are on the",
        "# catalogue's times of the engine; every question about this engine on this accelerator takes them.",
        "",
        "[[calibration]]",
        f"accelerator = {_quoted(found.accelerator)}",
        f"engine = {_quoted(found.engine)}",
        *([f"engine_version = {_quoted(found.engine_version)}"] if found.engine_version else []),
        f"date = {_quoted(found.date)}",
        f"machine = {_quoted(found.machine)}",
        f"models = [{', '.join(_quoted(name) for name in found.models)}]",
        f"points = {found.points}",
        f"memory = {s.memory:.5g}",
        f"compute = {s.compute:.5g}",
        f'step = "{s.step_s * 1e6:.5g} us"',
        f'request = "{s.request_s * 1e6:.5g} us"',
        *(f"spread.{name} = {value:.4g}" for name, value in found.spread.items()),
        *(f"factors.{name} = {value:.5g}" for name, value in found.factors.items()),
        "",
    ]
    return "\n".join(lines)


def saved_calibration(found: Calibration, path: Path | None = None) -> Path:
    """Writes the file, without a path into the user folder, whence every later answer takes it; where it lies."""
    path = path or user_folder() / f"calibration-{found.accelerator}-{found.engine}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(calibration_toml(found), encoding="utf-8")
    return path


def _quoted(text: str) -> str:
    return msgspec.json.encode("".join(c for c in text if c.isprintable())).decode()
