"""
What a target says of itself and hands to the orchestrators; which are there: each module of `targets` is one.

Accelerators are spelled as `data/names.csv` says, one row a part; an empty cell is a name not known. Container images
are those of `data/images.csv`, each with the tag that was seen and where; what an orchestrator that rents machines by
itself offers at which provider stands in `data/clouds.csv`.
"""

from __future__ import annotations

import csv
import importlib
import pkgutil
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Final

from tonnage.errors import BadRequest, UnknownName, echo
from tonnage.export.text import Fields, Files, data_text, head, yaml_text
from tonnage.record import Record


class Target(Record, kw_only=True):
    """One engine or orchestrator that files can be written for."""

    title: str
    version: str
    """Release its files were written for."""
    files: tuple[str, ...] = ("serve.sh",)
    """Names of the files it may write."""
    start: str = "bash serve.sh"
    """The command that uses them; more than one of its kinds may need another."""
    starts: Mapping[str, str] = {}
    """Those, by the file that they need."""
    before: Mapping[str, str] = {}
    """What stands before the command, by the file that it runs."""
    kinds: tuple[str, ...] = ("serve",)
    objectives: tuple[str, ...] = ("sft",)
    """Of fine-tuning, that its files can say."""
    vendors: tuple[str, ...] = ("nvidia", "amd")
    """Makers of the accelerators that its training files run on; serving files ask their engine."""
    engines: tuple[str, ...] = ()
    """Serving engines that its files start; empty = every one that has files of its own."""
    one_node: bool = False
    """Its files start a replica on one machine."""
    anywhere: bool = False
    """Its files need no machine that one holds: a container of somebody else's platform starts them, or they watch."""
    most: Mapping[str, int] = {}
    """Parallel degree of a training run -> the most that its files can say."""
    text_only: bool = False
    """Its training files load causal language models alone."""
    carries: bool = False
    """Of a training plan it starts the files of a framework."""
    pools: bool = False
    """Its files can say that prompts and answers are worked on by workers apart."""
    units: bool = False
    """It starts such workers by the scripts of the engine: every unit as a group of nodes that know one another."""
    carried: int = 0
    """Among the frameworks whose files an orchestrator of training may carry, the smallest first; 0 = not one."""
    software: tuple[str, ...] = ()
    """Frameworks whose planned times its training files run; empty = whatever shards as PyTorch does."""
    words: Mapping[str, Mapping[str, Any]] = {}
    """Setting -> those of its values that the files can say, and what they call each."""
    install: str = ""
    """What pip is asked for beside an image's PyTorch."""

    def word(self, what: str, value: str) -> Any:
        """
        What its files call the value of a setting.

        Raises
        ------
        BadRequest
            They have no such value.
        """
        known = self.words[what]
        if value not in known:
            raise BadRequest(
                f"{self.title} has no {what} '{value}' in these files; plan with {', '.join(known)}, or choose another "
                "option"
            )
        return known[value]

    def start_of(self, files: Collection[str]) -> str:
        """The command that uses the files that were written."""
        before = "".join(command for name, command in self.before.items() if name in files)
        return before + next((command for name, command in self.starts.items() if name in files), self.start)

    def yaml(self, lines: Iterable[str], *documents: Fields, beside: str = "") -> str:
        """YAML under the comment at the top of its files; `beside` names what else they were written for."""
        return head(self.title, self.version + beside, lines=lines) + yaml_text(*documents)

    def script(self, lines: Iterable[str], body: str, *, needs: Mapping[str, str] = {}, version: str = "") -> str:
        """A shell script under such a comment; `needs` are variables that the reader must set, with what each is."""
        checks = "".join(f': "${{{name}:?{what}}}"\n' for name, what in needs.items())
        top = head(self.title, version or self.version, lines=lines)
        return f"#!/usr/bin/env bash\n{top}set -euo pipefail\n{checks}{body}"


class Server(Record, kw_only=True):
    """One replica of a serving engine: image, arguments, and where it answers."""

    version: str
    image: str
    argv: tuple[str, ...]
    health: str = "/health"
    folder: str = ""
    """Of the program in the image, where that is not on its path."""
    leader: str = ""
    """Shell script of the first node when a replica spans several; it may use $LEADER_ADDRESS and $NODE_RANK."""
    worker: str = ""
    """Shell script of every other node."""
    notes: tuple[str, ...] = ()
    """What the reader has to know or do: sentences for the head of a file."""

    @property
    def contained(self) -> tuple[str, ...]:
        """The arguments as a container of the image runs them."""
        return f"{self.folder}{self.argv[0]}", *self.argv[1:]

    @property
    def by_rank(self) -> str:
        """Shell script of any node, which $NODE_RANK tells apart."""
        return f'if [ "$NODE_RANK" = 0 ]; then\n{self.leader}\nelse\n{self.worker}\nfi'

    def options(self, without: Mapping[str, int]) -> list[str]:
        """The arguments from the first option on, less some of so many words each."""
        found = list(self.argv[next(at for at, word in enumerate(self.argv) if word.startswith("--")) :])
        for taken, words in without.items():
            if taken in found:
                at = found.index(taken)
                del found[at : at + words]
        return found


