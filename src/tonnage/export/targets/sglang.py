"""SGLang: a shell script that starts `python3 -m sglang.launch_server`; it joins nodes by itself."""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import (
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
    version_of,
    weight_notes,
)

TARGET = Target(
    title="SGLang",
    version=engine_spec("sglang").pinned,
    engines=("sglang",),
    words={
        "KV cache": {"bf16": "auto", "fp16": "auto", "fp32": "auto", "fp8": "fp8_e4m3"},
    },
    anywhere=True,
)
"""Source: sglang.srt.server_args.ServerArgs, 0.5.23."""

_DTYPE = {"bf16": "bfloat16", "fp16": "half", "fp32": "float32"}
JOIN_PORT = 20000
GFX942: Final = ("mi300x", "mi300a", "mi325x")
GFX950: Final = ("mi350x", "mi355x")
"""Parts of AMD's that SGLang's images are built for, by architecture (sgl-project/sglang docker/rocm.Dockerfile)."""


def _convert_degrees(found: Fields) -> Fields:
    """
    Our degrees of SGLang's: its tensor degree counts the ranks of data-parallel attention too.

    Without `--enable-dp-attention` its data parallelism is whole replicas behind its own router. A chunk of -1 is a
    prompt at once.
    """
    dp, attention = found.pop("dp", 1), found.pop("dp_attention", False)
    if dp > 1 and attention:
        found |= {"tp": max(1, found.get("tp", 1) // dp), "dp": dp}
    elif dp > 1:
        found["replicas"] = dp
    if (chunk := found.get("max_num_batched_tokens")) is not None and chunk <= 0:
        del found["max_num_batched_tokens"]
        found["chunked_prefill"] = False
    return found


OPTIONS = Options(
    programs=(("sglang.launch_server",), ("sglang", "serve")),
    images=("lmsysorg/sglang", "sglang"),
    counts={
        "tp_size": "tp",
        "pp_size": "pp",
        "dp_size": "dp",
        "ep_size": "ep",
        "context_length": "max_model_len",
        "max_running_requests": "max_num_seqs",
        "page_size": "block_tokens",
        "nnodes": "nodes",
        "scheduler_recv_interval": "receive_interval",
    },
    texts={
        "model_path": "model",
        "dtype": "dtype",
        "kv_cache_dtype": "kv",
        "quantization": "quantization",
    },
    values={
        "chunked_prefill_size": ("max_num_batched_tokens", int),
        "mem_fraction_static": ("memory_fraction", number),
    },
    flags={
        "enable_dp_attention": ("dp_attention", True),
        "disable_radix_cache": ("prefix_caching", False),
        "disable_cuda_graph": ("cuda_graphs", False),
        "enable_mixed_chunk": ("mixed_chunk", True),
    },
    short={
        "model": "model_path",
        "tp": "tp_size",
        "tensor_parallel_size": "tp_size",
        "pp": "pp_size",
        "dp": "dp_size",
        "pipeline_parallel_size": "pp_size",
        "data_parallel_size": "dp_size",
        "ep": "ep_size",
        "expert_parallel_size": "ep_size",
        "mem_frac": "mem_fraction_static",
    },
    settle=_convert_degrees,
)


def serve(d: Deployment) -> Server:
    """One replica of SGLang's server; its tensor degree counts the ranks of data-parallel attention too."""
    argv = ["python3", "-m", "sglang.launch_server", "--model-path", d.model, *_options(d)]
    argv += ["--host", "0.0.0.0", "--port", str(d.port)]
    version = version_of(d, TARGET)
    many = (
        "exec "
        + shell([*argv, "--nnodes", str(d.nodes)])
        + f' \\\n  --node-rank "$NODE_RANK" --dist-init-addr "$LEADER_ADDRESS:{JOIN_PORT}"'
    )
    return Server(
        version=version,
        image=image(_use(d), version),
        argv=tuple(argv),
        leader=many,
        worker=many,
        notes=_notes(d),
    )


def _options(d: Deployment) -> list[str]:
    """The configuration as options of SGLang; its tp counts the ranks of tensor and data parallelism together."""
    engine, layout = d.engine, d.layout
    options = {
        "dtype": _DTYPE.get(d.precision.activations, "auto"),
        "quantization": "fp8" if needs_quantised(d) else None,
        "kv-cache-dtype": TARGET.word("KV cache", d.precision.kv),
        "tp-size": layout.tp * layout.dp,
        "pp-size": layout.pp,
        "dp-size": layout.dp if layout.dp > 1 else None,
        "ep-size": layout.ep if layout.ep > 1 else None,
        "context-length": d.max_model_len,
        "max-running-requests": engine.max_num_seqs,
        "chunked-prefill-size": engine.max_num_batched_tokens if engine.chunked_prefill is not False else -1,
        "mem-fraction-static": engine.memory_fraction,
        "page-size": engine.block_tokens,
    }
    if engine.speculative_tokens:  # the checkpoint's own layers or a draft beside it, in a chain
        options |= {
            "speculative-algorithm": "EAGLE3" if engine.draft_model else "NEXTN",
            "speculative-draft-model-path": engine.draft_model,
            "speculative-num-steps": engine.speculative_tokens,
            "speculative-eagle-topk": 1,
            "speculative-num-draft-tokens": engine.speculative_tokens + 1,
        }
    adapters = engine.adapters if engine.adapters is not None and engine.adapters.slots else None
    if adapters is not None:
        options |= {
            "max-loras-per-batch": adapters.slots,
            "max-loaded-loras": adapters.count,
            "max-lora-rank": adapters.slot_rank,
        }
    argv = flags(options)
    argv += ["--enable-lora", "--lora-target-modules", *(adapters.targets or ("all",))] if adapters else []
    argv += ["--enable-dp-attention"] if layout.dp > 1 else []
    if layout.ep > 1 and layout.dp > 1 and d.nodes > 1:
        # As plans count it: half a step beside the other's exchange, and copies of busy experts.
        argv += ["--moe-a2a-backend", "deepep", "--enable-two-batch-overlap"]
        argv += ["--enable-eplb", "--ep-num-redundant-experts", "32"]
    argv += ["--mm-enable-dp-encoder"] if engine.mm_encoder_tp_mode == "data" else []
    argv += ["--enable-mixed-chunk"] if engine.mixed_chunk else []
    argv += ["--disable-radix-cache"] if engine.prefix_caching is False else []
    argv += ["--disable-cuda-graph"] if engine.cuda_graphs is False else []
    return argv


def _use(d: Deployment) -> str:
    """Which image: AMD's are built for one architecture each."""
    if d.spelled.vendor != "amd":
        return "sglang"
    return "sglang-gfx950" if d.accelerator in GFX950 else "sglang-gfx942"


def _notes(d: Deployment) -> tuple[str, ...]:
    notes = []
    if d.spelled.vendor == "amd" and d.accelerator not in (*GFX942, *GFX950):
        notes.append(f"SGLang's images are built for gfx942 and gfx950, which {d.accelerator} is not: build your own.")
    notes += weight_notes(d, TARGET.title)
    if d.nodes > 1:
        notes.append(f"A replica spans {d.nodes} nodes; port {JOIN_PORT} of the first must be open to the others.")
    return tuple(notes)
