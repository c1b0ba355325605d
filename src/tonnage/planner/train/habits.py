"""What training software does unless told otherwise: which family a framework belongs to, what it fuses and shards.

Each function answers one question about a `TrainCase` whose author left it open. The years are those in which a
mechanism became the default of its software; a case without a year counts as current.
"""

from __future__ import annotations

import math
import re
from typing import Final, Literal, cast

from tonnage.catalog.networks import offline, shape_of
from tonnage.nouns.accelerator import Accelerator
from tonnage.nouns.case import TrainCase
from tonnage.nouns.layout import Schedule, Sharding
from tonnage.nouns.model import Model, Moe
from tonnage.nouns.training import Recompute, Software

__all__ = [
    "expert_degree",
    "flash_attention",
    "frameworks",
    "frozen_flop",
    "fused_loss",
    "loads_whole",
    "lora_targets",
    "native_attention",
    "network_style",
    "overlapped_experts",
    "recomputes",
    "schedule",
    "sequence_parallel",
    "shardings",
    "software_of",
    "virtual_stages",
    "wide_adapters",
    "wide_residual",
]

_SOFTWARE: Final[dict[str, Software]] = {
    "megatron-deepspeed": "deepspeed", "deepspeed": "deepspeed", "megatron": "megatron", "nemo": "megatron",
    "meta-internal": "megatron", "hai-llm": "megatron", "dualpipe": "megatron", "composer": "fsdp", "foundry": "fsdp",
    "titan": "fsdp", "fsdp": "fsdp", "torchtune": "compiled", "thunder": "compiled", "unsloth": "compiled",
    "nanogpt": "compiled", "compile": "compiled", "maxtext": "jax", "paxml": "jax", "pathways": "jax", "jax": "jax",
    "t5x": "jax", "pytorch": "eager", "litgpt": "eager", "lit-gpt": "eager", "hf": "eager", "transformers": "eager",
    "peft": "eager", "trl": "eager", "axolotl": "eager", "accelerate": "eager", "lightning": "eager",
}  # fmt: skip

_TARGETS: Final = {
    "query": ("q_proj",), "key": ("k_proj",), "value": ("v_proj",), "projection": ("o_proj",), "output": ("o_proj",),
    "mlp": ("gate_proj", "up_proj", "down_proj"), "attention": ("q_proj", "k_proj", "v_proj", "o_proj"),
}  # fmt: skip

_ENCODER_FLOP_PER_PIXEL: Final = 4.2e6
"""Image encoder of latent diffusion: widths 128, 256, 512, 512, two blocks a stage (counted from arXiv 2112.10752)."""

_NO_FLASH: Final = frozenset({"Volta", "Turing", "Pascal", "Maxwell"})
"""Architectures older than the flash-attention kernels of training frameworks."""


def frameworks() -> tuple[str, ...]:
    """Every name that says which software runs; a framework is known by a name that it contains."""
    return tuple(_SOFTWARE)


def software_of(framework: str | None, *, method: str = "pretrain", count: int = 1, layered: bool = True) -> Software:
    """The software family of a framework by name; without one, what such a job is usually run with."""
    name = (framework or "").lower()
    if method == "pretrain" and name.startswith("lit"):
        return "fsdp"  # LitGPT and TinyLlama pre-train with fused kernels; their fine-tuning scripts do not
    for known, family in _SOFTWARE.items():
        if known in name:
            return family
    if method == "pretrain" and layered:
        return "megatron" if count > 1 else "compiled"
    return "eager"


def sequence_parallel(case: TrainCase, software: Software, *, tp: int) -> bool:
    """Megatron's since 2022 and only with it; full recompute kept the older form in its own benchmarks."""
    if tp == 1 or software == "deepspeed":
        return False
    old = case.year is not None and case.year < 2023
    return not (old and case.recompute != "selective")


def virtual_stages(case: TrainCase, software: Software, *, layers: int, pp: int) -> list[int]:
    """Virtual stages to try: none and the most; only Megatron interleaves, and usually since 2023."""
    if case.layout.vpp or pp == 1 or software != "megatron" or (case.year is not None and case.year < 2023):
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
    return (case.framework or "").lower() in {"hai-llm", "dualpipe"} or case.layout.schedule == "dualpipe"


def expert_degree(model: Model, software: Software, *, ranks: int) -> int:
    """Expert-parallel degree of a mixture where none is stated: one node, as far as experts and ranks divide."""
    counts = [g.feed_forward.num_experts for g in model.layers if isinstance(g.feed_forward, Moe)]
    return math.gcd(8, ranks, counts[0]) if counts and software == "megatron" else 1


