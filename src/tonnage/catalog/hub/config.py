"""
What architecture does a config.json describe, or a mapping that somebody writes out?

`read_config` looks `model_type` up in the tables of the adapters, reads a composite's language part and its tower, the
quantisation and the number format, and never runs code of the repository (`auto_map` is ignored). `read_inline` takes a
mapping: one with `layers`, `network` or `towers` is the `Model` noun itself; any other is read as a config.json.
`quantization` names the format of the weights (`domain.precision.FORMATS`) from `quantization_config`, or from the
`hf_quant_config.json` beside NVIDIA's checkpoints.

The names that most files share say which of four decoders an unknown type is like: Llama, one with windows, Mixtral
with its dense layers and shared experts, or DeepSeek; the model says so in `assumed`. Fields that name anything else
(states, convolutions, folded caches) are not read, and the model says which they are: its cache is then too large
rather than too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tonnage.catalog.hub.dense import DENSE
from tonnage.catalog.hub.encoders import ENCODERS
from tonnage.catalog.hub.fields import (
    Config,
    attention,
    decoder,
    field_error,
    first_given,
    flag,
    integer,
    layer,
    layer_count,
    mlp,
    moe,
    native_dtype,
    optional_count,
    optional_integer,
    refuse_contradictions,
    section,
    text,
    texts,
    windows,
)
from tonnage.catalog.hub.hybrids import HYBRIDS
from tonnage.catalog.hub.latent import LATENT
from tonnage.catalog.hub.moe import MOE, sparse_step
from tonnage.catalog.hub.recent import RECENT, sparse_layers
from tonnage.catalog.hub.vision import VISION, tower
from tonnage.domain.model import Model, Moe
from tonnage.errors import BadFact, echo


def _settings(c: Config) -> Config | None:
    """The quantisation settings, wherever they stand."""
    found = section(c, "quantization_config", "compression_config")
    if found is None:
        inner = section(c, "text_config")
        found = None if inner is None else section(inner, "quantization_config")
    return found


class Formats(NamedTuple):
    """Format of the weights, and of the routed experts where they are kept apart; None = as published."""

    weights: str | None = None
    experts: str | None = None


def quantization(c: Config, *, mixture: bool) -> Formats:
    """
    Weight formats of the checkpoint.

    A mixture whose attention is left alone has quantised experts only. An unknown method gives its own name, so that
    it is shown and not silently taken for bf16.
    """
    settings = _settings(c)
    if settings is None:
        return Formats()
    method = text(settings, "quant_method").lower()
    if method == "mxfp4":  # gpt-oss: the method's name is the format of the experts, the rest stays as it is
        return Formats(None, "mxfp4")
    mixed = _by_layers(settings)
    if mixed is not None:
        return mixed if mixture else Formats(mixed.experts or mixed.weights)
    whole = _one_format(settings, method)
    named = text(c, "expert_dtype")
    if named:
        return Formats(whole, {"fp4": "mxfp4"}.get(named, named))
    if mixture and method in _SELECTIVE and _attention_left_alone(settings):
        return Formats(None, whole)
    return Formats(whole)


_SELECTIVE: Final = {"modelopt", "compressed-tensors", ""}
"""Methods whose lists of what is left alone name whole kinds of layers."""


def _one_format(settings: Config, method: str) -> str | None:
    """The one format of a checkpoint's quantised weights; an unknown method is its own name, None = not said."""
    if method in _SELECTIVE:
        return _by_algorithm(settings) or _by_groups(settings) or (method or None)
    if method == "bitsandbytes":
        four, eight = (flag(settings, f"load_in_{bits}bit", f"_load_in_{bits}bit") for bits in (4, 8))
        if four == eight:
            raise field_error(settings, "load_in_4bit", value=four, expected="one of load_in_4bit and load_in_8bit")
        return "nf4" if four else "int8_weight"
    if method == "fp8":
        return "fp8_block" if first_given(settings, "weight_block_size") else "fp8"
    if method in {"awq", "gptq", "auto-round", "gptq_marlin"}:
        bits = integer(settings, "bits", "w_bit", "num_bits", default=4)
        usual = "awq" if method == "awq" else "gptq"
        return {8: "int8_weight", 4: usual, 2: "int2"}.get(bits, f"{usual}-{bits}bit")
    return {"fbgemm_fp8": "fp8", "mxfp8": "mxfp8", "modelopt_fp4": "nvfp4", "int8": "int8"}.get(method, method)


