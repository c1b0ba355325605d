"""One optimizer step as a tree: each part of `step_time` opened into layers, passes and operators.

Parts have the names and values of `training.step_time`. Operators are those of the layers' forward and backward passes,
priced as there; what recompute adds repeats them. An exchange says what it takes and what of it nothing hides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.breakdown import Evidence, Node
from tonnage.domain.efficiency import Ladder
from tonnage.domain.model import LayerGroup, Model
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.physics.operators import roofline_of
from tonnage.physics.training_time import training_operator_s
from tonnage.physics.training_work import LayerWork, head_work, layer_work
from tonnage.physics.work import Operator
from tonnage.simulation.step_tree import execution_of
from tonnage.simulation.training import (
    mean_turn_of,
    recompute_s,
    slowest_stage,
    stage_turn,
    step_time,
    times_of,
    turn_of,
    widen_s,
)
from tonnage.simulation.training_exchanges import Exchange, data_exchanges, layer_exchanges
from tonnage.simulation.training_times import Times
from tonnage.units import show

__all__ = ["step_tree"]

_Opens = Callable[[LayerWork, Times], tuple[Node, ...]]

_DATASHEET: Final = Ladder()


class _Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Layers of one kind, or the head, as often as the slowest stage runs them in a step."""

    name: str
    work: LayerWork
    runs: float
    how: str


def step_tree(model: Model, *, accelerator: Accelerator, setup: TrainSetup, coefficients: TrainCoefficients) -> Node:
    """One optimizer step of `step_time`, down to operators; of networks without layers, down to its parts."""
    step = step_time(model, accelerator=accelerator, setup=setup, coefficients=coefficients)
    opened: dict[str, Node] = {}
    if model.layers or model.encoder:
        opened = _layer_nodes(model, times_of(accelerator, setup, coefficients=coefficients))
    parts = tuple(
        opened.get(part.name) or _fitted_node(part.name, part.value, coefficients, _HOW.get(part.name, ""))
        for part in step.parts
    )
    count = setup.num_micro_batches
    how = f"{count} micro-batch{'es' if count > 1 else ''} of {setup.micro_batch} sequences a rank, then the optimizer"
    return Node(name="step", value=step.value, unit="s", how=how, parts=parts)


_HOW: Final = {
    "element-wise": "passes over activation values",
    "pipeline exchange": "activations and their gradients from stage to stage, and handing over",
    "bubble": "filling and draining the pipeline: turns of the mean stage",
    "optimizer": "one fused pass over the parameters this rank steps, at the memory's sustained rate",
    "stragglers": "a share of the step for each doubling of the nodes",
    "input": "host work of each sample that nothing hides",
    "host": "fixed work of a step: data, logging, scaling checks",
}


def _layer_nodes(model: Model, times: Times) -> dict[str, Node]:
    """Compute, element-wise work, exchange, host and DP communication, by the name of the part."""
    setup, c = times.setup, times.coefficients
    groups = (*model.encoder, *model.layers)
    works = [(group, layer_work(group, model.hidden_size, setup=setup)) for group in groups]
    layer = mean_turn_of([(group.count, turn_of(work, times)) for group, work in works])
    count, top = sum(group.count for group in groups), head_work(model, setup=setup)
    head = turn_of(top, times)
    stage = slowest_stage(layer, head, count=count, layout=setup.layout)
    steps = setup.num_micro_batches
    pieces = [
        _Piece(
            name=_kind(group),
            work=work,
            runs=steps * stage.layers * group.count / count,
            how=f"{stage.layers * group.count / count:.4g} layers x {steps} micro-batches",
        )
        for group, work in works
    ]
    if stage.head:
        pieces.append(_Piece(name="head", work=top, runs=float(steps), how=f"{steps} micro-batches"))
    data = data_exchanges(model, times, stage=stage_turn(layer, head, stage=stage))
    fixed = _fitted_node("each step", c.step_s[setup.software.fitted], c, "data, logging, scaling checks")
    return {
        "compute": Node.total("compute", _each(pieces, times, _compute)),
        "element-wise": Node.total("element-wise", _each(pieces, times, _elementwise)),
        "TP, CP and EP communication": Node.total("TP, CP and EP communication", _each(pieces, times, _exchange)),
        "host": Node.total("host", (*_each(pieces, times, _host), fixed)),
        "DP communication": Node.total("DP communication", tuple(_exposed_node(each, c) for each in data)),
    }


def _kind(group: LayerGroup) -> str:
    experts = getattr(group.feed_forward, "num_experts", None)
    return f"layers with {experts} experts" if experts else "layers"


