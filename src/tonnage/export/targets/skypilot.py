"""SkyPilot: a task with a service section; `sky serve up` keeps the plan's replicas, `sky launch` starts one."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.domain.batch_plan import BatchPlan
from tonnage.export.kit import (
    CHECKPOINTS,
    Deployment,
    Fields,
    Files,
    Job,
    Target,
    TrainingFiles,
    batch_files,
    cloud,
    image,
    names,
    server,
    shell,
)
from tonnage.export.targets.slurm import FRAMEWORK_FILES
from tonnage.export.targets.vllm import settings

TARGET = Target(
    title="SkyPilot",
    version="0.14.1",
    files=(
        "service.yaml",
        "job.yaml",
        "train.yaml",
        "pool.sh",
        "launch.sh",
        "batch.py",
        "engine.json",
        *FRAMEWORK_FILES,
    ),
    start="sky serve up service.yaml --secret HF_TOKEN",
    before={"pool.sh": 'HOSTS="ADDRESS ..." bash pool.sh && '},
    starts={
        "train.yaml": "sky jobs launch train.yaml --env BUCKET=... --secret HF_TOKEN",
        "job.yaml": "BUCKET=... bash launch.sh",
    },
    kinds=("serve", "batch", "train", "finetune"),
    vendors=("nvidia", "amd"),
    carries=True,
    pools=True,
    units=True,
)
"""Source: docs.skypilot.co/en/stable/reference/yaml-spec.html; names from its catalogue."""

PLACE = 'export LEADER_ADDRESS="$(head -n1 <<< "$SKYPILOT_NODE_IPS")" NODE_RANK="$SKYPILOT_NODE_RANK"'
"""What a script needs to know of its node, in SkyPilot's variables."""
ALL = 'export NODE_ADDRESSES="$(echo $SKYPILOT_NODE_IPS)" NODE_RANK="$SKYPILOT_NODE_RANK"'
"""And of all nodes, one a line there."""
OWN_CLUSTER = "kubernetes"
"""
Where machines that are the reader's own run: parts are called as their nodes are labelled (skypilot.co/accelerator).

Source: skypilot-org/skypilot README-amd.md; skypilot-catalog catalogs/v8/common/accelerators.csv at 001ca54.
"""
POOL = "ssh"
"""
Where machines run that the reader rents and SkyPilot does not: joined by `sky ssh up` into a cluster of k3s, whose
load balancer gives a port to one replica alone, and for NVIDIA's parts alone.

Source: docs.skypilot.co/en/latest/reservations/existing-machines.html; sky/ssh_node_pools/deploy/deploy.py of 0.14.1;
k3s-io/k3s#1969.
"""
IMAGE_GB = 256
"""Disk of a node that trains: image, packages and the base model; checkpoints lie in the bucket. [GB]"""
SXM_AT_RUNPOD = frozenset({"A100-80GB", "H100", "H200"})
"""Parts whose SXM variant SkyPilot's listing of RunPod names apart."""


def export(d: Deployment | TrainingFiles) -> Files:
    """
    `service.yaml`; of a batch plan `job.yaml`, what starts it for each replica, and the loop it runs.

    Of a training plan `train.yaml` beside its framework's files.
    """
    if isinstance(d, TrainingFiles):
        return _training(d)
    if isinstance(d.plan, BatchPlan):
        return _managed_job(d)
    made = server(d)
    command = shell(made.contained)
    if d.members > 1:
        command = f"{ALL if d.prefill_workers else PLACE}\n{made.by_rank}"
    document: Fields = {
        "name": d.name,
        "resources": {**_resources(d, made.image, ports=True), "ports": d.port},
        "num_nodes": d.members,
        "secrets": {"HF_TOKEN": None},
        "service": {
            "readiness_probe": {"path": made.health, "initial_delay_seconds": d.patience_s(least=300.0)},
            "replicas": d.groups,
        },
        "run": command + "\n",
    }
    joined, pool = _joined(d, document["resources"], replicas=d.groups)
    lines = [
        *made.notes,
        *joined,
        "HF_TOKEN is handed over when it starts (--secret HF_TOKEN); it never stands here.",
    ]
    return {"service.yaml": TARGET.yaml(lines, document), **pool}


