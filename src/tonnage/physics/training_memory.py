"""How much memory does one accelerator need at the peak of a training step, and for what?

Persistent state (weights, gradients, master copy, optimizer) follows the recipe of the software and is
divided by tensor, pipeline, expert and data parallelism. On top stand activations, which peak when a
forward pass ends, or one layer's working set, when a backward pass ends: the larger moment counts and
its parts are shown. The fullest pipeline stage is returned.

Ignored: variable-length batches (the longest one sets the peak) and activations moved to the host.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.model import Model
from tonnage.domain.precision import number_format
from tonnage.domain.training import OBJECTIVES, TrainSetup
from tonnage.physics.activations import logit_bytes, mean_layer_bytes, residual_bytes
from tonnage.physics.adapters import adapted_matrices
from tonnage.physics.known import Known, remembered, within
from tonnage.physics.matrices import layer_matrices
from tonnage.physics.network import network_totals, traced_moments
from tonnage.physics.optimizers import optimizer, state_bytes_per_parameter
from tonnage.physics.parameters import (
    embedding_parameters,
    head_parameters,
    layer_parameters,
    parameters,
    position_parameters,
)
from tonnage.physics.pipeline import in_flight, stage_layers
from tonnage.record import Record

REFERENCE: Final = "reference model"
_REFERENCE_BYTES: Final = 2.0
"""Of a weight of the reference: 16 bits, or 32 where the policy trains in them. [bytes/parameter]"""
EXACT: Final = frozenset({"weights", "frozen weights", "master weights", "optimizer", REFERENCE})
"""Parts that follow from counts and formats alone: no measurement of the peak can lie below their sum."""

_COMING_AND_GOING: Final = frozenset({"activations", "communication", "gradients"})


class Recipe(Record, kw_only=True):
    """Bytes per trained parameter, before any sharding."""

    weights: float
    gradients: float
    master: float
    state: float
    wide_gradients: float = 0.0
    """A 32-bit copy of the gradients of only those parameters that this rank steps."""

    @property
    def total(self) -> float:
        """Bytes per parameter when nothing is sharded: the rule of thumb's 16 or 18. [bytes/parameter]"""
        return self.weights + self.gradients + self.master + self.state + self.wide_gradients


class Held(Record, kw_only=True):
    """Parameters one rank works on in the fullest stage, before data-parallel sharding."""

    dense: float
    experts: float
    ends: float
    """Embedding, positions and head."""
    unit: float
    """The largest layer, which FSDP gathers whole."""
    frozen: float = 0.0
    """Beside them and never trained: text encoders and the autoencoder of latent diffusion."""

    @property
    def total(self) -> float:
        """All that is trained. [parameters]"""
        return self.dense + self.experts + self.ends


def recipe(setup: TrainSetup) -> Recipe:
    """What the software keeps per trained parameter for this precision and optimizer."""
    chosen = optimizer(setup.optimizer)
    own = chosen.bits
    if setup.value_bytes == 4 or number_format(setup.weights).bits >= 32:
        return Recipe(weights=4, gradients=4, master=0, state=_state(chosen.states, own or 32))
    if not setup.master_weights:
        return Recipe(weights=2, gradients=2, master=0, state=_state(chosen.states, own or 16))
    state = _state(chosen.states, own or 32)
    if setup.software.mixed_precision == "accumulated":
        if setup.precision in {"fp8", "mxfp8", "nvfp4"}:
            # 8-bit weights and their transpose, 16-bit gradients: the recipes that publish FP8 speeds.
            kept = 2.0 if setup.transposed_weights else 1.0
            return Recipe(weights=kept, gradients=(setup.gradient_bits or 16) / 8, master=4, state=state)
        # bf16: gradients accumulate in 32 bits; fp16: 16-bit gradients and a 32-bit copy for the optimizer.
        wide = 6.0 if setup.precision == "fp16" else (setup.gradient_bits or 32) / 8
        return Recipe(weights=2, gradients=wide, master=4, state=state)
    if setup.software.mixed_precision == "partitioned":
        if setup.gradient_bits == 32:
            # DeepSpeed's BF16_Optimizer adds whole gradients up in 32 bits beside the 16-bit ones.
            return Recipe(weights=2, gradients=6, master=4, state=state)
        # ZeRO keeps 16-bit gradients whole and widens those of its own partition for the optimizer.
        return Recipe(weights=2, gradients=2, master=4, state=state, wide_gradients=4)
    # Automatic mixed precision: the weights themselves are the 32-bit copy.
    return Recipe(weights=4, gradients=4, master=0, state=state)


