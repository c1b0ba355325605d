"""`tonnage simulate`: what people write becomes a `Simulation`; fields without an annotation hold plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

import msgspec

from tonnage.core.reading import build, read_fields
from tonnage.domain.requests.field import attributes_of, fields_of, groups_of, refuse_unknown_names
from tonnage.domain.requests.simulate import Simulation
from tonnage.errors import BadRequest, UnknownName, echo

S = TypeVar("S", bound=msgspec.Struct)


def simulation_of(fields: Mapping[str, Any]) -> Simulation:
    """
    The simulation that a file or a set of flags asks for.

    Raises
    ------
    BadRequest
        An unknown or missing field, a quantity without its unit, a value of the wrong kind.
    """
    given = dict(fields)
    if isinstance(given.get("traffic"), str):
        given["traffic"] = {"profile": given["traffic"]}
    return _build_struct(Simulation, given, "")


def _build_struct(struct: type[S], values: Mapping[str, Any], under: str) -> S:
    """A struct of the request: its groups, its plain values, and its fields as other questions read them."""
    groups = {group.name: group.of for group in groups_of(struct)}
    plain = {one.name: one.type for one in attributes_of(struct) if not one.fields and not one.groups}
    fields = {field.name for field in fields_of(struct)}
    for name in values:
        if name not in {*fields, *groups, *plain}:
            raise UnknownName("field", f"{under}{name}", known=[f"{under}{one}" for one in (*fields, *groups, *plain)])
    there = {name: value for name, value in values.items() if value is not None}
    chosen = {name: _group(groups[name], value, f"{under}{name}") for name, value in there.items() if name in groups}
    chosen |= {name: _plain(value, plain[name], f"{under}{name}") for name, value in there.items() if name in plain}
    if isinstance(there.get("model"), Mapping):
        chosen["model"] = there.pop("model")  # described in place
    given = read_fields({name: value for name, value in there.items() if name in fields}, struct, under=under)
    for attribute in attributes_of(struct):
        name = attribute.fields[0].name if attribute.fields else attribute.name
        if attribute.required and name not in given and attribute.name not in chosen:
            hint = "" if under else "; a simulation has model, accelerator and traffic"
            raise BadRequest(f"{under}{name} is missing{hint}")
    return build(struct, given, **chosen)


def _group(struct: type[msgspec.Struct], value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise BadRequest(f"{name} must hold 'name: value' lines, not '{echo(value)}'")
    return _build_struct(struct, value, f"{name}.")


def _plain(value: Any, kind: Any, name: str) -> Any:
    """A value of the attribute's own type, as JSON has it."""
    try:
        read = msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        if not isinstance(value, Mapping) and (lines := _lines_of(kind)):
            raise BadRequest(f"{name} must hold 'name: value' lines ({lines}), not '{echo(value)}'") from None
        message, _, place = str(error).partition(" - at `$")
        raise BadRequest(f"{name}{place.rstrip('`')}: {message[:1].lower()}{message[1:]}") from None
    refuse_unknown_names(value, read, path=name)
    return read


def _lines_of(kind: Any) -> str:
    """The first fields of a struct among the types that an attribute takes; empty where it takes none."""
    structs = [one for one in get_args(kind) or (kind,) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return ", ".join(structs[0].__struct_fields__[:3]) if structs else ""
