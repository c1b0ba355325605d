"""
Which models are known, and which one does a name mean?

One CSV row per architecture in data/models/models.csv, in the field names of config.json; a shape that needs more than
a row has its own file in data/models/configs. Models of which only sizes are published stand in data/models/sized.csv:
they get the shape that such sizes usually have, and say so. A row becomes a `Model` through the same adapters that read
a foreign config.json, when somebody asks for it: looking one up reads the index and builds one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.catalog.additions import NOTHING, Additions, FileStates, file_states, tables
from tonnage.catalog.checkpoints import checkpoints, formats_by_id
from tonnage.catalog.hub import names
from tonnage.catalog.hub.config import read_config, read_inline
from tonnage.catalog.hub.names import decoder_of_size, mixture_of_size
from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.domain.model import LatentAttention, Model, Moe, Network, Tower
from tonnage.domain.precision import Precision, number_format
from tonnage.errors import BadFact
from tonnage.record import Record
from tonnage.units import GB

FOLDER: Final = DATA / "models"

SHAPE: Final = (
    "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "max_position_embeddings", "tie_word_embeddings", "num_experts", "num_experts_per_tok",
    "moe_intermediate_size",
)  # fmt: skip
"""Columns that are fields of config.json."""


class PublishedDraft(Record, kw_only=True):
    """Tokens drafted a step, and the share of them that is kept, from and to. [tokens, -]"""

    tokens: int
    low: float
    high: float
    source: str
    model: str | None = None
    """A draft's own checkpoint; absent = the model's own layers draft."""


def published_draft(id: str) -> PublishedDraft | None:
    """
    What was published of a model's drafting by its own layers; None where nothing was.

    Examples
    --------
    >>> found = published_draft("deepseek-ai/DeepSeek-R1-0528")
    >>> (found.tokens, found.low, found.high) if found else None
    (1, 0.85, 0.9)
    """
    for row in table(FOLDER / "drafts.csv"):
        if any(id.startswith(name) for name in row["models"].split(";")):
            tokens, low, high = (number(row, name) for name in ("tokens", "acceptance_low", "acceptance_high"))
            if not tokens or low is None or high is None or not 0.0 < low <= high <= 1.0:
                raise BadFact(f"drafts.csv: {row['models']} needs tokens and an acceptance from 0 to 1, low to high")
            return PublishedDraft(tokens=int(tokens), low=low, high=high, source=row["source"])
    return None


@cache
def eagle_targets() -> frozenset[str]:
    """Models that an EAGLE-3 draft was published for (`catalog.eagle` knows the drafts)."""
    return frozenset(id for row in table(FOLDER / "eagle3.csv") for id in row["models"].split(";"))


def hub_id(name: str) -> str | None:
    """
    The Hub's id of what a name without an owner means, tuning and version included; None where no table has it.

    Examples
    --------
    >>> hub_id("llama 3.1 8B Instruct"), hub_id("llama 3.1 8B")
    ('meta-llama/Llama-3.1-8B-Instruct', None)
    """
    bare = "-".join(name.lower().split())
    known = (*(one.model for one in checkpoints()), *sorted(eagle_targets()))
    return next((id for id in known if id.rpartition("/")[2].lower() == bare), None)


def loaded_as(name: str, *, id: str) -> str:
    """The checkpoint that a plan of a model called `name` loads, `id` being the catalogue's of its shape."""
    return name if "/" in name else hub_id(name) or id


class PublishedCheckpoint(Record, kw_only=True):
    """A checkpoint that was published with some of its weights in more bits than the format that it is named by."""

    name: str
    weights: str
    """Format of what the others do not name."""
    experts: str | None
    """Of routed experts."""
    attention: str | None
    """Of the projections into attention."""
    source: str


def published_checkpoint(id: str, *, stored: str) -> PublishedCheckpoint | None:
    """
    The newest checkpoint of a model in that format, where it keeps other weights wider; None where none is known.

    Examples
    --------
    >>> found = published_checkpoint("deepseek-ai/DeepSeek-R1", stored="nvfp4")
    >>> (found.name, found.weights, found.attention) if found else None
    ('DeepSeek-R1-FP4-v2', 'nvfp4', 'bf16')
    """
    base, short = id.rpartition("/")[2].lower(), stored.removeprefix("nv")
    for suffix in (f"{short}-v2", stored, short):
        row = _formats().get(f"{base}-{suffix}")
        if row is not None and (row["attention"] or row["experts"] == stored):
            return PublishedCheckpoint(
                name=row["name"],
                weights=row["weights"] or "bf16",
                experts=row["experts"] or None,
                attention=row["attention"] or None,
                source=row["source"],
            )
    return None


