"""The door of `tonnage simulate`: text that people write becomes a `Simulation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage import units
from tonnage.domain.simulate import AutoScaling, Simulation, SimulationTraffic
from tonnage.domain.workload import Slo
from tonnage.errors import BadRequest, UnknownName, echo

__all__ = ["simulation_of"]

_TRAFFIC: Final = {
    "rate": ("rate_per_s", "1/s"), "think": ("think_s", "s"), "window": ("window_s", "s"),
    "on_for": ("on_s", "s"), "off_for": ("off_s", "s"), "prompt_tokens": ("prompt_tokens", "tokens"),
    "output_tokens": ("output_tokens", "tokens"),
    "cached_share": ("cached_share", "fraction"), "requests": ("num_requests", "count"),
    "concurrency": ("concurrency", "count"),
}  # fmt: skip
"""Fields that are quantities: what people write, the noun's field, what it measures. YAML reads a bare on as true."""
_SLO: Final = {"ttft": ("ttft_s", "s"), "tpot": ("tpot_s", "s"), "e2e": ("e2e_s", "s")}
_SCALING: Final = {"cold_start": ("cold_start_s", "s"), "every": ("every_s", "s"), "keep": ("keep_s", "s")}
_WHOLE: Final = ("num_requests", "concurrency")


def simulation_of(fields: Mapping[str, Any]) -> Simulation:
    """
    The simulation that a file or a set of flags asks for.

    Raises
    ------
    BadRequest
        An unknown or missing field, a quantity without its unit, a value of the wrong kind.
    """
    known = set(Simulation.__struct_fields__)
    for name in fields:
        if name not in known:
            raise UnknownName("field", str(name), known=known)
    for name in ("model", "accelerator", "traffic"):
        if name not in fields:
            raise BadRequest(f"{name} is missing; a simulation has model, accelerator and traffic")
    given = dict(fields)
    given["traffic"] = _struct(given["traffic"], "traffic", quantities=_TRAFFIC, kind=SimulationTraffic)
    if given.get("slo") is not None:
        given["slo"] = _struct(given["slo"], "slo", quantities=_SLO, kind=Slo)
    if given.get("scaling") is not None:
        given["scaling"] = _struct(given["scaling"], "scaling", quantities=_SCALING, kind=AutoScaling)
    try:
        return msgspec.convert(given, Simulation, strict=True)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        raise BadRequest(f"{place.rstrip('`') or 'simulation'}: {message[:1].lower()}{message[1:]}") from None


def _struct(given: Any, name: str, *, quantities: Mapping[str, tuple[str, str]], kind: type[msgspec.Struct]) -> Any:
    """A mapping with its quantities read in their units, as the noun's fields."""
    if isinstance(given, str) and name == "traffic":
        given = {"profile": given}
    if not isinstance(given, Mapping):
        raise BadRequest(f"{name} must hold 'name: value' lines, not '{echo(given)}'")
    plain = set(kind.__struct_fields__) - {field for field, _ in quantities.values()}
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key in quantities:
            field, dimension = quantities[key]
            number = units.read(value, dimension, field=f"{name}.{key}")
            if number < 0:
                raise BadRequest(f"{name}.{key}: '{echo(value)}' is negative")
            found[field] = _whole(number, f"{name}.{key}") if field in _WHOLE else number
        elif key in plain:
            found[key] = value
        else:
            raise UnknownName("field", f"{name}.{key}", known=[f"{name}.{field}" for field in (*plain, *quantities)])
    return found


def _whole(number: float, name: str) -> int:
    if number != int(number) or number < 1:
        raise BadRequest(f"{name}: {number:g} is no whole number of at least 1")
    return int(number)
