"""How many bytes of context does one rank of a serving replica keep?

Caches are of three kinds: they grow with the context (attention, latents), stop growing (sliding windows), or never
grow (recurrent states). One layer may keep several: DeepSeek-V4 keeps a window of tokens whole and, beside it, all
tokens folded 4 or 128 to an entry; an indexer keeps a key of its own for each entry it may choose.

Everything is per RANK: key/value heads divide over tensor-parallel ranks and are copied when there are fewer; latents
and index keys are copied always; a pipeline stage caches for its own layers only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tonnage.domain.answer import Quantity
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Mixer, Model, StateSpace
from tonnage.domain.precision import number_format

ONE_RANK: Final = Layout()

STATE_BYTES: Final = 4.0
"""Bytes of one value of a recurrent state: the reference implementations keep it in fp32. [bytes]"""
CELLS: Final = 256
"""Tokens that llama.cpp's cache grows by. [tokens]"""
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
        Parts full_attention, windowed_attention, latent_attention and index_keys. [bytes/token]

    Valid
    -----
    Up to the smallest window; beyond it use `cache_bytes_per_sequence`.

    Source
    ------
    docs/physics.md 4.

    Examples
    --------
    >>> layer = LayerGroup(count=80, mixer=Attention(num_attention_heads=64, num_key_value_heads=8, head_dim=128))
    >>> llama = Model(id="x", family="Llama", kind="llm", hidden_size=8192, layers=(layer,))
    >>> [kv_bytes_per_token(llama, "fp16", layout=Layout(tp=tp)).value / 1024 for tp in (1, 4, 16)]
    [320.0, 80.0, 40.0]
    """
    sums: dict[str, float] = {}
    for group, layers in cache_layers(model, layout):
        for kept in _layer_cache(group.mixer, kv_format, layout.tp):
            sums[kept.name] = sums.get(kept.name, 0.0) + layers * kept.bytes / kept.tokens
    return Quantity.of_parts("bytes/token", (Quantity(name=name, value=value) for name, value in sums.items()))


def cache_bytes_per_sequence(
    model: Model, kv_format: str, *, context: float, layout: Layout = ONE_RANK, windows: bool = True
) -> float:
    """
    Cache of one sequence of `context` tokens on one rank: growing layers, full windows, states, encoder keys. [bytes]

    `windows` = False is an engine that keeps every token of windowed layers too.
    """
    total = state_bytes_per_sequence(model, layout)
    for group, layers in cache_layers(model, layout):
        for kept in _layer_cache(group.mixer, kv_format, layout.tp):
            window = kept.window if windows else None
            entries = (min(context, window) if window else context) / kept.tokens
            total += layers * kept.bytes * (entries if kept.tokens == 1 else math.floor(entries))
    return total


def padded_cells(tokens: float) -> float:
    """
    Cells of llama.cpp's cache for so many tokens: it allocates 256 at a time (llama-context.cpp, GGML_PAD).

    Examples
    --------
    >>> padded_cells(1024 + 512), padded_cells(1000)
    (1536, 1024)
    """
    return math.ceil(tokens / CELLS) * CELLS


def window_cells(model: Model, *, context: float, piece: float, shared: float = 1.0) -> dict[int | None, float]:
    """
    Cells of each of a model's caches in llama.cpp, by their window (None = of all tokens).

    A window's cache has room for the window of every sequence that shares it and for the piece of a prompt that is
    computed at once. Where every layer has a window (Mistral 7B, Phi 3) it knows none of them and keeps all tokens.
    """
    whole = padded_cells(shared * context)
    windows = {getattr(group.mixer, "window", None) for group, _ in cache_layers(model)}
    known = windows if None in windows else ()
    return {w: padded_cells(min(whole, shared * w + piece)) if w in known and w else whole for w in (None, *windows)}


def cell_cache_bytes(
    model: Model,
    kv_format: str,
    *,
    context: float,
    sequences: float = 1.0,
    shared: float = 1.0,
    piece: float,
    layout: Layout = ONE_RANK,
) -> float:
    """
    Cache that llama.cpp allocates at its start on one rank, however few tokens come.

    Per cache: cells of 256 tokens for the whole context, in windowed layers for the windows and one piece of a
    prompt; keys alone of latent attention. Per sequence: states and the last inputs of convolutions in fp32.

    Parameters
    ----------
    model : Model
        The architecture.
    kv_format : str
        Format of the cache: fp16, gguf-q8_0 …
    context : number
        Tokens of one sequence (n_ctx / n_parallel). [tokens]
    sequences : number
        Slots (n_parallel). [-]
    shared : number
        Slots that share one cache: all of them where it is unified (--kv-unified). [-]
    piece : number
        Tokens of a prompt computed at once (n_ubatch); infinite = releases that keep every token of windowed layers
        too. [tokens]
    layout : Layout
        Degrees of one replica.

    Returns
    -------
    number
        Sum of the "KV buffer size" and "RS buffer size" of its log. [bytes]

    Valid
    -----
    Streams of their own for each slot (not --kv-unified), without --swa-full.

    Source
    ------
    llama.cpp llama-kv-cache-iswa.cpp and llama-memory-recurrent.cpp; logs in measurements/own/llamacpp_memory.csv.

    Examples
    --------
    >>> def layer(window: int | None) -> Attention:
    ...     return Attention(num_attention_heads=16, num_key_value_heads=8, head_dim=256, window=window)
    >>> groups = tuple(LayerGroup(count=n, mixer=layer(w)) for n, w in ((10, 1024), (2, None)))
    >>> gemma = Model(id="x", family="Gemma3", kind="llm", hidden_size=3840, layers=groups)
    >>> cell_cache_bytes(gemma, "fp16", context=16384, piece=512) / 2**20
    376.0
    """
    cells = window_cells(model, context=context, piece=piece, shared=shared)
    one = sum(
        layers * kept.bytes * cells[kept.window] / kept.tokens
        for group, layers in cache_layers(model, layout)
        for kept in _layer_cache(group.mixer, kv_format, layout.tp)
    )
    return sequences * (one / shared + state_bytes_per_sequence(model, layout, input_bytes=STATE_BYTES))


def cross_cache_bytes_per_sequence(
    model: Model, kv_format: str, *, source_tokens: float, layout: Layout = ONE_RANK
) -> float:
    """Keys and values of the encoder's output that a decoder's cross attention keeps per sequence. [bytes]"""
    return sum(
        _on_stage(model, group, layout) * kept.bytes * source_tokens
        for group in model.layers
        if group.cross_attention is not None
        for kept in _layer_cache(group.cross_attention, kv_format, layout.tp)
    )


def state_bytes_per_sequence(model: Model, layout: Layout = ONE_RANK, *, input_bytes: float = 2.0) -> float:
    """
    States of one sequence on one rank, whatever its length: recurrent layers, convolutions, tokens not yet folded.

    States are heads x width x state columns in fp32; the convolution keeps its last inputs, in 16 bits as a rule. A
    layer that folds m tokens into one cache entry keeps values and scores of the last m (2 m where stretches overlap)
    in fp32.

    Parameters
    ----------
    model : Model
        The architecture.
    layout : Layout
        Degrees of one replica.
    input_bytes : number
        Bytes of an input that a convolution keeps. [bytes]

    Returns
    -------
    number
        0 for a model without such layers. [bytes/sequence]

    Valid
    -----
    Mamba 1 and 2, gated delta rules, lightning attention, xLSTM, RWKV, short convolutions, DeepSeek-V4's compressors.

    Source
    ------
    arXiv 2312.00752 section 3, 2405.21060 section 7, 2412.06464 section 3; compressors: ai-dynamo/aiconfigurator
    sdk/models/deepseek_v4.py (Apache-2.0).

    Examples
    --------
    >>> mixer = StateSpace(kind="mamba2", num_heads=128, head_dim=64, state_size=128, num_groups=8)
    >>> mamba = Model(id="x", family="M", kind="ssm", hidden_size=4096, layers=(LayerGroup(count=64, mixer=mixer),))
    >>> f"{state_bytes_per_sequence(mamba) / 2**20:.1f} MiB"
    '259.8 MiB'
    """
    return sum(
        _on_stage(model, group, layout) * _state(group.mixer, layout.tp, input_bytes)
        for group in model.layers
        if isinstance(group.mixer, StateSpace | LatentAttention)
    )


def cache_layers(model: Model, layout: Layout = ONE_RANK) -> Iterable[tuple[LayerGroup, float]]:
    """
    The decoder's layer groups that cache keys, values or latents, with how many of each the fullest stage holds.

    Layers that use the keys of another layer, or attend both ways, cache nothing.
    """
    for group in model.layers:
        if isinstance(group.mixer, Attention) and (group.mixer.kv_shared or not group.mixer.causal):
            continue
        if isinstance(group.mixer, Attention | LatentAttention):
            yield group, _on_stage(model, group, layout)


def _on_stage(model: Model, group: LayerGroup, layout: Layout) -> float:
    """Layers of a group on the fullest stage: the model's share, since kinds of layers alternate along the depth."""
    layers = sum(other.count for other in model.layers)
    return group.count if layout.pp == 1 else group.count * math.ceil(layers / layout.pp) / layers


