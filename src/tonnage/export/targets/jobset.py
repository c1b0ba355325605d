"""
Training on Kubernetes: a JobSet of one pod a node, its files in a ConfigMap, and a Kueue queue of the plan's size.

What a framework writes goes to the claim, where checkpoints outlive the pods. Every pod learns the leader's name from
the JobSet's own DNS names and its rank from the index that Kubernetes gives it.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import (
    CHECKPOINTS,
    UNTESTED,
    BadRequest,
    Fields,
    Files,
    Job,
    Target,
    TrainingFiles,
    image,
    shell,
    templated_name,
)
from tonnage.export.targets.kubernetes import HF_TOKEN, SHARED_MEMORY, SHARED_MEMORY_MOUNT, claim, resource

TARGET = Target(
    title="Kubernetes JobSet and Kueue",
    version="jobset.x-k8s.io/v1alpha2, kueue.x-k8s.io/v1beta2",
    files=("jobset.yaml", "queue.yaml"),
    start="kubectl apply -f queue.yaml -f jobset.yaml",
    kinds=("train", "finetune"),
    vendors=("nvidia", "amd", "aws"),
    carries=True,
)
"""Source: kubernetes-sigs/jobset api/jobset/v1alpha2, kubernetes-sigs/kueue apis/kueue/v1beta2."""
RESOURCE: Final = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "aws": "aws.amazon.com/neuron"}
"""What each maker's device plug-in calls its accelerators; Neuron's counts chips."""
POD: Final = "node"
FOLDER: Final = "/checkpoints"


def export(found: TrainingFiles) -> Files:
    """`jobset.yaml` and `queue.yaml`."""
    made = found.job
    templated_name(made.model, what="model", by="Kubernetes")
    if made.vendor not in RESOURCE:
        raise BadRequest(f"device plug-in and image for '{made.accelerator}' are not known; export to slurm")
    name = f"{made.name}-train"
    shared = "Checkpoints lie on one claim that every node mounts (ReadWriteMany): your storage class must offer that."
    settings = " ".join(f"--from-literal={variable}=..." for variable in found.needs)
    lines = [
        UNTESTED,
        *found.lines,
        "Needs the JobSet controller; queue.yaml needs Kueue, and without it the label queue-name does nothing.",
        *([shared] if made.nodes > 1 else []),
        *([f"What only you know: kubectl create configmap {name}-settings {settings}"] if settings else []),
        *(f"{variable}: {what}." for variable, what in found.needs.items()),
        "A gated model needs a token: kubectl create secret generic hf-token --from-literal=HF_TOKEN=...",
    ]
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-files"}, "data": dict(found.files)}
    volume = claim(f"{name}-checkpoints", shared=made.nodes > 1, gb=found.checkpoint_gb)
    return {
        "jobset.yaml": TARGET.yaml(lines, _job_set(found, name), files, volume),
        "queue.yaml": TARGET.yaml(made.lines, *_queue(name, made)),
    }


def _job_set(found: TrainingFiles, name: str) -> Fields:
    """A job of one pod a node; all start again when one fails, from the last checkpoint."""
    made = found.job
    pods = {
        "completionMode": "Indexed",
        "parallelism": made.nodes,
        "completions": made.nodes,
        "backoffLimit": 0,
        "template": {"spec": _pod(found, name)},
    }
    spec = {
        "network": {"enableDNSHostnames": True},
        # A node that fails starts all again: they go on together from the last checkpoint.
        "failurePolicy": {"maxRestarts": found.restarts},
        "replicatedJobs": [{"name": POD, "replicas": 1, "template": {"spec": pods}}],
    }
    labels = {"kueue.x-k8s.io/queue-name": f"{name}-queue"}
    return resource("jobset.x-k8s.io/v1alpha2/JobSet", name, spec=spec, labels=labels)


def _pod(found: TrainingFiles, name: str) -> Fields:
    """
    The pod of one node: it links the plan's files and the shared folder into /work and runs the framework's script.
    """
    vendor = found.job.vendor
    count = {RESOURCE[vendor]: found.job.per_node}
    steps = [
        "mkdir -p /work && cd /work && ln -sf /plan/* .",
        *(f"ln -sfn {FOLDER} {folder}" for folder in found.written),
        *([shell(["pip", "install", *found.framework.install.split()])] if found.framework.install else []),
        f"exec bash {found.script}",
    ]
    # The first pod of the only job, as JobSet names it.
    env = {"LEADER_ADDRESS": f"{name}-{POD}-0-0.{name}", **dict.fromkeys(CHECKPOINTS, FOLDER)}
    rank = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    container: Fields = {
        "name": "train",
        "image": image(f"train-{vendor}"),
        "command": ["bash", "-c", "\n".join(steps)],
        "env": [
            *({"name": variable, "value": value} for variable, value in env.items()),
            {"name": "NODE_RANK", "valueFrom": rank},
            HF_TOKEN,
        ],
        "resources": {"limits": count, "requests": count},
        "volumeMounts": [
            {"name": "plan", "mountPath": "/plan"},
            {"name": "checkpoints", "mountPath": FOLDER},
            SHARED_MEMORY_MOUNT,
        ],
    }
    if found.needs:
        container["envFrom"] = [{"configMapRef": {"name": f"{name}-settings"}}]
    return {
        "restartPolicy": "Never",
        "containers": [container],
        "tolerations": [{"key": RESOURCE[vendor], "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "plan", "configMap": {"name": f"{name}-files"}},
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": f"{name}-checkpoints"}},
            SHARED_MEMORY,
        ],
    }


def _queue(name: str, made: Job) -> list[Fields]:
    """A queue that admits the run when all its accelerators are free, and no more than they are."""
    group, counted, version = f"{name}-queue", RESOURCE[made.vendor], "kueue.x-k8s.io/v1beta2"
    flavor = {"name": group, "resources": [{"name": counted, "nominalQuota": str(made.nodes * made.per_node)}]}
    groups = [{"coveredResources": [counted], "flavors": [flavor]}]
    return [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": group}},
        resource(f"{version}/ClusterQueue", group, spec={"namespaceSelector": {}, "resourceGroups": groups}),
        resource(f"{version}/LocalQueue", group, spec={"clusterQueue": group}),
    ]
