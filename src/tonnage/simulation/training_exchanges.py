"""
What timing a training step needs to know beside the work, and the exchanges between its ranks.

Exchanges are inside layers, between stages and between data-parallel ranks; each says what of it nothing hides.
"""

from __future__ import annotations

from typing import NamedTuple

from tonnage.domain.training import TrainSetup
from tonnage.physics.collectives import distinct_groups, level_bytes
from tonnage.physics.training_memory import adapter_parameters, held_parameters, recipe, shard_ranks
from tonnage.physics.training_time import Network, training_operator_s, transfer_s
from tonnage.physics.training_work import LayerWork
from tonnage.physics.work import Operator
from tonnage.record import Record


class Exchange(NamedTuple):
    """One exchange between ranks: what one run of it takes, and what of that nothing hides. [s]"""

    name: str
    spent_s: float
    exposed_s: float
    runs: float = 1.0
    """Runs in one pass of a layer, or in a step for exchanges between data-parallel ranks. [-]"""
    operator: Operator | None = None


class Times(Record, kw_only=True):
    """Setup and links of one step."""

    setup: TrainSetup
    links: Network

    def of(self, ops: tuple[Operator, ...], kind: str | None = None) -> float:
        """Operators one after the other; `kind` "compute" or "elementwise" takes only those. [s]"""
        return sum(
            op.count * training_operator_s(op, self.setup)
            for op in ops
            if kind is None or (op.kind == "elementwise") == (kind == "elementwise")
        )

    def named(self, name: str, seconds: float, *, how: str = "") -> float:
        """The same seconds; a step that is explained keeps the name and how they come about. [s]"""
        return seconds

    def exposed(self, each: Exchange) -> float:
        """What of all runs of an exchange nothing hides. [s]"""
        return each.runs * each.exposed_s


class Turn(Record, kw_only=True):
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


def exposed_s(spent: float, compute: float, *, overlap: float) -> float:
    """
    What is left of an exchange: the share that never overlaps, and what compute is too short to hide. [s]

    `overlap` is the share that may run beside compute. [-]
    """
    return (1 - overlap) * spent + max(0.0, overlap * spent - compute)


def layer_exchanges(work: LayerWork, times: Times) -> list[Exchange]:
    """Exchanges of one pass of one layer, forward or backward; what hides them is compute of that pass."""
    setup, c, layout = times.setup, times.setup.coefficients, times.setup.layout
    found = []
    for op in work.exchange:
        if op.name in {"tensor", "expert tensor"}:
            spent = transfer_s(op.kind, op.message_bytes, ranks=op.ranks, stride=1, links=times.links)
            hidden = c.tensor_overlap if setup.sequence_parallel else 0.0
            if layout.async_tp and op.name == "tensor":
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


def pipeline_exchange_s(times: Times) -> float:
    """Activations and their gradients between stages, as far as nothing hides them."""
    setup, layout = times.setup, times.setup.layout
    if layout.pp == 1:
        return 0.0
    tokens = setup.sequences * setup.seq_len / layout.cp / layout.tp  # each tensor rank sends its share
    stride = layout.tp * layout.cp * layout.dp
    inside = times.links.inside if stride * 2 <= times.links.linked else times.links.host
    rate = inside if stride * 2 <= times.links.domain else times.links.outside
    once = setup.value_bytes * tokens * setup.model.hidden_size / rate + times.links.hop_s
    hidden = setup.coefficients.data_overlap if layout.vpp > 1 else 0.0
    turn = setup.coefficients.turn_s[setup.software.fitted] + 2 * once * (1 - hidden) * layout.vpp
    return turn * (setup.num_micro_batches + layout.pp - 1)


def data_exchanges(times: Times, *, stage: Turn) -> list[Exchange]:
    """
    Gradients and gathered weights between data-parallel ranks, and what of them the passes do not hide.

    Routed experts that are spread over ranks have fewer copies than everything else, and exchange among those alone.
    Under full sharding one exchange of each micro-batch is all there is; on one data-parallel rank there is none.
    """
    setup, layout, c = times.setup, times.setup.layout, times.setup.coefficients
    if layout.dp * layout.cp == 1:
        return []
    groups = replicated_parameters(setup)
    wire = 2.0 if setup.adapter or recipe(setup).gradients < 4 else 4.0
    if layout.zero_stage >= 3:
        each = sum(_sharded_s(group, wire, times) for group in groups)
        left = exposed_s(each, stage.total, overlap=c.data_overlap)
        return [Exchange("gathers and scatters of a micro-batch", each, left, setup.num_micro_batches)]
    gathers = layout.zero_stage > 0
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


def replicated_parameters(setup: TrainSetup) -> list[Copied]:
    """What data-parallel ranks share: everything but routed experts, and those among the ranks that hold the same."""
    layout, held = setup.layout, held_parameters(setup)
    dense = trained = held.dense + held.ends
    if setup.adapter:
        trained = min(dense, adapter_parameters(setup) / (layout.tp * layout.pp))
    found = [Copied(dense, trained, layout.dp * layout.cp, layout.tp)]
    if held.experts:
        learned = 0.0 if setup.adapter else held.experts  # adapters of routed experts are not counted either
        found.append(Copied(held.experts, learned, layout.expert_copies, layout.ep * layout.expert_tp))
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
    between = transfer_s("all_reduce", wire * trained / shard, ranks=ranks // shard, stride=stride * shard, links=links)
    return 2 * gather + scatter + between + _streamed_s(held, shard, times)


def _streamed_s(held: float, shard: int, times: Times) -> float:
    """Weights kept on the host come over its link for both passes of a micro-batch, each rank its shard; else 0. [s]"""
    if times.setup.offload != "all":
        return 0.0
    return 2.0 * 2.0 * held / shard / times.links.host
