"""How long is one optimizer step, and what is it spent on?

A step is micro-batches through pipeline stages, then the exchange of gradients, then the optimizer:

    step = (m x slowest stage + bubble x mean stage) + exposed data exchange + optimizer + fixed work

A stage's time is its layers' compute (with recompute), the part of tensor, context and expert exchange
that nothing hides, and the host's launches where they are longer than the device's work. Networks
without layers (CNNs, U-Nets) are timed by their FLOP and the traffic of their activation values.

Ignored: failures and checkpoints (a run, not a step), and load imbalance between experts.
"""

from __future__ import annotations

from math import log2
from typing import Final

import msgspec

from tonnage.errors import Unmeasured
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.answer import Basis, Part, Quantity
from tonnage.nouns.model import Model
from tonnage.nouns.precision import number_format
from tonnage.nouns.training import TrainCoefficients, TrainSetup
from tonnage.physics.efficiency import smooth_max
from tonnage.physics.optimizers import newton_schulz_flop, optimizer, step_bytes
from tonnage.physics.parameters import parameters
from tonnage.physics.pipeline import bubble_turns, stage_layers
from tonnage.physics.training_memory import adapter_parameters, held_parameters, layer_matrices, recipe
from tonnage.physics.training_time import (
    Network,
    network,
    sustained_bytes_per_s,
    training_operator_s,
    training_peak,
    transfer_s,
)
from tonnage.physics.training_work import LayerWork, head_work, layer_work
from tonnage.physics.work import Operator

__all__ = ["Turn", "model_flop", "network_totals", "step_time"]

_FLOP_PER_VALUE: Final = 1300.0
"""Forward FLOP per activation value: ResNet-50 740, SSD300 1,290, nnU-Net 1,380 to 2,120 (networks.toml)."""

_REDONE_PRODUCTS: Final = 0.5
"""Products that PyTorch's per-operation recompute repeats: it keeps the output of every second one (torchtitan)."""

_WINOGRAD: Final = 1.5
"""Multiplications that fp32 convolutions save by Winograd's transform: 2.25 in 3 x 3 ones (arXiv 1509.09308)."""

_QUANTISED_PASS_BYTES: Final = 4.5
"""Half a byte read, two written and two read again for every 4-bit weight that is widened."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one micro-batch takes on one stage, forward and backward."""

    compute: float
    elementwise: float
    exchange: float
    """Tensor, context and expert exchange that nothing hides."""
    host: float
    """Launches beyond what the device's own work hides."""
    backward: float
    """Share of the whole that exchange of gradients can hide behind. [s]"""

    @property
    def total(self) -> float:
        """All of it. [s]"""
        return self.compute + self.elementwise + self.exchange + self.host


class _Times(msgspec.Struct, frozen=True, kw_only=True):
    """What timing needs to know beside the work."""

    accelerator: Accelerator
    setup: TrainSetup
    coefficients: TrainCoefficients
    links: Network

    def of(self, ops: tuple[Operator, ...], kind: str | None = None) -> float:
        return sum(
            op.count
            * training_operator_s(
                op,
                accelerator=self.accelerator,
                software=self.setup.software,
                coefficients=self.coefficients,
                native=self.setup.native_attention,
            )
            for op in ops
            if kind is None or (op.kind == "elementwise") == (kind == "elementwise")
        )


def step_time(
    model: Model, *, accelerator: Accelerator, setup: TrainSetup, coefficients: TrainCoefficients
) -> Quantity:
    """
    One optimizer step, opened into compute, element-wise work, exchange, bubble, optimizer and host.
    """
    times = _Times(
        accelerator=accelerator,
        setup=setup,
        coefficients=coefficients,
        links=network(accelerator, setup=setup, coefficients=coefficients),
    )
    parts = _layered(model, times) if model.layers or model.encoder else _networked(model, times)
    nodes = setup.layout.ranks / max(1, times.links.domain)
    straggle = coefficients.straggler * log2(nodes) if nodes > 1 else 0.0
    total = sum(part.value for part in parts)
    parts = (*parts, Part(name="stragglers", value=straggle * total, basis=Basis.CALIBRATED))
    return Quantity.of_parts("s", parts)


