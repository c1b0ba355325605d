"""FasterTransformer: TensorRT-LLM's forerunner, which allocates each buffer apart."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, defaults_by_need
from tonnage.units import GiB

ENGINE: Final = EngineSpec(
    name="fastertransformer",
    title="FasterTransformer",
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need", library_bytes=2.1 * GiB, activation_buffers=2.0),
    scheduling=BATCHES,
    kernels="library",
)
