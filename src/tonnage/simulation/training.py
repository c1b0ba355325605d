"""How long is one optimizer step, and what is it spent on?

A step is micro-batches through pipeline stages, then the exchange of gradients, then the optimizer:

    step = (m x slowest stage + bubble x mean stage) + exposed DP communication + optimizer + fixed work

A stage's time is its layers' compute (with recompute), the part of TP, CP and EP communication
that nothing hides, and the host's launches where they are longer than the device's work. Networks
without layers (CNNs, U-Nets) are timed by their FLOP and the traffic of their activation values.

Ignored: failures and checkpoints (a run, not a step), and load imbalance between experts.
"""

from __future__ import annotations

from math import log2
from typing import Final, NamedTuple

import msgspec

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import LayerGroup, Model
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.physics.efficiency import smooth_max
from tonnage.physics.network import network_totals
from tonnage.physics.optimizers import newton_schulz_flop, optimizer, step_bytes
from tonnage.physics.pipeline import bubble_turns, split_bubble_s, stage_layers
from tonnage.physics.training_memory import (
    adapter_parameters,
    held_parameters,
    layer_matrices,
    recipe,
)
from tonnage.physics.training_time import (
    Network,
    by_architecture,
    network,
    sustained_bytes_per_s,
    training_peak,
)
from tonnage.physics.training_work import LayerWork, head_work, layer_work
from tonnage.simulation.training_exchanges import (
    data_exchanges,
    layer_exchanges,
    pipeline_exchange_s,
    replicated_parameters,
)
from tonnage.simulation.training_networks import network_step_parts
from tonnage.simulation.training_times import Times, Turn

__all__ = [
    "Stage",
    "Turns",
    "mean_turn_of",
    "model_flop",
    "slowest_stage",
    "stage_turn",
    "step_parts",
    "step_time",
    "times_of",
    "turn_of",
]

_HOST_STEP_BYTES: Final = 28.0
"""Adam in 32 bits on the host: gradient read, weights and two moments read and written. [bytes/parameter]"""

_HOST_BYTES_PER_S: Final = 109e9
"""Memory rate that a vectorised Adam reaches on two sockets: 10 G parameters in 2.57 s (arXiv 2101.06840, table 4)."""

_REDONE_PRODUCTS: Final = 0.5
"""Products that PyTorch's per-operation recompute repeats: it keeps the output of every second one (torchtitan)."""

_QUANTISED_PASS_BYTES: Final = 4.5
"""Half a byte read, two written and two read again for every 4-bit weight that is widened."""


Turns = dict[tuple[TrainSetup, Network], tuple[Turn, Turn]]
"""Turns of the mean layer and of the head by what they depend on, for one model, accelerator and set of numbers."""


def step_time(
    model: Model,
    *,
    accelerator: Accelerator,
    setup: TrainSetup,
    coefficients: TrainCoefficients,
    known: Turns | None = None,
) -> Quantity:
    """
    One optimizer step, opened into compute, element-wise work, exchange, bubble, optimizer and host.

    Parameters
    ----------
    known
        Turns that earlier calls for the same model, accelerator and coefficients found; a search passes one mapping to
        all its calls, because most of its setups differ in pipeline, sharding and data-parallel degree alone.
    """
    times = times_of(accelerator, setup, coefficients=coefficients)
    return Quantity.of_parts("s", step_parts(model, times, known=known))


def step_parts(model: Model, times: Times, *, known: Turns | None = None) -> tuple[Quantity, ...]:
    """The summands of one optimizer step. [s]"""
    layered = bool(model.layers or model.encoder)
    parts = _layer_parts(model, times, known=known) if layered else network_step_parts(model, times)
    nodes = times.setup.layout.ranks / max(1, times.links.domain)
    straggle = times.coefficients.straggler * log2(nodes) if nodes > 1 else 0.0
    total = float(sum(part.value for part in parts))
    return (*parts, Quantity(name="stragglers", value=straggle * total, basis=Basis.CALIBRATED))


