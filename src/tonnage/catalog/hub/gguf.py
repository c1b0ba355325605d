"""Architecture and exact sizes from the header of a GGUF file.

A GGUF file (version 2 or 3, little-endian) starts with typed settings and the name, shape and type of every tensor.
The settings become the fields of a config.json; the tensor types give the bytes exactly, mixtures included. No tensor
is read. Source: the format's specification and type sizes (ggml-org/ggml, docs/gguf.md, MIT).
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from tonnage.catalog.hub.config import read_config
from tonnage.catalog.hub.weights import Tensor, Weights, describe, weights_of
from tonnage.domain.model import Model
from tonnage.domain.precision import FORMATS
from tonnage.errors import BadFact, echo
from tonnage.foreign import plain_text
from tonnage.record import Record

MAX_ENTRIES: Final = 65_536
MAX_TENSORS: Final = 65_536
"""Experts are one tensor a layer here: the largest models have some 2,000."""
MAX_TEXT_LENGTH: Final = 1 << 22
MAX_ARRAY_LENGTH: Final = 1 << 24
MAX_TEXTS: Final = 2_000_000
"""Of all lists together, and numbers of lists short enough to be kept; the largest vocabularies have 300,000
words and twice as many merges."""
MAX_HEADER_LENGTH: Final = 1 << 27

_TYPES: Final = {
    0: ("f32", 1, 4), 1: ("f16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20), 6: ("q5_0", 32, 22),
    7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34), 9: ("q8_1", 32, 36),
    10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110), 12: ("q4_k", 256, 144),
    13: ("q5_k", 256, 176), 14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292), 16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50), 20: ("iq4_nl", 32, 18),
    21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82), 23: ("iq4_xs", 256, 136), 24: ("i8", 1, 1), 25: ("i16", 1, 2),
    26: ("i32", 1, 4), 27: ("i64", 1, 8), 28: ("f64", 1, 8), 29: ("iq1_m", 256, 56), 30: ("bf16", 1, 2),
    34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66), 39: ("mxfp4", 32, 17),
}  # fmt: skip
"""Name, values in a block and bytes of a block, by the number of the tensor type."""

_FILE_TYPES: Final = {
    0: "gguf-f32", 1: "gguf-f16", 2: "gguf-q4_0", 3: "gguf-q4_1", 7: "gguf-q8_0", 8: "gguf-q5_0", 10: "gguf-q2_k",
    11: "gguf-q3_k_s", 12: "gguf-q3_k_m", 14: "gguf-q4_k_s", 15: "gguf-q4_k_m", 16: "gguf-q5_k_s", 17: "gguf-q5_k_m",
    18: "gguf-q6_k", 30: "gguf-iq4_xs", 32: "gguf-bf16",
}  # fmt: skip
"""Our format by `general.file_type`."""

_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_TEXT, _ARRAY = 8, 9
_KEPT_ITEMS: Final = 8192
"""Items of an array that are kept; longer ones are vocabularies, of which only the length matters."""


class Array(Record):
    """A list of settings: its length, and its items where they are few."""

    length: int
    items: tuple[Any, ...]
    texts: bool = False

    @property
    def cost(self) -> int:
        """Items that were looked at one by one."""
        return self.length if self.texts or self.items else 1


class Header(Record, kw_only=True):
    """What a GGUF file says before its tensors."""

    settings: dict[str, Any]
    weights: Weights


def read_header(path: Path) -> Header:
    """
    Settings and tensors of one GGUF file.

    Raises
    ------
    BadFact
        No GGUF file, cut short, or with lengths that no model has.
    """
    shown = str(echo(path))
    try:
        size = path.stat().st_size
        with path.open("rb", buffering=1 << 20) as file:
            magic, version = file.read(4), _unpack(file, "<I", shown)
            if magic != b"GGUF":
                raise BadFact(f"{shown}: starts with '{echo(magic)}'; expected 'GGUF'")
            if version not in (2, 3):
                raise BadFact(f"{shown}: GGUF version is '{version}'; expected 2 or 3, little-endian")
            tensors, entries = _unpack(file, "<Q", shown), _unpack(file, "<Q", shown)
            if entries > MAX_ENTRIES or tensors > MAX_TENSORS:
                most = f"at most {MAX_TENSORS:,} and {MAX_ENTRIES:,}"
                raise BadFact(f"{shown}: says {tensors:,} tensors and {entries:,} settings; expected {most}")
            settings = _settings(file, entries, shown)
            found = [_tensor(file, shown) for _ in range(tensors)]
            start = file.tell()
    except OSError as problem:
        raise BadFact(f"{shown}: cannot be read ({problem.strerror})") from None
    except ValueError:
        raise BadFact(f"{shown}: is no path; check its characters") from None
    weights = weights_of(tensor for tensor, _ in found)
    end = max((offset + tensor.bytes for tensor, offset in found), default=0)
    if start + end > size:
        raise BadFact(f"{shown}: has {size} bytes; expected at least {start + end} for its tensors, so it is cut short")
    return Header(settings=settings, weights=weights)


def _unpack(file: BinaryIO, form: str, shown: str) -> Any:
    content = file.read(struct.calcsize(form))
    if len(content) < struct.calcsize(form) or file.tell() > MAX_HEADER_LENGTH:
        raise BadFact(f"{shown}: the GGUF header ends too early or is too long; expected a whole file")
    return struct.unpack(form, content)[0]


def _text(file: BinaryIO, shown: str) -> str:
    length = _unpack(file, "<Q", shown)
    if length > MAX_TEXT_LENGTH:
        raise BadFact(f"{shown}: a text of {length} bytes in the header; expected at most {MAX_TEXT_LENGTH}")
    content = file.read(length)
    if len(content) < length:
        raise BadFact(f"{shown}: the GGUF header ends too early; expected a whole file")
    return content.decode("utf-8", errors="replace")


def _settings(file: BinaryIO, entries: int, shown: str) -> dict[str, Any]:
    """The settings of a header, by name; one given twice, or too many of them, are refused."""
    found: dict[str, Any] = {}
    items = 0
    for _ in range(entries):
        name, kind = _text(file, shown), _unpack(file, "<I", shown)
        if name in found:
            raise BadFact(f"{shown}: gives the setting '{echo(name)}' twice; expected each once")
        found[name] = _array(file, shown) if kind == _ARRAY else _value(file, kind, shown)
        items += found[name].cost if isinstance(found[name], Array) else 1
        if items > MAX_TEXTS:
            raise BadFact(f"{shown}: over {MAX_TEXTS:,} texts and numbers in the header; no model has as many")
    return found


def _value(file: BinaryIO, kind: int, shown: str) -> Any:
    if kind in _SCALARS:
        return _unpack(file, _SCALARS[kind], shown)
    if kind == _TEXT:
        return _text(file, shown)
    raise BadFact(f"{shown}: a setting of type '{kind}'; expected 0 to 12")


def _array(file: BinaryIO, shown: str) -> Array:
    """A list of settings; of one longer than 8,192 items, a vocabulary, the length alone."""
    inner, length = _unpack(file, "<I", shown), _unpack(file, "<Q", shown)
    most = MAX_ARRAY_LENGTH if inner in _SCALARS else MAX_TEXTS
    if length > most:
        raise BadFact(f"{shown}: a list of {length:,} items of type '{inner}' in the header; expected at most {most:,}")
    if inner in _SCALARS:
        form = _SCALARS[inner]
        if length > _KEPT_ITEMS:
            file.seek(struct.calcsize(form) * length, 1)
            return Array(length, ())
        content = file.read(struct.calcsize(form) * length)
        if len(content) < struct.calcsize(form) * length:
            raise BadFact(f"{shown}: the GGUF header ends too early; expected a whole file")
        return Array(length, tuple(value for (value,) in struct.iter_unpack(form, content)))
    if inner != _TEXT:
        raise BadFact(f"{shown}: a list of items of type '{inner}'; expected 0 to 12")
    if length <= _KEPT_ITEMS:
        return Array(length, tuple(_text(file, shown) for _ in range(length)), texts=True)
    _pass_texts(file, length, shown)
    return Array(length, (), texts=True)


def _pass_texts(file: BinaryIO, count: int, shown: str) -> None:
    """Read past a vocabulary, of which only the length matters."""
    read, whole = file.read, int.from_bytes
    for _ in range(count):
        size = read(8)
        length = whole(size, "little")
        if len(size) < 8 or length > MAX_TEXT_LENGTH or len(read(length)) < length:
            raise BadFact(
                f"{shown}: the GGUF header ends too early, or a text of it is too long; expected a whole file"
            )


def _tensor(file: BinaryIO, shown: str) -> tuple[Tensor, int]:
    """One tensor and where its data begin, counted from the end of the header."""
    name = _text(file, shown)
    sides = _unpack(file, "<I", shown)
    if sides > 8:
        raise BadFact(f"{shown}: tensor '{echo(name)}' has {sides} sides; expected at most 8")
    shape = tuple(_unpack(file, "<Q", shown) for _ in range(sides))
    kind, offset = _unpack(file, "<I", shown), _unpack(file, "<Q", shown)
    if kind not in _TYPES:
        raise BadFact(f"{shown}: tensor '{echo(name)}' is of type '{kind}', which is not known; update Tonnage")
    dtype, block, size = _TYPES[kind]
    values = 1
    for side in shape:
        values *= side
    if values % block or values >= 1 << 50:
        raise BadFact(f"{shown}: tensor '{echo(name)}' has {values} values; expected a multiple of {block} for {dtype}")
    return Tensor(name, shape, dtype, values // block * size), offset


_MODEL_TYPES: Final = {
    "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "phi2": "phi",
    "deepseek2": "deepseek_v3", "gptneox": "gpt_neox", "command-r": "cohere", "gpt-oss": "gpt_oss",
    "glm4moe": "glm4_moe",
    "llama4": "llama4_text", "minimax-m2": "minimax_m2", "granitehybrid": "granitemoehybrid", "qwen2vl": "qwen2",
    "qwen3vl": "qwen3", "qwen3vlmoe": "qwen3_moe", "gemma4": "gemma4_text", "falcon-h1": "falcon_h1",
    "seed_oss": "seed_oss", "gemma-embedding": "gemma3_text",
}  # fmt: skip
"""`model_type` by `general.architecture` where the names differ."""

_FIELDS: Final = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "context_length": "max_position_embeddings",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "ssm.conv_kernel": "conv_kernel",
    "ssm.state_size": "state_size",
    "ssm.time_step_rank": "time_step_rank",
    "ssm.inner_size": "d_inner",
    "interleave_moe_layer_step": "interleave_moe_layer_step",
    "vocab_size": "vocab_size",
}
"""Field of config.json by setting, without the architecture in front."""


def gguf_config(header: Header, *, file: str) -> dict[str, Any]:
    """The fields of a config.json that the settings and tensors of a GGUF file stand for."""
    settings = header.settings
    kind = settings.get("general.architecture")
    if not isinstance(kind, str):
        raise BadFact(f"{file}: 'general.architecture' is '{echo(kind)}'; expected a name such as llama")
    fields: dict[str, Any] = {"model_type": _MODEL_TYPES.get(kind, kind)}
    for setting, field in _FIELDS.items():
        value = settings.get(f"{kind}.{setting}")
        if value is not None:
            fields[field] = _per_layer(value)
    tensors = {tensor.name: tensor for tensor in header.weights.tensors}
    embedding = tensors.get("token_embd.weight")
    if embedding is not None and len(embedding.shape) == 2:
        fields["vocab_size"] = embedding.shape[1]
    fields["tie_word_embeddings"] = "output.weight" not in tensors
    fields["attention_bias"] = "blk.0.attn_q.bias" in tensors or "blk.0.attn_qkv.bias" in tensors
    fields["use_qk_norm"] = "blk.0.attn_q_norm.weight" in tensors
    if kind == "llama" and fields.get("num_experts"):
        fields["model_type"] = "mixtral"
        fields["intermediate_size"] = fields.get("moe_intermediate_size") or fields.get("intermediate_size")
    elif not fields.get("num_experts"):
        fields.pop("num_experts", None)
    if kind == "deepseek2":
        fields.update(_latent(header, kind))
    if kind == "gpt-oss" and "moe_intermediate_size" in fields:
        fields["intermediate_size"] = fields["moe_intermediate_size"]
    return fields


def _per_layer(value: Any) -> Any:
    """A number; of a list with one number for each layer the number if all are equal, else the list."""
    if not isinstance(value, Array):
        return value
    return value.items[0] if len(set(value.items)) == 1 else list(value.items)


def _latent(header: Header, kind: str) -> dict[str, Any]:
    """DeepSeek's head parts: llama.cpp stores them for the absorbed form, and the expanded ones beside them."""
    get = header.settings.get
    rope = get(f"{kind}.rope.dimension_count")
    key = get(f"{kind}.attention.key_length_mla") or get(f"{kind}.attention.key_length")
    value = get(f"{kind}.attention.value_length_mla") or get(f"{kind}.attention.value_length")
    if not all(isinstance(number, int) for number in (rope, key, value)):
        return {}
    names = {tensor.name for tensor in header.weights.tensors}
    balanced = any("exp_probs_b" in name for name in names)
    return {
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": int(key or 0) - int(rope or 0),
        "v_head_dim": value,
        "topk_method": "noaux_tc" if balanced else "greedy",
    }


