"""
How long do prompts, and decodes beside them, take in kernels that an engine wrote itself? What no kernel table shows.

llama.cpp has prices of its own on NVIDIA parts and on AMD parts with matrix units (its HIP build compiles the same
kernels). Those of prompts were measured over eleven NVIDIA parts from RTX 3070 to H100 (rows of a prompt alone on one
accelerator, block XJD), those of mixtures, recurrent layers and batches on a GB10 and a Radeon 8060S (SPARK, STRIX):

- products of quantised blocks (MMQ) fetch a tile, then multiply it: loads and arithmetic add up. Weights are unpacked
  in ordinary lanes before the matrix units see them, so that a part with fast matrix units and few lanes (A100, H100)
  gains little: lanes and matrix units add up, too. 16-bit weights run in a library's kernels, which overlap both.
  Tensor units accumulate in 16 bits, which consumer parts do at twice the listed rate;
- the power limit holds workstation parts and the GB10 back (RTX 5000 and 6000 Ada, A6000): energy per FLOP, by process;
- a tile has up to 128 rows of one expert, filled or not, and rows of experts pass memory in 32 bits between kernels;
- attention without fused kernels keeps its scores in 32 bits and passes over them; on AMD it runs in ordinary lanes;
- recurrent states are advanced token by token in ordinary lanes.

What is added to decode steps (`unhidden_s`):

- several sequences pay the arithmetic of quantised products, which hides no load;
- before batches were captured as graphs, each product with the passes around it waits to be launched;
- before a few tokens passed experts as vectors, MMQ dealt the tiles of all experts, hit or not, evenly to the
  multiprocessors: the few that are hit keep a few of them busy;
- weights that are looked up in a table (MXFP4) keep the lanes busy for longer than a fast memory needs.

vLLM from 0.8 gives decodes and prompts of a step to one call. FlashAttention-2 (Ampere, Ada, RTX Blackwell) then
neither packs the query heads that share keys and values nor divides a long context (`mixed_attention`).
"""

from __future__ import annotations

from typing import Final

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.engine_spec import EngineSpec, Release
from tonnage.domain.model import Attention, Model
from tonnage.domain.precision import number_format
from tonnage.physics.efficiency import cycle_s, peak_flop_per_s
from tonnage.physics.work import Operator
from tonnage.record import Record

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
TENSOR: Final = {True: 1.75, False: 1.4}
"""Time in tensor units over that at the peak. [-]"""
JOULE_PER_FLOP: Final = {
    True: {"8.6": 3.8e-12, "8.9": 2.5e-12, "12.1": 3.9e-12},
    False: {"8.6": 3.0e-12, "8.9": 2.0e-12, "12.1": 2.0e-12},
}
"""
Dynamic energy by compute capability, where a part was seen at its limit, in kernels of May 2024; 12.1 (GB10) has Ada's
process, and was seen at 2.5e-12 under builds that take `TILED` of it. [J/FLOP]
"""
EIGHT_BITS: Final = 7.5
"""Compute capability from which matrix units multiply integers of 8 bits (Turing)."""
TILED: Final = 0.64
"""
Time and energy of quantised products in prompts of builds since August 2025 over those of May 2024, on NVIDIA's parts
with such units: a library's kernels in 16 bits then, the engine's own tiles in 8 bits by default since June 2024 (pull
request 8075), tuned since. An RTX 4090 reads Llama 3 8B (Q4_K_S, pieces of 512) at 7,694 tokens/s before them, 9,267
with the first (7860) and 12,394 in 2026 (24127); with this, four formats of 2026 are 0 to 9 % low (22298). An RTX 3090
had gained nothing in June 2024, so that builds between the two count as the older. [-]
"""
IDLE: Final = 0.15
"""Of the power limit, drawn before any work. [-]"""
SCORE_BYTES: Final = 23.0
"""Traffic per score, at the bandwidth that these kernels reach. [bytes]"""
TILE_ROWS: Final = 128.0
"""Rows of one expert that a tile of a product takes, filled or not (`mmq_x`, at most the rows of the step)."""
ROUTED_BYTES: Final = 14.0
"""
Traffic of routed experts between kernels in prompts, per output of a product. [bytes]

In 32 bits: gate and up are written, read by the activation, whose output is written and read to be quantised (12 per
output of the first product); the second is written, weighted (read and written) and read by the sum (16).
"""
LANE_ATTENTION: Final = 0.245
"""
Share of the 32-bit peak at which AMD's lanes attend to prompts: 7.0 to 7.7 TFLOP/s on a Radeon 8060S for four models of
head size 256 and 512, whatever the micro-batch (STRIX, growth of prompts with their depth).
"""
LANE_STATES: Final = 0.015
"""The same of recurrent states: 0.43 to 0.45 TFLOP/s on that part for gated delta nets of 32, 48 and 64 heads."""
LOOSE_S: Final = 8e-6
"""Launching a product or attention with the element-wise passes around it, where no graph holds them (GB10). [s]"""
VECTOR_TOKENS: Final = 8.0
"""Tokens that pass experts as vectors at most (MMVQ_MAX_BATCH_SIZE)."""
TABLE_CYCLES: Final = {"mxfp4": 0.3}
"""
Cycles of one multiprocessor per byte of weights that are looked up in a table, one vector at a time. [1/byte]

gpt-oss-20b on RTX A4000, 3090, 4090, 5090 and GB10: 1.5 to 2.4 bytes a cycle, the same on parts of 273 to 1,792 GB/s.
"""
_MATRIX_UNITS: Final = ("RDNA3", "RDNA4")
"""Architectures of AMD parts whose quantised products run on matrix units (WMMA)."""
_ROUNDING: Final = 1e-6


