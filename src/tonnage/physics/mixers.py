"""Mixers -> operators: grouped-query and latent attention, sliding windows, recurrent state.

Attention of prompts and of decodes are separate kernels; projections see all rows together, so
that weights are read once a step. Latent attention (DeepSeek-V2, arXiv 2405.04434) decodes in the
absorbed form, over one latent vector per token, and prefills in the expanded form; DeepSeek-V4 knows
the absorbed form alone, over a window of tokens and over entries that fold several. An indexer scores
all cached keys with small heads and leaves the core those it chooses. Recurrent layers read and write
a state of fixed size per sequence. Quantising a product's input is part of the product
(`operators.py`). A cache in FP8 is multiplied as it is stored where the engine's kernel does so
(`Share.attended_in`), and widened to 16 bits elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from tonnage.domain.model import Attention, LatentAttention, Mixer, StateSpace
from tonnage.domain.precision import number_format
from tonnage.physics.cache import index_key_bytes
from tonnage.physics.matrices import mixer_matrices
from tonnage.physics.shares import Share, Tokens, attended_tokens, elementwise_pass, gemm, units_per_rank
from tonnage.physics.work import Kind, Operator, Work

SCORED_TOGETHER = 128
"""Keys that MiniMax M3's indexer gives one score (`sparse_block_size` of its config.json). [tokens]"""


def mixer_work(mixer: Mixer, at: Share, *, tokens: Tokens, count: float) -> Work:
    """Operators of `count` layers' mixers on one rank, collectives left to the caller."""
    if isinstance(mixer, Attention):
        return _attention(mixer, at, tokens, count)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, at, tokens, count)
    return _state_space(mixer, at, tokens, count)


def _linear(name: str, at: Share, m: float, n: float, k: float, count: float) -> Operator:
    return gemm(name, at, m=m, n=n, k=k, count=count)


def _projection(name: str, at: Share, m: float, n: float, k: float, count: float) -> Operator:
    """Into attention: some checkpoints keep these wider than all other weights."""
    return gemm(name, at, m=m, n=n, k=k, count=count, weights=at.attention, compute=at.attention_compute)


def _attention(mixer: Attention, at: Share, tokens: Tokens, count: float) -> Work:
    """Attention with keys and values per head: projections, rotary, norms, an indexer, the kernels, the output."""
    heads = units_per_rank(mixer.num_attention_heads, at.tp)
    kv_heads = units_per_rank(mixer.num_key_value_heads, at.tp)
    value_dim = mixer.v_head_dim or mixer.head_dim
    kv_width = 0.0 if mixer.kv_shared else kv_heads * (mixer.head_dim + (0 if mixer.key_is_value else value_dim))
    query_width = heads * mixer.head_dim
    projected = query_width + kv_width + (heads * value_dim if mixer.gated else 0.0)
    rows = tokens.rows
    work = [
        _projection("attention input", at, rows, projected, at.hidden, count),
        elementwise_pass(
            "rotary and cache",
            at,
            read=rows * (query_width + kv_width),
            count=count,
        ),
    ]
    if mixer.qk_norm:
        work.append(elementwise_pass("query and key norm", at, read=rows * query_width, count=count))
    if mixer.qk_norm_all_heads:
        work += _norms_over_heads(at, rows * (query_width + kv_heads * mixer.head_dim), rows, count)
    if mixer.index_heads:
        work += _indexer(mixer, at, tokens, count)
    work += _cores(mixer, at, tokens, count)
    work += [
        _linear("attention output", at, rows, at.hidden, heads * value_dim, count),
    ]
    return tuple(work)


def _norms_over_heads(at: Share, values: float, rows: float, count: float) -> Work:
    """
    Norms of queries and keys, each over all heads: one pass on one rank; on several, sums of squares come first.

    Their exchange in between is a collective (`transformer.py`).
    """
    norm = elementwise_pass("query and key norm", at, read=values, count=count)
    if at.tp == 1:
        return (norm,)
    return (elementwise_pass("sums of squares", at, read=values, write=4.0 * rows, count=count), norm)


def _most_keys(mixer: Attention | LatentAttention) -> int | None:
    """Cached keys a query attends at most: its window, or those its indexer chooses; None = all of them."""
    return min((keys for keys in (mixer.window, mixer.index_topk) if keys), default=None)