def _on_device(kept: Recipe, setup: TrainSetup) -> Recipe:
    """What stays on the device under offload: only gathered units when weights go to the host as well."""
    if setup.offload == "none":
        return Recipe(
            weights=kept.weights,
            gradients=kept.gradients,
            master=kept.master,
            state=0.0 if setup.paged_states else kept.state,
            wide_gradients=kept.wide_gradients,
        )
    weights = 0.0 if setup.offload == "all" else kept.weights
    return Recipe(weights=weights, gradients=kept.gradients, master=0.0, state=0.0)


def _state(states: float, bits: float) -> float:
    return state_bytes_per_parameter(states=states, state_bits=bits)


def held_parameters(setup: TrainSetup) -> Held:
    """
    Parameters of the fullest stage's rank: layers divided by tp, experts by ep and etp, embedding and head by tp.

    Nothing is divided among data-parallel ranks here (`shard_ranks`).
    """
    layout = setup.layout
    return _held(setup.model, layout.tp, (layout.ep, layout.expert_tp, layout.etp or 1), pp=layout.pp, vpp=layout.vpp)


@lru_cache(maxsize=1024)  # a search asks for the same few degrees under every sharding and batch
def _held(model: Model, tp: int, experts_over: tuple[int, int, int], *, pp: int, vpp: int) -> Held:
    """
    What the fullest stage's rank works on.

    `experts_over`: expert-parallel ranks, ranks that cut each expert, and ranks that still cut it when full sharding
    gathers a layer. A network without layers is one stage, whose largest unit is taken as an eighth of it.
    """
    count = model.depth
    towers = sum(tower.parameters for tower in model.towers)
    # Latent diffusion trains its denoiser; what encodes texts and images is frozen (arXiv 2112.10752, section 3.3).
    frozen = towers if "diffusion" in model.kind else 0.0
    if not count:
        trained = parameters(model).value - frozen
        return Held(dense=trained, experts=0.0, ends=0.0, unit=trained / 8, frozen=frozen)
    share = stage_layers(layers=count, pp=pp, vpp=vpp) / count
    dense, experts, unit, (ep, expert_tp, gathered_tp) = 0.0, 0.0, 0.0, experts_over
    for group in model.groups:
        hidden = group.hidden_size or model.hidden_size
        matrices = layer_matrices(group, hidden)
        routed = sum(m.size * m.copies for m in matrices if m.split == "experts")
        cut = sum(m.size / min(tp, m.parts or tp) for m in matrices if m.split in {"outputs", "inputs"})
        whole = layer_parameters(group, hidden) - sum(m.size * m.copies for m in matrices if m.split != "whole")
        dense += group.count * (cut + whole)
        experts += group.count * routed / (ep * expert_tp)
        unit = max(unit, cut + whole + routed / (ep * gathered_tp))
    ends = embedding_parameters(model) + position_parameters(model)
    ends = max(ends, head_parameters(model)) if pp > 1 else ends + head_parameters(model)
    beside = (towers - frozen + model.extra_parameters) / tp
    return Held(dense=dense * share + beside, experts=experts * share, ends=ends / tp, unit=unit, frozen=frozen)


def adapter_parameters(setup: TrainSetup) -> float:
    """
    Trainable parameters of the adapters over all ranks: rank x (inputs + outputs) of every adapted matrix.

    DoRA adds one magnitude per output. Routed experts carry no adapters unless the case states a count.
    """
    if setup.trainable_parameters is not None:
        return setup.trainable_parameters
    magnitudes = 1 if setup.method == "dora" else 0
    return sum(
        group.count * (setup.lora_rank * (matrix.outputs + pieces * matrix.inputs) + magnitudes * matrix.outputs)
        for group, matrix, pieces in adapted_matrices(setup.model, setup.lora_targets)
    )


def training_memory(setup: TrainSetup, *, memory_kind: str = "reserved", known: Known | None = None) -> Quantity:
    """
    Peak memory of the fullest rank, opened into its parts at the moment of the peak.

    `memory_kind` says what is counted: "allocated" by tensors, "reserved" with the allocator's fragmentation, "device"
    as the driver shows it, with context and communicator buffers, "need" the same where memory is short and the
    allocator gives back what it can. Headroom is the caller's. `known` is what earlier calls for the same run found.
    """
    states = "states", within(setup), setup.layout
    persistent, gradients, gathered = remembered(known, states, made=lambda: _states(setup))
    moments = (*_moments(setup, gradients, known), *_stepping(setup, gradients))
    parts = max(moments, key=lambda found: sum(part.value for part in found))
    parts = (*persistent, *_reference(setup), *parts, _part("communication", gathered, "gathered units, buckets"))
    extra = _beyond_tensors(setup, memory_kind)
    if memory_kind != "allocated":
        room = setup.accelerator.driver_memory_bytes - sum(part.value for part in (*parts, *extra))
        lost = _lost(setup, parts, room=0.0 if memory_kind == "need" else room)
        extra = (_fitted("fragmentation", lost), *extra)
    return Quantity.of_parts("bytes", (*parts, *extra))


