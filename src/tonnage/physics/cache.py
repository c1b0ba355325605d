"""How many bytes of context does one rank of a serving replica keep?

Caches are of three kinds: they grow with the context (attention, latents), stop growing (sliding windows), or never
grow (recurrent states). Everything is per RANK: key/value heads divide over tensor-parallel ranks and are copied when
there are fewer; latents are copied always; a pipeline stage caches for its own layers only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from tonnage.nouns.answer import Part, Quantity
from tonnage.nouns.layout import Layout
from tonnage.nouns.model import Attention, LatentAttention, LayerGroup, Mixer, Model, StateSpace
from tonnage.nouns.precision import number_format

__all__ = [
    "cache_bytes_per_sequence",
    "cache_layers",
    "cross_cache_bytes_per_sequence",
    "kv_bytes_per_token",
    "kv_cache_bytes_per_token",
    "latent_cache_bytes_per_token",
    "state_bytes_per_sequence",
]

ONE_RANK: Final = Layout()

STATE_BYTES: Final = 4.0
"""Bytes of one value of a recurrent state: the reference implementations keep it in fp32. [bytes]"""
KV_SCALES: Final = {"int8": 4.0, "int4": 4.0}
"""Scale and zero point (16 bits each) that integer caches keep per token and head, for keys and for values. [bytes]"""


def kv_cache_bytes_per_token(
    *, kv_heads: int, key_dim: int, value_dim: int, tp: int = 1, element_bytes: float = 2.0, scale_bytes: float = 0.0
) -> float:
    """
    Keys and values that one attention layer caches per token on one rank.

    ceil(K / t) ((H_k + H_v) b + 2 s): heads beyond the ranks divide, fewer are copied.

    Parameters
    ----------
    kv_heads : int
        K, key/value heads of the layer. [-]
    key_dim : int
        H_k, width of one key head. [-]
    value_dim : int
        H_v, width of one value head. [-]
    tp : int
        t, tensor-parallel ranks. [-]
    element_bytes : number
        b, bytes of one cached value. [bytes]
    scale_bytes : number
        s, scales kept per token and head, for keys and again for values. [bytes]

    Returns
    -------
    number
        Bytes one more token of context costs in this layer on this rank. [bytes/token]

    Valid
    -----
    MHA (K = N), GQA and MQA (K = 1) alike. A windowed layer stops at its window.

    Source
    ------
    GQA: arXiv 2305.13245; sharding: vLLM get_num_kv_heads.

    Examples
    --------
    >>> 80 * kv_cache_bytes_per_token(kv_heads=8, key_dim=128, value_dim=128) / 1024
    320.0
    >>> kv_cache_bytes_per_token(kv_heads=2, key_dim=128, value_dim=128, tp=8)
    512.0
    """
    return -(-kv_heads // tp) * ((key_dim + value_dim) * element_bytes + 2 * scale_bytes)


def latent_cache_bytes_per_token(
    *, kv_lora_rank: int, rope_dim: int, element_bytes: float = 2.0, index_dim: int = 0
) -> float:
    """
    Latent that one MLA layer caches per token; every tensor-parallel rank holds all of it.

    b (r_kv + r_rope), plus an 8-bit index key with a 4-byte scale where the layer has a sparse indexer; such layers
    in 8 bits keep the rotary part in 16 and one 4-byte scale per 128 values of the latent.

    Parameters
    ----------
    kv_lora_rank : int
        r_kv, width of the latent. [-]
    rope_dim : int
        r_rope, width of the shared rotary key. [-]
    element_bytes : number
        b, bytes of one cached value. [bytes]
    index_dim : int
        Width of the indexer's key; 0 = no indexer. [-]

    Returns
    -------
    number
        Bytes one more token of context costs in this layer on this rank. [bytes/token]

    Valid
    -----
    DeepSeek-V2 and later. Data-parallel attention divides sequences, not this figure.

    Source
    ------
    arXiv 2405.04434, section 2.1; vLLM fp8_ds_mla cache layout (656 bytes) for sparse attention.

    Examples
    --------
    >>> 61 * latent_cache_bytes_per_token(kv_lora_rank=512, rope_dim=64)
    70272.0
    >>> latent_cache_bytes_per_token(kv_lora_rank=512, rope_dim=64, element_bytes=1, index_dim=128)
    788.0
    """
    if index_dim and element_bytes <= 1:
        latent = kv_lora_rank * element_bytes + 4 * math.ceil(kv_lora_rank / 128) + 2 * rope_dim
    else:
        latent = (kv_lora_rank + rope_dim) * element_bytes
    return float(latent + (index_dim + 4 if index_dim else 0))


def kv_bytes_per_token(model: Model, kv_format: str, *, layout: Layout = ONE_RANK) -> Quantity:
    """
    What one more token of context costs in the cache of one rank, while no window is full.

    The sum over the layers of the fullest pipeline stage; recurrent layers add nothing here.

    Parameters
    ----------
    model : Model
        The architecture.
    kv_format : str
        Format of the cache: bf16, fp8, int8 …
    layout : Layout
        Degrees of one replica.

    Returns
    -------
    Quantity
        Parts full_attention, windowed_attention and latent_attention. [bytes/token]

    Valid
    -----
    Up to the smallest window; beyond it use `cache_bytes_per_sequence`.

    Source
    ------
    modeling.md section 4.1.

    Examples
    --------
    >>> layer = LayerGroup(count=80, mixer=Attention(num_attention_heads=64, num_key_value_heads=8, head_dim=128))
    >>> llama = Model(id="x", family="Llama", kind="llm", hidden_size=8192, layers=(layer,))
    >>> [kv_bytes_per_token(llama, "fp16", layout=Layout(tp=tp)).value / 1024 for tp in (1, 4, 16)]
    [320.0, 80.0, 40.0]
    """
    sums: dict[str, float] = {}
    for group, layers in cache_layers(model, layout):
        name, size = _layer_cache(group.mixer, kv_format, layout.tp)
        sums[name] = sums.get(name, 0.0) + layers * size
    return Quantity.of_parts("bytes/token", (Part(name=name, value=value) for name, value in sums.items()))


def cache_bytes_per_sequence(
    model: Model, kv_format: str, *, context: float, layout: Layout = ONE_RANK, windows: bool = True
) -> float:
    """
    Cache of one sequence of `context` tokens on one rank: growing layers, full windows, states, encoder keys. [bytes]

    `windows` = False is an engine that keeps every token of windowed layers too.
    """
    total = state_bytes_per_sequence(model, layout)
    for group, layers in cache_layers(model, layout):
        _, size = _layer_cache(group.mixer, kv_format, layout.tp)
        window = group.mixer.window if isinstance(group.mixer, Attention) and windows else None
        total += layers * size * (min(context, window) if window else context)
    return total


def cross_cache_bytes_per_sequence(
    model: Model, kv_format: str, *, source_tokens: float, layout: Layout = ONE_RANK
) -> float:
    """Keys and values of the encoder's output that a decoder's cross attention keeps per sequence. [bytes]"""
    return sum(
        _on_stage(model, group, layout) * _layer_cache(group.cross_attention, kv_format, layout.tp)[1] * source_tokens
        for group in model.layers
        if group.cross_attention is not None
    )


def state_bytes_per_sequence(model: Model, layout: Layout = ONE_RANK) -> float:
    """
    Recurrent and convolution states of one sequence on one rank, whatever its length.

    States are heads x width x state columns in fp32; the convolution keeps its last inputs in 16 bits.

    Parameters
    ----------
    model : Model
        The architecture.
    layout : Layout
        Degrees of one replica.

    Returns
    -------
    number
        0 for a model without recurrent layers. [bytes/sequence]

    Valid
    -----
    Mamba 1 and 2, gated delta rules, lightning attention, xLSTM, RWKV, short convolutions.

    Source
    ------
    arXiv 2312.00752 section 3, 2405.21060 section 7, 2412.06464 section 3.

    Examples
    --------
    >>> mixer = StateSpace(kind="mamba2", num_heads=128, head_dim=64, state_size=128, num_groups=8)
    >>> mamba = Model(id="x", family="M", kind="ssm", hidden_size=4096, layers=(LayerGroup(count=64, mixer=mixer),))
    >>> f"{state_bytes_per_sequence(mamba) / 2**20:.1f} MiB"
    '259.8 MiB'
    """
    return sum(
        _on_stage(model, group, layout) * _state(group.mixer, layout.tp)
        for group in model.layers
        if isinstance(group.mixer, StateSpace)
    )


def cache_layers(model: Model, layout: Layout = ONE_RANK) -> Iterable[tuple[LayerGroup, float]]:
    """The decoder's layer groups that cache keys, values or latents, with how many one pipeline stage holds."""
    for group in model.layers:
        if isinstance(group.mixer, Attention) and (group.mixer.kv_shared or not group.mixer.causal):
            continue
        if isinstance(group.mixer, Attention | LatentAttention):
            yield group, _on_stage(model, group, layout)


