"""One optimizer step as a tree: `training.step_time`, with operators and exchanges that keep what they were made of.

There is no second formula: the same functions add up `Opened` numbers instead of plain ones, so that parts have their
names and values. Operators are those of the layers' forward and backward passes; an exchange says what it takes and
what of it nothing hides.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.domain.answer import Evidence, Opened, Quantity, named
from tonnage.domain.efficiency import Ladder
from tonnage.domain.training import TrainSetup
from tonnage.physics.operators import roofline_of
from tonnage.physics.training_time import network, training_operator_s
from tonnage.physics.work import Operator
from tonnage.simulation.step_tree import execution_of
from tonnage.simulation.training import step_parts, step_time
from tonnage.simulation.training_exchanges import Exchange, Times
from tonnage.units import show

_DATASHEET: Final = Ladder()

_HOW: Final = {
    "element-wise": "passes over activation values",
    "pipeline exchange": "activations and their gradients from stage to stage, and handing over",
    "bubble": "filling and draining the pipeline: turns of the mean stage",
    "optimizer": "one fused pass over the parameters this rank steps, at the memory's sustained rate",
    "stragglers": "a share of the step for each doubling of the nodes",
    "input": "host work of each sample that nothing hides",
    "host": "fixed work of a step: data, logging, scaling checks",
}


def step_tree(setup: TrainSetup) -> Quantity:
    """One optimizer step of `step_time`, down to operators; of networks without layers, down to its parts."""
    times = OpenTimes(setup=setup, links=network(setup))
    parts = tuple(
        Quantity.total(part.name, part.value.nodes)
        if isinstance(part.value, Opened)
        else times.node(part.name, part.value, how=_HOW.get(part.name, ""))
        for part in step_parts(times)
        if part.value
    )
    count = setup.num_micro_batches
    how = f"{count} micro-batch{'es' if count > 1 else ''} of {setup.micro_batch} sequences a rank, then the optimizer"
    # Parts are added in another order than the formula's: the last digit is the formula's.
    return msgspec.structs.replace(Quantity.total("step", parts, how=how), value=step_time(setup).value)


class OpenTimes(Times, kw_only=True):
    """Times whose operators, exchanges and named sums are `Opened`."""

    def of(self, ops: tuple[Operator, ...], kind: str | None = None) -> float:
        """Operators one after the other, each with its evidence. [s]"""
        return Opened(
            tuple(
                self._operator(op)
                for op in ops
                if op.count and (kind is None or (op.kind == "elementwise") == (kind == "elementwise"))
            )
        )

    def named(self, name: str, seconds: float, *, how: str = "") -> float:
        """The same seconds under a name. [s]"""
        return named(name, seconds, how=how, evidence=self._evidence(name))

    def exposed(self, each: Exchange) -> float:
        """What of an exchange nothing hides, with what it takes. [s]"""
        op, hidden = each.operator, each.spent_s - each.exposed_s
        left = float(each.exposed_s)
        how = f"{each.runs:g} x {show(left, 's')}: takes {show(each.spent_s, 's')}, {show(hidden, 's')} hidden"
        if op is None:
            return Opened((self.node(each.name, each.runs * left, how=how),))
        name = f"{each.name} {op.kind.replace('_', '-')}"
        how += f", {show(op.message_bytes, 'bytes')} over {op.ranks} ranks"
        return Opened((self.node(name, each.runs * left, how=how),))

    def node(self, name: str, seconds: float, *, how: str) -> Quantity:
        """A leaf that rests on the fit. [s]"""
        return Quantity(name=name, value=float(seconds), unit="s", how=how, evidence=self._evidence(name))

    def _operator(self, op: Operator) -> Quantity:
        """All executions of an operator as a leaf, with its evidence and share of the roofline."""
        once, part = training_operator_s(op, self.setup), self.setup.accelerator
        least_s, bound = roofline_of(op, accelerator=part, ladder=_DATASHEET)
        evidence = msgspec.structs.replace(
            self._evidence(f"{op.kind} on {part.architecture}"),
            roofline_s=least_s,
            bound=bound,
            roofline_share=least_s / once if once else None,
        )
        run = execution_of(op, once_s=once, factor=1.0)
        return Quantity(name=op.name, value=op.count * once, unit="s", execution=run, evidence=evidence)

    def _evidence(self, key: str) -> Evidence:
        c = self.setup.coefficients
        return Evidence(tier="fitted", grid=key, source=c.source, file="training/coefficients.toml", date=c.fitted)