_ALGORITHMS: Final = {
    "NVFP4": "nvfp4", "FP8": "fp8", "W4A16_AWQ": "awq", "INT4_AWQ": "awq", "W8A8_SQ": "int8", "W4A8_AWQ": "awq",
    "FP8_PB_WO": "fp8_block", "MXFP4": "mxfp4", "MXFP8": "mxfp8", "W8A16": "int8_weight", "W4A16": "int4",
    "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "W4A8_MXFP4_FP8": "mxfp4",
}  # fmt: skip


def _modelopt(settings: Config) -> Config:
    """The settings as ModelOpt has them: under `quantization` in a file of their own, else as they stand."""
    return section(settings, "quantization") or settings


def _by_algorithm(settings: Config) -> str | None:
    """NVIDIA's ModelOpt: one algorithm for all layers."""
    name = text(_modelopt(settings), "quant_algo").upper()
    return _ALGORITHMS.get(name, name.lower() or None)


def _by_layers(settings: Config) -> Formats | None:
    """
    ModelOpt's mixtures: an algorithm for each layer.

    Routed experts vote for theirs; the other layers for the rest, which is block-wise FP8 where the checkpoint was so
    before its experts were quantised again. In a dense model the feed-forward votes in the experts' place.
    """
    layers = section(_modelopt(settings), "quantized_layers") or section(settings, "quantized_layers")
    if layers is None:
        return None
    votes: dict[str, dict[str, int]] = {"routed": {}, "dense": {}, "rest": {}}
    for name, chosen in layers.data.items():
        algorithm = chosen.get("quant_algo") if isinstance(chosen, Mapping) else None
        if isinstance(algorithm, str):
            shared = "shared" in name or ".mlp." in name or "head" in name
            group = votes[
                "dense" if shared and ".mlp.experts" not in name else "routed" if ".experts" in name else "rest"
            ]
            found = _ALGORITHMS.get(algorithm.upper(), algorithm.lower())
            group[found] = group.get(found, 0) + 1
    kept = "fp8_block" if first_given(settings, "weight_block_size") else None
    rest = _winner(votes["rest"]) or (_winner(votes["dense"]) if votes["routed"] else None)
    return Formats(rest or kept, _winner(votes["routed"]) or _winner(votes["dense"]))


def _winner(votes: Mapping[str, int]) -> str | None:
    return max(sorted(votes), key=votes.__getitem__, default=None)


def _attention_left_alone(settings: Config) -> bool:
    """Whether the list of layers left alone names attention as a whole, by a pattern or in many layers."""
    listed = first_given(settings, "ignore", "exclude_modules") or first_given(
        _modelopt(settings), "ignore", "exclude_modules"
    )
    names = [name for name in listed if isinstance(name, str) and "attn" in name] if isinstance(listed, list) else []
    return len(names) >= 8 or any("*" in name and not any(c.isdigit() for c in name) for name in names)


def _by_groups(settings: Config) -> str | None:
    """compressed-tensors: the format of the weights of the first group that says one."""
    groups = section(settings, "config_groups")
    for name in groups.data if groups is not None else ():
        group = None if groups is None else section(groups, name)
        weights = None if group is None else section(group, "weights")
        if weights is not None and group is not None:
            return _by_bits(weights.data, activations=group.data.get("input_activations") is not None)
    return None