def shardings(case: TrainCase, software: Software, *, ranks: int) -> list[Sharding]:
    """What data-parallel ranks share: Megatron its optimizer, FSDP and JAX everything, PyTorch loops nothing first."""
    said = case.layout.sharding
    if said:
        return [cast("Sharding", said)]
    if ranks == 1:
        return ["none"]
    if software in {"megatron", "deepspeed"}:
        return ["zero1"]
    if software in {"fsdp", "jax"} or loads_whole(case):
        return ["fsdp"]
    return ["none", "fsdp"]


def recomputes(case: TrainCase, software: Software, *, sharded: bool) -> list[Recompute]:
    """Recompute to try, cheapest first."""
    if case.recompute or case.recompute_share is not None:
        return [case.recompute or "full"]
    if software == "eager" and sharded and case.method != "pretrain":
        return ["full"]  # scripts that fine-tune over many devices checkpoint every layer
    if software == "eager" and case.framework:
        return ["none"]  # checkpointing is off unless asked for
    if software == "megatron" and case.year is not None and case.year < 2022:
        return ["full"]  # selective recompute came with arXiv 2205.05198; earlier runs recomputed every layer
    modules = software == "megatron" and (case.year is None or case.year >= 2024)
    return ["none", "selective", "full"] if modules else ["none", "full"]


def flash_attention(case: TrainCase, accelerator: Accelerator) -> bool:
    """Said, or the default of training frameworks since 2023 on Ampere and later."""
    if case.flash_attention is not None:
        return case.flash_attention
    if accelerator.architecture in _NO_FLASH:
        return False
    return case.year is None or case.year >= 2023


def native_attention(case: TrainCase, accelerator: Accelerator, *, software: Software) -> bool:
    """Kernels for Hopper and later came with cuDNN 9 and FlashAttention-3 in 2024; others run older ones there."""
    recent = accelerator.architecture in {"Hopper", "Blackwell"} and case.framework != "meta-internal"  # early 2024
    return recent and software in {"megatron", "jax", "compiled"} and (case.year is None or case.year >= 2024)


def fused_loss(case: TrainCase, software: Software) -> bool:
    """Chunked or fused cross-entropy: torchtune, Unsloth, and Megatron's own since 2024."""
    name = case.framework or ""
    modern = case.year is None or case.year >= 2024
    return "torchtune" in name or "unsloth" in name or (software == "megatron" and modern)


def wide_residual(case: TrainCase) -> bool:
    """PEFT prepares a 4-bit model by widening all that is not quantised; LitGPT, torchtune and Unsloth do not."""
    name = (case.framework or "").lower()
    return case.method == "qlora" and not any(known in name for known in ("lit", "torchtune", "unsloth"))


def wide_adapters(case: TrainCase, software: Software) -> bool:
    """PEFT keeps adapters in 32 bits since 2024; LitGPT, torchtune and Unsloth write their own in the base's format."""
    name = (case.framework or "").lower()
    own = any(known in name for known in ("lit", "torchtune", "unsloth"))
    return case.method in {"lora", "qlora", "dora"} and software == "eager" and not own and (case.year or 2024) >= 2024


def network_style(model: Model) -> Literal["plain", "separable", "volume"]:
    """How a network without layers is built, from its family's name."""
    if re.search(r"\b3d\b", model.id.lower()):
        return "volume"
    return "separable" if shape_of(offline(), model)[0].style == "separable" else "plain"


def frozen_flop(model: Model, *, image_px: int | None) -> float:
    """Latent diffusion encodes its images inside the step, unless latents were stored before. [FLOP]"""
    network = model.network
    pixels = image_px or (network.input_px if network else None)
    return _ENCODER_FLOP_PER_PIXEL * pixels**2 if model.kind.startswith("diffusion") and pixels else 0.0


def loads_whole(case: TrainCase) -> bool:
    """LitGPT's adapter scripts shard with FSDP over every device and build the whole model on each."""
    return (case.framework or "").lower().startswith("lit") and case.method in {"lora", "qlora"} and case.count > 1


def lora_targets(said: str | None, software: Software = "eager") -> tuple[str, ...]:
    """
    Matrices with adapters, from words ("query+value") or names of config.json ("q_proj,v_proj"); empty = all.

    Unsaid, NeMo's recipes adapt the merged query, key and value; other libraries every linear layer.
    """
    if said is None and software == "megatron":
        return ("q_proj", "k_proj", "v_proj")
    if not said or said.lower() in {"all", "all-linear", "linear"}:
        return ()
    words = said.lower().replace(",", "+").replace(" ", "").split("+")
    return tuple(name for word in words for name in _TARGETS.get(word, (word,)))