def as_published(
    precision: Precision, model: Model, *, beside_experts: str | None
) -> tuple[Precision, tuple[str, ...]]:
    """
    The formats of the checkpoint that is published in these weights, and a note where it keeps more than they say.

    Quantisers leave attention at 16 bits where its values matter most (DeepSeek in NVFP4): a data-parallel rank, which
    holds all of attention, then reads up to four times the bytes. `beside_experts` is what an engine's own files keep
    the weights in that are not experts of 4 bits.
    """
    stored = number_format(precision.weights)
    if beside_experts and precision.experts == model.experts_dtype is not None and stored.bits >= 16:
        note = f"weights beside the experts in {beside_experts}, as published files of this engine have them"
        return replace(precision, weights=beside_experts), (note,)
    if precision.experts is not None or stored.bits >= 8 or model.experts_dtype is not None:
        return precision, ()
    found = published_checkpoint(model.id, stored=stored.name)
    if found is None:
        return precision, ()
    note = f"weights as in {found.name}, whose {found.source}"
    published = {"weights": found.weights, "experts": found.experts, "attention": found.attention}
    return replace(precision, **published), (note,)


def models(additions: Additions = NOTHING) -> Mapping[str, Model]:
    """Every model by id: the shipped ones and the user's own. Builds all of them once."""
    own = _own(additions, file_states(additions))
    return MappingProxyType({**_all_models(), **own}) if own else _all_models()


def model_ids(additions: Additions = NOTHING) -> tuple[str, ...]:
    """Every id, without building a model."""
    return (*_rows(), *_own(additions, file_states(additions)))


def model(name: str, additions: Additions = NOTHING) -> Model:
    """
    One model by catalogue id or by any of its names; a precision suffix sets `quantization`.

    The user's own models come first, however the name is spelt, but for the exact id of a shipped one. A dated version
    has its own context, and a published checkpoint its own formats, where tables list them; what the formats do not
    name is in 16 bits.

    Raises
    ------
    UnknownName
        No such model; suggests the nearest.
    BadRequest
        The name is too long to be one.

    Examples
    --------
    >>> model("Llama-3.1-8B").id, model("nvidia/Llama-3.1-70B-Instruct-FP8").quantization
    ('meta-llama/Meta-Llama-3.1-8B', 'fp8')
    """
    own = _own(additions, file_states(additions))
    if name in own:
        return own[name]
    if name in _rows():
        return _build(name)
    id, taken = names.find(name, _index(tuple(own)))
    found = own[id] if id in own else _build(id)
    if id not in own and (longer := _context_of_version(name)) is not None:
        found = replace(found, max_context=longer)
    stored = formats_by_id().get(name.lower())
    known = _formats().get(name.rpartition("/")[2].lower())
    if known is not None and (stored is None or stored in (known["weights"], known["experts"])):
        weights, experts = known["weights"] or None, known["experts"] or None
        return replace(found, quantization=weights, experts_dtype=experts, native_dtype="bf16")
    meant = stored or taken.quantization
    return found if meant is None else _requantize(found, meant)


def identify(name: str, additions: Additions = NOTHING) -> str:
    """
    The catalogue id that a name means, without building the model.

    Raises
    ------
    UnknownName
        No such model; suggests the nearest.

    Examples
    --------
    >>> identify("llama3.1:8b-instruct-q8_0")
    'meta-llama/Meta-Llama-3.1-8B'
    """
    return names.find(name, _index(tuple(_own(additions, file_states(additions)))))[0]


def look_up(name: str) -> str | None:
    """The shipped id that a name means; none where `identify` would raise, without looking for near names."""
    return names.look_up(name, _index(()))


def keys_of(id: str) -> frozenset[str]:
    """What a shipped model's names are recognised by, once all that changes no shape is taken off them."""
    known = _index(())
    return frozenset((id, *(key for keys in (known.by_key, known.by_alias) for key in keys if keys[key] == id)))


