"""TensorRT-LLM: a share of free memory; admission takes the cache of whole answers, batches run in flight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.domain.engine_spec import (
    Default,
    EngineSpec,
    MemoryRule,
    Scheduling,
    ServerMetrics,
    Starting,
    counter,
    gauge,
    histogram,
)


def _defaults(at: Starting) -> Iterator[Default]:
    yield Default(
        field="memory_fraction", value=0.90, source="TensorRT-LLM KvCacheConfig.free_gpu_memory_fraction, of free"
    )
    sequences = 2048 if at.release >= (0, 11) else 256
    yield Default(field="max_num_seqs", value=sequences, source="TensorRT-LLM max_batch_size: 256, 2048 since 0.11")
    yield Default(field="max_num_batched_tokens", value=8192, source="TensorRT-LLM max_num_tokens")
    tokens = 32 if at.release >= (0, 16) else 64 if at.release >= (0, 8) else 128
    yield Default(field="block_tokens", value=tokens, source="TensorRT-LLM tokens_per_block")
    chunked = at.release >= (1, 2)
    yield Default(
        field="chunked_prefill", value=chunked, source="TensorRT-LLM enable_chunked_prefill: off unless asked for"
    )
    yield Default(field="prefix_caching", value=at.release >= (0, 18), source="TensorRT-LLM enable_block_reuse")
    yield Default(field="cuda_graphs", value=at.release >= (1, 0), source="TensorRT-LLM PyTorch backend: on since 1.0")
    if at.model.max_context:
        yield Default(field="max_model_len", value=at.model.max_context, source="the model's own context")


_RELEASES: Final = (
    ("2023-10", "0.5"), ("2024-07", "0.11"), ("2024-12", "0.16"), ("2025-03", "0.18"), ("2025-09", "1.0"),
    ("2025-10", "1.1"), ("2025-12", "1.2"),
)  # fmt: skip
"""Month in which releases and lines appeared; source: the project's release page."""

ENGINE: Final = EngineSpec(
    name="trtllm",
    own_settings={
        "max_batch_size": "max_num_seqs",
        "max_num_tokens": "max_num_batched_tokens",
        "max_seq_len": "max_model_len",
        "kv_cache_free_gpu_memory_fraction": "memory_fraction",
        "free_gpu_memory_fraction": "memory_fraction",
        "tokens_per_block": "block_tokens",
        "enable_block_reuse": "prefix_caching",
        "enable_chunked_prefill": "chunked_prefill",
        "batch_wait_timeout_iters": "batch_wait_steps",
    },
    hands_over_caches=True,
    title="TensorRT-LLM",
    aliases=("tensorrt-llm", "tensorrt_llm"),
    defaults=_defaults,
    planned=3,
    releases=_RELEASES,
    versions_below=(5,),  # audited runs print TensorRT's own version
    memory=MemoryRule(kind="free", windows_since=(0, 8)),
    # CapacitySchedulerPolicy GUARANTEED_NO_EVICT; an offline run of its own is trtllm-bench.
    scheduling=Scheduling(reserves_output=True, mixes_whole_prompts=True, queues_batches=True, runs_alone=True),
    vendors=("NVIDIA",),
    least_capability=8.0,
)


def metrics() -> ServerMetrics:
    """
    What the page of `trtllm-serve` says, at /prometheus/metrics where `return_perf_metrics` is on.

    Source: NVIDIA's Dynamo documentation, "TensorRT-LLM Prometheus Metrics", and examples/serve/prometheus_metrics.py.
    """
    return ServerMetrics(
        name="trtllm",
        series={
            "kv_used": gauge("trtllm_kv_cache_utilization", over="mean"),
            "queried_tokens": counter("trtllm_prompt_tokens_total"),
            "cached_tokens": counter("trtllm_prompt_cached_tokens_total"),
            "requests": counter("trtllm_request_success_total"),
            "queue_s": histogram("trtllm_request_queue_time_seconds"),
            "ttft_s": histogram("trtllm_time_to_first_token_seconds"),
            "tpot_s": histogram("trtllm_time_per_output_token_seconds"),
            "e2e_s": histogram("trtllm_e2e_request_latency_seconds"),
        },
        turned_on="return_perf_metrics: true in the options file, and metrics_path: /prometheus/metrics to scrape it",
        queue_advice="return_perf_metrics: true in trtllm-serve's options file, then /prometheus/metrics",
        cache_advice="a higher kv_cache_config.free_gpu_memory_fraction, or an FP8 cache (kv_cache_config.dtype: fp8)",
    )
