"""How long is one optimizer step, and what is it spent on?

A step is micro-batches through pipeline stages, then the exchange of gradients, then the optimizer:

    step = (m x slowest stage + bubble x mean stage) + exposed DP communication + optimizer + fixed work

A stage's time is its layers' compute (with recompute), the part of TP, CP and EP communication
that nothing hides, and the host's launches where they are longer than the device's work. Networks
without layers (CNNs, U-Nets) are known by totals of one sample: training computes three times the forward FLOP and
passes over every kept value many times, how often by the style of their convolutions.

Ignored: failures and checkpoints (a run, not a step), and load imbalance between experts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import LayerGroup
from tonnage.domain.precision import number_format
from tonnage.domain.training import TrainSetup
from tonnage.errors import BadRequest
from tonnage.physics.efficiency import smooth_max
from tonnage.physics.known import Known, remembered, within
from tonnage.physics.matrices import layer_matrices
from tonnage.physics.network import network_totals
from tonnage.physics.optimizers import newton_schulz_flop, optimizer, step_bytes
from tonnage.physics.pipeline import bubble_turns, split_bubble_s, stage_layers
from tonnage.physics.training_memory import adapter_parameters, held_parameters, recipe
from tonnage.physics.training_time import (
    by_architecture,
    eager_bytes_per_s,
    half_rate_share,
    network,
    sustained_bytes_per_s,
    training_peak,
    transfer_s,
)
from tonnage.physics.training_work import LayerWork, head_work, layer_work
from tonnage.simulation.training_exchanges import (
    Times,
    Turn,
    data_exchanges,
    exposed_s,
    layer_exchanges,
    pipeline_exchange_s,
    replicated_parameters,
)

_HOST_STEP_BYTES: Final = 28.0
"""Adam in 32 bits on the host: gradient read, weights and two moments read and written. [bytes/parameter]"""

_HOST_BYTES_PER_S: Final = 109e9
"""Memory rate that a vectorised Adam reaches on two sockets: 10 G parameters in 2.57 s (arXiv 2101.06840, table 4)."""

_REDONE_PRODUCTS: Final = 0.5
"""Products that PyTorch's per-operation recompute repeats: it keeps the output of every second one (torchtitan)."""

_QUANTISED_PASS_BYTES: Final = 4.5
"""Half a byte read, two written and two read again for every 4-bit weight that is widened."""

_FROZEN_FLOP_PER_VALUE: Final = 4200.0
"""Forward FLOP per activation value of a latent model's encoder: 1.1 TFLOP over 0.26 G values (counted, 512 px)."""

_WINOGRAD: Final = 1.5
"""Multiplications that fp32 convolutions save by Winograd's transform: 2.25 in 3 x 3 ones (arXiv 1509.09308)."""

_EXCHANGES_OF_STEP: Final = 2.0
"""Passes of a step without recomputation that exchange inside layers: forward and backward."""
_LAUNCHES_OF_STEP: Final = 3.0
"""Passes of kernels in the same: one forward, two backward."""
_SHARDED_EXCHANGES: Final = 3.0
"""Of full sharding in a step: weights gathered for either direction, gradients scattered."""


class Passes(NamedTuple):
    """A layer's or the head's passes for one micro-batch, whatever of them is repeated. [s]"""

    work: LayerWork
    compute: tuple[float, float]
    """Forward and backward."""
    moved: tuple[float, float]
    """The same of element-wise work."""
    exchange: float
    """Of one pass, as far as nothing hides it."""
    weights: float
    """Of the backward pass, gradients of weights."""


def step_time(setup: TrainSetup, *, known: Known | None = None) -> Quantity:
    """
    One optimizer step, opened into compute, element-wise work, exchange, bubble, optimizer and host.

    Parameters
    ----------
    known
        Passes that earlier calls found. A plan gives one mapping to all calls for its run, whose setups differ in
        accelerators, software, layout, batches and recomputation alone.
    """
    return Quantity.of_parts("s", step_parts(Times(setup=setup, links=network(setup)), known=known))


def step_parts(times: Times, *, known: Known | None = None) -> tuple[Quantity, ...]:
    """The summands of one optimizer step. [s]"""
    parts = _layer_parts(times, known=known) if times.setup.model.groups else _network_parts(times)
    return _with_stragglers(parts, times)


def _with_stragglers(parts: tuple[Quantity, ...], times: Times) -> tuple[Quantity, ...]:
    """The summands and what the slowest of many nodes adds to them. [s]"""
    nodes = times.setup.layout.ranks / max(1, times.links.domain)
    straggle = times.setup.coefficients.straggler * log2(nodes) if nodes > 1 else 0.0
    return (*parts, _fitted("stragglers", straggle * float(sum(part.value for part in parts))))


