"""MLC LLM: models compiled to kernels of their own, which start as ExLlamaV2's do."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import defaults_by_need

ENGINE: Final = EngineSpec(
    name="mlc",
    title="MLC LLM",
    aliases=("mlc-llm", "mlc_llm"),
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need"),
    timed_as="exllamav2",
    single_user=True,
)
