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

from tonnage.domain.plan import ServePlan
from tonnage.domain.serve_parts import FleetDay
from tonnage.engines.registry import metrics_of
from tonnage.export.kit import BadRequest, Deployment, Fields, Files, Server, Target, server

TARGET = Target(
    title="Kubernetes",
    version="1.37",
    files=("serve.yaml", "autoscale.yaml", "scale-to-zero.yaml"),
    start="kubectl apply -f serve.yaml",
    pools=True,
    units=True,
)
"""
Source: kubernetes.io/docs/reference/kubernetes-api, leaderworkerset.x-k8s.io/v1, autoscaling/v2, keda.sh/v1alpha1.
"""

RESOURCE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
"""What the device plug-in of each maker calls its accelerators; other makers need images of their own too."""

STARTUP_PERIOD_S = 10
"""Between two looks at a server that starts. [s]"""
ZERO = "scale-to-zero"
"""The plan's name for it."""
ADDRESSES = (
    'export NODE_ADDRESSES="$LWS_LEADER_ADDRESS"\n'
    "for at in $(seq 1 $((LWS_GROUP_SIZE - 1))); do\n"
    '  NODE_ADDRESSES+=" ${LWS_LEADER_ADDRESS%%.*}-$at.${LWS_LEADER_ADDRESS#*.}"\ndone\n'
)
"""The pods of a group: the leader, and workers called as it is with their number."""
INGRESS = "nginx_ingress_controller_requests"
"""Counter of requests that ingress-nginx exports; others name theirs otherwise."""


HF_TOKEN = {
    "name": "HF_TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "HF_TOKEN", "optional": True}},
}
SHARED_MEMORY = {"name": "shm", "emptyDir": {"medium": "Memory"}}
SHARED_MEMORY_MOUNT = {"name": "shm", "mountPath": "/dev/shm"}


def resource(kind: str, name: str, *, spec: Fields, **metadata: Fields) -> Fields:
    """
    One document for `kubectl apply`.

    >>> resource("apps/v1/Deployment", "llama", spec={"replicas": 1})["apiVersion"]
    'apps/v1'
    """
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def claim(name: str, *, shared: bool, gb: int) -> Fields:
    """Room on a file system; `shared` where pods of several nodes mount it."""
    modes, size = ["ReadWriteMany" if shared else "ReadWriteOnce"], {"storage": f"{gb}G"}
    return resource("v1/PersistentVolumeClaim", name, spec={"accessModes": modes, "resources": {"requests": size}})


def export(d: Deployment) -> Files:
    """`serve.yaml`, and for replicas of one node whose engine reports its load what scales them, to none if planned."""
    plan, made = d.plan, server(d)
    assert isinstance(plan, ServePlan)
    lines = [
        *made.notes,
        "A gated model needs a token: kubectl create secret generic hf-token --from-literal=HF_TOKEN=...",
        _where(d),
    ]
    if d.stored_bytes is not None and d.replicas * d.nodes > 1:
        lines.append("Weights lie on one claim for all replicas (ReadWriteMany): your storage class must offer that.")
    if d.members > 1:
        lines.append("Needs the LeaderWorkerSet controller (leaderworkerset.x-k8s.io/v1).")
    work = _leader_worker_set(d, made) if d.members > 1 else _deployment(d, made)
    documents = [work, _service(d), *models_claim(d), *_budget(d)]
    files = {"serve.yaml": TARGET.yaml(lines, *documents, beside=f" and {d.engine.name} {made.version}")}
    # Of requests in flight, as the engine's /metrics names it; absent where the page must be asked for.
    page = metrics_of(d.engine.name)
    gauge = page.scaled_by if page else None
    if d.members == 1 and gauge and plan.day is not None and plan.day.best == ZERO:
        files["scale-to-zero.yaml"] = _to_zero(d, gauge, idle_s=plan.request.idle_timeout_s, day=plan.day)
    elif d.members == 1 and gauge and d.replicas > 1:
        files["autoscale.yaml"] = _autoscale(d, gauge)
    return files


