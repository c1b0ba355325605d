"""
A transformer's step -> the operators of one rank; feed-forwards dense, gated, and mixtures of experts.

A mixture reads the experts that are hit: with few tokens a fraction of them, with many all. That
is why its decode slows with concurrency well before it saturates. Routed experts are shared by all
tp x dp ranks of the replica: `ep` groups hold whole experts, the ranks inside a group split widths.
Permuting rows to experts, the activation between their products and the weighted sum are part of
the products (`operators.py`).

`step_work` writes one engine step: prompt chunks and decodes together, so that linear layers see
all rows and read their weights once; `encode_work` writes a pass without a cache. Widths are divided
by the degrees here; layers of all pipeline stages are listed, since a token passes them all (the
engine divides where stages overlap).

Left to others: seconds (`operators.py`), host overhead and batching (`tonnage.simulation`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import msgspec

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, FeedForward, LayerGroup, Mlp, Model, Moe
from tonnage.domain.precision import Precision, number_format
from tonnage.physics.collectives import distinct_groups
from tonnage.physics.grid_reading import EXPERT_SKEW
from tonnage.physics.mixers import cross_attention_work, mixer_work
from tonnage.physics.shares import Share, Tokens, elementwise_pass, gemm, share
from tonnage.physics.work import Kind, Operator, Work


def experts_hit(*, num_experts: float, num_experts_per_tok: float, tokens: float) -> float:
    """
    Distinct experts that a batch of tokens reaches.

    E_hit = E (1 - (1 - k/E)^n) for n tokens that each choose k of E experts at random.

    Parameters
    ----------
    num_experts : number
        E, routed experts of a layer. [-]
    num_experts_per_tok : number
        k, experts a token chooses. [-]
    tokens : number
        n, tokens in the step, over all ranks. [tokens]

    Returns
    -------
    number
        Expected number of distinct experts. [-]

    Valid
    -----
    Uniform, independent routing. Real routing is skewed and hits slightly fewer.

    Source
    ------
    docs/physics.md 2.

    Examples
    --------
    >>> experts_hit(num_experts=8, num_experts_per_tok=2, tokens=1)
    2.0
    >>> experts_hit(num_experts=256, num_experts_per_tok=8, tokens=64)
    222.44
    """
    missed: float = (1.0 - num_experts_per_tok / num_experts) ** max(tokens, 1.0)
    return num_experts * (1.0 - missed)


@lru_cache(maxsize=4096)
def skewed_experts_hit(num_experts: int, num_experts_per_tok: int, *, tokens: float) -> float:
    """
    Distinct experts that a batch reaches where their popularity falls as a power of their rank.

    E_hit = sum over i of 1 - (1 - p_i)^n, with the chance p_i = min(1, c i^-s) that a token chooses expert i and c such
    that these add up to the k distinct experts of a token. The exponent is that of the kernel tables' skewed loads
    (`EXPERT_SKEW`), so that engines with tables and engines without count alike.

    Examples
    --------
    >>> skewed_experts_hit(128, 4, tokens=1.0)
    4.0
    >>> skewed_experts_hit(128, 4, tokens=32.0) < experts_hit(num_experts=128, num_experts_per_tok=4, tokens=32)
    True
    """
    weights = [float(rank) ** -EXPERT_SKEW for rank in range(1, num_experts + 1)]
    certain, rest = 0, sum(weights)
    # The most popular are chosen by every token where their share would be above one; the others divide what is left.
    while certain < num_experts_per_tok and (num_experts_per_tok - certain) * weights[certain] > rest:
        rest -= weights[certain]
        certain += 1
    share = (num_experts_per_tok - certain) / rest if rest > 0.0 else 0.0
    missed: float = sum((1.0 - min(1.0, share * weight)) ** max(tokens, 1.0) for weight in weights[certain:])
    return num_experts - missed


def load_imbalance(*, rows: float, ranks: float) -> float:
    """
    Load of the fullest expert-parallel rank over the mean.

    1 + sqrt(2 ln(g) g / r): the expected maximum of g ranks that share r rows at random,
    at most g and never above 2 (a rank then holds a few rows and memory traffic rules).

    Parameters
    ----------
    rows : number
        r, token-expert pairs of one layer, over all ranks. [tokens]
    ranks : number
        g, expert-parallel ranks. [-]

    Returns
    -------
    number
        Factor on the rows of the slowest rank, >= 1. [-]

    Valid
    -----
    Random routing; a skewed router is worse. 1 for g = 1.

    Source
    ------
    Extreme value of g Gaussian loads; docs/physics.md 2 names the effect.

    Examples
    --------
    >>> load_imbalance(rows=8192, ranks=8)
    1.0637
    >>> load_imbalance(rows=8192, ranks=1)
    1.0
    """
    if ranks <= 1 or rows <= 0:
        return 1.0
    return min(2.0, ranks, 1.0 + math.sqrt(2.0 * math.log(ranks) * ranks / rows))


def feed_forward_work(feed_forward: FeedForward, at: Share, *, rows: float, count: float) -> Work:
    """Operators of `count` layers' feed-forwards on one rank, collectives left to the caller."""
    if isinstance(feed_forward, Mlp):
        return _dense(feed_forward.intermediate_size, at, rows=rows, gated=feed_forward.gated, count=count)
    return _mixture(feed_forward, at, rows, count)


