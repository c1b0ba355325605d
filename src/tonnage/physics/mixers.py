"""Mixers -> operators: grouped-query and latent attention, sliding windows, recurrent state.

Attention of prompts and of decodes are separate kernels; projections see all rows together, so
that weights are read once a step. Latent attention (DeepSeek-V2, arXiv 2405.04434) decodes in the
absorbed form, over one latent vector per token, and prefills in the expanded form. Recurrent
layers read and write a state of fixed size per sequence. Quantising a product's input is part of the
product (`operators.py`).
"""

from __future__ import annotations

from tonnage.nouns.model import Attention, LatentAttention, Mixer, StateSpace
from tonnage.nouns.precision import number_format
from tonnage.physics.parameters import mixer_matrices
from tonnage.physics.shares import Share, Tokens, attended_tokens, divided, gemm, touch
from tonnage.physics.work import Operator, Work

__all__ = ["cross_attention_work", "mixer_work"]


def mixer_work(mixer: Mixer, at: Share, *, tokens: Tokens, count: float) -> Work:
    """Operators of `count` layers' mixers on one rank, collectives left to the caller."""
    if isinstance(mixer, Attention):
        return _attention(mixer, at, tokens, count)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, at, tokens, count)
    return _state_space(mixer, at, tokens, count)


def _linear(name: str, at: Share, m: float, n: float, k: float, count: float) -> Operator:
    return gemm(name, at, m=m, n=n, k=k, count=count, weights=at.weights, compute=at.compute)


def _attention(mixer: Attention, at: Share, tokens: Tokens, count: float) -> Work:
    heads = divided(mixer.num_attention_heads, at.tp)
    kv_heads = divided(mixer.num_key_value_heads, at.tp)
    value_dim = mixer.v_head_dim or mixer.head_dim
    kv_width = 0.0 if mixer.kv_shared else kv_heads * (mixer.head_dim + (0 if mixer.key_is_value else value_dim))
    query_width = heads * mixer.head_dim
    projected = query_width + kv_width + (heads * value_dim if mixer.gated else 0.0)
    rows = tokens.rows
    work = [
        _linear("attention input", at, rows, projected, at.hidden, count),
        touch("rotary and cache", at, read=rows * (query_width + kv_width), write=rows * (query_width + kv_width),
              count=count),
    ]  # fmt: skip
    if mixer.qk_norm:
        work.append(touch("query and key norm", at, read=rows * query_width, write=rows * query_width, count=count))
    work += _cores(mixer, at, tokens, count)
    work += [
        _linear("attention output", at, rows, at.hidden, heads * value_dim, count),
    ]
    return tuple(work)


def _cores(mixer: Attention, at: Share, tokens: Tokens, count: float) -> Work:
    """Prefill and decode kernels of one attention layer."""
    work: list[Operator] = []
    if tokens.prompts:
        work.append(_prefill_core(mixer, at, tokens, count))
    if tokens.decodes:
        work.append(_decode_core(mixer, at, tokens, count))
    return tuple(work)


def _prefill_core(mixer: Attention, at: Share, tokens: Tokens, count: float) -> Operator:
    heads, kv_heads = divided(mixer.num_attention_heads, at.tp), divided(mixer.num_key_value_heads, at.tp)
    value_dim = mixer.v_head_dim or mixer.head_dim
    causal = 0.0 if at.encoder else float(mixer.causal)
    seen = attended_tokens(chunk=tokens.chunk, cached=tokens.cached, window=mixer.window, causal=causal)
    cached = min(tokens.cached, mixer.window) if mixer.window else tokens.cached
    kv_bytes = number_format(at.kv).bytes * kv_heads * (mixer.head_dim + value_dim)
    rows = tokens.prompt_rows
    return Operator(
        kind="attention_prefill",
        name="attention prefill",
        count=count,
        weights=at.kv,
        compute=at.sixteen,
        flop=2.0 * heads * (mixer.head_dim + value_dim) * rows * seen,
        read_bytes=kv_bytes * tokens.prompts * (cached + tokens.chunk) + 2.0 * rows * heads * mixer.head_dim,
        write_bytes=2.0 * rows * heads * value_dim,
        m=rows,
        batch=tokens.prompts,
        context=cached,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=mixer.head_dim,
        window=mixer.window,
    )


def _decode_core(mixer: Attention, at: Share, tokens: Tokens, count: float) -> Operator:
    heads, kv_heads = divided(mixer.num_attention_heads, at.tp), divided(mixer.num_key_value_heads, at.tp)
    value_dim = mixer.v_head_dim or mixer.head_dim
    context = min(tokens.context, mixer.window) if mixer.window else tokens.context
    kv_bytes = number_format(at.kv).bytes * kv_heads * (mixer.head_dim + value_dim)
    rows = tokens.decode_rows
    return Operator(
        kind="attention_decode",
        name="attention decode",
        count=count,
        weights=at.kv,
        compute=at.sixteen,
        flop=2.0 * heads * (mixer.head_dim + value_dim) * rows * context,
        read_bytes=kv_bytes * tokens.decodes * context + 2.0 * rows * heads * mixer.head_dim,
        write_bytes=2.0 * rows * heads * value_dim,
        m=rows,
        batch=tokens.decodes,
        context=context,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=mixer.head_dim,
        window=mixer.window,
    )