def _on_stage(model: Model, group: LayerGroup, layout: Layout) -> float:
    """Layers of a group on the fullest stage: the model's share, since kinds of layers alternate along the depth."""
    layers = sum(other.count for other in model.layers)
    return group.count if layout.pp == 1 else group.count * math.ceil(layers / layout.pp) / layers


def _layer_cache(mixer: Mixer | None, kv_format: str, tp: int) -> tuple[str, float]:
    element_bytes = number_format(kv_format).bytes
    match mixer:
        case Attention():
            size = kv_cache_bytes_per_token(
                kv_heads=mixer.num_key_value_heads,
                key_dim=mixer.head_dim,
                value_dim=mixer.v_head_dim or mixer.head_dim,
                tp=tp,
                element_bytes=element_bytes,
                scale_bytes=KV_SCALES.get(kv_format, 0.0),
            )
            return ("windowed_attention" if mixer.window else "full_attention"), size
        case LatentAttention():
            size = latent_cache_bytes_per_token(
                kv_lora_rank=mixer.kv_lora_rank,
                rope_dim=mixer.qk_rope_head_dim,
                element_bytes=element_bytes,
                index_dim=mixer.index_head_dim if mixer.index_heads else 0,
            )
            return "latent_attention", size
        case _:
            return "none", 0.0


def _state(mixer: StateSpace, tp: int) -> float:
    inner = mixer.num_heads * mixer.head_dim / min(tp, mixer.num_heads)
    keys = mixer.num_groups * mixer.state_size / min(tp, mixer.num_groups)
    channels = inner if mixer.kind in {"mamba1", "short_conv"} else inner + 2 * keys
    convolved = 0.0 if mixer.kind in {"lightning", "xlstm", "rwkv"} else channels * max(0, mixer.conv_kernel - 1) * 2.0
    return inner * mixer.state_size * (0.0 if mixer.kind == "short_conv" else STATE_BYTES) + convolved