def times_of(accelerator: Accelerator, setup: TrainSetup, *, coefficients: TrainCoefficients) -> Times:
    """What timing one step needs to know beside the work."""
    links = network(accelerator, setup=setup, coefficients=coefficients)
    return Times(accelerator=accelerator, setup=setup, coefficients=coefficients, links=links)


class Stage(NamedTuple):
    """What the slowest pipeline stage runs for a micro-batch: so many layers of the mean one, and the head or not."""

    layers: int
    head: float


def _turns(model: Model, times: Times, *, known: Turns | None) -> tuple[Turn, Turn]:
    """The mean layer's turn and the head's: a micro-batch on one rank, whatever other ranks and micro-batches do."""
    setup = times.setup
    if known is None:
        groups = (*model.encoder, *model.layers)
        turns = [
            (g.count, turn_of(layer_work(g, model.hidden_size, setup=setup), times, name=_kind(g))) for g in groups
        ]
        return mean_turn_of(turns), turn_of(head_work(model, setup=setup), times, name="head")
    replace = msgspec.structs.replace
    alone = replace(setup.layout, pp=1, vpp=1, dp=1, sharding="none", schedule="1f1b")
    key = (replace(setup, layout=alone, num_micro_batches=1), times.links)
    if key not in known:
        known[key] = _turns(model, times, known=None)
    return known[key]


def _layer_parts(model: Model, times: Times, *, known: Turns | None) -> tuple[Quantity, ...]:
    setup, layout = times.setup, times.setup.layout
    count = sum(group.count for group in (*model.encoder, *model.layers))
    layer, head = _turns(model, times, known=known)
    stage = stage_turn(layer, head, stage=slowest_stage(layer, head, count=count, layout=layout))
    mean_turn = float(layer.total * count + head.total) / layout.pp
    steps = setup.num_micro_batches
    bubble = _bubble_s(layer, head, count, mean_turn=mean_turn, times=times)
    passed = pipeline_exchange_s(model, times)
    data = sum(times.exposed(each) for each in data_exchanges(model, times, stage=stage))
    fixed = times.coefficients.step_s[setup.software.fitted]
    return (
        Quantity(name="compute", value=steps * stage.compute, basis=Basis.CALIBRATED),
        Quantity(name="element-wise", value=steps * stage.elementwise, basis=Basis.CALIBRATED),
        Quantity(name="TP, CP and EP communication", value=steps * stage.exchange, basis=Basis.CALIBRATED),
        Quantity(
            name="host",
            value=steps * stage.host + times.named("each step", fixed, how="data, logging, scaling checks"),
            basis=Basis.CALIBRATED,
        ),
        Quantity(name="pipeline exchange", value=passed, basis=Basis.CALIBRATED),
        Quantity(name="bubble", value=bubble, basis=Basis.CALIBRATED),
        Quantity(name="DP communication", value=data, basis=Basis.CALIBRATED),
        Quantity(name="optimizer", value=_optimizer_s(model, times), basis=Basis.CALIBRATED),
    )


def _bubble_s(layer: Turn, head: Turn, count: int, *, mean_turn: float, times: Times) -> float:
    """Filling and draining the pipeline."""
    layout = times.setup.layout
    if layout.schedule == "1f1b" or layout.pp == 1:
        return bubble_turns(pp=layout.pp, vpp=layout.vpp) * mean_turn
    share = count / layout.pp
    weights = share * layer.weights + head.weights / layout.pp
    inputs = share * layer.backward + head.backward / layout.pp - weights
    return split_bubble_s(
        pp=layout.pp,
        forward_s=mean_turn - inputs - weights,
        input_s=inputs,
        weight_s=weights,
        schedule=layout.schedule,
    )


def _kind(group: LayerGroup) -> str:
    experts = getattr(group.feed_forward, "num_experts", None)
    return f"layers with {experts} experts" if experts else "layers"


