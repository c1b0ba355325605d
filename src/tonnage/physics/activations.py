"""What the forward pass must keep for the backward pass: bytes of activations per layer, and of logits.

A layer keeps the inputs of its matrices, of its norms, of attention and of the feed-forward's
non-linearity. Which of them survive depends on the software (fused kernels keep less than one eager
call per line), on what is trained (a frozen matrix needs no input), on recompute, and on how tensor,
sequence and context parallelism cut them. `layer_bytes_per_token` says it for any layer of `domain.model`, and must
reproduce the published formulas for the GPT layer.

Ignored: dropout masks (modern models train without), saved statistics of norms and attention.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.model import Attention, FeedForward, LatentAttention, LayerGroup, Mixer, Mlp, Moe, StateSpace
from tonnage.domain.training import TrainSetup
from tonnage.physics.matrices import is_target, layer_matrices, mixer_matrices
from tonnage.record import Record

CHUNKED_LOGITS: Final = 2.75
"""Bytes per logit when the loss runs in eight chunks: 16-bit logits, and one chunk in 32 bits with its gradient."""
_FUSED_LOGITS: Final = 3.0
"""Values per value of the head's input where the loss is one with the head: chunks of as many tokens as make their
logits no larger than that input, and its gradient, which the forward pass computes (arXiv 2410.10989, section 3.2)."""

WIDE_LOGITS: Final = 14.0
"""Bytes per logit in 32 bits: logits, a shifted copy, log-probabilities, gradient in part."""


class _Kept(Record):
    """Bytes per token: of tensors that only sequence parallelism cuts, and of those tensor parallelism cuts."""

    whole: float
    cut: float


def layer_bytes_per_token(
    group: LayerGroup, hidden_size: int, *, setup: TrainSetup, recompute: str | None = None
) -> float:
    """
    Activations of one layer per token and rank, as kept for the backward pass.

    Parameters
    ----------
    group : LayerGroup
        The layer.
    hidden_size : int
        Width of the model. [values]
    setup : TrainSetup
        Software, precision, parallel degrees and recompute.
    recompute : str or None
        Overrides the setup's: "none" gives the working set of a recomputed layer.

    Returns
    -------
    number
        Bytes per token of the rank's own micro-batch. [bytes/token]

    Valid
    -----
    Any layer of `domain.model`. State-space mixers are counted by the widths of their projections.

    Source
    ------
    arXiv 2205.05198, section 4, carried over to grouped queries, gates, latent attention and experts by the
    same accounting.

    Examples
    --------
    >>> from tonnage import catalog
    >>> from tonnage.catalog.fitted import training_coefficients
    >>> from tonnage.engines.registry import software_spec
    >>> setup = TrainSetup(model=catalog.model("openai-community/gpt2"), software=software_spec("megatron"),
    ...     accelerator=catalog.accelerator("a100-sxm4-80gb"), coefficients=training_coefficients())
    >>> layer = LayerGroup(
    ...     count=1, feed_forward=Mlp(intermediate_size=400, gated=False),
    ...     mixer=Attention(num_attention_heads=4, num_key_value_heads=4, head_dim=25),
    ... )
    >>> layer_bytes_per_token(layer, 100, setup=setup) / 100  # 34 less two dropout masks
    32.0
    """
    hidden = group.hidden_size or hidden_size
    chosen = recompute or setup.recompute
    tp = setup.layout.tp
    spread = tp if setup.sequence_parallel else 1
    if chosen == "full":
        inputs = 0.0 if setup.offload_activations else residual_bytes(setup) * hidden / spread
        if setup.recompute_share >= 1:
            return inputs
        whole = layer_bytes_per_token(group, hidden_size, setup=setup, recompute="none")
        return setup.recompute_share * inputs + (1 - setup.recompute_share) * whole
    if chosen == "selective" and setup.software.selective == "operations":
        kept = _matrix_outputs(group, hidden, setup)
    else:
        kept = _kept_activations(group, hidden, setup, chosen)
    return kept.whole / spread + kept.cut / tp + (_adapter_bytes(group, hidden, setup) if setup.adapter else 0.0)


def recomputed_layer_bytes(group: LayerGroup, hidden_size: int, *, setup: TrainSetup) -> float:
    """
    Working set of one layer while it is recomputed and differentiated, per token and rank. [bytes/token]

    What the layer keeps, and the gradients of its widest tensors, which live beside them for a moment.
    """
    hidden = group.hidden_size or hidden_size
    kept = layer_bytes_per_token(group, hidden_size, setup=setup, recompute="none")
    widest = _widest(group.feed_forward, hidden) / setup.layout.tp
    # An adapter's own copy of its input has a gradient of its own; a copy holds no mask.
    copied = max(0.0, setup.adapter_input - 1) * _down_values(group.feed_forward, hidden) / setup.layout.tp
    return kept + _element_bytes(setup) * (widest + 2 * hidden) + (0.0 if setup.wide_layers else copied)


def mean_layer_bytes(setup: TrainSetup) -> tuple[float, float]:
    """Of the mean layer kept, and of a recomputed one the working set beside it, for each token. [bytes/token]"""
    model, width = setup.model, setup.model.hidden_size
    each = [layer_bytes_per_token(g, width, setup=setup) for g in model.groups]
    per_layer = sum(g.count * kept for g, kept in zip(model.groups, each, strict=True)) / model.depth
    working = max(recomputed_layer_bytes(g, width, setup=setup) for g in model.groups)
    return per_layer, working - max(each) if setup.recompute == "none" else working


def logit_bytes(vocab_size: int, *, setup: TrainSetup) -> float:
    """
    Logits, their 32-bit copy and gradient at the end of the forward pass, per token and rank. [bytes/token]

    A chunked or fused loss never holds more than a chunk in 32 bits. Passes without gradients beside the step's own
    add what the software leaves of theirs. A policy that is updated on answers it drew may take more.
    """
    if setup.loss == "fused":
        return _FUSED_LOGITS * setup.value_bytes * setup.model.hidden_size
    keeps = setup.software.keeps
    whole = keeps.logits_drawn if setup.objective == "grpo" and keeps.logits_drawn else keeps.logits
    if _element_bytes(setup) == 4:
        whole = WIDE_LOGITS
    per_value = CHUNKED_LOGITS if setup.loss == "chunked" else setup.whole_logit or whole
    per_value += setup.further_passes * setup.software.keeps.logits_passed
    return per_value * vocab_size / setup.layout.tp


def residual_bytes(setup: TrainSetup) -> int:
    """A value of the residual stream, which is all that a recomputed layer keeps. [bytes/value]"""
    return 4 if setup.residual_is_wide else setup.value_bytes


def _element_bytes(setup: TrainSetup) -> int:
    """
    Activations are 32 bits wide in fp32 and TF32 training, else 16: FP8 training keeps 16-bit activations.

    A 4-bit product answers in the format of its input, so that a 32-bit residual widens a whole layer.
    """
    return 4 if setup.wide_layers else setup.value_bytes


def _kept_activations(group: LayerGroup, hidden: int, setup: TrainSetup, recompute: str) -> _Kept:
    """What a layer keeps without recomputation ("none"), or with that of the attention core ("selective")."""
    size = _element_bytes(setup)
    norms = group.norms * hidden * _norm_bytes(group, setup, residual_bytes(setup))
    mixer = _mixer_values(group.mixer, hidden, setup)
    cross = _mixer_values(group.cross_attention, hidden, setup)
    inputs = _input_values(group, hidden, setup)
    forward = _feed_forward_values(group.feed_forward, hidden, setup)
    scores = _score_bytes(group.mixer, setup) if recompute == "none" and not setup.flash_attention else 0.0
    narrow = _narrow_bytes(setup)
    down = _down_values(group.feed_forward, hidden)
    if recompute == "selective" and setup.flash_attention:
        # Megatron's modules of later years: norm outputs, non-linearities and expanded latents are made again.
        narrow, mixer = 0.0, mixer - _expanded_values(group.mixer)
    return _Kept(
        whole=norms + narrow * inputs,
        cut=size * (mixer + cross + forward) - (size - narrow) * down + scores * size / 2,
    )


def _adapter_bytes(group: LayerGroup, hidden: int, setup: TrainSetup) -> float:
    """Inputs that adapters keep for themselves: one copy a matrix after dropout, and the mask."""
    if not setup.adapter_input:
        return 0.0
    cut = {"inputs": setup.layout.tp}
    return sum(
        setup.adapter_input * matrix.inputs / cut.get(matrix.split, 1) * (2 if "gate_up" in matrix.name else 1)
        for matrix in layer_matrices(group, hidden)
        if matrix.split not in {"experts", "whole"} and is_target(matrix.name, setup.lora_targets)
    )


def _expanded_values(mixer: Mixer | None) -> float:
    """Keys and values that latent attention expands from its latents."""
    if not isinstance(mixer, LatentAttention):
        return 0.0
    return float(mixer.num_attention_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.v_head_dim))


def _narrow_bytes(setup: TrainSetup) -> float:
    """Inputs of products are kept as they are multiplied: 8 bits in FP8 training."""
    return 1.0 if setup.precision in {"fp8", "mxfp8", "nvfp4"} else float(_element_bytes(setup))


def _down_values(feed_forward: FeedForward | None, hidden: int) -> float:
    """Inputs of a feed-forward's last product, and copies of its input sent to experts, per token."""
    match feed_forward:
        case Mlp(intermediate_size=width):
            return float(width)
        case Moe() as moe:
            routed = moe.num_experts_per_tok * (moe.moe_intermediate_size + (moe.latent_size or hidden))
            return float(routed + moe.shared_intermediate_size + moe.dense_intermediate_size)
        case None:
            return 0.0


