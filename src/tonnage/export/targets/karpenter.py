"""
Karpenter: the node pool of a plan's instances on EKS.

One pool for the planned instance type and term, bounded by the planned count, so that pods scale it and nothing else
does. The cluster's name is the reader's own and is filled in by `envsubst`, as Karpenter's own guides do it.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import BadRequest, Deployment, Fields, Target, templated_name
from tonnage.export.targets.kubernetes import resource, resource_name

TARGET = Target(
    title="Karpenter on EKS",
    version="karpenter.sh/v1",
    files=("pool.yaml",),
    start="CLUSTER_NAME=... envsubst < pool.yaml | kubectl apply -f -",
)
"""Source: kubernetes-sigs/karpenter pkg/apis/v1, aws/karpenter-provider-aws examples/v1 at 88f7191."""

IDLE: Final = "10m"
"""A node without pods is kept so long: a replica that restarts finds it and its images. Assumed."""
SPARE: Final = 1
"""Instances beyond the planned count, for a node that is replaced. [instances]"""


def export(d: Deployment) -> str:
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
    return TARGET.yaml(lines, _pool(d), _node_class(d))


def _pool(d: Deployment) -> Fields:
    """Nodes of the planned instance type alone, for pods that tolerate its accelerators, with room for spares."""
    accelerators = resource_name(d)
    kind = templated_name(d.instance_type, what="instance type", by="envsubst")
    requirements = {
        "node.kubernetes.io/instance-type": kind,
        "karpenter.sh/capacity-type": "spot" if d.spot else "on-demand",
        "topology.kubernetes.io/region": templated_name(d.region, what="region", by="envsubst"),
    }
    node = {
        "requirements": [{"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()],
        "taints": [{"key": accelerators, "effect": "NoSchedule"}],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": d.name},
        "expireAfter": "Never",
    }
    spec = {
        "template": {"metadata": {"labels": {"tonnage-plan": d.name}}, "spec": node},
        "limits": {accelerators: str((d.instances + SPARE) * d.per_node)},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": IDLE},
    }
    return resource("karpenter.sh/v1/NodePool", d.name, spec=spec)


def _node_class(d: Deployment) -> Fields:
    """The EC2 node class of the pool; the cluster's name is left to the user as `${CLUSTER_NAME}`."""
    ours = [{"tags": {"karpenter.sh/discovery": "${CLUSTER_NAME}"}}]
    disk = {"volumeSize": f"{d.disk_gb}Gi", "volumeType": "gp3", "deleteOnTermination": True}
    spec = {
        "role": "KarpenterNodeRole-${CLUSTER_NAME}",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": ours,
        "securityGroupSelectorTerms": ours,
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": disk}],
    }
    return resource("karpenter.k8s.aws/v1/EC2NodeClass", d.name, spec=spec)
