"""SkyPilot: a task with a service section; `sky serve up` keeps the plan's replicas, `sky launch` starts one."""

from __future__ import annotations

from tonnage.domain.batch_plan import BatchPlan
from tonnage.export.kit import (
    CHECKPOINTS,
    Deployment,
    Fields,
    Files,
    Target,
    TrainingFiles,
    batch_files,
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
    files=("service.yaml", "job.yaml", "train.yaml", "launch.sh", "batch.py", "engine.json", *FRAMEWORK_FILES),
    start="sky serve up service.yaml --secret HF_TOKEN",
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

CLOUDS = frozenset(
    {"aws", "azure", "gcp", "lambda", "nebius", "oci", "paperspace", "runpod", "seeweb", "vast", "verda"}
)
"""Providers that SkyPilot calls as the catalogue does (sky.utils.registry.CLOUD_REGISTRY, 0.14.1)."""
PLACE = 'export LEADER_ADDRESS="$(head -n1 <<< "$SKYPILOT_NODE_IPS")" NODE_RANK="$SKYPILOT_NODE_RANK"'
"""What a script needs to know of its node, in SkyPilot's variables."""
ALL = 'export NODE_ADDRESSES="$(echo $SKYPILOT_NODE_IPS)" NODE_RANK="$SKYPILOT_NODE_RANK"'
"""And of all nodes, one a line there."""
OWN_CLUSTER = "kubernetes"
"""
Where parts are called as the reader labels their nodes (skypilot.co/accelerator), AMD's and any that no cloud lists.

Source: skypilot-org/skypilot README-amd.md; skypilot-catalog catalogs/v8/common/accelerators.csv at 001ca54.
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
    command = shell(made.argv)
    if d.members > 1:
        command = f"{ALL if d.prefill_workers else PLACE}\n{made.by_rank}"
    document: Fields = {
        "name": d.name,
        "resources": _resources(d, made.image),
        "num_nodes": d.members,
        "secrets": {"HF_TOKEN": None},
        "service": {
            "readiness_probe": {"path": made.health, "initial_delay_seconds": d.patience_s(least=300.0)},
            "replicas": d.groups,
        },
        "run": command + "\n",
    }
    lines = [*made.notes, "HF_TOKEN is handed over when it starts (--secret HF_TOKEN); it never stands here."]
    if document["resources"].get("infra") == OWN_CLUSTER:
        label = f"skypilot.co/accelerator={d.accelerator}"
        lines.append(f"No cloud of SkyPilot's catalogue has it: it runs on your Kubernetes nodes labelled {label}.")
    if "infra" not in document["resources"]:
        lines.append(f"SkyPilot does not know the provider {d.provider}: it picks one of those you have enabled.")
    return {"service.yaml": TARGET.yaml(lines, document)}


def _training(found: TrainingFiles) -> Files:
    """A managed job of all nodes: started again elsewhere when one is lost, from the last checkpoint in the bucket."""
    made = found.job
    name, infra = _placed(made.accelerator, provider=made.provider, region=made.region)
    resources = {
        "accelerators": {name: made.per_node},
        "image_id": f"docker:{image(f'train-{made.vendor}')}",
        "use_spot": made.spot,
        "disk_size": IMAGE_GB,
        "job_recovery": {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": found.restarts},
        **infra,
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
    lines = [
        *found.lines,
        "BUCKET (s3://, gs://) keeps the checkpoints. Handed over with --env when it starts:",
        *(f"{variable}: {what}" for variable, what in found.needs.items()),
        "sky jobs launch train.yaml --env BUCKET=... --secret HF_TOKEN",
    ]
    return {"train.yaml": TARGET.yaml(lines, document), **found.files}


def _managed_job(d: Deployment) -> Files:
    """A managed job of one replica: started again elsewhere when it is preempted; finished parts stay."""
    made = server(d)
    resources = {name: value for name, value in _resources(d, made.image).items() if name != "ports"}
    document = {
        "name": f"{d.name}-batch",
        "resources": {**resources, "job_recovery": {"strategy": "EAGER_NEXT_REGION"}},
        "workdir": ".",
        "file_mounts": {"/batch": {"source": "${BUCKET}", "mode": "MOUNT"}},
        "secrets": {"HF_TOKEN": None},
        "envs": {"BUCKET": None, "SHARD": "0", "SHARDS": str(d.replicas)},
        "run": "INPUT=/batch/requests.jsonl OUTPUT=/batch/answers python3 batch.py\n",
    }
    lines = [
        *d.lines,
        "BUCKET (s3://, gs://) holds requests.jsonl and receives answers/part-*.jsonl; finished parts stay.",
    ]
    start = (
        f"for shard in $(seq 0 {d.replicas - 1}); do\n"
        '  sky jobs launch job.yaml --env BUCKET="$BUCKET" --env SHARD="$shard" --secret HF_TOKEN -d -y\ndone\n'
    )
    return {
        "job.yaml": TARGET.yaml(lines, document),
        "launch.sh": TARGET.script(lines, start, needs={"BUCKET": "s3:// or gs:// with requests.jsonl"}),
        **batch_files(d, settings=settings(d)),
    }


def _resources(d: Deployment, image_name: str) -> Fields:
    name, infra = _placed(d.accelerator, provider=d.provider, region=d.region)
    resources: Fields = {
        "accelerators": {name: d.ranks_per_node},
        "image_id": f"docker:{image_name}",
        "ports": d.port,
        "use_spot": d.spot,
        "disk_size": d.disk_gb,
    }
    return resources | infra


def _placed(accelerator: str, *, provider: str, region: str) -> tuple[str, dict[str, str]]:
    """
    The accelerator as SkyPilot spells it, and where, if SkyPilot knows the provider; the region only where it is
    written as the provider's own tools do. A part that no cloud of its catalogue has is one of the reader's cluster.
    """
    known = names(accelerator)
    if not known.skypilot and known.vendor in TARGET.vendors:
        return accelerator.upper(), {"infra": OWN_CLUSTER}
    name = known.required("skypilot")
    if provider == "runpod" and name in SXM_AT_RUNPOD and "-sxm" in accelerator:
        name = f"{name}-SXM"
    if provider not in CLOUDS:
        return name, {}
    return name, {"infra": f"{provider}/{region}" if provider in {"aws", "gcp"} else provider}