def _training(found: TrainingFiles) -> Files:
    """A managed job of all nodes: started again elsewhere when one is lost, from the last checkpoint in the bucket."""
    made = found.job
    resources = {
        **_placed(made, per_node=made.per_node, needs={"mounts": True, "nodes": made.nodes > 1}),
        "image_id": f"docker:{image(f'train-{made.vendor}')}",
        "use_spot": made.spot,
        "disk_size": IMAGE_GB,
        "job_recovery": {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": found.restarts},
    }
    links = "\n".join(f"ln -sfn /checkpoints {folder}" for folder in found.written)
    document: Fields = {
        "name": f"{made.name}-train",
        "resources": resources,
        "num_nodes": made.nodes,
        "workdir": ".",
        "file_mounts": {"/checkpoints": {"source": "${BUCKET}", "mode": "MOUNT_CACHED"}},
        "secrets": {"HF_TOKEN": None},
        "envs": {"BUCKET": None, **dict.fromkeys(found.needs), **dict.fromkeys(CHECKPOINTS, "/checkpoints")},
        **(
            {"setup": shell(["pip", "install", *found.framework.install.split()]) + "\n"}
            if found.framework.install
            else {}
        ),
        "run": f"{PLACE}\n{links}\nexec bash {found.script}\n",
    }
    joined, pool = _joined(made, resources)
    lines = [
        *found.lines,
        *joined,
        "BUCKET (s3://, gs://) keeps the checkpoints. Handed over with --env when it starts:",
        *(f"{variable}: {what}" for variable, what in found.needs.items()),
        "sky jobs launch train.yaml --env BUCKET=... --secret HF_TOKEN",
    ]
    return {"train.yaml": TARGET.yaml(lines, document), **pool, **found.files}


def _managed_job(d: Deployment) -> Files:
    """A managed job of one replica: started again elsewhere when it is preempted; finished parts stay."""
    made = server(d)
    document: Fields = {
        "name": f"{d.name}-batch",
        "resources": {**_resources(d, made.image, mounts=True), "job_recovery": {"strategy": "EAGER_NEXT_REGION"}},
        "workdir": ".",
        "file_mounts": {"/batch": {"source": "${BUCKET}", "mode": "MOUNT"}},
        "secrets": {"HF_TOKEN": None},
        "envs": {"BUCKET": None, "SHARD": "0", "SHARDS": str(d.replicas)},
        "run": "INPUT=/batch/requests.jsonl OUTPUT=/batch/answers python3 batch.py\n",
    }
    joined, pool = _joined(d, document["resources"])
    lines = [
        *d.lines,
        *joined,
        "BUCKET (s3://, gs://) holds requests.jsonl and receives answers/part-*.jsonl; finished parts stay.",
    ]
    start = (
        f"for shard in $(seq 0 {d.replicas - 1}); do\n"
        '  sky jobs launch job.yaml --env BUCKET="$BUCKET" --env SHARD="$shard" --secret HF_TOKEN -d -y\ndone\n'
    )
    return {
        "job.yaml": TARGET.yaml(lines, document),
        "launch.sh": TARGET.script(lines, start, needs={"BUCKET": "s3:// or gs:// with requests.jsonl"}),
        **pool,
        **batch_files(d, settings=settings(d)),
    }


def _resources(d: Deployment, image_name: str, **needs: bool) -> Fields:
    return {
        **_placed(d, per_node=d.ranks_per_node, needs={**needs, "nodes": d.members > 1}),
        "image_id": f"docker:{image_name}",
        "use_spot": d.spot,
        "disk_size": d.disk_gb,
    }


def _placed(found: Deployment | Job, *, per_node: int, needs: Mapping[str, bool]) -> Fields:
    """
    The accelerators of a node as SkyPilot spells them, and where; the region only where it is written as the
    provider's own tools do. On the reader's own machines a part may be called as its nodes are labelled.

    Raises
    ------
    BadRequest
        SkyPilot does not rent what is needed at that provider.
    """
    asked = {"containers": True, "spot": found.spot, **needs}
    instead = "slurm" if isinstance(found, Job) else "vllm-batch" if isinstance(found.plan, BatchPlan) else "kubernetes"
    infra = cloud("skypilot", found.provider, needs=[need for need, wanted in asked.items() if wanted], instead=instead)
    known = names(found.accelerator)
    if infra == POOL and known.vendor == "amd":
        infra = OWN_CLUSTER
    own = infra in {OWN_CLUSTER, POOL} and not known.skypilot and known.vendor in TARGET.vendors
    name = found.accelerator.upper() if own else known.required("skypilot")
    if infra == "runpod" and name in SXM_AT_RUNPOD and "-sxm" in found.accelerator:
        name = f"{name}-SXM"
    within = {"aws": found.region, "gcp": found.region, POOL: found.name}.get(infra)
    return {"accelerators": {name: per_node}, "infra": f"{infra}/{within}" if within else infra}


def _joined(found: Deployment | Job, resources: Fields, *, replicas: int = 1) -> tuple[list[str], Files]:
    """How machines that SkyPilot does not rent are given to it, and the script that does; none where it rents them."""
    (name,), (infra, _, pool) = resources["accelerators"], resources["infra"].partition("/")
    label = f"skypilot.co/accelerator={name.lower()}"
    if infra == OWN_CLUSTER:
        return [f"It runs on your Kubernetes nodes labelled {label}."], {}
    if infra != POOL:
        return [], {}
    lines = [
        f"SkyPilot {TARGET.version} starts no containers at {found.provider} by itself: rent the machines there, with "
        "Ubuntu, NVIDIA's driver and port 6443 open among them, and join them: pool.sh."
    ]
    if replicas > 1:
        podip = f"kubernetes: {{context_configs: {{ssh-{pool}: {{ports: podip}}}}}}"
        lines.append(f"In ~/.sky/config.yaml, as a port there is of one replica: {podip}")
    body = (
        f"printf '{pool}: {{hosts: [%s]}}\\n' \"${{HOSTS// /, }}\" > pool.yaml\n"
        f"sky ssh up --infra {pool} --file pool.yaml\n"
        f"kubectl --context ssh-{pool} label nodes --all --overwrite {label}\n"
    )
    return lines, {"pool.sh": TARGET.script(lines, body, needs={"HOSTS": "addresses of the machines, spaces between"})}
