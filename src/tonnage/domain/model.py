"""A model is groups of identical layers; each layer is a mixer and a feed-forward.

Field names follow the widely used `config.json`, so that reading one needs no translation table.
Parameter counts derive from the shape (`tonnage.physics.parameters`) and are compared with the
published total, which is kept beside them.

Ideas needed to read this file:
- a *mixer* mixes tokens (attention, latent attention, state space) or is absent;
- a *feed-forward* works on each token alone (dense, gated, mixture of experts) or is absent;
- an encoder-decoder has an `encoder` stack and a decoder whose layers carry `cross_attention`;
- a network that is not a transformer (CNN, U-Net, recommender) is a `Network`: FLOP, activation
  values and parameters per sample, without layers;
- a PyTorch module that was traced carries its `Profile`, operator by operator.
"""

from __future__ import annotations

from typing import Literal

from tonnage.domain.profile import Profile
from tonnage.record import SparseRecord


class Attention(SparseRecord, kw_only=True, tag="attention"):
    """Multi-head, grouped-query or multi-query attention: they differ only in `num_key_value_heads`."""

    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    v_head_dim: int | None = None
    """Width of a value head when it differs from `head_dim`."""
    window: int | None = None
    """Tokens a query sees (sliding or chunked window); absent = all of them."""
    causal: bool = True
    bias: bool = False
    """Query, key and value projections have a bias."""
    output_bias: bool = False
    qk_norm: bool = False
    qk_norm_all_heads: bool = False
    """Queries and keys are normed over all heads together: ranks that share the heads exchange sums of squares."""
    gated: bool = False
    """An output gate of the query's width (Qwen3-Next and later)."""
    sinks: bool = False
    """One learned sink logit per head (gpt-oss)."""
    kv_shared: bool = False
    """Reuses the cache of an earlier layer: no key/value projection and no cache of its own (Gemma 3n)."""
    segment_recurrence: bool = False
    """Queries also see the segment before, with relative positions (Transformer-XL, arXiv 1901.02860)."""
    key_is_value: bool = False
    """Keys serve as values, without a value projection (Gemma 4 full-attention layers)."""
    index_heads: int = 0
    """Heads of an indexer that chooses which cached tokens a query attends (MiniMax M3); 0 = all of them."""
    index_head_dim: int = 0
    index_topk: int = 0
    """Tokens the indexer chooses."""


class LatentAttention(SparseRecord, kw_only=True, tag="mla"):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): caches one latent vector per token."""

    num_attention_heads: int
    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None
    index_heads: int = 0
    """Heads of the sparse-attention indexer (DSA); 0 = dense attention."""
    index_head_dim: int = 0
    index_topk: int = 0
    """Tokens a query attends; also set where a layer reuses an earlier layer's choice and has no indexer."""
    absorbed: bool = False
    """Queries meet the latent itself, key and value at once: no up-projection (DeepSeek-V4)."""
    o_lora_rank: int | None = None
    """Rank of the output projection of each group of heads, when it is factored (DeepSeek-V4)."""
    o_groups: int = 1
    window: int | None = None
    """Tokens kept whole in the cache; absent = all of them (DeepSeek-V4: 128)."""
    compress_ratio: int = 0
    """Tokens folded into one cache entry of the same width beyond the window; 0 = nothing is kept beyond it."""


class StateSpace(SparseRecord, kw_only=True, tag="state_space"):
    """
    A layer with a fixed-size state per sequence instead of a cache that grows.

    `kind` selects parameter and state formulas: mamba1 (arXiv 2312.00752), mamba2 (2405.21060),
    gated_deltanet (2412.06464), kda (Kimi Delta Attention), lightning (MiniMax), xlstm, rwkv.
    """

    kind: Literal["mamba1", "mamba2", "gated_deltanet", "kda", "lightning", "xlstm", "rwkv", "short_conv"]
    num_heads: int
    """Value heads."""
    head_dim: int
    """Width of one value head; the inner width is num_heads x head_dim."""
    state_size: int
    """State columns per channel (Mamba) or width of one key head (delta rules)."""
    num_groups: int = 1
    """B/C groups (Mamba-2) or key heads (delta rules)."""
    conv_kernel: int = 4
    dt_rank: int | None = None
    norm: bool = True
    """Mamba-2: a norm of the inner width in front of the output projection (Falcon-H1: none)."""

    @property
    def parts(self) -> int:
        """Pieces that ranks can hold: heads, or single channels where nothing mixes them (vLLM's MambaMixer)."""
        alone = self.kind in {"mamba1", "short_conv"}
        return self.num_heads * self.head_dim if alone else self.num_heads


Mixer = Attention | LatentAttention | StateSpace


class Mlp(SparseRecord, kw_only=True, tag="mlp"):
    """A dense feed-forward; gated = three matrices (SwiGLU, GeGLU), otherwise two."""

    intermediate_size: int
    gated: bool = True
    bias: bool = False


class Moe(SparseRecord, kw_only=True, tag="moe"):
    """A mixture of experts: memory follows all of them, speed the `num_experts_per_tok` hit by a token."""

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    gated: bool = True
    shared_intermediate_size: int = 0
    """Total width of the always-on experts; 0 = none."""
    shared_gate: bool = False
    """A scalar gate on the shared expert (Qwen2-MoE and later)."""
    dense_intermediate_size: int = 0
    """A dense feed-forward beside the experts in the same layer (Arctic); 0 = none."""
    latent_size: int | None = None
    """Width the routed experts work in when it is not the hidden size (Nemotron 3)."""
    bias: bool = False
    router_bias: bool = False


