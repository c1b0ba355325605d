"""Multi-head latent attention: DeepSeek V2 to V4, Kimi K2 and later, GLM-5.

Sources: DeepSeek-V2 (arXiv 2405.04434), DeepSeek-V3 (2412.19437), DeepSeek-V3.2-Exp (sparse attention), Kimi Linear
(2510.26692) and the vendors' reference implementations.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage.catalog.hub.fields import (
    Adapter,
    Config,
    decoder,
    flag,
    hidden_size,
    integer,
    integers,
    layer,
    layer_count,
    mlp,
    moe,
    moe_layers,
    optional_count,
    optional_integer,
    section,
    text,
    texts,
)
from tonnage.domain.model import LatentAttention, Mixer, Model, Moe, StateSpace


def _latent(c: Config) -> LatentAttention:
    """Latent attention by DeepSeek's names; the fields of an indexer are absent where there is none."""
    return LatentAttention(
        num_attention_heads=integer(c, "num_attention_heads"),
        kv_lora_rank=integer(c, "kv_lora_rank"),
        qk_rope_head_dim=integer(c, "qk_rope_head_dim"),
        qk_nope_head_dim=integer(c, "qk_nope_head_dim"),
        v_head_dim=integer(c, "v_head_dim"),
        q_lora_rank=optional_integer(c, "q_lora_rank", low=1),
        index_heads=optional_count(c, "index_n_heads"),
        index_head_dim=optional_count(c, "index_head_dim"),
        index_topk=optional_count(c, "index_topk"),
    )


def _experts(c: Config) -> Moe:
    """Routed and shared experts; the correction bias of `noaux_tc` is a parameter."""
    width = integer(c, "moe_intermediate_size")
    shared = optional_count(c, "n_shared_experts", "num_shared_experts") * width
    balanced = text(c, "topk_method", default="noaux_tc") == "noaux_tc"
    return moe(c, moe_intermediate_size=width, shared_intermediate_size=shared, router_bias=balanced)


def _sparse(c: Config) -> tuple[bool, ...]:
    count = layer_count(c)
    listed = texts(c, "mlp_layer_types", length=count)
    if listed is not None:
        return tuple(kind == "sparse" for kind in listed)
    freq = c.data.get("moe_layer_freq")
    every = integer(c, "moe_layer_freq", default=1) if not isinstance(freq, list) else 1
    return moe_layers(c, first_dense=optional_count(c, "first_k_dense_replace"), every=every, offset=0)


def _deepseek(c: Config) -> Model:
    """DeepSeek V2, V3, V3.2, R1, Kimi K2, GLM-5: dense layers, then experts; perhaps a sparse-attention indexer."""
    count, base, experts = layer_count(c), _latent(c), _experts(c)
    indexers = texts(c, "indexer_types", length=count)
    reused = replace(base, index_heads=0, index_head_dim=0)
    layers = []
    for index, sparse in enumerate(_sparse(c)):
        mixer = reused if indexers is not None and indexers[index] == "shared" else base
        layers.append(layer(mixer, experts if sparse else mlp(c)))
    return decoder(c, layers, mtp_layers=optional_count(c, "num_nextn_predict_layers"))


def _compressed_layer(c: Config, ratio: int) -> tuple[LatentAttention, float]:
    """Mixer of one DeepSeek-V4 layer, and its parameters outside matrices: sinks, positions of folded tokens, norms."""
    head, rope = integer(c, "head_dim"), integer(c, "qk_rope_head_dim")
    indexed = ratio == 4
    index_width = integer(c, "index_head_dim") if indexed else 0
    mixer = LatentAttention(
        num_attention_heads=integer(c, "num_attention_heads"),
        kv_lora_rank=head - rope,
        qk_rope_head_dim=rope,
        qk_nope_head_dim=head - rope,
        v_head_dim=head,
        q_lora_rank=integer(c, "q_lora_rank"),
        index_heads=integer(c, "index_n_heads") if indexed else 0,
        index_head_dim=index_width,
        index_topk=integer(c, "index_topk") if indexed else 0,
        absorbed=True,
        o_lora_rank=integer(c, "o_lora_rank"),
        o_groups=integer(c, "o_groups"),
        window=integer(c, "sliding_window"),
        compress_ratio=ratio,
    )
    extra = float(mixer.num_attention_heads + rope)  # sinks; the norm spans the rotary part too
    overlap = 2 if indexed else 1
    for entry in (head, index_width):
        if ratio and entry:
            extra += overlap * entry * ratio + entry
    return mixer, extra