def explain_name(name: str, additions: Additions = NOTHING) -> str:
    """
    One sentence that says which model a name was taken as, and what each part of it meant.

    Examples
    --------
    >>> explain_name("unsloth/Llama-3.2-1B-Instruct-bnb-4bit").splitlines()[0]
    "'unsloth/Llama-3.2-1B-Instruct-bnb-4bit' is meta-llama/Llama-3.2-1B"
    """
    id, taken = names.find(name, _index(tuple(_own(additions, file_states(additions)))))
    return "\n  ".join((f"'{name}' is {id}", *taken.steps))


_PLAIN: Final = {"bf16", "fp16", "fp32"}
_FOUR_BIT_FLOATS: Final = {"nvfp4", "mxfp4"}


def _requantize(found: Model, quantization: str) -> Model:
    """The same shape in another weight format; a plain one undoes the checkpoint's own."""
    change = partial(msgspec.structs.replace, found)
    if quantization in _PLAIN:
        return change(quantization=None, experts_dtype=None, native_dtype=quantization)
    latent = any(isinstance(group.mixer, LatentAttention) for group in found.layers)
    if quantization in _FOUR_BIT_FLOATS and latent and any(isinstance(g.feed_forward, Moe) for g in found.layers):
        note = f"{quantization} of a mixture with latent attention: routed experts only, the rest at 16 bits"
        return change(
            quantization=None, experts_dtype=quantization, native_dtype="bf16", assumed=(*found.assumed, note)
        )
    return change(quantization=quantization, experts_dtype=None)


@cache
def _formats() -> Mapping[str, Row]:
    """Checkpoints whose formats their name does not tell, by the name without its vendor."""
    return MappingProxyType({row["name"].lower(): row for row in table(FOLDER / "formats.csv")})


@cache
def _contexts() -> Mapping[str, int]:
    """Dated versions of the same shape that were made for another context, by the name without its vendor. [tokens]"""
    path = FOLDER / "contexts.csv"
    rows = table(path) if path.is_file() else ()  # a release of the data may be older than this table
    return MappingProxyType({row["name"].lower(): int(row["max_position_embeddings"]) for row in rows})


def _context_of_version(name: str) -> int | None:
    """The context of the version that a name means, whatever format or file of it the name goes on with. [tokens]"""
    bare = name.rpartition("/")[2].lower()
    return next((context for version, context in _contexts().items() if bare.startswith(version)), None)


@cache
def _rows() -> Mapping[str, Row]:
    """Rows of the two tables of shipped models as text, by id; an id that stands in both is refused."""
    found: dict[str, Row] = {}
    for row in (*table(FOLDER / "models.csv"), *_models_by_size().values()):
        if row["id"] in found:
            raise BadFact(f"models.csv, sized.csv: model '{row['id']}' is listed twice")
        found[row["id"]] = row
    return MappingProxyType(found)


@cache
def _all_models() -> Mapping[str, Model]:
    return MappingProxyType({id: _build(id) for id in _rows()})


@lru_cache(maxsize=4)
def _index(own: tuple[str, ...]) -> names.Index:
    aliases = {row["alias"]: row["id"] for row in table(FOLDER / "aliases.csv")}
    return names.index((*own, *_rows()), aliases)


@lru_cache(maxsize=16)
def _own(additions: Additions, _stamp: FileStates) -> Mapping[str, Model]:
    """The user's own models by id; one that has the id of another model is refused."""
    found: dict[str, Model] = {}
    for where, given in tables(additions, "model"):
        added = read_inline(given, where=where)
        if added.id in _rows() or added.id in found:
            raise BadFact(f"{where}: model id '{added.id}' is taken; choose another")
        found[added.id] = added
    return MappingProxyType(found)


@cache
def _models_by_size() -> Mapping[str, Row]:
    """Models without published layer facts."""
    return MappingProxyType({row["id"]: row for row in table(FOLDER / "sized.csv")})


@lru_cache(maxsize=1024)
def _build(id: str) -> Model:
    """The model of an id: by its published sizes alone, from a file of its own, or from the columns of its row."""
    row = _rows()[id]
    if id in _models_by_size():
        return _of_size(row)
    more = dict(item.split("=", 1) for item in row["more"].split(";") if item)
    if row["model_type"] == "network":
        found = Model(id=id, family=row["family"], kind=row["kind"])
    elif row["model_type"] == "noun":
        found = msgspec.convert({"id": id, "family": "", "kind": "", **_file(row["config"])}, Model)
    else:
        found = read_config(_fields(row, more), file=f"models.csv: {id}", name=id)
    return replace(found, **_vendor_facts(row, found), **_changes(more, found))


