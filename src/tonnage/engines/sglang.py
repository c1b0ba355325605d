"""SGLang: a static reserve for activations and graphs; prompts come first, in pieces and steps of their own."""

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
from tonnage.units import GiB

RATIO: Final = 0.7
"""Share of an answer's rest that admission keeps room for at the start (new_token_ratio of ServerArgs). [-]"""
RATIO_LEAST: Final = 0.7 * 0.14
"""What that share falls to. [-]"""
RATIO_DECAY: Final = (RATIO - RATIO_LEAST) / 600
"""What it falls by in one step: from first to last in 600. [-]"""
_RANKS_RULED: Final = 8
"""Ranks up to which the engine's own rule for its reserve is taken as it stands. [ranks]"""


def _defaults(at: Starting) -> Iterator[Default]:
    chunk = at.engine.max_num_batched_tokens or _chunk(at)
    yield Default(
        field="max_num_batched_tokens", value=chunk, source="SGLang ServerArgs: chunked_prefill_size by memory"
    )
    yield Default(
        field="memory_fraction",
        # Who asks for larger chunks is taken to set the share beside it: with the reserve by chunk, 8 x H200 with
        # chunks of 32768 would queue where published runs did not.
        value=round(_share(at, min(chunk, _chunk(at))), 3),
        source="SGLang ServerArgs: mem_fraction_static = 1 - reserve for activations and graphs",
    )
    yield Default(field="block_tokens", value=1, source="SGLang page_size")
    yield Default(
        field="max_num_seqs", value=4096 if at.release >= (0, 4) else 2048, source="SGLang max_running_requests"
    )
    yield Default(field="chunked_prefill", value=True, source="SGLang: on by default")
    yield Default(field="prefix_caching", value=True, source="SGLang: radix cache on by default")
    yield Default(field="cuda_graphs", value=True, source="SGLang: on by default")
    if at.model.max_context:
        yield Default(field="max_model_len", value=at.model.max_context, source="the model's own context")


def _chunk(at: Starting) -> int:
    gib = at.accelerator.driver_memory_bytes / GiB
    if at.release < (0, 4, 9):
        return 2048 if gib < 25_000 / 1024 else 8192
    if gib >= 160:
        return 16384
    if gib < 35:
        return 2048
    return 4096 if gib < 60 and at.release >= (0, 5, 4) else 8192


def _share(at: Starting, chunk: int) -> float:
    tp, ranks = at.layout.tp * at.layout.dp, at.layout.ranks
    if at.release < (0, 4, 9):
        return 0.79 if tp >= 16 else 0.81 if tp >= 8 else 0.85 if tp >= 4 else 0.87 if tp >= 2 else 0.88
    listed = at.accelerator.driver_memory_bytes / 2**20
    gib = listed / 1024
    if at.release < (0, 5, 4):
        reserve = 2.8 + ranks / 10 if gib < 35 else 9.5 + ranks / 2 if gib < 90 else 12 + ranks / 2 if gib < 160 else 32
        return (listed - (reserve + (4 if at.layout.dp > 1 else 0)) * 1024) / listed
    graphs = _graphs(gib, tp)
    # The rule grows with ranks without end (193 GB over 72 of them). Beyond one node's ranks no deployment runs on it:
    # recipes state captured batches and the share (SGLang's large-scale EP guide), about as for one node.
    within = min(tp * at.layout.pp, _RANKS_RULED)
    reserved = 512 + max(chunk, 2048) * 1.5 + graphs * 2 + within / 8 * 1024
    if at.layout.dp > 1:
        reserved += graphs * min(at.layout.dp, _RANKS_RULED) * (4.5 if graphs > 300 else 3)
    if gib > 60:
        reserved = max(reserved, 10 * 1024)
    return (listed - reserved) / listed


def _graphs(gib: float, tp: int) -> int:
    """cuda_graph_max_bs: the largest batch captured, by memory and ranks (SGLang 0.5.4 and later)."""
    few = tp < 4
    if gib < 20:
        return 8
    if gib < 35:
        return 24 if few else 80
    if gib < 60:
        return 32 if few else 160
    return 256 if few and gib < 160 else 512


