"""The question of `tonnage local`: which models run on a machine, in which format, how fast?"""

from __future__ import annotations

from typing import Annotated

from tonnage.domain.requests.field import MAY_BE_NOTHING, Field, accelerator_field
from tonnage.record import SparseRecord


class LocalRequest(SparseRecord, kw_only=True):
    """What is asked about a machine."""

    accelerator: Annotated[
        str | None,
        accelerator_field(
            'a machine: "RTX 4090", "M4 Max 64GB", "2 x RTX 3090", "Ryzen AI Max 395", "CPU"', short="-a"
        ),
    ] = None
    """The machine; absent = the one that this runs on."""
    memory_bytes: Annotated[
        float | None,
        accelerator_field("of the host, or the one that both share", "bytes", name="memory", low=1e9, high=1e14),
    ] = None
    host_bytes_per_s: Annotated[
        float | None, accelerator_field("of host memory", "bytes/s", name="host_bandwidth", low=1e9, high=1e14)
    ] = None
    context: Annotated[
        int, Field("prompt and output of one request: 32k; 8192 unless said", "tokens", low=255, high=10_000_000)
    ] = 8192
    """[tokens]"""
    min_per_s: Annotated[
        float,
        Field(
            "output wanted of one request, in tokens/s; 10 unless said", name="min_speed", low=MAY_BE_NOTHING, high=1e5
        ),
    ] = 10.0
    """By default what keeps ahead of a reader. [tokens/s]"""
    model: Annotated[str | None, Field("a model, or a word that names hold")] = None
    """The model that is named; a word that names none: models whose name holds it."""
    exact: bool = False
    """`model` is a name, whatever it looks like."""
    every_format: Annotated[bool, Field("every format of every model")] = False
