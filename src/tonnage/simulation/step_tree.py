"""One step of an engine as a tree: its operators with their evidence, the engine's factors on them, and its host time.

Values are those of the step's table (`steps.StepTable`). Operators are priced at the step's own shape; what the table's
interpolation makes of it beyond them stands in the tree as a part of its own, so that parts add up and the error of the
table is seen.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Evidence, Execution, Opened, Quantity, named
from tonnage.domain.engine_spec import Overheads, captured_batch
from tonnage.physics.operators import roofline_of
from tonnage.physics.work import Operator, Work
from tonnage.simulation.step_parts import Parts, Placement, evidence_of, parts_of
from tonnage.simulation.step_work import (
    decode_attention_work,
    has_states,
    prompt_attention_work,
    prompt_rows_work,
    rows_work,
)
from tonnage.simulation.steps import MixedStep, RankRows, StepGrid, StepTable, prompt_launch_s

__all__ = ["OpenTable", "Pricing", "StepTrees", "execution_of", "pass_tree"]

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
_ROUNDING: Final = 1e-12
_OWN_KERNELS: Final = Evidence(tier="formula", source="kernels of the engine's own (engine.own_kernels)")
_TABLE: Final = Evidence(tier="formula", source="log-log and affine interpolation (engine.steps)")


class Pricing(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator's time in a step rests on."""

    placement: Placement
    overheads: Overheads
    engine: Evidence
    """Of the engine's overheads."""
    datasheet: Accelerator
    """With the rates that shares of the roofline are of; the placement's may be what the engine can reach."""

    def host(
        self, name: str, kernels: Quantity, *, hidden_s: float, sequences: float, prompts: float, how: str
    ) -> Quantity:
        """The accelerator's part of a step with the host's: beside it, and before it."""
        o = self.overheads
        exposed = (
            self.leaf("host, each step", o.step_s, how="scheduling that the accelerator waits for"),
            self.leaf("host, running sequences", o.sequence_s * sequences,
                      how=f"{_number(sequences)} x {o.sequence_s * 1e6:.3g} µs"),
            self.leaf("host, new prompts", o.prompt_s * prompts, how=f"{_number(prompts)} x {o.prompt_s * 1e6:.3g} µs"),
        )  # fmt: skip
        busy = kernels
        if hidden_s:
            beside = self.leaf("hidden host work", hidden_s, how="the next step's, and launches")
            busy = Quantity.longest("accelerator or host", (kernels, beside), how="the longer of the two")
        return Quantity.total(name, (busy, *exposed), how=how)

    def leaf(self, name: str, seconds: float, *, how: str) -> Quantity:
        """A time that the engine adds."""
        return Quantity(name=name, value=seconds, unit="s", how=how, evidence=self.engine)


