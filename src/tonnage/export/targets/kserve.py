"""
KServe: an LLMInferenceService, which llm-d's scheduler serves; prefill and decode apart where the plan says so.

KServe writes the start of vLLM's command itself, evaluates it in a shell and takes further options from one variable;
so options are quoted for a shell, and a name that a shell or a template would read is refused.
"""

from __future__ import annotations

import shlex
from typing import Final

from tonnage.export.kit import BadRequest, Deployment, Fields, Server, Target, server, templated_name
from tonnage.export.targets.kubernetes import literal_argument, node_selector, resource, resource_name
from tonnage.export.targets.vllm import NIXL, NIXL_HOST

TARGET = Target(
    title="KServe LLMInferenceService",
    version="serving.kserve.io/v1alpha2",
    files=("service.yaml",),
    start="kubectl apply -f service.yaml",
    engines=("vllm",),
    pools=True,
)
"""Source: kserve/kserve: pkg/apis/serving/v1alpha2/llm_inference_service_types.go at 01b1241, docs/samples/llmisvc."""

WRITTEN_BY_KSERVE: Final = {"--host": 2, "--port": 2, "--tensor-parallel-size": 2, "--pipeline-parallel-size": 2,
                            "--data-parallel-size": 2, "--enable-expert-parallel": 1,
                            "--distributed-executor-backend": 2, "--data-parallel-backend": 2}  # fmt: skip
"""Options that the resource's own fields become, and the words of each."""


def export(d: Deployment) -> str:
    """`service.yaml`."""
    if d.layout.dp % d.nodes:
        raise BadRequest(
            f"a worker spans {d.nodes} nodes as tp {d.layout.tp} pp {d.layout.pp} dp {d.layout.dp}, and KServe joins "
            "nodes by data parallelism alone: export to dynamo or kubernetes"
        )
    made = server(d)
    model = templated_name(d.model, what="model", by="KServe")
    lines = [
        *made.notes,
        "A gated model needs a token: kubectl create secret generic hf-token --from-literal=HF_TOKEN=...",
        "Needs KServe's LLMInferenceService controller and the Gateway API.",
    ]
    if d.nodes > 1:
        lines.append(f"A worker spans {d.nodes} nodes: needs the LeaderWorkerSet controller.")
    if d.prefill_workers:
        lines.append("Caches move through NIXL; a network with RDMA has to be attached as your cluster offers it.")
    spec: Fields = {
        "model": {"uri": f"hf://{model}", "name": model},
        **_workload(d, made, replicas=d.decode_workers or d.replicas),
        "router": {"route": {}, "gateway": {}, "scheduler": {}},
    }
    if d.prefill_workers:
        spec["prefill"] = _workload(d, made, replicas=d.prefill_workers)
    secret = {"serving.kserve.io/secretName": "hf-token"}
    document = resource(f"{TARGET.version}/LLMInferenceService", d.name, annotations=secret, spec=spec)
    return TARGET.yaml(lines, document)


def _workload(d: Deployment, made: Server, *, replicas: int) -> Fields:
    """Replicas and the degrees of one; `worker` is the pod of every further node of a replica."""
    layout, count = d.layout, {resource_name(d): str(d.ranks_per_node)}
    degrees: Fields = {"tensor": layout.tp}
    if layout.pp > 1:
        degrees["pipeline"] = layout.pp
    if layout.dp > 1:
        degrees |= {"data": layout.dp, "dataLocal": layout.dp // d.nodes}
    if layout.ep > 1:
        degrees["expert"] = True
    env: list[Fields] = [{"name": "VLLM_ADDITIONAL_ARGS", "value": _arguments(d, made)}]
    if d.prefill_workers:
        env.append(NIXL_HOST)
    pod = {
        **({"nodeSelector": chosen} if (chosen := node_selector(d)) else {}),
        "containers": [
            {"name": "main", "image": made.image, "env": env, "resources": {"limits": count, "requests": count}}
        ],
    }
    workload = {"replicas": replicas, "parallelism": degrees, "template": pod}
    return workload | ({"worker": pod} if d.nodes > 1 else {})


def _arguments(d: Deployment, made: Server) -> str:
    """What no field of the resource says, quoted for the shell that evaluates it."""
    options = made.options(WRITTEN_BY_KSERVE)
    if d.prefill_workers:
        options += ["--kv-transfer-config", NIXL]
    return literal_argument(shlex.join(options))