def _lost(setup: TrainSetup, parts: tuple[Quantity, ...], *, room: float) -> float:
    """
    What the allocator holds and cannot use, where `room` bytes are left. [bytes]

    One that runs out gives back what is free and asks again (CUDACachingAllocator): then it loses the least of all.
    """
    shares = setup.coefficients.fragmentation
    loose = sum(part.value for part in parts if part.name in _loose(setup))
    usual = shares.get(setup.software.fitted, shares["*"])
    return max(shares["*"] * loose, min(usual * loose, room))


def _part(name: str, value: float, source: str = "") -> Quantity:
    return Quantity(name=name, value=value, source=source)


def _fitted(name: str, value: float, source: str = "") -> Quantity:
    return Quantity(name=name, value=value, source=source, basis=Basis.CALIBRATED)


def _loose(setup: TrainSetup) -> frozenset[str]:
    """
    Parts that come and go in every step, in blocks of many sizes: what an allocator's cache is left over from. Logits
    are a few blocks of one size.
    """
    return _COMING_AND_GOING - ({"gradients"} if setup.software.contiguous_gradients else set())


def _beyond_tensors(setup: TrainSetup, memory_kind: str) -> tuple[Quantity, ...]:
    """Context and communicators: what the driver shows and the framework does not."""
    if memory_kind not in {"device", "need"} or setup.accelerator.vendor.lower() == "google":
        return ()
    c = setup.coefficients
    shared = c.collective_bytes if setup.layout.ranks > 1 else 0.0
    return _fitted("context", c.context_bytes), _fitted("communicators", shared)


def _reference(setup: TrainSetup) -> tuple[Quantity, ...]:
    """
    Weights of the frozen reference that DPO and KTO compare a whole policy with, on one rank.

    Adapters need none, for the base without them is the reference; log-probabilities cached before the run need none.
    """
    if not OBJECTIVES[setup.objective].reference or setup.reference == "cached" or setup.adapter:
        return ()
    held = _of_rank(held_parameters(setup), setup, divided=setup.layout.zero_stage >= 3)
    width = 2.0 * _REFERENCE_BYTES if setup.value_bytes == 4 else _REFERENCE_BYTES
    return (_part(REFERENCE, width * held, "weights as they are loaded, frozen"),)


def _of_rank(held: Held, setup: TrainSetup, *, divided: bool) -> float:
    """What a rank has of the parameters, where data-parallel ranks divide them or each has all. [parameters]"""
    dense, experts = held.dense + held.ends, held.experts
    if not divided:
        return dense + experts
    dense_ranks, expert_ranks = shard_ranks(setup)
    return dense / dense_ranks + experts / expert_ranks


def _states(setup: TrainSetup) -> tuple[tuple[Quantity, ...], float, float]:
    """Persistent parts, the gradients of one rank, and buffers of sharded training. [bytes]"""
    if setup.model.kind == "recommender":
        return _table_states(setup), 0.0, 0.0
    held = held_parameters(setup)
    if setup.adapter:
        return _adapter_states(setup, held)
    kept = _on_device(recipe(setup), setup)

    def bytes_of(per_parameter: float, from_stage: int) -> float:
        return per_parameter * _of_rank(held, setup, divided=setup.layout.zero_stage >= from_stage)

    widened = 0.0 if setup.software.widens_at_step else kept.wide_gradients
    copies = 2 if setup.layout.schedule == "dualpipe" else 1  # a rank serves a stage from either end
    whole = kept.weights * held.total if setup.loads_whole and setup.layout.zero_stage >= 3 else 0.0
    parts = [
        _part("weights", copies * bytes_of(kept.weights, 3) + whole, "parameters x format"),
        _part("master weights", bytes_of(kept.master + widened, 1), "32-bit copies"),
        _part("optimizer", bytes_of(kept.state, 1), optimizer(setup.optimizer).source),
    ]
    if held.frozen:
        parts.append(_part("frozen weights", 2.0 * held.frozen, "text encoders and autoencoder"))
    # FSDP accumulates its shard of the gradients on the device whatever is offloaded; DeepSpeed moves them at once.
    hosted = setup.offload == "all" and setup.software.hosts_gradients
    gradients = 0.0 if hosted else bytes_of(kept.gradients, 2)
    if not setup.grads_kept:
        gradients = kept.gradients * max(held.ends / 2, held.unit)  # one layer's or the head's at a time
    return tuple(parts), gradients, _buffers(setup, held, gradients)