class StepTrees(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of one replica, opened on request; each tree's value is what the table says."""

    pricing: Pricing
    table: StepTable
    grid: StepGrid

    def decode(self, name: str, sequences: float, *, context: float) -> Quantity:
        """`table.decode_s`: one token of each of so many sequences."""
        t = self.table
        each = max(1.0, t.decodes_of(sequences))
        rows = captured_batch(each) if t.graphs else each
        verified = 1.0 + t.speculation.tokens if t.speculation else 1.0
        layers, head = self._rows(rows * verified)[0], self._rows(each * verified)[1]
        found = _Groups(self.pricing)
        for work in (layers, head, self._attention(each, context)):
            found.add(work, prompts=False)
        busy = t.decode_busy_s(sequences, context, padded=t.graphs)
        padded = f", padded to {rows:g} rows" if rows != each else ""
        how = f"{_number(sequences)} sequences at {_number(context)} tokens of context{padded}"
        bubble = t.bubble_s(busy)
        kernels = found.kernels(busy + bubble, self._bubble(bubble), beside_s=t.hidden_exchange_s(rows * verified))
        step = self._with_host(name, kernels, how, (sequences, 0.0))
        if t.speculation is None:
            return step
        drafts = Quantity(
            name="drafts",
            value=t.drafts_s(sequences),
            unit="s",
            evidence=_TABLE,
            how=f"{t.speculation.tokens:g} drafted tokens, each one layer and "
            + (f"a head of {t.speculation.drafter.vocab_size:,} words" if t.speculation.drafter else "the head"),
        )
        gained = t.speculation.gained
        told = f"a step and its drafts yield {gained:.3g} tokens a sequence"
        return Quantity.total(name, (msgspec.structs.replace(step, name="step"), drafts), times=1.0 / gained, how=told)

    def mixed(self, name: str, step: MixedStep) -> Quantity:
        """`table.mixed_step_s`: so many tokens of so many prompts, beside sequences that decode."""
        t, p = self.table, self.pricing.placement
        mine = t.fullest_rank(
            prompt_tokens=step.prompt_tokens, prompts=step.prompts, sequences=step.sequences, dealt=step.dealt
        )
        busy = t.mixed_busy_s(mine, sequences=step.sequences, context=step.context, cached=step.cached)
        found = _Groups(self.pricing)
        at, repeats = _table_size(mine.rows, t.rows)
        layers = _repeat(prompt_rows_work(p, at), repeats) if has_states(p.model) else self._rows(mine.rows)[0]
        found.add_launched(layers, launched_s=repeats * prompt_launch_s(self.grid, self.pricing.overheads))
        found.add(self._rows(mine.emitted)[1], prompts=False)
        bubble = 0.0
        if mine.decodes:
            work = self._attention(max(1.0, mine.decodes), step.context)
            found.add(work, prompts=False, beside=t.mixed_attention)
            bubble = t.bubble_s(t.decode_busy_s(step.sequences, step.context, padded=False))
        each = mine.tokens / mine.chunk
        found.add(prompt_attention_work(p, mine.chunk, prompts=each, cached=step.cached), prompts=True)
        fixed, token = p.encoder_s
        if fixed or token:
            told = f"{fixed * 1e3:.3g} ms a step and {token * 1e6:.3g} µs for each token of the prompts"
            name_of = "vision encoder" if p.adapters is None else "adapter loads"
            found.blocks.append(self.pricing.leaf(name_of, fixed + token * mine.tokens, how=told))
        kernels = found.kernels(busy, self._bubble(bubble))
        how = _mixed_text(mine, step)
        if repeats > 1.0:
            how += f", in {repeats:.3g} passes of {at:g} rows"
        return self._with_host(name, kernels, how, (step.sequences, mine.prompts))

    def _rows(self, rows: float) -> tuple[Work, Work]:
        """Layers and head on so many rows."""
        at, repeats = _table_size(rows, self.table.rows)
        layers, head = rows_work(self.pricing.placement, at)
        return _repeat(layers, repeats), _repeat(head, repeats)

    def _attention(self, batch: float, context: float) -> Work:
        at, repeats = _table_size(batch, self.table.batches)
        return _repeat(decode_attention_work(self.pricing.placement, at, context=context), repeats)

    def request(self) -> Quantity:
        """What the engine adds to the first token of a request."""
        return self.pricing.leaf(
            "request handling", self.pricing.overheads.request_s, how="reading, tokenising, first answer"
        )

    def _with_host(self, name: str, kernels: Quantity, how: str, load: tuple[float, float]) -> Quantity:
        """`load` is running sequences and new prompts of a data-parallel rank."""
        sequences, prompts = load[0] / self.table.layout.dp, load[1]
        return self.pricing.host(
            name, kernels, hidden_s=self.table.hidden_s, sequences=sequences, prompts=prompts, how=how
        )

    def _bubble(self, seconds: float) -> Quantity:
        o, stages = self.pricing.overheads, self.table.layout.pp
        return self.pricing.leaf(
            "pipeline bubble", seconds, how=f"{o.bubble:g} of a decode step x {stages - 1} further stages"
        )


class OpenTable(StepTable, frozen=True, kw_only=True):
    """The same steps, each `Opened`: what a formula makes of them keeps what it is made of."""

    trees: StepTrees

    @classmethod
    def of(cls, trees: StepTrees) -> OpenTable:
        """The table of these trees."""
        return cls(**{name: getattr(trees.table, name) for name in StepTable.__struct_fields__}, trees=trees)

    @property
    def request_s(self) -> float:
        """What the engine adds to the first token of a request. [s]"""
        return Opened((self.trees.request(),))

    def named(self, name: str, seconds: float, *, how: str = "") -> float:
        """The same seconds under a name. [s]"""
        return named(name, seconds, how=how)

    def decode_s(self, sequences: float, context: float) -> float:
        """One token of each of `sequences`, opened. [s]"""
        return Opened((self.trees.decode("decode step", sequences, context=context),))

    def seconds_of(self, step: MixedStep) -> float:
        """A step that carries prompts, opened. [s]"""
        return Opened((self.trees.mixed("prefill step", step),))


def pass_tree(name: str, pricing: Pricing, *, work: Work, sequences: float, prompts: float, how: str) -> Quantity:
    """One pass over a work list, as `step_parts.seconds` prices it."""
    o, found = pricing.overheads, _Groups(pricing)
    found.add(work, prompts=bool(prompts))
    kernels = Quantity.total("accelerator", found.parts())
    hidden_s = o.hidden_s + o.launch_s * sum(op.count for op in work)
    return pricing.host(name, kernels, hidden_s=hidden_s, sequences=sequences, prompts=prompts, how=how)


class _Groups:
    """Operators of a step as they are added, by what kind they are."""

    def __init__(self, pricing: Pricing) -> None:
        self.pricing = pricing
        self.by_kind: dict[str, list[Quantity]] = defaultdict(list)
        self.started: dict[bool, float] = defaultdict(float)
        """Kernels, without and with prompts in the step."""
        self.blocks: list[Quantity] = []

    def add(self, work: Work, *, prompts: bool, beside: float = 1.0) -> None:
        """One piece of the step, its operators `beside` times as long as without the others."""
        for group, node in _kernel_nodes(self.pricing, work, prompts=prompts, beside=beside):
            self.by_kind[group].append(node)
        self.started[prompts] += beside * sum(op.count for op in work)

    def add_launched(self, work: Work, *, launched_s: float) -> None:
        """Layers of a step with prompts, where the host's time to launch them may be the longer."""
        if not launched_s:
            self.add(work, prompts=True)
            return
        layers = _Groups(self.pricing)
        layers.add(work, prompts=True)
        kernels = Quantity.total("kernels of the layers", layers.parts())
        launches = self.pricing.leaf("launches by the host", launched_s, how="no graph captured these kernels")
        self.blocks.append(Quantity.longest("layers", (kernels, launches), how="the longer of the two"))

    def parts(self) -> tuple[Quantity, ...]:
        """Each kind with its operators, the longest first, and what the engine adds to each kernel or saves of it."""
        totals = [
            Quantity.total(kind, tuple(sorted(nodes, key=lambda node: -node.value)))
            for kind, nodes in self.by_kind.items()
        ]
        o = self.pricing.overheads
        each = {False: ("each kernel", o.kernel_s), True: ("each kernel with prompts", o.prefill_kernel_s)}
        leaves = tuple(
            self.pricing.leaf(
                each[prompts][0],
                count * each[prompts][1],
                how=f"{count:g} x {each[prompts][1] * 1e6:.3g} µs: starts, less what is fused",
            )
            for prompts, count in self.started.items()
        )
        totals.append(Quantity.total("engine's cost a kernel", leaves))
        return (*self.blocks, *sorted((node for node in totals if node.value), key=lambda node: -node.value))

    def kernels(self, total_s: float, bubble: Quantity, *, beside_s: float = 0.0) -> Quantity:
        """All of it, with what the table's interpolation adds to the operators or takes from them."""
        parts = (*self.parts(), bubble)
        if beside_s:
            told = "half of the rows compute while the others are exchanged between nodes"
            parts = (*parts, self.pricing.leaf("exchange beside products", -beside_s, how=told))
        rest = total_s - sum(part.value for part in parts)
        if abs(rest) > _ROUNDING * total_s:
            told = "steps are read between tabulated shapes"
            parts = (*parts, Quantity(name="table interpolation", value=rest, unit="s", how=told, evidence=_TABLE))
        return Quantity.total("accelerator", parts)


def _table_size(size: float, sizes: tuple[float, ...]) -> tuple[float, float]:
    """The size to open, and how often: beyond the widest step of the table, an engine runs several of that width."""
    return (size, 1.0) if size <= sizes[-1] else (sizes[-1], size / sizes[-1])


def _repeat(work: Work, repeats: float) -> Work:
    return work if repeats == 1.0 else tuple(msgspec.structs.replace(op, count=op.count * repeats) for op in work)


def _kernel_nodes(pricing: Pricing, work: Work, *, prompts: bool, beside: float) -> list[tuple[str, Quantity]]:
    """
    Every operator of a work list with the engine's factors, under the name of its group.

    With the engine's cost of each kernel they add up to `step_parts.seconds` of the list without host time: an operator
    is priced as a list of its own, and factors that the engine puts on the mean product are those of the whole list.
    `beside` is a further factor on all.
    """
    o, placement = pricing.overheads, pricing.placement
    whole = parts_of(work, placement)
    products = whole.memory + whole.compute
    mean = (whole.memory * o.memory + whole.compute * o.compute) / products if products else 1.0
    found = []
    for op in work:
        once, evidence = evidence_of(op, placement)
        parts = parts_of((op,), placement)
        if prompts and o.reach_bytes_per_s and (parts.own_products or parts.own_scores):
            taken = parts.own_products + parts.own_scores + parts.attended_s(o.attention)
            once, evidence = taken / op.count, _OWN_KERNELS
        else:
            taken = _stretch(parts, o, mean)
        if op.count and once:
            least_s, bound = roofline_of(op, accelerator=pricing.datasheet, ladder=placement.ladder)
            evidence = msgspec.structs.replace(evidence, roofline_s=least_s, bound=bound)
            found.append((_GROUPS.get(op.kind, "collectives"), _leaf(op, once, taken * beside, evidence)))
    return found


def execution_of(op: Operator, *, once_s: float, factor: float) -> Execution:
    """An operator as a tree shows it: what is not its default of shape and formats."""
    shape = {name: _whole(value) for name in _SHAPE if (value := getattr(op, name)) != getattr(_DEFAULTS, name)}
    formats = {} if op.message_bytes else {"weights": op.weights, "compute": op.compute}
    return Execution(kind=op.kind, count=op.count, once_s=once_s, factor=factor, shape=formats | shape)


def _stretch(parts: Parts, overheads: Overheads, mean: float) -> float:
    """One operator's seconds under the engine's factors; `mean` is what they make of the list's mean product."""
    o = overheads
    further = (
        parts.narrow * (o.narrow - 1.0)
        + parts.weight_only * (o.weight_only - 1.0)
        + parts.experts * (o.experts - 1.0)
        + parts.experts_compute * (o.experts_compute - 1.0)
    )
    return (
        parts.memory * o.memory
        + parts.compute * o.compute
        + mean * further
        + parts.attended_s(o.attention)
        + parts.prefill_attention * o.prefill_attention
        + parts.touch * o.touch
        + parts.collective * o.collective
        + parts.unhidden
    )


def _leaf(op: Operator, once: float, taken: float, evidence: Evidence) -> Quantity:
    """The share of the roofline is that of the kernel as the engine runs it."""
    factor = taken / (op.count * once)
    if evidence.roofline_s is not None and taken:
        evidence = msgspec.structs.replace(evidence, roofline_share=evidence.roofline_s * op.count / taken)
    return Quantity(
        name=op.name, value=taken, unit="s", execution=execution_of(op, once_s=once, factor=factor), evidence=evidence
    )


def _mixed_text(mine: RankRows, step: MixedStep) -> str:
    told = f"{_number(step.prompt_tokens)} tokens of {_number(step.prompts)} prompt{'s' if step.prompts != 1 else ''}"
    if step.cached:
        told += f", {_number(step.cached)} cached before"
    if step.sequences:
        told += f", beside {_number(step.sequences)} sequences at {_number(step.context)} tokens"
    if mine.tokens < step.prompt_tokens:
        told += f"; the fullest rank takes {_number(mine.tokens)} tokens"
    return told


def _whole(value: float) -> float:
    """Sizes as whole numbers where they are; a flag stays one."""
    return int(value) if float(value).is_integer() else value


def _number(value: float) -> str:
    """Three digits of a small number, all of a large one."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
