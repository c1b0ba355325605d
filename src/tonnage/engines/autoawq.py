"""AutoAWQ: Transformers with kernels for 4-bit weights."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, defaults_by_need
from tonnage.units import GiB

ENGINE: Final = EngineSpec(
    name="autoawq",
    title="AutoAWQ",
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need", library_bytes=2.0 * GiB),
    scheduling=BATCHES,
    kernels="library",
    timed_as="hf",  # its modules are fused: one product for query, key and value, one for gate and up
)
