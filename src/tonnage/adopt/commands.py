"""Which engine does an argument list start, with which settings? Containers and launchers around it are passed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from tonnage.adopt.documents import documents_of, whole_of
from tonnage.adopt.shell import Script
from tonnage.export import known_targets, target_module
from tonnage.export.options import Options, read_options
from tonnage.questions.adopt.question import Machine, Running
from tonnage.record import Record

_RELEASE: Final = re.compile(r"(?:^|[:/v-])v?(\d+\.\d+(?:\.\d+)?)")
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity", "enroot"})


class Started(Record, kw_only=True):
    """A program that was found, and its arguments."""

    program: str
    """Name of its target."""
    arguments: tuple[str, ...]
    version: str | None = None
    before: tuple[str, ...] = ()
    """The words before it: a launcher, a container, variables."""


@cache
def programs() -> dict[str, Options]:
    """The options of every target that a file may start, by its name; those of serving engines first."""
    found = {name: getattr(target_module(name), "OPTIONS", None) for name in known_targets()}
    return {name: options for name, options in found.items() if options is not None}


def find_started(words: Sequence[str], *, image: str = "") -> Started | None:
    """
    The program that a command starts, with what follows it as its arguments; None where it is none of those known.

    Parameters
    ----------
    words : sequence of str
        As the shell or the container runtime would hand them over.
    image : str
        The container's, whose entry point counts where the words name no program.
    """
    for name, options in programs().items():
        for program in options.programs:
            place = _place(words, program)
            if place is not None:
                end = place + len(program)
                named = next((word for word in words[:place] if _of_image(word, options)), image)
                return Started(
                    program=name, arguments=tuple(words[end:]), version=release_of(named), before=tuple(words[:place])
                )
    for name, options in programs().items():
        if image and _of_image(image, options):
            return Started(program=name, arguments=tuple(words), version=release_of(image))
        if any(word.rsplit("/", 1)[-1] in _CONTAINERS for word in words[:3]):
            place = next((i for i, word in enumerate(words) if _of_image(word, options)), None)
            if place is not None:
                return Started(
                    program=name,
                    arguments=tuple(words[place + 1 :]),
                    version=release_of(words[place]),
                    before=tuple(words[:place]),
                )
    return None


def _place(words: Sequence[str], program: tuple[str, ...]) -> int | None:
    """Where the words of a program begin; a file counts by its name, whatever folder it lies in."""
    for i in range(len(words) - len(program) + 1):
        first = words[i] if "." in program[0] and not program[0].endswith(".py") else words[i].rsplit("/", 1)[-1]
        if first == program[0] and tuple(words[i + 1 : i + len(program)]) == program[1:]:
            return i
    return None


def _of_image(word: str, options: Options) -> bool:
    return not word.startswith("-") and "=" not in word and any(part in word for part in options.images)


def release_of(image: str) -> str | None:
    """The release that an image's tag names; absent for `latest` and digests."""
    tag = image.partition("@")[0].rsplit("/", 1)[-1]
    found = _RELEASE.search(tag)
    return found[1] if found else None


def as_arguments(values: Mapping[str, Any], *, under: str = "") -> list[str]:
    """A mapping of options as the argument list that means the same; groups are joined by dots."""
    found: list[str] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += as_arguments(value, under=f"{under}{name}.")
        elif isinstance(value, list):
            texts = [str(entry) for entry in value if isinstance(entry, str | int | float)]
            found += [f"--{under}{name}={','.join(texts)}"] if texts else []
        elif value is not None:
            found.append(f"--{under}{name}={str(value).lower() if isinstance(value, bool) else value}")
    return found


def serving(
    started: Started,
    *,
    format: str,
    machine: Machine,
    replicas: int = 1,
    files: Mapping[str, str] | None = None,
    notes: Iterable[str] = (),
) -> Running:
    """
    A server as its own program would read its arguments.

    Parameters
    ----------
    started : Started
        The program and its arguments.
    format : str
        What the file is, in words.
    machine : Machine
        What the file says of where it runs.
    replicas : int
        Of the whole server.
    files : mapping, optional
        Files that the script wrote before, which an option may name.
    notes : iterable of str
        What the reader of the file has to say already.

    Raises
    ------
    BadRequest
        The model is not named, or by a variable that the file does not set.
    """
    said = list(notes)
    arguments = [*started.arguments, *_from_files(started, files or {}, said)]
    read = read_options(arguments, programs()[started.program], program=started.program)
    values = {setting.name: setting.value for setting in read.settings}
    nodes = int(values.get("nodes", machine.nodes))
    return Running(
        kind="serve",
        format=format,
        program=started.program,
        model=_model(str(values.get("model", ""))),
        version=started.version,
        settings=tuple(setting for setting in read.settings if setting.name not in ("nodes", "replicas", "model")),
        replicas=replicas * int(values.get("replicas", 1)),
        machine=msgspec.structs.replace(machine, nodes=nodes, count=machine.count or _visible(started.before)),
        ignored=read.ignored,
        unknown=read.unknown,
        notes=tuple(said),
    )


def _model(written: str) -> str:
    """A Hub id or a path as it stands; KServe and others write hf://."""
    return re.sub(r"^(?:hf|huggingface)://", "", written)


def _from_files(started: Started, files: Mapping[str, str], said: list[str]) -> list[str]:
    """The options that a file named by --config (or TensorRT-LLM's older word) holds, where the script writes it."""
    for flag, path in flags_of(started.arguments):
        if flag.lstrip("-").replace("-", "_") not in {"config", "extra_llm_api_options"}:
            continue
        content = files.get(path)
        if content is None:
            said.append(f"{path} is another file, whose options were not read")
            continue
        return [word for document in documents_of(content, where=path) for word in as_arguments(document)]
    return []


def flags_of(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each word as a flag with its value: what follows "=", else the next word."""
    words = list(words)
    for word, following in zip(words, [*words, ""][1:], strict=True):
        name, _, value = word.partition("=")
        yield name, value or following


def _visible(before: Iterable[str]) -> int | None:
    """Accelerators that a launcher or a variable before the program hands over."""
    for name, value in flags_of(before):
        if name in {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"} and value:
            return len(value.split(","))
        if name == "--gpus":
            devices = value.strip("'\"")
            if devices.startswith("device="):
                return len(devices.removeprefix("device=").split(","))
            if (count := whole_of(devices)) is not None:
                return count
    return None


def serving_script(script: Script, *, format: str, machine: Machine, replicas: int) -> Running | None:
    """The first server that a script starts; several alike are replicas, others are named."""
    found = [started for words in script.commands if (started := find_started(words)) is not None]
    serves = [one for one in found if hasattr(target_module(one.program), "serve")]
    if not serves:
        return None
    alike = sum(_bare(one) == _bare(serves[0]) for one in serves)
    notes = others_left_out(len(serves) - alike)
    return serving(
        serves[0], format=format, machine=machine, replicas=replicas * alike, files=script.files, notes=notes
    )


def others_left_out(count: int) -> tuple[str, ...]:
    """What is said of so many servers beside the one that is read."""
    return (f"{count} more servers with other settings were not read",) if count else ()


def _bare(started: Started) -> tuple[str, ...]:
    """A server without what differs between copies of it: its port."""
    words = list(started.arguments)
    return tuple(word for i, word in enumerate(words) if "port" not in word and (i == 0 or "port" not in words[i - 1]))
