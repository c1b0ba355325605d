"""What a target is written with: its module imports all of it from here."""

from __future__ import annotations

from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest, NoCheckpoint
from tonnage.export.deployment import Deployment, needs_quantised, server, version_of, weight_notes
from tonnage.export.job import DATA_PARALLEL, KEPT, Job, RlJob, attention_of, builds_as_planned
from tonnage.export.options import (
    LEARNING_RATE,
    Options,
    number,
    optimizer_called,
    optimizer_of,
    read_switch,
    settle_trainer,
    whole,
)
from tonnage.export.target import Server, Target, cloud, image, names
from tonnage.export.text import (
    UNTESTED,
    Fields,
    Files,
    comment,
    data_text,
    flags,
    head,
    json_text,
    lines,
    shell,
    stated,
    templated_name,
    yaml_text,
)
from tonnage.export.training_files import CHECKPOINTS, TrainingFiles, batch_files

__all__ = [
    "CHECKPOINTS",
    "DATA_PARALLEL",
    "KEPT",
    "LEARNING_RATE",
    "UNTESTED",
    "BadRequest",
    "Deployment",
    "Fields",
    "Files",
    "Job",
    "NoCheckpoint",
    "Options",
    "RlJob",
    "Server",
    "Target",
    "TrainingFiles",
    "attention_of",
    "batch_files",
    "builds_as_planned",
    "cloud",
    "comment",
    "data_text",
    "engine_spec",
    "flags",
    "head",
    "image",
    "json_text",
    "lines",
    "names",
    "needs_quantised",
    "number",
    "optimizer_called",
    "optimizer_of",
    "read_switch",
    "server",
    "settle_trainer",
    "shell",
    "stated",
    "templated_name",
    "version_of",
    "weight_notes",
    "whole",
    "yaml_text",
]