def _layered(model: Model, times: _Times) -> tuple[Part, ...]:
    setup, layout = times.setup, times.setup.layout
    groups = (*model.encoder, *model.layers)
    turns = [(g.count, _turn(layer_work(g, model.hidden_size, setup=setup), times)) for g in groups]
    count = sum(n for n, _ in turns)
    layer = _mean(turns)
    head = _turn(head_work(model, setup=setup), times)
    stage = _stage_turn(layer, head, count, times)
    mean_turn = (layer.total * count + head.total) / layout.pp
    steps = setup.num_micro_batches
    bubble = bubble_turns(pp=layout.pp, vpp=layout.vpp) * mean_turn
    passed = _pipeline_exchange(model, times)
    data = _data_exchange(model, times, stage)
    return (
        Part(name="compute", value=steps * stage.compute, basis=Basis.CALIBRATED),
        Part(name="element-wise", value=steps * stage.elementwise, basis=Basis.CALIBRATED),
        Part(name="tensor, context and expert exchange", value=steps * stage.exchange, basis=Basis.CALIBRATED),
        Part(name="host", value=steps * stage.host + times.coefficients.step_s[setup.software], basis=Basis.CALIBRATED),
        Part(name="pipeline exchange", value=passed, basis=Basis.CALIBRATED),
        Part(name="bubble", value=bubble, basis=Basis.CALIBRATED),
        Part(name="data exchange", value=data, basis=Basis.CALIBRATED),
        Part(name="optimizer", value=_optimizer_s(model, times), basis=Basis.CALIBRATED),
    )


def _turn(work: LayerWork, times: _Times) -> Turn:
    """One layer's forward and backward pass for one micro-batch, recompute included."""
    setup, c = times.setup, times.coefficients
    ahead, back = times.of(work.forward, "compute"), times.of(work.backward, "compute")
    ahead_moved, back_moved = times.of(work.forward, "elementwise"), times.of(work.backward, "elementwise")
    again = _repeated(work, times)
    repeats = setup.recompute_share if setup.recompute == "full" else 0.0
    exchanges = 2.0 + repeats
    exchange = exchanges * _layer_exchange(work, times)
    if setup.method == "qlora" and work.exchange is not None:
        ahead_moved += _widen_s(work, times)
        back_moved += (1.0 + repeats) * _widen_s(work, times)
    compute = ahead * (1 + repeats) + back + again
    moved = ahead_moved * (1 + repeats) + back_moved
    launches = (3.0 + repeats) * c.layer_s[setup.software] if work.forward else 0.0
    device = compute + moved + exchange
    host = smooth_max(compute_s=device, memory_s=launches) - device
    if work.experts:
        host += (3.0 + repeats) * c.expert_layer_s
    return Turn(
        compute=compute, elementwise=moved, exchange=exchange, host=host,
        backward=back + back_moved + repeats * (ahead + ahead_moved),
    )  # fmt: skip


def _repeated(work: LayerWork, times: _Times) -> float:
    """Selective recompute: the attention core once more, or element-wise work in PyTorch's per-operation form."""
    setup = times.setup
    if setup.recompute != "selective":
        return 0.0
    if setup.software in {"megatron", "deepspeed"}:
        if setup.flash_attention:
            expanded = tuple(op for op in work.forward if op.name.startswith("kv_b_proj"))
            return times.of(work.forward, "elementwise") + times.of(expanded)
        core = tuple(op for op in work.forward if op.name in {"attention", "scores"})
        return times.of(core)
    return times.of(work.forward, "elementwise") + _REDONE_PRODUCTS * times.of(work.forward, "compute")


def _widen_s(work: LayerWork, times: _Times) -> float:
    """Time to widen the 4-bit weights that one pass reads."""
    values = sum(op.n * op.k * op.groups for op in work.forward if op.kind in {"gemm", "grouped_gemm"})
    rate = sustained_bytes_per_s(times.accelerator, times.coefficients)
    return times.coefficients.dequantize * values * _QUANTISED_PASS_BYTES / rate


def _layer_exchange(work: LayerWork, times: _Times) -> float:
    """Exchange of one pass that compute does not hide."""
    setup, c, layout = times.setup, times.coefficients, times.setup.layout
    seconds = 0.0
    for op in work.exchange:
        if op.name == "tensor":
            spent = transfer_s(op.kind, op.message_bytes, ranks=op.ranks, stride=1, links=times.links)
            hidden = c.tensor_overlap if setup.sequence_parallel else 0.0
            seconds += op.count * spent * (1 - hidden)
        elif op.name == "context":
            spent = transfer_s(op.kind, op.message_bytes, ranks=op.ranks, stride=layout.tp, links=times.links)
            core = times.of(tuple(o for o in work.forward if o.name == "attention"))
            seconds += _exposed(spent, core, c.data_overlap)
        else:
            hidden = 1.0 if setup.overlapped_experts else c.expert_overlap
            seconds += op.count * _expert_exchange_s(op, times) * (1 - hidden)
    return seconds


