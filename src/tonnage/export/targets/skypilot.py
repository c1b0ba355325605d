"""SkyPilot: a task with a service section; `sky serve up` keeps the plan's replicas, `sky launch` starts one."""

from __future__ import annotations

from typing import Any

from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.export.deployment import Deployment, deployment, server
from tonnage.export.target import Target, names
from tonnage.export.text import head, shell, yaml_text

__all__ = ["TARGET", "export"]

TARGET = Target(
    name="skypilot",
    title="SkyPilot",
    version="0.14.1",
    files=("service.yaml",),
    start="sky serve up service.yaml --secret HF_TOKEN",
    source="docs.skypilot.co/en/stable/reference/yaml-spec.html; names from its catalogue",
)

CLOUDS = frozenset(
    {"aws", "azure", "gcp", "lambda", "nebius", "oci", "paperspace", "runpod", "seeweb", "vast", "verda"}
)
"""Providers that SkyPilot calls as the catalogue does (sky.utils.registry.CLOUD_REGISTRY, 0.14.1)."""
SXM_AT_RUNPOD = frozenset({"A100-80GB", "H100", "H200"})
"""Parts whose SXM variant SkyPilot's listing of RunPod names apart."""


def export(plan: ServePlan, option: ServeOption) -> dict[str, str]:
    """`service.yaml`."""
    d = deployment(plan, option)
    made = server(d)
    command = shell(made.argv)
    if d.nodes > 1:
        place = 'export LEADER_ADDRESS="$(head -n1 <<< "$SKYPILOT_NODE_IPS")" NODE_RANK="$SKYPILOT_NODE_RANK"'
        command = f'{place}\nif [ "$NODE_RANK" = 0 ]; then\n{made.leader}\nelse\n{made.worker}\nfi'
    document: dict[str, Any] = {
        "name": d.name,
        "resources": _resources(d, made.image),
        "num_nodes": d.nodes,
        "secrets": {"HF_TOKEN": None},
        "service": {
            "readiness_probe": {"path": made.health, "initial_delay_seconds": d.patience_s(least=300.0)},
            "replicas": d.replicas,
        },
        "run": command + "\n",
    }
    lines = [*d.lines, *made.notes, "HF_TOKEN is handed over when it starts (--secret HF_TOKEN); it never stands here."]
    if "infra" not in document["resources"]:
        lines.append(f"SkyPilot does not know the provider {d.provider}: it picks one of those you have enabled.")
    return {"service.yaml": head(TARGET.title, TARGET.version, lines=lines) + yaml_text(document)}


def _resources(d: Deployment, image: str) -> dict[str, Any]:
    name = names(d.accelerator).required("skypilot")
    if d.provider == "runpod" and name in SXM_AT_RUNPOD and "-sxm" in d.accelerator:
        name += "-SXM"
    resources: dict[str, Any] = {
        "accelerators": {name: d.ranks_per_node},
        "image_id": f"docker:{image}",
        "ports": d.port,
        "use_spot": d.spot,
        "disk_size": d.disk_gb,
    }
    if d.provider in CLOUDS:
        resources["infra"] = d.provider
        # Only where regions are written as the provider's own tools do.
        if d.provider in {"aws", "gcp"}:
            resources["infra"] += f"/{d.region}"
    return resources
