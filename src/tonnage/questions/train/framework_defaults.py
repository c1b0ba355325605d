"""What training software does unless told otherwise: which family a framework belongs to, what it fuses and shards.

Each function answers one question about a `TrainCase` whose author left it open. The years are those in which a
mechanism became the default of its software; a case without a year counts as current.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, Literal, cast

from msgspec.structs import replace

from tonnage.catalog.fitted import offline, shape_of, unet_of
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.case import TrainCase
from tonnage.domain.layout import Schedule, Sharding
from tonnage.domain.model import Model, Moe
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.training import Loss, Recompute, SoftwareSpec
from tonnage.engines.registry import frameworks_in, software_of, usual_software
from tonnage.physics.adapters import target_names
from tonnage.physics.diffusion import unet_work

_ENCODER_FLOP_PER_PIXEL: Final = 4.2e6
"""Image encoder of latent diffusion: widths 128, 256, 512, 512, two blocks a stage (counted from arXiv 2112.10752)."""

_WIDE_INPUT: Final = 5.0
"""Of an adapter's own input in 32 bits after dropout, and the mask. [bytes/value]"""
_NO_FLASH: Final = frozenset({"Volta", "Turing", "Pascal", "Maxwell"})
"""Architectures older than the flash-attention kernels of training frameworks."""


def software(case: TrainCase, accelerator: Accelerator, *, layered: bool) -> SoftwareSpec:
    """The family of what the case names; where it names nothing, what such a job is usually run with on that part."""
    if case.framework is None and accelerator.vendor == "Google":
        return usual_software("tpu")[0][0]
    found = software_of(case.framework, method=case.method, count=case.count, layered=layered)
    if own(case, "fused_kernels"):
        # Timed as PyTorch's FSDP, which stands for fused kernels around plain PyTorch.
        return replace(found, timed_as="fsdp", keeps=replace(found.keeps, rms_norm=2.0, expanded_kv=False, gated=3.0))
    return found


def sequence_parallel(case: TrainCase, software: SoftwareSpec, *, tp: int) -> bool:
    """
    Whether tensor ranks also split the sequence: Megatron's since 2022; full recompute kept the older form in its own
    benchmarks. No without tensor parallelism.
    """
    if tp == 1 or not software.sequence_parallel:
        return False
    old = case.year is not None and case.year < 2023
    return not (old and case.recompute != "selective")


def virtual_stages(case: TrainCase, software: SoftwareSpec, *, layers: int, pp: int) -> list[int]:
    """Virtual stages to try: as stated, else none (1) and the most; those that interleave usually do since 2023."""
    if case.layout.vpp or pp == 1 or not software.interleaves or (case.year is not None and case.year < 2023):
        return [case.layout.vpp or 1]
    per_stage = math.ceil(layers / pp)
    return [per_stage, 1] if per_stage > 1 else [1]


def schedule(case: TrainCase, *, pp: int) -> Schedule:
    """As stated; DeepSeek's framework runs its pipeline from both ends, the others one forward, one backward."""
    if pp == 1:
        return "1f1b"
    return case.layout.schedule or ("dualpipe" if overlapped_experts(case) else "1f1b")


def overlapped_experts(case: TrainCase) -> bool:
    """Whether the exchange between experts hides behind another micro-batch (DualPipe and its framework)."""
    name = (case.framework or "").lower()
    own = any(one.overlapped_experts and name in one.words for one in frameworks_in(name))
    return own or case.layout.schedule == "dualpipe"


def expert_degree(model: Model, software: SoftwareSpec, *, ranks: int) -> int:
    """Expert-parallel degree of a mixture where none is stated: one node, as far as experts and ranks divide."""
    counts = [g.feed_forward.num_experts for g in model.layers if isinstance(g.feed_forward, Moe)]
    return math.gcd(8, ranks, counts[0]) if counts and software.spreads_experts else 1


def shardings(case: TrainCase, software: SoftwareSpec, *, ranks: int) -> list[Sharding]:
    """What data-parallel ranks share: as stated, else by habit of the software."""
    said = case.layout.sharding
    if said:
        return [cast("Sharding", said)]
    if ranks == 1:
        return ["none"]
    if "none" in software.shardings and loads_whole(case):
        return [sharding for sharding in software.shardings if sharding != "none"]
    return list(software.shardings)