def _table_states(setup: TrainSetup) -> tuple[Quantity, ...]:
    """Embedding tables spread over all ranks: only rows of a batch have gradients, row-wise states are under 1 %."""
    rows = parameters(setup.model).value / setup.layout.ranks
    return (_part("weights", 4.0 * rows, "tables in 32 bits over all ranks (arXiv 2104.05158)"),)


def _adapter_states(setup: TrainSetup, held: Held) -> tuple[tuple[Quantity, ...], float, float]:
    """A frozen base in its format and adapters trained in full: parts, gradients and buffers, as `_states`. [bytes]"""
    stage, (dense_ranks, expert_ranks) = setup.layout.zero_stage, shard_ranks(setup)
    shards, expert_shards = (dense_ranks, expert_ranks) if stage >= 3 else (1, 1)
    stored = number_format(_base_format(setup))
    sixteen = 4.0 if setup.wide_layers else setup.value_bytes
    matrices = stored.bytes if stored.bits < 16 else sixteen
    base = matrices * (held.dense / shards + held.experts / expert_shards) + sixteen * held.ends / shards
    if setup.loads_whole and shards > 1:
        base += base * shards
    if setup.offload == "all":
        base = 0.0
    adapters = adapter_parameters(setup) / (setup.layout.tp * setup.layout.pp)
    chosen = optimizer(setup.optimizer)
    width = 4 if setup.master_weights else 2
    state = _state(chosen.states, chosen.bits or 8 * width)
    parts = (
        _part("weights", base + adapters * width, f"frozen base in {stored.name}, adapters"),
        _part("optimizer", adapters * state / (dense_ranks if stage >= 1 else 1), chosen.source),
    )
    gathered = 2 * held.unit * matrices if stage >= 3 else 0.0
    if setup.method == "qlora":
        gathered += held.unit * sixteen / 4  # matrices are widened one at a time, a quarter of a layer at most
    return parts, adapters * width, gathered


def _base_format(setup: TrainSetup) -> str:
    """
    Format of the frozen base.

    Software with primary weights of its own keeps them in 8 bits where products run in 8: 70B with LoRA in FP8 takes
    82 GB in MLPerf's logs, whose 16-bit base alone would be 138.
    """
    if setup.method == "qlora":
        return "nf4"
    eight = number_format(setup.precision).bits == 8 and setup.software.mixed_precision == "accumulated"
    return "fp8" if eight and number_format(setup.weights).bits == 16 else setup.weights