def has_prompt_kernels(accelerator: Accelerator) -> bool:
    """Whether prompts on this part run in kernels that are priced here; elsewhere the engine's factors hold."""
    built = accelerator.vendor == "NVIDIA" or accelerator.architecture.startswith(_MATRIX_UNITS)
    return built and bool(accelerator.peaks.get("fp32"))


class Batching(Record, kw_only=True):
    """How such kernels run decode steps on one part under one release."""

    captured: bool
    """Steps of several sequences are one graph, too."""
    vector_tokens: float
    """Tokens up to which experts are passed as vectors."""
    units: float
    """Multiprocessors of the part."""
    unit_bytes_per_s: float
    """What one of them keeps in flight. [bytes/s]"""


def batching_of(
    accelerator: Accelerator, spec: EngineSpec, *, release: Release | None, units: float | None, reach: float
) -> Batching | None:
    """How decode steps run here; none without such kernels, or where the part's units, or their reach, are unknown."""
    if not reach or units is None or not has_prompt_kernels(accelerator):
        return None
    return Batching(
        captured=spec.captures_batches(release),
        vector_tokens=VECTOR_TOKENS if spec.vectors_experts(release) else 1.0,
        units=units,
        unit_bytes_per_s=reach,
    )


def prompt_product_s(op: Operator, accelerator: Accelerator, *, recent: bool = False) -> float | None:
    """
    One product of a prompt; none where it does not run in such kernels, or the part's lanes are not known. [s]

    `recent` is a build that fuses attention (August 2025): its tiles are tuned as well (`TILED`).
    """
    if not has_prompt_kernels(accelerator) or op.m < LEAST_ROWS:
        return None
    flop, moved = op.flop, op.read_bytes + op.write_bytes
    if op.kind == "grouped_gemm":
        rows, tile = op.m / op.groups, min(TILE_ROWS, op.m / op.chosen)
        flop *= max(tile, rows + tile / 2.0) / rows  # the last tile of an expert is half full on average
        moved += ROUTED_BYTES * op.m * op.n - op.write_bytes
    tiled = recent and accelerator.vendor == "NVIDIA" and float(accelerator.compute_capability or 0.0) >= EIGHT_BITS
    taken, moving = _arithmetic_s(op, accelerator, flop, tiled=tiled), moved / accelerator.memory_bytes_per_s
    return taken + moving if _quantised(op) else max(taken, moving)


def unhidden_s(op: Operator, accelerator: Accelerator, *, batching: Batching, once_s: float) -> float:
    """What a decode step adds to one product that takes `once_s` where loads hide all else. [s]"""
    tokens = op.m / op.chosen
    several, vectors = tokens > 1.0 + _ROUNDING, tokens <= batching.vector_tokens + _ROUNDING
    added = LOOSE_S if several and not batching.captured else 0.0
    looked_up = TABLE_CYCLES.get(op.weights, 0.0)
    if looked_up and vectors:
        lanes_s = looked_up * op.read_bytes * cycle_s(accelerator)
        added += (once_s**4 + lanes_s**4) ** 0.25 - once_s
    if op.kind == "grouped_gemm":
        return added if vectors else added + max(0.0, _busiest_s(op, batching) - once_s)
    return added + _arithmetic_s(op, accelerator, op.flop) if several and _quantised(op) else added


def _busiest_s(op: Operator, batching: Batching) -> float:
    """
    Time of the multiprocessor with most rows of the experts that are hit.

    Each has an even share of all experts, so at least one that is hit, or the part of it that it was dealt.
    """
    share = min(op.experts / batching.units, max(1.0, op.groups / batching.units))
    stored = number_format(op.weights).bytes
    return share * stored * op.n * op.k / batching.unit_bytes_per_s


def _arithmetic_s(op: Operator, accelerator: Accelerator, flop: float, *, tiled: bool = False) -> float:
    """Arithmetic of a product in lanes and matrix units, within the power limit."""
    quantised = _quantised(op)
    wide = accelerator.peaks.get("fp16_accum16") or peak_flop_per_s(accelerator, "fp16")
    tensor = max(accelerator.peaks.get("int8", 0.0), wide) if quantised else wide
    taken = flop * (TENSOR[quantised] / tensor + LANE_CYCLES[quantised] * cycle_s(accelerator))
    joule = JOULE_PER_FLOP[quantised].get(accelerator.compute_capability or "")
    if joule is not None and accelerator.power_w:
        taken = max(taken, flop * joule / ((1.0 - IDLE) * accelerator.power_w))
    return taken * TILED if tiled and quantised else taken


def _quantised(op: Operator) -> bool:
    return number_format(op.weights).bits < 16


def prompt_attention_s(op: Operator, accelerator: Accelerator, *, fused: bool) -> float | None:
    """Attention of a prompt; none where the usual fused kernel stands for it. [s]"""
    if accelerator.vendor == "AMD":
        return op.flop / (LANE_ATTENTION * accelerator.peaks["fp32"])
    return None if fused else prompt_scores_s(op, accelerator)


def prompt_states_s(op: Operator, accelerator: Accelerator) -> float:
    """Recurrent states advanced over the tokens of a prompt; nothing of a decode. [s]"""
    return op.flop / (LANE_STATES * accelerator.peaks["fp32"]) if op.m > op.batch else 0.0


def prompt_scores_s(op: Operator, accelerator: Accelerator) -> float | None:
    """Attention of a prompt with its scores in memory; none on other vendors' parts. [s]"""
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
