"""
LMDeploy with its TurboMind engine: a share of free memory, prompts in steps of their own.

One forward of TurboMind runs the prompts of every request that it has admitted, in passes of the token budget, and
samples once behind the last pass (`LlamaBatch.cc`, in every version read, 2023 to 2025): first tokens leave together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, EngineSpec, MemoryRule, Scheduling, Starting


def _defaults(at: Starting) -> Iterator[Default]:
    yield Default(field="memory_fraction", value=0.80, source="LMDeploy cache_max_entry_count: of free since 0.2.1")
    sequences = 256 if at.memory_gib >= 70 else 128
    yield Default(field="max_num_seqs", value=sequences, source="LMDeploy TurbomindEngineConfig.max_batch_size")
    yield Default(field="max_num_batched_tokens", value=8192, source="LMDeploy max_prefill_token_num")
    yield Default(field="block_tokens", value=64, source="LMDeploy cache_block_seq_len")
    yield Default(field="chunked_prefill", value=True, source="LMDeploy TurboMind splits prompts")
    yield Default(field="prefix_caching", value=False, source="LMDeploy enable_prefix_caching")


ENGINE: Final = EngineSpec(
    name="lmdeploy",
    title="LMDeploy",
    defaults=_defaults,
    planned=4,
    memory=MemoryRule(kind="free"),
    scheduling=Scheduling(separate_prompts=True, queues_batches=True, answers_together=True),
    vendors=("NVIDIA",),
    vendors_by_document=("Huawei",),  # lmdeploy.readthedocs.io, get_started/ascend
    least_capability=7.0,
)
