"""Hugging Face Transformers: PyTorch on the vendor's libraries; what an engine that nobody described is taken for."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, FURTHER_LAUNCHES, defaults_by_need

ENGINE: Final = EngineSpec(
    name="hf",
    title="Transformers",
    aliases=("transformers",),
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need"),
    scheduling=BATCHES,
    planned=6,
    kernels="library",
    stands_for=("autogptq", "optimum"),  # they run the model's own Python, as it does
    layered=True,
    eager=FURTHER_LAUNCHES,
)
