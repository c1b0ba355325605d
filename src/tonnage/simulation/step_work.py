"""Which operators do the pieces of a step run? Work lists that tables are made of and that trees open.

A step is tabulated in four pieces, for each depends on other numbers: the layers without attention and the head on the
rows that pass them, decode attention on batch and context, prompt attention on the chunk and what is cached before it.
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.model import Model, StateSpace
from tonnage.physics.transformer import Tokens, step_work
from tonnage.physics.work import Work
from tonnage.simulation.step_parts import Placement

__all__ = ["decode_attention_work", "has_states", "prompt_attention_work", "prompt_rows_work", "rows_work"]

_CORES: Final = frozenset({"attention_decode", "mla_decode"})
_PREFILL: Final = frozenset({"attention_prefill", "mla_prefill"})
_HEAD: Final = frozenset({"head", "gather logits", "sampling"})


def rows_work(placement: Placement, rows: float) -> tuple[Work, Work]:
    """So many rows through the layers without attention, and through the head."""
    work = _step(placement, Tokens(decodes=rows, context=0.0, emitted=rows))
    layers = tuple(op for op in work if op.kind not in _CORES and op.name not in _HEAD)
    return layers, tuple(op for op in work if op.name in _HEAD)


def prompt_rows_work(placement: Placement, rows: float) -> Work:
    """Rows of a prompt through layers that keep a state per sequence, not per token."""
    return tuple(op for op in _step(placement, Tokens(prompts=1.0, chunk=rows)) if op.kind not in _PREFILL)


def decode_attention_work(placement: Placement, batch: float, *, context: float) -> Work:
    """Attention of so many sequences, each to its context."""
    drafted = 1.0 + placement.speculation.tokens if placement.speculation else 1.0
    work = _step(placement, Tokens(decodes=batch, context=context, drafted=drafted))
    return tuple(op for op in work if op.kind in _CORES)


def prompt_attention_work(placement: Placement, chunk: float, *, prompts: float = 1.0, cached: float = 0.0) -> Work:
    """Attention of chunks of prompts to themselves and to what is cached before them."""
    work = _step(placement, Tokens(prompts=prompts, chunk=chunk, cached=cached))
    return tuple(op for op in work if op.kind in _PREFILL)


def has_states(model: Model) -> bool:
    """Whether a prompt passes recurrent layers, which touch a state per sequence and not per token."""
    return any(isinstance(group.mixer, StateSpace) for group in model.layers)


def _step(placement: Placement, tokens: Tokens) -> Work:
    p = placement
    return step_work(p.model, tokens, precision=p.precision, layout=p.layout, domain=p.domain)
