"""The question of `tonnage fit`: what must be resident, and does it fit?"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.common import MODEL
from tonnage.domain.requests.field import Field

__all__ = ["FitRequest", "Goal", "Solve"]

Goal = Literal["serve", "train", "finetune"]
Solve = Literal["context", "concurrency", "batch", "seq-len", "model"]


class FitRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked. Absent = chosen, and said so in the answer."""

    model: Annotated[str, MODEL] = ""
    goal: Annotated[
        Goal,
        Field(name="serve", reads="flag", help="memory for serving (the default)"),
        Field(name="train", reads="flag", help="memory for training from scratch"),
    ] = "serve"
    accelerators: Annotated[
        tuple[str, ...],
        Field(
            name="accelerator",
            reads="list",
            group="Accelerators",
            short="-a",
            known="names of accelerators",
            help="accelerators to try; none = all usual ones, smallest first",
        ),
    ] = ()
    """Empty = all of the usual segments, each with the smallest count that holds it."""
    context: Annotated[
        int | None, Field(reads="tokens", high=1e9, help="prompt and output of one request: 8192, 128k")
    ] = None
    """Prompt and output of one request. [tokens]"""
    concurrency: Annotated[int | None, Field(reads="integer", high=1e7, help="requests resident at once")] = None
    batch: Annotated[
        int | None,
        Field(
            reads="integer",
            high=1e6,
            help="training: sequences per accelerator and step; networks of images or audio: samples of a batch",
        ),
    ] = None
    """Sequences or samples per accelerator and step (training); samples of a batch through a network."""
    seq_len: Annotated[int | None, Field(reads="tokens", high=1e9, help="training: tokens of one sequence")] = None
    resolution: Annotated[int | None, Field(reads="integer", high=65536, help="images: pixels of a side")] = None
    """Of images. [pixels of a side]"""
    precision: Annotated[
        str | None,
        Field(
            group="Model and engine",
            known="formats",
            help="weights: bf16, fp8, int8, awq, nvfp4, gguf-q4_k_m, exl2-4.65bpw …",
        ),
    ] = None
    kv: Annotated[
        str | None,
        Field(
            group="Model and engine",
            help="KV cache: bf16, fp8, int8, int4",
            choices=("fp32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "gguf-q8_0", "gguf-q4_0"),
        ),
    ] = None
    """Formats an engine keeps a cache in."""
    tp: Annotated[int | None, Field(reads="integer", group="Layout", high=1024, help="tensor-parallel ranks")] = None
    pp: Annotated[int | None, Field(reads="integer", group="Layout", high=1024, help="pipeline stages")] = None
    dp: Annotated[
        int | None,
        Field(
            reads="integer",
            group="Layout",
            high=100_000,
            help="data-parallel attention (serving) or data-parallel ranks",
        ),
    ] = None
    ep: Annotated[int | None, Field(reads="integer", group="Layout", high=1024, help="expert-parallel ranks")] = None
    count: Annotated[
        int | None, Field(reads="integer", group="Layout", high=100_000, help="training: accelerators of the job")
    ] = None
    """Accelerators of a training job."""
    engine: Annotated[
        str,
        Field(
            group="Model and engine", known="engines", help="vllm, sglang, trtllm, lmdeploy, llamacpp, hf, exllamav2 …"
        ),
    ] = SERVING_ENGINE
    engine_version: Annotated[str | None, Field(group="Model and engine", help="release or month: 0.19.0, 2025-07")] = (
        None
    )
    method: Annotated[
        str,
        Field(
            name="finetune",
            help="memory for fine-tuning: full, lora, qlora, dora",
            choices=("full", "lora", "qlora", "dora"),
        ),
    ] = "full"
    """Of fine-tuning: full, lora, qlora, dora."""
    optimizer: Annotated[
        str,
        Field(group="Training", known="optimizers", help="training: adamw, adamw-8bit, adafactor, lion, muon, sgd …"),
    ] = "adamw"
    recompute: Annotated[
        str | None,
        Field(group="Training", help="training: activation checkpointing", choices=("none", "selective", "full")),
    ] = None
    sharding: Annotated[
        str | None,
        Field(
            group="Training",
            help="training: what data-parallel ranks share",
            choices=("none", "zero1", "zero2", "zero3", "fsdp", "hsdp"),
        ),
    ] = None
    lora_rank: Annotated[int, Field(reads="integer", group="Training", high=65536, help="rank of the adapters")] = 16
    shared_prefix: Annotated[
        int, Field(reads="tokens", high=1e9, help="leading tokens that all requests share (prefix cache)")
    ] = 0
    """Leading tokens all requests share. [tokens]"""
    kv_offload_bytes: Annotated[
        float | None,
        Field(name="kv_offload", reads="bytes", high=1e14, help="cache that may lie in host memory, per accelerator"),
    ] = None
    """Cache that may lie in host memory. [bytes]"""
    extend_context: Annotated[
        bool, Field(reads="flag", help="the context may exceed the model's own (RoPE scaling)")
    ] = False
    """A context beyond the model's own is meant."""
    solve: Annotated[Solve | None, Field(group="Search", help="find the largest that fits")] = None