def _by_bits(weights: Mapping[str, Any], *, activations: bool) -> str | None:
    """The format of weights of so many bits and such a type; None = no format here has them."""
    bits, kind, size = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if kind == "float":
        if bits == 4:
            return "mxfp4" if size == 32 else "nvfp4"
        return "fp8_block" if weights.get("strategy") == "block" else "fp8"
    if bits == 8:
        return "int8" if activations else "int8_weight"
    if bits == 4:
        return "int4_g32" if size == 32 else "int4"
    return "int2" if bits == 2 else None


ADAPTERS: Final = {**DENSE, **MOE, **LATENT, **HYBRIDS, **RECENT, **ENCODERS, **VISION}
"""Family and adapter by `model_type`."""

RENAMED: Final = {
    "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "qwen2_5_vl": "qwen2", "qwen2_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2", "qwen2_vl_text": "qwen2", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text", "llama4": "llama4_text", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
    "minimax_m3_vl": "minimax_m3", "internlm3": "llama", "yi": "llama", "aquila": "llama", "baichuan": "llama",
    "exaone": "llama", "minicpm": "llama", "llava": "llama", "pixtral": "mistral", "mistral3": "mistral",
    "falcon_mamba": "mamba", "dots1": "glm4_moe", "internlm2": "llama", "xverse": "llama", "arcee": "nemotron",
    "mistral4": "deepseek_v3", "mistral_large_3": "deepseek_v3", "glm4v_moe": "glm4_moe", "glm4v_moe_text": "glm4_moe",
    "mimo_v2": "mimo_v2_flash", "hy_v3_text": "hy_v3", "muse_glimmer": "muse_glimmer_text", "inkling": "inkling_text",
    "inkling_mm_model": "inkling_text", "glm5_next": "glm5_next_text", "gemma4_unified": "gemma4_text",
    "gemma4_unified_text": "gemma4_text", "lfm2_vl": "lfm2", "bailing_moe_v3": "bailing_hybrid",
}  # fmt: skip
"""Types whose language part is another type's."""

OUTER_FIELDS: Final = ("tie_word_embeddings", "vocab_size", "torch_dtype", "dtype")
"""Fields of a composite that hold for its language part when that does not say."""


def read_config(data: Mapping[str, Any], *, file: str = "config.json", name: str = "") -> Model:
    """
    The architecture that the fields of a config.json describe.

    Parameters
    ----------
    data : mapping
        The parsed file.
    file : str
        What to call it in messages.
    name : str
        Id of the model, when known.

    Raises
    ------
    BadFact
        A field is missing, of the wrong type or absurd, or the type is unknown and its fields are too.
    """
    outer = Config(file, data)
    inner = section(outer, "text_config", "llm_config", "language_config")
    kind = text(outer, "model_type")
    if kind in VISION or inner is None:
        model = _read(outer, kind or _by_architecture(outer))
        if kind not in VISION and first_given(outer, "vision_config") is not None:
            model = _with_tower(model, outer, kind)
    else:
        lent = {key: data[key] for key in OUTER_FIELDS if key in data and inner.data.get(key) is None}
        c = Config(file, {**lent, **inner.data}, inner.prefix)
        model = _read(c, text(c, "model_type") or kind)
        model = _with_tower(model, outer, kind)
    mixture = any(isinstance(group.feed_forward, Moe) for group in model.layers)
    formats = quantization(outer, mixture=mixture)
    native, note = native_dtype(outer)
    return replace(
        model,
        id=name or text(outer, "_name_or_path") or model.id or file,
        native_dtype=native,
        assumed=(*model.assumed, *note),
        quantization=formats.weights,
        experts_dtype=formats.experts,
        source=model.source or file,
    )


def _read(c: Config, kind: str) -> Model:
    """The model of a `model_type`, or of the type that it is another name of; of an unknown type as a usual decoder."""
    row = ADAPTERS.get(kind) or ADAPTERS.get(RENAMED.get(kind, ""))
    refuse_contradictions(c)
    if row is None:
        return read_unknown(c, kind)
    family, adapter = row
    try:
        model = adapter(c)
    except (ZeroDivisionError, OverflowError, IndexError, RecursionError) as problem:
        raise BadFact(
            f"{c.file}: the fields of '{echo(kind)}' contradict each other ({type(problem).__name__})"
        ) from None
    return replace(model, family=family)