def _dense(width: float, at: Share, *, rows: float, gated: bool, count: float) -> Work:
    """Two or three matrices, split over the tensor-parallel ranks."""
    inner = width / at.tp
    return (
        gemm("feed-forward up", at, m=rows, n=inner * (2 if gated else 1), k=at.hidden, count=count),
        elementwise_pass("activation", at, read=rows * inner * (2 if gated else 1), write=rows * inner, count=count),
        gemm("feed-forward down", at, m=rows, n=at.hidden, k=inner, count=count),
    )


class _Routed(NamedTuple):
    """Experts of one layer on one rank."""

    hit: float
    """Distinct ones that a step reaches by even routing."""
    reached: float
    """The same by the power law of skewed tables."""
    held: float
    chosen: float
    """Of each token."""


def _mixture(moe: Moe, at: Share, rows: float, count: float) -> Work:
    """
    Router, routed experts and the dense parts of `count` mixtures on the fullest rank.

    `rows` are those of one data-parallel rank; experts see those of all.
    """
    layout = at.layout
    ranks = layout.tp * layout.dp
    groups = min(layout.ep, ranks)
    split = ranks / groups
    hidden = moe.latent_size or at.hidden
    all_rows = rows * layout.dp
    pairs = all_rows * moe.num_experts_per_tok
    mine = pairs / groups * load_imbalance(rows=pairs, ranks=groups)
    hit = (
        experts_hit(num_experts=moe.num_experts, num_experts_per_tok=moe.num_experts_per_tok, tokens=all_rows) / groups
    )
    routed = _Routed(
        hit,
        skewed_experts_hit(moe.num_experts, moe.num_experts_per_tok, tokens=all_rows) / groups,
        moe.num_experts / groups,
        float(moe.num_experts_per_tok),
    )
    width = moe.moe_intermediate_size / split
    matrices = 2 if moe.gated else 1
    work = [
        gemm("router", at, m=rows, n=moe.num_experts, k=at.hidden, count=count, weights=at.sixteen, compute=at.sixteen),
        msgspec.structs.replace(
            elementwise_pass(
                "top-k", at, read=2 * rows * moe.num_experts, write=rows * moe.num_experts_per_tok, count=2 * count
            ),
            kind="routing",
            weights=number_format(at.experts).name,
            compute=at.expert_compute,
        ),
    ]
    if moe.latent_size:
        work += [
            gemm("latent down", at, m=rows, n=hidden, k=at.hidden, count=count),
            gemm("latent up", at, m=rows, n=at.hidden, k=hidden, count=count),
        ]
    work += [
        _experts("experts up", at, m=mine, n=width * matrices, k=hidden, routed=routed, count=count),
        _experts("experts down", at, m=mine, n=hidden, k=width, routed=routed, count=count),
    ]
    for dense in (moe.shared_intermediate_size, moe.dense_intermediate_size):
        if dense:
            work += _dense(dense, at, rows=rows, gated=moe.gated, count=count)
    return tuple(work)