def _deployment(d: Deployment, made: Server) -> Fields:
    """Replicas that fit a node each; updates replace one at a time, as the plan has no accelerators for one more."""
    labels = {"app": d.name}
    spec = {
        "replicas": d.replicas,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": {"metadata": {"labels": labels}, "spec": _pod(d, made, list(made.contained))},
    }
    return resource("apps/v1/Deployment", d.name, spec=spec, labels=labels)


def _leader_worker_set(d: Deployment, made: Server) -> Fields:
    """Replicas that span several nodes: a leader that answers, and workers that serve its ranks."""
    place = 'export LEADER_ADDRESS="$LWS_LEADER_ADDRESS" NODE_RANK="$LWS_WORKER_INDEX"\n'
    if d.prefill_workers:
        place = ADDRESSES + place
    leader = _pod(d, made, ["bash", "-c", place + made.leader])
    template = {
        "size": d.members,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": {"metadata": {"labels": {"app": d.name}}, "spec": leader},
        "workerTemplate": {"spec": _pod(d, made, ["bash", "-c", place + made.worker], answers=False)},
    }
    spec = {"replicas": d.groups, "leaderWorkerTemplate": template}
    return resource("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", d.name, spec=spec)


def _pod(d: Deployment, made: Server, command: list[str], *, answers: bool = True) -> Fields:
    """One pod of a replica; a worker, which does not answer requests, has no port and no probes."""
    ranks = {resource_name(d): d.ranks_per_node}
    container: Fields = {
        "name": "server",
        "image": made.image,
        "command": [literal_argument(argument) for argument in command],
        "env": [HF_TOKEN, {"name": "HF_HOME", "value": "/models"}],
        "resources": {"limits": ranks, "requests": ranks},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}, SHARED_MEMORY_MOUNT],
    }
    if answers:
        probe = {"httpGet": {"path": made.health, "port": "http"}}
        # Until the weights are loaded neither of the other two probes runs.
        tries = math.ceil(d.patience_s(least=300.0) / STARTUP_PERIOD_S)
        container |= {
            "ports": [{"name": "http", "containerPort": d.port}],
            "startupProbe": {**probe, "periodSeconds": STARTUP_PERIOD_S, "failureThreshold": tries},
            "readinessProbe": {**probe, "periodSeconds": 5},
            "livenessProbe": {**probe, "periodSeconds": 15, "failureThreshold": 4},
        }
    tolerated = [{"key": resource_name(d), "operator": "Exists", "effect": "NoSchedule"}]
    pod = {
        "containers": [container],
        "nodeSelector": node_selector(d),
        "tolerations": tolerated + [{"key": key, "operator": "Exists"} for key in _spot(d)],
        "volumes": [{"name": "models", **models_volume(d)}, SHARED_MEMORY],
    }
    return {name: value for name, value in pod.items() if value}


def node_selector(d: Deployment) -> dict[str, str]:
    """The labels that the plan's instances carry; empty where none is known."""
    found = d.spelled
    if d.provider == "gcp" and found.gke:
        return {"cloud.google.com/gke-accelerator": found.gke, **_spot(d)}
    if d.provider in {"aws", "azure"}:
        prefix = "Standard_" if d.provider == "azure" and not d.instance_type.startswith("Standard_") else ""
        return {"node.kubernetes.io/instance-type": prefix + d.instance_type, **_spot(d)}
    return {**({"nvidia.com/gpu.product": found.product} if found.product else {}), **_spot(d)}


def _spot(d: Deployment) -> dict[str, str]:
    """The label of a provider's spot nodes, and the key of their taint; empty for others."""
    known = {
        "gcp": {"cloud.google.com/gke-spot": "true"},
        "aws": {"eks.amazonaws.com/capacityType": "SPOT"},
        "azure": {"kubernetes.azure.com/scalesetpriority": "spot"},
    }
    return known.get(d.provider, {}) if d.spot else {}


def _where(d: Deployment) -> str:
    chosen = node_selector(d)
    if not chosen:
        return f"No node label is known for {d.accelerator} at {d.provider}: add a nodeSelector if nodes differ."
    return f"Nodes are chosen by {', '.join(sorted(chosen))}."


def resource_name(d: Deployment) -> str:
    """What the maker's device plug-in calls the accelerator."""
    vendor = d.spelled.vendor
    if vendor not in RESOURCE:
        raise BadRequest(f"image and device plug-in for '{d.accelerator}' are not known; export to {d.engine.name}")
    return RESOURCE[vendor]