def _by_architecture(c: Config) -> str:
    """The type named by the first class in `architectures`, for files without `model_type`; empty = none known."""
    listed = first_given(c, "architectures")
    first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else ""
    architecture = first.lower()
    for ending in ("forcausallm", "forconditionalgeneration", "lmheadmodel", "model"):
        architecture = architecture.removesuffix(ending)
    return next((kind for kind in ADAPTERS if kind.replace("_", "").replace("-", "") == architecture), "")


def _with_tower(model: Model, outer: Config, kind: str) -> Model:
    """The language part with its vision tower, or with a word that it was left out."""
    kind_of = {"llm": "vlm", "llm-moe": "llm-moe"}.get(model.kind, model.kind)
    vision = section(outer, "vision_config")
    found = None if vision is None else tower(kind, vision, c=outer, width=model.hidden_size)
    if found is not None:
        return replace(model, towers=(found,), kind=kind_of)
    if vision is None and first_given(outer, "audio_config") is None:
        return model
    note = f"towers of '{echo(kind)}' are not counted: only the language part is read"
    return replace(model, kind=kind_of, assumed=(*model.assumed, note))


NOUN_FIELDS: Final = frozenset({"layers", "encoder", "network", "towers"})


def read_inline(given: Mapping[str, Any], *, where: str = "model") -> Model:
    """
    A model from a mapping: fields of `Model` where it has layers, a network or towers, else those of a config.json.

    Raises
    ------
    BadFact
        A field is missing, unknown, of the wrong type or absurd.
    """
    if not NOUN_FIELDS & set(given):
        return _from_config(given, where)
    facts = {"family": "own", "kind": "llm", "id": "inline", **given}
    known = {field.name for field in msgspec.structs.fields(Model)}
    unknown = sorted(str(name) for name in facts if name not in known)
    if unknown:
        raise BadFact(f"{where}: '{echo(unknown[0])}' is no field of a model; expected {', '.join(sorted(known))}")
    try:
        found: Model = msgspec.convert(facts, Model)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise BadFact(f"{where}: {echo(problem)}") from None
    _check(found, where)
    return found


def _from_config(given: Mapping[str, Any], where: str) -> Model:
    found = read_config(given, file=where, name=str(given.get("id", "")) or "inline")
    stated = {key: given[key] for key in ("licence", "notes", "source") if isinstance(given.get(key), str)}
    return replace(found, **stated)


def _check(found: Model, where: str) -> None:
    """Refuse sizes outside 0 to 2**31 - 1, and layers without a width: a converted struct only has the right types."""
    sizes = {"hidden_size": found.hidden_size, "vocab_size": found.vocab_size}
    for number, group in enumerate((*found.encoder, *found.layers)):
        sizes[f"layers[{number}].count"] = group.count
        for part in (group.mixer, group.feed_forward, group.cross_attention):
            if part is None:
                continue
            for name, value in msgspec.structs.asdict(part).items():
                if isinstance(value, int | float) and not isinstance(value, bool):
                    sizes[f"layers[{number}].{name}"] = int(value)
    for name, value in sizes.items():
        if not 0 <= value < 1 << 31:
            raise BadFact(f"{where}: '{name}' is '{value}'; expected a number from 0 to {(1 << 31) - 1}")
    if found.layers and found.hidden_size < 1:
        raise BadFact(f"{where}: 'hidden_size' is missing; expected the width of the layers")


EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
SHARED: Final = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
USUAL: Final = (
    ("hidden_size", "n_embd", "d_model"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    ("num_attention_heads", "n_head", "n_heads"),
    ("intermediate_size", "ffn_dim", "n_inner", "moe_intermediate_size"),
    ("vocab_size",),
)
"""Without one of each, no decoder is read."""

FOREIGN: Final[tuple[str, ...]] = (
    "mamba", "ssm", "linear_", "conv_", "compress_ratio", "hc_", "hybrid_", "layers_block_type", "altup", "laurel",
    "ngram", "recurrent", "rwkv", "full_attention_interval", "attn_layer", "layer_group_size", "kv_shared", "kv_lora",
)  # fmt: skip
"""Beginnings of fields that name a part no such decoder has."""


def read_unknown(c: Config, kind: str) -> Model:
    """
    A decoder read from the usual field names alone.

    Raises
    ------
    BadFact
        The usual fields are not all there.
    """
    if not all(first_given(c, *names) is not None for names in USUAL):
        shown = f"model_type '{echo(kind)}'" if kind else "no model_type"
        raise BadFact(
            f"{c.file}: {shown} is not one Tonnage reads and the usual fields (hidden_size, num_hidden_layers, "
            f"num_attention_heads, intermediate_size, vocab_size) are not all there; give those fields inline"
        )
    mixture, foreign = first_given(c, *EXPERTS) is not None, FOREIGN
    if mixture and first_given(c, "kv_lora_rank") is not None and first_given(c, "moe_intermediate_size") is not None:
        model, like, foreign = LATENT["deepseek_v3"][1](c), "DeepSeek", FOREIGN[:-1]
    else:
        model, like = _usual_decoder(c, mixture=mixture), "Mixtral" if mixture else "Llama"
    said = f"'{echo(kind)}'" if kind else "a file without model_type"
    note = f"model_type {said} is not known: read as a {like}-like decoder from its fields"
    unread = sorted(name for name, value in c.data.items() if name.startswith(foreign) and value not in (None, False))
    if unread:
        names = ", ".join(echo(name) for name in unread[:3]) + (" and more" if len(unread) > 3 else "")
        note += f"; {names} were not read: parameters may be off, and the cache may be several times too large"
    return replace(model, family=kind or "unknown", assumed=(note,))


def _usual_decoder(c: Config, *, mixture: bool) -> Model:
    """Ordinary attention, with the window of each layer, before a mixture or a dense feed-forward."""
    base = attention(c, qk_norm=flag(c, "use_qk_norm", "qk_norm"))
    experts = _experts(c) if mixture else None
    dense = mlp(c, gated=flag(c, "mlp_gated", default=True)) if not mixture or _has_dense(c) else experts
    layers = [
        layer(replace(base, window=window), experts if sparse else dense)
        for window, sparse in zip(_windows(c), _sparse(c, mixture=mixture), strict=True)
    ]
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def _has_dense(c: Config) -> bool:
    return first_given(c, *USUAL[3][:3]) is not None


def _experts(c: Config) -> Moe:
    """Experts, and those that every token sees: by their number, or by their width alone."""
    width = integer(c, "moe_intermediate_size", "intermediate_size")
    stated = optional_integer(c, *SHARED)
    count = optional_count(c, "n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    shared = count * width if count else (stated or 0)
    return moe(c, moe_intermediate_size=width, shared_intermediate_size=shared)


def _sparse(c: Config, *, mixture: bool) -> tuple[bool, ...]:
    if not mixture:
        return (False,) * layer_count(c)
    return sparse_step(c) if first_given(c, "decoder_sparse_step", "mlp_only_layers") is not None else sparse_layers(c)


def _windows(c: Config) -> tuple[int | None, ...]:
    """Windows where the file says which layers have one; a bare width is no proof that any layer uses it."""
    pattern = optional_integer(c, "sliding_window_pattern", "_sliding_window_pattern", low=2)
    off = not flag(c, "use_sliding_window", default=True)
    if off or (pattern is None and texts(c, "layer_types", length=layer_count(c)) is None):
        return (None,) * layer_count(c)
    return windows(c, every=pattern)
