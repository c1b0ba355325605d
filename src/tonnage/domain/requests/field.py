"""How is a field of a request written? `Field` annotates an attribute, `Group` one that holds further fields."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple, Union

import msgspec
from msgspec.structs import replace

from tonnage.errors import UnknownName
from tonnage.record import Record

ALIASES: Final = {
    "accelerator": "gpu gpus gpu-type gpu-name device devices hardware on system machine card accelerators",
    "tp": "tensor-parallel-size tensor-parallel tensor-model-parallel-size tp-size tensor-model-parallel",
    "pp": "pipeline-parallel-size pipeline-parallel pipeline-model-parallel-size pp-size",
    "dp": "data-parallel-size data-parallel dp-size",
    "ep": "expert-parallel-size expert-parallel ep-size moe-ep-size",
    "count": "num-gpus n-gpus ngpus gpu-count num-accelerators world-size nproc",
    "max_accelerators": "max-gpus",
    "context": "max-model-len max-seq-len max-context ctx ctx-size context-length context-len seq-len",
    "seq_len": "seq-length sequence-length max-seq-length context cutoff-len",
    "prompt_tokens": "isl input-len input-length input-tokens prompt-len prompt-length random-input-len input",
    "output_tokens": "osl output-len output-length max-tokens max-new-tokens random-output-len",
    "rate": "qps rps request-rate requests-per-second load",
    "concurrency": "max-concurrency max-num-seqs batch-size num-concurrent clients parallel",
    "batch": "batch-size micro-batch-size mbs per-device-train-batch-size",
    "global_batch": "gbs global-batch-size train-batch-size batch-size",
    "precision": "dtype quantization quant quantize weights-dtype load-in-4bit load-in-8bit",
    "kv_precision": "kv-cache-dtype kv-dtype",
    "engine": "backend framework runtime server",
    "framework": "backend engine library",
    "ttft": "time-to-first-token ttft-slo",
    "tpot": "itl inter-token-latency time-per-output-token tpot-slo tbt",
    "budget": "max-cost max-price cost",
    "host_memory": "memory ram",
    "lora_rank": "rank lora-r",
    "examples": "samples dataset-size num-samples",
    "tokens": "train-tokens num-tokens dataset-tokens",
    "items": "prompts num-prompts requests",
    "epochs": "num-epochs num-train-epochs",
    "eu": "eu-only europe gdpr",
    "term": "spot on-demand reserved",
}
"""Field: names that vLLM, SGLang, Megatron, Transformers, genai-perf and their like give it."""


TAKEN: Final = {"isl": "prompt_tokens", "osl": "output_tokens", "qps": "rate", "rps": "rate"}
"""Names of other programs that mean one field of ours to everybody: taken as that field."""


class Usual(NamedTuple):
    """The unit of a plain number, between these bounds; outside them it may be meant in another."""

    unit: str
    least: float = 0.0
    most: float = math.inf
    other: str = ""


USUAL: Final = {
    "1/s": Usual("/s"), "USD/h": Usual("/h"), "USD/kWh": Usual("/kWh"), "USD/kW-month": Usual("/kW-month"),
    "bytes": Usual("GB"), "max_power": Usual("W"), "deadline": Usual("h"),
    "on_for": Usual("h"), "off_for": Usual("h"), "ttft": Usual("s", most=20.0, other="ms"),
    "tpot": Usual("ms", least=1.0, other="s"), "latency": Usual("ms", least=1.0, other="s"),
    **dict.fromkeys(("e2e", "think", "think_time", "turn_gap", "environment", "reward"), Usual("s")),
}  # fmt: skip
"""Dimension, or name of a field of seconds or watts, -> what the field's usual unit is."""
DAYS: Final = Usual("days", most=400.0, other="h")
"""Of runs that train a model from nothing."""

GROUPS: Final = (
    "Workload",
    "Objectives",
    "Model and engine",
    "Layout",
    "Training",
    "Accelerators",
    "Offers",
    "Reliability",
    "Cost of owning",
    "Search",
)
"""Headings that fields are listed under, in this order."""

MAY_BE_NOTHING: Final = -1e-9
"""Lower bound of a number that may be 0, for bounds themselves are not reached."""


class Field(Record):
    """
    One field as people write it: its help, then what it reads, then the rest by name.

    `attributes_of` fills in what the attribute says already.
    """

    help: str
    reads: str = "text"
    """A dimension of `units`, or text, list, flag, integer; mapping and numbers are read as JSON and YAML have them.
    entries: a list of mappings, each with the fields of the struct in `entries`. Where nothing is said, the type of the
    attribute tells: `READS_BY_TYPE`."""
    group: str = "Workload"
    """One of `GROUPS`."""
    name: str = ""
    """As written; empty = the attribute's name."""
    low: float = 0.0
    """The value must exceed this (or equal it, for flags and integers)."""
    high: float = math.inf
    choices: tuple[str, ...] = ()
    means: Mapping[str, float] = {}
    """Choices that stand for numbers of the base unit."""
    known: str = ""
    """Which table of names its texts are looked up in: accelerators, formats, providers …"""
    aliases: tuple[str, ...] = ()
    """What other programs call it; `fields_of` takes them from their table."""
    short: str = ""
    """One-letter option."""
    usual: Usual | None = None
    """What a plain number is of: '20' is 20/s, '$50' is $50/h; where nothing is said, as in `attributes_of`'s table."""
    whole: bool = False
    """The attribute is an integer."""
    entries: Any = None
    """Struct of one entry."""
    default: Any = None
    """Of the attribute; None = chosen by the planner, or required."""


