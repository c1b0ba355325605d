"""Work: a phase of a model as a list of operators.

A prefill chunk, a decode step, a forward or backward pass becomes a tuple of `Operator`s; each
says what is multiplied, how many bytes move and how often it runs. Architectures write these lists
(`transformer.py`, `network.py`, …), `operators.py` turns each into seconds on one accelerator.

Shapes are those of ONE rank: whoever writes the list has already divided by tp, ep, … . FLOP and
bytes are per execution; `count` says how many times it runs in the phase.
"""

from __future__ import annotations

from typing import Literal

from tonnage.domain.precision import number_format
from tonnage.record import SparseRecord

Kind = Literal[
    "gemm",  # m tokens x n outputs x k inputs
    "grouped_gemm",  # routed experts: m rows in all, n x k per expert, `groups` experts hit
    "attention_prefill",  # m query tokens, context tokens seen, batch sequences
    "attention_decode",  # one query token per sequence, batch sequences, context tokens each
    "mla_prefill",
    "mla_decode",
    "state_space",  # recurrent mixers: m tokens, batch states
    "convolution",
    "elementwise",  # normalisation, rotary, activation, residual, sampling: bytes only
    "embedding",  # gather
    "routing",  # a router's logits become experts: bytes, and the formats of the experts that follow
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "point_to_point",
]


class Operator(SparseRecord, kw_only=True):
    """
    One operation as it runs on one rank.

    Compute operators carry `flop`, `read_bytes`, `write_bytes` and the shape their efficiency
    depends on; collectives carry `message_bytes` and `ranks`. Unused fields keep their default.
    """

    kind: Kind
    name: str
    count: float = 1.0
    """Executions in the phase (usually layers)."""
    weights: str = "bf16"
    """Format of the stored operand (weights, or the KV cache for attention)."""
    compute: str = "bf16"
    """Peak it runs at: fp32, tf32, fp16, bf16, fp8, int8, fp4."""
    flop: float = 0.0
    """Of one execution. [FLOP]"""
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    m: float = 0.0
    """Rows (tokens in this execution)."""
    n: float = 0.0
    k: float = 0.0
    groups: float = 1.0
    """Experts hit (grouped_gemm)."""
    reached: float = 0.0
    """Experts hit where rows are spread by the power law of `skewed`; 0 = not known (grouped_gemm)."""
    experts: float = 0.0
    """Experts held, hit or not; 0 = not known (grouped_gemm)."""
    chosen: float = 1.0
    """Experts that a token chooses (grouped_gemm)."""
    skewed: bool = False
    """Rows are spread over the experts by a power law, as trained routers do, not evenly (grouped_gemm)."""
    batch: float = 0.0
    """Sequences (attention, state space)."""
    context: float = 0.0
    """Mean tokens attended by one query: for prefill the tokens cached before this chunk."""
    heads: float = 0.0
    kv_heads: float = 0.0
    head_dim: float = 0.0
    window: float | None = None
    message_bytes: float = 0.0
    """Collectives: bytes of the full message held by each rank."""
    ranks: int = 1
    inter_node: bool = False
    """The collective leaves the node."""
    per_node: int = 1
    """Of its ranks, those that share a node's own links (collectives that leave the node)."""
    crossing: float = 1.0
    """Of an all-to-all: bytes that cross to another node over bytes delivered there."""

    @property
    def stored_bytes(self) -> float:
        """Of the matrix that is multiplied, or of one expert's. [bytes]"""
        return number_format(self.weights).bytes * self.n * self.k


Work = tuple[Operator, ...]