class Names(Record, kw_only=True):
    """Spellings of one accelerator."""

    accelerator: str
    vendor: str
    skypilot: str = ""
    dstack: str = ""
    memory: str = ""
    """As dstack and people write it: 80GB."""
    ray: str = ""
    gke: str = ""
    """Value of the node label cloud.google.com/gke-accelerator."""
    product: str = ""
    """Value of the node label nvidia.com/gpu.product, as GPU feature discovery writes it."""

    def required(self, target: str) -> str:
        """
        The spelling of one target.

        Raises
        ------
        BadRequest
            It is not known.
        """
        name: str = getattr(self, target)
        if not name:
            raise BadRequest(
                f"how {target} spells '{self.accelerator}' is not known; export to its engine or framework and place it"
            )
        return name


@lru_cache(maxsize=1)
def _rows() -> dict[str, Names]:
    text = data_text("names.csv")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["accelerator"]: Names(**row) for row in rows}


def names(accelerator: str) -> Names:
    """The spellings of an accelerator; all empty where it is not in the table."""
    return _rows().get(accelerator) or Names(accelerator=accelerator, vendor="")


def accelerators_called(word: str, *, by: str) -> tuple[str, ...]:
    """
    The accelerators that one target spells so; several where a spelling names a family (SkyPilot's A100).

    >>> accelerators_called("NVIDIA-H100-80GB-HBM3", by="product")
    ('h100-sxm5-80gb',)
    """
    folded = word.strip().lower()
    return tuple(row.accelerator for row in _rows().values() if folded and getattr(row, by).lower() == folded)


@lru_cache(maxsize=1)
def _images() -> dict[str, str]:
    text = data_text("images.csv")
    return {row["use"]: row["image"] for row in csv.DictReader(text.splitlines())}


def image(use: str, version: str = "") -> str:
    """
    The container image of one use, tagged for a release where its tags name one.

    >>> image("vllm-amd", "0.32.0")
    'vllm/vllm-openai-rocm:v0.32.0'
    """
    return _images()[use].format(version=version)


@lru_cache(maxsize=1)
def _clouds() -> dict[str, dict[str, Mapping[str, str]]]:
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for row in csv.DictReader(data_text("clouds.csv").splitlines()):
        found.setdefault(row["target"], {})[row["provider"]] = row
    return found


def cloud(target: str, provider: str, *, needs: Collection[str], instead: str = "kubernetes") -> str:
    """
    What an orchestrator that rents by itself calls a provider; empty where its files name none.

    Parameters
    ----------
    needs : collection of str
        What the files ask for: containers, ports, nodes (several at once), spot, mounts (of a bucket).
    instead : str
        A target that takes the plan and rents nothing.

    Raises
    ------
    BadRequest
        It does not rent there, or not with all of that: it would take another provider, or stop.
    """
    rows, title = _clouds()[target], f"{known_targets()[target].title} {known_targets()[target].version}"
    lacks = {name: [need for need in needs if need in row["lacks"].split(";")] for name, row in rows.items()}
    if lacks.get(provider) == []:
        return rows[provider]["called"]
    why = f"has no {' and no '.join(lacks[provider])} at" if provider in rows else "does not rent at"
    able = ", ".join(name for name, missing in lacks.items() if not missing and name != "own")
    raise BadRequest(f"{title} {why} {echo(provider)}; export to {instead}, or plan with --provider, one of {able}")


FOLDER: Final = "tonnage.export.targets"


@cache
def known_targets() -> dict[str, Target]:
    """Every target by the name that `--to` takes."""
    found = sorted(module.name for module in pkgutil.iter_modules(importlib.import_module(FOLDER).__path__))
    return {name.replace("_", "-"): importlib.import_module(f"{FOLDER}.{name}").TARGET for name in found}


def files_of(name: str, reading: object) -> Files:
    """What a target writes of an option as it is read; a text alone is its only file."""
    found: str | Files = target_module(name).export(reading)
    return {known_targets()[name].files[0]: found} if isinstance(found, str) else found


def target_module(name: str) -> ModuleType:
    """
    The module of a target.

    Raises
    ------
    UnknownName
        No such target.
    """
    known = known_targets()
    if name not in known:
        raise UnknownName("target", name, known=known)
    return importlib.import_module(f"{FOLDER}.{name.replace('-', '_')}")