def _norm_bytes(group: LayerGroup, setup: TrainSetup, size: int) -> float:
    """LayerNorm is one kernel everywhere and keeps its input; a frozen RMSNorm keeps no normalised copy."""
    if group.norm_bias:
        return float(size)
    kept = setup.software.keeps.rms_norm
    return max(kept / 2 if setup.adapter else kept, size)


def _input_values(group: LayerGroup, hidden: int, setup: TrainSetup) -> float:
    """Norm outputs kept because a matrix behind them is trained, or carries an adapter."""
    mixer = hidden if group.mixer is not None and _keeps_input(setup, "q_proj", "k_proj", "v_proj") else 0
    cross = hidden if group.cross_attention is not None else 0
    forward = hidden if group.feed_forward is not None and _keeps_input(setup, "up_proj") else 0
    return float(mixer + cross + forward)


def _keeps_input(setup: TrainSetup, *names: str) -> bool:
    """Whether one of these matrices keeps its input: it is trained, or its adapter reads it without an own copy."""
    if not setup.adapter:
        return True
    return not setup.adapter_input and any(is_target(name, setup.lora_targets) for name in names)


def _mixer_values(mixer: Mixer | None, hidden: int, setup: TrainSetup) -> float:
    """Values a mixer keeps per token between its input and its output projection."""
    match mixer:
        case Attention(num_attention_heads=n, num_key_value_heads=k, head_dim=d):
            pairs = n if setup.software.keeps.expanded_kv else k
            values = n * d + pairs * (d + (mixer.v_head_dim or d)) + n * (mixer.v_head_dim or d)
            gate = n * d if mixer.gated else 0
            return float(values + gate + ((n + k) * d if mixer.qk_norm or mixer.qk_norm_all_heads else 0))
        case LatentAttention(num_attention_heads=n):
            key = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim
            latents = 2 * ((mixer.q_lora_rank or 0) + mixer.kv_lora_rank)
            return float(n * (2 * key + 2 * mixer.v_head_dim) + latents)
        case StateSpace():
            *first, _ = mixer_matrices(mixer, hidden)
            inner = mixer.num_heads * mixer.head_dim
            return float(sum(m.outputs for m in first) + inner)
        case None:
            return 0.0


