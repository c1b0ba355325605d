"""Which operators do the pieces of a step run? Work lists that tables are made of and that trees open.

A step is tabulated in four pieces, for each depends on other numbers: the layers without attention and the head on the
rows that pass them, decode attention on batch and context, prompt attention on the chunk and what is cached before it.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.model import Model, Moe, StateSpace
from tonnage.physics.matrices import feed_forward_matrices, mixer_matrices
from tonnage.physics.transformer import Tokens
from tonnage.physics.work import Work
from tonnage.simulation.step_parts import Placement, placed_work

__all__ = [
    "decode_attention_work",
    "has_states",
    "launched_apart",
    "prompt_attention_work",
    "prompt_rows_work",
    "rows_work",
]

_CORES: Final = frozenset({"attention_decode", "mla_decode"})
_PREFILL: Final = frozenset({"attention_prefill", "mla_prefill"})
_HEAD: Final = frozenset({"head", "gather logits", "sampling"})


def rows_work(placement: Placement, rows: float) -> tuple[Work, Work]:
    """So many rows through the layers without attention, and through the head."""
    work = placed_work(placement, Tokens(decodes=rows, context=0.0, emitted=rows))
    layers = tuple(op for op in work if op.kind not in _CORES and op.name not in _HEAD)
    return layers, tuple(op for op in work if op.name in _HEAD)


def prompt_rows_work(placement: Placement, rows: float) -> Work:
    """Rows of a prompt through layers that keep a state per sequence, not per token."""
    return tuple(op for op in placed_work(placement, Tokens(prompts=1.0, chunk=rows)) if op.kind not in _PREFILL)


def decode_attention_work(placement: Placement, batch: float, *, context: float) -> Work:
    """Attention of so many sequences, each to its context."""
    drafted = 1.0 + placement.speculation.tokens if placement.speculation else 1.0
    work = placed_work(placement, Tokens(decodes=batch, context=context, drafted=drafted))
    return tuple(op for op in work if op.kind in _CORES)


def prompt_attention_work(placement: Placement, chunk: float, *, prompts: float = 1.0, cached: float = 0.0) -> Work:
    """Attention of chunks of prompts to themselves and to what is cached before them."""
    work = placed_work(placement, Tokens(prompts=prompts, chunk=chunk, cached=cached))
    return tuple(op for op in work if op.kind in _PREFILL)


def has_states(model: Model) -> bool:
    """Whether a prompt passes recurrent layers, which touch a state per sequence and not per token."""
    return any(isinstance(group.mixer, StateSpace) for group in model.layers)


def launched_apart(placement: Placement) -> float:
    """
    Launches of a decode step beyond those of its work list, where nothing groups products.

    A loop over experts launches two products for each but the first pair; those without a token launch nothing, and
    their Python takes about as long as that. An eager engine runs each matrix of a layer by itself, where the list has
    one product for query, key and value and one for gate and up, and each with the kernels that its format needs.
    """
    model, eager = placement.model, placement.eager
    looped = sum(
        2 * g.count * (g.feed_forward.num_experts - 1) for g in model.layers if isinstance(g.feed_forward, Moe)
    )
    if eager is None:
        return float(looped)
    listed = sum(op.count for op in rows_work(placement, 1.0)[0] if op.kind == "gemm")
    apart, further = 0.0, 0.0
    for group in model.layers:
        matrices = mixer_matrices(group.mixer, model.hidden_size)
        matrices += feed_forward_matrices(group.feed_forward, model.hidden_size)
        for matrix in matrices:
            routed = matrix.active is not None
            stored = (placement.precision.experts if routed else None) or placement.precision.weights
            launched = group.count * matrix.copies * (2 if matrix.name.endswith("gate_up_proj") else 1)
            apart += 0.0 if routed else launched
            further += launched * eager.get(stored, 0.0)
    return looped + max(0.0, apart - listed) + further
