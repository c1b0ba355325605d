"""Dense decoders: a few flags for each `model_type` where these say it all, a small function for the others.

Sources: the reference implementation of each type (Hugging Face transformers, Apache-2.0), checked against published
totals in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Literal

import msgspec

from tonnage.catalog.hub.fields import (
    Adapter,
    Config,
    attention,
    decoder,
    field_error,
    first_given,
    flag,
    hidden_size,
    identical_layers,
    integer,
    integers,
    layer,
    layer_count,
    mlp,
    normed_channels,
    optional_count,
    optional_integer,
    section,
    text,
    windows,
)
from tonnage.domain.model import Attention, FeedForward, LayerGroup, Mlp, Model
from tonnage.record import Record


class Traits(Record, kw_only=True):
    """What a family does differently from Mistral without a window; what is not here needs a function."""

    bias: Literal["as stated", "unless stated", "always"] = "as stated"
    """Of queries, keys and values: `attention_bias` of the file, and what its absence means."""
    output_bias: bool = False
    """The output projection has a bias where queries, keys and values have one."""
    qk_norm: bool = False
    windowed: bool = False
    every: int | None = None
    """Of so many layers the last one sees everything; absent = each has the window, or as `layer_types` says."""
    gated: bool = True
    mlp_bias: bool = False
    """Always; otherwise as `mlp_bias` of the file says."""
    norms: int = 2
    norm_bias: bool = False
    final_norms: int = 1
    head_bias: bool = False
    tied: bool = False
    """What a file means that does not say `tie_word_embeddings`."""
    mtp: bool = False
    """The file may count layers of multi-token prediction."""


def flagged_adapter(**traits: Any) -> Adapter:
    """The adapter of a family that a few flags describe (fields of `Traits`)."""
    return partial(_by_traits, Traits(**traits))


def _by_traits(t: Traits, c: Config) -> Model:
    """A decoder of what the file says, and of its family's traits where it says nothing."""
    bias = t.bias == "always" or flag(c, "attention_bias", default=t.bias == "unless stated")
    mixer = attention(c, bias=bias, output_bias=bias and t.output_bias, qk_norm=t.qk_norm)
    feed_forward = mlp(c, gated=t.gated, bias=True) if t.mlp_bias else mlp(c, gated=t.gated)
    norms: dict[str, Any] = {"norms": t.norms, "norm_bias": t.norm_bias}
    layers = (
        group_by_window(c, (mixer, feed_forward), every=t.every, **norms)
        if t.windowed
        else identical_layers(c, (mixer, feed_forward), **norms)
    )
    return decoder(
        c,
        layers,
        tied=t.tied,
        norm_bias=t.norm_bias,
        final_norms=t.final_norms,
        head_bias=t.head_bias,
        mtp_layers=optional_count(c, "num_nextn_predict_layers") if t.mtp else 0,
    )


def group_by_window(
    c: Config, parts: tuple[Attention, FeedForward], *, every: int | None, **changes: Any
) -> Iterator[LayerGroup]:
    """Layers of this mixer and feed-forward that differ only in what their attention sees."""
    base, feed_forward = parts
    for window in windows(c, every=every):
        mixer = msgspec.structs.replace(base, window=window)
        yield layer(mixer, feed_forward, **changes)


def _qwen1(c: Config) -> Model:
    """The first Qwen: its `intermediate_size` is that of both gated matrices together."""
    width = integer(c, "intermediate_size") // 2
    mixer = attention(c, bias=True)
    return decoder(c, identical_layers(c, (mixer, Mlp(intermediate_size=width))))


def _exaone4(c: Config) -> Model:
    """Query and key norms; norms after each sub-layer; three of four layers see a window."""
    pattern = (
        text(c, "sliding_window_pattern", default="")
        if isinstance(first_given(c, "sliding_window_pattern"), str)
        else ""
    )
    every = len(pattern) or 4
    return decoder(c, group_by_window(c, (attention(c, qk_norm=True), mlp(c)), every=every, norms=2))


def _gemma3(c: Config) -> Model:
    """Five windowed layers for each full one; query and key norms."""
    pattern = optional_integer(c, "sliding_window_pattern", low=1) or 6
    layers = group_by_window(c, (attention(c, qk_norm=True), mlp(c)), every=pattern, norms=4)
    return decoder(c, layers, tied=True, vocab_size=integer(c, "vocab_size", default=262208))


