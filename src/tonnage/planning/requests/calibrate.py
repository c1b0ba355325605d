"""Which stack was measured? Fields as the command line and Python give them -> a stack for each measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from tonnage.domain.layout import Engine, Layout
from tonnage.domain.measurement import Measurement
from tonnage.domain.precision import Precision
from tonnage.engines.registry import engines, find_engine
from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.planning.calibrate.loads import Stack

__all__ = ["FIELDS", "read_setting", "stacks_of"]

FIELDS: Final = ("model", "accelerator", "engine", "engine_version", "options", "weights", "tp", "pp")


def stacks_of(found: Sequence[Measurement], fields: Mapping[str, Any]) -> list[Stack]:
    """
    What ran in each measurement; `model` is one name for all, or one a measurement in order.

    Raises
    ------
    BadRequest
        A field is unknown, or neither given nor said by the measurement.
    """
    for name in fields:
        if name not in FIELDS:
            raise UnknownName("field", name, known=FIELDS)
    given = fields.get("model") or ()
    models = (given,) if isinstance(given, str) else tuple(given) or tuple(one.model or "" for one in found)
    models = models * len(found) if len(models) == 1 else models
    if len(models) != len(found):
        raise BadRequest(f"model: {len(models)} given for {len(found)} measurements; give one, or one for each")
    weights, options = fields.get("weights"), fields.get("options") or {}
    settings = dict(read_setting(f"{name}={value}") for name, value in dict(options).items())
    return [
        Stack(
            model=model or _missing("model", "which model ran"),
            accelerator=fields.get("accelerator") or _missing("accelerator", "what it ran on"),
            engine=fields.get("engine") or _engine(measurement),
            engine_version=fields.get("engine_version"),
            options=settings,
            precision=Precision(weights=weights) if weights else None,
            layout=Layout(tp=fields.get("tp") or 1, pp=fields.get("pp") or 1),
        )
        for measurement, model in zip(found, models, strict=True)
    ]


def read_setting(text: str) -> tuple[str, Any]:
    """An engine setting from NAME=VALUE."""
    name, separator, value = text.partition("=")
    known = sorted(set(Engine.__struct_fields__) - {"name", "version"})
    if not separator or name not in known:
        raise BadRequest(f"--option '{echo(text)}': write NAME=VALUE with a name of {', '.join(known)}")
    plain = {"true": True, "false": False}.get(value.lower())
    if plain is not None:
        return name, plain
    try:
        return name, float(value) if "." in value else int(value)
    except ValueError:
        return name, value


def _missing(name: str, what: str) -> NoReturn:
    raise BadRequest(f"{name}: the measurement does not say {what}; give it (--{name})")


def _engine(measurement: Measurement) -> str:
    """As the server named itself while it was measured."""
    named = [point.server.engine for point in measurement.points if point.server is not None]
    if named:
        spec = find_engine(str(named[0]))
        return spec.name if spec is not None else str(named[0])
    own = [spec.name for spec in engines().values() if spec.bench_tool == measurement.tool]
    return own[0] if own else _missing("engine", "which engine ran")