def _multiplied(kind: str, mixer: Attention | LatentAttention, at: Share) -> str:
    """What a kind of attention is multiplied in; kernels for keys that an indexer chose widen them (FlashMLA's)."""
    return at.sixteen if mixer.index_topk else at.attended_in(kind)


class _Look(NamedTuple):
    """The attention of one layer on one rank."""

    heads: float
    kv_heads: float
    key: float
    """Width of a query and of a key. [values]"""
    value: float
    entry_bytes: float
    """Read for each key of a sequence, by all heads together. [bytes]"""
    window: int | None = None


class _Step(NamedTuple):
    """Who looks at what in a step: prompts, or decodes."""

    kind: Kind
    sequences: float
    rows: float
    seen: float
    """Keys that one row multiplies. [tokens]"""
    kept: float
    """Keys that are read at all. [tokens]"""
    context: float
    """As the operator says it: of prompts what is cached before them. [tokens]"""


def _core(look: _Look, step: _Step, at: Share, compute: str, count: float) -> Work:
    """One kernel of attention; none where the step has no such sequences."""
    if not step.sequences:
        return ()
    rows = step.rows
    return (
        Operator(
            kind=step.kind,
            name="attention prefill" if step.kind.endswith("prefill") else "attention decode",
            count=count,
            weights=at.kv,
            compute=compute,
            flop=2.0 * look.heads * (look.key + look.value) * rows * step.seen,
            read_bytes=look.entry_bytes * step.sequences * step.kept + 2.0 * rows * look.heads * look.key,
            write_bytes=2.0 * rows * look.heads * look.value,
            m=rows,
            batch=step.sequences,
            context=step.context,
            heads=look.heads,
            kv_heads=look.kv_heads,
            head_dim=look.key,
            window=look.window,
        ),
    )


def _cores(mixer: Attention, at: Share, tokens: Tokens, count: float) -> Work:
    """Prefill and decode kernels of one attention layer."""
    heads, kv_heads = units_per_rank(mixer.num_attention_heads, at.tp), units_per_rank(mixer.num_key_value_heads, at.tp)
    value, most = mixer.v_head_dim or mixer.head_dim, _most_keys(mixer)
    entry_bytes = number_format(at.kv).bytes * kv_heads * (mixer.head_dim + value)
    look = _Look(heads, kv_heads, mixer.head_dim, value, entry_bytes, mixer.window)
    causal = 0.0 if at.encoder else float(mixer.causal)
    seen = attended_tokens(chunk=tokens.chunk, cached=tokens.cached, window=most, causal=causal)
    cached = min(tokens.cached, mixer.window or tokens.cached)
    now = min(tokens.context, most or tokens.context)
    steps = (
        _Step("attention_prefill", tokens.prompts, tokens.prompt_rows, seen, cached + tokens.chunk, cached),
        _Step("attention_decode", tokens.decodes, tokens.decode_rows, now, now, now),
    )
    return tuple(op for step in steps for op in _core(look, step, at, _multiplied(step.kind, mixer, at), count))