def _expert_exchange_s(op: Operator, times: _Times) -> float:
    """All-to-all of expert parallelism: inside the domain, and once per distinct domain between them."""
    links, per_domain = times.links, min(op.ranks, times.links.domain)
    inside = op.message_bytes * (1 - 1 / per_domain) / (links.inside if per_domain <= links.linked else links.host)
    domains = max(1, op.ranks // per_domain)
    if domains == 1:
        return inside + links.hop_s
    copies = op.groups  # experts per token
    distinct = float(domains * (1 - (1 - 1 / domains) ** copies))
    outside = op.message_bytes / copies * distinct * (1 - 1 / domains) / links.outside
    return max(inside, outside) + 4 * links.hop_s


def _mean(turns: list[tuple[int, Turn]]) -> Turn:
    count = sum(n for n, _ in turns)
    return Turn(
        compute=sum(n * t.compute for n, t in turns) / count,
        elementwise=sum(n * t.elementwise for n, t in turns) / count,
        exchange=sum(n * t.exchange for n, t in turns) / count,
        host=sum(n * t.host for n, t in turns) / count,
        backward=sum(n * t.backward for n, t in turns) / count,
    )


def _stage_turn(layer: Turn, head: Turn, count: int, times: _Times) -> Turn:
    """The slowest stage: a full one, or the last one with the head (which gets fewer layers when they are uneven)."""
    layout = times.setup.layout
    full = stage_layers(layers=count, pp=layout.pp, vpp=layout.vpp)
    uneven = count % (layout.pp * layout.vpp) != 0 and layout.pp > 1
    last = full - 1 if uneven else full
    with_head = 1.0
    if layout.pp > 1 and full * layer.total >= last * layer.total + head.total:
        last, with_head = full, 0.0
    return Turn(
        compute=last * layer.compute + with_head * head.compute,
        elementwise=last * layer.elementwise + with_head * head.elementwise,
        exchange=last * layer.exchange + with_head * head.exchange,
        host=last * layer.host + with_head * head.host,
        backward=last * layer.backward + with_head * head.backward,
    )


def _pipeline_exchange(model: Model, times: _Times) -> float:
    """Activations and their gradients between stages, as far as nothing hides them."""
    setup, layout = times.setup, times.setup.layout
    if layout.pp == 1:
        return 0.0
    size = 4 if setup.precision in {"fp32", "tf32"} else 2
    tokens = setup.micro_batch * setup.seq_len / layout.cp / layout.tp  # each tensor rank sends its share
    stride = layout.tp * layout.cp * layout.dp
    inside = times.links.inside if stride * 2 <= times.links.linked else times.links.host
    rate = inside if stride * 2 <= times.links.domain else times.links.outside
    once = size * tokens * model.hidden_size / rate + times.links.hop_s
    hidden = times.coefficients.data_overlap if layout.vpp > 1 else 0.0
    turn = times.coefficients.turn_s[setup.software] + 2 * once * (1 - hidden) * layout.vpp
    return turn * (setup.num_micro_batches + layout.pp - 1)


def _data_exchange(model: Model, times: _Times, stage: Turn) -> float:
    """Gradients and gathered weights between data-parallel ranks, beyond what the backward pass hides."""
    setup, layout, c = times.setup, times.setup.layout, times.coefficients
    ranks = layout.dp * layout.cp
    if ranks == 1:
        return 0.0
    held = held_parameters(model, setup=setup)
    trained = held.total
    if setup.adapter:
        trained = adapter_parameters(model, setup=setup) / (layout.tp * layout.pp)
    dense = held.dense + held.ends
    kept = recipe(setup).gradients
    wire = 2.0 if setup.adapter or kept < 4 else 4.0
    stride = layout.tp
    gathered = 0.0
    if layout.sharding in {"zero3", "fsdp", "hsdp", "zero2"} or layout.sharding == "zero1":
        gathered = 2.0 * dense
        if setup.adapter and layout.sharding in {"fsdp", "zero3"} and setup.method == "qlora":
            gathered = 0.55 * dense
    if layout.sharding in {"zero3", "fsdp", "hsdp"}:
        gather = transfer_s("all_gather", gathered, ranks=ranks, stride=stride, links=times.links)
        scatter = transfer_s(
            "reduce_scatter", wire * min(trained, dense), ranks=ranks, stride=stride, links=times.links
        )
        each = 2 * gather + scatter
        return setup.num_micro_batches * _exposed(each, stage.total, c.data_overlap)
    reduce = transfer_s("all_reduce" if not gathered else "reduce_scatter", wire * min(trained, dense), ranks=ranks,
                        stride=stride, links=times.links)  # fmt: skip
    gather = transfer_s("all_gather", gathered if not setup.adapter else 0.0, ranks=ranks, stride=stride,
                        links=times.links)  # fmt: skip
    hides = 0.0 if setup.software == "deepspeed" else c.data_overlap
    return _exposed(reduce, stage.backward, hides) + _exposed(gather, stage.total - stage.backward, hides)


def _exposed(spent: float, compute: float, overlap: float) -> float:
    """What is left of an exchange: the share that never overlaps, and what compute is too short to hide."""
    return (1 - overlap) * spent + max(0.0, overlap * spent - compute)


def _optimizer_s(model: Model, times: _Times) -> float:
    """One fused pass over the parameters this rank steps."""
    setup, layout = times.setup, times.setup.layout
    chosen = optimizer(setup.optimizer)
    if setup.adapter:
        stepped, kept = adapter_parameters(model, setup=setup) / (layout.tp * layout.pp), recipe(setup)
    else:
        stepped, kept = held_parameters(model, setup=setup).total, recipe(setup)
    if layout.sharding != "none":
        stepped /= layout.dp * layout.cp
    moved = step_bytes(
        weight_bytes=kept.weights, grad_bytes=kept.gradients * chosen.passes, master_bytes=kept.master,
        state_bytes=kept.state,
    )  # fmt: skip
    rate = sustained_bytes_per_s(times.accelerator, times.coefficients)
    return stepped * moved / rate + (_orthogonal_s(model, times) if chosen.orthogonal else 0.0)


def _orthogonal_s(model: Model, times: _Times) -> float:
    """Muon's Newton-Schulz iterations on every matrix of the layers, shared by the ranks that share the optimizer."""
    setup, layout = times.setup, times.setup.layout
    flop = 0.0
    for group in (*model.encoder, *model.layers):
        for matrix in layer_matrices(group, group.hidden_size or model.hidden_size):
            flop += group.count * matrix.copies * newton_schulz_flop(rows=matrix.outputs, columns=matrix.inputs)
    ranks = layout.tp * layout.pp * (layout.dp * layout.cp if layout.sharding != "none" else 1)
    share = times.coefficients.gemm.get(times.accelerator.architecture, times.coefficients.gemm["*"])
    return 0.0 if setup.adapter else flop / ranks / (training_peak(times.accelerator, "bf16") * share)


def _networked(model: Model, times: _Times) -> tuple[Part, ...]:
    """A network without layers: its FLOP three times, and passes over its activation values."""
    setup, c, card = times.setup, times.coefficients, times.accelerator
    flop, values = network_totals(model, image_px=setup.image_px)
    share = c.gemm.get(card.architecture, c.gemm["*"]) * c.convolution
    dtype = number_format(setup.precision).compute
    share *= {"tf32": c.wide, "fp32": c.single * _WINOGRAD}.get(dtype, 1.0)
    samples = setup.micro_batch * setup.num_micro_batches
    size = 4.0 if dtype in {"fp32", "tf32"} else 2.0
    compute = 3.0 * flop * samples / (training_peak(card, dtype) * share)
    rate = sustained_bytes_per_s(card, c)
    passes = c.network_passes * (c.network_wide if size == 4 else 1.0)
    moved = passes * values * size * samples / rate
    weights = parameters(model).value
    reduce = transfer_s("all_reduce", weights * size, ranks=setup.layout.dp, stride=1, links=times.links)
    kept = recipe(setup)
    chosen = optimizer(setup.optimizer)
    stepped = step_bytes(
        weight_bytes=kept.weights, grad_bytes=kept.gradients * chosen.passes, master_bytes=kept.master,
        state_bytes=kept.state,
    )  # fmt: skip
    return (
        Part(name="compute", value=compute, basis=Basis.CALIBRATED),
        Part(name="element-wise", value=moved, basis=Basis.CALIBRATED),
        Part(name="data exchange", value=_exposed(reduce, (compute + moved) / 2, c.data_overlap)),
        Part(name="optimizer", value=weights * stepped / rate),
        Part(name="input", value=c.image_s * samples, basis=Basis.CALIBRATED),
        Part(name="host", value=c.step_s[setup.software], basis=Basis.CALIBRATED),
    )


def network_totals(model: Model, *, image_px: int | None = None) -> tuple[float, float]:
    """
    Forward FLOP and activation values of one sample at an input size.

    Both grow with the input's area. Activation values that nobody counted follow from the FLOP at the
    ratio of ordinary convolutional networks.

    Raises
    ------
    Unmeasured
        The model has neither layers nor a published FLOP count.
    """
    network = model.network
    if network is None or not network.flop:
        raise Unmeasured(f"model: {model.id} has no layers and no published FLOP; give its FLOP per sample")
    values = network.activation_values or network.flop / _FLOP_PER_VALUE
    scale = (image_px / network.input_px) ** 2 if image_px and network.input_px else 1.0
    return network.flop * scale, values * scale


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
