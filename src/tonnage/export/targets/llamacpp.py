"""llama.cpp: a shell script that starts `llama-server` on a GGUF repository of the Hugging Face Hub."""

from __future__ import annotations

from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.errors import BadRequest
from tonnage.export.deployment import Deployment, deployment, script
from tonnage.export.target import Server, Target, names

__all__ = ["TARGET", "export", "serve"]

TARGET = Target(
    name="llamacpp",
    title="llama.cpp",
    version="00dc8057",
    files=("serve.sh",),
    start="bash serve.sh",
    source="tools/server/README.md @00dc8057",
)

_KV = {"bf16": "bf16", "fp16": "f16", "fp32": "f32", "gguf-q8_0": "q8_0", "gguf-q4_0": "q4_0", "gguf-q4_1": "q4_1",
       "gguf-q5_0": "q5_0"}  # fmt: skip
_WEIGHTS = {"bf16": "BF16", "fp16": "F16", "fp32": "F32"}


def export(plan: ServePlan, option: ServeOption) -> dict[str, str]:
    """`serve.sh`: starts one replica on this machine."""
    return {"serve.sh": script(deployment(plan, option), TARGET)}


def serve(d: Deployment) -> Server:
    """One replica of `llama-server`: its context is shared by the slots, so the flag is the product of the two."""
    if d.nodes > 1:
        raise BadRequest(f"a replica spans {d.nodes} nodes, which llama.cpp does not serve; choose another option")
    if d.layout.dp > 1 or d.layout.ep > 1:
        raise BadRequest("llama.cpp has neither data-parallel attention nor expert parallelism; choose another option")
    if d.precision.kv not in _KV:
        raise BadRequest(f"llama.cpp keeps no {d.precision.kv} KV cache; plan again with --kv-precision fp16")
    argv = ["llama-server", "--hf-repo", f"{_repository(d)}:{_weights(d.precision.weights)}"]
    slots, length = d.engine.max_num_seqs, d.max_model_len
    options: dict[str, str | int | None] = {
        "parallel": slots,
        "ctx-size": length * (slots or 1) if length is not None else None,
        "batch-size": d.engine.max_num_batched_tokens,
        "cache-type-k": _KV[d.precision.kv],
        "cache-type-v": _KV[d.precision.kv],
        "n-gpu-layers": "all",
        "split-mode": _split(d),
        "flash-attn": "on",
    }
    argv += [part for name, value in options.items() if value is not None for part in (f"--{name}", str(value))]
    argv += ["--metrics", "--host", "0.0.0.0", "--port", str(d.port)]
    kind = {"nvidia": "server-cuda", "amd": "server-rocm", "intel": "server-intel"}.get(
        names(d.accelerator).vendor, "server"
    )
    return Server(version=TARGET.version, image=f"ghcr.io/ggml-org/llama.cpp:{kind}", argv=tuple(argv))


def _split(d: Deployment) -> str:
    """llama.cpp splits layers over cards (a pipeline) or tensors within them."""
    return "none" if d.layout.ranks == 1 else "layer" if d.layout.pp > 1 else "row"


def _repository(d: Deployment) -> str:
    if not d.named and "gguf" not in d.model.lower():
        raise BadRequest(f"llama.cpp reads GGUF and {d.model} is not; name a GGUF repository with --checkpoint ID")
    return d.model


def _weights(weights: str) -> str:
    if weights in _WEIGHTS or weights.startswith("gguf-"):
        return _WEIGHTS.get(weights) or weights.removeprefix("gguf-").upper()
    raise BadRequest(f"llama.cpp has no {weights} weights; plan again with --precision gguf-q8_0 or gguf-q4_k_m")
