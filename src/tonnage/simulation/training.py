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
from tonnage.domain.answer import Basis, Part, Quantity
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Model
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.physics.collectives import distinct_groups, level_bytes
from tonnage.physics.efficiency import smooth_max
from tonnage.physics.network import network_totals
from tonnage.physics.optimizers import newton_schulz_flop, optimizer, step_bytes
from tonnage.physics.pipeline import bubble_turns, split_bubble_s, stage_layers
from tonnage.physics.training_memory import (
    adapter_parameters,
    held_parameters,
    layer_matrices,
    recipe,
    shard_ranks,
)
from tonnage.physics.training_time import (
    Network,
    by_architecture,
    network,
    sustained_bytes_per_s,
    training_peak,
    transfer_s,
)
from tonnage.physics.training_work import LayerWork, head_work, layer_work
from tonnage.physics.work import Operator
from tonnage.simulation.training_networks import network_step_parts
from tonnage.simulation.training_times import Times, exposed_s

__all__ = [
    "Exchange", "Stage", "Turn", "Turns", "data_exchanges", "layer_exchanges", "mean_turn_of", "model_flop",
    "recompute_s", "slowest_stage", "stage_turn", "step_time", "times_of", "turn_of", "widen_s",
]  # fmt: skip

_HOST_STEP_BYTES: Final = 28.0
"""Adam in 32 bits on the host: gradient read, weights and two moments read and written. [bytes/parameter]"""

_HOST_BYTES_PER_S: Final = 109e9
"""Memory rate that a vectorised Adam reaches on two sockets: 10 G parameters in 2.57 s (arXiv 2101.06840, table 4)."""

_REDONE_PRODUCTS: Final = 0.5
"""Products that PyTorch's per-operation recompute repeats: it keeps the output of every second one (torchtitan)."""

_QUANTISED_PASS_BYTES: Final = 4.5
"""Half a byte read, two written and two read again for every 4-bit weight that is widened."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one micro-batch takes on one stage, forward and backward."""

    compute: float
    elementwise: float
    exchange: float
    """TP, CP and EP communication that nothing hides."""
    host: float
    """Launches beyond what the device's own work hides."""
    backward: float
    """Share of the whole that exchange of gradients can hide behind. [s]"""
    weights: float = 0.0
    """Of that, gradients of weights, which nothing waits for. [s]"""

    @property
    def total(self) -> float:
        """All of it. [s]"""
        return self.compute + self.elementwise + self.exchange + self.host


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
    layered = bool(model.layers or model.encoder)
    parts = _layered(model, times, known=known) if layered else network_step_parts(model, times)
    nodes = setup.layout.ranks / max(1, times.links.domain)
    straggle = coefficients.straggler * log2(nodes) if nodes > 1 else 0.0
    total = sum(part.value for part in parts)
    parts = (*parts, Part(name="stragglers", value=straggle * total, basis=Basis.CALIBRATED))
    return Quantity.of_parts("s", parts)


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
        turns = [(g.count, turn_of(layer_work(g, model.hidden_size, setup=setup), times)) for g in groups]
        return mean_turn_of(turns), turn_of(head_work(model, setup=setup), times)
    replace = msgspec.structs.replace
    alone = replace(setup.layout, pp=1, vpp=1, dp=1, sharding="none", schedule="1f1b")
    key = (replace(setup, layout=alone, num_micro_batches=1), times.links)
    if key not in known:
        known[key] = _turns(model, times, known=None)
    return known[key]


def _layered(model: Model, times: Times, *, known: Turns | None) -> tuple[Part, ...]:
    setup, layout = times.setup, times.setup.layout
    count = sum(group.count for group in (*model.encoder, *model.layers))
    layer, head = _turns(model, times, known=known)
    stage = stage_turn(layer, head, stage=slowest_stage(layer, head, count=count, layout=layout))
    mean_turn = (layer.total * count + head.total) / layout.pp
    steps = setup.num_micro_batches
    bubble = _bubble_s(layer, head, count, mean_turn=mean_turn, times=times)
    passed = _pipeline_exchange(model, times)
    data = sum(each.runs * each.exposed_s for each in data_exchanges(model, times, stage=stage))
    fixed = times.coefficients.step_s[setup.software.fitted]
    return (
        Part(name="compute", value=steps * stage.compute, basis=Basis.CALIBRATED),
        Part(name="element-wise", value=steps * stage.elementwise, basis=Basis.CALIBRATED),
        Part(name="TP, CP and EP communication", value=steps * stage.exchange, basis=Basis.CALIBRATED),
        Part(
            name="host",
            value=steps * stage.host + fixed,
            basis=Basis.CALIBRATED,
        ),
        Part(name="pipeline exchange", value=passed, basis=Basis.CALIBRATED),
        Part(name="bubble", value=bubble, basis=Basis.CALIBRATED),
        Part(name="DP communication", value=data, basis=Basis.CALIBRATED),
        Part(name="optimizer", value=_optimizer_s(model, times), basis=Basis.CALIBRATED),
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
        pp=layout.pp, forward_s=mean_turn - inputs - weights, input_s=inputs, weight_s=weights,
        schedule=layout.schedule,
    )  # fmt: skip


