"""
Files that an orchestrator carries: a framework's of training, and the loop of batch inference.

An orchestrator (Slurm, SkyPilot, JobSet) gives every node its rank and the leader's address and runs the script that a
framework's target writes. The framework is the plan's own where its files can say the option, and otherwise the first
whose files can.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.domain.batch_plan import BatchOption
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.errors import BadRequest
from tonnage.export.deployment import Deployment
from tonnage.export.job import Job, check_job
from tonnage.export.target import Target, files_of, known_targets
from tonnage.export.text import Fields, Files, data_text, json_text
from tonnage.record import Record

SCRIPTS: Final = ("launch.sh", "pretrain.sh", "train.sh")
CHECKPOINTS: Final = ("CHECKPOINTS", "OUTPUT")
"""What scripts call the shared folder; the orchestrator knows it."""
PLACED: Final = ("LEADER_ADDRESS", "NODE_RANK", *CHECKPOINTS)
KEPT: Final = 3
"""Checkpoints on disk at once: the last, the one being written, and the final model."""


class TrainingFiles(Record, kw_only=True):
    """A framework's files, and what runs them."""

    job: Job
    framework: Target
    files: Files
    script: str
    """Of them, the one that every node runs."""
    lines: tuple[str, ...]
    """What a reader has to know of the plan and the framework."""
    needs: dict[str, str]
    """Variables that only the reader can fill, and what each is."""
    checkpoint_gb: int
    """Of the shared folder: a few checkpoints, in steps of ten. [GB]"""
    wall_p90_s: float
    """Time of the whole run that nine of ten stay below, as planned. [s]"""
    restarts: int
    """Interruptions expected of the run, and three for whatever else."""

    @property
    def written(self) -> tuple[str, ...]:
        """Folders beside the script that frameworks write checkpoints into, where no variable says which."""
        return (f"{self.job.name}-{self.job.method}", "outputs")


def training_files(plan: TrainPlan, option: TrainOption, *, made: Job) -> TrainingFiles:
    """
    The option's files of the first framework that can say it.

    Raises
    ------
    BadRequest
        None can: what the first of them lacks is said.
    """
    software = option.configuration.software
    able = {name: one for name, one in known_targets().items() if one.carried and plan.kind in one.kinds}
    # Those whose times were planned, then those that shard as PyTorch does, then whatever can say the option.
    order = {name: (software not in one.software, bool(one.software), one.carried) for name, one in able.items()}
    refused = ""
    for name in sorted(able, key=order.__getitem__):
        try:
            check_job(made, able[name], kind=plan.kind)
            found = files_of(name, made)
        except BadRequest as wrong:
            refused = refused or str(wrong)
            continue
        script = next(file for file in SCRIPTS if file in found)
        variables = re.findall(r'^: "\$\{(\w+):\?([^}]*)\}"$', found[script], re.MULTILINE)
        return TrainingFiles(
            job=made,
            framework=able[name],
            files=found,
            script=script,
            lines=(
                *made.lines,
                f"Runs {script}, which export --to {name} writes; another framework's files of this plan may take its "
                "place.",
            ),
            needs={variable: what for variable, what in variables if variable not in PLACED},
            checkpoint_gb=max(1, -int(-KEPT * option.run.checkpoint_bytes // 1e10)) * 10,
            wall_p90_s=option.run.wall_p90_s,
            restarts=round(option.run.interruptions) + 3,
        )
    raise BadRequest(f"no framework's files can say this option; {refused}")


ENGINE: Final = "vllm"
"""Whose offline class the loop calls."""
PART_S: Final = 600.0
"""Work of one part: what an interruption loses at most, and is lost on average by half. [s]"""
MAX_PART: Final = 50_000
"""Requests of a part are held in memory together. [requests]"""


def check_batch(d: Deployment, *, title: str) -> None:
    """
    Refuse an option that the offline class of an engine cannot run.

    Raises
    ------
    BadRequest
        Another engine, several nodes, or data-parallel attention inside a replica.
    """
    if d.engine.name != ENGINE:
        raise BadRequest(
            f"{title} runs vLLM's offline class, and the plan is for {d.engine.name}; plan with --engine vllm"
        )
    if d.nodes > 1 or d.layout.dp > 1:
        raise BadRequest(f"{title} runs a replica on one node without data-parallel attention; choose another option")


def requests_per_part(option: BatchOption) -> int:
    """Requests that one replica answers in about ten minutes: at least what it holds at once, at most MAX_PART."""
    return max(1, min(MAX_PART, max(round(option.items_per_s.value * PART_S), round(option.concurrency))))


def batch_files(d: Deployment, *, settings: Fields) -> Files:
    """`batch.py` and the settings it reads."""
    assert isinstance(d.option, BatchOption)
    written = {"engine": {"model": d.model, **settings}, "requests_per_part": requests_per_part(d.option)}
    return {
        "batch.py": data_text("batch.py.txt"),
        "engine.json": json_text(written),
    }
