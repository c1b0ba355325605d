"""DeepSpeed-MII with FastGen: all free memory but one gigabyte, prompts split and fused into steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, EngineSpec, MemoryRule, Scheduling, Starting
from tonnage.units import GB


def _defaults(at: Starting) -> Iterator[Default]:
    yield Default(field="memory_fraction", value=1.0, source="DeepSpeed RaggedInferenceEngineConfig: all but 1 GB")
    yield Default(field="max_num_batched_tokens", value=768, source="DeepSpeed max_ragged_batch_size")
    yield Default(field="max_num_seqs", value=512, source="DeepSpeed max_ragged_sequence_count")
    yield Default(field="block_tokens", value=128, source="DeepSpeed blocked attention, kv_block_size")
    yield Default(field="chunked_prefill", value=True, source="DeepSpeed-FastGen Dynamic SplitFuse (arXiv 2401.08671)")


ENGINE: Final = EngineSpec(
    name="deepspeed-mii",
    title="DeepSpeed-MII",
    aliases=("mii",),
    defaults=_defaults,
    # RaggedInferenceEngineConfig memory_config keeps 10^9 bytes.
    memory=MemoryRule(kind="free", setting="DeepSpeed keeps 1 GB", kept_bytes=1.0 * GB),
    scheduling=Scheduling(queues_batches=True),
    vendors=("NVIDIA",),
    least_capability=8.0,
)