engine_field: Final = partial(Field, group="Model and engine")
layout_field: Final = partial(Field, group="Layout")
training_field: Final = partial(Field, group="Training")
accelerator_field: Final = partial(Field, group="Accelerators")
offer_field: Final = partial(Field, group="Offers")
objective_field: Final = partial(Field, group="Objectives")
reliability_field: Final = partial(Field, group="Reliability")
owning_field: Final = partial(Field, group="Cost of owning")
search_field: Final = partial(Field, group="Search")

READS_BY_TYPE: Final = {bool: "flag", int: "integer", float: "count", tuple[str, ...]: "list", dict: "mapping"}
"""What a field reads whose declaration does not say, by the type of its attribute; text for all others."""


class Group(Record, kw_only=True):
    """An attribute that holds fields of its own: in place, under a name, or as a list of entries."""

    of: Any = None
    """Struct whose fields these are; absent = the attribute's own type."""
    name: str = ""
    """Key that the fields stand under; empty = they stand beside the others."""
    many: bool = False
    """The key holds a list of entries."""
    help: str = ""
    only: frozenset[str] = frozenset()
    """Fields that are taken; empty = all."""
    without: frozenset[str] = frozenset()
    """Fields that are left out."""
    usual: Mapping[str, Any] = {}
    """Values of fields that are not given, where they differ from the struct's defaults."""

    def takes(self, name: str) -> bool:
        """Whether a field of the struct is one of the request's."""
        return name not in self.without and (not self.only or name in self.only)


class Attribute(Record, kw_only=True):
    """One attribute of a request: the fields it is written as, and the groups it holds."""

    name: str
    type: Any
    default: Any
    required: bool
    fields: tuple[Field, ...] = ()
    groups: tuple[Group, ...] = ()


@cache
def attributes_of(struct: type[msgspec.Struct]) -> tuple[Attribute, ...]:
    """The attributes of a request in their order, with what is annotated at each."""
    hints = typing.get_type_hints(struct, include_extras=True)
    found = []
    for info in msgspec.structs.fields(struct):
        hint = hints[info.name]
        kind, *marks = typing.get_args(hint) if typing.get_origin(hint) is typing.Annotated else (hint,)
        members = typing.get_args(kind) if typing.get_origin(kind) in {Union, types.UnionType} else (kind,)
        fields = tuple(
            replace(
                mark,
                name=mark.name or info.name,
                reads=_reads(mark, members),
                whole=int in members or mark.reads == "integer",
                choices=_choices(mark, members),
                aliases=tuple(ALIASES.get(mark.name or info.name, "").split()),
                usual=mark.usual or USUAL.get(mark.name or info.name) or USUAL.get(mark.reads),
                default=None if info.default is msgspec.NODEFAULT else info.default,
            )
            for mark in marks
            if isinstance(mark, Field)
        )
        groups = tuple(replace(mark, of=mark.of or _struct(members)) for mark in marks if isinstance(mark, Group))
        found.append(
            Attribute(
                name=info.name,
                type=kind,
                default=info.default,
                required=info.required,
                fields=fields,
                groups=groups,
            )
        )
    return tuple(found)


@cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Every field that stands at the top of a request, those of its nameless groups among them."""
    found: dict[str, Field] = {}
    for attribute in attributes_of(struct):
        for field in attribute.fields:
            found.setdefault(field.name, field)
        for group in attribute.groups:
            if group.name:
                continue
            for field in fields_of(group.of):
                if group.takes(field.name):
                    usual = group.usual.get(field.name, field.default)
                    found.setdefault(field.name, replace(field, default=usual))
    return tuple(found.values())


@cache
def groups_of(struct: type[msgspec.Struct]) -> tuple[Group, ...]:
    """The groups and lists that a request names."""
    return tuple(group for attribute in attributes_of(struct) for group in attribute.groups if group.name)


def refuse_unknown_names(raw: Any, read: Any, *, path: str = "") -> None:
    """
    Refuse what is written under names that the structs read from it do not have, which msgspec passes over.

    Raises
    ------
    UnknownName
        There is such a name, at any depth of mappings; entries of lists are not looked into.
    """
    if not isinstance(raw, Mapping) or not isinstance(read, msgspec.Struct):
        return
    known = dict(zip(read.__struct_encode_fields__, read.__struct_fields__, strict=True))
    dot = f"{path}." if path else ""
    for name, value in raw.items():
        if name in known:
            refuse_unknown_names(value, getattr(read, known[name]), path=f"{dot}{name}")
        elif name != read.__struct_config__.tag_field:
            raise UnknownName("field", f"{dot}{name}", known=[f"{dot}{one}" for one in known])


def usual_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Values of fields that are not given, where a question has others than the struct of the group."""
    places = (group for attribute in attributes_of(struct) for group in attribute.groups if not group.name)
    return {name: value for group in places for name, value in group.usual.items()}


def _reads(mark: Field, members: tuple[Any, ...]) -> str:
    """As stated, or as the type of the attribute says; choices that stand for numbers are texts."""
    if mark.reads != "text" or mark.means:
        return mark.reads
    known = (READS_BY_TYPE.get(one) or READS_BY_TYPE.get(typing.get_origin(one)) for one in members)
    return next(filter(None, known), "text")


def _choices(mark: Field, members: tuple[Any, ...]) -> tuple[str, ...]:
    """As stated, or as the type of the attribute states them."""
    literal = typing.get_args(next((one for one in members if typing.get_origin(one) is typing.Literal), None))
    stated: tuple[str, ...] = literal if mark.reads == "text" else ()
    return mark.choices or tuple(mark.means) or stated


def _struct(members: tuple[Any, ...]) -> Any:
    """The struct among the members of a type, in a tuple or alone."""
    inner = [arg for member in members for arg in (member, *typing.get_args(member))]
    return next((one for one in inner if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