def _falcon(c: Config) -> Model:
    """Multi-query (7B) or grouped (40B, 180B) attention in parallel with the feed-forward; LayerNorm."""
    heads, width = integer(c, "num_attention_heads", "n_head"), hidden_size(c)
    new = flag(c, "new_decoder_architecture")
    grouped = integer(c, "num_kv_heads", "num_key_value_heads", "n_head_kv", default=heads)
    kv_heads = grouped if new else 1 if flag(c, "multi_query", default=True) else heads
    bias = flag(c, "bias")
    mixer = attention(c, num_key_value_heads=kv_heads, bias=bias, output_bias=bias)
    feed_forward = Mlp(intermediate_size=integer(c, "ffn_hidden_size", default=4 * width), gated=False, bias=bias)
    parallel = flag(c, "parallel_attn", default=True)
    norms = integer(c, "num_ln_in_parallel_attn", default=2 if new else 1 if parallel else 2)
    return decoder(
        c, identical_layers(c, (mixer, feed_forward), norms=norms, norm_bias=True), tied=True, norm_bias=True
    )


def _gpt_layers(c: Config, mixer: Attention, width: int, *, biased: bool = True) -> tuple[LayerGroup, ...]:
    feed_forward = Mlp(intermediate_size=width, gated=False, bias=biased)
    return identical_layers(c, (mixer, feed_forward), norm_bias=True)


def _gpt2(c: Config, **mixing: int) -> Model:
    """GPT-2 and its kin (GPT-3, Megatron): learned positions, which end the context, LayerNorm, biases, tied head."""
    width = integer(c, "n_inner", "intermediate_size", default=4 * hidden_size(c))
    positions = integer(c, "n_positions", "max_position_embeddings", default=1024)
    layers = _gpt_layers(c, attention(c, bias=True, output_bias=True, **mixing), width)
    return decoder(c, layers, tied=True, norm_bias=True, learned_positions=positions, max_context=positions)


def _gpt_bigcode(c: Config) -> Model:
    """StarCoder: GPT-2 with one key-value head, or as many as heads where `multi_query` is false."""
    kv_heads = 1 if flag(c, "multi_query", default=True) else integer(c, "num_attention_heads", "n_head")
    return _gpt2(c, num_key_value_heads=kv_heads)


def _starcoder2(c: Config) -> Model:
    bias = flag(c, "use_bias", default=True)
    mixer, feed_forward = attention(c, bias=bias, output_bias=bias), mlp(c, gated=False, bias=bias)
    layers = group_by_window(c, (mixer, feed_forward), every=None, norm_bias=True)
    return decoder(c, layers, tied=True, norm_bias=True)


def _gptj(c: Config) -> Model:
    """GPT-J: one LayerNorm, attention without biases, a biased head."""
    width = integer(c, "n_inner", "intermediate_size", default=4 * hidden_size(c))
    feed_forward = Mlp(intermediate_size=width, gated=False, bias=True)
    layers = identical_layers(c, (attention(c), feed_forward), norms=1, norm_bias=True)
    return decoder(c, layers, norm_bias=True, head_bias=True)


def _bloom(c: Config) -> Model:
    """ALiBi instead of positions; a LayerNorm on the embedding."""
    width = hidden_size(c)
    layers = _gpt_layers(c, attention(c, bias=True, output_bias=True), 4 * width)
    context = integer(c, "seq_length", "max_position_embeddings", default=2048)
    return decoder(c, layers, tied=True, norm_bias=True, extra_parameters=2.0 * width, max_context=context)


def _opt(c: Config) -> Model:
    """Two more rows of positions than the context; OPT-350m has a narrow embedding and no final norm."""
    width, before = hidden_size(c), flag(c, "do_layer_norm_before", default=True)
    bias = flag(c, "enable_bias", default=True)
    layers = _gpt_layers(c, attention(c, bias=bias, output_bias=bias), integer(c, "ffn_dim", "intermediate_size"))
    narrow = integer(c, "word_embed_proj_dim", default=width)
    return decoder(
        c,
        layers,
        tied=True,
        norm_bias=True,
        final_norms=1 if before else 0,
        learned_positions=integer(c, "max_position_embeddings") + 2,
        embedding_size=narrow if narrow != width else None,
    )