def turn_of(work: LayerWork, times: Times, *, name: str = "") -> Turn:
    """One layer's forward and backward pass for one micro-batch, recompute included; `name` in an explained step."""
    setup, c = times.setup, times.coefficients
    ahead, back = times.of(work.forward, "compute"), times.of(work.backward, "compute")
    ahead_moved, back_moved = times.of(work.forward, "elementwise"), times.of(work.backward, "elementwise")
    again = times.named("selective recompute", recompute_s(work, times), how="what the framework repeats")
    repeats = setup.recompute_share if setup.recompute == "full" else 0.0
    further = setup.further_passes
    exchanges = 2.0 + repeats + further
    exchange = exchanges * sum(times.exposed(each) for each in layer_exchanges(work, times))
    if setup.method == "qlora" and work.quantised:
        widened = times.named("widening 4-bit weights", widen_s(work, times), how="for each pass")
        ahead_moved += widened
        back_moved += (1.0 + repeats) * widened
    passes = 1 + repeats + further
    compute = times.named("forward", ahead) * passes + times.named("backward", back) + again
    moved = times.named("forward", ahead_moved) * passes + times.named("backward", back_moved)
    launches = (3.0 + repeats + further) * c.layer_s[setup.software.fitted] if work.forward else 0.0
    if work.experts:
        launches += (3.0 + repeats + further) * c.expert_layer_s["fused" if setup.fused_experts else "*"]
    device = compute + moved + exchange
    host = smooth_max(compute_s=device, memory_s=launches) - device
    each = "for each micro-batch" if name == "head" else "for each layer of the slowest stage and each micro-batch"
    beside = "routing of tokens and launches" if work.experts else "launches"
    return Turn(
        compute=times.named(name, compute, how=each),
        elementwise=times.named(name, moved, how=each),
        exchange=times.named(name, exchange, how=each),
        host=times.named(name, host, how=f"{beside} beyond the device's work, {each}"),
        backward=back + back_moved + repeats * (ahead + ahead_moved),
        weights=times.of(tuple(op for op in work.backward if op.name.endswith("weight gradient"))),
    )


def recompute_s(work: LayerWork, times: Times) -> float:
    """Selective recompute: the attention core once more, or element-wise work in PyTorch's per-operation form."""
    setup = times.setup
    if setup.recompute != "selective":
        return 0.0
    if setup.software.selective == "attention":
        if setup.flash_attention:
            expanded = tuple(op for op in work.forward if op.name.startswith("kv_b_proj"))
            return times.of(work.forward, "elementwise") + times.of(expanded)
        core = tuple(op for op in work.forward if op.name in {"attention", "scores"})
        return times.of(core)
    return times.of(work.forward, "elementwise") + _REDONE_PRODUCTS * times.of(work.forward, "compute")


def widen_s(work: LayerWork, times: Times) -> float:
    """Time to widen the 4-bit weights that one pass reads."""
    values = sum(op.n * op.k * op.groups for op in work.forward if op.kind in {"gemm", "grouped_gemm"})
    rate = sustained_bytes_per_s(times.accelerator, times.coefficients)
    return times.coefficients.dequantize * values * _QUANTISED_PASS_BYTES / rate


def mean_turn_of(turns: list[tuple[int, Turn]]) -> Turn:
    """The mean layer of groups of layers."""
    count = sum(n for n, _ in turns)
    return Turn(
        compute=sum(n * t.compute for n, t in turns) / count,
        elementwise=sum(n * t.elementwise for n, t in turns) / count,
        exchange=sum(n * t.exchange for n, t in turns) / count,
        host=sum(n * t.host for n, t in turns) / count,
        backward=sum(n * t.backward for n, t in turns) / count,
        weights=sum(n * t.weights for n, t in turns) / count,
    )


