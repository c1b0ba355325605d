"""PyTorch by itself: the model's own Python."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, FURTHER_LAUNCHES, defaults_by_need

ENGINE: Final = EngineSpec(
    name="pytorch",
    title="PyTorch",
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need"),
    scheduling=BATCHES,
    kernels="library",
    timed_as="hf",
    eager=FURTHER_LAUNCHES,
    network_mode="eager",
    network_mode_before=(2023, "1"),  # 2.0, with attention that keeps no scores, came out in March 2023
)