def models_volume(d: Deployment) -> Fields:
    """Where weights are kept: a claim of their size, which outlives the pod; the node's disk where it is not known."""
    if d.stored_bytes is None:
        return {"emptyDir": {}}
    return {"persistentVolumeClaim": {"claimName": f"{d.name}-models"}}


def models_claim(d: Deployment) -> list[Fields]:
    """Shared by all replicas, so that weights are downloaded once: of a file system that many nodes mount."""
    if d.stored_bytes is None:
        return []
    return [claim(f"{d.name}-models", shared=d.replicas * d.nodes > 1, gb=d.disk_gb)]


def _budget(d: Deployment) -> list[Fields]:
    """Drained nodes take one replica at a time; nothing where one replica is all there is."""
    if d.replicas < 2 or d.members > 1:
        return []
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": d.name}}}
    return [resource("policy/v1/PodDisruptionBudget", d.name, spec=spec)]


def _service(d: Deployment) -> Fields:
    """The Service before the replicas; of replicas over several nodes, before their leaders alone."""
    leaders = {"leaderworkerset.sigs.k8s.io/worker-index": "0"} if d.members > 1 else {}
    ports = [{"name": "http", "port": 80, "targetPort": d.port}]
    spec = {"selector": {"app": d.name, **leaders}, "ports": ports}
    return resource("v1/Service", d.name, spec=spec, labels={"app": d.name})


def _autoscale(d: Deployment, gauge: str) -> str:
    """Replicas from 1 to the planned number, so that each has at most its planned requests in flight."""
    lines = [
        "Optional: fewer replicas while load is below the planned peak.",
        f"Needs an adapter that serves {gauge} of /metrics as a pod metric (prometheus-adapter).",
        f"The target is the plan's requests in flight per replica at peak: {d.concurrency:,.1f}.",
    ]
    target = {"type": "AverageValue", "averageValue": str(max(1, math.floor(d.concurrency)))}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": d.name},
        "minReplicas": 1,
        "maxReplicas": d.replicas,
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": gauge.replace(":", "_")}, "target": target}}],
    }
    return TARGET.yaml(lines, resource("autoscaling/v2/HorizontalPodAutoscaler", d.name, spec=spec))


def _to_zero(d: Deployment, gauge: str, *, idle_s: float, day: FleetDay) -> str:
    """
    KEDA's: off while nobody asks, one replica with the first request, more by requests in flight.

    Source: keda.sh/docs/2.20/reference/scaledobject-spec and .../scalers/prometheus.
    """
    rate = day.usable_per_s
    lines = [
        "Off while nobody asks: the plan found that cheaper than keeping a replica on.",
        "Needs KEDA (keda.sh/v1alpha1), Prometheus, and an ingress that counts requests and holds them for the first",
        f"replica, which takes about {day.cold_start.value:,.0f} s; here the counter of ingress-nginx.",
        f"A replica is given {rate:.3g} requests/s, and {d.concurrency:,.1f} in flight at the planned peak.",
    ]
    arriving = f'sum(rate({INGRESS}{{exported_service="{d.name}"}}[1m]))'
    running = f'sum({gauge}{{app="{d.name}"}}) or vector(0)'
    asked = {
        "asked": {"query": arriving, "threshold": f"{rate:g}"},
        "in-flight": {"query": running, "threshold": str(max(1, math.floor(d.concurrency)))},
    }
    address = {"serverAddress": "http://prometheus-server.monitoring.svc"}
    spec = {
        "scaleTargetRef": {"name": d.name},
        "pollingInterval": 5,
        "cooldownPeriod": round(idle_s),
        "minReplicaCount": 0,
        "maxReplicaCount": d.replicas,
        "triggers": [
            {"type": "prometheus", "name": name, "metadata": {**address, **what, "activationThreshold": "0"}}
            for name, what in asked.items()
        ],
    }
    return TARGET.yaml(lines, resource("keda.sh/v1alpha1/ScaledObject", d.name, spec=spec))


def literal_argument(argument: str) -> str:
    """Kubernetes replaces $(NAME) in commands, Compose $NAME in every text; a doubled dollar stays a dollar."""
    return argument.replace("$", "$$")
