"""
llm-d: values for its ModelService chart; decode pods alone, or prefill and decode apart behind the routing sidecar.

The chart renders texts of the values as templates, so that only plain names are taken. It starts vLLM; the whole
command is written out, because the chart's own would leave settings to defaults.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import Deployment, Fields, Server, Target, server, templated_name
from tonnage.export.targets.kubernetes import SHARED_MEMORY, SHARED_MEMORY_MOUNT, node_selector, resource_name
from tonnage.export.targets.vllm import NIXL, NIXL_HOST

TARGET = Target(
    title="llm-d ModelService chart",
    version="v0.4.1",
    files=("values.yaml",),
    start="helm install NAME llm-d-modelservice/llm-d-modelservice -f values.yaml",
    engines=("vllm",),
    one_node=True,  # how pods with a command of their own find their leader was not read
    pools=True,
)
"""Source: llm-d-incubation/llm-d-modelservice: values.yaml at 024c0f2, templates/_helpers.tpl at 6ab49a0."""

SERVICE_PORT: Final = 8000
BEHIND_PROXY_PORT: Final = 8200
"""Where a decode pod's vLLM listens when the routing sidecar stands before it."""


def export(d: Deployment) -> str:
    """`values.yaml`."""
    made = server(d)
    model = templated_name(d.model, what="model", by="the chart")
    resource_name(d)  # refuses parts of makers whose image is not known
    lines = [
        *made.notes,
        "A gated model needs a token: kubectl create secret generic hf-token --from-literal=HF_TOKEN=...",
        "Routing needs the Gateway API inference extension, installed as llm-d's guides say.",
    ]
    disaggregated = d.prefill_workers > 0
    values = {
        "modelArtifacts": {
            "name": model,
            "uri": f"hf://{model}",
            "size": f"{d.disk_gb}G",
            "authSecretName": "hf-token",
            "labels": {"llm-d.ai/inferenceServing": "true", "llm-d.ai/model": d.name},
        },
        "multinode": False,
        "accelerator": {"type": d.spelled.vendor},
        "routing": {
            "servicePort": SERVICE_PORT,
            "proxy": {"enabled": disaggregated, "targetPort": BEHIND_PROXY_PORT, "connector": "nixlv2"},
        },
        "decode": _pods(d, made, replicas=d.decode_workers or d.replicas, proxied=disaggregated),
        "prefill": _pods(d, made, replicas=d.prefill_workers, proxied=False) if disaggregated else {"create": False},
    }
    return TARGET.yaml(lines, values)


def _pods(d: Deployment, made: Server, *, replicas: int, proxied: bool) -> Fields:
    """Replicas of one role; behind the routing proxy (`proxied`) the engine listens on another port."""
    port = BEHIND_PROXY_PORT if proxied else SERVICE_PORT
    argv = list(made.argv)
    argv[argv.index("--port") + 1] = str(port)
    if d.prefill_workers:
        argv += ["--kv-transfer-config", NIXL]
    return {
        "create": True,
        "replicas": replicas,
        # The chart counts accelerators as tensor x data; stages of a pipeline are tensor ranks to it.
        "parallelism": {"tensor": d.layout.tp * d.layout.pp, "data": d.layout.dp},
        **({"extraConfig": {"nodeSelector": chosen}} if (chosen := node_selector(d)) else {}),
        "containers": [
            {
                "name": "vllm",
                "image": made.image,
                "modelCommand": "custom",
                "command": argv,
                "ports": [{"containerPort": port, "name": "metrics"}],
                "env": [NIXL_HOST] if d.prefill_workers else [],
                "mountModelVolume": True,
                "volumeMounts": [SHARED_MEMORY_MOUNT],
            }
        ],
        "volumes": [SHARED_MEMORY],
    }