def _experts(name: str, at: Share, *, m: float, n: float, k: float, routed: _Routed, count: float) -> Operator:
    """One product of the routed experts: m rows in all, n x k of each; the weights of those that are hit are read."""
    groups = routed.hit
    stored = number_format(at.experts)
    given_bytes = 2.0 if at.expert_compute == at.sixteen else stored.bytes if stored.bits < 16 else 1.0
    return Operator(
        kind="grouped_gemm",
        name=name,
        count=count,
        weights=stored.name,
        compute=at.expert_compute,
        flop=2.0 * m * n * k,
        read_bytes=stored.bytes * groups * n * k + given_bytes * m * k,
        write_bytes=2.0 * m * n,
        m=m,
        n=n,
        k=k,
        groups=groups,
        reached=routed.reached,
        experts=routed.held,
        chosen=routed.chosen,
        skewed=True,
    )


_STRAIGHT_ROWS = 256.0
"""Rows of a rank up to which experts are reached by low-latency kernels, which send every copy over the network
(DeepEP: at most 256 tokens a rank). [tokens]"""

__all__ = ["Tokens"]


def step_work(
    model: Model,
    tokens: Tokens,
    *,
    precision: Precision,
    layout: Layout,
    domain: int = 8,
    attends: tuple[str, ...] = (),
) -> Work:
    """
    Operators of one engine step on one rank, of every pipeline stage it passes; `attends` as in `Share`.

    The head runs for emitted rows alone. Of an encoder-decoder the prompts pass the encoder and the decoder begins with
    one token a sequence; its source is as long as `context`, or as `chunk` where nothing decodes.
    """
    at = share(hidden=model.hidden_size, layout=layout, precision=precision, domain=domain, attends=attends)
    work: list[Operator] = []
    source = 0.0
    if model.encoder and model.layers:
        source = tokens.context or tokens.chunk
        if tokens.prompts:
            inside = msgspec.structs.replace(at, encoder=True)
            mine = Tokens(prompts=tokens.prompts, chunk=tokens.chunk)
            work += (operator for group in model.encoder for operator in _layers(group, inside, mine, 0.0))
        tokens = _decoder_tokens(tokens)
    work.append(_embedding(model, at, tokens))
    for group in model.layers or model.encoder:
        work += _layers(group, at, tokens, source)
    work += _pipeline(at, tokens)
    if model.has_head and tokens.emitted:
        work += _head(model, at, tokens.emitted)
    return tuple(work)


def encode_work(
    model: Model, *, sequences: float, length: float, precision: Precision, layout: Layout, domain: int = 8
) -> Work:
    """One bidirectional pass of an encoder or embedding model, without head."""
    at = share(hidden=model.hidden_size, layout=layout, precision=precision, domain=domain, encoder=True)
    tokens = Tokens(prompts=sequences, chunk=length)
    work: list[Operator] = [_embedding(model, at, tokens)]
    for group in model.layers or model.encoder:
        work += _layers(group, at, tokens, 0.0)
    return (*work, *_pipeline(at, tokens))


def _decoder_tokens(tokens: Tokens) -> Tokens:
    """Encoder-decoder: the prompt goes through the encoder, the decoder starts with one token per sequence."""
    produced = max(1.0, tokens.emitted)
    return Tokens(
        prompts=tokens.prompts,
        chunk=1.0,
        decodes=tokens.decodes,
        context=1.0,
        drafted=tokens.drafted,
        emitted=produced,
    )


def _layers(group: LayerGroup, at: Share, tokens: Tokens, source: float) -> Work:
    """`count` identical layers with their norms and collectives."""
    if group.hidden_size is not None and group.hidden_size != at.hidden:
        at = msgspec.structs.replace(at, hidden=group.hidden_size)
    rows, count = tokens.rows, float(group.count)
    work: list[Operator] = []
    if group.norms:
        work.append(
            elementwise_pass(
                "norm and residual",
                at,
                read=2 * rows * at.hidden,
                count=count * group.norms,
            )
        )
    if group.mixer is not None:
        work += mixer_work(group.mixer, at, tokens=tokens, count=count)
        if isinstance(group.mixer, Attention) and group.mixer.qk_norm_all_heads:
            # One sum of squares in 32 bits for queries, one for keys.
            work += _reduce("query and key norm all-reduce", at, 8.0 * rows, count)
        work += _reduce("attention all-reduce", at, 2.0 * rows * at.hidden, count)
    if group.cross_attention is not None:
        work += cross_attention_work(group.cross_attention, at, tokens=tokens, source=source, count=count)
        work += _reduce("cross-attention all-reduce", at, 2.0 * rows * at.hidden, count)
    if group.feed_forward is not None:
        work += feed_forward_work(group.feed_forward, at, rows=rows, count=count)
        if isinstance(group.feed_forward, Moe) and at.layout.dp > 1:
            work += _exchange(group.feed_forward, at, rows, count)
        else:
            work += _reduce("feed-forward all-reduce", at, 2.0 * rows * at.hidden, count)
    return tuple(work)