def turn_of(work: LayerWork, times: Times) -> Turn:
    """One layer's forward and backward pass for one micro-batch, recompute included."""
    setup, c = times.setup, times.coefficients
    ahead, back = times.of(work.forward, "compute"), times.of(work.backward, "compute")
    ahead_moved, back_moved = times.of(work.forward, "elementwise"), times.of(work.backward, "elementwise")
    again = recompute_s(work, times)
    repeats = setup.recompute_share if setup.recompute == "full" else 0.0
    further = setup.further_passes
    exchanges = 2.0 + repeats + further
    exchange = exchanges * sum(each.runs * each.exposed_s for each in layer_exchanges(work, times))
    if setup.method == "qlora" and work.exchange is not None:
        ahead_moved += widen_s(work, times)
        back_moved += (1.0 + repeats) * widen_s(work, times)
    compute = ahead * (1 + repeats + further) + back + again
    moved = ahead_moved * (1 + repeats + further) + back_moved
    launches = (3.0 + repeats + further) * c.layer_s[setup.software.fitted] if work.forward else 0.0
    device = compute + moved + exchange
    host = smooth_max(compute_s=device, memory_s=launches) - device
    if work.experts:
        host += (3.0 + repeats + further) * c.expert_layer_s["fused" if setup.fused_experts else "*"]
    return Turn(
        compute=compute, elementwise=moved, exchange=exchange, host=host,
        backward=back + back_moved + repeats * (ahead + ahead_moved),
        weights=times.of(tuple(op for op in work.backward if op.name.endswith("weight gradient"))),
    )  # fmt: skip


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


class Exchange(NamedTuple):
    """One exchange between ranks: what it takes, and what of it nothing hides. [s]"""

    name: str
    spent_s: float
    exposed_s: float
    runs: float = 1.0
    operator: Operator | None = None


def layer_exchanges(work: LayerWork, times: Times) -> list[Exchange]:
    """Exchanges of one pass of one layer."""
    setup, c, layout = times.setup, times.coefficients, times.setup.layout
    found = []
    for op in work.exchange:
        if op.name == "tensor":
            spent = transfer_s(op.kind, op.message_bytes, ranks=op.ranks, stride=1, links=times.links)
            hidden = c.tensor_overlap if setup.sequence_parallel else 0.0
            if layout.async_tp:
                # Pieces run beside the products of the piece before; the first has none.
                hidden = max(hidden, 1.0 - 1.0 / layout.tp)
            found.append(Exchange(op.name, spent, spent * (1 - hidden), op.count, op))
        elif op.name == "context":
            spent = transfer_s(op.kind, op.message_bytes, ranks=op.ranks, stride=layout.tp, links=times.links)
            core = times.of(tuple(o for o in work.forward if o.name == "attention"))
            found.append(Exchange(op.name, spent, exposed_s(spent, core, overlap=c.data_overlap), 1.0, op))
        else:
            hidden = 1.0 if setup.overlapped_experts else c.expert_overlap
            spent = _expert_exchange_s(op, times)
            found.append(Exchange(op.name, spent, spent * (1 - hidden), op.count, op))
    return found


