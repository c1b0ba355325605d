"""
How many bytes of weights does one rank of a serving replica hold, in mixed GGUF files too?

A level such as Q4_K_M is a recipe, not a format: the vocabulary projection, the value projection and the
second feed-forward matrix get more bits than the rest, some of them only in half of the layers. Following the
recipe gives file sizes within a percent on any architecture, where one mean of bits per weight drifts with the
vocabulary and the heads.

Levels without a recipe here, and every format that is not GGUF, store all matrices alike.

Ideas needed to read this file:
- everything is per RANK, of the fullest one: tensor parallelism copies what it cannot cut (norms, key/value heads
  when there are fewer than ranks), pipelines put embeddings on the first stage and the head on the last;
- formats belong to matrices: engines keep embeddings, head, router and vectors at 16 bits when they load quantised
  weights; GGUF files quantise everything, by recipe.

What a context keeps is in `cache.py` and passed on here, so that one import gives both; buffers beside the two are in
`buffers.py`; who gets what is left of the memory is in `simulation/kvcache.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LayerGroup, Model, Moe, StateSpace
from tonnage.domain.precision import Format, Precision, number_format
from tonnage.physics.cache import (
    cache_bytes_per_sequence,
    cache_layers,
    cell_cache_bytes,
    cross_cache_bytes_per_sequence,
    kv_bytes_per_token,
    kv_cache_bytes_per_token,
    latent_cache_bytes_per_token,
    state_bytes_per_sequence,
    window_cells,
)
from tonnage.physics.matrices import Matrix, feed_forward_matrices, feed_forward_vectors, mixer_matrices, mixer_vectors
from tonnage.physics.parameters import (
    embedding_parameters,
    head_parameters,
    merge_parts,
    norm_parameters,
    parameters,
    position_parameters,
)

Q2_K: Final = 2.625
Q3_K: Final = 3.4375
Q4_K: Final = 4.5
Q5_K: Final = 5.5
Q6_K: Final = 6.5625
"""Bits per weight of the block formats, scales included (llama.cpp ggml-common.h)."""

MORE_BITS: Final = 0.5
"""Share of layers in which `use_more_bits` holds: the first and last eighth, and every third in between."""

_RECIPES: Final[dict[str, dict[str, float]]] = {
    "gguf-q2_k": {"other": Q2_K, "embedding": Q2_K, "head": Q6_K, "value": Q4_K, "output": Q3_K, "down": Q3_K},
    "gguf-q3_k_s": {"other": Q3_K, "embedding": Q3_K, "head": Q6_K},
    "gguf-q3_k_m": {"other": Q3_K, "embedding": Q3_K, "head": Q6_K, "value": Q4_K, "output": Q4_K, "down": Q4_K},
    "gguf-q4_k_s": {"other": Q4_K, "embedding": Q4_K, "head": Q6_K, "down": Q4_K + (Q5_K - Q4_K) / 8},
    "gguf-q4_k_m": {
        "other": Q4_K, "embedding": Q4_K, "head": Q6_K,
        "value": Q4_K + MORE_BITS * (Q6_K - Q4_K), "down": Q4_K + MORE_BITS * (Q6_K - Q4_K),
    },
    "gguf-q5_k_s": {"other": Q5_K, "embedding": Q5_K, "head": Q6_K},
    "gguf-q5_k_m": {
        "other": Q5_K, "embedding": Q5_K, "head": Q6_K,
        "value": Q5_K + MORE_BITS * (Q6_K - Q5_K), "down": Q5_K + MORE_BITS * (Q6_K - Q5_K),
    },
    "gguf-q4_0": {"other": 4.5, "embedding": 4.5, "head": Q6_K},
    "gguf-q4_1": {"other": 5.0, "embedding": 5.0, "head": Q6_K},
    "gguf-q5_0": {"other": 5.5, "embedding": 5.5, "head": Q6_K},
    "gguf-iq4_xs": {"other": 4.25, "embedding": 4.25, "head": Q6_K},
}  # fmt: skip


def gguf_bits(stored: Format, role: str, *, depth: float = 0.0, shared_kv: int = 1) -> float:
    """
    Bits per value of a matrix with that role: embedding, head, value, output, down, other.

    Source: llama.cpp `llama_tensor_get_type` (llama-quant.cpp). Where eight query heads share a key/value head in
    a deep model (80 layers: Llama 70B), the small value projection gets at least Q5_K.
    """
    recipe = _RECIPES.get(stored.name)
    if recipe is None:
        return stored.bits
    if role == "value" and shared_kv >= 8 and depth >= 80 and recipe["other"] in {Q3_K, Q4_K}:
        return Q5_K + MORE_BITS * (Q6_K - Q5_K) if stored.name == "gguf-q4_k_m" else Q5_K
    return recipe.get(role, recipe["other"])


__all__ = [
    "cache_bytes_per_sequence",
    "cache_layers",
    "cell_cache_bytes",
    "cross_cache_bytes_per_sequence",
    "kv_bytes_per_token",
    "kv_cache_bytes_per_token",
    "latent_cache_bytes_per_token",
    "state_bytes_per_sequence",
    "window_cells",
]

ONE_RANK: Final = Layout()

SIXTEEN: Final = 2.0
"""Bytes of what engines keep at 16 bits. [bytes]"""
WHOLE_FILE: Final = ("gguf-", "exl2-", "exl3-")
"""Families whose files quantise embeddings and head too."""
KEPT_AT_SIXTEEN: Final = frozenset({"router", "shared_gate", "conv", "compress_proj", "index_compress_proj"})
"""Matrices that no checkpoint quantises, but for files that quantise everything."""
PROJECTIONS: Final = frozenset({"q_proj", "k_proj", "v_proj", "q_a_proj", "q_b_proj", "kv_a_proj", "kv_b_proj"})
"""Matrices into attention, which `Precision.attention` is of."""
MXFP4_STEP: Final = 256
"""Engines pad the inner width of MXFP4 experts to a multiple of this (vLLM mxfp4.py; gpt-oss starts log 6.5 % more)."""


def checkpoint_precision(model: Model) -> Precision:
    """Formats of a checkpoint as it is published: its own weights, a 16-bit cache, activations that fit them."""
    weights = number_format(model.quantization or model.native_dtype)
    sixteen = model.native_dtype if model.native_dtype in {"fp16", "bf16", "fp32"} else "bf16"
    activations = sixteen if weights.weight_only or weights.bits >= 16 else weights.name
    kv = sixteen if sixteen != "fp32" else "fp16"
    return Precision(weights=weights.name, kv=kv, activations=activations, experts=model.experts_dtype)


def resolve_precision(given: Precision | None, model: Model) -> Precision:
    """
    The formats that run: the checkpoint's own when none are given.

    A mixture published with experts in a format of their own (gpt-oss) keeps its other weights at
    16 bits when the case names only that format. FP8 of a checkpoint whose scales are of blocks (DeepSeek,
    MiniMax) is that checkpoint: engines load its scales as they are, and the kernels that go with them.
    """
    if given is None:
        return checkpoint_precision(model)
    if model.quantization == "fp8_block" and "fp8" in (given.weights, given.experts):
        weights, experts = ("fp8_block" if name == "fp8" else name for name in (given.weights, given.experts))
        given = msgspec.structs.replace(given, weights=weights or given.weights, experts=experts)
    for name in (given.weights, given.kv, given.activations, given.experts or given.weights):
        number_format(name)
    if model.experts_dtype and given.experts is None and number_format(given.weights).bits < 8:
        return msgspec.structs.replace(given, weights=model.native_dtype, experts=given.weights)
    return given


def padded_vocabulary(*, vocab_size: int, tp: int) -> int:
    """
    Rows of an embedding table as engines allocate it.

    V' = ceil(V / 64 t) 64 t, so that every rank holds the same multiple of 64 rows.

    Parameters
    ----------
    vocab_size : int
        V, rows of the table in the checkpoint. [-]
    tp : int
        t, tensor-parallel ranks. [-]

    Returns
    -------
    int
        Rows after padding, over all ranks. [-]

    Valid
    -----
    vLLM, SGLang and Megatron-style engines; llama.cpp does not pad.

    Source
    ------
    vLLM vocab_parallel_embedding.py, DEFAULT_VOCAB_PADDING_SIZE.

    Examples
    --------
    >>> padded_vocabulary(vocab_size=32001, tp=4)
    32256
    """
    step = 64 * tp
    return -(-vocab_size // step) * step


def weight_bytes(model: Model, precision: Precision, *, layout: Layout = ONE_RANK) -> Quantity:
    """
    Weights on the fullest rank of a replica, opened into parts.

    The sum over the matrices of ceil-divided shares x bytes of their format. Where the checkpoint's exact size is known
    and the format is its own, parts are scaled to it.

    Parameters
    ----------
    model : Model
        The architecture.
    precision : Precision
        Formats of weights and, when they differ, of routed experts.
    layout : Layout
        Degrees of one replica.

    Returns
    -------
    Quantity
        Parts embedding, head, attention, state_space, cross_attention, feed_forward, experts, router, norms, towers
        and other. [bytes]

    Valid
    -----
    Layers are spread evenly over pipeline stages; a stage holds ceil(L/p) layers of the mean size of those that repeat.

    Source
    ------
    docs/physics.md 4; totals checked in tests/paper/test_memory.py.

    Examples
    --------
    >>> from tonnage.domain.model import Mlp
    >>> layer = LayerGroup(
    ...     count=80,
    ...     mixer=Attention(num_attention_heads=64, num_key_value_heads=8, head_dim=128),
    ...     feed_forward=Mlp(intermediate_size=28672),
    ... )
    >>> llama = Model(id="x", family="Llama", kind="llm", hidden_size=8192, vocab_size=128256, layers=(layer,))
    >>> f"{weight_bytes(llama, Precision()).value / 1e9:.1f} GB"
    '141.1 GB'
    """
    rank = _rank_bytes(model, precision, layout)
    if model.stored_weight_bytes is None or not _is_own(model, precision):
        return rank
    scale = model.stored_weight_bytes / _file_bytes(model, precision)
    parts = [
        msgspec.structs.replace(
            part, value=part.value * scale, basis=Basis.MEASURED, source="sizes in the checkpoint's headers"
        )
        for part in rank.parts
    ]
    return Quantity.of_parts("bytes", parts)


def stored_bytes(model: Model, precision: Precision) -> float:
    """
    All weights once, as they lie in files: what a download or a cold start moves.

    Unlike what ranks hold, files are not padded and keep the layers for multi-token prediction.

    Parameters
    ----------
    model : Model
        The architecture.
    precision : Precision
        Formats of weights and, when they differ, of routed experts.

    Returns
    -------
    number
        Their exact size where it is known, else the sum over all matrices. [bytes]

    Valid
    -----
    Copies of embedding and head that some multi-token-prediction layers carry are left out (DeepSeek-V3: 0.5 %).

    Source
    ------
    Totals checked in tests/paper/test_memory.py.

    Examples
    --------
    >>> small = Model(id="x", family="x", kind="llm", hidden_size=64, vocab_size=100, tie_word_embeddings=True,
    ...               layers=(LayerGroup(count=2, mixer=Attention(num_attention_heads=4, num_key_value_heads=4,
    ...                                                          head_dim=16)),))
    >>> stored_bytes(small, Precision()) == 2 * parameters(small).value
    True
    """
    if model.stored_weight_bytes is not None and _is_own(model, precision):
        return model.stored_weight_bytes
    return _file_bytes(model, precision)


def _file_bytes(model: Model, precision: Precision) -> float:
    """All weights as files hold them, by their formats: not padded, with layers for multi-token prediction. [bytes]"""
    whole = _rank_bytes(model, precision, ONE_RANK, padded=False).value
    if not model.mtp_layers:
        return whole
    # Each such layer is one of the model's usual layers behind a projection of two hidden states to one.
    usual = max(model.layers, key=lambda group: group.count)
    layer = sum(_layer_bytes(model, usual, precision, ONE_RANK, padded=False).values())
    return whole + model.mtp_layers * (layer + 2 * model.hidden_size**2 * SIXTEEN)


def _is_own(model: Model, precision: Precision) -> bool:
    """Whether these are the formats of the weights that the checkpoint is published in."""
    own = checkpoint_precision(model)
    return number_format(precision.weights) == number_format(own.weights) and precision.experts == own.experts


def _rank_bytes(model: Model, precision: Precision, layout: Layout, *, padded: bool = True) -> Quantity:
    """Weights on the fullest rank by parts and formats; `padded` as engines hold them, else as files do. [bytes]"""
    if not model.layers and not model.encoder:
        total = parameters(model)
        return Quantity.of_parts("bytes", (_network(part, precision) for part in total.parts))
    layers: dict[str, float] = {}
    for group in (*model.encoder, *model.layers):
        on_stage = _layers_on_stage(model, group, layout)
        for name, value in _layer_bytes(model, group, precision, layout, padded=padded).items():
            layers[name] = layers.get(name, 0.0) + value * on_stage
    ends = _ends(model, precision, layout, padded=padded)
    parts = [Quantity(name=name, value=value) for name, value in {**layers, **ends}.items()]
    parts.append(Quantity(name="norms", value=model.final_norms * model.hidden_size * SIXTEEN))
    parts += [Quantity(name="towers", value=tower.parameters * SIXTEEN, source=tower.name) for tower in model.towers]
    parts.append(
        Quantity(name="other", value=model.extra_parameters * number_format(precision.weights).bytes / layout.tp)
    )
    return Quantity.of_parts("bytes", merge_parts(parts))


def _network(part: Quantity, precision: Precision) -> Quantity:
    return msgspec.structs.replace(part, value=part.value * number_format(precision.weights).bytes)


def _layers_on_stage(model: Model, group: LayerGroup, layout: Layout) -> float:
    """
    Layers of a group on the fullest stage.

    A few leading dense layers before a mixture sit together on the first stage; the others hold only mixtures.
    """
    if layout.pp == 1 or group in model.encoder:
        return group.count / (layout.pp if group in model.encoder else 1)
    stage = math.ceil(sum(other.count for other in model.layers) / layout.pp)
    leading = (
        [other for other in model.layers if not isinstance(other.feed_forward, Moe) and other.count < stage]
        if any(isinstance(other.feed_forward, Moe) for other in model.layers)
        else []
    )
    if group in leading:
        return 0.0
    return stage * group.count / sum(other.count for other in model.layers if other not in leading)


def _ends(model: Model, precision: Precision, layout: Layout, *, padded: bool) -> dict[str, float]:
    """Embedding and head: both without a pipeline, the larger one with it (a tied head needs the table again)."""
    stored = number_format(precision.weights)
    whole = stored.name.startswith(WHOLE_FILE) or stored.bits >= 16
    padding = padded_vocabulary(vocab_size=model.vocab_size, tp=layout.tp) / model.vocab_size if model.vocab_size else 1
    padding = 1.0 if not padded or (whole and stored.bits < 16) else padding
    tied = model.tie_word_embeddings or not model.has_head
    table = _bits(stored, "head" if tied else "embedding") / 8 if whole else SIXTEEN
    last = _bits(stored, "head") / 8 if whole else SIXTEEN
    embedding = embedding_parameters(model) * table * padding / layout.tp + position_parameters(model) * SIXTEEN
    head = head_parameters(model) * last * padding / layout.tp
    if layout.pp == 1:
        return {"embedding": embedding, "head": head}
    if model.tie_word_embeddings and model.has_head:
        return {"embedding": embedding}
    return {"embedding": embedding} if embedding >= head else {"head": head}


def _layer_bytes(
    model: Model, group: LayerGroup, precision: Precision, layout: Layout, *, padded: bool
) -> dict[str, float]:
    """One layer of a group on one rank, by part. [bytes]"""
    hidden = group.hidden_size or model.hidden_size
    mixer = "state_space" if isinstance(group.mixer, StateSpace) else "attention"
    found: dict[str, float] = {}
    depth = float(sum(other.count for other in model.layers))

    def add(name: str, matrices: Iterable[Matrix], vectors: float) -> None:
        held = layout if padded else None
        size = sum(_share(m, layout) * _bytes_of(m, model, precision, held=held, depth=depth) for m in matrices)
        found[name] = found.get(name, 0.0) + size + vectors * SIXTEEN

    add(mixer, mixer_matrices(group.mixer, hidden), mixer_vectors(group.mixer, hidden))
    if group.cross_attention is not None:
        cross = mixer_matrices(group.cross_attention, hidden)
        add("cross_attention", cross, mixer_vectors(group.cross_attention, hidden))
    for matrix in feed_forward_matrices(group.feed_forward, hidden):
        add(_part_of(matrix), (matrix,), 0.0)
    experts = isinstance(group.feed_forward, Moe)
    vectors = feed_forward_vectors(group.feed_forward, hidden) / (layout.tp * layout.dp if experts else 1)
    add("experts" if experts else "feed_forward", (), vectors)
    add("norms", (), norm_parameters(group, hidden))
    add("other", (), group.extra_parameters)
    return found


def _part_of(matrix: Matrix) -> str:
    if matrix.split == "experts":
        return "experts"
    return "router" if matrix.name in {"router", "shared_gate"} else "feed_forward"


def _share(matrix: Matrix, layout: Layout) -> float:
    """Values of a matrix on one rank: cut where it can be cut, whole where it cannot."""
    if matrix.split == "whole":
        return float(matrix.size * matrix.copies)
    if matrix.split == "experts":
        ranks = layout.tp * layout.dp
        groups = min(layout.ep, ranks)
        return -(-matrix.copies // groups) * matrix.size / (ranks / groups)
    pieces = matrix.parts or layout.tp
    return matrix.size * matrix.copies * -(-pieces // layout.tp) / pieces


def _bytes_of(matrix: Matrix, model: Model, precision: Precision, *, held: Layout | None, depth: float) -> float:
    """Bytes of one value of a matrix as ranks of a layout hold it, or as files do (None)."""
    stored = number_format(precision.weights)
    if matrix.split == "experts":
        experts = number_format(precision.stored)
        file = stored.name.startswith(WHOLE_FILE)
        padding = _mxfp4_padding(matrix, held) if held and not file and experts.name == "mxfp4" else 1.0
        return padding * _bits(experts, _gguf_role(matrix), depth=depth, shared_kv=_shares_kv(model)) / 8
    if matrix.name in KEPT_AT_SIXTEEN and not stored.name.startswith(WHOLE_FILE):
        return max(SIXTEEN, stored.bytes) if stored.bits >= 16 else SIXTEEN
    if precision.attention is not None and matrix.name in PROJECTIONS:
        return number_format(precision.attention).bytes
    return _bits(stored, _gguf_role(matrix), depth=depth, shared_kv=_shares_kv(model)) / 8


def _bits(stored: Format, role: str, *, depth: float = 0.0, shared_kv: int = 1) -> float:
    """Bits of one value of a matrix in that role: only files of GGUF mix formats."""
    mixed = stored.name.startswith(WHOLE_FILE)
    return gguf_bits(stored, role, depth=depth, shared_kv=shared_kv) if mixed else stored.bits


def _mxfp4_padding(matrix: Matrix, layout: Layout) -> float:
    """Padded over true inner width of one expert's share."""
    width = (matrix.inputs if "down_proj" in matrix.name else matrix.outputs / 2) * layout.ep / (layout.tp * layout.dp)
    return math.ceil(width / MXFP4_STEP) * MXFP4_STEP / width


def _gguf_role(matrix: Matrix) -> str:
    return {"v_proj": "value", "o_proj": "output"}.get(matrix.name, "down" if "down_proj" in matrix.name else "other")


def _shares_kv(model: Model) -> int:
    """Query heads that share one key/value head, the largest over the layers."""
    return max(
        (
            g.mixer.num_attention_heads // g.mixer.num_key_value_heads
            for g in model.layers
            if isinstance(g.mixer, Attention)
        ),
        default=1,
    )
