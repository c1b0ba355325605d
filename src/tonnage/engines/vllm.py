"""vLLM: a pool that is a share of all memory; decodes and pieces of prompts share steps since its V1 engine (0.8)."""

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
    source = "vLLM EngineArgs.get_batch_defaults"
    yield Default(
        field="memory_fraction",
        value=0.92 if at.release >= (0, 21) else 0.90,
        source="vLLM gpu_memory_utilization: 0.90 of the total up to 0.19, 0.92 since 0.21 (start logs)",
    )
    yield Default(field="block_tokens", value=16, source="vLLM CacheConfig.block_size on CUDA and ROCm")
    chunked = at.release >= (0, 8)
    length = at.engine.max_model_len or at.model.max_context or 4096
    yield Default(field="max_model_len", value=length, source="the model's own context")
    yield Default(field="chunked_prefill", value=chunked, source="vLLM: on since the V1 engine became default (0.8)")
    yield Default(field="prefix_caching", value=chunked, source="vLLM: on since the V1 engine became default (0.8)")
    yield Default(field="cuda_graphs", value=at.release >= (0, 2, 6), source="vLLM: on since 0.2.6")
    yield Default(
        field="async_scheduling",
        value=at.release >= (0, 14) and at.accelerator.segment != "cpu",
        source="vLLM: on since 0.14 (release notes), never on a processor (vllm/platforms/cpu.py)",
    )
    if not chunked:
        yield Default(field="max_num_seqs", value=256, source="vLLM SchedulerConfig up to 0.7")
        yield Default(field="max_num_batched_tokens", value=_whole_prompts(at, length), source="vLLM up to 0.7")
        return
    name = f"{at.accelerator.id} {at.accelerator.name}".lower()
    large = at.memory_gib >= 70 and ("a100" not in name or at.release < (0, 9))
    sequences = 1024 if large and at.release >= (0, 8, 3) else 256
    yield Default(field="max_num_seqs", value=sequences, source=source + ": 70 GiB and more, A100 excepted")
    tokens = (16384 if at.offline else 8192) if large else (8192 if at.offline else 2048)
    tokens = max(tokens, at.engine.max_num_seqs or 0)
    yield Default(field="max_num_batched_tokens", value=tokens, source=source + ": by memory and by usage")


def _whole_prompts(at: Starting, length: int) -> int:
    """Up to 0.7 whole prompts ran in one step, unless chunking was on; it was by itself beyond 32k of context."""
    chunked = at.engine.chunked_prefill or (length > 32768 and at.release >= (0, 5, 1))
    if chunked:
        return 2048 if at.release >= (0, 6) else 512
    return max(length, 2048 if at.release < (0, 2, 6) else 2560 if at.release < (0, 3) else 2048)


_RELEASES: Final = (
    ("2023-09", "0.2"), ("2023-12", "0.2.6"), ("2024-02", "0.3"), ("2024-04", "0.4"), ("2024-06", "0.5"),
    ("2024-09", "0.6"), ("2024-12", "0.6.5"), ("2025-01", "0.7"), ("2025-03", "0.8"), ("2025-05", "0.9"),
    ("2025-07", "0.10"), ("2025-10", "0.11"), ("2025-12", "0.12"), ("2026-01", "0.14"), ("2026-03", "0.18"),
    ("2026-04", "0.19"), ("2026-05", "0.21"), ("2026-06", "0.22"), ("2026-08", "0.27"),
)  # fmt: skip
"""Month in which releases and lines appeared; source: the project's release page."""

ENGINE: Final = EngineSpec(
    name="vllm",
    drafts=True,
    hands_over_caches=True,
    deals_images=True,
    encodes_apart=True,
    serves_adapters=True,
    quantises=("fp8",),  # docs.vllm.ai, Online Quantization: no checkpoint and no calibration data
    adapter_ranks=(1, 8, 16, 32, 64, 128, 256, 320, 512),  # vllm/config/lora.py, MaxLoRARanks
    title="vLLM",
    defaults=_defaults,
    planned=1,
    releases=_RELEASES,
    words=(("v1", (0, 8)),),  # the V1 engine before it became the default behaves like the release that made it so
    memory=MemoryRule(
        kind="total",
        windows_since=(0, 9, 2),
        torch_alone_since=(0, 8),
        graphs_since=(0, 21),
        all_reduce_held=((0, 2, 5), (0, 4)),
    ),
    # vllm/v1/core/sched/scheduler.py; up to 0.7 vllm/core/scheduler.py and its block manager's watermark.
    scheduling=Scheduling(separate_whole_prompts=True, watermark=0.01, queues_batches=True),
    one_call_since=(0, 8),
    vendors=("NVIDIA", "AMD", "Intel", "Google", "AWS"),
    # docs.vllm.ai/projects/ascend; getting_started/installation: Apple silicon.
    vendors_by_document=("Huawei", "Apple"),
    least_capability=7.0,
    bench_tool="vllm bench",
    own_settings={
        "gpu_memory_utilization": "memory_fraction",
        "block_size": "block_tokens",
        "enable_chunked_prefill": "chunked_prefill",
        "enable_prefix_caching": "prefix_caching",
    },
    own_switches={
        "no_enable_chunked_prefill": "chunked_prefill",
        "no_enable_prefix_caching": "prefix_caching",
        "no_async_scheduling": "async_scheduling",
        "enforce_eager": "cuda_graphs",
    },
)


def metrics() -> ServerMetrics:
    """What its metrics page says."""
    return ServerMetrics(
        name="vllm",
        series={
            "running": gauge("vllm:num_requests_running"),
            "waiting": gauge("vllm:num_requests_waiting"),
            # Renamed in 0.12; the older one says gpu and means the cache.
            "kv_used": gauge("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", over="mean"),
            "preemptions": counter("vllm:num_preemptions_total"),
            "prompt_tokens": counter("vllm:prompt_tokens_total"),
            "cached_tokens": counter("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
            "queried_tokens": counter("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
            "output_tokens": counter("vllm:generation_tokens_total"),
            "requests": counter("vllm:request_success_total"),
            "aborted": counter("vllm:request_success_total", where=(("finished_reason", "abort"),)),
            "flop_each": counter("vllm:estimated_flops_per_gpu_total", over="mean"),
            "read_bytes_each": counter("vllm:estimated_read_bytes_per_gpu_total", over="mean"),
            "queue_s": histogram("vllm:request_queue_time_seconds"),
            "prefill_s": histogram("vllm:request_prefill_time_seconds"),
            "ttft_s": histogram("vllm:time_to_first_token_seconds"),
            "tpot_s": histogram(
                "vllm:request_time_per_output_token_seconds",
                "vllm:inter_token_latency_seconds",
                "vllm:time_per_output_token_seconds",
            ),
            "e2e_s": histogram("vllm:e2e_request_latency_seconds"),
        },
        scaled_by="vllm:num_requests_running",
        labels=(("vllm:num_requests_running", "model_name", "model"),),
        queue_advice="vLLM states it on /metrics from 0.7 on",
        cache_advice=(
            "--kv-cache-dtype fp8, --gpu-memory-utilization 0.95, a smaller --max-model-len, or --max-num-seqs so low "
            "that nothing is computed twice"
        ),
    )