def slowest_stage(layer: Turn, head: Turn, *, count: int, layout: TrainLayout) -> Stage:
    """A full stage, or the last one with the head (which gets fewer layers when they are uneven)."""
    full = stage_layers(layers=count, pp=layout.pp, vpp=layout.vpp)
    uneven = count % (layout.pp * layout.vpp) != 0 and layout.pp > 1
    last = full - 1 if uneven else full
    if layout.pp > 1 and full * layer.total >= last * layer.total + head.total:
        return Stage(full, 0.0)
    return Stage(last, 1.0)


def stage_turn(layer: Turn, head: Turn, *, stage: Stage) -> Turn:
    """Seconds of that stage."""
    last, with_head = stage
    return Turn(
        compute=last * layer.compute + with_head * head.compute,
        elementwise=last * layer.elementwise + with_head * head.elementwise,
        exchange=last * layer.exchange + with_head * head.exchange,
        host=last * layer.host + with_head * head.host,
        backward=last * layer.backward + with_head * head.backward,
    )


def _optimizer_s(model: Model, times: Times) -> float:
    """One fused pass over the parameters this rank steps."""
    setup, layout = times.setup, times.setup.layout
    chosen = optimizer(setup.optimizer)
    kept = recipe(setup)
    if setup.adapter:
        stepped = adapter_parameters(model, setup=setup) / (layout.tp * layout.pp)
        stepped /= layout.dp * layout.cp if layout.sharding != "none" else 1
    elif layout.sharding == "none":
        stepped = held_parameters(model, setup=setup).total
    else:
        stepped = sum(group.held / group.ranks for group in replicated_parameters(model, times))
    moved = step_bytes(
        weight_bytes=kept.weights,
        grad_bytes=kept.gradients * chosen.passes,
        master_bytes=kept.master,
        state_bytes=kept.state,
    )
    rate = sustained_bytes_per_s(times.accelerator, times.coefficients)
    if setup.offload != "none":
        return _host_step_s(stepped, times)
    return stepped * moved / rate + (_orthogonal_s(model, times) if chosen.orthogonal else 0.0)


def _host_step_s(stepped: float, times: Times) -> float:
    """The optimizer on the host: gradients down, the step of all ranks of a node in its memory, weights up."""
    ranks = min(times.setup.layout.ranks, times.setup.accelerators_per_node)
    return stepped * (2.0 * 2.0 / times.links.host + ranks * _HOST_STEP_BYTES / _HOST_BYTES_PER_S)


def _orthogonal_s(model: Model, times: Times) -> float:
    """Muon's Newton-Schulz iterations on every matrix of the layers, shared by the ranks that share the optimizer."""
    setup, layout = times.setup, times.setup.layout
    flop = 0.0
    for group in (*model.encoder, *model.layers):
        for matrix in layer_matrices(group, group.hidden_size or model.hidden_size):
            flop += group.count * matrix.copies * newton_schulz_flop(rows=matrix.outputs, columns=matrix.inputs)
    ranks = layout.tp * layout.pp * (layout.dp * layout.cp if layout.sharding != "none" else 1)
    share = by_architecture(times.coefficients.gemm, times.accelerator.architecture)
    return 0.0 if setup.adapter else flop / ranks / (training_peak(times.accelerator, "bf16") * share)


def model_flop(model: Model, *, setup: TrainSetup) -> float:
    """
    Model FLOP of one optimizer step over all ranks: forward and backward, recompute not counted.

    Attention counts its causal half, as the work list does.
    """
    if not model.layers and not model.encoder:
        return 3.0 * network_totals(model, image_px=setup.image_px)[0] * setup.global_batch
    whole = msgspec.structs.replace(
        setup,
        layout=msgspec.structs.replace(setup.layout, tp=1, cp=1, ep=1, pp=1),
        micro_batch=1,
        flash_attention=True,
    )
    forward = 0.0
    for group in (*model.encoder, *model.layers):
        work = layer_work(group, model.hidden_size, setup=whole)
        forward += group.count * sum(op.flop for op in work.forward)
    forward += sum(op.flop for op in head_work(model, setup=whole).forward)
    return (2.0 if setup.adapter else 3.0) * forward * setup.global_batch
