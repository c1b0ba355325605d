"""
Kubernetes: Deployment and Service with an autoscaler, or a LeaderWorkerSet where a replica spans several nodes.

Where the plan found that turning everything off between requests is cheapest, KEDA does so: no pod reports demand while
none runs, so the ingress in front of the service is asked for it.

Nodes are chosen by the labels their platform sets: GKE's accelerator label, elsewhere the instance type that the plan
priced (EKS, AKS and most others set it), or the product label of NVIDIA's feature discovery. Accelerators are asked for
by the vendor's device plug-in.
"""

from __future__ import annotations

import math
from typing import Any

from tonnage.domain.plan import ServePlan
from tonnage.engines.registry import server_metrics
from tonnage.errors import BadRequest
from tonnage.export.deployment import Deployment, server
from tonnage.export.target import Server, Target, names
from tonnage.export.text import head, yaml_text

TARGET = Target(
    name="kubernetes",
    title="Kubernetes",
    version="1.37",
    files=("serve.yaml", "autoscale.yaml", "scale-to-zero.yaml"),
    start="kubectl apply -f serve.yaml",
    source="kubernetes.io/docs/reference/kubernetes-api, leaderworkerset.x-k8s.io/v1, autoscaling/v2, keda.sh/v1alpha1",
)

RESOURCE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
"""What the device plug-in of each maker calls its accelerators; other makers need images of their own too."""

STARTUP_PERIOD_S = 10
"""Between two looks at a server that starts. [s]"""
ZERO = "scale-to-zero"
"""The plan's name for it."""
INGRESS = "nginx_ingress_controller_requests"
"""Counter of requests that ingress-nginx exports; others name theirs otherwise."""


def export(d: Deployment) -> dict[str, str]:
    """`serve.yaml`, and for replicas of one node whose engine reports its load what scales them, to none if planned."""
    plan, made = d.plan, server(d)
    assert isinstance(plan, ServePlan)
    lines = [
        *d.lines,
        *made.notes,
        "A gated model needs a token: kubectl create secret generic hf-token --from-literal=HF_TOKEN=...",
        _where(d),
    ]
    if d.stored_bytes is not None and d.replicas * d.nodes > 1:
        lines.append("Weights lie on one claim for all replicas (ReadWriteMany): your storage class must offer that.")
    if d.nodes > 1:
        lines.append("Needs the LeaderWorkerSet controller (leaderworkerset.x-k8s.io/v1).")
    top = head(f"{TARGET.title} {TARGET.version} and {d.engine.name}", made.version, lines=lines)
    work = _leader_worker_set(d, made) if d.nodes > 1 else _deployment(d, made)
    files = {"serve.yaml": top + yaml_text(work, _service(d), *models_claim(d), *_budget(d))}
    if d.nodes == 1 and plan.day is not None and plan.day.best == ZERO and _running(d) is not None:
        files["scale-to-zero.yaml"] = _zero_head(d, plan) + yaml_text(_scaled_object(d, plan))
    elif d.nodes == 1 and d.replicas > 1 and _running(d) is not None:
        files["autoscale.yaml"] = _autoscale_head(d) + yaml_text(_autoscaler(d))
    return files


def _running(d: Deployment) -> str | None:
    """Gauge of requests in flight, as the engine's /metrics names it; absent where the page must be asked for."""
    return next((page.scaled_by for page in server_metrics() if page.name == d.engine.name), None)


