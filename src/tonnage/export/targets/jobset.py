"""
Training on Kubernetes: a JobSet of one pod a node, its files in a ConfigMap, and a Kueue queue of the plan's size.

What a framework writes goes to the claim, where checkpoints outlive the pods. Every pod learns the leader's name from
the JobSet's own DNS names and its rank from the index that Kubernetes gives it.
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.errors import BadRequest
from tonnage.export.target import Target, image, names
from tonnage.export.text import UNTESTED, shell, templated_name, yaml_text
from tonnage.export.training_files import CHECKPOINTS, TrainingFiles

TARGET = Target(
    name="jobset",
    title="Kubernetes JobSet and Kueue",
    version="jobset.x-k8s.io/v1alpha2, kueue.x-k8s.io/v1beta2",
    files=("jobset.yaml", "queue.yaml"),
    start="kubectl apply -f queue.yaml -f jobset.yaml",
    kinds=("train", "finetune"),
    vendors=("nvidia", "amd", "aws"),
    carries=True,
    source="kubernetes-sigs/jobset api/jobset/v1alpha2, kubernetes-sigs/kueue apis/kueue/v1beta2",
)
RESOURCE: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "aws": "aws.amazon.com/neuron"}
"""What each maker's device plug-in calls its accelerators; Neuron's counts chips."""
POD: Final = "node"
FOLDER: Final = "/checkpoints"


def export(found: TrainingFiles) -> dict[str, str]:
    """`jobset.yaml` and `queue.yaml`."""
    made = found.job
    templated_name(made.model, what="model", by="Kubernetes")
    vendor = made.vendor or names(made.accelerator).vendor
    if vendor not in RESOURCE:
        raise BadRequest(f"device plug-in and image for '{made.accelerator}' are not known; export to slurm")
    name = f"{made.name}-train"
    claim = "Checkpoints lie on one claim that every node mounts (ReadWriteMany): your storage class must offer that."
    settings = " ".join(f"--from-literal={variable}=..." for variable in found.needs)
    lines = [
        UNTESTED,
        *found.lines,
        "Needs the JobSet controller; queue.yaml needs Kueue, and without it the label queue-name does nothing.",
        *([claim] if made.nodes > 1 else []),
        *([f"What only you know: kubectl create configmap {name}-settings {settings}"] if settings else []),
        *(f"{variable}: {what}." for variable, what in found.needs.items()),
        "A gated model needs a token: kubectl create secret generic hf-token --from-literal=HF_TOKEN=...",
    ]
    top = TARGET.head(lines)
    work = _job_set(found, name, resource=RESOURCE[vendor], image_name=image(f"train-{vendor}"))
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-files"}, "data": dict(found.files)}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{name}-checkpoints"},
        "spec": {
            "accessModes": ["ReadWriteMany" if made.nodes > 1 else "ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{found.checkpoint_gb}G"}},
        },
    }
    return {
        "jobset.yaml": top + yaml_text(work, files, volume),
        "queue.yaml": TARGET.head(made.lines)
        + yaml_text(*_queue(name, resource=RESOURCE[vendor], count=made.nodes * made.per_node)),
    }


def _job_set(found: TrainingFiles, name: str, *, resource: str, image_name: str) -> dict[str, Any]:
    """A job of one pod a node; all start again when one fails, from the last checkpoint."""
    made = found.job
    pods = {
        "completionMode": "Indexed",
        "parallelism": made.nodes,
        "completions": made.nodes,
        "backoffLimit": 0,
        "template": {"spec": _pod(found, name, resource=resource, image_name=image_name)},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": f"{name}-queue"}},
        "spec": {
            "network": {"enableDNSHostnames": True},
            # A node that fails starts all again: they go on together from the last checkpoint.
            "failurePolicy": {"maxRestarts": found.restarts},
            "replicatedJobs": [{"name": POD, "replicas": 1, "template": {"spec": pods}}],
        },
    }


def _pod(found: TrainingFiles, name: str, *, resource: str, image_name: str) -> dict[str, Any]:
    """
    The pod of one node: it links the plan's files and the shared folder into /work and runs the framework's script.
    """
    count = {resource: found.job.per_node}
    steps = [
        "mkdir -p /work && cd /work && ln -sf /plan/* .",
        *(f"ln -sfn {FOLDER} {folder}" for folder in found.written),
        *([shell(["pip", "install", *found.framework.install.split()])] if found.framework.install else []),
        f"exec bash {found.script}",
    ]
    # The first pod of the only job, as JobSet names it.
    env = {"LEADER_ADDRESS": f"{name}-{POD}-0-0.{name}", **dict.fromkeys(CHECKPOINTS, FOLDER)}
    rank = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    token = {"secretKeyRef": {"name": "hf-token", "key": "HF_TOKEN", "optional": True}}
    container: dict[str, Any] = {
        "name": "train",
        "image": image_name,
        "command": ["bash", "-c", "\n".join(steps)],
        "env": [
            *({"name": variable, "value": value} for variable, value in env.items()),
            {"name": "NODE_RANK", "valueFrom": rank},
            {"name": "HF_TOKEN", "valueFrom": token},
        ],
        "resources": {"limits": count, "requests": count},
        "volumeMounts": [
            {"name": "plan", "mountPath": "/plan"},
            {"name": "checkpoints", "mountPath": FOLDER},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    if found.needs:
        container["envFrom"] = [{"configMapRef": {"name": f"{name}-settings"}}]
    return {
        "restartPolicy": "Never",
        "containers": [container],
        "tolerations": [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "plan", "configMap": {"name": f"{name}-files"}},
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": f"{name}-checkpoints"}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _queue(name: str, *, resource: str, count: int) -> list[dict[str, Any]]:
    """A queue that admits the run when all its accelerators are free, and no more than they are."""
    group, version = f"{name}-queue", "kueue.x-k8s.io/v1beta2"
    flavor = {"name": group, "resources": [{"name": resource, "nominalQuota": str(count)}]}
    return [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": group}},
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": group},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [{"coveredResources": [resource], "flavors": [flavor]}],
            },
        },
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": group},
            "spec": {"clusterQueue": group},
        },
    ]
