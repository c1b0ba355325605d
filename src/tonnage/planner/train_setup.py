"""From a training case with open degrees to a setup with none: what is chosen, and why.

Stated degrees are kept. The rest follows habit of the software (Megatron shards its optimizer, FSDP its
weights) and then the smallest change that fits: recompute before more tensor or pipeline parallelism.
Every choice is a sentence in the notes, so that nobody takes a choice for a fact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final, cast

import msgspec

from tonnage.catalog.intervals import factor
from tonnage.engine.training import step_time
from tonnage.errors import BadRequest
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.answer import Quantity
from tonnage.nouns.case import TrainCase
from tonnage.nouns.layout import Sharding, TrainLayout
from tonnage.nouns.model import Model
from tonnage.nouns.precision import number_format
from tonnage.nouns.training import Recompute, Software, TrainCoefficients, TrainSetup
from tonnage.physics.training_memory import training_memory

__all__ = ["Chosen", "resolve_setup", "software_of"]

_SOFTWARE: Final[dict[str, Software]] = {
    "megatron-deepspeed": "deepspeed", "deepspeed": "deepspeed", "megatron": "megatron", "nemo": "megatron",
    "meta-internal": "megatron", "hai-llm": "megatron", "composer": "fsdp", "foundry": "fsdp", "titan": "fsdp",
    "fsdp": "fsdp", "torchtune": "compiled", "thunder": "compiled", "unsloth": "compiled", "nanogpt": "compiled",
    "compile": "compiled", "maxtext": "jax", "paxml": "jax", "pathways": "jax", "jax": "jax", "t5x": "jax",
    "pytorch": "eager", "litgpt": "eager", "lit-gpt": "eager", "hf": "eager", "transformers": "eager", "peft": "eager",
    "trl": "eager", "axolotl": "eager", "accelerate": "eager", "lightning": "eager",
}  # fmt: skip

_TARGETS: Final = {
    "query": ("q_proj",), "key": ("k_proj",), "value": ("v_proj",), "projection": ("o_proj",), "output": ("o_proj",),
    "mlp": ("gate_proj", "up_proj", "down_proj"), "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
}  # fmt: skip

_NO_FLASH: Final = frozenset({"Volta", "Turing", "Pascal", "Maxwell"})
"""Architectures older than the flash-attention kernels of training frameworks."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A setup, its memory in every accounting, and what was chosen on the way."""

    setup: TrainSetup
    memory: Quantity
    """What must fit: as the driver shows it."""
    fits: bool
    notes: tuple[str, ...] = ()


def software_of(framework: str | None, *, method: str = "pretrain", count: int = 1) -> Software:
    """The software family of a framework by name; without one, what such a job is usually run with."""
    name = (framework or "").lower()
    if method == "pretrain" and name.startswith("lit"):
        return "fsdp"  # LitGPT and TinyLlama pre-train with fused kernels; their fine-tuning scripts do not
    for known, family in _SOFTWARE.items():
        if known in name:
            return family
    if method == "pretrain":
        return "megatron" if count > 1 else "compiled"
    return "eager"


def resolve_setup(
    case: TrainCase, *, model: Model, accelerator: Accelerator, coefficients: TrainCoefficients
) -> Chosen:
    """The setup of a case: the fastest candidate that fits, or the smallest when none does."""
    software = software_of(case.framework, method=case.method, count=case.count)
    usable = accelerator.driver_memory_bytes * case.accelerator_fraction
    fitting: list[Chosen] = []
    smallest: Chosen | None = None
    for layout in _layouts(case, model, software):
        if fitting and layout.pp > fitting[0].setup.layout.pp:
            break
        for micro_batch in _micro_batches(case, layout):
            found = _lightest_recompute(
                [
                    _setup(case, accelerator, software, (layout, r, micro_batch))
                    for r in _recomputes(case, software, layout)
                ],
                usable=usable,
                measure=lambda setup: training_memory(
                    model, accelerator=accelerator, setup=setup, coefficients=coefficients, memory_kind="device"
                ),
            )
            found = msgspec.structs.replace(found, notes=_notes(case, found.setup))
            if found.fits:
                fitting.append(found)
            if smallest is None or found.memory.value < smallest.memory.value:
                smallest = found
    if smallest is None:
        raise BadRequest(f"layout: no degrees divide {case.count} accelerators; give tp x pp x cp that does")
    best = smallest
    if fitting:
        best = (
            fitting[0]
            if len(fitting) == 1
            else min(fitting, key=lambda c: _seconds(c, model, accelerator, coefficients))
        )
    return msgspec.structs.replace(best, memory=best.memory.within(factor("train", "memory_peak_bytes")))


def _seconds(chosen: Chosen, model: Model, accelerator: Accelerator, coefficients: TrainCoefficients) -> float:
    """Time per sample, so that candidates of unlike batch compare."""
    step = step_time(model, accelerator=accelerator, setup=chosen.setup, coefficients=coefficients)
    return step.value / chosen.setup.global_batch


