"""ExLlamaV2: kernels of its own for its formats on consumer parts, and a cache for the whole context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, EngineSpec, MemoryRule, Starting
from tonnage.units import GiB


def exllama_defaults(at: Starting) -> Iterator[Default]:
    length = at.model.max_context or 2048
    yield Default(field="max_model_len", value=length, source="ExLlamaV2: cache of max_seq_len from the model's config")
    yield Default(field="max_num_batched_tokens", value=2048, source="ExLlamaV2 max_input_len")
    yield Default(field="max_num_seqs", value=1, source="ExLlamaV2Cache batch_size")
    yield Default(field="block_tokens", value=1, source="ExLlamaV2Cache")


ENGINE: Final = EngineSpec(
    name="exllamav2",
    title="ExLlamaV2",
    aliases=("exllama",),
    defaults=exllama_defaults,
    memory=MemoryRule(kind="need", library_bytes=0.8 * GiB, whole_context=True),
    layered=True,
    single_user=True,
    vendors=("NVIDIA", "AMD"),
    fp8_cache=False,
)
