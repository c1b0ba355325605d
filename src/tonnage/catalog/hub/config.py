"""What architecture does a config.json describe?

`read_config` looks `model_type` up in the tables of the adapters, reads a composite's language part and its tower, the
quantisation and the number format, and never runs code of the repository (`auto_map` is ignored). An unknown type is
read from the field names that most files share, and the model says so in `assumed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage.catalog.hub.dense import DENSE
from tonnage.catalog.hub.encoders import ENCODERS
from tonnage.catalog.hub.fields import Config, given, section, text
from tonnage.catalog.hub.hybrids import HYBRIDS
from tonnage.catalog.hub.latent import LATENT
from tonnage.catalog.hub.mixtures import MIXTURES
from tonnage.catalog.hub.quantization import native_dtype, quantization
from tonnage.catalog.hub.recent import RECENT
from tonnage.catalog.hub.unknown import read_unknown
from tonnage.catalog.hub.vision import VISION, tower
from tonnage.domain.model import Model, Moe
from tonnage.errors import BadFact, echo

__all__ = ["ADAPTERS", "read_config"]

ADAPTERS: Final = {**DENSE, **MIXTURES, **LATENT, **HYBRIDS, **RECENT, **ENCODERS, **VISION}
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
        if kind not in VISION and given(outer, "vision_config") is not None:
            model = _with_tower(model, outer, kind)
    else:
        lent = {key: data[key] for key in OUTER_FIELDS if key in data and inner.data.get(key) is None}
        c = Config(file, {**lent, **inner.data}, inner.prefix)
        model = _read(c, text(c, "model_type") or kind)
        model = _with_tower(model, outer, kind)
    mixture = any(isinstance(group.feed_forward, Moe) for group in model.layers)
    formats = quantization(outer, mixture=mixture)
    return msgspec.structs.replace(
        model,
        id=name or text(outer, "_name_or_path") or model.id or file,
        native_dtype=native_dtype(outer),
        quantization=formats.weights,
        experts_dtype=formats.experts,
        source=model.source or file,
    )


def _read(c: Config, kind: str) -> Model:
    row = ADAPTERS.get(kind) or ADAPTERS.get(RENAMED.get(kind, ""))
    if row is None:
        return read_unknown(c, kind)
    family, adapter = row
    try:
        model = adapter(c)
    except (ZeroDivisionError, OverflowError, IndexError, RecursionError) as problem:
        raise BadFact(
            f"{c.file}: the fields of '{echo(kind)}' contradict each other ({type(problem).__name__})"
        ) from None
    return msgspec.structs.replace(model, family=family)


def _by_architecture(c: Config) -> str:
    """The type named by the class in `architectures`, for files without `model_type`."""
    listed = given(c, "architectures")
    first = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else ""
    plain = first.lower()
    for ending in ("forcausallm", "forconditionalgeneration", "lmheadmodel", "model"):
        plain = plain.removesuffix(ending)
    return next((kind for kind in ADAPTERS if kind.replace("_", "").replace("-", "") == plain), "")


def _with_tower(model: Model, outer: Config, kind: str) -> Model:
    """The language part with its vision tower, or with a word that it was left out."""
    kind_of = {"llm": "vlm", "llm-moe": "llm-moe"}.get(model.kind, model.kind)
    vision = section(outer, "vision_config")
    found = None if vision is None else tower(kind, vision, c=outer, width=model.hidden_size)
    if found is not None:
        return msgspec.structs.replace(model, towers=(found,), kind=kind_of)
    if vision is None and given(outer, "audio_config") is None:
        return model
    note = f"towers of '{echo(kind)}' are not counted: only the language part is read"
    return msgspec.structs.replace(model, kind=kind_of, assumed=(*model.assumed, note))