def _turns(times: Times, *, known: Known | None = None) -> tuple[Turn, Turn]:
    """The mean layer's turn and the head's: a micro-batch on one rank, whatever other ranks and micro-batches do."""
    setup, groups = times.setup, times.setup.model.groups
    layers, head = remembered(
        known,
        ("passes", within(setup), setup.micro_batch, times.links),
        made=lambda: (
            [_passes(layer_work(g, setup.model.hidden_size, setup=setup), times) for g in groups],
            _passes(head_work(setup), times),
        ),
    )
    turns = [(g.count, _turn(each, times, name=_kind(g))) for g, each in zip(groups, layers, strict=True)]
    return _sum(turns, over=setup.model.depth), _turn(head, times, name="head")


def micro_batch_s(setup: TrainSetup, *, known: Known | None = None) -> float:
    """
    What one micro-batch takes on ranks that hold all layers, exchange inside them included: with the same shapes no
    pipeline, sharding or data-parallel degree makes it less. [s]
    """
    times = Times(setup=setup, links=network(setup))
    if not setup.model.groups:
        return sum(part.value for part in _network_parts(times)[:2]) / setup.num_micro_batches
    layer, head = _turns(times, known=known)
    return layer.total * setup.model.depth + head.total


def _passes(work: LayerWork, times: Times) -> Passes:
    """What each pass of a layer or the head takes."""
    return Passes(
        work=work,
        compute=(times.of(work.forward, "compute"), times.of(work.backward, "compute")),
        moved=(times.of(work.forward, "elementwise"), times.of(work.backward, "elementwise")),
        exchange=sum(times.exposed(each) for each in layer_exchanges(work, times)),
        weights=times.of(tuple(op for op in work.backward if op.name.endswith("weight gradient"))),
    )


def _layer_parts(times: Times, *, known: Known | None) -> tuple[Quantity, ...]:
    """The summands of a step of a model with layers, but for stragglers. [s]"""
    setup, steps = times.setup, times.setup.num_micro_batches
    layer, head = _turns(times, known=known)
    layers = setup.model.depth
    stage = _slowest_stage(layer, head, setup=setup, layers=layers)
    fixed = setup.coefficients.step_s[setup.software.fitted]
    return (
        _fitted("compute", steps * stage.compute),
        _fitted("element-wise", steps * stage.elementwise),
        _fitted("TP, CP and EP communication", steps * stage.exchange),
        _fitted("host", steps * stage.host + times.named("each step", fixed, how="data, logging, scaling checks")),
        _fitted("pipeline exchange", pipeline_exchange_s(times)),
        _fitted("bubble", _bubble_s(layer, head, times, layers=layers)),
        _fitted("DP communication", sum(times.exposed(each) for each in data_exchanges(times, stage=stage))),
        _fitted("optimizer", _optimizer_s(times)),
    )


def _bubble_s(layer: Turn, head: Turn, times: Times, *, layers: int) -> float:
    """Filling and draining the pipeline by the layout's schedule; 0 with one stage. [s]"""
    layout = times.setup.layout
    mean_turn = float(layer.total * layers + head.total) / layout.pp
    if layout.schedule == "1f1b" or layout.pp == 1:
        return bubble_turns(pp=layout.pp, vpp=layout.vpp) * mean_turn
    share = layers / layout.pp
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


def _turn(passes: Passes, times: Times, *, name: str) -> Turn:
    """One layer's forward and backward pass for one micro-batch, recompute included; `name` in an explained step."""
    setup, c = times.setup, times.setup.coefficients
    work, (ahead, back), (ahead_moved, back_moved) = passes.work, passes.compute, passes.moved
    again = times.named("selective recompute", _recompute_s(work, times), how="what the framework repeats")
    repeats = setup.recompute_share if setup.recompute == "full" else 0.0
    further = setup.further_passes
    exchange = (2.0 + repeats + further) * passes.exchange
    if setup.method == "qlora" and work.quantised:
        widened = times.named("widening 4-bit weights", _widen_s(work, times), how="for each pass")
        ahead_moved += widened
        back_moved += (1.0 + repeats) * widened
    runs = 1 + repeats + further
    compute = times.named("forward", ahead) * runs + times.named("backward", back) + again
    moved = times.named("forward", ahead_moved) * runs + times.named("backward", back_moved)
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
        weights=passes.weights,
    )


