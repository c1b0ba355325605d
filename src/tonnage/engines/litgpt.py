"""LitGPT and its kin: pre-training with fused kernels under FSDP, fine-tuning scripts line by line."""

from __future__ import annotations

from typing import Final

from tonnage.domain.framework_spec import FrameworkSpec

FRAMEWORK: Final = FrameworkSpec(
    words=("litgpt", "lit-gpt"), software="eager", stem="lit", pretrains_as="fsdp", own_adapters=True, loads_whole=True
)