_SPLIT: Final = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


def _parts(path: Path) -> list[Path]:
    """All files of a model split over several."""
    match = _SPLIT.search(path.name)
    if match is None:
        return [path]
    start, count = path.name[: match.start()], int(match.group(2))
    parts = [path.with_name(f"{start}-{number:05d}-of-{count:05d}.gguf") for number in range(1, min(count, 999) + 1)]
    missing = next((part for part in parts if not part.is_file()), None)
    if missing is not None:
        raise BadFact(f"{echo(path)}: its part '{echo(missing.name)}' is not there; expected all {count} parts")
    return parts


def read_gguf(path: Path) -> Model:
    """
    The model in a GGUF file (or in all parts of a split one), with the exact bytes of its tensors.

    Raises
    ------
    BadFact
        No GGUF file, cut short, or of an architecture that cannot be read.
    """
    headers = [read_header(part) for part in _parts(path)]
    weights = weights_of(tensor for header in headers for tensor in header.weights.tensors)
    first = Header(settings=headers[0].settings, weights=weights)
    shown = str(echo(path))
    stated = first.settings.get("general.name")
    name = plain_text(stated if isinstance(stated, str) else path.stem, where=f"{shown}: the name")
    model = read_config(gguf_config(first, file=shown), file=shown, name=name)
    level, note = _level(first)
    return msgspec.structs.replace(
        model,
        stored_weight_bytes=weights.bytes,
        quantization=level,
        native_dtype="fp16",
        notes=f"weights on disk: {describe(weights)}",
        assumed=(*model.assumed, *note),
    )


def _level(header: Header) -> tuple[str, tuple[str, ...]]:
    """Our format nearest to the mixture of the file: by its declared type, else by its bits per value."""
    declared = header.settings.get("general.file_type")
    known = _FILE_TYPES.get(declared) if isinstance(declared, int) else None
    if known is not None:
        return known, ()
    values = sum(tensor.values for tensor in header.weights.tensors)
    bits = 8 * header.weights.bytes / max(values, 1)
    formats = [item for item in FORMATS.values() if item.name.startswith("gguf-")]
    near = min(formats, key=lambda item: abs(item.bits - bits))
    return near.name, (f"weights of {bits:.2f} bits a value are treated as {near.name}; their bytes are exact",)
