"""Texts that people write about a machine become a request and a `Machine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.machine import Machine
from tonnage.errors import BadRequest, UnknownName
from tonnage.planning.own.local import CONTEXT, SPEED, LocalRequest
from tonnage.planning.own.machine import machine_named
from tonnage.units import read

__all__ = ["FIELDS", "local_request", "machine_of_fields"]

FIELDS = ("accelerator", "memory", "host_bandwidth", "context", "min_speed", "model", "every_format")
"""Fields of a question about a machine."""


def local_request(fields: Mapping[str, Any]) -> LocalRequest:
    """
    The request in named texts; absent ones take their defaults.

    Raises
    ------
    TonnageError
        An unknown field or a value that cannot be read.

    Examples
    --------
    >>> local_request({"context": "32k"}).context
    32000
    """
    for name in fields:
        if name not in FIELDS:
            raise UnknownName("field of local", name, known=FIELDS)
    context, speed = fields.get("context"), fields.get("min_speed")
    return LocalRequest(
        context=CONTEXT if context is None else int(read(context, "tokens", field="context")),
        min_per_s=SPEED if speed is None else _rate(speed),
        model=fields.get("model"),
        every_format=bool(fields.get("every_format")),
    )


def machine_of_fields(fields: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Machine:
    """
    The machine that `accelerator`, `memory` and `host_bandwidth` name.

    Raises
    ------
    TonnageError
        A name is unknown or a quantity cannot be read.
    """
    memory, bandwidth = fields.get("memory"), fields.get("host_bandwidth")
    memory_bytes = None if memory is None else read(memory, "bytes", field="memory")
    rate = None if bandwidth is None else read(bandwidth, "bytes/s", field="host-bandwidth")
    for name, value, low, high in (("memory", memory_bytes, 1e9, 1e14), ("host-bandwidth", rate, 1e9, 1e14)):
        if value is not None and not low <= value <= high:
            raise BadRequest(f"{name}: {value / 1e9:,.3g} GB is no machine's; give 1 GB to 100,000 GB")
    return machine_named(
        str(fields["accelerator"]), memory_bytes=memory_bytes, host_bytes_per_s=rate, additions=additions
    )


def _rate(text: object) -> float:
    """Tokens a second: a bare number, or with its unit."""
    bare = str(text).lower().replace("tokens/s", "").replace("tok/s", "").replace("t/s", "").replace("/s", "")
    return read(bare.strip(), "count", field="min-speed")
