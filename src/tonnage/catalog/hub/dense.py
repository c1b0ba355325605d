"""Dense decoders: one small function for each `model_type`, saying what it does differently from Llama.

Sources: the reference implementation of each type (Hugging Face transformers, Apache-2.0), checked against published
totals in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tonnage.catalog.hub.blocks import attention, decoder, hidden_size, layer_count, mlp, same, windows
from tonnage.catalog.hub.fields import Config, flag, given, integer, integers, optional_integer, section, text, wrong
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model

__all__ = ["DENSE", "block_list", "windowed"]


def windowed(c: Config, base: Attention, *, every: int | None, norms: int) -> Iterator[LayerGroup]:
    """Gated layers that differ only in what their attention sees."""
    feed_forward = mlp(c)
    for window in windows(c, every=every):
        mixer = msgspec.structs.replace(base, window=window)
        yield LayerGroup(count=1, mixer=mixer, feed_forward=feed_forward, norms=norms)


def _llama(c: Config) -> Model:
    """Llama 1-3, Yi, Aquila, OpenLLaMA, TinyLlama, DeepSeek-Coder, SmolLM: RMSNorm, gated, rotary."""
    bias = flag(c, "attention_bias", default=False)
    return decoder(c, same(c, (attention(c, output_bias=bias), mlp(c))))


def _mistral(c: Config) -> Model:
    return decoder(c, windowed(c, attention(c), every=None, norms=2))


def _smollm3(c: Config) -> Model:
    return decoder(c, same(c, (attention(c), mlp(c))), tied=True)


def _qwen2(c: Config) -> Model:
    """Biased query, key and value; the window in the file is off unless `use_sliding_window`."""
    return decoder(c, same(c, (attention(c, bias=True), mlp(c))))


def _qwen1(c: Config) -> Model:
    """The first Qwen: its `intermediate_size` is that of both gated matrices together."""
    width = integer(c, "intermediate_size") // 2
    mixer = attention(c, bias=True)
    return decoder(c, same(c, (mixer, Mlp(intermediate_size=width))))


def _qwen3(c: Config) -> Model:
    return decoder(c, same(c, (attention(c, qk_norm=True), mlp(c))))


def _seed_oss(c: Config) -> Model:
    mixer = attention(c, bias=flag(c, "attention_bias", default=True))
    return decoder(c, same(c, (mixer, mlp(c))))


def _exaone4(c: Config) -> Model:
    """Query and key norms; norms after each sub-layer; three of four layers see a window."""
    pattern = (
        text(c, "sliding_window_pattern", default="") if isinstance(given(c, "sliding_window_pattern"), str) else ""
    )
    every = len(pattern) or 4
    return decoder(c, windowed(c, attention(c, qk_norm=True), every=every, norms=2))


def _gemma(c: Config) -> Model:
    return decoder(c, same(c, (attention(c), mlp(c))), tied=True)


def _gemma2(c: Config) -> Model:
    """Norms before and after each sub-layer; every second layer sees a window."""
    alternating = windowed(c, attention(c), every=2, norms=4)
    return decoder(c, alternating, tied=True)


def _gemma3(c: Config) -> Model:
    """Five windowed layers for each full one; query and key norms."""
    pattern = optional_integer(c, "sliding_window_pattern", low=1) or 6
    layers = windowed(c, attention(c, qk_norm=True), every=pattern, norms=4)
    return decoder(c, layers, tied=True, vocab_size=integer(c, "vocab_size", default=262208))


def _phi(c: Config) -> Model:
    """Phi 1, 1.5, 2: parallel blocks with one LayerNorm, biases everywhere, the head too."""
    layers = same(
        c, (attention(c, bias=True, output_bias=True), mlp(c, gated=False, bias=True)), norms=1, norm_bias=True
    )
    return decoder(c, layers, head_bias=True, norm_bias=True)


def _phi3(c: Config) -> Model:
    return decoder(c, windowed(c, attention(c), every=None, norms=2))


def _falcon(c: Config) -> Model:
    """Multi-query (7B) or grouped (40B, 180B) attention in parallel with the feed-forward; LayerNorm."""
    heads, width = integer(c, "num_attention_heads", "n_head"), hidden_size(c)
    new = flag(c, "new_decoder_architecture", default=False)
    grouped = integer(c, "num_kv_heads", "num_key_value_heads", "n_head_kv", default=heads)
    kv_heads = grouped if new else 1 if flag(c, "multi_query", default=True) else heads
    bias = flag(c, "bias", default=False)
    mixer = attention(c, num_key_value_heads=kv_heads, bias=bias, output_bias=bias)
    feed_forward = Mlp(intermediate_size=integer(c, "ffn_hidden_size", default=4 * width), gated=False, bias=bias)
    parallel = flag(c, "parallel_attn", default=True)
    norms = integer(c, "num_ln_in_parallel_attn", default=2 if new else 1 if parallel else 2)
    return decoder(c, same(c, (mixer, feed_forward), norms=norms, norm_bias=True), tied=True, norm_bias=True)


def _gpt_layers(c: Config, mixer: Attention, width: int, *, biased: bool = True) -> tuple[LayerGroup, ...]:
    feed_forward = Mlp(intermediate_size=width, gated=False, bias=biased)
    return same(c, (mixer, feed_forward), norm_bias=True)


def _gpt2(c: Config) -> Model:
    """GPT-2 and its kin (GPT-3, Megatron): learned positions, LayerNorm, biases, tied head."""
    width = integer(c, "n_inner", "intermediate_size", default=4 * hidden_size(c))
    positions = integer(c, "n_positions", "max_position_embeddings", default=1024)
    layers = _gpt_layers(c, attention(c, bias=True, output_bias=True), width)
    return decoder(c, layers, tied=True, norm_bias=True, learned_positions=positions)


def _gpt_bigcode(c: Config) -> Model:
    """StarCoder: GPT-2 with one key-value head."""
    kv_heads = 1 if flag(c, "multi_query", default=True) else integer(c, "num_attention_heads", "n_head")
    width = integer(c, "n_inner", "intermediate_size", default=4 * hidden_size(c))
    mixer = attention(c, bias=True, output_bias=True, num_key_value_heads=kv_heads)
    positions = integer(c, "n_positions", "max_position_embeddings", default=1024)
    layers = _gpt_layers(c, mixer, width)
    return decoder(c, layers, tied=True, norm_bias=True, learned_positions=positions)


def _starcoder2(c: Config) -> Model:
    bias = flag(c, "use_bias", default=True)
    base, feed_forward = attention(c, bias=bias, output_bias=bias), mlp(c, gated=False, bias=bias)
    layers = (
        LayerGroup(count=1, mixer=msgspec.structs.replace(base, window=w), feed_forward=feed_forward, norm_bias=True)
        for w in windows(c)
    )
    return decoder(c, layers, tied=True, norm_bias=True)


def _gpt_neox(c: Config) -> Model:
    """GPT-NeoX, Pythia, StableLM-alpha, Dolly: rotary, LayerNorm, biases, an untied head."""
    bias = flag(c, "attention_bias", default=True)
    mixer = attention(c, bias=bias, output_bias=bias)
    return decoder(c, _gpt_layers(c, mixer, integer(c, "intermediate_size")), norm_bias=True)


def _gptj(c: Config) -> Model:
    """GPT-J: one LayerNorm, attention without biases, a biased head."""
    width = integer(c, "n_inner", "intermediate_size", default=4 * hidden_size(c))
    feed_forward = Mlp(intermediate_size=width, gated=False, bias=True)
    layers = same(c, (attention(c), feed_forward), norms=1, norm_bias=True)
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
        c, layers, tied=True, norm_bias=True, final_norms=1 if before else 0,
        learned_positions=integer(c, "max_position_embeddings") + 2, embedding_size=narrow if narrow != width else None,
    )  # fmt: skip


def _mpt(c: Config) -> Model:
    """No biases at all; ALiBi, or learned positions where the file says so."""
    settings = section(c, "attn_config") or Config(c.file, {})
    width, bias = hidden_size(c), not flag(c, "no_bias", default=True)
    heads = integer(c, "n_heads", "num_attention_heads")
    kv_heads = integer(settings, "kv_n_heads", default=integer(c, "num_key_value_heads", default=heads))
    mixer = attention(c, num_key_value_heads=kv_heads, bias=bias, output_bias=bias)
    hidden = integer(c, "intermediate_size", default=integer(c, "expansion_ratio", default=4) * width)
    layers = same(c, (mixer, Mlp(intermediate_size=hidden, gated=False, bias=bias)), norm_bias=bias)
    context = integer(c, "max_seq_len", "max_position_embeddings", default=2048)
    learned = flag(c, "learned_pos_emb", default=False) and not flag(settings, "alibi", default=False)
    return decoder(c, layers, tied=True, learned_positions=context if learned else 0, max_context=context)


def _cohere(c: Config) -> Model:
    """Command-R: one LayerNorm without bias in front of both sub-layers; Command-R+ norms each query and key head."""
    base = attention(c)
    normed = (base.num_attention_heads + base.num_key_value_heads) * base.head_dim
    extra = float(normed) if flag(c, "use_qk_norm", default=False) else 0.0
    layers = same(c, (base, mlp(c)), norms=1, extra_parameters=extra)
    return decoder(c, layers, tied=True)


def _cohere2(c: Config) -> Model:
    every = optional_integer(c, "sliding_window_pattern", low=1) or 4
    return decoder(c, windowed(c, attention(c), every=every, norms=1), tied=True)


def _olmo(c: Config) -> Model:
    """OLMo 1: norms without parameters."""
    return decoder(c, same(c, (attention(c), mlp(c)), norms=0), final_norms=0)


def _olmo2(c: Config) -> Model:
    """OLMo 2 and 3: query and key norms over all heads together; OLMo 3 sees a window in three of four layers."""
    base = attention(c)
    normed = float((base.num_attention_heads + base.num_key_value_heads) * base.head_dim)
    layers = (
        LayerGroup(count=1, mixer=msgspec.structs.replace(base, window=w), feed_forward=mlp(c), extra_parameters=normed)
        for w in windows(c, every=4)
    )
    return decoder(c, layers)


def _granite(c: Config) -> Model:
    return decoder(c, same(c, (attention(c), mlp(c))), tied=True)


def _stablelm(c: Config) -> Model:
    """StableLM 2: LayerNorm with bias; optional query, key and value biases; parallel blocks have one norm."""
    mixer = attention(c, bias=flag(c, "use_qkv_bias", default=False))
    norms = 1 if flag(c, "use_parallel_residual", default=False) else 2
    return decoder(c, same(c, (mixer, mlp(c)), norms=norms, norm_bias=True), norm_bias=True)


def _nemotron(c: Config) -> Model:
    """Nemotron 3 and 4, Minitron: LayerNorm with bias, squared ReLU."""
    return decoder(c, same(c, (attention(c), mlp(c, gated=False)), norm_bias=True), norm_bias=True)


def _deci(c: Config) -> Model:
    """DeciLM-7B: another number of key-value heads in each layer."""
    count = layer_count(c)
    per_layer = integers(c, "num_key_value_heads_per_layer", length=count)
    if per_layer is None:
        raise wrong(c, "num_key_value_heads_per_layer", value=None, expected="a number for each layer")
    layers = (
        LayerGroup(count=1, mixer=attention(c, num_key_value_heads=max(k, 1)), feed_forward=mlp(c)) for k in per_layer
    )
    return decoder(c, layers)


def _chatglm(c: Config) -> Model:
    """ChatGLM 2-3 and GLM-4-9B in the makers' own field names."""
    groups = integer(c, "multi_query_group_num") if flag(c, "multi_query_attention", default=False) else None
    heads = integer(c, "num_attention_heads")
    mixer = attention(
        c, num_key_value_heads=groups or heads, bias=flag(c, "add_qkv_bias", default=True),
        head_dim=integer(c, "kv_channels", default=hidden_size(c) // heads),
    )  # fmt: skip
    return decoder(c, same(c, (mixer, Mlp(intermediate_size=integer(c, "ffn_hidden_size")))))


def _glm(c: Config) -> Model:
    return decoder(c, same(c, (attention(c, bias=flag(c, "attention_bias", default=True)), mlp(c))))


def _glm4(c: Config) -> Model:
    """GLM-4-0414: norms after each sub-layer too."""
    return decoder(c, same(c, (attention(c, bias=flag(c, "attention_bias", default=True)), mlp(c)), norms=4))


def _mimo(c: Config) -> Model:
    """MiMo-7B: Qwen2 with a multi-token-prediction layer beside it."""
    mixer = attention(c, bias=flag(c, "attention_bias", default=True))
    return decoder(c, same(c, (mixer, mlp(c))), mtp_layers=integer(c, "num_nextn_predict_layers", default=0, low=0))


def block_list(c: Config, name: str) -> list[Config]:
    """A list of objects, one for each layer."""
    value = given(c, name)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise wrong(c, name, value=value, expected="a list of objects, one for each layer")
    return [Config(c.file, item, f"{c.prefix}{name}[{index}].") for index, item in enumerate(value)]


def _nemotron_nas(c: Config) -> Model:
    """Nemotron Super and Ultra: each block has its own heads and width, or none (architecture search)."""
    heads = integer(c, "num_attention_heads")
    width, layers = hidden_size(c), []
    for block in block_list(c, "block_configs")[: layer_count(c)]:
        look = section(block, "attention") or Config(c.file, {"no_op": True})
        feed = section(block, "ffn") or Config(c.file, {"no_op": True})
        mixer, feed_forward = None, None
        if not flag(look, "no_op", default=False) and not flag(look, "replace_with_linear", default=False):
            mixer = attention(c, num_key_value_heads=max(heads // integer(look, "n_heads_in_group"), 1))
        if not flag(feed, "no_op", default=False) and not flag(feed, "replace_with_linear", default=False):
            feed_forward = Mlp(intermediate_size=_multiplied(feed, width))
        linear = sum(flag(part, "replace_with_linear", default=False) for part in (look, feed))
        norms = sum(not flag(part, "no_op", default=False) for part in (look, feed))
        layers.append(
            LayerGroup(
                count=1, mixer=mixer, feed_forward=feed_forward, norms=norms, extra_parameters=float(linear * width**2)
            )
        )
    return decoder(c, layers)


def _multiplied(feed: Config, width: int) -> int:
    """Two thirds of the multiple of the width, rounded up to 256."""
    multiple = given(feed, "ffn_mult")
    if isinstance(multiple, bool) or not isinstance(multiple, int | float) or not 0 < multiple <= 64:
        raise wrong(feed, "ffn_mult", value=multiple, expected="a number above 0 and up to 64")
    return -(-int(2 * multiple * width / 3) // 256) * 256


def _maxtext(c: Config) -> Model:
    """MaxText's default decoder of 2023: an ungated MLP, RMSNorm without bias, tied."""
    return decoder(c, same(c, (attention(c), mlp(c, gated=False))), tied=True)


Adapter = Callable[[Config], Model]

DENSE: Final[dict[str, tuple[str, Adapter]]] = {
    "llama": ("Llama", _llama),
    "mistral": ("Mistral", _mistral),
    "ministral3": ("Mistral", _mistral),
    "smollm3": ("SmolLM3", _smollm3),
    "qwen": ("Qwen", _qwen1),
    "qwen2": ("Qwen2", _qwen2),
    "qwen3": ("Qwen3", _qwen3),
    "seed_oss": ("Seed-OSS", _seed_oss),
    "exaone4": ("EXAONE", _exaone4),
    "gemma": ("Gemma", _gemma),
    "gemma2": ("Gemma2", _gemma2),
    "gemma3_text": ("Gemma3", _gemma3),
    "phi": ("Phi", _phi),
    "phi3": ("Phi3", _phi3),
    "falcon": ("Falcon", _falcon),
    "RefinedWeb": ("Falcon", _falcon),
    "RefinedWebModel": ("Falcon", _falcon),
    "gpt2": ("GPT-2", _gpt2),
    "gpt_bigcode": ("StarCoder", _gpt_bigcode),
    "starcoder2": ("StarCoder2", _starcoder2),
    "gpt_neox": ("GPT-NeoX", _gpt_neox),
    "gptj": ("GPT-J", _gptj),
    "bloom": ("BLOOM", _bloom),
    "opt": ("OPT", _opt),
    "mpt": ("MPT", _mpt),
    "cohere": ("Command-R", _cohere),
    "cohere2": ("Command-R", _cohere2),
    "olmo": ("OLMo", _olmo),
    "olmo2": ("OLMo2", _olmo2),
    "olmo3": ("OLMo3", _olmo2),
    "granite": ("Granite", _granite),
    "stablelm": ("StableLM", _stablelm),
    "nemotron": ("Nemotron", _nemotron),
    "deci": ("DeciLM", _deci),
    "nemotron-nas": ("Nemotron", _nemotron_nas),
    "chatglm": ("GLM", _chatglm),
    "glm": ("GLM", _glm),
    "glm4": ("GLM", _glm4),
    "mimo": ("MiMo", _mimo),
    "maxtext": ("MaxText", _maxtext),
}
"""Family and adapter by `model_type`."""
