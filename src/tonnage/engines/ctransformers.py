"""CTransformers: the kernels of llama.cpp behind a Python library."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, defaults_by_need
from tonnage.units import GiB

ENGINE: Final = EngineSpec(
    name="ctransformers",
    title="CTransformers",
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need", library_bytes=2.2 * GiB),
    scheduling=BATCHES,
    kernels="llama.cpp",
    timed_as="llamacpp",  # its language models are ggml behind Python
    releases=(("2023-01", "1000"),),  # the llama.cpp of its last release, 0.2.27 of September 2023
)
