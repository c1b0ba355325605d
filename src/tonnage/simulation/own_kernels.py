"""
How long do prompts, and decodes beside them, take in kernels that an engine wrote itself? What no kernel table shows.

llama.cpp on NVIDIA has three shared prices, measured over eleven parts from RTX 3070 to H100 (rows of a prompt alone on
one accelerator, block XJD):

- products of quantised blocks unpack every weight in the multiprocessors' ordinary lanes before the tensor units see
  it, so that a part with fast tensor units and few lanes (A100, H100) gains little: lanes and tensor units add up.
  16-bit weights pay less of it. Tensor units accumulate in 16 bits, which consumer parts do at twice the listed rate;
- the power limit holds workstation parts back (RTX 5000 and 6000 Ada, A6000): energy per FLOP, by process;
- attention without fused kernels keeps its scores in 32 bits and passes over them.

vLLM from 0.8 gives decodes and prompts of a step to one call. FlashAttention-2 (Ampere, Ada, RTX Blackwell) then
neither packs the query heads that share keys and values nor divides a long context (`mixed_attention`).
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.model import Attention, Model
from tonnage.domain.precision import FORMATS, number_format
from tonnage.physics.work import Operator

__all__ = ["has_prompt_kernels", "mixed_attention_factor", "prompt_product_s", "prompt_scores_s"]

BESIDE_PROMPTS: Final = 1.54
"""
Decode attention beside a prompt over the same alone, by FlashAttention-2 with grouped heads. [-]

Median of Llama-3.1-8B's layer on an RTX PRO 6000, 16 to 128 sequences of 182 to 2,076 tokens beside a chunk of 16 (1.1
to 2.1): 128 x 615 take 241 us alone and 393 us beside the chunk (LLMServingSim, profiler/perf, attention.csv, MIT).
"""

LEAST_ROWS: Final = 64.0
"""Rows from which products run in these kernels; below, one weight at a time."""
LANE_CYCLES: Final = {True: 1.15e-3, False: 0.60e-3}
"""Cycles of one multiprocessor per FLOP, for quantised and for 16-bit weights. [1/FLOP]"""
TENSOR: Final = {True: 1.9, False: 1.4}
"""Time in tensor units over that at the peak. [-]"""
JOULE_PER_FLOP: Final = {True: {"8.6": 3.8e-12, "8.9": 2.5e-12}, False: {"8.6": 3.0e-12, "8.9": 2.0e-12}}
"""Dynamic energy by compute capability, where a part was seen at its limit. [J/FLOP]"""
IDLE: Final = 0.15
"""Of the power limit, drawn before any work. [-]"""
SCORE_BYTES: Final = 23.0
"""Traffic per score, at the bandwidth that these kernels reach. [bytes]"""
_SMALL: Final = ("6.0", "7.", "8.0")
"""Compute capabilities of multiprocessors with 64 lanes; others have 128."""


def has_prompt_kernels(accelerator: Accelerator) -> bool:
    """Whether prompts on this part run in kernels that are priced here; elsewhere the engine's factors hold."""
    return accelerator.vendor == "NVIDIA" and bool(accelerator.peaks.get("fp32"))


def prompt_product_s(op: Operator, accelerator: Accelerator) -> float | None:
    """One product of a prompt; none where it does not run in such kernels, or the part's lanes are not known."""
    if not has_prompt_kernels(accelerator) or op.m < LEAST_ROWS:
        return None
    lanes = accelerator.peaks["fp32"]
    quantised = (FORMATS.get(op.weights) or number_format(op.weights)).bits < 16
    wide = accelerator.peaks.get("fp16_accum16") or accelerator.peaks.get("fp16") or lanes
    tensor = max(accelerator.peaks.get("int8", 0.0), wide) if quantised else wide
    capability = accelerator.compute_capability or ""
    per_clock = 2.0 * (64.0 if capability.startswith(_SMALL) else 128.0)
    taken = op.flop * (TENSOR[quantised] / tensor + LANE_CYCLES[quantised] * per_clock / lanes)
    joule = JOULE_PER_FLOP[quantised].get(capability)
    if joule is not None and accelerator.power_w:
        taken = max(taken, op.flop * joule / ((1.0 - IDLE) * accelerator.power_w))
    return max(taken, (op.read_bytes + op.write_bytes) / accelerator.memory_bytes_per_s)


def prompt_scores_s(op: Operator, accelerator: Accelerator) -> float | None:
    """Attention of a prompt with its scores in memory."""
    if accelerator.vendor != "NVIDIA" or not op.head_dim:
        return None
    scores = op.flop / (4.0 * op.head_dim)
    return scores * SCORE_BYTES / accelerator.memory_bytes_per_s


def mixed_attention_factor(accelerator: Accelerator, model: Model, *, one_call: bool) -> float:
    """How much longer decode attention takes in a step that carries prompts, where one call takes both. [-]"""
    if not one_call or accelerator.vendor != "NVIDIA":
        return 1.0
    if not (accelerator.compute_capability or "").startswith(("8.", "12.")):
        return 1.0
    mixers = [group.mixer for group in model.layers if isinstance(group.mixer, Attention)]
    grouped = any(mixer.num_attention_heads > mixer.num_key_value_heads for mixer in mixers)
    return BESIDE_PROMPTS if grouped else 1.0