def _collective(kind: Kind, name: str, at: Share, *, message_bytes: float, ranks: int, count: float = 1.0) -> Operator:
    """An exchange between neighbours of the replica."""
    return Operator(
        kind=kind,
        name=name,
        count=count,
        message_bytes=message_bytes,
        ranks=ranks,
        inter_node=at.leaves_node(ranks),
        per_node=at.per_node(ranks),
    )


def _reduce(name: str, at: Share, message_bytes: float, count: float) -> Work:
    """All-reduce of so many bytes over the tensor-parallel ranks."""
    if at.tp == 1:
        return ()
    return (_collective("all_reduce", name, at, message_bytes=message_bytes, ranks=at.tp, count=count),)


def _exchange(moe: Moe, at: Share, rows: float, count: float) -> Work:
    """
    Tokens of data-parallel attention ranks to their experts and back.

    With whole experts per rank: dispatch and combine all-to-all, a token once per distinct destination; between nodes
    once per node, and from there over its own links, but for the few rows of a decode step, which go straight. With
    split experts: gather all tokens, reduce-scatter the results.
    """
    layout = at.layout
    ranks = layout.tp * layout.dp
    if layout.ep > 1:
        groups = min(layout.ep, ranks)
        per_node = max(1, at.per_node(ranks) * groups // ranks)
        chosen, mine = moe.num_experts_per_tok, rows / layout.tp
        copies = distinct_groups(groups=groups, chosen=chosen)
        nodes = -(-groups // per_node)
        crossing = distinct_groups(groups=nodes, chosen=chosen) / copies if mine > _STRAIGHT_ROWS else 1.0
        narrow = 1.0 if at.expert_compute != at.sixteen else 2.0
        sent = mine * copies * at.hidden
        return tuple(
            Operator(
                kind="all_to_all",
                name=name,
                count=count,
                message_bytes=width * sent,
                ranks=groups,
                inter_node=at.leaves_node(ranks),
                per_node=per_node,
                crossing=crossing,
            )
            for name, width in (("dispatch", narrow), ("combine", 2.0))
        )
    gathered = 2.0 * rows * layout.dp * at.hidden
    return (
        _collective("all_gather", "gather tokens", at, message_bytes=gathered, ranks=ranks, count=count),
        _collective("reduce_scatter", "scatter results", at, message_bytes=gathered, ranks=ranks, count=count),
    )


def _pipeline(at: Share, tokens: Tokens) -> Work:
    """Hidden rows handed from stage to stage, over the network where the replica spans nodes; none with one stage."""
    stages = at.layout.pp
    if stages == 1:
        return ()
    return (
        Operator(
            kind="point_to_point",
            name="stage transfer",
            count=stages - 1.0,
            message_bytes=2.0 * tokens.rows * at.hidden,
            ranks=2,
            inter_node=at.leaves_node(at.layout.ranks),
        ),
    )


def _embedding(model: Model, at: Share, tokens: Tokens) -> Operator:
    """A gather of the rows used; an untied input table is never streamed whole."""
    width = 2.0 * tokens.rows * (model.embedding_size or at.hidden)
    return Operator(
        kind="embedding", name="embedding", weights=at.sixteen, compute=at.sixteen, read_bytes=width, write_bytes=width
    )


def _head(model: Model, at: Share, emitted: float) -> Work:
    """Logits of the emitting rows only, gathered over the ranks, and the sampler's passes over them."""
    columns, width = model.vocab_size, model.embedding_size or at.hidden
    work = [gemm("head", at, m=emitted, n=columns / at.tp, k=width, weights=at.head, compute=at.sixteen)]
    if at.tp > 1:
        sent = 2.0 * emitted * columns
        work.append(_collective("all_gather", "gather logits", at, message_bytes=sent, ranks=at.tp))
    work.append(elementwise_pass("sampling", at, read=3.0 * emitted * columns, write=emitted, count=2.0))
    return tuple(work)