def _recompute_s(work: LayerWork, times: Times) -> float:
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


def _widen_s(work: LayerWork, times: Times) -> float:
    """Time to widen the 4-bit weights that one pass reads."""
    values = sum(op.n * op.k * op.groups for op in work.forward if op.kind in {"gemm", "grouped_gemm"})
    setup = times.setup
    return setup.coefficients.dequantize * values * _QUANTISED_PASS_BYTES / sustained_bytes_per_s(setup)


def _sum(turns: Sequence[tuple[float, Turn]], *, over: float = 1.0) -> Turn:
    """So many of each turn one after the other, over a count of layers where their mean is wanted."""
    return Turn(
        compute=sum(n * t.compute for n, t in turns) / over,
        elementwise=sum(n * t.elementwise for n, t in turns) / over,
        exchange=sum(n * t.exchange for n, t in turns) / over,
        host=sum(n * t.host for n, t in turns) / over,
        backward=sum(n * t.backward for n, t in turns) / over,
        weights=sum(n * t.weights for n, t in turns) / over,
    )


def _slowest_stage(layer: Turn, head: Turn, *, setup: TrainSetup, layers: int) -> Turn:
    """A micro-batch's turn of a full stage, or of the last with the head, which has fewer layers if uneven. [s]"""
    layout = setup.layout
    full = stage_layers(layers=layers, pp=layout.pp, vpp=layout.vpp)
    uneven = layers % (layout.pp * layout.vpp) != 0 and layout.pp > 1
    last = full - 1 if uneven else full
    headless = layout.pp > 1 and full * layer.total >= last * layer.total + head.total
    return _sum([(full, layer), (0.0, head)] if headless else [(last, layer), (1.0, head)])


def _optimizer_s(times: Times) -> float:
    """
    One fused pass over the parameters this rank steps, on the host where they are offloaded. [s]

    Adapters alone are stepped where they are trained; Muon's orthogonalisation comes on top.
    """
    setup, layout = times.setup, times.setup.layout
    if setup.adapter:
        stepped = adapter_parameters(setup) / (layout.tp * layout.pp)
        stepped /= layout.dp * layout.cp if layout.sharding != "none" else 1
    elif layout.sharding == "none":
        stepped = held_parameters(setup).total
    else:
        stepped = sum(group.held / group.ranks for group in replicated_parameters(setup))
    if setup.offload != "none":
        return _host_step_s(stepped, times)
    orthogonal = _orthogonal_s(setup) if optimizer(setup.optimizer).orthogonal else 0.0
    return stepped * _stepped_bytes(setup) / sustained_bytes_per_s(setup) + orthogonal


def _fitted(name: str, seconds: float) -> Quantity:
    """A summand of a step that rests on the fit. [s]"""
    return Quantity(name=name, value=seconds, basis=Basis.CALIBRATED)


def _stepped_bytes(setup: TrainSetup) -> float:
    """What the optimizer reads and writes for each parameter that it steps. [bytes/parameter]"""
    kept = recipe(setup)
    return step_bytes(
        weight_bytes=kept.weights,
        grad_bytes=kept.gradients * optimizer(setup.optimizer).passes,
        master_bytes=kept.master,
        state_bytes=kept.state,
    )


def _host_step_s(stepped: float, times: Times) -> float:
    """The optimizer on the host: gradients down, the step of all ranks of a node in its memory, weights up."""
    ranks = min(times.setup.layout.ranks, times.setup.accelerators_per_node)
    return stepped * (2.0 * 2.0 / times.links.host + ranks * _HOST_STEP_BYTES / _HOST_BYTES_PER_S)


def _orthogonal_s(setup: TrainSetup) -> float:
    """Muon's Newton-Schulz iterations on every matrix of the layers, shared by the ranks that share the optimizer."""
    layout, part, flop = setup.layout, setup.accelerator, 0.0
    for group in setup.model.groups:
        for matrix in layer_matrices(group, group.hidden_size or setup.model.hidden_size):
            flop += group.count * matrix.copies * newton_schulz_flop(rows=matrix.outputs, columns=matrix.inputs)
    ranks = layout.tp * layout.pp * (layout.dp * layout.cp if layout.sharding != "none" else 1)
    share = by_architecture(setup.coefficients.gemm, part.architecture)
    return 0.0 if setup.adapter else flop / ranks / (training_peak(part, "bf16") * share)


