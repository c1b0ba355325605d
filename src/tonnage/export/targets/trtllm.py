"""TensorRT-LLM: a shell script that starts `trtllm-serve` with its PyTorch backend.

What has no flag (the KV cache's format, data-parallel attention, block reuse) stands in a small options file, which the
command writes before it starts, so that no second file has to travel.
"""

from __future__ import annotations

import json

from tonnage.export.kit import (
    BadRequest,
    Deployment,
    Fields,
    Options,
    Server,
    Target,
    engine_spec,
    flags,
    image,
    needs_quantised,
    number,
    shell,
    stated,
    version_of,
)

TARGET = Target(
    title="TensorRT-LLM",
    version=engine_spec("trtllm").pinned,
    engines=("trtllm",),
    one_node=True,  # over several it needs an MPI launcher of the site's own
    words={
        "KV cache": {"bf16": "auto", "fp16": "auto", "fp32": "auto", "fp8": "fp8", "nvfp4": "nvfp4"},
    },
    anywhere=True,
)
"""Source: tensorrt_llm/commands/serve.py, tensorrt_llm/llmapi/llm_args.py, @00209af."""

OPTIONS_FILE = "trtllm-options.yaml"


def _convert_degrees(found: Fields) -> Fields:
    """Our degrees of its own: with data-parallel attention every rank of tp_size holds attention of its own."""
    if found.pop("attention_dp", False):
        found |= {"dp": found.get("tp", 1), "tp": 1}
    return found


OPTIONS = Options(
    programs=(("trtllm-serve", "serve"), ("trtllm-serve",)),
    images=("tensorrt-llm/release", "tensorrt_llm"),
    counts={
        "tp_size": "tp",
        "pp_size": "pp",
        "ep_size": "ep",
        "max_batch_size": "max_num_seqs",
        "max_num_tokens": "max_num_batched_tokens",
        "max_seq_len": "max_model_len",
        "kv_cache_config.tokens_per_block": "block_tokens",
    },
    texts={
        "model": "model",
        "kv_cache_config.dtype": "kv",
    },
    values={
        "kv_cache_free_gpu_memory_fraction": ("memory_fraction", number),
        "kv_cache_config.free_gpu_memory_fraction": ("memory_fraction", number),
    },
    flags={
        "kv_cache_config.enable_block_reuse": ("prefix_caching", True),
        "enable_chunked_prefill": ("chunked_prefill", True),
        "enable_attention_dp": ("attention_dp", True),
    },
    short={
        "tensor_parallel_size": "tp_size",
        "pipeline_parallel_size": "pp_size",
        "moe_expert_parallel_size": "ep_size",
        "kv_cache_dtype": "kv_cache_config.dtype",
    },
    positional=True,
    settle=_convert_degrees,
)
"""Flags of trtllm-serve, and what its options file holds, groups with a dot."""


def serve(d: Deployment) -> Server:
    """One replica of `trtllm-serve`."""
    needs_quantised(d)
    engine, layout = d.engine, d.layout
    limits = {
        "tp_size": layout.tp * layout.dp,
        "pp_size": layout.pp,
        "ep_size": layout.ep if layout.ep > 1 else None,
        "max_batch_size": engine.max_num_seqs,
        "max_num_tokens": engine.max_num_batched_tokens,
        "max_seq_len": d.max_model_len,
        "kv_cache_free_gpu_memory_fraction": engine.memory_fraction,
    }
    argv = ["trtllm-serve", d.model, "--backend", "pytorch"]
    argv += flags(limits)
    argv += ["--config", OPTIONS_FILE, "--host", "0.0.0.0", "--port", str(d.port)]
    written = json.dumps(_options(d), sort_keys=True)
    line = f"{shell(['printf', '%s', written])} > {OPTIONS_FILE} && exec {shell(argv)}"
    version = version_of(d, TARGET)
    stored = d.precision.weights
    notes = [f"Written for {TARGET.version}; options without a flag are put into {OPTIONS_FILE}, which is YAML."]
    if stored not in ("bf16", "fp16", "fp32"):
        notes.append(f"The checkpoint must be stored in {stored}, as TensorRT Model Optimizer writes it.")
    return Server(
        version=version,
        image=image("trtllm", version),
        argv=("bash", "-c", line),
        notes=tuple(notes),
    )


def _options(d: Deployment) -> Fields:
    """What has no switch of `trtllm-serve`, for its file of options; tp together with dp is refused."""
    if d.layout.dp > 1 and d.layout.tp > 1:
        raise BadRequest(
            f"TensorRT-LLM replicates attention over all ranks or none, not tp {d.layout.tp} with dp {d.layout.dp}; "
            f"choose another option"
        )
    engine = d.engine
    cache = {
        "dtype": TARGET.word("KV cache", d.precision.kv),
        "enable_block_reuse": engine.prefix_caching,
        "tokens_per_block": engine.block_tokens,
    }
    options = {
        "kv_cache_config": stated(cache),
        "enable_attention_dp": True if d.layout.dp > 1 else None,
        "enable_chunked_prefill": engine.chunked_prefill,
    }
    return stated(options) | ({"cuda_graph_config": None} if engine.cuda_graphs is False else {})
