"""
What does a running deployment's own file say? Read back into our words, so that it can be priced, explained, improved.

A file is recognised by what it holds: a document of an orchestrator, a configuration of a trainer, or a script. Scripts
are read, never run. Each engine's options are read by the table that stands beside its exporter (`export/targets`).
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import msgspec

from tonnage.adopt.commands import Started, as_arguments, programs, serving, serving_script
from tonnage.adopt.documents import documents_of, toml_of
from tonnage.adopt.jobs import job_in_document, job_in_script, job_in_tables
from tonnage.adopt.machine import machine_of_directives
from tonnage.adopt.manifests import running_in
from tonnage.adopt.shell import read_script
from tonnage.domain.adoption import Machine, Running
from tonnage.errors import BadFact, BadRequest, TonnageError, echo
from tonnage.export import target_module
from tonnage.export.options import known_options
from tonnage.foreign import check_values

__all__ = ["read_running"]


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
    script = read_script(text)
    machine, replicas = machine_of_directives(script.directives)
    kind = "Slurm script" if script.directives else "shell script"
    served = serving_script(script, format=kind, machine=machine, replicas=replicas)
    if served is not None:
        return served if replicas == 1 else msgspec.structs.replace(served, replicas=max(served.replicas, replicas))
    return job_in_script(script, machine=machine, format=kind)
