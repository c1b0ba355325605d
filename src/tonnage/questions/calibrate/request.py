"""The question of `tonnage calibrate`: which stack ran while measurements were taken?"""

from __future__ import annotations

from typing import Annotated

from tonnage.domain.requests.field import accelerator_field, engine_field, layout_field
from tonnage.record import SparseRecord


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
