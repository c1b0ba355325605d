"""What one rank computes: its share of heads and widths, and the formats its products run in.

A `Share` fixes everything about a rank that does not change from step to step. Architectures
(`mixers.py`, `transformer.py`, `diffusion.py`) read it to write operators. Key/value heads are
replicated when there are fewer of them than ranks; query heads, widths and vocabulary divide.

`Tokens` says what one step processes. Both are per attention-data-parallel rank.
"""

from __future__ import annotations

import math

from tonnage.domain.layout import Layout
from tonnage.domain.precision import Precision, number_format
from tonnage.physics.work import Operator
from tonnage.record import Record, SparseRecord

WHOLE_MODEL_FORMATS = ("gguf-", "exl2-", "exl3-")
"""Families whose files quantise embeddings and head too."""


class Tokens(SparseRecord, kw_only=True):
    """
    What one step processes on one attention-data-parallel rank.

    Prompts: `prompts` sequences that each add `chunk` tokens to `cached` earlier ones. Decodes:
    `decodes` sequences that each have `context` tokens and add `drafted` (1 without speculation).
    `emitted` rows go through the head.
    """

    prompts: float = 0.0
    chunk: float = 0.0
    cached: float = 0.0
    decodes: float = 0.0
    context: float = 0.0
    drafted: float = 1.0
    emitted: float = 0.0

    @property
    def prompt_rows(self) -> float:
        """Prompt tokens in the step. [tokens]"""
        return self.prompts * self.chunk

    @property
    def decode_rows(self) -> float:
        """Rows of decoding sequences. [tokens]"""
        return self.decodes * self.drafted

    @property
    def rows(self) -> float:
        """Rows of every matrix product outside the head. [tokens]"""
        return self.prompt_rows + self.decode_rows


class Share(Record, kw_only=True):
    """One rank's share of a model: degrees, formats, and the links its collectives cross."""

    hidden: int
    layout: Layout
    domain: int
    """Ranks joined by the fast links of one node or scale-up domain."""
    weights: str
    experts: str
    attention: str
    """Of the projections into attention."""
    head: str
    compute: str
    """Peak that quantised linear layers run at."""
    expert_compute: str
    attention_compute: str
    sixteen: str
    """16-bit (or 32-bit) format of activations, attention, router and head."""
    kv: str
    encoder: bool = False
    """Bidirectional attention without a cache."""
    attends: tuple[str, ...] = ()
    """
    Kinds of attention that multiply an FP8 cache as it is stored; others widen it to 16 bits. A deployment settles it
    from its engine and accelerator (engines/attention.csv); nobody asks for it.
    """

    def attended_in(self, kind: str) -> str:
        """What the queries of one kind of attention are multiplied in: the cache's format, or 16 bits."""
        cached = number_format(self.kv)
        narrow = kind in self.attends and cached.compute == "fp8" and not self.encoder
        return "fp8" if narrow else self.sixteen

    @property
    def tp(self) -> int:
        """Tensor-parallel ranks."""
        return self.layout.tp

    def leaves_node(self, ranks: int) -> bool:
        """Whether a group of that many ranks spans nodes."""
        return ranks > self.domain

    def per_node(self, ranks: int) -> int:
        """Ranks of a group of neighbours that share a node."""
        return min(ranks, self.domain)


def share(
    *,
    hidden: int,
    layout: Layout,
    precision: Precision,
    domain: int = 8,
    encoder: bool = False,
    attends: tuple[str, ...] = (),
) -> Share:
    """The share of one rank, with the formats each group of products runs in; `attends` as in `Share`."""
    activations = number_format(precision.activations)
    weights = number_format(precision.weights)
    experts = number_format(precision.stored)
    attention = number_format(precision.attention or precision.weights)
    # What is not multiplied in 8 bits is in the 16 bits that the cache is kept in: FP16 where units know no BF16.
    wide = "fp16" if precision.kv == "fp16" else "bf16"
    sixteen = activations.compute if activations.compute in {"fp32", "tf32", "fp16", "bf16"} else wide
    whole = weights.name.startswith(WHOLE_MODEL_FORMATS) or weights.bits >= 16
    return Share(
        hidden=hidden,
        layout=layout,
        domain=domain,
        weights=weights.name,
        experts=experts.name,
        attention=attention.name,
        head=weights.name if whole else sixteen,
        compute=_compute(weights.name, precision.activations, sixteen),
        expert_compute=_compute(experts.name, precision.activations, sixteen),
        attention_compute=_compute(attention.name, precision.activations, sixteen),
        sixteen=sixteen,
        kv=precision.kv,
        encoder=encoder,
        attends=attends,
    )


