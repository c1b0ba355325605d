"""A transformer's step -> the operators of one rank.

`step_work` writes one engine step: prompt chunks and decodes together, so that linear layers see
all rows and read their weights once; `encode_work` writes a pass without a cache. Widths are divided
by the degrees here; layers of all pipeline stages are listed, since a token passes them all (the
engine divides where stages overlap).

Left to others: seconds (`operators.py`), host overhead and batching (`tonnage.simulation`).
"""

from __future__ import annotations

import msgspec

from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, LayerGroup, Model, Moe
from tonnage.domain.precision import Precision
from tonnage.physics.collectives import distinct_groups
from tonnage.physics.feed_forward import feed_forward_work
from tonnage.physics.mixers import cross_attention_work, mixer_work
from tonnage.physics.shares import Share, Tokens, elementwise_pass, gemm, share
from tonnage.physics.work import Kind, Operator, Work

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
    """Operators of one engine step on one rank, of every pipeline stage it passes; `attends` as in `Share`."""
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
    """Hidden rows handed from stage to stage."""
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
