"""MLX (mlx_lm): Apple's arrays and kernels, one request at a time, prompts in pieces, memory by need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, EngineSpec, MemoryRule, Starting

USUAL_CONTEXT: Final = 4096


def _defaults(at: Starting) -> Iterator[Default]:
    yield Default(field="max_num_batched_tokens", value=2048, source="mlx_lm: prefill_step_size 2048")
    yield Default(field="max_num_seqs", value=at.engine.max_num_seqs or 1, source="mlx_lm.generate: one prompt")
    yield Default(field="block_tokens", value=256, source="mlx_lm models/cache.py: KVCache grows in steps of 256")
    yield Default(field="chunked_prefill", value=True, source="mlx_lm generate.py: a prompt is cut into steps")
    length = min(USUAL_CONTEXT, at.model.max_context or USUAL_CONTEXT)
    yield Default(field="max_model_len", value=length, source="no limit of its own: taken as llama.cpp's")


ENGINE: Final = EngineSpec(
    name="mlx",
    title="MLX",
    aliases=("mlx-lm", "mlx_lm"),
    defaults=_defaults,
    memory=MemoryRule(kind="need"),
    vendors=("Apple",),
    vendors_by_document=("NVIDIA",),  # its documentation, install: CUDA backend
    single_user=True,
    fused_attention_since=(0,),  # mx.fast.scaled_dot_product_attention
)
