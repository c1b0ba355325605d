"""llama.cpp: kernels of its own, a cache for the whole context at the start, layers spread over devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import Default, EngineSpec, MemoryRule, ServerMetrics, Starting, counter, gauge


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

_AROUND: Final = (
    "llama-server", "llama-bench", "llama-cpp-python", "llamafile", "ollama", "lm studio", "lm-studio", "lmstudio",
    "koboldcpp", "jan", "gpt4all", "ramalama",
)  # fmt: skip
"""Its own programs, and servers around its kernels (each one's README, read 2026-11-23); their versions are theirs."""

ENGINE: Final = EngineSpec(
    name="llamacpp",
    own_settings={"parallel": "max_num_seqs", "ubatch_size": "max_num_batched_tokens"},
    title="llama.cpp",
    aliases=("llama.cpp", "llama-cpp", *_AROUND),
    defaults=_defaults,
    planned=5,
    releases=_RELEASES,
    versions_from=(1000,),
    # 32-bit logits are kept for one ubatch of rows.
    memory=MemoryRule(kind="need", output_rows=512.0, whole_context=True, shared_context=True),
    kernels="llama.cpp",
    layered=True,
    single_user=True,
    # gpt-oss-20b-mxfp4.gguf has 12.1 GB: 10.1 of experts, and 1.8 billion other weights at 8.5 bits (ggml-org).
    beside_experts="gguf-q8_0",
    piped_since=(2413,),  # pull request 6017
    # Pull requests 19645 (February 2026; experts beyond four tokens: 26802, August) and 18958 (January 2026).
    batches_captured_since=(8085,),
    vectored_experts_since=(7790,),
    fused_attention_since=(6330,),  # --flash-attn auto, pull request 15434 (August 2025)
)


def metrics() -> ServerMetrics:
    """What its metrics page says."""
    return ServerMetrics(
        name="llama.cpp",
        series={
            "running": gauge("llamacpp:requests_processing"),
            "waiting": gauge("llamacpp:requests_deferred"),
            "kv_used": gauge("llamacpp:kv_cache_usage_ratio", over="mean"),
            "prompt_tokens": counter("llamacpp:prompt_tokens_total"),
            "cached_tokens": counter("llamacpp:prompt_tokens_cached_total"),
            "output_tokens": counter("llamacpp:tokens_predicted_total"),
            "prefill_total_s": counter("llamacpp:prompt_seconds_total"),
            "decode_total_s": counter("llamacpp:tokens_predicted_seconds_total"),
            "decodes": counter("llamacpp:n_decode_total"),
        },
        turned_on="start llama-server with --metrics",
        queue_advice="llama.cpp states no queueing time; `tonnage measure serve URL --sweep` measures it from outside",
        cache_advice=("a cache of fewer bits (--cache-type-k q8_0, --cache-type-v q8_0) or a smaller --parallel"),
        cache_unstated="current llama.cpp does not export it; its slots (/slots) and --ctx-size bound it",
    )