def _deployment(d: Deployment, made: Server) -> dict[str, Any]:
    """Replicas that fit a node each; updates replace one at a time, as the plan has no accelerators for one more."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": d.name, "labels": {"app": d.name}},
        "spec": {
            "replicas": d.replicas,
            "selector": {"matchLabels": {"app": d.name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"app": d.name}},
                "spec": _pod(d, made, list(made.argv)),
            },
        },
    }


def _leader_worker_set(d: Deployment, made: Server) -> dict[str, Any]:
    """Replicas that span several nodes: a leader that answers, and workers that serve its ranks."""
    place = 'export LEADER_ADDRESS="$LWS_LEADER_ADDRESS" NODE_RANK="$LWS_WORKER_INDEX"\n'
    leader = _pod(d, made, ["bash", "-c", place + made.leader])
    worker = _pod(d, made, ["bash", "-c", place + made.worker], answers=False)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": d.name},
        "spec": {
            "replicas": d.replicas,
            "leaderWorkerTemplate": {
                "size": d.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {"metadata": {"labels": {"app": d.name}}, "spec": leader},
                "workerTemplate": {"spec": worker},
            },
        },
    }


def _pod(d: Deployment, made: Server, command: list[str], *, answers: bool = True) -> dict[str, Any]:
    """One pod of a replica; a worker, which does not answer requests, has no port and no probes."""
    ranks = {resource_name(d): d.ranks_per_node}
    container: dict[str, Any] = {
        "name": "server",
        "image": made.image,
        "command": [literal_argument(argument) for argument in command],
        "env": [
            {
                "name": "HF_TOKEN",
                "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "HF_TOKEN", "optional": True}},
            },
            {"name": "HF_HOME", "value": "/models"},
        ],
        "resources": {"limits": ranks, "requests": ranks},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    if answers:
        probe = {"httpGet": {"path": made.health, "port": "http"}}
        container["ports"] = [{"name": "http", "containerPort": d.port}]
        # Until the weights are loaded neither of the other two probes runs.
        tries = math.ceil(d.patience_s(least=300.0) / STARTUP_PERIOD_S)
        container["startupProbe"] = {**probe, "periodSeconds": STARTUP_PERIOD_S, "failureThreshold": tries}
        container["readinessProbe"] = {**probe, "periodSeconds": 5}
        container["livenessProbe"] = {**probe, "periodSeconds": 15, "failureThreshold": 4}
    pod: dict[str, Any] = {
        "containers": [container],
        "nodeSelector": node_selector(d),
        "tolerations": [{"key": resource_name(d), "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [
            {"name": "models", **models_volume(d)},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }
    if d.spot:
        pod["tolerations"] += [{"key": key, "operator": "Exists"} for key in _spot(d)]
    return {name: value for name, value in pod.items() if value}


def node_selector(d: Deployment) -> dict[str, str]:
    """The labels that the plan's instances carry; empty where none is known."""
    found = names(d.accelerator)
    spot = _spot(d) if d.spot else {}
    if d.provider == "gcp" and found.gke:
        return {"cloud.google.com/gke-accelerator": found.gke, **spot}
    if d.provider in {"aws", "azure"}:
        prefix = "Standard_" if d.provider == "azure" and not d.instance_type.startswith("Standard_") else ""
        return {"node.kubernetes.io/instance-type": prefix + d.instance_type, **spot}
    return {"nvidia.com/gpu.product": found.product, **spot} if found.product else spot


def _spot(d: Deployment) -> dict[str, str]:
    return {
        "gcp": {"cloud.google.com/gke-spot": "true"},
        "aws": {"eks.amazonaws.com/capacityType": "SPOT"},
        "azure": {"kubernetes.azure.com/scalesetpriority": "spot"},
    }.get(d.provider, {})


def _where(d: Deployment) -> str:
    chosen = node_selector(d)
    if not chosen:
        return f"No node label is known for {d.accelerator} at {d.provider}: add a nodeSelector if nodes differ."
    return "Nodes are chosen by " + ", ".join(sorted(chosen)) + "."


def resource_name(d: Deployment) -> str:
    """What the maker's device plug-in calls the accelerator."""
    vendor = names(d.accelerator).vendor
    if vendor not in RESOURCE:
        raise BadRequest(f"image and device plug-in for '{d.accelerator}' are not known; export to {d.engine.name}")
    return RESOURCE[vendor]


def models_volume(d: Deployment) -> dict[str, Any]:
    """Where weights are kept: a claim of their size, which outlives the pod; the node's disk where it is not known."""
    if d.stored_bytes is None:
        return {"emptyDir": {}}
    return {"persistentVolumeClaim": {"claimName": f"{d.name}-models"}}


