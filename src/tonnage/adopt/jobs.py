"""Training jobs as other programs write them: launchers of Megatron-LM and torchtitan, axolotl's and TRL's YAML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from tonnage.adopt.commands import as_arguments, find_started, flags_of, programs
from tonnage.adopt.documents import whole_of
from tonnage.adopt.shell import Script
from tonnage.domain.adoption import Machine, Running
from tonnage.errors import BadRequest
from tonnage.export import target_module
from tonnage.export.options import read_options

__all__ = ["job_in_document", "job_in_script", "job_in_tables"]

AXOLOTL: Final = "axolotl"
TRAINER: Final = "trl"
TITAN: Final = "torchtitan"
_PER_NODE: Final = ("nproc_per_node", "num_gpus", "gpus_per_node", "gpus-per-node")
_NODES: Final = ("nnodes", "num_nodes", "num_machines")
_EVERYWHERE: Final = ("num_processes",)


def job_in_document(document: dict[str, Any]) -> Running | None:
    """An axolotl or a TRL configuration; None where the mapping is neither."""
    if "base_model" in document and {"micro_batch_size", "sequence_len", "datasets"} & document.keys():
        return _job(AXOLOTL, as_arguments(document), format="axolotl configuration", machine=Machine())
    if "model_name_or_path" in document and any("train" in str(name) or "lora" in str(name) for name in document):
        return _job(TRAINER, as_arguments(document), format="TRL configuration", machine=Machine())
    return None


def job_in_tables(tables: dict[str, Any]) -> Running | None:
    """A torchtitan TOML of releases before 0.3."""
    if not {"model", "training"} <= tables.keys():
        return None
    return _job(TITAN, as_arguments(tables), format="torchtitan TOML", machine=Machine())


def job_in_script(script: Script, *, machine: Machine, format: str) -> Running | None:
    """
    The training job that a script launches.

    Raises
    ------
    BadRequest
        The script hands a configuration file to its program: that file is the one to adopt.
    """
    for words in script.commands:
        found = _split_launcher(words)
        if found is None:
            continue
        program, arguments, before = found
        inner = _file_of(arguments) if program in (AXOLOTL, TRAINER) else ""
        if inner:
            raise BadRequest(
                f"the script starts {target_module(program).TARGET.title} with {inner}: adopt that file instead"
            )
        return _job(program, arguments, format=format, machine=_read_world(machine, before))
    return None


def _split_launcher(words: Sequence[str]) -> tuple[str, Sequence[str], Sequence[str]] | None:
    """Program, its arguments, and the launcher's words before it."""
    started = find_started(words)
    if started is not None and not hasattr(target_module(started.program), "serve"):
        return started.program, started.arguments, started.before
    place = next((i for i, word in enumerate(words) if word.partition("=")[0] == "--per_device_train_batch_size"), None)
    if place is None:
        return None
    script = next((i for i, word in enumerate(words[:place]) if word.endswith(".py")), -1)
    return TRAINER, words[script + 1 :], words[: script + 1]


def _file_of(arguments: Sequence[str]) -> str:
    """A YAML file among the arguments: axolotl's only one, TRL's --config."""
    for word, before in zip(arguments, ["", *arguments], strict=False):
        if word.endswith((".yaml", ".yml")) and before not in ("--accelerate_config", "--config_file", "--deepspeed"):
            return word
    return ""


def _read_world(machine: Machine, before: Iterable[str]) -> Machine:
    """Ranks of a node and nodes, as torchrun, Accelerate and DeepSpeed are told; else as the scheduler is."""
    stated: dict[str, int] = {}
    for name, value in flags_of(before):
        if name.startswith("-") and (number := whole_of(value)) is not None:
            stated[name.lstrip("-").replace("-", "_")] = number
    nodes = next((stated[name] for name in _NODES if name in stated), machine.nodes)
    count = next((stated[name] for name in _PER_NODE if name in stated), machine.count)
    everywhere = next((stated[name] for name in _EVERYWHERE if name in stated), None)
    if everywhere is not None:
        count = max(1, everywhere // max(1, nodes))
    return replace(machine, nodes=nodes, count=count)


def _job(program: str, arguments: Sequence[str], *, format: str, machine: Machine) -> Running:
    read = read_options(arguments, programs()[program], program=program)
    unset = [word for word in read.unknown if "$" in word]
    notes = [f"{', '.join(unset)}: the file does not set the variable"] if unset else []
    method = next((s.value for s in read.settings if s.name == "method"), "pretrain")
    return Running(
        kind="train" if method == "pretrain" else "finetune",
        format=format,
        program=program,
        model=next((str(s.value) for s in read.settings if s.name == "model"), ""),
        settings=tuple(setting for setting in read.settings if setting.name != "model"),
        machine=machine,
        ignored=read.ignored,
        unknown=read.unknown,
        notes=tuple(notes),
    )