def _each(pieces: list[_Piece], times: Times, opens: _Opens) -> tuple[Node, ...]:
    """What each kind of layer adds to one part of the step."""
    return tuple(Node.total(piece.name, opens(piece.work, times), times=piece.runs, how=piece.how) for piece in pieces)


def _compute(work: LayerWork, times: Times) -> tuple[Node, ...]:
    return (
        Node.total("forward", _leaves(work.forward, times, moved=False)),
        Node.total("forward again", _leaves(work.forward, times, moved=False), times=_repeats(times),
                   how="full recompute"),
        Node.total("forward of reference and policy", _leaves(work.forward, times, moved=False),
                   times=times.setup.further_passes, how="without gradients"),
        Node.total("backward", _leaves(work.backward, times, moved=False)),
        _fitted_node("selective recompute", recompute_s(work, times), times.coefficients, "what the framework repeats"),
    )  # fmt: skip


def _elementwise(work: LayerWork, times: Times) -> tuple[Node, ...]:
    repeats, widened = _repeats(times), 0.0
    if times.setup.method == "qlora" and work.exchange is not None:
        widened = 2.0 * (1.0 + repeats) * widen_s(work, times)
    return (
        Node.total("forward", _leaves(work.forward, times, moved=True)),
        Node.total("forward again", _leaves(work.forward, times, moved=True), times=repeats, how="full recompute"),
        Node.total(
            "forward of reference and policy",
            _leaves(work.forward, times, moved=True),
            times=times.setup.further_passes,
            how="without gradients",
        ),
        Node.total("backward", _leaves(work.backward, times, moved=True)),
        _fitted_node("widening 4-bit weights", widened, times.coefficients, "for each pass"),
    )


def _exchange(work: LayerWork, times: Times) -> tuple[Node, ...]:
    passes = 2.0 + _repeats(times) + times.setup.further_passes
    parts = tuple(_exposed_node(each, times.coefficients) for each in layer_exchanges(work, times))
    return (Node.total("exposed", parts, times=passes, how=f"{passes:g} passes"),)


def _host(work: LayerWork, times: Times) -> tuple[Node, ...]:
    beside = "routing of tokens among them, " if work.experts else ""
    how = f"{beside}host and device side by side"
    return (_fitted_node("launches beyond the device's work", turn_of(work, times).host, times.coefficients, how),)


def _repeats(times: Times) -> float:
    """Forward passes that full recompute adds."""
    return times.setup.recompute_share if times.setup.recompute == "full" else 0.0


def _leaves(ops: tuple[Operator, ...], times: Times, *, moved: bool) -> tuple[Node, ...]:
    """Operators that compute, or those that only move data."""
    return tuple(_leaf(op, times) for op in ops if (op.kind == "elementwise") == moved and op.count)


def _leaf(op: Operator, times: Times) -> Node:
    setup, c = times.setup, times.coefficients
    once = training_operator_s(op, accelerator=times.accelerator, setup=setup, coefficients=c)
    least_s, bound = roofline_of(op, accelerator=times.accelerator, ladder=_DATASHEET)
    evidence = msgspec.structs.replace(
        _evidence(c, f"{op.kind} on {times.accelerator.architecture}"),
        roofline_s=least_s,
        bound=bound,
        roofline_share=least_s / once if once else None,
    )
    run = execution_of(op, once_s=once, factor=1.0)
    return Node(name=op.name, value=op.count * once, unit="s", execution=run, evidence=evidence)


def _exposed_node(each: Exchange, coefficients: TrainCoefficients) -> Node:
    """What of an exchange nothing hides."""
    op = each.operator
    message = f", {show(op.message_bytes, 'bytes')} over {op.ranks} ranks" if op is not None else ""
    hidden = each.spent_s - each.exposed_s
    how = f"{each.runs:g} x {show(each.exposed_s, 's')}: takes {show(each.spent_s, 's')}, {show(hidden, 's')} hidden"
    kind = f"{each.name} {op.kind.replace('_', '-')}" if op is not None else each.name
    return _fitted_node(kind, each.runs * each.exposed_s, coefficients, how + message)


def _fitted_node(name: str, seconds: float, coefficients: TrainCoefficients, how: str) -> Node:
    return Node(name=name, value=seconds, unit="s", how=how, evidence=_evidence(coefficients, name))


def _evidence(coefficients: TrainCoefficients, key: str) -> Evidence:
    return Evidence(
        tier="fitted",
        grid=key,
        source=coefficients.source,
        file="training/coefficients.toml",
        date=coefficients.fitted,
    )
