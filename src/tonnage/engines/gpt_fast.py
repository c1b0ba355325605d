"""gpt-fast: a compiled PyTorch model without a server."""

from __future__ import annotations

from typing import Final

from tonnage.domain.engine_spec import EngineSpec, MemoryRule
from tonnage.engines.by_need import BATCHES, defaults_by_need

ENGINE: Final = EngineSpec(
    name="gpt-fast",
    title="gpt-fast",
    aliases=("gptfast", "torchao"),  # torchao's tables of language models are of a gpt-fast (torchao/_models/llama)
    timed_as="gptfast",
    defaults=defaults_by_need,
    memory=MemoryRule(kind="need"),
    scheduling=BATCHES,
    kernels="library",
)