def models_claim(d: Deployment) -> list[dict[str, Any]]:
    """Shared by all replicas, so that weights are downloaded once: of a file system that many nodes mount."""
    if d.stored_bytes is None:
        return []
    alone = d.replicas * d.nodes == 1
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"{d.name}-models"},
            "spec": {
                "accessModes": ["ReadWriteOnce" if alone else "ReadWriteMany"],
                "resources": {"requests": {"storage": f"{d.disk_gb}G"}},
            },
        }
    ]


def _budget(d: Deployment) -> list[dict[str, Any]]:
    """Drained nodes take one replica at a time; nothing where one replica is all there is."""
    if d.replicas < 2 or d.nodes > 1:
        return []
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": d.name},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": d.name}}},
        }
    ]


def _service(d: Deployment) -> dict[str, Any]:
    """The Service before the replicas; of replicas over several nodes, before their leaders alone."""
    leaders = {"leaderworkerset.sigs.k8s.io/worker-index": "0"} if d.nodes > 1 else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": d.name, "labels": {"app": d.name}},
        "spec": {
            "selector": {"app": d.name, **leaders},
            "ports": [{"name": "http", "port": 80, "targetPort": d.port}],
        },
    }


def _autoscaler(d: Deployment) -> dict[str, Any]:
    """Replicas from 1 to the planned number, so that each has at most its planned requests in flight."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": d.name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": d.name},
            "minReplicas": 1,
            "maxReplicas": d.replicas,
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {
                        "metric": {"name": str(_running(d)).replace(":", "_")},
                        "target": {"type": "AverageValue", "averageValue": str(max(1, math.floor(d.concurrency)))},
                    },
                }
            ],
        },
    }


def _autoscale_head(d: Deployment) -> str:
    lines = [
        "Optional: fewer replicas while load is below the planned peak.",
        f"Needs an adapter that serves {_running(d)} of /metrics as a pod metric (prometheus-adapter).",
        f"The target is the plan's requests in flight per replica at peak: {d.concurrency:,.1f}.",
    ]
    return TARGET.head(lines)


def _scaled_object(d: Deployment, plan: ServePlan) -> dict[str, Any]:
    """
    KEDA's: off while nobody asks, one replica with the first request, more by requests in flight.

    Source: keda.sh/docs/2.20/reference/scaledobject-spec and .../scalers/prometheus.
    """
    address = {"serverAddress": "http://prometheus-server.monitoring.svc"}
    arriving = f'sum(rate({INGRESS}{{exported_service="{d.name}"}}[1m]))'
    running = f'sum({_running(d)}{{app="{d.name}"}}) or vector(0)'
    per_replica = str(max(1, math.floor(d.concurrency)))
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": d.name},
        "spec": {
            "scaleTargetRef": {"name": d.name},
            "pollingInterval": 5,
            "cooldownPeriod": round(plan.request.idle_timeout_s),
            "minReplicaCount": 0,
            "maxReplicaCount": d.replicas,
            "triggers": [
                {
                    "type": "prometheus",
                    "name": "asked",
                    "metadata": {
                        **address,
                        "query": arriving,
                        "threshold": f"{_rate(plan):g}",
                        "activationThreshold": "0",
                    },
                },
                {
                    "type": "prometheus",
                    "name": "in-flight",
                    "metadata": {**address, "query": running, "threshold": per_replica, "activationThreshold": "0"},
                },
            ],
        },
    }


def _rate(plan: ServePlan) -> float:
    """What one replica is given at most. [1/s]"""
    assert plan.day is not None
    return plan.day.usable_per_s


def _zero_head(d: Deployment, plan: ServePlan) -> str:
    assert plan.day is not None
    lines = [
        "Off while nobody asks: the plan found that cheaper than keeping a replica on.",
        "Needs KEDA (keda.sh/v1alpha1), Prometheus, and an ingress that counts requests and holds them for the first",
        f"replica, which takes about {plan.day.cold_start.value:,.0f} s; here the counter of ingress-nginx.",
        f"A replica is given {_rate(plan):.3g} requests/s, and {d.concurrency:,.1f} in flight at the planned peak.",
    ]
    return TARGET.head(lines)


def literal_argument(argument: str) -> str:
    """Kubernetes replaces $(NAME) in commands, Compose $NAME in every text; a doubled dollar stays a dollar."""
    return argument.replace("$", "$$")
