"""llama.cpp: kernels of its own, a cache for the whole context at the start, layers spread over devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.nouns.engine_spec import Default, EngineSpec, MemoryRule, Starting

__all__ = ["ENGINE"]


def _defaults(at: Starting) -> Iterator[Default]:
    yield Default(field="max_num_batched_tokens", value=512, source="llama.cpp n_ubatch")
    yield Default(field="max_num_seqs", value=at.engine.max_num_seqs or 1, source="llama.cpp n_parallel")
    yield Default(field="block_tokens", value=1, source="llama.cpp: one cell per token")
    yield Default(field="chunked_prefill", value=True, source="llama.cpp splits prompts into ubatches")
    whole = 4096 if at.release >= (4000,) else 512
    length = min(whole, at.model.max_context or whole)
    yield Default(field="max_model_len", value=length, source="llama.cpp n_ctx: 512, 4096 since late 2024")


_RELEASES: Final = (
    ("2023-08", "1000"), ("2024-03", "2413"), ("2024-06", "3100"), ("2024-11", "4000"), ("2025-06", "5600"),
)  # fmt: skip
"""Month in which builds appeared; source: the project's release page."""

ENGINE: Final = EngineSpec(
    name="llamacpp",
    title="llama.cpp",
    aliases=("llama.cpp", "llama-cpp"),
    defaults=_defaults,
    planned=5,
    releases=_RELEASES,
    # 32-bit logits are kept for one ubatch of rows.
    memory=MemoryRule(kind="need", output_rows=512.0, whole_context=True, shared_context=True),
    kernels="llama.cpp",
    layered=True,
    piped_since=(2413,),  # pull request 6017
)
