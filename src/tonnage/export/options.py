"""
How settings are read back, the other direction of what targets write: an engine's options, a trainer's configuration.

A target that starts a program has an `OPTIONS`: which words and images start it, and which of its options is which of
our settings. `read_options` sorts an argument list into settings, options that change no number here, and options
that the release whose list is kept (`data/options`) does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from tonnage.errors import BadRequest, echo, nearest
from tonnage.export.job import Job
from tonnage.export.target import Target
from tonnage.export.text import Fields, data_text
from tonnage.questions.adopt.question import Setting
from tonnage.record import Record

_SCALES: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
SUGGESTED: Final = 12
"""Unknown options that a known one is named for; a search takes 20 ms, and a script may hold thousands."""
MOST: Final = 1e15
"""Largest count that is read: more than the tokens of any training run."""
_NO: Final = frozenset({"false", "0", "no", "off"})
_OPTION: Final = re.compile(r"--?[A-Za-z][\w.-]*\Z")


class Options(Record, kw_only=True):
    """The options of one program that matter to a plan; names without dashes, "_" for "-"."""

    programs: tuple[tuple[str, ...], ...]
    """Words that start it: ("vllm", "serve"). The last may be the name of a Python module after -m."""
    images: tuple[str, ...] = ()
    """Parts of container images whose entry point it is."""
    counts: Mapping[str, str] = {}
    """Option -> our setting, a whole number."""
    texts: Mapping[str, str] = {}
    """Option -> our setting, which its text is."""
    values: Mapping[str, tuple[str, Callable[[str], Any]]] = {}
    """Option -> our setting, and how its text is read where it is neither of those."""
    flags: Mapping[str, tuple[str, bool]] = {}
    """Option without a value -> our setting, and what it then is."""
    short: Mapping[str, str] = {}
    """One-dash or abbreviated spelling -> option."""
    words: Mapping[str, str] = {}
    """Beginning of an argument that is no option -> our setting, which its rest is."""
    positional: bool = False
    """The first argument that is no option is the model."""
    settle: Callable[[Fields], Fields] | None = None
    """What several settings mean together, where the program counts otherwise than we do."""

    @property
    def readers(self) -> dict[str, tuple[str, Callable[[str], Any]]]:
        """Every option with a value -> our setting, and how its text is read."""
        counts = {name: (field, whole) for name, field in self.counts.items()}
        return {**counts, **{name: (field, str) for name, field in self.texts.items()}, **self.values}


class Read(Record, kw_only=True):
    """An argument list, sorted."""

    settings: tuple[Setting, ...] = ()
    ignored: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def number(text: str) -> float:
    """
    A number as engines read it: 0.9, 32768, 32k (1,000 each), 32K (1,024 each).

    Raises
    ------
    BadRequest
        It is none.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"'{echo(text)}' is no number")
    return float(found[1]) * _SCALES.get(found[2], 1)


def whole(text: str) -> int:
    """
    The same for counts.

    Raises
    ------
    BadRequest
        It is none, has a fraction, or is larger than any count of these programs.
    """
    found = number(text)
    if found > MOST or found != round(found):
        raise BadRequest(f"'{echo(text)}' is no whole number up to {MOST:.0e}")
    return round(found)


def read_options(argv: Sequence[str], options: Options, *, program: str) -> Read:
    """
    The arguments of a program, sorted into settings, what changes nothing here, and what its release does not know.

    A value that cannot be read (a variable that the file does not set) is named among the unknown.
    """
    known, readers = known_options(program), options.readers
    settings: list[Setting] = []
    ignored: list[str] = []
    unknown: list[str] = []
    for name, value, written in _pairs(argv, options):
        if name in options.flags:
            field, meant = options.flags[name]
            settings.append(Setting(name=field, value=meant ^ (str(value).lower() in _NO), written=written))
        elif name in options.words and value is not None:
            settings.append(Setting(name=options.words[name], value=value, written=written))
        elif name in readers and value is not None:
            field, read = readers[name]
            try:
                settings.append(Setting(name=field, value=read(value), written=written))
            except (BadRequest, ValueError):
                unknown.append(written)
        elif not known or name in known or name.partition(".")[0] in known:
            ignored.append(written)
        else:
            close = nearest(name, sorted(known), count=1) if len(unknown) < SUGGESTED else ()
            unknown.append(written + (f" (--{close[0].replace('_', '-')}?)" if close else ""))
    found = Read(settings=tuple(settings), ignored=tuple(ignored), unknown=tuple(unknown))
    return found if options.settle is None else _settle_options(found, options.settle)


def _settle_options(found: Read, settle: Callable[[Fields], Fields]) -> Read:
    """Settings that mean something together take their meaning; each keeps the words it was read from."""
    words = {setting.name: setting.written for setting in found.settings}
    values = {setting.name: setting.value for setting in found.settings}
    meant = settle(dict(values))
    without = {
        name: settle({other: value for other, value in values.items() if other != name})
        for name in words
        if name not in meant
    }
    idle = [name for name, rest in without.items() if rest == meant]
    told = {name: text for name, text in words.items() if name not in idle}
    settings = tuple(
        Setting(
            name=name,
            value=value,
            written=", ".join(
                [words[name], *(words[other] for other, rest in without.items() if rest.get(name) != value)]
                if name in words
                else told.values()
            ),
        )
        for name, value in meant.items()
    )
    return msgspec.structs.replace(found, settings=settings, ignored=(*found.ignored, *(words[name] for name in idle)))


