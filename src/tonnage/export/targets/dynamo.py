"""
NVIDIA Dynamo: a DynamoGraphDeployment, with prefill and decode workers apart where the plan keeps them apart.

A worker is the engine under Dynamo's own launcher, with the engine's options as planned; over several nodes it is one
with a node count, whose pods the operator joins. Prompts' caches move through NIXL. Weights lie on one claim that every
worker mounts.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import BadRequest, Deployment, Fields, Server, Target, image, server
from tonnage.export.targets.kubernetes import literal_argument, models_claim, models_volume, node_selector, resource
from tonnage.export.targets.vllm import NIXL

TARGET = Target(
    title="NVIDIA Dynamo",
    version="1.5.0",
    files=("graph.yaml",),
    start="kubectl apply -f graph.yaml",
    engines=("vllm", "sglang"),
    pools=True,
)
"""
Source: ai-dynamo/dynamo: deploy/operator/api/v1alpha1 at 00686d6, components/src/dynamo/vllm/args.py at 000a36a, docs
of multinode deployment at 2c3066b.
"""

MODEL_OPTION: Final = {"vllm": "--model", "sglang": "--model-path"}
"""Engines whose launcher takes the engine's own options; TensorRT-LLM's takes files."""
FOLLOWS_PREFIXES: Final = [
    {"name": "DYN_ROUTER_MODE", "value": "kv"},
    {"name": "DYN_ROUTER_USE_KV_EVENTS", "value": "false"},
]
"""Its router takes turns by default; it follows prefixes by what it has sent itself, without events of the workers."""


def export(d: Deployment) -> str:
    """`graph.yaml`: the frontend and the workers, and the claim for their weights."""
    if d.spelled.vendor != "nvidia":
        raise BadRequest(f"Dynamo's images are built for NVIDIA's parts, not for {d.accelerator}; export to kubernetes")
    made = server(d)
    lines = [
        *made.notes,
        f"The image brings its own {d.engine.name}; the plan was made for {made.version}.",
        "A gated model needs a token: kubectl create secret generic hf-token-secret --from-literal=HF_TOKEN=...",
    ]
    if d.nodes > 1:
        lines.append(f"A worker spans {d.nodes} nodes: needs Grove or LeaderWorkerSet (with Volcano) in the cluster.")
    if d.prefill_workers:
        lines.append(f"{d.prefill_workers} workers take prompts, {d.decode_workers} answer; caches move through NIXL.")
    spec = {"services": {"Frontend": _frontend(d), **_workers(d, made)}}
    document = resource("nvidia.com/v1alpha1/DynamoGraphDeployment", d.name, spec=spec)
    return TARGET.yaml(lines, document, *models_claim(d))


def _image(d: Deployment) -> str:
    return image(f"dynamo-{d.engine.name}", TARGET.version)


def _frontend(d: Deployment) -> Fields:
    return {
        "componentType": "frontend",
        "replicas": 1,
        **({"envs": FOLLOWS_PREFIXES} if d.found_again else {}),
        "extraPodSpec": {"mainContainer": {"image": _image(d)}},
    }


def _workers(d: Deployment, made: Server) -> Fields:
    if not d.prefill_workers:
        return {"Worker": _worker(d, made, role="", replicas=d.replicas)}
    return {
        "PrefillWorker": _worker(d, made, role="prefill", replicas=d.prefill_workers),
        "DecodeWorker": _worker(d, made, role="decode", replicas=d.decode_workers),
    }


def _worker(d: Deployment, made: Server, *, role: str, replicas: int) -> Fields:
    """Workers of one role ("prefill", "decode"; empty = both), each a replica of the engine."""
    part = {"subComponentType": role} if role else {}
    return {
        "componentType": "worker",
        **part,
        "replicas": replicas,
        "envFromSecret": "hf-token-secret",
        "envs": [{"name": "HF_HOME", "value": "/models"}],
        "sharedMemory": {"size": "16Gi"},
        # The operator joins the nodes: it starts Ray, or gives every node its rank and the leader's address.
        **({"multinode": {"nodeCount": d.nodes}} if d.nodes > 1 else {}),
        "resources": {"limits": {"gpu": str(d.ranks_per_node)}},
        "extraPodSpec": {
            **({"nodeSelector": chosen} if (chosen := node_selector(d)) else {}),
            "volumes": [{"name": "models", **models_volume(d)}],
            "mainContainer": {
                "image": _image(d),
                "command": ["python3", "-m", f"dynamo.{d.engine.name}"],
                "args": [literal_argument(word) for word in (*_arguments(d, made), *_role_arguments(d, role))],
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
            },
        },
    }


def _arguments(d: Deployment, made: Server) -> list[str]:
    """The engine's options as its own server would take them, less where it listens: Dynamo's frontend does."""
    model = MODEL_OPTION[d.engine.name]
    # Over several nodes the operator chooses what joins them, and writes these itself.
    joins = ("--distributed-executor-backend", "--data-parallel-backend", "--nnodes")
    options = made.options(dict.fromkeys(("--host", "--port", model, *joins), 2))
    return [model, d.model, *options]


def _role_arguments(d: Deployment, role: str) -> list[str]:
    if not role:
        return []
    moved = ["--kv-transfer-config", NIXL] if d.engine.name == "vllm" else ["--disaggregation-transfer-backend", "nixl"]
    return ["--disaggregation-mode", role, *moved]