def _latent(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Latent attention in the forms that its prompts and decodes take, with what folds and what chooses its keys."""
    heads = units_per_rank(mixer.num_attention_heads, at.tp)
    query_dim = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim
    latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
    rows = tokens.rows
    lora = mixer.q_lora_rank
    work = [
        _projection("latent down", at, rows, latent + (lora or heads * query_dim), at.hidden, count),
        elementwise_pass(
            "latent norms and cache",
            at,
            read=rows * (latent + (lora or 0)),
            count=2 * count,
        ),
    ]
    if lora:
        work += [_projection("query up", at, rows, heads * query_dim, lora, count)]
    if mixer.compress_ratio:
        work += _compression(mixer, at, tokens, count)
    if mixer.index_heads:
        work += _indexer(mixer, at, tokens, count)
    if mixer.absorbed:
        work += _folded_cores(mixer, at, tokens, count)
    else:
        work += _latent_prefill(mixer, at, tokens, count) if tokens.prompts else ()
        work += _latent_decode(mixer, at, tokens, count) if tokens.decodes else ()
    return (*work, *_latent_output(mixer, at, rows, count))


def _latent_output(mixer: LatentAttention, at: Share, rows: float, count: float) -> Work:
    """The output projection: one matrix, or two of low rank, of which the first has groups of heads."""
    values = units_per_rank(mixer.num_attention_heads, at.tp) * mixer.v_head_dim
    rank = mixer.o_lora_rank
    if rank is None:
        return (_linear("attention output", at, rows, at.hidden, values, count),)
    groups = units_per_rank(mixer.o_groups, at.tp)
    return (  # the groups' own first halves are one kernel
        _linear("attention output down", at, rows, groups * rank, values / groups, count),
        _linear("attention output", at, rows, at.hidden, groups * rank, count),
    )


def _compression(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Values and scores of every token, summed over each stretch that becomes one entry."""
    outputs = float(sum(m.outputs for m in mixer_matrices(mixer, at.hidden) if "compress" in m.name))
    rows = tokens.rows
    return (
        gemm("compress", at, m=rows, n=outputs, k=at.hidden, count=count, weights=at.sixteen, compute=at.sixteen),
        elementwise_pass(
            "fold", at, read=rows * outputs, write=rows * outputs / (2 * mixer.compress_ratio), count=count
        ),
    )


def _folded_cores(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """DeepSeek-V4: one entry is key and value of all heads; a window of tokens and the folded entries beyond."""
    width = mixer.kv_lora_rank + mixer.qk_rope_head_dim
    heads, entry_bytes = units_per_rank(mixer.num_attention_heads, at.tp), number_format(at.kv).bytes * width
    fold, chosen, window = mixer.compress_ratio, mixer.index_topk, mixer.window
    chunk, cached, context = tokens.chunk, tokens.cached, tokens.context
    near = attended_tokens(chunk=chunk, cached=cached, window=window)
    read, now = min(cached, window or cached) + chunk, min(context, window or context)
    if fold:
        near += attended_tokens(chunk=chunk, cached=cached, window=chosen * fold or None) / fold
        read += (cached + chunk) / fold
        now += min(context / fold, chosen) if chosen else context / fold
    steps = (
        _Step("mla_prefill", tokens.prompts, tokens.prompt_rows, near, read, read),
        _Step("mla_decode", tokens.decodes, tokens.decode_rows, now, now, now),
    )
    look = _Look(heads, 1, width, width, entry_bytes)
    return tuple(op for step in steps for op in _core(look, step, at, at.sixteen, count))


def _latent_prefill(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Expanded form: keys and values of chunk and cache are made from the latents, then attended per head."""
    heads, value = units_per_rank(mixer.num_attention_heads, at.tp), mixer.v_head_dim
    query, held = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim, tokens.cached + tokens.chunk
    most = _most_keys(mixer)
    seen = attended_tokens(chunk=tokens.chunk, cached=tokens.cached, window=most)
    expand = heads * (mixer.qk_nope_head_dim + value)
    look = _Look(heads, heads, query, value, 2.0 * heads * (query + value), most)
    step = _Step("mla_prefill", tokens.prompts, tokens.prompt_rows, seen, held, tokens.cached)
    return (
        _projection("key/value up", at, tokens.prompts * held, expand, mixer.kv_lora_rank, count),
        *_core(look, step, at, _multiplied(step.kind, mixer, at), count),
    )


def _latent_decode(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Absorbed form: queries move into the latent space, one shared latent per token is read by all heads."""
    heads = units_per_rank(mixer.num_attention_heads, at.tp)
    rows, rank = tokens.decode_rows, mixer.kv_lora_rank
    width, now = rank + mixer.qk_rope_head_dim, min(tokens.context, _most_keys(mixer) or tokens.context)
    look = _Look(heads, 1, width, rank, number_format(at.kv).bytes * width)
    step = _Step("mla_decode", tokens.decodes, rows, now, now, now)

    def absorb(name: str, n: float, k: float) -> Operator:
        return gemm(name, at, m=rows, n=n, k=k, count=count, weights=at.sixteen, compute=at.sixteen)

    return (
        absorb("absorb keys", rank, heads * mixer.qk_nope_head_dim),
        *_core(look, step, at, _multiplied(step.kind, mixer, at), count),
        absorb("absorb values", mixer.v_head_dim, heads * rank),
    )


def _indexer(mixer: Attention | LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Chooses the keys to attend: scores every cached key with small heads, replicated on every rank."""
    fold = (mixer.compress_ratio if isinstance(mixer, LatentAttention) else 0) or 1
    stored = at.kv if isinstance(mixer, Attention) else "fp8"
    projections = [
        m for m in mixer_matrices(mixer, at.hidden) if m.name.startswith("index_") and "compress" not in m.name
    ]
    query = projections[0]
    rest = float(sum(m.outputs for m in projections[1:]))
    decoded = tokens.decode_rows * tokens.context / fold
    prefilled = tokens.prompt_rows * attended_tokens(chunk=max(tokens.chunk, 1.0), cached=tokens.cached) / fold
    keys = (tokens.decodes * tokens.context + tokens.prompts * (tokens.cached + tokens.chunk)) / fold
    scores = (decoded + prefilled) / (SCORED_TOGETHER if isinstance(mixer, Attention) else 1)
    return (
        _linear("index query", at, tokens.rows, query.outputs, query.inputs, count),
        _linear("index key", at, tokens.rows, rest, at.hidden, count),
        Operator(
            kind="mla_decode",
            name="index scores",
            count=count,
            weights=stored,
            compute=at.sixteen if isinstance(mixer, Attention) else at.compute,
            flop=2.0 * mixer.index_heads * mixer.index_head_dim * (decoded + prefilled),
            read_bytes=index_key_bytes(mixer, element_bytes=number_format(stored).bytes) * keys,
            write_bytes=4.0 * scores,
            m=tokens.rows,
            batch=tokens.decodes + tokens.prompts,
            context=(tokens.context or tokens.cached + tokens.chunk) / fold,
            heads=mixer.index_heads,
            kv_heads=1,
            head_dim=mixer.index_head_dim,
        ),
    )


def _state_space(mixer: StateSpace, at: Share, tokens: Tokens, count: float) -> Work:
    """Projections in and out, a short convolution, and one pass over the state of every sequence."""
    rows, sequences = tokens.rows, tokens.prompts + tokens.decodes
    inner = mixer.num_heads * mixer.head_dim / at.tp
    work: list[Operator] = []
    for matrix in mixer_matrices(mixer, at.hidden):
        cut_out = at.tp if matrix.split == "outputs" else 1
        cut_in = at.tp if matrix.split == "inputs" else 1
        outputs, inputs = matrix.outputs / cut_out, matrix.inputs / cut_in
        if matrix.name == "conv":
            work.append(
                elementwise_pass("short convolution", at, read=2 * rows * outputs, write=rows * outputs, count=count)
            )
        else:
            work.append(_linear(matrix.name, at, rows, outputs, inputs, count))
    if mixer.kind == "short_conv":
        return tuple(work)
    states = inner * mixer.state_size
    keys = mixer.num_groups * mixer.state_size / min(at.tp, mixer.num_groups)
    update = Operator(
        kind="state_space",
        name="state update",
        count=count,
        weights="fp32",
        compute=at.sixteen,
        flop=6.0 * rows * states,
        read_bytes=4.0 * sequences * states + 2.0 * rows * (2 * inner + 2 * keys),
        write_bytes=4.0 * sequences * states + 2.0 * rows * inner,
        m=rows,
        batch=sequences,
        heads=mixer.num_heads / at.tp,
        head_dim=mixer.head_dim,
        k=mixer.state_size,
    )
    return (*work, update)


def cross_attention_work(mixer: Attention, at: Share, *, tokens: Tokens, source: float, count: float) -> Work:
    """Attention over `source` encoder tokens per sequence; their keys and values are made once, at prefill."""
    heads, kv_heads = units_per_rank(mixer.num_attention_heads, at.tp), units_per_rank(mixer.num_key_value_heads, at.tp)
    width = heads * mixer.head_dim
    rows, sequences = tokens.rows, tokens.prompts + tokens.decodes
    work = [_linear("cross query", at, rows, width, at.hidden, count)]
    if tokens.prompts:
        keys = tokens.prompts * source
        work.append(_linear("cross key/value", at, keys, 2 * kv_heads * mixer.head_dim, at.hidden, count))
    work.append(
        Operator(
            kind="attention_decode",
            name="cross attention",
            count=count,
            weights=at.kv,
            compute=at.sixteen,
            flop=4.0 * width * rows * source,
            read_bytes=2.0 * number_format(at.kv).bytes * kv_heads * mixer.head_dim * sequences * source,
            write_bytes=2.0 * rows * width,
            m=rows,
            batch=sequences,
            context=source,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=mixer.head_dim,
        )
    )
    work.append(_linear("cross output", at, rows, at.hidden, width, count))
    return tuple(work)
