"""
Terraform: the node group of a plan's instances on GKE, EKS or AKS, in Terraform's JSON syntax.

JSON instead of HCL, because a JSON writer quotes every name; `${` and `%{`, which Terraform would expand inside a text,
are doubled. The cluster is the reader's own and comes in as a variable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tonnage.export.kit import BadRequest, Deployment, Fields, Target, json_text
from tonnage.version import __version__

TARGET = Target(
    title="Terraform",
    version="JSON configuration syntax of 1.x",
    files=("nodes.tf.json",),
    start="terraform apply, in the folder of your cluster's module",
)
"""Source: hashicorp/terraform-provider-google 7189bc4, -aws 88c078b, -azurerm c953854: website/docs/r."""


def export(d: Deployment) -> str:
    """`nodes.tf.json`."""
    if d.provider not in GROUPS:
        raise BadRequest(
            f"Terraform files are written for node groups of {', '.join(GROUPS)}, and the plan rents at {d.provider}; "
            "export to kubernetes, or plan with --provider"
        )
    variables, kind, group = GROUPS[d.provider](d)
    group = _literal(group) | {name: f"${{var.{name}}}" for name in variables}
    return module_text(d.name, d.lines, asks=variables, resource={kind: group})


def module_text(name: str, lines: Iterable[str], *, asks: Asked, resource: Fields) -> str:
    """A module of one resource under that name, which asks for variables."""
    return json_text(
        {
            "//": [f"Written by Tonnage {__version__}.", *lines],
            "variable": {asked: {"type": shape, "description": about} for asked, (shape, about) in asks.items()},
            "resource": {kind: {name: fields} for kind, fields in resource.items()},
        }
    )


Asked = dict[str, tuple[str, str]]
"""Variables of a module -> type of each, and what it is."""
Group = tuple[Asked, str, Fields]


def _gke(d: Deployment) -> Group:
    """Variables, type and fields of the node pool on GKE."""
    if d.instance_type.startswith("n1-"):
        raise BadRequest(
            f"{d.instance_type} has accelerators attached one by one; export to skypilot, which attaches them"
        )
    config = {
        "machine_type": d.instance_type,
        "disk_size_gb": d.disk_gb,
        "spot": d.spot,
        "oauth_scopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "labels": {"tonnage-plan": d.name},
    }
    return (
        {
            "cluster": ("string", "id of the GKE cluster"),
            "node_locations": ("list(string)", f"zone of {d.region} with quota"),
        },
        "google_container_node_pool",
        {"name": d.name, "node_count": d.instances, "node_config": config},
    )


def _eks(d: Deployment) -> Group:
    """Variables, type and fields of the node group on EKS."""
    size = {"desired_size": d.instances, "min_size": d.instances, "max_size": d.instances + 1}
    return (
        {
            "cluster_name": ("string", "name of the EKS cluster"),
            "node_role_arn": ("string", "role of its nodes"),
            "subnet_ids": ("list(string)", f"subnets in {d.region}"),
        },
        "aws_eks_node_group",
        {
            "node_group_name": d.name, "capacity_type": "SPOT" if d.spot else "ON_DEMAND", "disk_size": d.disk_gb,
            "instance_types": [d.instance_type], "ami_type": "AL2023_x86_64_NVIDIA", "scaling_config": size,
            "labels": {"tonnage-plan": d.name},
        },
    )  # fmt: skip


def _aks(d: Deployment) -> Group:
    """Variables, type and fields of the node pool on AKS."""
    size = d.instance_type if d.instance_type.startswith("Standard_") else f"Standard_{d.instance_type}"
    spot: Fields = {"priority": "Spot", "eviction_policy": "Delete", "spot_max_price": -1} if d.spot else {}
    return (
        {"kubernetes_cluster_id": ("string", f"id of the AKS cluster in {d.region}")},
        "azurerm_kubernetes_cluster_node_pool",
        {
            # Names of pools have at most twelve letters and digits.
            "name": d.name.replace("-", "")[:12], "vm_size": size, "node_count": d.instances,
            "os_disk_size_gb": d.disk_gb, "node_labels": {"tonnage-plan": d.name}, **spot,
        },
    )  # fmt: skip


GROUPS = {"gcp": _gke, "aws": _eks, "azure": _aks}
"""Provider -> its variables, the resource, and what the plan says of it."""


def _literal(value: Any) -> Any:
    """Texts that Terraform takes as they are."""
    if isinstance(value, dict):
        return {name: _literal(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_literal(inner) for inner in value]
    return value.replace("${", "$${").replace("%{", "%%{") if isinstance(value, str) else value
