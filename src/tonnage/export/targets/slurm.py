"""Slurm: a batch script; an array of jobs is the plan's replicas, each on its own nodes and port."""

from __future__ import annotations

from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.export.deployment import Deployment, deployment, server
from tonnage.export.target import Server, Target
from tonnage.export.text import comment, shell

__all__ = ["TARGET", "export"]

TARGET = Target(
    name="slurm",
    title="Slurm",
    version="24.05",
    files=("serve.sbatch",),
    start="sbatch serve.sbatch",
    source="slurm.schedmd.com/sbatch.html",
)


def export(plan: ServePlan, option: ServeOption) -> dict[str, str]:
    """`serve.sbatch`."""
    d = deployment(plan, option)
    made = server(d)
    directives = [
        f"--job-name={d.name}",
        f"--array=0-{d.replicas - 1}",
        f"--nodes={d.nodes}",
        "--ntasks-per-node=1",
        f"--gpus-per-node={d.ranks_per_node}",
        "--output=%x-%A-%a.log",
        *(["--requeue"] if d.spot else []),
    ]
    notes = [
        f"For {TARGET.title} {TARGET.version} and {d.engine.name} {made.version}.",
        *d.lines,
        *made.notes,
        f"Each of {d.replicas} array tasks is one replica; put a balancer before them.",
        "Partition, account and time limit are the site's: give them to sbatch. Give the accelerator's type too where",
        f"nodes differ, as in --gpus-per-node=TYPE:{d.ranks_per_node} ({d.accelerator}).",
        "HF_TOKEN is taken from the environment of sbatch; it never stands here.",
    ]
    text = "#!/usr/bin/env bash\n" + "".join(f"#SBATCH {line}\n" for line in directives) + comment(notes)
    return {"serve.sbatch": f"{text}set -euo pipefail\n\n{_body(d, made)}\n"}


def _body(d: Deployment, made: Server) -> str:
    if d.nodes == 1:
        return f"srun {shell(made.argv)}"
    both = f'if [ "$NODE_RANK" = 0 ]; then\n{made.leader}\nelse\n{made.worker}\nfi'
    task = shell([f'export NODE_RANK="$SLURM_NODEID"\n{both}'])
    return (
        'LEADER_ADDRESS="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"\n'
        f"export LEADER_ADDRESS\nsrun bash -c {task}"
    )
