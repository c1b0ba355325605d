"""ExLlamaV3: as ExLlamaV2, for NVIDIA alone."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.exllamav2 import exllama_defaults
from tonnage.units import GiB

ENGINE: Final = EngineSpec(
    name="exllamav3",
    title="ExLlamaV3",
    defaults=exllama_defaults,
    memory=MemoryRule(kind="need", library_bytes=0.8 * GiB, whole_context=True),
    layered=True,
    single_user=True,
    vendors=("NVIDIA",),
    fp8_cache=False,
)
