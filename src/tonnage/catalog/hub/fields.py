"""
How is a config.json of unknown origin read, and which pieces do most architectures share?

A config.json is written by others: any field may be missing, null, of the wrong type, negative or absurd. Each reader
here takes the names a field goes by, returns a checked value or the given default, and raises one `BadFact` sentence
naming the file, the field, what was found and what was expected. Nothing is repaired silently.

`attention`, `mlp` and `moe` build one mixer or feed-forward of such fields; `stack` folds a list of layers into
groups; `decoder` makes the model around them. An adapter says only what its family does differently.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.domain.model import Attention, FeedForward, LayerGroup, Mixer, Mlp, Model, Moe, StateSpace
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.foreign import plain_text
from tonnage.record import Record

MAX_CONFIG_BYTES: Final = 4 << 20
"""Bytes; the largest config.json known has a few hundred thousand."""


MAX_MARKS: Final = 3_000_000
"""Brackets and commas of a JSON text: each may stand for a hundred bytes of memory."""


class _Twice(Exception):
    """A name that an object gives twice."""


def decode_json(text: str | bytes, *, where: str) -> Any:
    """
    The value of a JSON text in which no object gives a name twice.

    Raises
    ------
    BadFact
        Malformed, nested too deeply, or too many values.
    BadRequest
        A name given twice: which of its values is meant nobody can know.
    """
    refuse_many(text, where=where)
    try:
        value = msgspec.json.decode(text)
        if isinstance(value, dict | list):
            json.loads(text, object_pairs_hook=_refuse_twice, parse_int=len, parse_float=len)
        return value
    except _Twice as error:
        raise BadRequest(f"{where} gives '{echo(error)}' twice; keep one") from None
    except msgspec.DecodeError as error:
        raise BadFact(f"{where} is not valid JSON: {str(error).lower()}") from None
    except (ValueError, UnicodeDecodeError):
        raise BadFact(f"{where} is not valid JSON: not UTF-8 text") from None
    except RecursionError:
        raise BadFact(f"{where} is nested too deeply") from None


def refuse_many(text: str | bytes, *, where: str) -> None:
    """Refuse a text that would become more values than memory is for."""
    marks = (
        sum(text.count(mark) for mark in "{[,") if isinstance(text, str) else sum(map(text.count, (b"{", b"[", b",")))
    )
    if marks > MAX_MARKS:
        raise BadFact(f"{where} holds more than {MAX_MARKS:,} values; expected far fewer")


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _Twice(Counter(name for name, _ in pairs).most_common(1)[0][0])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _refuse_twice(pairs)
    return found


def parse_object(content: bytes, *, file: str) -> dict[str, Any]:
    """The object that some bytes hold."""
    refuse_many(content, where=file)
    try:
        found = json.loads(content, object_pairs_hook=_unique)
    except _Twice as error:
        raise BadFact(f"{file}: gives '{echo(error)}' twice; expected each name once") from None
    except RecursionError:
        raise BadFact(f"{file}: is nested too deep to be a model's file") from None
    except (ValueError, UnicodeDecodeError) as problem:
        raise BadFact(f"{file}: is not JSON ({echo(problem)}); expected an object of settings") from None
    if not isinstance(found, dict):
        raise BadFact(f"{file}: holds {_kind(found)}; expected an object of settings")
    return found


def read_object(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> dict[str, Any]:
    """The object that a file holds."""
    try:
        size = path.stat().st_size
        if size > limit:
            raise BadFact(f"{echo(path)}: has {size} bytes; expected at most {limit}")
        content = path.read_bytes()
    except OSError as problem:
        raise BadFact(f"{echo(path)}: cannot be read ({problem.strerror})") from None
    except ValueError:
        raise BadFact(f"{echo(path)}: is no path; check its characters") from None
    return parse_object(content, file=str(echo(path)))


def _kind(found: object) -> str:
    return {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(found), "a number")


MAX_INTEGER: Final = {
    "num_hidden_layers": 4096,
    "hidden_size": 1 << 20,
    "intermediate_size": 1 << 24,
    "vocab_size": 1 << 28,
    "num_attention_heads": 1 << 14,
    "num_experts": 1 << 16,
}
"""Upper limits of sane shapes by the first name of a field; others must stay below 2^31."""

_REQUIRED: Final = object()


Adapter = Callable[["Config"], Model]


class Config(Record):
    """The fields of one config.json, or of one section of it, and where they came from."""

    file: str
    data: Mapping[str, Any]
    prefix: str = ""


def first_given(c: Config, *names: str) -> Any:
    """The first of these fields that is there and not null, or None."""
    return next((c.data[name] for name in names if c.data.get(name) is not None), None)


def field_error(c: Config, name: str, *, value: object, expected: str) -> BadFact:
    """The sentence about a field that cannot be what it says."""
    found = "is missing" if value is None else f"is '{echo(value)}'"
    return BadFact(f"{c.file}: '{c.prefix}{name}' {found}; expected {expected}")


def integer(c: Config, *names: str, default: Any = _REQUIRED, low: int = 1) -> int:
    """
    A whole number from `low` up to the sane limit of its first name; `default` where no field of these names is there.
    """
    value = first_given(c, *names)
    if value is None:
        if default is _REQUIRED:
            raise field_error(c, names[0], value=None, expected="a whole number")
        return int(default)
    high = MAX_INTEGER.get(names[0], (1 << 31) - 1)
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int_or_none(value)
    if not whole or not low <= value <= high:
        raise field_error(c, _name(c, names), value=value, expected=f"a whole number from {low} to {high}")
    return int(value)


def optional_count(c: Config, *names: str) -> int:
    """A whole number that may be 0, as it is where the field is absent or null."""
    return integer(c, *names, default=0, low=0)


def int_or_none(value: float) -> int | None:
    """The whole number a JSON number stands for; none for infinities and not-a-number."""
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def optional_integer(c: Config, *names: str, low: int = 0) -> int | None:
    """A whole number, or None when the field is absent or null."""
    return None if first_given(c, *names) is None else integer(c, *names, low=low)


def flag(c: Config, *names: str, default: bool = False) -> bool:
    """A yes or no."""
    value = first_given(c, *names)
    if value is None:
        return default
    if value not in (0, 1):
        raise field_error(c, _name(c, names), value=value, expected="true or false")
    return bool(value)


def text(c: Config, *names: str, default: str = "") -> str:
    """A short text."""
    value = first_given(c, *names)
    if value is None:
        return default
    if not isinstance(value, str):
        raise field_error(c, _name(c, names), value=value, expected="a text")
    return plain_text(value, where=f"{c.file}: '{c.prefix}{_name(c, names)}'")


def texts(c: Config, name: str, *, length: int) -> tuple[str, ...] | None:
    """A list of texts, one for each layer; None when absent."""
    value = first_given(c, name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < length or not all(isinstance(item, str) for item in value):
        raise field_error(c, name, value=value, expected=f"a list of {length} texts, one for each layer")
    return tuple(value[:length])


def integers(c: Config, name: str, *, length: int | None = None) -> tuple[int, ...] | None:
    """A list of whole numbers, one for each layer when a length is given; None when absent."""
    value = first_given(c, name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and length is not None:
        value = [value] * length
    many = "a list of whole numbers" if length is None else f"a list of {length} whole numbers, one for each layer"
    listed = isinstance(value, list) and len(value) <= MAX_INTEGER["num_hidden_layers"] * 2
    if not listed or (length is not None and len(value) < length):
        raise field_error(c, name, value=value, expected=many)
    if not all(isinstance(item, int) and abs(item) < 1 << 31 for item in value):
        raise field_error(c, name, value=value, expected=many)
    return tuple(int(item) for item in (value if length is None else value[:length]))


def flags(c: Config, name: str, *, length: int) -> tuple[bool, ...] | None:
    """A list of yes or no (or 1 and 0), one for each layer; None when absent."""
    found = integers(c, name, length=length)
    return None if found is None else tuple(bool(item) for item in found)


def section(c: Config, *names: str) -> Config | None:
    """A nested object, or None when absent."""
    value = first_given(c, *names)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise field_error(c, _name(c, names), value=value, expected="an object")
    return Config(c.file, value, f"{c.prefix}{_name(c, names)}.")


def _name(c: Config, names: tuple[str, ...]) -> str:
    return next((name for name in names if c.data.get(name) is not None), names[0])


def hidden_size(c: Config) -> int:
    """Model width."""
    return integer(c, "hidden_size", "n_embd", "d_model", "dim", "embedding_dim")


def layer_count(c: Config) -> int:
    """Number of blocks; newer files of block lists leave the number out."""
    listed = first_given(c, "layers_block_type", "hybrid_override_pattern")
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks")
    if first_given(c, *names) is None and isinstance(listed, list | str):
        return integer(Config(c.file, {"num_hidden_layers": len(listed)}, c.prefix), "num_hidden_layers")
    return integer(c, *names)


DTYPES: Final = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "half": "fp16", "float": "fp32", "float64": "fp64",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int8": "int8",
}  # fmt: skip
"""Names of PyTorch's formats and ours."""


