"""From a training case with open degrees to a setup with none: what is chosen, and why.

Stated degrees are kept. The rest follows habit of the software (`framework_defaults.py`), and of what fits the fastest
is taken, looking no deeper into pipelines than needed. Every choice is a sentence in the notes, so that nobody
takes a choice for a fact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, get_args

from msgspec.structs import asdict, replace

from tonnage.catalog.fitted import training_coefficients, with_training_totals
from tonnage.catalog.hardware import multiprocessors_of
from tonnage.core import train_estimate as estimate
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity
from tonnage.domain.case import TrainCase
from tonnage.domain.layout import Sharding, TrainLayout
from tonnage.domain.model import Attention, LatentAttention, LayerGroup, Model, Moe
from tonnage.domain.precision import number_format
from tonnage.domain.training import SoftwareSpec, TrainSetup
from tonnage.errors import BadRequest, UnknownName
from tonnage.questions.train import framework_defaults
from tonnage.record import Record
from tonnage.simulation.training import step_time
from tonnage.units import percent

SHARDINGS: Final[tuple[str, ...]] = get_args(Sharding)
_ENDS: Final = 2
"""Embedding and head, which may be stages of their own (Llama 3 405B: 126 layers on 16 x 8 stages)."""


def check_degrees(case: TrainCase, model: Model) -> None:
    """
    Refuses a stated degree that does not divide what it splits.

    Raises
    ------
    UnknownName
        No such sharding.
    BadRequest
        A tensor degree that divides no heads, more pipeline stages than layers, experts where there are none.
    """
    said = case.layout
    if said.sharding is not None and said.sharding not in SHARDINGS:
        raise UnknownName("sharding", said.sharding, known=SHARDINGS)
    groups, layers = model.groups, model.depth
    if said.tp and said.tp > 1:
        counts = (getattr(group.mixer, "num_attention_heads", None) for group in groups)
        odd = next((heads for heads in counts if heads and heads % said.tp), None)
        if odd is not None:
            raise BadRequest(f"layout.tp: {said.tp} does not divide the {odd} attention heads of {model.id}")
    if said.pp and layers and said.pp * (said.vpp or 1) > layers + _ENDS:
        stages = f"{said.pp} x {said.vpp} virtual" if said.vpp and said.vpp > 1 else f"{said.pp}"
        raise BadRequest(f"layout.pp: {stages} stages are more than the {layers} layers of {model.id}")
    if said.ep and said.ep > 1:
        experts = [group.feed_forward.num_experts for group in groups if isinstance(group.feed_forward, Moe)]
        if not experts:
            raise BadRequest(f"layout.ep: {model.id} has no experts to spread over {said.ep}; leave ep out")
        if any(number % said.ep for number in experts):
            raise BadRequest(f"layout.ep: {said.ep} does not divide the {experts[0]} experts of {model.id}")
    _check_expert_tensor(case, model)


def _check_expert_tensor(case: TrainCase, model: Model) -> None:
    """Refuses an expert-tensor degree that does not divide the width of an expert or the ranks of a stage."""
    said, etp = case.layout, case.layout.etp
    if etp is None:
        return
    widths = [group.feed_forward.moe_intermediate_size for group in model.layers if isinstance(group.feed_forward, Moe)]
    if not widths:
        raise BadRequest(f"layout.etp: {model.id} has no experts to cut; leave etp out")
    if etp < 1 or any(width % etp for width in widths):
        raise BadRequest(f"layout.etp: {etp} does not divide the width of an expert of {model.id}, {widths[0]:,}")
    stage = case.count // (said.pp or 1)
    if stage % (etp * (said.ep or 1)):
        raise BadRequest(
            f"layout.etp: ep {said.ep or 1} x etp {etp} does not divide the {stage} accelerators of a stage; "
            f"take degrees whose product does"
        )


_LONGEST_MICRO_BATCH: Final = 16384
"""Tokens of a micro-batch beyond which products gain nothing more. [tokens]"""
_MOST_AHEAD: Final = 16
"""More than models train with: DeepSeek-V3 1, Nemotron 3 Super 2, up to 7 in the first study (arXiv 2404.19737)."""


class Chosen(Record, kw_only=True):
    """A setup, its memory as the driver shows it, whether that fits, and what was chosen on the way."""

    setup: TrainSetup
    memory: Quantity
    fits: bool
    notes: tuple[str, ...] = ()


def resolve_setup(case: TrainCase, *, model: Model, accelerator: Accelerator) -> Chosen:
    """
    The setup of a case: the fastest candidate that fits, or the smallest when none does.

    Raises
    ------
    BadRequest
        Degrees that do not divide what they split, or a depth of further predictions that the model cannot have.
    """
    model = with_further_predictions(with_training_totals(model), case.predicted_ahead)
    if model.tie_word_embeddings and framework_defaults.own(case, "unties"):
        model = replace(model, tie_word_embeddings=False)
    check_degrees(case, model)
    software = framework_defaults.software(case, accelerator, layered=bool(model.layers))
    usable = accelerator.driver_memory_bytes * case.accelerator_fraction

    def seconds(chosen: Chosen) -> float:
        return step_time(chosen.setup).value / chosen.setup.global_batch

    fitting: list[Chosen] = []
    smallest: Chosen | None = None
    for layout in _layouts(case, model, software):
        if _is_settled(fitting, layout):
            continue
        for setups in _completions(case, model, accelerator, layout=layout, software=software):
            found = _lightest_recompute(setups, usable=usable)
            if smallest is None or found.memory.value < smallest.memory.value:
                smallest = found
            if not found.fits:
                break  # a larger micro-batch needs more
            fitting.append(found)
    assert smallest is not None  # _layouts raises when it has nothing to yield
    best = smallest if not fitting else fitting[0] if len(fitting) == 1 else min(fitting, key=seconds)
    memory = estimate.with_interval(best.memory, best.setup)
    return replace(best, memory=memory, notes=_notes(case, best.setup))


def _is_settled(fitting: list[Chosen], layout: TrainLayout) -> bool:
    """
    Whether a layout need not be looked at: something fits without recompute in a shallower pipeline or narrower tensor
    group, or two shallower pipelines fit.
    """
    free = [chosen.setup.layout for chosen in fitting if chosen.setup.recompute == "none"]
    if any(layout.pp > known.pp or (layout.pp == known.pp and layout.tp > known.tp) for known in free):
        return True
    return len({chosen.setup.layout.pp for chosen in fitting if chosen.setup.layout.pp < layout.pp}) > 1


def _completions(
    case: TrainCase, model: Model, accelerator: Accelerator, *, layout: TrainLayout, software: SoftwareSpec
) -> Iterator[list[TrainSetup]]:
    """
    Setups of one layout by micro-batch, the smallest first; the setups of one list differ in how much is recomputed,
    least first.
    """
    first = _setup(case, model, accelerator, layout=layout, software=software)
    kinds = framework_defaults.recomputes(case, software, sharded=layout.zero_stage >= 3)
    for micro_batch in _micro_batches(case, layout):
        per_step = micro_batch * layout.dp
        yield [
            replace(
                first,
                micro_batch=micro_batch,
                num_micro_batches=max(1, math.ceil((case.global_batch or per_step) / per_step)),
                recompute=kind,
                recompute_share=case.recompute_share if kind == "full" and case.recompute_share is not None else 1.0,
            )
            for kind in kinds
        ]


def _lightest_recompute(setups: list[TrainSetup], *, usable: float) -> Chosen:
    """
    The first setup that fits, of full recompute the least share of layers that does; where none fits, the smallest.
    `usable` is the memory of one accelerator that the job may take. [bytes]
    """
    found: list[Chosen] = []
    for setup in setups:
        this = _candidate(setup, usable)
        if this.fits:
            return _partly(found[0], this, usable=usable) if found else this
        found.append(this)
    return min(found, key=lambda chosen: chosen.memory.value)


def _candidate(setup: TrainSetup, usable: float) -> Chosen:
    """A setup with its memory at its peak on the fullest accelerator, and whether that is within `usable`. [bytes]"""
    memory = estimate.peak(setup)
    return Chosen(setup=setup, memory=memory, fits=memory.value <= usable)


def _partly(none: Chosen, full: Chosen, *, usable: float) -> Chosen:
    """As many layers recomputed as memory needs, in twentieths of the model."""
    spared = none.memory.value - full.memory.value
    if full.setup.recompute != "full" or spared <= 0:
        return full
    share = min(1.0, math.ceil(20 * (none.memory.value - usable) / spared) / 20)
    partly = _candidate(replace(full.setup, recompute_share=share), usable)
    return partly if partly.fits else full


def _layouts(case: TrainCase, model: Model, software: SoftwareSpec) -> Iterator[TrainLayout]:
    """
    Layouts that keep what is stated and fill the job, shallow pipelines and narrow tensor groups first; refuses degrees
    whose product does not divide the count.
    """
    said, cp = case.layout, case.layout.cp or 1
    layers = model.depth or 1
    found = False
    for pp in [said.pp] if said.pp else _pipeline_degrees(layers, software):
        for tp in [said.tp] if said.tp else _tensor_degrees(case, software):
            if case.count % (tp * pp * cp):
                continue
            dp = case.count // (tp * pp * cp)
            if said.dp and said.dp != dp:
                continue
            found = True
            ep = said.ep or framework_defaults.expert_degree(model, software, ranks=tp * cp * dp)
            spread = framework_defaults.sequence_parallel(case, software, tp=tp)
            for vpp in framework_defaults.virtual_stages(case, software, layers=layers, pp=pp):
                for sharding in framework_defaults.shardings(case, software, ranks=dp * cp):
                    yield TrainLayout(
                        tp=tp,
                        pp=pp,
                        vpp=vpp,
                        cp=cp,
                        ep=ep,
                        etp=said.etp,
                        dp=dp,
                        sharding=sharding,
                        sequence_parallel=spread,
                        schedule=framework_defaults.schedule(case, pp=pp),
                        async_tp=said.async_tp or (software.async_tp and tp > 1),
                    )
    if not found:
        stated = ", ".join(f"{k} {v}" for k, v in asdict(said).items() if type(v) is int)
        raise BadRequest(
            f"layout: {stated or 'no degrees'} on {case.count} accelerators leaves no whole data-parallel degree; "
            f"tp x pp x cp x dp must equal the count"
        )


def _pipeline_degrees(layers: int, software: SoftwareSpec) -> list[int]:
    deep = software.model_parallel
    return [p for p in (1, 2, 4, 8, 16, 32, 64) if p == 1 or (deep and p <= layers)]


def _tensor_degrees(case: TrainCase, software: SoftwareSpec) -> list[int]:
    node = case.accelerators_per_node or min(8, case.count)
    if not software.model_parallel or case.method not in {"pretrain", "full"}:
        return [1]
    return [t for t in (1, 2, 4, 8) if t <= node]


def _micro_batches(case: TrainCase, layout: TrainLayout) -> list[int]:
    """
    Micro-batches to try: stated, or the three largest powers of two that divide the rank's batch and leave a pipeline
    filled.
    """
    if case.micro_batch:
        return [case.micro_batch]
    per_rank = max(1, (case.global_batch or layout.dp) // layout.dp)
    tokens = case.seq_len or 1
    whole = [b for b in (1, 2, 4, 8, 16, 32, 64) if per_rank % b == 0]
    return [
        b
        for b in whole
        if b == 1 or (b * tokens <= _LONGEST_MICRO_BATCH and (layout.pp == 1 or per_rank // b >= 4 * layout.pp))
    ][-3:]


def _setup(
    case: TrainCase, model: Model, accelerator: Accelerator, *, layout: TrainLayout, software: SoftwareSpec
) -> TrainSetup:
    """
    All of a setup but its batches and recomputation. Where the case leaves them open, weights are stored in the format
    of computation (in BF16 where that has under 16 bits, in NF4 for QLoRA), and master weights are kept where all
    weights are trained.
    """
    precision = number_format(case.precision).name
    usual = "nf4" if case.method == "qlora" else precision if number_format(precision).bits >= 16 else "bf16"
    network = bool(model.network)
    return TrainSetup(
        model=model,
        accelerator=accelerator,
        coefficients=training_coefficients(),
        method=case.method,
        layout=layout,
        accelerators_per_node=case.accelerators_per_node or min(8, accelerator.max_per_node or 8),
        # Transformer Engine, is_non_tn_fp8_gemm_supported: compute capability 10; scales of blocks differ by direction.
        transposed_weights=not (precision == "fp8" and (accelerator.compute_capability or "").startswith("10.")),
        multiprocessors=multiprocessors_of(accelerator.id),
        seq_len=case.seq_len or 1,
        mean_seq_len=case.mean_seq_len,
        document_len=case.document_len,
        predicted_share=case.predicted_share,
        precision=precision,
        weights=case.weight_precision or usual,
        master_weights=framework_defaults.master_weights(case, software),
        expert_load=case.expert_load,
        optimizer=case.optimizer,
        grads_kept=case.grads_kept,
        objective=case.objective,
        reference=case.reference,
        flash_attention=framework_defaults.flash_attention(case, accelerator),
        native_attention=framework_defaults.native_attention(case, accelerator, software=software),
        software=software,
        overlapped_experts=framework_defaults.overlapped_experts(case),
        fused_experts=framework_defaults.fused_experts(case, accelerator, software=software),
        loss=framework_defaults.loss(case, software),
        whole_logit=framework_defaults.whole_logit(case),
        loads_whole=framework_defaults.loads_whole(case),
        paged_states=framework_defaults.paged_states(case),
        wide_residual=framework_defaults.wide_residual(case, software),
        gathers_narrow=case.residual_precision is None,
        adapter_input=framework_defaults.adapter_input(case, software),
        offload=case.offload,
        offload_activations=bool(framework_defaults.own(case, "offloads_activations"))
        if case.offload_activations is None
        else case.offload_activations,
        gradient_bits=number_format(case.gradient_precision).bits if case.gradient_precision else None,
        lora_rank=case.lora_rank,
        lora_targets=framework_defaults.lora_targets(case, model, software=software),
        trainable_parameters=case.trainable_parameters,
        image_px=case.image_px,
        channels_last=case.image_layout == "channels-last",
        network_style=framework_defaults.network_style(model) if network else "plain",
        frozen_flop=framework_defaults.frozen_flop(model, image_px=case.image_px) if network else 0.0,
        kept_values=framework_defaults.kept_values(model, image_px=case.image_px) if network else None,
        inter_bytes_per_s=case.links.inter_bytes_per_s,
        intra=case.links.intra,
    )


def _notes(case: TrainCase, setup: TrainSetup) -> tuple[str, ...]:
    """What was chosen for the user, and what the model or the accelerator does otherwise than asked."""
    layout, said, model, accelerator = setup.layout, case.layout, setup.model, setup.accelerator
    names = [
        f"{name} {getattr(layout, name)}"
        for name in ("tp", "pp", "vpp", "cp", "ep", "sharding")
        if getattr(said, name) is None and (name in {"tp", "pp", "sharding"} or getattr(layout, name) > 1)
    ]
    notes = []
    compute = number_format(setup.precision).compute
    if compute not in accelerator.peaks and number_format(setup.precision).bits < 16:
        notes.append(f"{accelerator.name} computes no {compute}: its products run in 16 bits")
    if model.max_context and setup.seq_len > model.max_context:
        notes.append(f"{setup.seq_len:,} tokens are beyond the {model.max_context:,} that the model was made for")
    if names and case.count > 1:
        notes.append(f"chosen, not stated: {', '.join(names)}")
    if case.recompute is None:
        share = f" in {percent(setup.recompute_share)} of the layers" if setup.recompute_share < 1 else ""
        notes.append(f"recompute not stated: {setup.recompute}{share}")
    if case.micro_batch is None and case.global_batch:
        notes.append(f"micro-batch not stated: {setup.micro_batch}")
    return tuple(notes)


def with_further_predictions(model: Model, depth: int) -> Model:
    """
    The model that trains to predict `depth` further tokens, as layers and head columns beside its own.

    Each of them is one more layer with attention (and the last feed-forward layer, where a model keeps the two in
    layers of their own) behind a projection of two hidden states to one, and one more pass through the head.

    Parameters
    ----------
    model : Model
        With layers and a head.
    depth : int
        d, tokens beyond the next, 0 to 16. [-]

    Returns
    -------
    Model
        d layers more and 1 + d times the columns of the head; itself where d is 0.

    Raises
    ------
    BadRequest
        The depth is out of range, or the model has no layers with attention or no head.

    Valid
    -----
    Layers in the formats of the others; products of the projection are left out (0.3 % of DeepSeek-V3's), and what
    depths share is held once for each.

    Source
    ------
    DeepSeek-V3, arXiv 2412.19437, section 2.2: one of 61 layers more and a second pass through the head are 4 % of the
    FLOP; NVIDIA prints 3.8 % more than the model without it takes.
    """
    if depth == 0:
        return model
    if not 0 < depth <= _MOST_AHEAD:
        raise BadRequest(f"predicted_ahead: {depth} must be 0 to {_MOST_AHEAD}; DeepSeek-V3 takes 1")
    attending = [group for group in model.layers if isinstance(group.mixer, Attention | LatentAttention)]
    if not attending or not model.has_head:
        raise BadRequest(f"predicted_ahead: {model.id} has no layers with attention and a head; leave it out")
    added = [_further(attending[-1], depth, extra=2.0 * model.hidden_size**2)]
    if attending[-1].feed_forward is None:
        added += [_further(group, depth) for group in model.layers if group.feed_forward is not None][-1:]
    columns = model.head_columns or model.vocab_size
    return replace(model, layers=(*model.layers, *added), head_columns=columns * (1 + depth))


def _further(group: LayerGroup, depth: int, *, extra: float = 0.0) -> LayerGroup:
    return replace(group, count=depth, extra_parameters=group.extra_parameters + extra)
