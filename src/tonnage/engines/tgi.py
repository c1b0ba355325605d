"""Hugging Face's Text Generation Inference: a share of free memory, prompts in steps of their own."""

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
    yield Default(field="memory_fraction", value=0.95, source="TGI flash_causal_lm: keeps 5 % after warm-up")
    yield Default(field="max_num_batched_tokens", value=4096, source="TGI --max-batch-prefill-tokens up to 2.x")
    yield Default(field="max_num_seqs", value=256, source="TGI: limited by tokens; largest captured batch")
    yield Default(field="block_tokens", value=16, source="TGI BLOCK_SIZE")
    yield Default(field="chunked_prefill", value=at.release >= (3, 0), source="TGI 3.0 notes")
    yield Default(field="prefix_caching", value=at.release >= (2, 3), source="TGI 2.3 notes")


ENGINE: Final = EngineSpec(
    name="tgi",
    title="TGI",
    aliases=("text-generation-inference",),
    defaults=_defaults,
    memory=MemoryRule(kind="free"),
    scheduling=Scheduling(separate_prompts=True),
    vendors=("NVIDIA", "AMD", "Intel", "AWS"),
    vendors_by_document=("Google",),  # its documentation, installation_tpu
    least_capability=7.5,
)


def metrics() -> ServerMetrics:
    """What its metrics page says."""
    return ServerMetrics(
        name="tgi",
        series={
            "running": gauge("tgi_batch_current_size"),
            "waiting": gauge("tgi_queue_size"),
            "requests": counter("tgi_request_success", "tgi_request_success_total"),
            "aborted": counter("tgi_request_failure", "tgi_request_failure_total"),
            "queue_s": histogram("tgi_request_queue_duration"),
            "tpot_s": histogram("tgi_request_mean_time_per_token_duration"),
            "e2e_s": histogram("tgi_request_duration"),
            "prompt_length": histogram("tgi_request_input_length"),
            "output_length": histogram("tgi_request_generated_tokens"),
        },
        queue_advice="TGI states it on /metrics",
        cache_advice=(
            "--kv-cache-dtype fp8_e5m2, a higher --cuda-memory-fraction, or a smaller --max-batch-total-tokens"
        ),
        cache_unstated="TGI does not export it; --max-batch-total-tokens is its bound",
    )
