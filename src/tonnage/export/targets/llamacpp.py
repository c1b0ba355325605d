"""llama.cpp: a shell script that starts `llama-server` on a GGUF repository of the Hugging Face Hub."""

from __future__ import annotations

import re

from tonnage.export.kit import (
    BadRequest,
    Deployment,
    Fields,
    NoCheckpoint,
    Options,
    Server,
    Target,
    engine_spec,
    flags,
    image,
    version_of,
)

TARGET = Target(
    title="llama.cpp",
    version=engine_spec("llamacpp").pinned,
    engines=("llamacpp",),
    one_node=True,
    words={
        "KV cache": {
            "bf16": "bf16",
            "fp16": "f16",
            "fp32": "f32",
            "gguf-q8_0": "q8_0",
            "gguf-q4_0": "q4_0",
            "gguf-q4_1": "q4_1",
            "gguf-q5_0": "q5_0",
        },
    },
    anywhere=True,
)
"""Source: tools/server/README.md @00dc8057 and build 11549, which tests/export/test_engine_runs.py starts."""

_WEIGHTS = {"bf16": "BF16", "fp16": "F16", "fp32": "F32"}
_QUANT = re.compile(r"(?i)(?<![a-z0-9])(iq4_xs|q[2-8]_k(?:_[sml])?|q[458]_[01]|bf16|f16|f32)(?![a-z0-9])")
"""A quantisation in the name of a GGUF file or behind the colon of a repository."""


def _context_per_slot(found: Fields) -> Fields:
    """The context is shared by the slots; weights are named by the file, or behind the repository's colon."""
    slots = max(1, found.get("max_num_seqs", 1))
    if found.get("kv_unified"):
        slots = 1
    if found.get("max_model_len"):
        found["max_model_len"] = max(1, found["max_model_len"] // slots)
    else:
        found.pop("max_model_len", None)
    written = str(found.pop("file", "") or found.get("model", ""))
    named = _QUANT.findall(written)
    if named:
        kind = named[-1].lower()
        found["weights"] = {"f16": "fp16", "f32": "fp32", "bf16": "bf16"}.get(kind, f"gguf-{kind}")
    found["model"] = str(found.get("model", written)).partition(":")[0] or written
    return found


OPTIONS = Options(
    programs=(("llama-server",), ("llama.cpp/server",), ("llama_cpp.server",)),
    images=("llama.cpp:server", "llama.cpp:full"),
    counts={
        "ctx_size": "max_model_len",
        "parallel": "max_num_seqs",
        "ubatch_size": "max_num_batched_tokens",
    },
    texts={
        "hf_repo": "model",
        "model": "model",
        "hf_file": "file",
        "cache_type_k": "kv",
        "split_mode": "split",
    },
    flags={"kv_unified": ("kv_unified", True), "no_kv_unified": ("kv_unified", False)},
    short={
        "kvu": "kv_unified",
        "hf": "hf_repo",
        "hfr": "hf_repo",
        "m": "model",
        "hff": "hf_file",
        "c": "ctx_size",
        "np": "parallel",
        "b": "batch_size",
        "ctk": "cache_type_k",
        "ctv": "cache_type_v",
        "ngl": "n_gpu_layers",
        "fa": "flash_attn",
        "sm": "split_mode",
        "cb": "cont_batching",
        "ub": "ubatch_size",
        "t": "threads",
        "gpu_layers": "n_gpu_layers",
    },
    settle=_context_per_slot,
)


def serve(d: Deployment) -> Server:
    """One replica of `llama-server`: each slot has its part of the context, which is that of all of them."""
    if d.layout.dp > 1 or d.layout.ep > 1:
        raise BadRequest("llama.cpp has neither data-parallel attention nor expert parallelism; choose another option")
    cache = TARGET.word("KV cache", d.precision.kv)
    argv = ["llama-server", "--hf-repo", f"{_repository(d)}:{_weights(d.precision.weights)}"]
    options = {
        "parallel": d.engine.max_num_seqs,
        "ctx-size": d.max_model_len,
        "batch-size": d.engine.max_num_batched_tokens,  # no piece is computed that is longer
        "ubatch-size": d.engine.max_num_batched_tokens,
        "cache-type-k": cache,
        "cache-type-v": cache,
        "n-gpu-layers": "all",
        "split-mode": _split(d),
        "flash-attn": "on",
    }
    argv += flags(options)
    argv += ["--metrics", "--host", "0.0.0.0", "--port", str(d.port)]
    vendor = d.spelled.vendor
    version, use = version_of(d, TARGET), f"llamacpp-{vendor}" if vendor else "llamacpp"
    # Its images start /app/llama-server, which is on no path (.devops/cuda.Dockerfile).
    return Server(version=version, image=image(use, version), argv=tuple(argv), folder="/app/")


def _split(d: Deployment) -> str:
    """llama.cpp splits layers over cards (a pipeline) or tensors within them."""
    return "none" if d.layout.ranks == 1 else "layer" if d.layout.pp > 1 else "row"


def _repository(d: Deployment) -> str:
    if not d.named and "gguf" not in d.model.lower():
        raise NoCheckpoint(
            f"llama.cpp reads GGUF and {d.model} is not; plan with --precision gguf-q8_0, whose files are known for "
            "most models, or name a GGUF repository with --checkpoint ID"
        )
    return d.model


def _weights(weights: str) -> str:
    if weights in _WEIGHTS or weights.startswith("gguf-"):
        return _WEIGHTS.get(weights) or weights.removeprefix("gguf-").upper()
    raise BadRequest(f"llama.cpp has no {weights} weights; plan again with --precision gguf-q8_0 or gguf-q4_k_m")