def _mpt(c: Config) -> Model:
    """No biases at all; ALiBi, or learned positions where the file says so."""
    settings = section(c, "attn_config") or Config(c.file, {})
    width, bias = hidden_size(c), not flag(c, "no_bias", default=True)
    heads = integer(c, "n_heads", "num_attention_heads")
    kv_heads = integer(settings, "kv_n_heads", default=integer(c, "num_key_value_heads", default=heads))
    mixer = attention(c, num_key_value_heads=kv_heads, bias=bias, output_bias=bias)
    hidden = integer(c, "intermediate_size", default=integer(c, "expansion_ratio", default=4) * width)
    layers = identical_layers(c, (mixer, Mlp(intermediate_size=hidden, gated=False, bias=bias)), norm_bias=bias)
    context = integer(c, "max_seq_len", "max_position_embeddings", default=2048)
    learned = flag(c, "learned_pos_emb") and not flag(settings, "alibi")
    return decoder(c, layers, tied=True, learned_positions=context if learned else 0, max_context=context)


def _cohere(c: Config) -> Model:
    """Command-R: one LayerNorm without bias in front of both sub-layers; Command-R+ norms each query and key head."""
    base = attention(c)
    extra = normed_channels(base) if flag(c, "use_qk_norm") else 0.0
    layers = identical_layers(c, (base, mlp(c)), norms=1, extra_parameters=extra)
    return decoder(c, layers, tied=True)


def _cohere2(c: Config) -> Model:
    every = optional_integer(c, "sliding_window_pattern", low=1) or 4
    return decoder(c, group_by_window(c, (attention(c), mlp(c)), every=every, norms=1), tied=True)


def _olmo2(c: Config) -> Model:
    """OLMo 2 and 3: query and key norms over all heads together; OLMo 3 sees a window in three of four layers."""
    base = attention(c, qk_norm_all_heads=True)
    return decoder(c, group_by_window(c, (base, mlp(c)), every=4, extra_parameters=normed_channels(base)))


def _stablelm(c: Config) -> Model:
    """StableLM 2: LayerNorm with bias; optional query, key and value biases; parallel blocks have one norm."""
    mixer = attention(c, bias=flag(c, "use_qkv_bias"))
    norms = 1 if flag(c, "use_parallel_residual") else 2
    return decoder(c, identical_layers(c, (mixer, mlp(c)), norms=norms, norm_bias=True), norm_bias=True)


def _deci(c: Config) -> Model:
    """DeciLM-7B: another number of key-value heads in each layer."""
    count = layer_count(c)
    per_layer = integers(c, "num_key_value_heads_per_layer", length=count)
    if per_layer is None:
        raise field_error(c, "num_key_value_heads_per_layer", value=None, expected="a number for each layer")
    layers = (layer(attention(c, num_key_value_heads=max(k, 1)), mlp(c)) for k in per_layer)
    return decoder(c, layers)