def _expert_exchange_s(op: Operator, times: Times) -> float:
    """All-to-all of expert parallelism: inside the domain, and once per distinct domain between them."""
    links, per_domain = times.links, min(op.ranks, times.links.domain)
    rate = links.inside if per_domain <= links.linked else links.host
    copies = op.groups  # experts per token
    crossing = distinct_groups(groups=max(1, op.ranks // per_domain), chosen=copies) / copies
    sent = level_bytes(op.kind, op.message_bytes, ranks=op.ranks, per_domain=per_domain, crossing=crossing)
    if op.ranks <= per_domain:
        return sent.inside / rate + links.hop_s
    return max(sent.inside / rate, sent.outside / links.outside) + 4 * links.hop_s


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


def _pipeline_exchange(model: Model, times: Times) -> float:
    """Activations and their gradients between stages, as far as nothing hides them."""
    setup, layout = times.setup, times.setup.layout
    if layout.pp == 1:
        return 0.0
    size = 4 if setup.precision in {"fp32", "tf32"} else 2
    tokens = setup.sequences * setup.seq_len / layout.cp / layout.tp  # each tensor rank sends its share
    stride = layout.tp * layout.cp * layout.dp
    inside = times.links.inside if stride * 2 <= times.links.linked else times.links.host
    rate = inside if stride * 2 <= times.links.domain else times.links.outside
    once = size * tokens * model.hidden_size / rate + times.links.hop_s
    hidden = times.coefficients.data_overlap if layout.vpp > 1 else 0.0
    turn = times.coefficients.turn_s[setup.software.fitted] + 2 * once * (1 - hidden) * layout.vpp
    return turn * (setup.num_micro_batches + layout.pp - 1)


def data_exchanges(model: Model, times: Times, *, stage: Turn) -> list[Exchange]:
    """
    Gradients and gathered weights between data-parallel ranks, and what of them the passes do not hide.

    Routed experts that are spread over ranks have fewer copies than everything else, and exchange among those alone.
    """
    setup, layout, c = times.setup, times.setup.layout, times.coefficients
    if layout.dp * layout.cp == 1:
        return []
    groups = _copied(model, times)
    kept = recipe(setup)
    wire = 2.0 if setup.adapter or kept.gradients < 4 else 4.0
    if layout.sharding in {"zero3", "fsdp", "hsdp"}:
        each = sum(_sharded_s(group, wire, times) for group in groups)
        left = exposed_s(each, stage.total, overlap=c.data_overlap)
        return [Exchange("gathers and scatters of a micro-batch", each, left, setup.num_micro_batches)]
    gathers = layout.sharding in {"zero1", "zero2"}
    reduce = gather = 0.0
    for held, trained, ranks, stride in groups:
        kind = "reduce_scatter" if gathers else "all_reduce"
        reduce += transfer_s(kind, wire * trained, ranks=ranks, stride=stride, links=times.links)
        if gathers and not setup.adapter:
            gather += transfer_s("all_gather", 2.0 * held, ranks=ranks, stride=stride, links=times.links)
    hides = c.data_overlap if setup.software.hides_reduction else 0.0
    # While the host still launches, links are as free as while the device computes.
    backward = stage.backward * (1.0 + stage.host / max(stage.compute + stage.elementwise, 1e-12))
    return [
        Exchange("gradients", reduce, exposed_s(reduce, backward, overlap=hides)),
        Exchange("gathered weights", gather, exposed_s(gather, stage.total - backward, overlap=hides)),
    ]


class Copied(NamedTuple):
    """Parameters that one rank holds with so many others, and how far apart those lie in the job."""

    held: float
    trained: float
    ranks: int
    stride: int


def _copied(model: Model, times: Times) -> list[Copied]:
    """What data-parallel ranks share: everything but routed experts, and those among the ranks that hold the same."""
    setup, layout = times.setup, times.setup.layout
    held = held_parameters(model, setup=setup)
    dense = held.dense + held.ends
    trained = dense
    if setup.adapter:
        trained = min(dense, adapter_parameters(model, setup=setup) / (layout.tp * layout.pp))
    found = [Copied(dense, trained, layout.dp * layout.cp, layout.tp)]
    if held.experts:
        spread = layout.ep > 1
        ranks = max(1, layout.dp * layout.cp * layout.tp // layout.ep) if spread else layout.dp * layout.cp
        learned = 0.0 if setup.adapter else held.experts  # adapters of routed experts are not counted either
        found.append(Copied(held.experts, learned, ranks, layout.ep if spread else layout.tp))
    return found


def _sharded_s(group: Copied, wire: float, times: Times) -> float:
    """Gathers of both passes and the scatter of gradients of one micro-batch, where ranks share every parameter."""
    setup, layout, links = times.setup, times.setup.layout, times.links
    held, trained, ranks, stride = group
    shard = min(ranks, shard_ranks(setup)[0]) if layout.sharding == "hsdp" else ranks
    gathered = (0.55 if setup.method == "qlora" and layout.sharding != "hsdp" else 2.0) * held
    gather = transfer_s("all_gather", gathered, ranks=shard, stride=stride, links=links)
    scatter = transfer_s("reduce_scatter", wire * trained, ranks=shard, stride=stride, links=links)
    # Hybrid sharding: what one node shares is then summed over the nodes.
    between = transfer_s(
        "all_reduce", wire * trained / shard, ranks=ranks // shard, stride=stride * shard, links=links
    )  # fmt: skip
    return 2 * gather + scatter + between + _streamed_s(held, shard, times)


def _streamed_s(dense: float, shard: int, times: Times) -> float:
    """Weights kept on the host come over its link for both passes of a micro-batch, each rank its shard."""
    if times.setup.offload != "all":
        return 0.0
    return 2.0 * 2.0 * dense / shard / times.links.host


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
        stepped = sum(group.held / group.ranks for group in _copied(model, times))
    moved = step_bytes(
        weight_bytes=kept.weights, grad_bytes=kept.gradients * chosen.passes, master_bytes=kept.master,
        state_bytes=kept.state,
    )  # fmt: skip
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
