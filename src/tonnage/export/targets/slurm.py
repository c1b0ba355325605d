"""Slurm: a batch script; replicas of a service are an array of jobs, a training run is one job of all its nodes."""

from __future__ import annotations

import math

from tonnage.export.kit import Deployment, Files, Server, Target, TrainingFiles, comment, server, shell

FRAMEWORK_FILES = (
    "launch.sh", "pretrain.sh", "train.sh", "plan.json", "fsdp2.py", "train.py", "sft.yaml", "accelerate.yaml",
    "deepspeed.json", "model_flags.py",
)  # fmt: skip
"""Files of a training framework that may stand beside the batch script."""
LEADER = 'read -r LEADER_ADDRESS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")'
"""The first of the job's nodes."""
TARGET = Target(
    title="Slurm",
    version="24.05",
    files=("serve.sbatch", "train.sbatch", *FRAMEWORK_FILES),
    start="sbatch serve.sbatch",
    starts={"train.sbatch": "sbatch train.sbatch"},
    kinds=("serve", "train", "finetune"),
    vendors=("nvidia", "amd", "aws"),
    carries=True,
    pools=True,
    units=True,
)
"""Source: slurm.schedmd.com/sbatch.html."""


def export(d: Deployment | TrainingFiles) -> Files:
    """`serve.sbatch`; of a training plan `train.sbatch` beside its framework's files."""
    if isinstance(d, TrainingFiles):
        return _training(d)
    made, unit = server(d), "unit" if d.prefill_workers else "replica"
    directives = [
        f"--job-name={d.name}",
        f"--array=0-{d.groups - 1}",
        f"--nodes={d.members}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={d.ranks_per_node}",
        "--output=%x-%A-%a.log",
        *(["--requeue"] if d.spot else []),
    ]
    notes = [
        f"For {TARGET.title} {TARGET.version} and {d.engine.name} {made.version}.",
        *made.notes,
        f"Each of {d.groups} array tasks is one {unit}; put a balancer before them.",
        "Partition, account and time limit are the site's: give them to sbatch. Give the accelerator's type too where",
        f"nodes differ, as in --gpus-per-node=TYPE:{d.ranks_per_node} ({d.accelerator}).",
        "HF_TOKEN is taken from the environment of sbatch; it never stands here.",
    ]
    return {"serve.sbatch": _script(directives, notes, _body(d, made))}


def _script(directives: list[str], notes: list[str], body: str) -> str:
    text = "#!/usr/bin/env bash\n" + "".join(f"#SBATCH {line}\n" for line in directives) + comment(notes)
    return f"{text}set -euo pipefail\n\n{body}\n"


def _training(found: TrainingFiles) -> Files:
    """One job of all nodes; preempted or failed it is queued again and goes on from its last checkpoint."""
    made = found.job
    directives = [
        f"--job-name={made.name}-train",
        f"--nodes={made.nodes}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={made.per_node}",
        f"--time={math.ceil(found.wall_p90_s / 60)}",
        "--requeue",
        "--open-mode=append",
        "--output=%x-%j.log",
    ]
    lines = [
        f"For {TARGET.title} {TARGET.version} and {found.framework.title} {found.framework.version}.",
        *found.lines,
        "The time limit is the run's 90th percentile with its interruptions; partition and account are the site's.",
        f"Software is the site's: PyTorch{f' and {found.framework.install}' if found.framework.install else ''}.",
        f"Give the accelerator's type too where nodes differ, as in --gpus-per-node=TYPE:{made.per_node}.",
        f"Needs {found.checkpoint_gb:,} GB for checkpoints. Handed over from the environment of sbatch:",
        *(f"{variable}: {what}" for variable, what in {**found.needs, "HF_TOKEN": "of a gated model"}.items()),
    ]
    task = f'export NODE_RANK="$SLURM_NODEID"\nexec bash {found.script}'
    body = (
        f"{LEADER}\n"
        + 'export LEADER_ADDRESS CHECKPOINTS="${CHECKPOINTS:-$PWD/checkpoints}" OUTPUT="${OUTPUT:-$PWD/checkpoints}"\n'
        + f"srun bash -c {shell([task])}"
    )
    return {"train.sbatch": _script(directives, lines, body), **found.files}


def _body(d: Deployment, made: Server) -> str:
    if d.members == 1:
        return f"srun {shell(made.argv)}"
    task = shell([f'export NODE_RANK="$SLURM_NODEID"\n{made.by_rank}'])
    all_of = 'NODE_ADDRESSES="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tr "\\n" " ")"\n'
    known = f"{all_of}export NODE_ADDRESSES" if d.prefill_workers else f"{LEADER}\nexport LEADER_ADDRESS"
    return f"{known}\nsrun bash -c {task}"