def _chatglm(c: Config) -> Model:
    """ChatGLM 2-3 and GLM-4-9B in the vendors' own field names."""
    groups = integer(c, "multi_query_group_num") if flag(c, "multi_query_attention") else None
    heads = integer(c, "num_attention_heads")
    mixer = attention(
        c,
        num_key_value_heads=groups or heads,
        bias=flag(c, "add_qkv_bias", default=True),
        head_dim=integer(c, "kv_channels", default=hidden_size(c) // heads),
    )
    return decoder(c, identical_layers(c, (mixer, Mlp(intermediate_size=integer(c, "ffn_hidden_size")))))


def block_list(c: Config, name: str) -> list[Config]:
    """A list of objects, one for each layer."""
    value = first_given(c, name)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise field_error(c, name, value=value, expected="a list of objects, one for each layer")
    return [Config(c.file, item, f"{c.prefix}{name}[{index}].") for index, item in enumerate(value)]


def _nemotron_nas(c: Config) -> Model:
    """Nemotron Super and Ultra: each block has its own heads and width, or none (architecture search)."""
    heads = integer(c, "num_attention_heads")
    width, layers = hidden_size(c), []
    for block in block_list(c, "block_configs")[: layer_count(c)]:
        look = section(block, "attention") or Config(c.file, {"no_op": True})
        feed = section(block, "ffn") or Config(c.file, {"no_op": True})
        mixer, feed_forward = None, None
        if not flag(look, "no_op") and not flag(look, "replace_with_linear"):
            mixer = attention(c, num_key_value_heads=max(heads // integer(look, "n_heads_in_group"), 1))
        if not flag(feed, "no_op") and not flag(feed, "replace_with_linear"):
            feed_forward = Mlp(intermediate_size=_round_width(feed, width))
        linear = sum(flag(part, "replace_with_linear") for part in (look, feed))
        norms = sum(not flag(part, "no_op") for part in (look, feed))
        layers.append(layer(mixer, feed_forward, norms=norms, extra_parameters=float(linear * width**2)))
    return decoder(c, layers)


def _round_width(feed: Config, width: int) -> int:
    """Two thirds of `ffn_mult` times the width, rounded up to a multiple of 256."""
    multiple = first_given(feed, "ffn_mult")
    if isinstance(multiple, bool) or not isinstance(multiple, int | float) or not 0 < multiple <= 64:
        raise field_error(feed, "ffn_mult", value=multiple, expected="a number above 0 and up to 64")
    return -(-int(2 * multiple * width / 3) // 256) * 256


DENSE: Final[dict[str, tuple[str, Adapter]]] = {
    "llama": ("Llama", flagged_adapter(output_bias=True)),
    "mistral": ("Mistral", flagged_adapter(windowed=True)),
    "ministral3": ("Mistral", flagged_adapter(windowed=True)),
    "smollm3": ("SmolLM3", flagged_adapter(tied=True)),
    "qwen": ("Qwen", _qwen1),
    "qwen2": ("Qwen2", flagged_adapter(bias="always")),
    "qwen3": ("Qwen3", flagged_adapter(qk_norm=True)),
    "seed_oss": ("Seed-OSS", flagged_adapter(bias="unless stated")),
    "exaone4": ("EXAONE", _exaone4),
    "gemma": ("Gemma", flagged_adapter(tied=True)),
    "gemma2": ("Gemma2", flagged_adapter(windowed=True, every=2, norms=4, tied=True)),
    "gemma3_text": ("Gemma3", _gemma3),
    "phi": (
        "Phi",
        flagged_adapter(
            bias="always", output_bias=True, gated=False, mlp_bias=True, norms=1, norm_bias=True, head_bias=True
        ),
    ),
    "phi3": ("Phi3", flagged_adapter(windowed=True)),
    "falcon": ("Falcon", _falcon),
    "RefinedWeb": ("Falcon", _falcon),
    "RefinedWebModel": ("Falcon", _falcon),
    "gpt2": ("GPT-2", _gpt2),
    "gpt_bigcode": ("StarCoder", _gpt_bigcode),
    "starcoder2": ("StarCoder2", _starcoder2),
    "gpt_neox": (
        "GPT-NeoX",
        flagged_adapter(bias="unless stated", output_bias=True, gated=False, mlp_bias=True, norm_bias=True),
    ),
    "gptj": ("GPT-J", _gptj),
    "bloom": ("BLOOM", _bloom),
    "opt": ("OPT", _opt),
    "mpt": ("MPT", _mpt),
    "cohere": ("Command-R", _cohere),
    "cohere2": ("Command-R", _cohere2),
    "olmo": ("OLMo", flagged_adapter(norms=0, final_norms=0)),
    "olmo2": ("OLMo2", _olmo2),
    "olmo3": ("OLMo3", _olmo2),
    "granite": ("Granite", flagged_adapter(tied=True)),
    "stablelm": ("StableLM", _stablelm),
    "nemotron": ("Nemotron", flagged_adapter(gated=False, norm_bias=True)),
    "deci": ("DeciLM", _deci),
    "nemotron-nas": ("Nemotron", _nemotron_nas),
    "chatglm": ("GLM", _chatglm),
    "glm": ("GLM", flagged_adapter(bias="unless stated")),
    "glm4": ("GLM", flagged_adapter(bias="unless stated", norms=4)),
    "mimo": ("MiMo", flagged_adapter(bias="unless stated", mtp=True)),
    "maxtext": ("MaxText", flagged_adapter(gated=False, tied=True)),
}
"""Family and adapter by `model_type`."""
