"""The question of `tonnage fit`: what must be resident, and does it fit?"""

from __future__ import annotations

from typing import Annotated, Literal

from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.common import ModelName
from tonnage.domain.requests.field import (
    Field,
    accelerator_field,
    engine_field,
    layout_field,
    search_field,
    training_field,
)
from tonnage.record import SparseRecord

Goal = Literal["serve", "train", "finetune"]
Solve = Literal["context", "concurrency", "batch", "seq-len", "model"]


class FitRequest(SparseRecord, kw_only=True):
    """What is asked. Absent = chosen, and said so in the answer."""

    model: ModelName = ""
    goal: Annotated[
        Goal,
        Field("memory for serving (the default)", "flag", name="serve"),
        Field("memory for training from scratch", "flag", name="train"),
    ] = "serve"
    accelerators: Annotated[
        tuple[str, ...],
        accelerator_field(
            "accelerators to try; none = all usual ones, smallest first",
            name="accelerator",
            short="-a",
            known="names of accelerators",
        ),
    ] = ()
    """Empty = all of the usual segments, each with the smallest count that holds it."""
    context: Annotated[int | None, Field("prompt and output of one request: 8192, 128k", "tokens", high=1e9)] = None
    """Prompt and output of one request. [tokens]"""
    concurrency: Annotated[int | None, Field("requests resident at once", high=1e7)] = None
    batch: Annotated[
        int | None,
        Field(
            "training: sequences per accelerator and step; networks of images or audio: samples of a batch", high=1e6
        ),
    ] = None
    """Sequences or samples per accelerator and step (training); samples of a batch through a network."""
    seq_len: Annotated[int | None, Field("training: tokens of one sequence", "tokens", high=1e9)] = None
    resolution: Annotated[int | None, Field("images: pixels of a side", high=65536)] = None
    """Of images. [pixels of a side]"""
    precision: Annotated[
        str | None, engine_field("weights: bf16, fp8, int8, awq, nvfp4, gguf-q4_k_m, exl2-4.65bpw …", known="formats")
    ] = None
    kv: Annotated[
        str | None,
        engine_field(
            "KV cache: bf16, fp8, int8, int4",
            choices=("fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "gguf-q8_0", "gguf-q4_0"),
        ),
    ] = None
    """Formats an engine keeps a cache in."""
    tp: Annotated[int | None, layout_field("tensor-parallel ranks", high=1024)] = None
    pp: Annotated[int | None, layout_field("pipeline stages", high=1024)] = None
    dp: Annotated[
        int | None, layout_field("data-parallel attention (serving) or data-parallel ranks", high=100_000)
    ] = None
    ep: Annotated[int | None, layout_field("expert-parallel ranks", high=1024)] = None
    count: Annotated[int | None, layout_field("training: accelerators of the job", high=100_000)] = None
    """Accelerators of a training job."""
    engine: Annotated[
        str, engine_field("vllm, sglang, trtllm, lmdeploy, llamacpp, hf, exllamav2 …", known="engines")
    ] = SERVING_ENGINE
    engine_version: Annotated[str | None, engine_field("release or month: 0.19.0, 2025-07")] = None
    method: Annotated[
        str,
        Field(
            "memory for fine-tuning: full, lora, qlora, dora",
            name="finetune",
            choices=("full", "lora", "qlora", "dora"),
        ),
    ] = "full"
    """Of fine-tuning: full, lora, qlora, dora."""
    optimizer: Annotated[
        str, training_field("training: adamw, adamw-8bit, adafactor, lion, muon, sgd …", known="optimizers")
    ] = "adamw"
    recompute: Annotated[
        str | None, training_field("training: activation checkpointing", choices=("none", "selective", "full"))
    ] = None
    sharding: Annotated[
        str | None,
        training_field(
            "training: what data-parallel ranks share", choices=("none", "zero1", "zero2", "zero3", "fsdp", "hsdp")
        ),
    ] = None
    lora_rank: Annotated[int, training_field("rank of the adapters", high=65536)] = 16
    shared_prefix: Annotated[
        int, Field("leading tokens that all requests share (prefix cache)", "tokens", high=1e9)
    ] = 0
    """Leading tokens all requests share. [tokens]"""
    kv_offload_bytes: Annotated[
        float | None, Field("cache that may lie in host memory, per accelerator", "bytes", name="kv_offload", high=1e14)
    ] = None
    """Cache that may lie in host memory. [bytes]"""
    extend_context: Annotated[bool, Field("the context may exceed the model's own (RoPE scaling)")] = False
    """A context beyond the model's own is meant."""
    solve: Annotated[Solve | None, search_field("find the largest that fits")] = None
