"""The question of `tonnage calibrate`: which stack ran while measurements were taken?"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.field import Field

__all__ = ["CalibrateRequest"]


class CalibrateRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What ran. Absent = as each measurement says."""

    models: Annotated[
        tuple[str, ...],
        Field(
            name="model",
            reads="list",
            group="Model and engine",
            known="models",
            help="model that ran, as every question takes it; one for all, or one a measurement in order",
        ),
    ] = ()
    accelerator: Annotated[
        str | None,
        Field(
            group="Accelerators",
            known="names of accelerators",
            help="accelerator it ran on: id, name, or one of your own; required",
        ),
    ] = None
    engine: Annotated[
        str | None, Field(group="Model and engine", help="engine; as the measurement says without this")
    ] = None
    engine_version: Annotated[str | None, Field(group="Model and engine", help="release of the engine")] = None
    settings: Annotated[
        tuple[str, ...],
        Field(
            name="option", reads="list", group="Model and engine", help="engine setting, NAME=VALUE: max_num_seqs=16"
        ),
    ] = ()
    weights: Annotated[
        str | None,
        Field(
            group="Model and engine",
            known="formats",
            help="format of the weights, where not the checkpoint's own: fp8, int4, …",
        ),
    ] = None
    tp: Annotated[
        int | None,
        Field(reads="integer", group="Layout", help="tensor-parallel ranks of the replica that was measured"),
    ] = None
    pp: Annotated[int | None, Field(reads="integer", group="Layout", help="pipeline stages of it")] = None
    machine: Annotated[
        str | None, Field(group="Accelerators", help="name of the machine to remember; this one's without it")
    ] = None