class _Kept(NamedTuple):
    """One cache of one layer: bytes of an entry, tokens folded into it, and tokens after which it stops growing."""

    name: str
    bytes: float
    tokens: int = 1
    window: int | None = None


def _layer_cache(mixer: Mixer | None, kv_format: str, tp: int) -> Iterator[_Kept]:
    """The caches of one layer on one rank; none of layers that keep states or nothing."""
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
            yield _Kept("windowed_attention" if mixer.window else "full_attention", size, window=mixer.window)
            if mixer.index_heads:
                yield _Kept("index_keys", index_key_bytes(mixer, element_bytes=element_bytes))
        case LatentAttention(absorbed=True):
            entry = (mixer.kv_lora_rank + mixer.qk_rope_head_dim) * element_bytes
            yield _Kept("windowed_attention" if mixer.window else "latent_attention", entry, window=mixer.window)
            if mixer.compress_ratio:
                yield _Kept("latent_attention", entry, tokens=mixer.compress_ratio)
            if mixer.index_heads:
                key = index_key_bytes(mixer, element_bytes=element_bytes)
                yield _Kept("index_keys", key, tokens=mixer.compress_ratio or 1)
        case LatentAttention():
            size = latent_cache_bytes_per_token(
                kv_lora_rank=mixer.kv_lora_rank,
                rope_dim=mixer.qk_rope_head_dim,
                element_bytes=element_bytes,
                index_dim=mixer.index_head_dim if mixer.index_heads else 0,
            )
            yield _Kept("latent_attention", size)


