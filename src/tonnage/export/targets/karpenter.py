"""
Karpenter: the node pool of a plan's instances on EKS.

One pool for the planned instance type and term, bounded by the planned count, so that pods scale it and nothing else
does. The cluster's name is the reader's own and is filled in by `envsubst`, as Karpenter's own guides do it.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.errors import BadRequest
from tonnage.export.deployment import Deployment
from tonnage.export.target import Target
from tonnage.export.targets.kubernetes import resource_name
from tonnage.export.text import templated_name, yaml_text

TARGET = Target(
    name="karpenter",
    title="Karpenter on EKS",
    version="karpenter.sh/v1",
    files=("pool.yaml",),
    start="CLUSTER_NAME=... envsubst < pool.yaml | kubectl apply -f -",
    source="kubernetes-sigs/karpenter pkg/apis/v1, aws/karpenter-provider-aws examples/v1 at 88f7191",
)

IDLE: Final = "10m"
"""A node without pods is kept so long: a replica that restarts finds it and its images. Assumed."""
SPARE: Final = 1
"""Instances beyond the planned count, for a node that is replaced. [instances]"""


def export(d: Deployment) -> dict[str, str]:
    """`pool.yaml`: the pool and its node class."""
    if d.provider != "aws":
        raise BadRequest(
            f"these Karpenter files are for EKS, and the plan rents at {d.provider}; "
            "export to terraform or kubernetes, or plan with --provider aws"
        )
    lines = [
        *d.lines,
        "CLUSTER_NAME is filled in by envsubst; subnets and security groups are those tagged for the cluster.",
        "Serve with the files of --to kubernetes: their pods ask for this instance type.",
    ]
    text = yaml_text(_pool(d), _node_class(d))
    return {"pool.yaml": TARGET.head(lines) + text}


def _pool(d: Deployment) -> dict[str, Any]:
    """Nodes of the planned instance type alone, for pods that tolerate its accelerators, with room for spares."""
    resource = resource_name(d)
    kind = templated_name(d.instance_type, what="instance type", by="envsubst")
    requirements = {
        "node.kubernetes.io/instance-type": kind,
        "karpenter.sh/capacity-type": "spot" if d.spot else "on-demand",
        "topology.kubernetes.io/region": templated_name(d.region, what="region", by="envsubst"),
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": d.name},
        "spec": {
            "template": {
                "metadata": {"labels": {"tonnage-plan": d.name}},
                "spec": {
                    "requirements": [
                        {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()
                    ],
                    "taints": [{"key": resource, "effect": "NoSchedule"}],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": d.name},
                    "expireAfter": "Never",
                },
            },
            "limits": {resource: str((d.instances + SPARE) * d.per_node)},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": IDLE},
        },
    }


def _node_class(d: Deployment) -> dict[str, Any]:
    """The EC2 node class of the pool; the cluster's name is left to the user as `${CLUSTER_NAME}`."""
    ours = [{"tags": {"karpenter.sh/discovery": "${CLUSTER_NAME}"}}]
    disk = {"volumeSize": f"{d.disk_gb}Gi", "volumeType": "gp3", "deleteOnTermination": True}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": d.name},
        "spec": {
            "role": "KarpenterNodeRole-${CLUSTER_NAME}",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": ours,
            "securityGroupSelectorTerms": ours,
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": disk}],
        },
    }