def shard_ranks(setup: TrainSetup) -> tuple[int, int]:
    """Ranks that share one copy of the dense and of the expert parameters."""
    layout = setup.layout
    dense = layout.dp * layout.cp
    if layout.sharding == "hsdp":
        dense = min(dense, max(1, setup.accelerators_per_node // layout.tp))
    experts = max(1, dense * layout.tp // (layout.ep * layout.expert_tp))
    return dense, experts


def _buffers(setup: TrainSetup, held: Held, gradients: float) -> float:
    """Gathered units of sharded training; a second copy of the gradients in PyTorch's data-parallel buckets."""
    whole, size, software = setup.layout.zero_stage >= 3, setup.value_bytes, setup.software
    if software.bucket_values:
        buckets = software.bucket_copies * size * min(software.bucket_values, held.total)
        return buckets + (2 * size * held.unit if whole else 0.0)
    if whole:
        # Gathered units (two with prefetch), and the gradients of one before they are scattered.
        return 2 * software.gathered_units * size * held.unit
    if setup.layout.dp > 1 and software.reduces_copies:
        return gradients
    return 0.0


def _moments(setup: TrainSetup, gradients: float, known: Known | None) -> tuple[tuple[Quantity, ...], ...]:
    """
    The moments that can be the peak: the end of the forward pass, and the beginning and end of the backward pass.

    `gradients` are those of one rank; where they do not stay between micro-batches they count at the end alone. [bytes]
    """
    if not setup.model.groups:
        return _network_moments(setup, gradients)
    tokens = setup.sequences * setup.seq_len / setup.layout.cp
    kept, working, embedding, logits = _activations(setup, tokens, known)
    held = _part("gradients", gradients if _gradients_stay(setup) else 0.0)
    factor = setup.coefficients.activation[setup.software.fitted]
    kept *= 1.0 if setup.recompute == "full" else factor  # a layer's input alone is exact

    def activations(value: float) -> Quantity:
        return _fitted("activations", value, "arXiv 2205.05198 accounting")

    cast = _part("weights in 16 bits", _cast_bytes(setup), "autocast's copies of a whole forward pass")
    forward = held, activations(kept + embedding), _part("logits", logits, "logits, 32-bit copy, gradient"), cast
    deep = held, activations(kept + factor * working), *((cast,) if setup.recompute == "none" else ())
    return forward, deep, (_part("gradients", gradients), activations(factor * working + embedding))


def _cast_bytes(setup: TrainSetup) -> float:
    """
    16-bit copies of 32-bit matrices that autocast keeps from their first use until its context ends, or the backward
    pass has used them where layers are not recomputed: 6 bytes a weight in the guides of Transformers. [bytes]
    """
    if not setup.residual_is_wide or setup.adapter or not setup.software.kernel_by_kernel:
        return 0.0
    held = held_parameters(setup)
    return 2.0 * (held.dense + held.experts + head_parameters(setup.model) / setup.layout.tp)


def _stepping(setup: TrainSetup, gradients: float) -> tuple[tuple[Quantity, ...], ...]:
    """The moment of the optimizer's step, where gradients are copied to 32 bits only then; else none."""
    if not setup.software.widens_at_step or setup.adapter or not setup.model.layers:
        return ()
    stepped = _of_rank(held_parameters(setup), setup, divided=setup.layout.zero_stage >= 1)
    wide = _on_device(recipe(setup), setup).wide_gradients * stepped
    return ((_part("gradients", gradients), _part("gradients in 32 bits", wide, "copied at the step")),)


def _gradients_stay(setup: TrainSetup) -> bool:
    """Gradients live through the whole step: contiguous buffers, or accumulation over micro-steps."""
    # PyTorch loops that were written for accumulation zero their gradients instead of freeing them.
    return setup.grads_kept and (setup.software.zeroes_gradients or setup.num_micro_batches > 1)


def _activations(setup: TrainSetup, tokens: float, known: Known | None) -> tuple[float, float, float, float]:
    """
    Bytes of kept activations of the fullest stage, of a recomputed layer's working set, the embedding and the logits.

    `tokens` are those of one micro-batch on one rank; what several in flight keep is counted here.
    """
    layout, model = setup.layout, setup.model
    count, width = model.depth, model.hidden_size
    layer = "layer", within(setup), setup.recompute, setup.recompute_share
    per_layer, working = remembered(known, layer, made=lambda: mean_layer_bytes(setup))
    flying = in_flight(pp=layout.pp, vpp=layout.vpp, micro_batches=setup.num_micro_batches, schedule=layout.schedule)
    layers = stage_layers(layers=count, pp=layout.pp, vpp=layout.vpp)
    spread = layout.tp if setup.sequence_parallel else 1
    # Some pipelines hold what a stage hands on as well, until its gradient comes back; others free it.
    handed = flying if layout.pp > 1 and setup.software.keeps_handed_on else 0
    embedding = residual_bytes(setup) * width / spread * ((flying if layout.pp > 1 else 1) + handed)
    logits = 0.0
    if model.logit_columns and not OBJECTIVES[setup.objective].scores:
        logits = logit_bytes(model.logit_columns, setup=setup) * tokens * setup.predicted_share
    if layout.pp > 1:
        # The last stage holds the logits but one micro-batch in flight; the first stage is fuller or it is.
        last = per_layer * layers * in_flight(pp=layout.pp, vpp=layout.vpp, micro_batches=1, stage=layout.pp - 1)
        logits = max(0.0, logits - tokens * (per_layer * layers * flying - last))
    return tokens * per_layer * layers * flying, tokens * working, tokens * embedding, logits


def _network_moments(setup: TrainSetup, gradients: float) -> tuple[tuple[Quantity, ...], ...]:
    """A network without layers: its activation values, kept before and after each normalisation."""
    model, values = setup.model, setup.kept_values
    if model.profile is not None and model.profile.moments:
        return traced_moments(model.profile, setup, gradients=gradients, stay=_gradients_stay(setup))
    if values is None:
        values = network_totals(model, image_px=setup.image_px)[1] if model.network and model.network.flop else 0.0
    kept = setup.coefficients.network_values * values * setup.value_bytes * setup.micro_batch
    return ((_part("gradients", gradients), _fitted("activations", kept, "activation values x format")),)