DECODERS: Final = frozenset({"llm", "llm-moe", "vlm", "hybrid", "hybrid-moe"})
"""Kinds that write tokens: a shape of their size tells their work."""


_STAND_IN: Final = (
    "no layer facts are published: {} stands in for it, so weights and work follow the published sizes, "
    "but the KV cache is that of the stand-in and may be several times the true one"
)


def _of_size(row: Row) -> Model:
    """
    A model of which only sizes are published.

    One that writes tokens gets layers that meet them. Of others (images, video, speech) only the weights are known: no
    size tells how often a denoiser runs, and on how many tokens.
    """
    total, active = number(row, "published_parameters"), number(row, "published_active_parameters")
    if total is None:
        raise BadFact(f"sized.csv, {row['id']}: published_parameters is empty, and nothing else tells a size")
    if row["kind"] not in DECODERS:
        found = Model(id=row["id"], family="", kind="", extra_parameters=total)
        note = "only its size is published: the weights are counted, and nothing can be said of time"
    elif active is None:
        found = decoder_of_size(total, name=row["id"])
        note = _STAND_IN.format("a dense decoder of that size")
    else:
        found = mixture_of_size(total, active, name=row["id"])
        note = _STAND_IN.format("a mixture of those total and active sizes")
    stored = number(row, "stored_gb", factor=GB)
    return replace(
        found,
        family=row["family"],
        kind=row["kind"],
        native_dtype=row["native_dtype"] or "bf16",
        quantization=row["quantization"] or None,
        published_parameters=total,
        published_active_parameters=active if active is not None else total,
        stored_weight_bytes=stored,
        max_context=_context(row) or found.max_context,
        licence=row["licence"],
        source=row["source"],
        notes=row["notes"],
        assumed=(note,),
    )


def _context(row: Row) -> int | None:
    longest = number(row, "max_position_embeddings")
    return None if longest is None else int(longest)


def _fields(row: Row, more: Mapping[str, str]) -> dict[str, Any]:
    """The fields of config.json that a row stands for."""
    if row["config"]:
        return _file(row["config"])
    fields: dict[str, Any] = {"model_type": row["model_type"]}
    fields.update({name: int(row[name]) for name in SHAPE if row[name]})
    fields.update({name: json.loads(value) for name, value in more.items() if "." not in name})
    return fields


def _file(name: str) -> dict[str, Any]:
    content = json.loads((FOLDER / "configs" / name).read_bytes())
    return dict(content)


def _vendor_facts(row: Row, found: Model) -> dict[str, Any]:
    """What the vendors say, beside the shape."""
    total = number(row, "published_parameters")
    sparse = any(isinstance(group.feed_forward, Moe) for group in found.layers)
    return {
        "family": row["family"],
        "kind": row["kind"],
        "native_dtype": row["native_dtype"] or found.native_dtype,
        "published_parameters": total,
        "published_active_parameters": number(row, "published_active_parameters") or (None if sparse else total),
        "licence": row["licence"],
        "source": row["source"],
        "notes": row["notes"],
    }


def _changes(more: Mapping[str, str], found: Model) -> dict[str, Any]:
    """`model.FIELD=value` sets a field of the noun; `network.…` gives totals per sample; `tower.NAME=parameters`."""
    changes: dict[str, Any] = {
        name.removeprefix("model."): json.loads(value) for name, value in more.items() if name.startswith("model.")
    }
    if "network.gmacs" in more:
        # Tables of vision models count multiply-adds in 1e9 and activation values in 1e6.
        values = more.get("network.activations_m")
        changes["network"] = Network(
            flop=2e9 * float(more["network.gmacs"]),
            input_px=int(more["network.input_px"]) if "network.input_px" in more else None,
            activation_values=None if values is None else 1e6 * float(values),
            kernels=int(more["network.kernels"]) if "network.kernels" in more else None,
            sample_s=float(more["network.sample_s"]) if "network.sample_s" in more else None,
        )
    towers = tuple(
        Tower(name=name.removeprefix("tower."), parameters=float(value))
        for name, value in more.items()
        if name.startswith("tower.")
    )
    if towers:
        changes["towers"] = (*found.towers, *towers)
    if "assumed" in changes:
        changes["assumed"] = (*found.assumed, *changes["assumed"])
    return changes