def index_key_bytes(mixer: Attention | LatentAttention, *, element_bytes: float) -> float:
    """
    What an indexer caches for each entry it may choose.

    Parameters
    ----------
    mixer : Attention or LatentAttention
        A layer with an indexer.
    element_bytes : number
        b, bytes of one value of the cache beside it. [bytes]

    Returns
    -------
    number
        4-bit keys over folded entries; 8-bit keys with a 4-byte scale over latents; keys in the cache's own format
        over plain keys and values. [bytes]

    Valid
    -----
    DeepSeek-V3.2 and later, MiniMax M3. The format of MiniMax M3's keys is assumed.

    Source
    ------
    ai-dynamo/aiconfigurator sdk/common.py deepseek_v4_indexer_cache_entry_bytes; vLLM's DeepSeek-V3.2 index cache.

    Examples
    --------
    >>> sparse = Attention(num_attention_heads=64, num_key_value_heads=4, head_dim=128, index_heads=4,
    ...                    index_head_dim=128, index_topk=2048)
    >>> index_key_bytes(sparse, element_bytes=2)
    256.0
    """
    if isinstance(mixer, Attention):
        return float(mixer.index_head_dim * element_bytes)
    return mixer.index_head_dim * 0.5 if mixer.compress_ratio else float(mixer.index_head_dim + 4)


def _state(mixer: StateSpace | LatentAttention, tp: int, input_bytes: float) -> float:
    """What one layer keeps of a sequence on one rank, whatever its length. [bytes]"""
    if isinstance(mixer, LatentAttention):
        if not mixer.compress_ratio:
            return 0.0
        width = mixer.kv_lora_rank + mixer.qk_rope_head_dim + (mixer.index_head_dim if mixer.index_heads else 0)
        return 2.0 * (2 if mixer.index_heads else 1) * mixer.compress_ratio * width * STATE_BYTES
    inner = mixer.num_heads * mixer.head_dim / min(tp, mixer.parts)
    keys = mixer.num_groups * mixer.state_size / min(tp, mixer.num_groups)
    channels = inner if mixer.kind in {"mamba1", "short_conv"} else inner + 2 * keys
    convolved = (
        0.0 if mixer.kind in {"lightning", "xlstm", "rwkv"} else channels * max(0, mixer.conv_kernel - 1) * input_bytes
    )
    return inner * mixer.state_size * (0.0 if mixer.kind == "short_conv" else STATE_BYTES) + convolved
