"""One step of an engine as a tree: its operators with their evidence, the engine's factors on them, and its host time.

The formulas are those of the step's table (`steps.StepTable`): `OpenTable` gives them pieces that keep their operators.
Operators are priced at the step's own shape; what the table's interpolation makes of a piece beyond them stands in the
tree as a part of its own, so that parts add up and the error of the table is seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Evidence, Execution, Opened, Quantity, named
from tonnage.domain.engine_spec import Overheads, captured_batch
from tonnage.physics.operators import roofline_of
from tonnage.physics.work import Operator, Work
from tonnage.record import Record
from tonnage.simulation.step_parts import (
    Placement,
    decode_attention_work,
    evidence_of,
    has_states,
    operators_s,
    parts_of,
    prompt_attention_work,
    prompt_launch_s,
    prompt_rows_work,
    rows_work,
)
from tonnage.simulation.steps import MixedStep, RankRows, StepGrid, StepTable

_GROUPS: Final = {
    "gemm": "matrix products",
    "convolution": "matrix products",
    "grouped_gemm": "expert products",
    "attention_decode": "decode attention",
    "mla_decode": "decode attention",
    "attention_prefill": "prefill attention",
    "mla_prefill": "prefill attention",
    "state_space": "state space",
    "elementwise": "element-wise",
    "embedding": "element-wise",
    "routing": "element-wise",
}
_SHAPE: Final = (
    "m", "n", "k", "groups", "skewed", "batch", "context", "heads", "kv_heads", "head_dim", "window", "message_bytes",
    "ranks", "inter_node", "per_node", "crossing", "flop", "read_bytes", "write_bytes",
)  # fmt: skip
_DEFAULTS: Final = Operator(kind="gemm", name="")
_EACH: Final = "each kernel"
_WITH_PROMPTS: Final = "each kernel with prompts"
_READ: Final = "table interpolation"
_LAST: Final = ("pipeline bubble", "exchange beside products")
_ROUNDING: Final = 1e-12
_OWN_KERNELS: Final = Evidence(tier="formula", source="kernels of the engine's own (simulation.own_kernels)")
_TABLE: Final = Evidence(tier="formula", source="log-log and affine interpolation (simulation.steps)")


class Pricing(Record, kw_only=True):
    """What an operator's time in a step rests on."""

    placement: Placement
    engine: Evidence
    """Of the engine's overheads."""
    datasheet: Accelerator
    """With the rates that shares of the roofline are of; the placement's may be what the engine can reach."""

    def leaf(self, name: str, seconds: float, *, how: str) -> Quantity:
        """A time that the engine adds."""
        return Quantity(name=name, value=seconds, unit="s", how=how, evidence=self.engine)

    def request(self, overheads: Overheads) -> Quantity:
        """What the engine adds to the first token of a request."""
        return self.leaf("request handling", overheads.request_s, how="reading, tokenising, first answer")

    def operators(
        self, work: Work, overheads: Overheads, *, prompts: bool, beside: float = 1.0
    ) -> tuple[Quantity, ...]:
        """
        Every operator of a piece with the engine's factors, and what the engine adds to each kernel or saves of it.

        An operator is priced as a list of its own, but for factors that the engine puts on the list's mean product.
        `beside` is a further factor on all.
        """
        o, found = overheads, []
        whole = parts_of(work, self.placement)
        for op in work:
            once, evidence = evidence_of(op, self.placement)
            parts = parts_of((op,), self.placement)
            taken = operators_s(parts, o, prompts=prompts, among=whole)
            if prompts and o.reach_bytes_per_s and (parts.own_products or parts.own_scores):
                once, evidence = taken / op.count, _OWN_KERNELS
            if op.count and once:
                least_s, bound = roofline_of(op, accelerator=self.datasheet, ladder=self.placement.ladder)
                # The share of the roofline is that of the kernel as the engine runs it.
                share = least_s * op.count / (taken * beside) if taken else evidence.roofline_share
                run = execution_of(op, once_s=once, factor=taken * beside / (op.count * once))
                evidence = msgspec.structs.replace(evidence, roofline_s=least_s, bound=bound, roofline_share=share)
                found.append(Quantity(name=op.name, value=taken * beside, unit="s", execution=run, evidence=evidence))
        name, each_s = (_WITH_PROMPTS, o.prefill_kernel_s) if prompts else (_EACH, o.kernel_s)
        return (*found, self.leaf(name, beside * whole.kernels * each_s, how=f"{each_s * 1e6:.3g}"))

    def by_kind(self, nodes: Iterable[Quantity], overheads: Overheads) -> tuple[Quantity, ...]:
        """
        Leaves of a step put together: operators by kind, the longest kind first, and what the engine adds to kernels.

        Leaves that are no operator stay as they are, before the kinds; bubble and hidden exchange come last.
        """
        kinds: dict[str, list[Quantity]] = defaultdict(list)
        sums: dict[str, float] = defaultdict(float)
        first, last = list[Quantity](), list[Quantity]()
        for node in nodes:
            if node.execution is not None:
                kinds[_GROUPS.get(node.execution.kind, "collectives")].append(node)
            elif node.name in {_EACH, _WITH_PROMPTS, _READ}:
                sums[node.name] += node.value
            else:
                (last if node.name in _LAST else first).append(node)
        rest = sums.pop(_READ, 0.0)
        each_s = {_EACH: overheads.kernel_s, _WITH_PROMPTS: overheads.prefill_kernel_s}
        starts = tuple(
            self.leaf(
                name, value, how=f"{value / each_s[name]:g} x {each_s[name] * 1e6:.3g} µs: starts, less what is fused"
            )
            for name, value in sums.items()
            if value
        )
        totals = [Quantity.total(kind, tuple(sorted(found, key=_falling))) for kind, found in kinds.items()]
        totals.append(Quantity.total("engine's cost a kernel", starts))
        parts = (*first, *sorted((node for node in totals if node.value), key=_falling))
        parts += tuple(sorted(last, key=lambda node: _LAST.index(node.name)))
        if abs(rest) > _ROUNDING * sum(part.value for part in parts):
            told = "steps are read between tabulated shapes"
            parts += (Quantity(name=_READ, value=rest, unit="s", how=told, evidence=_TABLE),)
        return parts

    def host(
        self, kernels: tuple[Quantity, ...], overheads: Overheads, *, hidden_s: float, sequences: float, prompts: float
    ) -> tuple[Quantity, ...]:
        """The accelerator's part of a step with the host's: beside it, and before it."""
        o, busy = overheads, Quantity.total("accelerator", self.by_kind(kernels, overheads))
        if hidden_s:
            beside = self.leaf("hidden host work", hidden_s, how="the next step's, and launches")
            busy = Quantity.longest("accelerator or host", (busy, beside), how="the longer of the two")
        return (
            busy,
            self.leaf("host, each step", o.step_s, how="scheduling that the accelerator waits for"),
            self.leaf("host, running sequences", o.sequence_s * sequences,
                      how=f"{_number(sequences)} x {o.sequence_s * 1e6:.3g} µs"),
            self.leaf("host, new prompts", o.prompt_s * prompts, how=f"{_number(prompts)} x {o.prompt_s * 1e6:.3g} µs"),
        )  # fmt: skip