def _feed_forward_values(feed_forward: FeedForward | None, hidden: int, setup: TrainSetup) -> float:
    """Values a feed-forward keeps per token between its input and its output."""
    keeps = setup.software.keeps
    down = 0 if _keeps_input(setup, "down_proj") else 1
    match feed_forward:
        case Mlp(intermediate_size=width, gated=gated):
            return width * ((keeps.gated if gated else keeps.plain) - down)
        case Moe():
            per_width = (keeps.gated if feed_forward.gated else keeps.plain) - down
            inner = feed_forward.latent_size or hidden
            # The copy sent to each expert; its weight multiplies inside, so that outputs need not be kept.
            copies = feed_forward.num_experts_per_tok * setup.routed_load
            # Ranks that cut the same experts hold each other's copies whole, and their own part of what is inside.
            routed = copies * (inner * (setup.layout.etp or 1) + per_width * feed_forward.moe_intermediate_size)
            shared = per_width * (feed_forward.shared_intermediate_size + feed_forward.dense_intermediate_size)
            return routed + shared
        case None:
            return 0.0


def _score_bytes(mixer: Mixer | None, setup: TrainSetup) -> float:
    """Attention scores, mask and dropped scores per token at 16 bits, where no flash kernel hides them: 5 N S."""
    heads = mixer.num_attention_heads if isinstance(mixer, Attention | LatentAttention) else 0
    seen = setup.seq_len
    if isinstance(mixer, Attention) and mixer.window:
        seen = min(seen, mixer.window)
    return 5.0 * heads * seen / setup.layout.cp


def _matrix_outputs(group: LayerGroup, hidden: int, setup: TrainSetup) -> _Kept:
    """
    Per-operation recompute of PyTorch: of products every second output stays, and what attention gave; all else is
    done again (torchtitan's policy of "op": `_save_list`, every second `mm`).
    """
    size = _element_bytes(setup)
    attended = _attended_values(group.mixer)
    mixer = _mixer_values(group.mixer, hidden, setup) - attended
    match group.feed_forward:
        case Mlp(intermediate_size=width, gated=gated):
            forward: float = width * (2 if gated else 1)
        case Moe() as moe:
            forward = moe.num_experts_per_tok * setup.routed_load * (moe.moe_intermediate_size * 2 + hidden)
        case None:
            forward = 0.0
    return _Kept(whole=size * 2.0 * hidden, cut=size * (attended + (mixer + forward) / 2))


def _attended_values(mixer: Mixer | None) -> float:
    """What attention gives, per token, before its output projection."""
    match mixer:
        case Attention(num_attention_heads=n):
            return float(n * (mixer.v_head_dim or mixer.head_dim))
        case LatentAttention(num_attention_heads=n):
            return float(n * mixer.v_head_dim)
        case _:
            return 0.0


def _widest(feed_forward: FeedForward | None, hidden: int) -> float:
    """Values per token of the widest tensors of a layer, over all tensor-parallel ranks."""
    match feed_forward:
        case Mlp(intermediate_size=width, gated=gated):
            return width * (3.0 if gated else 1.0)
        case Moe() as moe:
            return moe.num_experts_per_tok * moe.moe_intermediate_size * 3.0
        case None:
            return float(hidden)