def _deepseek_v4(c: Config) -> Model:
    """
    DeepSeek V4: one latent for keys and values, kept for a window and folded 4 or 128 to one beyond it.

    Residual streams are mixed by hyper-connections; the first layers choose experts by a table of token ids.
    """
    count, width, streams = layer_count(c), hidden_size(c), integer(c, "hc_mult", default=4)
    ratios = integers(c, "compress_ratios", length=count) or (0,) * count
    mixing = 2 * ((2 + streams) * streams * (streams * width + 1) + 3)
    hashed, layers = optional_count(c, "num_hash_layers"), []
    for index, ratio in enumerate(ratios):
        mixer, extra = _compressed_layer(c, ratio)
        experts = replace(_experts(c), router_bias=index >= hashed)
        layers.append(layer(mixer, experts, extra_parameters=extra + mixing))
    return decoder(
        c,
        layers,
        extra_parameters=float(streams * (streams * width + 1) + 1),
        mtp_layers=optional_count(c, "num_nextn_predict_layers"),
    )


def _kimi_linear(c: Config) -> Model:
    """Kimi Linear and K3: three Kimi-delta layers for each latent one; K3's experts work in a narrower width."""
    count, width = layer_count(c), hidden_size(c)
    settings = section(c, "linear_attn_config") or c
    full = set(integers(settings, "full_attn_layers") or ())
    latent = _latent(c)
    heads, head = integer(settings, "num_heads"), integer(settings, "head_dim")
    delta = StateSpace(
        kind="kda",
        num_heads=heads,
        head_dim=head,
        state_size=head,
        num_groups=heads,
        conv_kernel=integer(settings, "short_conv_kernel_size", default=4),
    )
    inner = heads * head
    widened = float(inner * width - head * (width + inner)) if flag(settings, "use_full_rank_gate") else 0.0
    gate = float(latent.num_attention_heads * latent.v_head_dim * width)
    gated = gate if flag(c, "mla_use_output_gate") else 0.0
    narrow = optional_integer(c, "routed_expert_hidden_size", low=1)
    experts, dense = replace(_experts(c), latent_size=narrow), mlp(c)
    layers = []
    for index, sparse in enumerate(_sparse(c)):
        attends = index + 1 in full
        mixer: Mixer = latent if attends else delta
        feed_forward = experts if sparse else dense
        extra = gated if attends else widened
        layers.append(layer(mixer, feed_forward, extra_parameters=extra))
    return decoder(
        c, layers[:count], max_context=optional_integer(c, "model_max_length", "max_position_embeddings", low=1)
    )


LATENT: Final[dict[str, tuple[str, Adapter]]] = {
    "deepseek_v2": ("DeepSeek", _deepseek),
    "deepseek_v3": ("DeepSeek", _deepseek),
    "deepseek_v32": ("DeepSeek", _deepseek),
    "deepseek_v4": ("DeepSeek", _deepseek_v4),
    "deepseek_ref": ("DeepSeek", _deepseek_v4),
    "kimi_k2": ("Kimi", _deepseek),
    "kimi_linear": ("Kimi", _kimi_linear),
    "glm_moe_dsa": ("GLM", _deepseek),
    "glm4_moe_lite": ("GLM", _deepseek),
}
"""Family and adapter by `model_type`."""