class OpenTable(StepTable, kw_only=True):
    """The same steps, each `Opened`: what a formula makes of them keeps what it is made of."""

    pricing: Pricing
    grid: StepGrid

    @classmethod
    def of(cls, table: StepTable, grid: StepGrid, *, pricing: Pricing) -> OpenTable:
        """The table of a grid, with what its operators' times rest on."""
        return cls(**{name: getattr(table, name) for name in StepTable.__struct_fields__}, grid=grid, pricing=pricing)

    @property
    def request_s(self) -> float:
        """What the engine adds to the first token of a request. [s]"""
        return Opened((self.pricing.request(self.overheads),))

    def named(self, name: str, seconds: float, *, how: str = "") -> float:
        """The same seconds under a name. [s]"""
        return named(name, seconds, how=how)

    def decode_s(self, sequences: float, context: float) -> float:
        """One token of each of `sequences`, opened. [s]"""
        each, drafting = max(1.0, self.decodes_of(sequences)), self.speculation
        rows = captured_batch(each) if self.graphs else each
        how = f"{_number(sequences)} sequences at {_number(context)} tokens of context"
        how += f", padded to {rows:g} rows" if rows != each else ""
        step = named("step" if drafting else "decode step", self.verify_s(sequences, context), how=how)
        if drafting is None:
            return step
        over = f"a head of {drafting.drafter.vocab_size:,} words" if drafting.drafter else "the head"
        told = f"{drafting.tokens:g} drafted tokens, each one layer and {over}"
        drafts = named("drafts", float(self.drafts_s(sequences)), how=told, evidence=_TABLE)
        how = f"a step and its drafts yield {drafting.gained:.3g} tokens a sequence"
        both = (*step.nodes, *drafts.nodes)
        return Opened((Quantity.total("decode step", both, times=1.0 / drafting.gained, how=how),))

    def mixed_step_s(self, step: MixedStep) -> float:
        """A step that carries prompts, opened. [s]"""
        mine = self.fullest_rank(step)
        at, repeats = _table_size(mine.rows, self.rows)
        how = _mixed_text(mine, step) + (f", in {repeats:.3g} passes of {at:g} rows" if repeats > 1.0 else "")
        return named("prefill step", super().mixed_step_s(step), how=how)

    def with_host(self, busy: float, sequences: float, *, prompts: float = 0.0) -> float:
        """A step from the accelerator's part of it, its operators by kind. [s]"""
        assert isinstance(busy, Opened)
        return Opened(
            self.pricing.host(
                busy.nodes,
                self.overheads,
                hidden_s=self.hidden_s,
                sequences=sequences / self.layout.dp,
                prompts=prompts,
            )
        )

    def layers_s(self, rows: float, *, prompts: bool = False) -> float:
        """Everything but attention and head, opened. [s]"""
        p, (at, repeats) = self.pricing.placement, _table_size(rows, self.rows)
        work = prompt_rows_work(p, at) if prompts and has_states(p.model) else rows_work(p, at)[0]
        nodes = self._piece(work, repeats, prompts=prompts)
        if prompts and (launched_s := repeats * prompt_launch_s(p, self.overheads, kernels=self.grid.prompt_kernels)):
            kernels = Quantity.total("kernels of the layers", self.pricing.by_kind(nodes, self.overheads))
            launches = self.pricing.leaf("launches by the host", launched_s, how="no graph captured these kernels")
            nodes = (Quantity.longest("layers", (kernels, launches), how="the longer of the two"),)
        elif not prompts:
            told = "half of the rows compute while the others are exchanged between nodes"
            nodes += (self.pricing.leaf("exchange beside products", -self.hidden_exchange_s(rows), how=told),)
        return _as_read(nodes, super().layers_s(rows, prompts=prompts))

    def logits_s(self, rows: float) -> float:
        """The head, opened. [s]"""
        at, repeats = _table_size(rows, self.rows)
        nodes = self._piece(rows_work(self.pricing.placement, at)[1], repeats)
        return _as_read(nodes, super().logits_s(rows))

    def attended_s(self, batch: float, context: float, *, beside: float = 1.0) -> float:
        """Decode attention, opened. [s]"""
        at, repeats = _table_size(batch, self.batches)
        work = decode_attention_work(self.pricing.placement, at, context=context)
        return _as_read(self._piece(work, repeats, beside=beside), super().attended_s(batch, context, beside=beside))

    def chunks_s(self, mine: RankRows, cached: float) -> float:
        """Attention of prompts, and the encoder's work before it, opened. [s]"""
        p = self.pricing.placement
        work = prompt_attention_work(p, mine.chunk, prompts=mine.tokens / mine.chunk, cached=cached)
        fixed, token = p.encoder_s
        told = f"{fixed * 1e3:.3g} ms a step and {token * 1e6:.3g} µs for each token of the prompts"
        before = self.pricing.leaf(
            "vision encoder" if p.adapters is None else "adapter loads", fixed + token * mine.tokens, how=told
        )
        return _as_read((before, *self._piece(work, 1.0, prompts=True)), super().chunks_s(mine, cached))

    def bubble_s(self, busy: float) -> float:
        """What pipeline stages lose waiting for each other, a part of its own. [s]"""
        how = f"{self.overheads.bubble:g} of a decode step x {self.layout.pp - 1} further stages"
        return Opened((self.pricing.leaf("pipeline bubble", super().bubble_s(float(busy)), how=how),))

    def _piece(self, work: Work, repeats: float, *, prompts: bool = False, beside: float = 1.0) -> tuple[Quantity, ...]:
        """Operators of a piece; beyond the widest step of the table, an engine runs several of that width."""
        if repeats != 1.0:
            work = tuple(msgspec.structs.replace(op, count=op.count * repeats) for op in work)
        return self.pricing.operators(work, self.overheads, prompts=prompts, beside=beside)