def native_dtype(c: Config) -> tuple[str, tuple[str, ...]]:
    """Format the vendors publish the weights in, bf16 when the file does not say; a note where it names another."""
    inner = section(c, "text_config") or c
    said = text(c, "dtype", "torch_dtype") or text(inner, "dtype", "torch_dtype")
    known = DTYPES.get(said.removeprefix("torch."))
    note = f"the file's format '{echo(said)}' is not known: its weights are taken as BF16"
    return known or "bf16", (note,) if said and not known else ()


LAYER_KINDS: Final = (
    "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "local_attention", "attention",
    "deepseek_sparse_attention", "mamba", "mamba2", "conv", "recurrent", "gated_deltanet", "hybrid",
)  # fmt: skip
"""What `layer_types` of published files say."""


def refuse_contradictions(c: Config) -> None:
    """
    Refuse a window or heads below 0, no number of layers, fewer kinds than layers and kinds that no family has,
    whichever family reads them.
    """
    for name in ("sliding_window", "num_key_value_heads"):
        optional_integer(c, name)
    stated = first_given(c, "num_hidden_layers") is not None
    for kind in texts(c, "layer_types", length=layer_count(c) if stated else 0) or first_given(c, "layer_types") or ():
        if kind not in LAYER_KINDS:
            known = ", ".join(LAYER_KINDS[:4])
            raise field_error(c, "layer_types", value=kind, expected=f"kinds of layers that are known ({known}, …)")