def _latent(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    heads = divided(mixer.num_attention_heads, at.tp)
    query_dim = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim
    latent = mixer.kv_lora_rank + mixer.qk_rope_head_dim
    rows = tokens.rows
    lora = mixer.q_lora_rank
    work = [
        _linear("latent down", at, rows, latent + (lora or heads * query_dim), at.hidden, count),
        touch("latent norms and cache", at, read=rows * (latent + (lora or 0)), write=rows * (latent + (lora or 0)),
              count=2 * count),
    ]  # fmt: skip
    if lora:
        work += [_linear("query up", at, rows, heads * query_dim, lora, count)]
    if mixer.index_topk:
        work += _indexer(mixer, at, tokens, count)
    if tokens.prompts:
        work += _latent_prefill(mixer, at, tokens, count)
    if tokens.decodes:
        work += _latent_decode(mixer, at, tokens, count)
    work += [
        _linear("attention output", at, rows, at.hidden, heads * mixer.v_head_dim, count),
    ]
    return tuple(work)


def _latent_prefill(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Expanded form: keys and values of chunk and cache are made from the latents, then attended per head."""
    heads = divided(mixer.num_attention_heads, at.tp)
    query_dim = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim
    rows, keys = tokens.prompt_rows, tokens.prompts * (tokens.cached + tokens.chunk)
    seen = attended_tokens(chunk=tokens.chunk, cached=tokens.cached)
    if mixer.index_topk:
        seen = min(seen, float(mixer.index_topk))
    expand = heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
    return (
        _linear("key/value up", at, keys, expand, mixer.kv_lora_rank, count),
        Operator(
            kind="mla_prefill",
            name="attention prefill",
            count=count,
            weights=at.kv,
            compute=at.sixteen,
            flop=2.0 * heads * (query_dim + mixer.v_head_dim) * rows * seen,
            read_bytes=2.0 * heads * ((query_dim + mixer.v_head_dim) * keys + query_dim * rows),
            write_bytes=2.0 * rows * heads * mixer.v_head_dim,
            m=rows,
            batch=tokens.prompts,
            context=tokens.cached,
            heads=heads,
            kv_heads=heads,
            head_dim=query_dim,
        ),
    )


def _latent_decode(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Absorbed form: queries move into the latent space, one shared latent per token is read by all heads."""
    heads = divided(mixer.num_attention_heads, at.tp)
    rows, rank, rope = tokens.decode_rows, mixer.kv_lora_rank, mixer.qk_rope_head_dim
    context = min(tokens.context, float(mixer.index_topk)) if mixer.index_topk else tokens.context
    latent_bytes = number_format(at.kv).bytes * (rank + rope)
    absorb = {"count": count, "weights": at.sixteen, "compute": at.sixteen}
    return (
        gemm("absorb keys", at, m=rows, n=rank, k=heads * mixer.qk_nope_head_dim, **absorb),  # type: ignore[arg-type]
        Operator(
            kind="mla_decode",
            name="attention decode",
            count=count,
            weights=at.kv,
            compute=at.sixteen,
            flop=2.0 * heads * (2.0 * rank + rope) * rows * context,
            read_bytes=latent_bytes * tokens.decodes * context + 2.0 * rows * heads * (rank + rope),
            write_bytes=2.0 * rows * heads * rank,
            m=rows,
            batch=tokens.decodes,
            context=context,
            heads=heads,
            kv_heads=1,
            head_dim=rank + rope,
        ),
        gemm("absorb values", at, m=rows, n=mixer.v_head_dim, k=heads * rank, **absorb),  # type: ignore[arg-type]
    )


def _indexer(mixer: LatentAttention, at: Share, tokens: Tokens, count: float) -> Work:
    """Sparse-attention indexer: scores every cached token with small heads, replicated on every rank."""
    width = mixer.index_heads * mixer.index_head_dim
    decoded = tokens.decode_rows * tokens.context
    prefilled = tokens.prompt_rows * attended_tokens(chunk=max(tokens.chunk, 1.0), cached=tokens.cached)
    keys = tokens.decodes * tokens.context + tokens.prompts * (tokens.cached + tokens.chunk)
    return (
        _linear("index query", at, tokens.rows, width, float(mixer.q_lora_rank or at.hidden), count),
        _linear("index key", at, tokens.rows, float(mixer.index_head_dim + mixer.index_heads), at.hidden, count),
        Operator(
            kind="mla_decode",
            name="index scores",
            count=count,
            weights="fp8",
            compute=at.compute,
            flop=2.0 * width * (decoded + prefilled),
            read_bytes=mixer.index_head_dim * keys,
            write_bytes=4.0 * (decoded + prefilled),
            m=tokens.rows,
            batch=tokens.decodes + tokens.prompts,
            context=tokens.context or tokens.cached + tokens.chunk,
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
            work.append(touch("short convolution", at, read=2 * rows * outputs, write=rows * outputs, count=count))
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
    heads, kv_heads = divided(mixer.num_attention_heads, at.tp), divided(mixer.num_key_value_heads, at.tp)
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
