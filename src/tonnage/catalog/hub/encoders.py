"""Encoders of text and encoder-decoders: BERT's relatives, T5, BART, Whisper.

Sources: the reference implementation of each `model_type` (Hugging Face transformers), checked against published
totals in the tests. Counts are of the bare encoder with its pooler, as vendors quote them; ModernBERT's is quoted with
its masked-language head.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from tonnage.catalog.hub.fields import (
    Adapter,
    Config,
    attention,
    equal_heads,
    flag,
    fold_layers,
    hidden_size,
    integer,
    layer,
    layer_count,
    mlp,
    optional_count,
    optional_integer,
    text,
)
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model


def _encoder(c: Config, layers: tuple[LayerGroup, ...], **changes: Any) -> Model:
    """A text encoder without a vocabulary head, with one LayerNorm outside the layers."""
    facts: dict[str, Any] = {
        "id": "",
        "family": "",
        "kind": "encoder",
        "hidden_size": hidden_size(c),
        "vocab_size": 0 if "vocab_size" in changes else integer(c, "vocab_size"),
        "layers": layers,
        "tie_word_embeddings": True,
        "has_head": False,
        "final_norms": 1,
        "norm_bias": True,
        "max_context": optional_integer(c, "max_position_embeddings", low=1),
    }
    return Model(**{**facts, **changes})


def _post_norm(c: Config, *, mixer: Attention | None = None, feed_forward: Mlp | None = None) -> tuple[LayerGroup, ...]:
    look = mixer or attention(c, bias=True, output_bias=True, causal=False)
    feed = feed_forward or mlp(c, gated=False, bias=True)
    return (LayerGroup(count=layer_count(c), mixer=look, feed_forward=feed, norm_bias=True),)


def _bert(c: Config) -> Model:
    """Learned positions, two token types, a pooler."""
    width = hidden_size(c)
    types = integer(c, "type_vocab_size", default=2, low=0)
    pooler = width * width + width if flag(c, "add_pooling_layer", default=True) else 0
    positions = integer(c, "max_position_embeddings", default=512)
    extra = float(types * width + pooler)
    return _encoder(c, _post_norm(c), learned_positions=positions, extra_parameters=extra)


def _distilbert(c: Config) -> Model:
    width, heads = integer(c, "dim", "hidden_size"), integer(c, "n_heads", "num_attention_heads")
    mixer = equal_heads(heads, width // heads)
    feed = Mlp(intermediate_size=integer(c, "hidden_dim", "intermediate_size"), gated=False, bias=True)
    layers = _post_norm(c, mixer=mixer, feed_forward=feed)
    return _encoder(c, layers, hidden_size=width, learned_positions=integer(c, "max_position_embeddings", default=512))


def _layer_only(c: Config) -> Model:
    """BERT layers without embedding, as benchmark tables of engines count them."""
    return _encoder(c, _post_norm(c), vocab_size=0, final_norms=0)


def _deberta2(c: Config) -> Model:
    """Relative positions: one table of rows shared by all layers, with its own LayerNorm; no pooler of its own."""
    width = hidden_size(c)
    buckets = integer(c, "position_buckets", default=256)
    absolute = flag(c, "position_biased_input")
    positions = integer(c, "max_position_embeddings", default=512) if absolute else 0
    types = optional_count(c, "type_vocab_size") * width
    table = float(2 * buckets * width + 2 * width + types)
    return _encoder(c, _post_norm(c), learned_positions=positions, extra_parameters=table)


def _modernbert(c: Config) -> Model:
    """Gated, without biases; every third layer is full; a masked-language head of one layer and a bias."""
    count, width = layer_count(c), hidden_size(c)
    every = integer(c, "global_attn_every_n_layers", default=3)
    window, feed = integer(c, "local_attention", default=128), mlp(c)
    base = attention(c, causal=False)
    layers = [
        layer(replace(base, window=None if index % every == 0 else window), feed, norms=1 if index == 0 else 2)
        for index in range(count)
    ]
    head = float(width * width + width)
    return _encoder(
        c, fold_layers(layers), final_norms=2, norm_bias=False, extra_parameters=head, has_head=True, head_bias=True
    )


def _nomic(c: Config) -> Model:
    """Nomic-BERT: rotary and gated, LayerNorm, without biases in the projections."""
    width = hidden_size(c)
    bias = flag(c, "qkv_proj_bias")
    feed = Mlp(intermediate_size=integer(c, "n_inner", "intermediate_size"), bias=flag(c, "mlp_fc1_bias"))
    layers = _post_norm(c, mixer=attention(c, bias=bias, output_bias=bias, causal=False), feed_forward=feed)
    types = integer(c, "type_vocab_size", default=2, low=0)
    return _encoder(c, layers, extra_parameters=float(types * width))


def _seq2seq(c: Config, encoder: tuple[LayerGroup, ...], layers: tuple[LayerGroup, ...], **changes: Any) -> Model:
    """An encoder-decoder of these stacks; `changes` take the place of what the file says."""
    facts: dict[str, Any] = {
        "id": "",
        "family": "",
        "kind": "enc-dec",
        "hidden_size": hidden_size(c),
        "vocab_size": integer(c, "vocab_size"),
        "encoder": encoder,
        "layers": layers,
        "tie_word_embeddings": flag(c, "tie_word_embeddings", default=True),
        "final_norms": 2,
        "max_context": optional_integer(c, "max_position_embeddings", "n_positions", low=1),
    }
    return Model(**{**facts, **changes})


def _t5(c: Config) -> Model:
    """Heads of their own width, RMSNorm, one table of relative positions in each stack (in each layer: UMT5)."""
    heads, head = integer(c, "num_heads", "num_attention_heads"), integer(c, "d_kv", "head_dim")
    gated = "gated" in text(c, "feed_forward_proj", default="relu")
    feed = Mlp(intermediate_size=integer(c, "d_ff", "intermediate_size"), gated=gated)
    look = equal_heads(heads, head, bias=False)
    own = replace(look, causal=True)
    count = integer(c, "num_layers", "num_hidden_layers")
    table = integer(c, "relative_attention_num_buckets", default=32) * heads
    each = float(table) if text(c, "model_type") == "umt5" else 0.0
    encoder = LayerGroup(count=count, mixer=look, feed_forward=feed, extra_parameters=each)
    decoder = LayerGroup(
        count=integer(c, "num_decoder_layers", default=count),
        mixer=own,
        feed_forward=feed,
        cross_attention=look,
        norms=3,
        extra_parameters=each,
    )
    return _seq2seq(c, (encoder,), (decoder,), extra_parameters=0.0 if each else 2.0 * table)


def _stacks(c: Config, *, extra: float = 0.0, biased: bool = True) -> tuple[LayerGroup, LayerGroup]:
    """Encoder and decoder layers of BART's kind; `extra` is added for each attention."""
    width = hidden_size(c)
    reads, writes = integer(c, "encoder_attention_heads"), integer(c, "decoder_attention_heads")
    near, own = equal_heads(reads, width // reads), equal_heads(writes, width // writes, causal=True)
    if not biased:
        near, own = (replace(look, bias=False) for look in (near, own))
    far = replace(own, causal=False)
    encoder = LayerGroup(
        count=integer(c, "encoder_layers"),
        mixer=near,
        norm_bias=True,
        extra_parameters=extra,
        feed_forward=Mlp(intermediate_size=integer(c, "encoder_ffn_dim"), gated=False, bias=True),
    )
    decoder = LayerGroup(
        count=integer(c, "decoder_layers"),
        mixer=own,
        cross_attention=far,
        norms=3,
        norm_bias=True,
        feed_forward=Mlp(intermediate_size=integer(c, "decoder_ffn_dim"), gated=False, bias=True),
        extra_parameters=2 * extra,
    )
    return encoder, decoder


def _bart(c: Config) -> Model:
    """Learned positions (two rows more than the context) in each stack; a LayerNorm on each embedding."""
    encoder, decoder = _stacks(c)
    rows = 2 * (integer(c, "max_position_embeddings", default=1024) + 2)
    final = 4 if text(c, "model_type") == "mbart" else 2
    return _seq2seq(c, (encoder,), (decoder,), learned_positions=rows, final_norms=final, norm_bias=True)


def _marian(c: Config) -> Model:
    """Translation models with computed positions; `final_norms` when layers norm before their sub-layers."""
    encoder, decoder = _stacks(c)
    final = optional_count(c, "final_norms")
    return _seq2seq(c, (encoder,), (decoder,), final_norms=final, norm_bias=True)


def _whisper(c: Config) -> Model:
    """Two convolutions over mel bins; keys have no bias; the encoder's positions are stored too."""
    width, bins = hidden_size(c), integer(c, "num_mel_bins", default=80)
    encoder, decoder = _stacks(c, extra=2.0 * width, biased=False)
    rows = integer(c, "max_source_positions", default=1500) + integer(c, "max_target_positions", default=448)
    convolutions = float(3 * bins * width + width + 3 * width * width + width)
    context = integer(c, "max_target_positions", default=448)
    return _seq2seq(
        c,
        (encoder,),
        (decoder,),
        kind="asr",
        learned_positions=rows,
        norm_bias=True,
        extra_parameters=convolutions,
        max_context=context,
    )


ENCODERS: Final[dict[str, tuple[str, Adapter]]] = {
    "bert": ("BERT", _bert),
    "electra": ("ELECTRA", _bert),
    "roberta": ("RoBERTa", _bert),
    "xlm-roberta": ("RoBERTa", _bert),
    "camembert": ("RoBERTa", _bert),
    "distilbert": ("DistilBERT", _distilbert),
    "encoder-layers": ("BERT", _layer_only),
    "deberta-v2": ("DeBERTa", _deberta2),
    "modernbert": ("ModernBERT", _modernbert),
    "nomic_bert": ("Nomic", _nomic),
    "t5": ("T5", _t5),
    "mt5": ("mT5", _t5),
    "umt5": ("umT5", _t5),
    "bart": ("BART", _bart),
    "mbart": ("BART", _bart),
    "marian": ("Marian", _marian),
    "whisper": ("Whisper", _whisper),
}
"""Family and adapter by `model_type`."""
