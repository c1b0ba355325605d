"""
What a draft of its own costs a step: passes one after the other, the first over what was just verified.

An EAGLE-3 draft is one decoder layer with a head over the words it may draft. Its first pass reads the hidden states of
three layers of the target for every verified token, fused by one matrix; each further pass reads one token of each
sequence and its own last hidden state. Queries, keys and values are of twice the usual input (arXiv 2503.01840, section
3; vLLM's `llama_eagle3.py`). Each pass waits for the word drafted before it, so that none runs beside another, and each
launches its kernels. Prompts pass the draft as well: one layer beside all of the target's, which is not counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, Model
from tonnage.domain.precision import Precision
from tonnage.physics.shares import gemm, share
from tonnage.physics.transformer import Tokens
from tonnage.simulation.step_parts import Parts, Placement, Speculation, parts_of, placed_work, seconds

FUSED: Final = 3
"""Layers of the target whose hidden states the first pass reads. [-]"""


class DraftParts(NamedTuple):
    """Passes of a draft at so many sequences on a rank."""

    sequences: float
    first: Parts
    further: Parts


def draft_parts(placement: Placement, batches: tuple[float, ...], *, context: float) -> tuple[DraftParts, ...]:
    """Passes of the placement's draft at one sequence on a rank and at the most of `batches`; empty without one."""
    speculation = placement.speculation
    if speculation is None or speculation.drafter is None:
        return ()
    p = replace(
        placement,
        model=speculation.drafter,
        precision=draft_precision(placement.precision),
        layout=Layout(tp=placement.layout.tp, dp=placement.layout.dp),
        speculation=None,
        adapters=None,
    )
    verified = 1.0 + speculation.tokens
    return tuple(
        DraftParts(n, _pass(p, n, context, fused=n * verified), _pass(p, n, context, fused=0.0))
        for n in (1.0, max(2.0, batches[-1]))
    )


def draft_precision(target: Precision) -> Precision:
    """Formats of a draft: published ones keep 16 bits whatever the target's weights, and cache as the target does."""
    sixteen = target.activations if target.activations in {"bf16", "fp16"} else "bf16"
    return Precision(weights=sixteen, activations=sixteen, kv=target.kv)


def drafting_s(
    drafts: tuple[DraftParts, ...], overheads: Overheads, *, speculation: Speculation | None
) -> tuple[float, float] | None:
    """
    All passes of a step under an engine, fixed and per sequence on a rank; none without a draft. [s, s]

    Both kernels and host take a line over the batch: one layer's weights are read once a pass whatever the batch, and
    its rows are few for what an accelerator multiplies.

    The host prepares a launch for the first pass and one for the further ones, which a graph holds together (SGLang's
    draft runner), as it does for the step: what of that work no accelerator's time hides is waited for again.
    """
    if speculation is None or not drafts:
        return None
    kernels = replace(overheads, step_s=0.0, hidden_s=0.0, sequence_s=0.0)
    one, most = (
        seconds(at.first, kernels, sequences=0.0)
        + (speculation.tokens - 1.0) * seconds(at.further, kernels, sequences=0.0)
        for at in drafts
    )
    slope = max(0.0, most - one) / (drafts[1].sequences - drafts[0].sequences)
    prepared = min(2.0, speculation.tokens)
    return one - slope + prepared * overheads.step_s, slope + prepared * overheads.sequence_s


def _pass(p: Placement, sequences: float, context: float, *, fused: float) -> Parts:
    """One pass that drafts a token of each sequence; over `fused` rows of the target's states, or its own last one."""
    drafted = fused / sequences if fused else 1.0
    rows = sequences * drafted
    tokens = Tokens(decodes=sequences, context=context, drafted=drafted, emitted=sequences)
    at = share(hidden=p.model.hidden_size, layout=p.layout, precision=p.precision, domain=p.domain)
    hidden, weights = float(p.model.hidden_size), p.precision.weights
    twice = _projected(p.model) / p.layout.tp
    beside = [gemm("draft input", at, m=rows, n=twice, k=hidden, weights=weights, compute=at.sixteen)]
    if fused:
        beside.append(gemm("fused states", at, m=rows, n=hidden, k=FUSED * hidden, weights=weights, compute=at.sixteen))
    return parts_of((*placed_work(p, tokens), *beside), p)


def _projected(model: Model) -> float:
    """Width of queries, keys and values of the draft's layer. [values]"""
    mixer = model.layers[0].mixer
    if not isinstance(mixer, Attention):
        raise TypeError(f"{model.id}: a draft's layer attends")
    return float((mixer.num_attention_heads + 2 * mixer.num_key_value_heads) * mixer.head_dim)