def recomputes(case: TrainCase, software: SoftwareSpec, *, sharded: bool) -> list[Recompute]:
    """Recompute to try, cheapest first: as stated alone, else by habit of the software (`sharded` = weights are)."""
    if case.recompute or case.recompute_share is not None:
        return [case.recompute or "full"]
    if case.method != "pretrain" and _since(case, software, "recomputes_since"):
        return ["full"]
    if software.plain_scripts and sharded and case.method != "pretrain" and number_format(case.precision).bits >= 16:
        # Scripts that fine-tune over many devices checkpoint every layer; one that computes in 8 bits is tuned, and
        # recomputes what its memory makes it.
        return ["full"]
    if software.plain_scripts and case.framework and not (sharded and number_format(case.precision).bits < 16):
        return ["none"]  # checkpointing is off unless asked for
    until = software.recomputed_all_until
    if until is not None and case.year is not None and case.year < until:
        return ["full"]
    modules = _has(software.selective_since, case)
    return ["none", "selective", "full"] if modules else ["none", "full"]


def flash_attention(case: TrainCase, accelerator: Accelerator) -> bool:
    """Whether attention runs fused (flash) kernels: as stated, or the default since 2023 on Ampere and later."""
    if case.flash_attention is not None:
        return case.flash_attention
    if accelerator.architecture in _NO_FLASH:
        return False
    return case.year is None or case.year >= 2023


def native_attention(case: TrainCase, accelerator: Accelerator, *, software: SoftwareSpec) -> bool:
    """
    Whether attention runs kernels made for Hopper or Blackwell: they came with cuDNN 9 and FlashAttention-3 in 2024;
    other software runs older ones there.
    """
    older = any(one.older_attention for one in frameworks_in(case.framework))
    recent = _generation(accelerator) in {"Hopper", "Blackwell"} and not older
    return recent and software.native_attention and (case.year is None or case.year >= 2024)


def _generation(accelerator: Accelerator) -> str:
    """Architecture without what tells its members apart: "Blackwell" of "Blackwell Ultra"."""
    return accelerator.architecture.partition(" ")[0]


def fused_experts(case: TrainCase, accelerator: Accelerator, *, software: SoftwareSpec) -> bool:
    """
    Whether products of experts are fused and the step is one graph: as stated, else MXFP8 on Blackwell since a release.

    A framework may be named with its release ("megatron 26.04"); without one its year, else the newest counts.
    """
    if case.fused_experts is not None:
        return case.fused_experts
    since = software.fused_experts_since
    if since is None or _generation(accelerator) != "Blackwell" or case.precision.lower() != "mxfp8":
        return False
    named = re.search(r"\b\d\d\.\d\d\b", case.framework or "")
    if named:
        return named.group() >= since
    return case.year is None or case.year >= 2000 + int(since[:2])


def loss(case: TrainCase, software: SoftwareSpec) -> Loss:
    """
    Whether cross-entropy is chunked or fused with the head: as stated, else by the framework or its family since some
    year.

    Objectives on whole answers take each token's log-probability instead, from logits that are held whole.
    """
    if case.objective != "sft":
        return "whole"
    if case.loss is not None:
        return case.loss
    found = {one.loss for one in frameworks_in(case.framework) if _has(one.loss_since, case)}
    chunked = "chunked" in found or _has(software.chunked_loss_since, case)
    return "fused" if "fused" in found else "chunked" if chunked else "whole"


def whole_logit(case: TrainCase) -> float | None:
    """Bytes of one logit in the framework's own loss, where it is not its family's; objectives on answers have none."""
    return own(case, "logits") if case.objective == "sft" else None


def _has(since: int | None, case: TrainCase) -> bool:
    """Whether a mechanism of that year is there when the case runs; cases without a year are current."""
    return since is not None and (case.year is None or case.year >= since)


def paged_states(case: TrainCase) -> bool:
    """Whether optimizer states leave the device when it is full: those of bitsandbytes that are called paged."""
    return "paged" in case.optimizer.lower()


