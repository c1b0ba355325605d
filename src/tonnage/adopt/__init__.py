"""
What does a running deployment's own file say? Read back into our words, so that it can be priced, explained, improved.

A file is recognised by what it holds: a document of an orchestrator, a configuration of a trainer, or a script. Scripts
are read, never run. Each engine's options are read by the table that stands beside its exporter (`export/targets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.adopt.commands import Started, as_arguments, find_started, flags_of, programs, serving, serving_script
from tonnage.adopt.documents import documents_of, machine_of_directives, toml_of, whole_of
from tonnage.adopt.manifests import running_in
from tonnage.adopt.shell import Script, read_script
from tonnage.errors import BadFact, BadRequest, TonnageError, echo
from tonnage.export import target_module
from tonnage.export.options import known_options, read_options
from tonnage.foreign import check_values
from tonnage.questions.adopt.question import Machine, Running


def read_running(text: str, *, name: str = "the file") -> Running:
    """
    What a file starts.

    Parameters
    ----------
    text : str
        Of the file: a command line, a shell or Slurm script, YAML of Kubernetes, Compose, SkyPilot, dstack, KServe, Ray
        Serve, axolotl or TRL, a torchtitan TOML.
    name : str
        The file's name, which settles what its content leaves open.

    Raises
    ------
    TonnageError
        Nothing that starts a model is found in it, or it cannot be read; one sentence.
    """
    if not text.strip():
        raise BadFact(f"{echo(name)} is empty")
    found = _read_command(text, name)
    if found is None:
        raise BadRequest(
            f"{echo(name)} starts nothing that can be read: a vLLM, SGLang, TensorRT-LLM or llama.cpp server, "
            f"or a job of "
            "Megatron-LM, torchtitan, axolotl or TRL, in a script or an orchestrator's file (templates: render "
            "them first)"
        )
    if not found.model and found.kind != "train":
        raise BadRequest(f"{echo(name)} starts {found.program} without naming a model")
    check_values(msgspec.to_builtins(found), where=echo(name))
    return found


def _read_command(text: str, name: str) -> Running | None:
    """
    What a text starts: by the file's ending or first line, else as YAML or JSON, as torchtitan's TOML, as a script.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix == ".toml":
        return job_in_tables(toml_of(text, where=echo(name)))
    if suffix in {".sh", ".bash", ".sbatch", ".slurm"} or text.lstrip().startswith("#!"):
        return _in_script(text)
    try:
        documents = documents_of(text, where=echo(name))
    except TonnageError:
        if suffix in {".yaml", ".yml", ".json"}:
            raise
        documents = []
    if documents:
        return _in_documents(documents)
    if "[model]" in text and "[training]" in text:
        return job_in_tables(toml_of(text, where=echo(name)))
    return _in_script(text)


def _in_documents(documents: list[dict[str, Any]]) -> Running | None:
    """An orchestrator's server, else a trainer's job, else the first document as an engine's file of options."""
    found = running_in(documents)
    if found is not None:
        return found
    jobs = (job_in_document(document) for document in documents)
    return next((job for job in jobs if job is not None), None) or _option_file(documents[0])


def _option_file(document: dict[str, Any]) -> Running | None:
    """A mapping of an engine's own options, as its --config takes it."""
    names = {str(key).replace("-", "_") for key in document}
    for program in programs():
        known = known_options(program) if hasattr(target_module(program), "serve") else frozenset()
        if known and len(names & known) >= max(2, 0.8 * len(names)):
            started = Started(program=program, arguments=tuple(as_arguments(document)))
            return serving(started, format="file of options", machine=Machine())
    return None


def _in_script(text: str) -> Running | None:
    """What a script starts: a server before a training job; directives of Slurm say machine and replicas."""
    script = read_script(text)
    machine, replicas = machine_of_directives(script.directives)
    kind = "Slurm script" if script.directives else "shell script"
    served = serving_script(script, format=kind, machine=machine, replicas=replicas)
    if served is not None:
        return served if replicas == 1 else replace(served, replicas=max(served.replicas, replicas))
    return job_in_script(script, machine=machine, format=kind)


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
    """A job of that program with these arguments; those that hold a variable which nobody set are noted."""
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