def _lightest_recompute(
    setups: list[TrainSetup], *, usable: float, measure: Callable[[TrainSetup], Quantity]
) -> Chosen:
    """The first setup that fits; before full recompute, the least share of layers recomputed that does."""
    found: list[Chosen] = []
    for setup in setups:
        memory = measure(setup)
        this = Chosen(setup=setup, memory=memory, fits=memory.value <= usable)
        if this.fits and found and setup.recompute == "full":
            return _partly(found[0], this, usable=usable, measure=measure)
        if this.fits:
            return this
        found.append(this)
    return min(found, key=lambda chosen: chosen.memory.value)


def _partly(none: Chosen, full: Chosen, *, usable: float, measure: Callable[[TrainSetup], Quantity]) -> Chosen:
    """As many layers recomputed as memory needs, in twentieths of the model."""
    spared = none.memory.value - full.memory.value
    for share in (math.ceil(20 * (none.memory.value - usable) / spared) / 20, 1.0) if spared > 0 else (1.0,):
        setup = msgspec.structs.replace(full.setup, recompute_share=min(1.0, share))
        memory = measure(setup)
        if memory.value <= usable:
            return Chosen(setup=setup, memory=memory, fits=True)
    return full


def _layouts(case: TrainCase, model: Model, software: Software) -> Iterator[TrainLayout]:
    said = case.layout
    node = case.accelerators_per_node or min(8, case.count)
    layers = sum(group.count for group in (*model.encoder, *model.layers)) or 1
    tps = [said.tp] if said.tp else _tensor_degrees(node, model, software, case)
    pps = (
        [said.pp]
        if said.pp
        else [p for p in (1, 2, 4, 8, 16, 32, 64) if p == 1 or (p <= layers and software in {"megatron", "deepspeed"})]
    )
    found = False
    for pp in pps:
        for tp in tps:
            cp = said.cp or 1
            ranks = tp * pp * cp
            if case.count % ranks:
                continue
            dp = case.count // ranks
            if said.dp and said.dp != dp:
                # A stated dp that leaves ranks over: what is not stated otherwise must fill the job.
                continue
            found = True
            choices = [
                (v, s) for v in _virtual(case, software, layers, pp) for s in _shardings(case, software, dp * cp)
            ]
            for vpp, sharding in choices:
                yield TrainLayout(
                    tp=tp, pp=pp, vpp=vpp, cp=cp, ep=said.ep or 1, dp=dp, sharding=sharding,
                    sequence_parallel=_sequence_parallel(case, software, tp),
                )  # fmt: skip
    if not found:
        stated = ", ".join(f"{k} {v}" for k, v in msgspec.structs.asdict(said).items() if isinstance(v, int))
        raise BadRequest(
            f"layout: {stated or 'no degrees'} on {case.count} accelerators leaves no whole data-parallel degree; "
            f"tp x pp x cp x dp must equal the count"
        )