def attention(c: Config, **changes: Any) -> Attention:
    """Attention as llama-like files describe it; `changes` take the place of what the file says."""
    heads = integer(c, "num_attention_heads", "n_head", "n_heads")
    kv_heads = integer(c, "num_key_value_heads", default=heads)
    width = integer(c, "head_dim", "attention_head_dim", default=max(hidden_size(c) // heads, 1))
    if heads % kv_heads:
        divides = f"a divisor of the {heads} attention heads"
        raise field_error(c, "num_key_value_heads", value=kv_heads, expected=divides)
    if hidden_size(c) % heads and first_given(c, "head_dim", "attention_head_dim") is None:
        raise field_error(c, "num_attention_heads", value=heads, expected=f"a divisor of the width {hidden_size(c)}")
    facts: dict[str, Any] = {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "bias": flag(c, "attention_bias"),
    }
    return Attention(**{**facts, **changes})


def equal_heads(heads: int, width: int, *, bias: bool = True, causal: bool = False, **changes: Any) -> Attention:
    """Attention of as many key-value heads as query heads, `width` wide each."""
    return Attention(
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=width,
        bias=bias,
        output_bias=bias,
        causal=causal,
        **changes,
    )


def normed_channels(mixer: Attention) -> float:
    """Values of a token's queries and keys, of which norms over all heads, or apart from `qk_norm`, have one weight."""
    return float((mixer.num_attention_heads + mixer.num_key_value_heads) * mixer.head_dim)


def mlp(c: Config, **changes: Any) -> Mlp:
    """A dense feed-forward as llama-like files describe it; `changes` take the place of what the file says."""
    facts: dict[str, Any] = {"bias": flag(c, "mlp_bias"), **changes}
    if "intermediate_size" not in facts:
        facts["intermediate_size"] = integer(c, "intermediate_size", "ffn_dim", "n_inner")
    return Mlp(**facts)


def moe(c: Config, **changes: Any) -> Moe:
    """A mixture of experts as Mixtral-like files describe it; `changes` take the place of what the file says."""
    experts = integer(c, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    chosen = integer(c, "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts", "moe_k")
    if chosen > experts:
        raise field_error(c, "num_experts_per_tok", value=chosen, expected=f"at most the {experts} experts")
    facts: dict[str, Any] = {"num_experts": experts, "num_experts_per_tok": chosen, **changes}
    if "moe_intermediate_size" not in facts:
        facts["moe_intermediate_size"] = integer(c, "moe_intermediate_size", "intermediate_size")
    return Moe(**facts)


def fold_layers(layers: Iterable[LayerGroup]) -> tuple[LayerGroup, ...]:
    """Layers, each given with its count, folded into groups of identical ones."""
    counts: dict[LayerGroup, int] = {}
    for layer in layers:
        one = layer if layer.count == 1 else replace(layer, count=1)
        counts[one] = counts.get(one, 0) + layer.count
    return tuple(replace(layer, count=count) for layer, count in counts.items())


def layer(mixer: Mixer | None, feed_forward: FeedForward | None = None, **changes: Any) -> LayerGroup:
    """One layer of this mixer and feed-forward."""
    return LayerGroup(count=1, mixer=mixer, feed_forward=feed_forward, **changes)


def identical_layers(
    c: Config, parts: tuple[Mixer | None, FeedForward | None], **changes: Any
) -> tuple[LayerGroup, ...]:
    """One group of identical layers of this mixer and feed-forward, as many as the file says."""
    mixer, feed_forward = parts
    return (LayerGroup(count=layer_count(c), mixer=mixer, feed_forward=feed_forward, **changes),)


def windows(c: Config, *, every: int | None = None, full_first: bool = False) -> tuple[int | None, ...]:
    """
    The window of each layer: from `layer_types`, else the last (or first) of `every` layers is full.

    A window not below the longest context never binds and is left out.
    """
    count = layer_count(c)
    width = optional_integer(c, "sliding_window", "attention_chunk_size")
    longest = optional_integer(c, "max_position_embeddings")
    if not width or (longest is not None and width >= longest):
        return (None,) * count
    kinds = texts(c, "layer_types", length=count)
    if kinds is not None:
        return tuple(width if "sliding" in kind or "chunked" in kind else None for kind in kinds)
    if every is None:
        return (width,) * count
    full = 0 if full_first else every - 1
    return tuple(None if every and index % every == full else width for index in range(count))


def moe_layers(c: Config, *, first_dense: int = 0, every: int = 1, offset: int | None = None) -> tuple[bool, ...]:
    """
    Which layers hold experts: as a list in `moe_layer_freq` says, else every so many, the first dense ones left out.

    Of `every` layers it is the one at `offset`; without an offset the last.
    """
    count = layer_count(c)
    listed = integers(c, "moe_layer_freq", length=count) if isinstance(c.data.get("moe_layer_freq"), list) else None
    if listed is not None:
        return tuple(bool(item) for item in listed)
    start = every - 1 if offset is None else offset
    return tuple(index >= first_dense and index % every == start for index in range(count))


def model_kind(model: Model) -> str:
    """The kind of a decoder, from its layers."""
    state = any(isinstance(group.mixer, StateSpace) for group in model.layers)
    attends = any(group.mixer is not None and not isinstance(group.mixer, StateSpace) for group in model.layers)
    experts = any(isinstance(group.feed_forward, Moe) for group in model.layers)
    if state and not attends:
        return "ssm"
    return ("hybrid" if state else "llm") + ("-moe" if experts else "")


def decoder(c: Config, layers: Iterable[LayerGroup], *, tied: bool = False, **changes: Any) -> Model:
    """A decoder around these layers, its family left to the caller; `tied` is what files mean that do not say."""
    facts: dict[str, Any] = {
        "id": "",
        "family": "",
        "kind": "",
        "hidden_size": hidden_size(c),
        "vocab_size": integer(c, "vocab_size", "padded_vocab_size"),
        "layers": fold_layers(layers),
        "tie_word_embeddings": flag(c, "tie_word_embeddings", default=tied),
        "max_context": optional_integer(
            c, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", low=1
        ),
    }
    model = Model(**{**facts, **changes})
    return model if model.kind else replace(model, kind=model_kind(model))
