"""One step of an engine, opened into parts: (model, accelerator, layout, tokens) -> seconds by what sets them.

A `Placement` fixes all that does not change between steps. `parts_of` prices every operator of a step's work list
and sorts its time: products bound by memory or by arithmetic, attention, element-wise passes, collectives, launches.
`seconds` adds the parts up under an engine's overheads, which act on each kind.

A step is tabulated in four pieces, for each depends on other numbers: the layers without attention and the head on the
rows that pass them, decode attention on batch and context, prompt attention on the chunk and what is cached before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Evidence
from tonnage.domain.efficiency import Ladder, Rung
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.domain.model import Attention, Model, Moe, StateSpace
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.requests.groups import Adapters
from tonnage.physics.efficiency import peak_flop_per_s, weakest_rung
from tonnage.physics.known import Known
from tonnage.physics.matrices import feed_forward_matrices, mixer_matrices
from tonnage.physics.operators import has_skewed_table, operator_evidence, operator_s, timed_with_experts
from tonnage.physics.transformer import Tokens, encode_work, step_work
from tonnage.physics.work import Operator, Work
from tonnage.record import Record
from tonnage.simulation.own_kernels import (
    Batching,
    has_prompt_kernels,
    prompt_attention_s,
    prompt_product_s,
    prompt_states_s,
    unhidden_s,
)

_COLLECTIVES = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "point_to_point"})
_ATTENTION = frozenset({"attention_decode", "mla_decode", "state_space"})
_BALANCED_FROM = 16
"""Expert-parallel ranks from which recipes keep copies of busy experts and place them by load (DeepSeek's EPLB)."""
_PREFILL = frozenset({"attention_prefill", "mla_prefill"})
_CORES: Final = frozenset({"attention_decode", "mla_decode"})
_HEAD: Final = frozenset({"head", "gather logits", "sampling"})


class Speculation(Record, kw_only=True):
    """Tokens drafted per step and sequence, and the chance that each is accepted (independently)."""

    tokens: float
    acceptance: float
    drafter: Model | None = None
    """A draft of its own beside the model (EAGLE-3); none: the checkpoint's own layers draft."""

    @property
    def gained(self) -> float:
        """Tokens that a step yields per sequence: (1 - a^(g+1)) / (1 - a)."""
        a = min(self.acceptance, 0.999)
        rejected: float = 1.0 - a ** (self.tokens + 1.0)
        return rejected / (1.0 - a)


class Placement(Record, kw_only=True):
    """A model on accelerators in a layout under an engine: everything a step's time depends on but its tokens."""

    model: Model
    accelerator: Accelerator
    precision: Precision
    layout: Layout
    ladder: Ladder
    domain: int = 8
    """Ranks joined by fast links."""
    attends: tuple[str, ...] = ()
    """Kinds of attention that multiply an FP8 cache as it is stored (`physics.shares`)."""
    graphs: bool = True
    """Decode steps run as captured graphs, padded to their sizes."""
    speculation: Speculation | None = None
    mixed_attention: float = 1.0
    """Decode attention in a step that carries prompts, over the same without. [-]"""
    fused_attention: bool = False
    """Own kernels keep no scores of prompts in memory."""
    batching: Batching | None = None
    """How own kernels run steps of several sequences; absent = no engine with priced kernels of its own."""
    eager: Mapping[str, float] | None = None
    """Each matrix of a layer is launched by itself, with further launches by weight format; none: grouped products."""
    adapters: Adapters | None = None
    """LoRA adapters whose products run beside the layers'."""
    encoder_s: tuple[float, float] = (0.0, 0.0)
    """Images encoded and adapters loaded for steps that carry prompts: once a step, and for each prompt token."""
    two_batches: bool = False
    """Half of a step's rows compute while the others are exchanged between nodes."""
    beams: float = 1.0
    """Hypotheses of a sequence that decode beside each other: each is a row of every layer and reads its own cache."""
    balanced: bool = False
    """Copies of busy experts stand on several ranks, so that wide expert parallelism meets no skew."""


class Parts(Record, kw_only=True):
    """One step's time on the accelerator, by what sets it. Products are split by the limit that binds them. [s]"""

    memory: float = 0.0
    compute: float = 0.0
    narrow: float = 0.0
    """Of memory and compute together: products in 8 or 4 bits. [s]"""
    weight_only: float = 0.0
    experts: float = 0.0
    """Of memory: products of routed experts. [s]"""
    experts_compute: float = 0.0
    """Of compute: the same. [s]"""
    attention: float = 0.0
    attention_least: float = 0.0
    """Of attention: what its bytes take at the rated bandwidth. An engine's own kernels are no faster. [s]"""
    prefill_attention: float = 0.0
    touch: float = 0.0
    collective: float = 0.0
    exchange: float = 0.0
    """Of collective: tokens to experts on other nodes and back, which may run beside products. [s]"""
    unhidden: float = 0.0
    """What an engine's own kernels add to the products of a decode step. [s]"""
    own_products: float = 0.0
    """Products as kernels of the engine's own do them in steps that carry prompts, recurrent states beside them. [s]"""
    own_scores: float = 0.0
    """Attention of prompts, the same. [s]"""
    kernels: float = 0.0
    """Launches of the step. [-]"""
    rung: Rung = "own"

    def attended_s(self, factor: float) -> float:
        """
        Decode attention under an engine's factor over the kernels that were timed. [s]

        A factor below one was fitted where the timed kernel is far from the memory's rate (FlashAttention-2 on A100:
        half of it); on parts where it is near, the bytes take as long as ever.
        """
        return max(self.attention * factor, min(self.attention, self.attention_least))


def placed_work(placement: Placement, tokens: Tokens) -> Work:
    """One step of a placement as a work list, the products of its adapters among it."""
    p = placement
    work = step_work(p.model, tokens, precision=p.precision, layout=p.layout, domain=p.domain, attends=p.attends)
    work = tuple(op for op in work if op.kind != "routing" or not timed_with_experts(op, p.ladder))
    if p.adapters is None:
        return work
    from tonnage.simulation.adapters import adapters_in

    return work + adapters_in(p.model, tokens, adapters=p.adapters, layout=p.layout)


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


def prompt_attention_work(placement: Placement, chunk: float, *, prompts: float = 1.0, cached: float) -> Work:
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
        width = model.hidden_size
        for matrix in (*mixer_matrices(group.mixer, width), *feed_forward_matrices(group.feed_forward, width)):
            routed = matrix.active is not None
            stored = (placement.precision.experts if routed else None) or placement.precision.weights
            launched = group.count * matrix.copies * (2 if matrix.name.endswith("gate_up_proj") else 1)
            apart += 0.0 if routed else launched
            further += launched * eager.get(stored, 0.0)
    return looped + max(0.0, apart - listed) + further


def prompt_launch_s(placement: Placement, overheads: Overheads, *, kernels: float) -> float:
    """
    Host time to launch a step that carries prompts: no graph captured it, so it may be what the step waits for.

    A latent or linear mixer is many small kernels (compressions, norms, rotary parts, gates, states) where attention is
    one call; a layer's experts are one call as well.
    """
    small = sum(group.count for group in placement.model.layers if not isinstance(group.mixer, Attention))
    return overheads.prefill_launch_s * kernels + overheads.prefill_mixer_s * small / placement.layout.pp


def encoded_work(placement: Placement, *, sequences: float, length: float) -> Work:
    """One bidirectional pass of a placement as a work list."""
    p = placement
    return encode_work(
        p.model, sequences=sequences, length=length, precision=p.precision, layout=p.layout, domain=p.domain
    )


def parts_of(work: Work, placement: Placement) -> Parts:
    """Prices a work list and sorts its time by what sets it."""
    found = dict.fromkeys(Parts.__struct_fields__, 0.0)
    del found["rung"]
    rungs: set[Rung] = set()
    accelerator, kernels = placement.accelerator, placement.ladder
    own_kernels = has_prompt_kernels(accelerator)
    for listed in work:
        op = _as_placed(listed, placement)
        once, rung, _ = operator_s(op, accelerator=accelerator, ladder=kernels)
        rungs.add(rung)
        kind, count = op.kind, op.count
        taken = once * count
        found["kernels"] += count
        if kind in _COLLECTIVES:
            if _rings_too(op, placement):
                ring = operator_s(op, accelerator=accelerator, ladder=_without_grids(kernels))[0]
                taken = min(once, ring) * count
            found["collective"] += taken
            if placement.two_batches and kind == "all_to_all" and op.inter_node:
                found["exchange"] += taken
        elif kind in _ATTENTION:
            found["attention"] += taken * _cache_passes(op, placement)
            found["attention_least"] += count * (op.read_bytes + op.write_bytes) / accelerator.memory_bytes_per_s
        elif kind in _PREFILL:
            found["prefill_attention"] += taken
        elif op.flop:
            _add_product(found, op, taken, placement, rung)
        else:
            found["touch"] += taken
        if own_kernels:
            _add_own(found, op, once, placement)
    return Parts(**found, rung=weakest_rung(tuple(rungs)))


def _add_own(found: dict[str, float], op: Operator, once: float, placement: Placement) -> None:
    """What the operator takes in kernels of the engine's own: in steps with prompts, and beyond `once` in decodes."""
    accelerator, count = placement.accelerator, op.count
    if op.kind == "state_space":
        found["own_products"] += count * max(0.0, prompt_states_s(op, accelerator) - once)
    elif op.kind in _PREFILL:
        scores = prompt_attention_s(op, accelerator, fused=placement.fused_attention)
        found["own_scores"] += count * (once if scores is None else scores)
    elif op.flop and op.kind not in _ATTENTION:
        own = prompt_product_s(op, accelerator, recent=placement.fused_attention)
        found["own_products"] += count * (once if own is None else own)
        if placement.batching is not None:
            found["unhidden"] += count * unhidden_s(op, accelerator, batching=placement.batching, once_s=once)


def evidence_of(op: Operator, placement: Placement) -> tuple[float, Evidence]:
    """The seconds of one execution that `parts_of` counts, and what they rest on."""
    p = placement
    op = _as_placed(op, p)
    once, evidence = operator_evidence(op, accelerator=p.accelerator, ladder=p.ladder)
    if op.kind in _COLLECTIVES and _rings_too(op, p):
        ring, other = operator_evidence(op, accelerator=p.accelerator, ladder=_without_grids(p.ladder))
        once, evidence = (ring, other) if ring < once else (once, evidence)
    return once * _cache_passes(op, p), evidence


def _as_placed(op: Operator, placement: Placement) -> Operator:
    """
    Routed experts as the engine places them: a router prefers some until busy ones are copied.

    What a router prefers is no property of a part: where no table of skewed routing answers, a step reads the experts
    that the power law of those tables reaches.
    """
    if not op.skewed:
        return op
    if placement.balanced and placement.layout.ep >= _BALANCED_FROM:
        return msgspec.structs.replace(op, skewed=False)
    if 0.0 < op.reached < op.groups and not has_skewed_table(op, placement.ladder):
        unread = op.stored_bytes * (op.groups - op.reached)
        return msgspec.structs.replace(op, groups=op.reached, read_bytes=op.read_bytes - unread)
    return op


def _cache_passes(op: Operator, placement: Placement) -> float:
    """
    How often a decode step of an eager engine passes over the cache, where fused attention reads it once.

    It writes a longer copy (read and write), repeats it for every query head of a group (read once, write `group`
    times), scales the keys and multiplies: 3 + 3 x group (`repeat_kv`, `DynamicCache.update`, PyTorch's mathematical
    attention).
    """
    if placement.eager is None or op.kind != "attention_decode":
        return 1.0
    return 3.0 + 3.0 * max(1.0, op.heads / max(1.0, op.kv_heads))


def _rings_too(op: Operator, placement: Placement) -> bool:
    """Whether ranks exchange over PCIe: an engine takes the faster of its own measured way and the library's ring."""
    link = placement.accelerator.link
    linked = bool(link.bytes_per_s) and link.domain >= op.ranks
    return bool(placement.ladder.grids) and not op.inter_node and not linked


def _without_grids(kernels: Ladder) -> Ladder:
    return msgspec.structs.replace(kernels, grids={})


def _add_product(found: dict[str, float], op: Operator, taken: float, placement: Placement, rung: Rung) -> None:
    """Divide a product's time between the two limits, as the roofline's smooth maximum (or their sum) weighs them."""
    accelerator, power = placement.accelerator, 4 if placement.ladder.curve.overlaps else 1
    arithmetic = op.flop / peak_flop_per_s(accelerator, op.compute)
    traffic = (op.read_bytes + op.write_bytes) / accelerator.memory_bytes_per_s
    bound = 1.0 / (1.0 + (traffic / arithmetic) ** power) if arithmetic > 0.0 else 0.0
    found["compute"] += taken * bound
    found["memory"] += taken * (1.0 - bound)
    stored = number_format(op.weights)
    if stored.bits < 16:
        if op.compute in {"fp8", "fp4", "int8"}:
            # The factor is of bytes and arithmetic: on the curve, launching and quantising take what they take.
            curve = placement.ladder.curve
            launch_s = curve.grouped_launch_s if op.kind == "grouped_gemm" else curve.narrow_launch_s
            found["narrow"] += max(0.0, taken - launch_s * op.count) if rung == "generic" else taken
        else:
            found["weight_only"] += taken
    if op.kind == "grouped_gemm":
        found["experts_compute"] += taken * bound
        found["experts"] += taken * (1.0 - bound)


def seconds(parts: Parts, overheads: Overheads, *, sequences: float, prompts: float = 0.0) -> float:
    """
    One step under an engine: its kernels with the engine's factors, and the host's share.

    `sequences` are those running in the step, `prompts` those that enter it.
    """
    o = overheads
    exposed = o.step_s + o.sequence_s * sequences + o.prompt_s * prompts
    return max(busy_s(parts, o, prompts=bool(prompts)), o.hidden_s + o.launch_s * parts.kernels) + exposed


def busy_s(parts: Parts, overheads: Overheads, *, prompts: bool) -> float:
    """The accelerator's time alone: operators, and what the engine adds to each kernel or saves of it. [s]"""
    o = overheads
    return operators_s(parts, o, prompts=prompts) + parts.kernels * (o.prefill_kernel_s if prompts else o.kernel_s)


def operators_s(parts: Parts, overheads: Overheads, *, prompts: bool, among: Parts | None = None) -> float:
    """
    Operators under an engine's factors. [s]

    Factors that are on the mean product are those of the list `among` which the parts stand; of their own by default.
    """
    o, whole = overheads, among or parts
    products = parts.memory * o.memory + parts.compute * o.compute
    if whole.memory + whole.compute:
        mean = (whole.memory * o.memory + whole.compute * o.compute) / (whole.memory + whole.compute)
        products += mean * (
            parts.narrow * (o.narrow - 1.0)
            + parts.weight_only * (o.weight_only - 1.0)
            + parts.experts * (o.experts - 1.0)
            + parts.experts_compute * (o.experts_compute - 1.0)
        )
    looked = parts.prefill_attention * o.prefill_attention
    if prompts and o.reach_bytes_per_s and (parts.own_products or parts.own_scores):
        products, looked = parts.own_products, parts.own_scores
    return (
        products
        + parts.attended_s(o.attention)
        + looked
        + parts.touch * o.touch
        + parts.collective * o.collective
        + (0.0 if prompts else parts.unhidden)
    )


class KnownParts(NamedTuple):
    """Parts of a placement's steps at some shapes, each opened once: what is known holds whatever its drafts are."""

    placement: Placement
    known: Known

    def rows(self, rows: float) -> tuple[Parts, Parts]:
        """So many rows through the layers without attention, and through the head."""
        key = "rows", rows
        if key not in self.known:
            layers, head = rows_work(self.placement, rows)
            self.known[key] = parts_of(layers, self.placement), parts_of(head, self.placement)
        return self.known[key]  # type: ignore[no-any-return]

    def last_chunk(self, cached: float, *, chunk: float) -> tuple[float, Parts] | None:
        """Tokens before the last chunk of a prompt of several, and its attention; none unless layers have windows."""
        groups = self.placement.model.layers
        windowed = any(isinstance(group.mixer, Attention) and group.mixer.window for group in groups)
        return (cached, self.of(prompt_attention_work, chunk, cached=cached)) if windowed and cached >= 1.0 else None

    def of(self, work: Callable[..., Work], tokens: float, **at: float) -> Parts:
        """Of the work that a function lists for so many sequences, or tokens of a chunk."""
        drafts = self.placement.speculation.tokens if self.placement.speculation else 0.0
        key = work, tokens, drafts, *at.values()
        if key not in self.known:
            self.known[key] = parts_of(work(self.placement, tokens, **at), self.placement)
        return self.known[key]  # type: ignore[no-any-return]