def _network_parts(times: Times) -> tuple[Quantity, ...]:
    """
    The summands of a step of a network without layers, but for stragglers. [s]

    FLOP of one sample count three times; passes over its activation values are those of its style of network.
    """
    setup, c, card = times.setup, times.setup.coefficients, times.setup.accelerator
    flop, values = network_totals(setup.model, image_px=setup.image_px)
    share = by_architecture(c.gemm, card.architecture) * c.convolution
    dtype = number_format(setup.precision).compute
    # The transform is of two dimensions, and volumes have three.
    saved = 1.0 if setup.network_style == "volume" else _WINOGRAD
    share *= {"tf32": c.wide, "fp32": c.single * saved}.get(dtype, 1.0)
    share = half_rate_share(card, dtype, share=share)
    samples = setup.micro_batch * setup.num_micro_batches
    size = 4.0 if dtype in {"fp32", "tf32"} else 2.0
    compute = (3.0 * flop + setup.frozen_flop) * samples / (training_peak(card, dtype) * share)
    separable = setup.network_style == "separable"
    unturned = c.channels_last if setup.channels_last and size < 4 else 1.0
    passes = c.network_passes * (c.separable if separable else c.network_wide if size == 4 else unturned)
    values += setup.frozen_flop / _FROZEN_FLOP_PER_VALUE / 3.0
    moved = passes * values * size * samples / eager_bytes_per_s(setup)
    weights = held_parameters(setup).total
    reduce = transfer_s("all_reduce", weights * size, ranks=setup.layout.dp, stride=1, links=times.links)
    return (
        _fitted("compute", compute),
        _fitted("element-wise", moved),
        Quantity(name="DP communication", value=exposed_s(reduce, (compute + moved) / 2, overlap=c.data_overlap)),
        Quantity(name="optimizer", value=weights * _stepped_bytes(setup) / sustained_bytes_per_s(setup)),
        _fitted("input", c.image_s * samples),
        _fitted("host", c.step_s[setup.software.fitted]),
    )


def forward_time(setup: TrainSetup) -> Quantity:
    """
    One pass of all sequences of an optimizer step through the model as trained, without backward pass. [s]

    What the passes of an old policy, a reference and a critic cost: the step's own forward work, with the exchange and
    the launches that belong to it, through the same pipeline, whose bubble is that of one direction. Weights under full
    sharding are gathered once, where the whole step gathers twice and scatters gradients.

    Raises
    ------
    BadRequest
        The model has no layers.
    """
    model, layout, passes = setup.model, setup.layout, setup.num_micro_batches
    if not model.groups:
        raise BadRequest(f"model: {model.id} has no layers to pass tokens through; give a language model")
    plain = replace(setup, recompute="none", reference="cached")
    times = Times(setup=plain, links=network(plain))
    layer, head = _turns(times)
    stage = _slowest_stage(layer, head, setup=plain, layers=model.depth)
    mean = (model.depth * _ahead(layer) + _ahead(head)) / layout.pp
    gathered = 0.0
    if layout.zero_stage >= 3:
        each = sum(exchange.exposed_s for exchange in data_exchanges(times, stage=stage))
        gathered = passes * each / _SHARDED_EXCHANGES
    parts = (
        _fitted("passes", passes * _ahead(stage)),
        _fitted("bubble", (layout.pp - 1) / layout.vpp * mean),
        _fitted("gathered weights", gathered),
        _fitted("host", setup.coefficients.step_s[setup.software.fitted]),
    )
    return Quantity.of_parts("s", _with_stragglers(parts, times))


def _ahead(turn: Turn) -> float:
    """The forward part of a stage's turn that recomputes nothing. [s]"""
    device = turn.compute + turn.elementwise - turn.backward
    return device + turn.exchange / _EXCHANGES_OF_STEP + turn.host / _LAUNCHES_OF_STEP


def model_flop(setup: TrainSetup) -> float:
    """
    Model FLOP of one optimizer step over all ranks: forward and backward, recompute not counted.

    Attention counts its causal half, as the work list does. Adapters need no gradients of the frozen weights, so that
    a step counts twice the forward pass and not three times; of networks without layers all are counted three times.
    """
    model = setup.model
    if not model.groups:
        return 3.0 * network_totals(model, image_px=setup.image_px)[0] * setup.global_batch
    layout = replace(setup.layout, tp=1, cp=1, ep=1, pp=1)
    whole = replace(setup, layout=layout, micro_batch=1, flash_attention=True)
    forward = 0.0
    for group in model.groups:
        work = layer_work(group, model.hidden_size, setup=whole)
        forward += group.count * sum(op.flop for op in work.forward)
    forward += sum(op.flop for op in head_work(whole).forward)
    return (2.0 if setup.adapter else 3.0) * forward * setup.global_batch