def pass_tree(
    pricing: Pricing, overheads: Overheads, *, name: str, work: Work, sequences: float, prompts: float, how: str
) -> Quantity:
    """One pass over a work list, as `seconds` prices it."""
    o, kernels = overheads, pricing.operators(work, overheads, prompts=bool(prompts))
    hidden_s = o.hidden_s + o.launch_s * sum(op.count for op in work)
    return Quantity.total(
        name, pricing.host(kernels, o, hidden_s=hidden_s, sequences=sequences, prompts=prompts), how=how
    )


def _as_read(nodes: tuple[Quantity, ...], seconds: float) -> Opened:
    """A piece as the table has it: what reading between shapes makes of it beyond its operators is a part."""
    rest = seconds - sum(node.value for node in nodes)
    return Opened((*nodes, Quantity(name=_READ, value=rest, unit="s")))


def _falling(node: Quantity) -> float:
    return -node.value


def _table_size(size: float, sizes: tuple[float, ...]) -> tuple[float, float]:
    """The size to open, and how often: beyond the widest step of the table, an engine runs several of that width."""
    return (size, 1.0) if size <= sizes[-1] else (sizes[-1], size / sizes[-1])


def execution_of(op: Operator, *, once_s: float, factor: float) -> Execution:
    """An operator as a tree shows it: what is not its default of shape and formats."""
    shape = {name: _as_number(value) for name in _SHAPE if (value := getattr(op, name)) != getattr(_DEFAULTS, name)}
    formats = {} if op.message_bytes else {"weights": op.weights, "compute": op.compute}
    return Execution(kind=op.kind, count=op.count, once_s=once_s, factor=factor, shape=formats | shape)


def _mixed_text(mine: RankRows, step: MixedStep) -> str:
    told = f"{_number(step.prompt_tokens)} tokens of {_number(step.prompts)} prompt{'s' if step.prompts != 1 else ''}"
    if step.cached:
        told += f", {_number(step.cached)} cached before"
    if step.sequences:
        told += f", beside {_number(step.sequences)} sequences at {_number(step.context)} tokens"
    if mine.tokens < step.prompt_tokens:
        told += f"; the fullest rank takes {_number(mine.tokens)} tokens"
    return told


def _as_number(value: float) -> float:
    """Sizes and flags as whole numbers where they are whole."""
    return int(value) if float(value).is_integer() else value


def _number(value: float) -> str:
    """Three digits of a small number, all of a large one."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