_RELEASES: Final = (
    ("2024-01", "0.1"), ("2024-07", "0.2"), ("2024-09", "0.3"), ("2024-12", "0.4"), ("2025-06", "0.4.7"),
    ("2025-07", "0.4.9"), ("2025-09", "0.5.2"), ("2025-11", "0.5.5"), ("2026-02", "0.5.8"), ("2026-04", "0.5.10"),
)  # fmt: skip
"""Month in which releases and lines appeared; source: the project's release page."""

ENGINE: Final = EngineSpec(
    name="sglang",
    drafts=True,
    own_settings={
        "context_length": "max_model_len",
        "max_running_requests": "max_num_seqs",
        "chunked_prefill_size": "max_num_batched_tokens",
        "mem_fraction_static": "memory_fraction",
        "mem_frac": "memory_fraction",
        "page_size": "block_tokens",
        "scheduler_recv_interval": "receive_interval",
        "enable_mixed_chunk": "mixed_chunk",
    },
    own_switches={"disable_radix_cache": "prefix_caching", "disable_cuda_graph": "cuda_graphs"},
    hands_over_caches=True,
    deals_images=True,
    serves_adapters=True,
    encodes_apart=True,
    quantises=("fp8",),  # docs.sglang.io, Quantization: online, of a 16-bit checkpoint
    title="SGLang",
    defaults=_defaults,
    planned=2,
    releases=_RELEASES,
    memory=MemoryRule(kind="reserve", fraction=0.88, setting="SGLang mem_fraction_static", windows_since=(0, 4, 7)),
    # sglang/srt/managers/schedule_policy.py and scheduler.py.
    scheduling=Scheduling(
        separate_prompts=True, answer_share=(RATIO, RATIO_LEAST, RATIO_DECAY), returns="least", queues_batches=True
    ),
    two_batches_since=(0, 4, 6),  # --enable-two-batch-overlap, which its large-scale EP guide (2025-05) sets
    balanced_since=(0, 4, 6),  # --enable-eplb with 32 redundant experts, of the same guide
    vendors=("NVIDIA", "AMD", "Intel", "Google"),
    vendors_by_document=("Huawei",),  # docs.sglang.io/platforms/ascend
    least_capability=7.5,
)


def metrics() -> ServerMetrics:
    """What its metrics page says."""
    return ServerMetrics(
        name="sglang",
        series={
            "running": gauge("sglang:num_running_reqs"),
            "waiting": gauge("sglang:num_queue_reqs"),
            "kv_used": gauge("sglang:token_usage", over="mean"),
            # num_retracted_reqs is a gauge of the last step, not a count of what happened.
            "preemptions": counter("sglang:num_retracted_requests_total", "sglang:num_retracted_reqs_total"),
            "prompt_tokens": counter("sglang:prompt_tokens_total"),
            "queried_tokens": counter("sglang:prompt_tokens_total"),
            "cached_tokens": counter("sglang:cached_tokens_total"),
            "cache_hit_rate": gauge("sglang:cache_hit_rate", over="mean"),
            "output_tokens": counter("sglang:generation_tokens_total"),
            "requests": counter("sglang:num_requests_total"),
            "aborted": counter("sglang:num_aborted_requests_total"),
            "queue_s": histogram("sglang:queue_time_seconds"),
            "ttft_s": histogram("sglang:time_to_first_token_seconds"),
            "tpot_s": histogram("sglang:time_per_output_token_seconds"),
            "e2e_s": histogram("sglang:e2e_request_latency_seconds"),
        },
        scaled_by="sglang:num_running_reqs",
        labels=(("sglang:num_running_reqs", "model_name", "model"),),
        turned_on="start SGLang with --enable-metrics",
        queue_advice="start SGLang with --enable-metrics",
        cache_advice=("--kv-cache-dtype fp8_e5m2, a higher --mem-fraction-static, or a smaller --max-running-requests"),
    )
