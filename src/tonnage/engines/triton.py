"""Triton Inference Server: the page around its back ends, TensorRT-LLM's queue among its numbers."""

from __future__ import annotations

from tonnage.domain.engine_spec import Series, ServerMetrics, counter, gauge


def _requests(kind: str) -> Series:
    return gauge("nv_trt_llm_request_metrics", where=(("request_type", kind),))


def metrics() -> ServerMetrics:
    """What its metrics page says."""
    return ServerMetrics(
        name="triton",
        series={
            # The TensorRT-LLM backend counts its own queue; plain models have the server's.
            "running": _requests("scheduled"),
            "running_limit": _requests("max"),
            "waiting": _requests("waiting"),
            "pending": gauge("nv_inference_pending_request_count"),
            "kv_used": gauge(
                "nv_trt_llm_kv_cache_block_metrics", where=(("kv_cache_block_type", "fraction"),), over="mean"
            ),
            "kv_used_blocks": gauge("nv_trt_llm_kv_cache_block_metrics", where=(("kv_cache_block_type", "used"),)),
            "kv_blocks": gauge("nv_trt_llm_kv_cache_block_metrics", where=(("kv_cache_block_type", "max"),)),
            "requests": counter("nv_inference_request_success"),
            "aborted": counter("nv_inference_request_failure"),
            "queue_total_s": counter("nv_inference_queue_duration_us", scale=1e-6),
            "e2e_total_s": counter("nv_inference_request_duration_us", scale=1e-6),
            "utilisation": gauge("nv_gpu_utilization", over="mean"),
            "power_w": gauge("nv_gpu_power_usage", over="mean"),
            "memory_used_bytes": gauge("nv_gpu_memory_used_bytes"),
            "memory_bytes": gauge("nv_gpu_memory_total_bytes"),
        },
        queue_advice="start Triton with --allow-metrics=true",
        cache_advice=("a higher kv_cache_free_gpu_mem_fraction, an FP8 cache, or enable_chunked_context"),
        around=True,
    )
