"""TensorRT by itself: a compiled network that runs the batch it is given."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, defaults_by_need

ENGINE: Final = EngineSpec(
    name="tensorrt",
    title="TensorRT",
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need"),
    scheduling=BATCHES,
    kernels="trtllm",
    vendors=("NVIDIA",),  # TensorRT support matrix
    vision_from=7.5,  # without Volta since 10.5 (release notes of 10.3), Pascal since 10.0
)