def master_weights(case: TrainCase, software: SoftwareSpec) -> bool:
    """
    Whether 32-bit weights are kept: as stated, else where all weights are trained. Under autocast they are the weights
    themselves, so that none are kept where these are said to have 16 bits.
    """
    if case.master_weights is not None:
        return case.master_weights
    stated = case.weight_precision is not None and number_format(case.weight_precision).bits < 32
    return case.method in {"pretrain", "full"} and not (stated and software.autocasts)


def wide_residual(case: TrainCase, software: SoftwareSpec) -> bool:
    """
    Whether the residual stream is in 32 bits: as stated, else under autocast of 32-bit weights, and around a 4-bit base
    that PEFT's preparation widened. Where FSDP gathers weights in 16 bits an unstated one is not.

    A job that names no software is taken as one of its family's usual trainer of today, which widens nothing.
    """
    if case.residual_precision is not None:
        return number_format(case.residual_precision).bits >= 32
    if number_format(case.precision).bits >= 32:
        return False
    if case.method == "qlora":
        return software.plain_scripts and not _since(case, software, "narrow_since")
    return software.autocasts and case.method in {"pretrain", "full"} and master_weights(case, software)


def adapter_input(case: TrainCase, software: SoftwareSpec) -> float:
    """
    What each adapted matrix keeps of its input for its adapter alone: PEFT computes adapters in 32 bits since 2024,
    behind a dropout. [bytes/value]
    """
    if case.method not in {"lora", "qlora", "dora"}:
        return 0.0
    usual = _WIDE_INPUT if software.plain_scripts and (case.year or 2024) >= 2024 else 0.0
    kept: float | None = own(case, "adapter_input")
    return usual if kept is None else kept


def own(case: TrainCase, trait: str) -> Any:
    """What the first framework of the case's name that has one has of a field of `FrameworkSpec`; None without one."""
    found = (getattr(one, trait) for one in frameworks_in(case.framework))
    return next((value for value in found if value is not None and value is not False), None)


def _since(case: TrainCase, software: SoftwareSpec, trait: str) -> bool:
    """Whether a framework of the case's name, or the usual one of its family, has what it took up in some year."""
    return any(_has(getattr(one, trait), case) for one in frameworks_in(case.framework or software.unnamed))


def network_style(model: Model) -> Literal["plain", "separable", "volume"]:
    """How a network without layers is built, from its family's name."""
    if re.search(r"\b3d\b", model.id.lower()):
        return "volume"
    return "separable" if shape_of(offline(), model)[0].style == "separable" else "plain"


def frozen_flop(model: Model, *, image_px: int | None) -> float:
    """
    Work of the frozen image encoder for one image: latent diffusion runs it inside the step, unless latents were stored
    before; 0 for all else. [FLOP]
    """
    network = model.network
    pixels = image_px or (network.input_px if network else None)
    return _ENCODER_FLOP_PER_PIXEL * pixels**2 if model.kind.startswith("diffusion") and pixels else 0.0


def kept_values(model: Model, *, image_px: int | None) -> float | None:
    """
    Outputs of a denoising U-Net's layers with weights, of one image; None for other networks, and without a known image
    size. [values]
    """
    unet = unet_of(offline(), model)
    pixels = image_px or (model.network.input_px if model.network else None)
    if unet is None or pixels is None:
        return None
    work = unet_work(unet, resolution=pixels, batch=1, precision=Precision(weights="fp16", activations="fp16"))
    return sum(op.count * op.write_bytes / 2.0 for op in work if op.kind in {"gemm", "convolution"})


def loads_whole(case: TrainCase) -> bool:
    """Whether fine-tuning scripts shard over every device and yet build the whole model on each (LitGPT)."""
    name = (case.framework or "").lower()
    own = any(one.loads_whole and name.startswith(one.stem or one.words) for one in frameworks_in(name))
    return own and case.method != "pretrain" and case.count > 1


def lora_targets(case: TrainCase, model: Model, *, software: SoftwareSpec) -> tuple[str, ...]:
    """
    Matrices with adapters, from words ("query+value") or names of config.json ("q_proj,v_proj"); empty = all.

    Unsaid, the framework's habit with language models, else its family's.
    """
    if case.lora_targets is not None:
        return target_names(case.lora_targets)
    return (own(case, "adapted") if model.vocab_size else None) or software.adapted