def _pairs(argv: Sequence[str], options: Options) -> list[tuple[str, str | None, str]]:
    """Option, value and both as written; "--a=b", "--a b", and "--a" where nothing follows or another option does."""
    found: list[tuple[str, str | None, str]] = []
    place = 0
    positional, single = options.positional, options.readers
    while place < len(argv):
        word = argv[place]
        place += 1
        head, equals, tail = word.partition("=")
        if not _OPTION.match(head):
            begun = next((begins for begins in options.words if word.startswith(begins)), None)
            if begun is not None:
                found.append((begun, word.removeprefix(begun), word))
            if positional and not word.startswith("-"):
                found.append(("model", word, word))
                positional = False
            continue
        name = head.lstrip("-").replace("-", "_")
        name = options.short.get(name, name)
        if equals:
            found.append((name, tail, word))
        elif name in options.flags or place == len(argv) or _OPTION.match(argv[place].partition("=")[0]):
            found.append((name, None, word))
        else:
            values = [argv[place]]
            place += 1
            if name not in single:  # options of several values change no number here
                while place < len(argv) and not argv[place].startswith("-"):
                    values.append(argv[place])
                    place += 1
            found.append((name, values[0], " ".join([word, *values])))
    return found


@cache
def known_options(program: str) -> frozenset[str]:
    """Every option of the program's release, spelled as in `Options`; empty where no list is kept."""
    try:
        text = data_text(f"options/{program}.json")
    except FileNotFoundError:
        return frozenset()
    return frozenset(name.lstrip("-").replace("-", "_") for name in json.loads(text)["options"])


SHARDED_8BIT: Final = "adamw_torch_8bit"
"""
Adam in eight bits where parameters are sharded by FSDP2: bitsandbytes' does not know DTensor, torchao's does.

Source: axolotl 0.19.0, axolotl/utils/schemas/validation.py refuses the former.
"""

LEARNING_RATE: Final = {True: 0.0002, False: 0.00002}
"""
Where to start with adapters, and without.

Source: axolotl's examples for Llama 3 (lora-8b.yml, fft-8b.yaml) and TRL's for supervised fine-tuning ("SFT", "PEFT").
"""


def optimizer_of(made: Job, target: Target) -> str:
    """A target's name of the run's optimizer."""
    if made.sharded and made.optimizer == "adamw-8bit":
        return SHARDED_8BIT
    return str(target.word("optimizer", made.optimizer))


def optimizer_called(name: str) -> str:
    """Our name of an optimizer: fused, paged and framework variants hold the same states."""
    folded = name.lower().removeprefix("paged_").replace("-", "_")
    if "8bit" in folded:
        return f"{folded.partition('_')[0]}-8bit" if not folded.startswith("adamw") else "adamw-8bit"
    known = ("ademamix", "adafactor", "muon", "sgd", "lion", "adam")
    ours = next((word for word in known if folded.startswith(word)), folded)
    return "adamw" if ours == "adam" else ours


def read_switch(text: str) -> bool:
    """A switch that may also name a way: bf16: auto, gradient_checkpointing: offload."""
    return text.strip().lower() not in {"false", "no", "off", "0", "none", "null", ""}


def settle_trainer(found: Fields) -> Fields:
    """
    Settings with method, precision, recomputation and sharding in place of those that they follow from.

    `found` itself is changed; bf16 is meant where no precision is said. Adapters in four bits are QLoRA whatever the
    configuration calls them; DeepSpeed's stage is read from the name of its file, as its own examples name them
    (zero3.json), where the file itself is not there.
    """
    adapter, four, dora = found.pop("adapter", ""), found.pop("four_bits", False), found.pop("dora", False)
    adapter = adapter if isinstance(adapter, str) and read_switch(adapter) else "lora" if adapter is True else ""
    found["method"] = "full" if not adapter else "qlora" if four or adapter == "qlora" else "dora" if dora else "lora"
    if not adapter:
        found.pop("lora_rank", None)
    half, brain = found.pop("fp16", False), found.pop("bf16", True)
    found["precision"] = "fp16" if half and not brain else "bf16" if brain else "fp32"
    found["recompute"] = "full" if found.pop("recomputes", False) else "none"
    stage = re.search(r"(?:zero|stage)_?-?([0123])", str(found.pop("stage_file", "")).lower())
    sharded = str(found.pop("fsdp", "")).lower()
    reshards = found.pop("reshards", True)
    if stage:
        found["sharding"] = "none" if stage[1] == "0" else f"zero{stage[1]}"
    elif read_switch(sharded):
        hybrid, partly = "hybrid" in sharded or found.get("replicated", 1) > 1, "grad_op" in sharded or not reshards
        found["sharding"] = "hsdp" if hybrid else "zero2" if partly else "fsdp"
    found.pop("replicated", None)
    return found
