"""Which stack was measured? The question of `tonnage calibrate`, and how its fields are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.core.reading import build, read_fields
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.measurement import Measurement
from tonnage.domain.precision import Precision
from tonnage.domain.requests.field import accelerator_field, engine_field, layout_field
from tonnage.engines.registry import engine_spec, engines, find_engine, unlisted_engine
from tonnage.errors import BadRequest, echo
from tonnage.record import SparseRecord

if TYPE_CHECKING:
    from tonnage.questions.calibrate.loads import Stack


class CalibrateRequest(SparseRecord, kw_only=True):
    """What ran. Absent = as each measurement says."""

    models: Annotated[
        tuple[str, ...],
        engine_field(
            "model that ran, as every question takes it; one for all, or one a measurement in order",
            name="model",
            known="models",
        ),
    ] = ()
    accelerator: Annotated[
        str | None,
        accelerator_field(
            "accelerator it ran on: id, name, or one of your own; required", known="names of accelerators"
        ),
    ] = None
    engine: Annotated[str | None, engine_field("engine; as the measurement says without this")] = None
    engine_version: Annotated[str | None, engine_field("release of the engine")] = None
    settings: Annotated[
        tuple[str, ...], engine_field("engine setting, NAME=VALUE: max_num_seqs=16", name="option")
    ] = ()
    weights: Annotated[
        str | None, engine_field("format of the weights, where not the checkpoint's own: fp8, int4, …", known="formats")
    ] = None
    tp: Annotated[int | None, layout_field("tensor-parallel ranks of the replica that was measured")] = None
    pp: Annotated[int | None, layout_field("pipeline stages of it")] = None
    machine: Annotated[str | None, accelerator_field("name of the machine to remember; this one's without it")] = None


def calibrate_request(values: Mapping[str, Any], *, additions: Additions = NOTHING) -> CalibrateRequest:
    """
    What ran, from named texts.

    Raises
    ------
    TonnageError
        An unknown field or name, or a value of the wrong kind.
    """
    from tonnage.catalog.hub.resolve import resolve  # every list of fields loads this module

    asked = build(CalibrateRequest, read_fields(values, CalibrateRequest), additions=additions)
    for model in asked.models:
        resolve(model, additions=additions)
    if asked.accelerator is not None:
        catalog.predictable_accelerator(asked.accelerator, additions)
    return asked


def stacks_of(found: Sequence[Measurement], asked: CalibrateRequest) -> list[Stack]:
    """
    What ran in each measurement; `model` is one name for all, or one a measurement in order.

    Raises
    ------
    BadRequest
        A setting or the engine is unknown, or a field is neither given nor said by the measurement.
    """
    from tonnage.questions.calibrate.loads import Stack  # numpy, which listing questions goes without

    check_engine(asked)
    models = asked.models or tuple(one.model or "" for one in found)
    models = models * len(found) if len(models) == 1 else models
    if len(models) != len(found):
        raise BadRequest(f"model: {len(models)} given for {len(found)} measurements; give one, or one for each")
    settings = dict(map(read_setting, asked.settings))
    return [
        Stack(
            model=model or _missing("model", "which model ran"),
            accelerator=asked.accelerator or _missing("accelerator", "what it ran on"),
            engine=asked.engine or _engine(measurement),
            engine_version=asked.engine_version,
            options=settings,
            precision=Precision(weights=asked.weights) if asked.weights else None,
            layout=Layout(tp=asked.tp or 1, pp=asked.pp or 1),
        )
        for measurement, model in zip(found, models, strict=True)
    ]


def check_engine(asked: CalibrateRequest) -> None:
    """
    Nothing, where the engine that a server is said to run is known: another would be taken for one that nobody named.

    Raises
    ------
    UnknownName
        It is not.
    """
    if asked.engine is not None and asked.engine.strip().lower() not in unlisted_engine().stands_for:
        engine_spec(asked.engine)


def read_setting(text: str) -> tuple[str, Any]:
    """
    An engine setting from NAME=VALUE; the value becomes a truth value, a whole number, a number, or stays a text.

    Raises
    ------
    BadRequest
        There is no "=", or no setting of that name.
    """
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
    """As the server named itself while it was measured, else the engine whose own tool measured it, else refused."""
    named = [point.server.engine for point in measurement.points if point.server is not None]
    if named:
        spec = find_engine(str(named[0]))
        return spec.name if spec is not None else str(named[0])
    own = [spec.name for spec in engines().values() if spec.bench_tool == measurement.tool]
    return own[0] if own else _missing("engine", "which engine ran")
