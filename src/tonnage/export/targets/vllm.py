"""vLLM: a shell script that starts `vllm serve`; Ray joins the nodes where a replica spans several."""

from __future__ import annotations

import json
import shlex

from tonnage.domain.layout import Engine
from tonnage.domain.requests.groups import Adapters
from tonnage.export.kit import (
    Deployment,
    Fields,
    Options,
    Server,
    Target,
    comment,
    engine_spec,
    image,
    needs_quantised,
    number,
    shell,
    stated,
    version_of,
    weight_notes,
)

TARGET = Target(
    title="vLLM",
    version=engine_spec("vllm").pinned,
    engines=("vllm",),
    pools=True,
    units=True,
    words={
        "KV cache": {"bf16": "auto", "fp16": "auto", "fp32": "auto", "fp8": "fp8"},
    },
    anywhere=True,
)
"""Source: vllm.engine.arg_utils.EngineArgs, vllm.entrypoints.launchers.cli_args, 0.32.0."""

_DTYPE = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
RAY_PORT = 6379
NIXL = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})
"""What `--kv-transfer-config` says where workers hand caches to one another, whichever way they go."""
ROUTER = "vllm-router==0.1.17"
"""Source: its arguments in vllm_router/router_args.py of the wheel."""
WORKER_PORT = 8001
"""Where workers listen behind the router. [port]"""
NIXL_HOST = {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
"""A worker tells its own address to those that fetch caches from it."""


def _convert_experts(found: Fields) -> Fields:
    """Expert parallelism is a switch in vLLM: the experts then lie on every rank of tp x dp."""
    if found.pop("expert_parallel", False):
        found["ep"] = found.get("tp", 1) * found.get("dp", 1)
    return found


OPTIONS = Options(
    programs=(
        ("vllm", "serve"),
        ("vllm.entrypoints.openai.api_server",),
        ("vllm.entrypoints.api_server",),
        ("dynamo.vllm",),
    ),
    images=("vllm-openai", "vllm/vllm", "llm-d", "rocm/vllm", "vllm-cpu"),
    counts={
        "tensor_parallel_size": "tp",
        "pipeline_parallel_size": "pp",
        "data_parallel_size": "dp",
        "max_model_len": "max_model_len",
        "max_num_seqs": "max_num_seqs",
        "max_num_batched_tokens": "max_num_batched_tokens",
        "block_size": "block_tokens",
        "max_loras": "max_loras",
        "max_lora_rank": "max_lora_rank",
        "max_cpu_loras": "max_cpu_loras",
    },
    texts={
        "model": "model",
        "model_tag": "model",
        "dtype": "dtype",
        "mm_encoder_tp_mode": "mm_encoder_tp_mode",
        "kv_cache_dtype": "kv",
        "quantization": "quantization",
    },
    values={
        "gpu_memory_utilization": ("memory_fraction", number),
    },
    flags={
        "enable_expert_parallel": ("expert_parallel", True),
        "enable_chunked_prefill": ("chunked_prefill", True),
        "no_enable_chunked_prefill": ("chunked_prefill", False),
        "enable_prefix_caching": ("prefix_caching", True),
        "no_enable_prefix_caching": ("prefix_caching", False),
        "enforce_eager": ("cuda_graphs", False),
        "enable_lora": ("enable_lora", True),
        "async_scheduling": ("async_scheduling", True),
        "no_async_scheduling": ("async_scheduling", False),
    },
    short={
        "tp": "tensor_parallel_size",
        "pp": "pipeline_parallel_size",
        "dp": "data_parallel_size",
        "q": "quantization",
        "ep": "enable_expert_parallel",
        "model_id": "model",
    },
    positional=True,
    settle=_convert_experts,
)
"""As vLLM's own parser names them (`data/options/vllm.json`); KServe's runtime says --model_id."""


def settings(d: Deployment) -> Fields:
    """The plan's settings by the names of vLLM's engine arguments; None of them is left to a default that moves."""
    engine, layout = d.engine, d.layout
    return stated(
        {
            "dtype": _DTYPE.get(d.precision.activations, "auto"),
            "quantization": "fp8" if needs_quantised(d) else None,
            "kv_cache_dtype": TARGET.word("KV cache", d.precision.kv),
            "tensor_parallel_size": layout.tp,
            "pipeline_parallel_size": layout.pp,
            "data_parallel_size": layout.dp if layout.dp > 1 else None,
            "enable_expert_parallel": True if layout.ep > 1 else None,
            "max_model_len": d.max_model_len,
            "max_num_seqs": engine.max_num_seqs,
            "max_num_batched_tokens": engine.max_num_batched_tokens,
            "gpu_memory_utilization": engine.memory_fraction,
            "block_size": engine.block_tokens,
            "enable_chunked_prefill": engine.chunked_prefill,
            "enable_prefix_caching": engine.prefix_caching,
            "speculative_config": _drafting(engine),
            "mm_encoder_tp_mode": engine.mm_encoder_tp_mode,
            **_adapters(engine.adapters),
            "enforce_eager": True if engine.cuda_graphs is False else None,
            "distributed_executor_backend": "ray" if d.nodes > 1 else None,
            "data_parallel_backend": "ray" if d.nodes > 1 and layout.dp > 1 else None,
        }
    )


def _adapters(kept: Adapters | None) -> Fields:
    """Slots for LoRA adapters, and room on the host for all that there are."""
    if kept is None or not kept.slots:
        return {}
    return {
        "enable_lora": True,
        "max_loras": kept.slots,
        "max_lora_rank": kept.slot_rank,
        "max_cpu_loras": kept.count,
    }


def _drafting(engine: Engine) -> Fields | None:
    """Drafting by the checkpoint's own layers, or by an EAGLE-3 draft beside it."""
    if not engine.speculative_tokens:
        return None
    own = {"method": "eagle3", "model": engine.draft_model} if engine.draft_model else {"method": "mtp"}
    return {**own, "num_speculative_tokens": engine.speculative_tokens}


def serve(d: Deployment) -> Server:
    """One replica of vLLM's OpenAI server."""
    argv = ["vllm", "serve", d.model]
    for name, value in settings(d).items():
        flag = name.replace("_", "-")
        text = value if isinstance(value, str) else json.dumps(value)
        argv += [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", text]
    argv += ["--host", "0.0.0.0", "--port", str(d.port)]
    version = version_of(d, TARGET)
    use = "vllm-amd" if d.spelled.vendor == "amd" else "vllm"
    leader, worker = _leader(d, argv), f'exec ray start --address="$LEADER_ADDRESS:{RAY_PORT}" --block'
    if d.prefill_workers:
        worker = _apart(argv)
        leader = _router(d, worker)
    return Server(
        version=version,
        image=image(use, version),
        argv=tuple(argv),
        leader=leader,
        worker=worker,
        notes=_notes(d),
    )


def _leader(d: Deployment, argv: list[str]) -> str:
    wait = (
        "import ray, time; ray.init(address='auto'); "
        f"[time.sleep(2) for _ in iter(lambda: sum(n['Alive'] for n in ray.nodes()) < {d.nodes}, False)]"
    )
    return f"ray start --head --port={RAY_PORT}\npython3 -c {shlex.quote(wait)}\nexec {shell(argv)}"


def _apart(argv: list[str]) -> str:
    """A worker that hands caches over or takes them: vLLM's side of either is the same, and the router tells which."""
    behind = [*argv, "--kv-transfer-config", NIXL]
    behind[behind.index("--port") + 1] = str(WORKER_PORT)
    return f'export VLLM_NIXL_SIDE_CHANNEL_HOST="$(hostname -I | cut -d" " -f1)"\nexec {shell(behind)}'


def _router(d: Deployment, worker: str) -> str:
    """A unit's first node: a decode worker, and the router before all; the prefill workers are the last nodes."""
    decode = d.decode_workers // d.units
    ready = d.patience_s(least=600.0)
    about = [
        f"Of a unit's {d.members} workers the last {d.prefill_workers // d.units} read prompts, the others answer;",
        "requests go to the router on the first. Caches move through NIXL, which the image must hold; RDMA between",
        "nodes is the site's to attach.",
    ]
    return (
        f"{comment(about)}"
        f"python3 -m pip install --quiet {ROUTER}\n"
        'read -ra MEMBERS <<< "$NODE_ADDRESSES"\nWORKERS=()\n'
        f'for one in "${{MEMBERS[@]:0:{decode}}}"; do WORKERS+=(--decode "http://$one:{WORKER_PORT}"); done\n'
        f'for one in "${{MEMBERS[@]:{decode}}}"; do WORKERS+=(--prefill "http://$one:{WORKER_PORT}"); done\n'
        f"vllm-router --vllm-pd-disaggregation --host 0.0.0.0 --port {d.port} \\\n"
        f'  --worker-startup-timeout-secs {ready} "${{WORKERS[@]}}" &\n'
        f"(\n{worker}\n) &\nwait -n\nexit 1"
    )


def _notes(d: Deployment) -> tuple[str, ...]:
    notes = weight_notes(d, TARGET.title)
    if d.layout.ep > 1:
        notes.append(f"Whole experts on {d.layout.tp * d.layout.dp} ranks (--enable-expert-parallel).")
    if d.nodes > 1:
        notes.append(f"A replica spans {d.nodes} nodes, joined by Ray: the image must hold ray (pip install ray).")
    return tuple(notes)
