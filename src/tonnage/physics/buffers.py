"""What does an engine hold beside weights and cache while it serves?

The largest is the activation peak of the step it profiles at start: either the sampler's logits for as many sequences
as may run, or the widest layer at the token budget. One follows the other, so the peak is the larger, not the sum.

Deliberately ignored: allocator fragmentation, which engines avoid by profiling once and reserving the rest for cache.
"""

from __future__ import annotations

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LayerGroup, Model, Moe

SAMPLER_BYTES = 38.6
"""
Bytes per row and vocabulary entry at the peak of sampling: logits in 16 and 32 bits, their sorted copy with 64-bit
indices, probabilities, cumulative sums and masks. Read off six logged engine starts. [bytes]
"""


def logits_peak_bytes(*, max_num_seqs: float, vocab_size: float) -> float:
    """
    Peak of the sampler: one row of logits and its sorted copies for every sequence that may run.

    A = 38.6 B V

    Parameters
    ----------
    max_num_seqs : number
        B, most sequences in one step. [-]
    vocab_size : number
        V, rows of the head; gathered whole on every rank. [-]

    Returns
    -------
    number
        Bytes at the peak, the same for any tensor-parallel degree. [bytes]

    Valid
    -----
    Engines that profile sampling with top-k and top-p (vLLM 0.6 to 0.19): within 3 % of eight logged starts.

    Source
    ------
    docs/physics.md 4, from the llm-d benchmark start logs and vLLM pull request 10511.

    Examples
    --------
    >>> logits_peak_bytes(max_num_seqs=1024, vocab_size=128256) / 2**30
    4.721
    """
    return SAMPLER_BYTES * max_num_seqs * vocab_size


def layer_peak_bytes(*, tokens: float, hidden_size: float, intermediate_size: float, tp: int = 1) -> float:
    """
    Peak inside one dense layer: gate, up and their product, beside input, residual and normalised input.

    A = 2 T (3 F / t + 3 D)

    Parameters
    ----------
    tokens : number
        T, tokens of the step. [tokens]
    hidden_size : number
        D, width of the model. [-]
    intermediate_size : number
        F, width of the feed-forward. [-]
    tp : int
        t, tensor-parallel ranks. [-]

    Returns
    -------
    number
        Bytes at the peak on one rank. [bytes]

    Valid
    -----
    Attention kernels that never form the score matrix.

    Source
    ------
    Start logs: two starts of vLLM 0.6.4 without chunked prefill, within 1 %.

    Examples
    --------
    >>> layer_peak_bytes(tokens=20000, hidden_size=4096, intermediate_size=14336) / 2**30
    2.06
    """
    return 2.0 * tokens * (3 * intermediate_size / tp + 3 * hidden_size)


def expert_peak_bytes(
    *,
    tokens: float,
    hidden_size: float,
    intermediate_size: float,
    num_experts_per_tok: float,
    tp: int = 1,
) -> float:
    """
    Peak inside one mixture layer: each token's rows are gathered once per expert it chose.

    A = 2 T (k (max(2 F/t, D) + F/t) + 3 D): the first buffer serves the up products and then the outputs.

    Parameters
    ----------
    tokens : number
        T, tokens of the step. [tokens]
    hidden_size : number
        D, width of the model. [-]
    intermediate_size : number
        F, width of one expert. [-]
    num_experts_per_tok : number
        k, experts a token chooses. [-]
    tp : int
        t, ranks that share one expert. [-]

    Returns
    -------
    number
        Bytes at the peak on one rank. [bytes]

    Valid
    -----
    Fused kernels with two workspaces (vLLM, SGLang).

    Source
    ------
    vLLM fused_moe.py: intermediate_cache1 and 3 share memory, intermediate_cache2 stands beside them.

    Examples
    --------
    >>> expert_peak_bytes(tokens=8192, hidden_size=4096, intermediate_size=14336, num_experts_per_tok=2) / 2**30
    1.5
    """
    inner = intermediate_size / tp
    return 2.0 * tokens * (num_experts_per_tok * (max(2 * inner, hidden_size) + inner) + 3 * hidden_size)


def activation_peak(model: Model, layout: Layout, *, max_num_seqs: float, step_tokens: float) -> Quantity:
    """
    The larger of sampler and widest layer on one rank, as one part under the name of the larger. [bytes]

    The sampler has a row for each sequence, at most one for each token of the step; 0 sequences leave it out.
    """
    sampled = min(max_num_seqs, step_tokens) if model.has_head else 0.0
    logits = logits_peak_bytes(max_num_seqs=sampled, vocab_size=model.vocab_size)
    widest = max((_layer_peak(model, group, layout, step_tokens) for group in model.layers), default=0.0)
    name, value = ("sampler", logits) if logits >= widest else ("widest layer", widest)
    part = Quantity(
        name=name, value=value, basis=Basis.CALIBRATED, source="start logs: max of sampler and widest layer"
    )
    return Quantity.of_parts("bytes", (part,))


def _layer_peak(model: Model, group: LayerGroup, layout: Layout, tokens: float) -> float:
    """Peak inside one layer of a group; of a mixture that of its routed experts or its widest dense part. [bytes]"""
    hidden = group.hidden_size or model.hidden_size
    feed_forward = group.feed_forward
    if isinstance(feed_forward, Moe):
        routed = expert_peak_bytes(
            tokens=tokens,
            hidden_size=feed_forward.latent_size or hidden,
            intermediate_size=feed_forward.moe_intermediate_size,
            num_experts_per_tok=feed_forward.num_experts_per_tok,
            tp=max(1, layout.tp * layout.dp // layout.ep),
        )
        dense = max(feed_forward.shared_intermediate_size, feed_forward.dense_intermediate_size)
        return max(routed, _dense_peak(tokens, hidden, dense, layout.tp))
    width = float(feed_forward.intermediate_size) if feed_forward is not None else 0.0
    if isinstance(group.mixer, Attention):
        width = max(width, group.mixer.num_attention_heads * group.mixer.head_dim)
    return _dense_peak(tokens, hidden, width, layout.tp)


def _dense_peak(tokens: float, hidden: float, width: float, tp: int) -> float:
    return layer_peak_bytes(tokens=tokens, hidden_size=hidden, intermediate_size=width, tp=tp)