def _virtual(case: TrainCase, software: Software, layers: int, pp: int) -> list[int]:
    """Virtual stages to try: none, the most, and one between; only Megatron interleaves, and usually since 2023."""
    if case.layout.vpp or pp == 1 or software != "megatron" or (case.year is not None and case.year < 2023):
        return [case.layout.vpp or 1]
    per_stage = math.ceil(layers / pp)
    divisors = [v for v in range(2, per_stage + 1) if per_stage % v == 0]
    return sorted({1, *divisors[-1:], *divisors[len(divisors) // 2 : len(divisors) // 2 + 1]})


def _sequence_parallel(case: TrainCase, software: Software, tp: int) -> bool:
    """Megatron's since 2022 and only with it; full recompute kept the older form in its own benchmarks."""
    if tp == 1 or software == "deepspeed":
        return False
    old = case.year is not None and case.year < 2023
    return not (old and case.recompute != "selective")


def _tensor_degrees(node: int, model: Model, software: Software, case: TrainCase) -> list[int]:
    if software not in {"megatron", "deepspeed"} or case.method not in {"pretrain", "full"}:
        return [1]
    return [t for t in (1, 2, 4, 8) if t <= node]


def _shardings(case: TrainCase, software: Software, ranks: int) -> list[Sharding]:
    said = case.layout.sharding
    if said:
        return [cast("Sharding", said)]
    if ranks == 1:
        return ["none"]
    if software in {"megatron", "deepspeed"}:
        return ["zero1"]
    if software in {"fsdp", "jax"} or _loads_whole(case):
        return ["fsdp"]
    return ["none", "fsdp"]


def _loads_whole(case: TrainCase) -> bool:
    """LitGPT's adapter scripts shard with FSDP over every device and build the whole model on each."""
    return (case.framework or "").lower().startswith("lit") and case.method in {"lora", "qlora"} and case.count > 1


def _wide_residual(case: TrainCase) -> bool:
    """PEFT prepares a 4-bit model by widening all that is not quantised; LitGPT, torchtune and Unsloth do not."""
    name = (case.framework or "").lower()
    return case.method == "qlora" and not any(known in name for known in ("lit", "torchtune", "unsloth"))


def _recomputes(case: TrainCase, software: Software, layout: TrainLayout) -> list[Recompute]:
    if case.recompute:
        return [case.recompute]
    if software == "eager" and layout.sharding == "fsdp":
        return ["full"]
    if software == "eager" and case.framework:
        return ["none"]  # checkpointing is off unless asked for
    if software == "megatron" and case.year is not None and case.year < 2022:
        return ["full"]  # selective recompute came with arXiv 2205.05198; earlier runs recomputed every layer
    return ["none", "full"]


def _micro_batches(case: TrainCase, layout: TrainLayout) -> list[int]:
    if case.micro_batch:
        return [case.micro_batch]
    per_rank = max(1, (case.global_batch or layout.dp) // layout.dp)
    tokens = case.seq_len or 1
    wanted = [
        b
        for b in (64, 32, 16, 8, 4, 2, 1)
        if per_rank % b == 0
        and (b == 1 or b * tokens <= 16384)
        and (b == 1 or per_rank // b >= 4 * layout.pp or layout.pp == 1)
    ]
    return wanted[:3] or [1]


def _setup(
    case: TrainCase, accelerator: Accelerator, software: Software, chosen: tuple[TrainLayout, Recompute, int]
) -> TrainSetup:
    layout, recompute, micro_batch = chosen
    per_step = micro_batch * layout.dp
    micro_steps = max(1, math.ceil((case.global_batch or per_step) / per_step))
    weights = case.weight_precision or (case.precision if number_format(case.precision).bits >= 16 else "bf16")
    return TrainSetup(
        method=case.method,
        layout=layout,
        accelerators_per_node=case.accelerators_per_node or min(8, accelerator.max_per_node or 8),
        micro_batch=micro_batch,
        num_micro_batches=micro_steps,
        seq_len=case.seq_len or 1,
        precision=case.precision,
        weights=weights,
        master_weights=case.master_weights if case.master_weights is not None else case.method in {"pretrain", "full"},
        recompute=recompute,
        optimizer=case.optimizer,
        grads_kept=case.grads_kept,
        flash_attention=_flash(case, accelerator),
        software=software,
        wide_residual=_wide_residual(case),
        offload=case.offload,
        loads_whole=_loads_whole(case),
        paged_states="torchtune" in (case.framework or "") and "8bit" in case.optimizer.replace("-", ""),
        fused_loss=_fused_loss(case, software),
        native_attention=_native_attention(case, accelerator, software),
        lora_rank=case.lora_rank,
        lora_targets=_targets(case.lora_targets),
        trainable_parameters=case.trainable_parameters,
        image_px=case.image_px,
        inter_bytes_per_s=case.links.inter_bytes_per_s,
        intra=case.links.intra,
    )


def _flash(case: TrainCase, accelerator: Accelerator) -> bool:
    if case.flash_attention is not None:
        return case.flash_attention
    if accelerator.architecture in _NO_FLASH:
        return False
    return case.year is None or case.year >= 2023


def _native_attention(case: TrainCase, accelerator: Accelerator, software: Software) -> bool:
    """Kernels for Hopper and later came with cuDNN 9 and FlashAttention-3 in 2024; others run older ones there."""
    recent = accelerator.architecture in {"Hopper", "Blackwell"} and case.framework != "meta-internal"  # early 2024
    return recent and software in {"megatron", "jax", "compiled"} and (case.year is None or case.year >= 2024)


def _fused_loss(case: TrainCase, software: Software) -> bool:
    """Chunked or fused cross-entropy: torchtune, Unsloth, and Megatron's own since 2024."""
    name = case.framework or ""
    modern = case.year is None or case.year >= 2024
    return "torchtune" in name or "unsloth" in name or (software == "megatron" and modern)


def _targets(said: str | None) -> tuple[str, ...]:
    if not said or said.lower() in {"all", "all-linear", "linear"}:
        return ()
    words = said.lower().replace(",", "+").replace(" ", "").split("+")
    return tuple(name for word in words for name in _TARGETS.get(word, (word,)))


def _notes(case: TrainCase, setup: TrainSetup) -> tuple[str, ...]:
    layout, said = setup.layout, case.layout
    names = [
        f"{name} {getattr(layout, name)}"
        for name in ("tp", "pp", "cp", "ep", "sharding")
        if getattr(said, name) is None and (name == "sharding" or getattr(layout, name) > 1 or name in {"tp", "pp"})
    ]
    notes = []
    if names and case.count > 1:
        notes.append(f"chosen, not stated: {', '.join(names)}")
    if case.recompute is None:
        share = f" in {setup.recompute_share:.0%} of the layers" if setup.recompute_share < 1 else ""
        notes.append(f"recompute not stated: {setup.recompute}{share}")
    if case.micro_batch is None and case.global_batch:
        notes.append(f"micro-batch not stated: {setup.micro_batch}")
    return tuple(notes)