FeedForward = Mlp | Moe


class LayerGroup(SparseRecord, kw_only=True):
    """`count` identical layers. Order inside the model does not matter for size and time, so it is not kept."""

    count: int
    mixer: Mixer | None = None
    feed_forward: FeedForward | None = None
    cross_attention: Attention | None = None
    norms: int = 2
    """Normalisations of the hidden width in one layer."""
    norm_bias: bool = False
    """LayerNorm (weight and bias) instead of RMSNorm (weight)."""
    hidden_size: int | None = None
    """Width of these layers when it is not the model's (encoder of another width)."""
    extra_parameters: float = 0.0
    """Parameters of one layer outside mixer, feed-forward and norms (relative position tables, per-layer inputs)."""


class Tower(SparseRecord, kw_only=True):
    """A part beside the language model: vision or audio encoder, projector, text encoder of a diffusion model."""

    name: str
    parameters: float
    layers: tuple[LayerGroup, ...] = ()
    hidden_size: int | None = None
    patch_size: int | None = None
    tokens_per_input: int | None = None
    """Tokens one image (of a tiled model: one tile) or audio window adds to the prompt."""
    merge: int = 2
    """Patches along a side that become one token of the prompt, where tokens follow from the image's size."""
    tile_px: int | None = None
    """Side of the square that images are scaled to, or of the tiles that they are cut into; absent = own size. [px]"""
    max_tiles: int = 1
    least_px: float = 0.0
    """Pixels below which an image of its own size is enlarged. [px]"""
    most_px: float | None = None
    """Pixels above which an image of its own size is shrunk. [px]"""
    tiling: Literal["aspect", "canvas"] = "aspect"
    """How a grid of tiles is chosen: the nearest aspect (InternVL), or the least enlargement (Llama 4)."""
    outputs: int = 1
    """Vectors of the model's width that a token is handed over as (deep layers that are fed, too)."""


class Network(SparseRecord, kw_only=True):
    """
    A network described by its totals per sample, at one input size.

    `flop` counts a multiply-add as two. `activation_values` are outputs of layers with weights,
    as timm counts them; they set memory traffic and training memory.
    """

    flop: float
    input_px: int | None = None
    activation_values: float | None = None
    kernels: int | None = None
    """Layers with weights."""
    denoiser_calls: int | None = None
    """Diffusion: calls of the network per image at guidance 1, when the model fixes it."""
    latent_px: int = 16
    """Diffusion transformers: pixels of the image per latent token, along a side. [px]"""
    frames: int | None = None
    """Video: frames of the clip that the model was made for."""
    aspect: float | None = None
    """Video: width over height of the clip that the model was made for. [-]"""
    frame_stride: int = 4
    """Video: frames per latent frame, after the first."""
    sample_s: float | None = None
    """Audio: seconds of one sample at the totals. [s]"""


class Model(SparseRecord, kw_only=True):
    """
    A model architecture and what is published about it.

    Absent means unknown. `extra_parameters` are weights outside layers, embeddings, head and
    towers, named in `notes`. `published_parameters` is the vendor's own total.
    """

    id: str
    family: str
    kind: str
    """llm, llm-moe, hybrid-moe, ssm, vlm, encoder, embedding, enc-dec, asr, vision, vision-text, cnn, …"""
    hidden_size: int = 0
    vocab_size: int = 0
    layers: tuple[LayerGroup, ...] = ()
    encoder: tuple[LayerGroup, ...] = ()
    towers: tuple[Tower, ...] = ()
    network: Network | None = None
    profile: Profile | None = None
    """Every operator of a traced PyTorch module; `network` holds its totals."""
    tie_word_embeddings: bool = False
    embedding_size: int | None = None
    """Width of the embedding table when it is not `hidden_size` (OPT-350m, ALBERT)."""
    learned_positions: int = 0
    """Rows of learned position tables."""
    head_bias: bool = False
    head_columns: int | None = None
    """Columns of the vocabulary projection that a token multiplies on average in training (adaptive softmax);
    absent = the vocabulary."""
    has_head: bool = True
    """False for encoders and embedding models that end without a vocabulary projection."""
    final_norms: int = 1
    norm_bias: bool = False
    max_context: int | None = None
    native_dtype: str = "bf16"
    quantization: str | None = None
    """Weight format of this checkpoint when it is quantised."""
    experts_dtype: str | None = None
    """Format of the routed experts when the checkpoint keeps them apart (gpt-oss: mxfp4)."""
    mtp_layers: int = 0
    """Multi-token-prediction layers shipped beside the model; not counted in its total."""
    extra_parameters: float = 0.0
    published_parameters: float | None = None
    published_active_parameters: float | None = None
    stored_weight_bytes: float | None = None
    """Exact bytes of the weight files, when their headers were read."""
    licence: str = ""
    source: str = ""
    notes: str = ""
    assumed: tuple[str, ...] = ()
    """What was assumed while reading it ("bare size: a dense decoder of that size"); shown in every answer."""

    @property
    def groups(self) -> tuple[LayerGroup, ...]:
        """All groups of layers, the encoder's first; empty where a network is known by its totals alone."""
        return (*self.encoder, *self.layers)

    @property
    def num_layers(self) -> int:
        """Layers of the decoder. [layers]"""
        return sum(group.count for group in self.layers)

    @property
    def depth(self) -> int:
        """Layers of all groups. [layers]"""
        return sum(group.count for group in self.groups)

    @property
    def logit_columns(self) -> int:
        """Columns of the vocabulary projection that a token multiplies in training; 0 = it has none."""
        return self.head_columns or (self.vocab_size if self.has_head else 0)
