"""CTranslate2: translation and speech models on the vendor's libraries."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, defaults_by_need
from tonnage.units import GiB

ENGINE: Final = EngineSpec(
    name="ctranslate2",
    title="CTranslate2",
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need", library_bytes=2.2 * GiB),
    scheduling=BATCHES,
    kernels="library",
)