def _compute(weights: str, activations: str, sixteen: str) -> str:
    """Weights of 16 bits or weight-only formats multiply at 16 bits; others in the activations' format."""
    stored, given = number_format(weights), number_format(activations)
    if stored.weight_only or stored.bits >= 16:
        return sixteen
    return given.compute if given.bits < 16 else sixteen


def gemm(
    name: str,
    at: Share,
    *,
    m: float,
    n: float,
    k: float,
    count: float = 1.0,
    weights: str | None = None,
    compute: str | None = None,
) -> Operator:
    """m rows through an n x k matrix: weights read once in their format, of the layers unless said; rows in and out."""
    stored, compute = number_format(weights or at.weights), compute or at.compute
    activation_bytes = 4.0 if at.sixteen in {"fp32", "tf32"} else 2.0
    given_bytes = activation_bytes if compute == at.sixteen else stored.bytes if stored.bits < 16 else 1.0
    return Operator(
        kind="gemm",
        name=name,
        count=count,
        weights=stored.name,
        compute=compute,
        flop=2.0 * m * n * k,
        read_bytes=stored.bytes * n * k + given_bytes * m * k,
        write_bytes=activation_bytes * m * n,
        m=m,
        n=n,
        k=k,
    )


def whole_attention(
    at: Share, *, queries: float, keys: float, batch: float, heads: float, head_dim: float, count: float = 1.0
) -> Operator:
    """Every query of a sequence over all keys, without a cache: images, clips and their prompts."""
    width, wide = heads * head_dim, number_format(at.sixteen).bytes
    return Operator(
        kind="attention_prefill",
        name="attention",
        count=count,
        weights=at.sixteen,
        compute=at.sixteen,
        flop=4.0 * width * queries * keys * batch,
        read_bytes=wide * batch * width * (queries + 2 * keys),
        write_bytes=wide * batch * width * queries,
        m=queries * batch,
        n=keys,
        batch=batch,
        context=keys,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
    )


def elementwise_pass(name: str, at: Share, *, read: float, write: float | None = None, count: float = 1.0) -> Operator:
    """An element-wise pass that reads so many values of activations, and writes as many unless said."""
    width = 4.0 if at.sixteen in {"fp32", "tf32"} else 2.0
    return Operator(
        kind="elementwise",
        name=name,
        count=count,
        weights=at.sixteen,
        compute=at.sixteen,
        read_bytes=width * read,
        write_bytes=width * (read if write is None else write),
    )


def attended_tokens(*, chunk: float, cached: float, window: float | None = None, causal: float = 1.0) -> float:
    """
    Mean keys that one query of a chunk multiplies.

    Causal: query i of the chunk sees cached + i keys, at most the window. Not causal: every
    query sees the whole chunk and the cache.

    Parameters
    ----------
    chunk : number
        q, new tokens of the sequence. [tokens]
    cached : number
        c, tokens cached before them. [tokens]
    window : number or None
        w, keys a query may see; None = all. [tokens]
    causal : number
        1 for a causal mask, 0 for none. [-]

    Returns
    -------
    number
        Mean over the q queries. [tokens]

    Valid
    -----
    q >= 1. Blocks that a kernel computes beyond the mask are left to its efficiency.

    Source
    ------
    docs/physics.md 1: F = 4 N H q (c + q/2), windowed layers with min(c, w).

    Examples
    --------
    >>> attended_tokens(chunk=1000, cached=0)
    500.5
    >>> attended_tokens(chunk=1000, cached=0, window=100)
    95.05
    """
    q, c = max(chunk, 1.0), cached
    if not causal:
        return min(c + q, window) if window else c + q
    if window is None or c + q <= window:
        return c + (q + 1.0) / 2.0
    growing = max(0.0, window - c)
    return (growing * (c + (growing + 1.0) / 2.0) + (q - growing) * window) / q


def units_per_rank(count: float, ranks: int) -> float:
    """Whole units of the fullest rank."""
    return float(math.ceil(count / ranks))
