"""How much of an accelerator its kernels use, as measured: grids of times, a generic curve, and the ladder of both.

A `Ladder` holds, for one accelerator, the measured time grids of its kernels and the generic curve
that stands in where nothing was measured. Its rungs, best first: `own` (this accelerator was
measured), `architecture` (a part with the same compute capability was), `generation` (a part of the
same architecture name was), `generic` (a curve with a few efficiencies).

Records only: the catalogue reads them from files, `tonnage.physics.efficiency` turns them into seconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from tonnage.record import Record

Rung = Literal["own", "architecture", "generation", "generic"]

RUNGS: Final[tuple[Rung, ...]] = ("own", "architecture", "generation", "generic")


WITNESSES: Final = ("@1", "@2")
"""Ends of the keys of `Ladder.grids` where two other engines' tables of the same kernel on the same part may stand."""


class Machine(Record, kw_only=True):
    """What a roofline needs to know about an accelerator, for one compute dtype or one link."""

    peak_flop_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float = 0.0


class Origin(Record, kw_only=True):
    """Where a grid comes from: what a prediction that rests on it names as its evidence."""

    key: str
    """Kind, format and variant, as in `Ladder.grids`."""
    accelerator: str
    """The part that was measured."""
    file: str
    """Of the catalogue's folder of efficiencies."""
    package: str
    """The published collection of kernel tables it was built from."""
    date: str
    """When it was built (ISO)."""


class Grid(Record, kw_only=True, eq=False):
    """
    Measured times over a regular grid of shapes, compared by identity.

    `axes` are natural logarithms of the coordinates; the last is the one that grows with tokens,
    context or message size. `excess` holds, in C order and in steps of LOG_STEP, the logarithm of the
    measured time over `physics.efficiency.model_s` of the shape on the machine it was measured on.
    """

    kind: str
    """Which demand function the coordinates feed: see `physics.efficiency.DEMANDS`."""
    axes: tuple[tuple[float, ...], ...]
    excess: array[int]
    floor_s: float
    """Part of every time that no faster memory, arithmetic or link shortens. [s]"""
    weights_bytes: float = 2.0
    """Bytes of one stored value (weights, cached keys and values). [bytes]"""
    width: float = 128.0
    """Head size of attention; sum of both sides of an expert's matrix; 1 elsewhere."""
    rung: Rung = "own"
    source: str = ""
    """Software and its version, and the table."""
    origin: Origin | None = None
    """Absent for grids that no file holds."""
    crowding: float = 1.0
    """Multiprocessors of the measured part over those of the part it stands in for."""
    arithmetic: float = 1.0
    """Share of its peak that the part reaches, over the measured part's share of its own."""
    memory: float = 1.0
    """The same of the memory bandwidth."""
    routes: bool = False
    """Timed from the router's logits on: choosing experts is in it (grouped_gemm)."""


LOG_STEP: Final = 1.0 / 2000.0
"""Resolution of the stored logarithms: 0.05 % of a time."""

_GEMM: Final[dict[str, tuple[float, float, float]]] = {
    "fp32": (0.83, 0.81, 620.0),
    "tf32": (0.83, 0.81, 620.0),
    "fp16": (0.83, 0.81, 620.0),
    "bf16": (0.83, 0.81, 620.0),
    "fp8": (0.66, 0.73, 1200.0),
    "int8": (0.66, 0.73, 1200.0),
    "fp4": (0.61, 0.63, 2800.0),
}


class Curve(Record, kw_only=True):
    """
    The generic curve: efficiencies of kernels where no grid applies.

    Fits of tools/calibration/curve.py over all measured accelerators, each with equal weight; fp32 and tf32
    take bf16's shares, int8 takes fp8's. State-space, convolution and gather shares are assumptions.
    """

    own: bool = False
    """Kernels are the engine's own: nothing but the experts that a batch reaches is read, and nothing else is timed."""
    overlaps: bool = True
    """Arithmetic goes on while data moves; otherwise one follows the other."""
    launch_s: float = 3.1e-6
    """One kernel inside a captured graph. [s]"""
    narrow_launch_s: float = 7.5e-6
    """A product of 8 bits or less, with the kernel that quantises its input. [s]"""
    grouped_launch_s: float = 10.3e-6
    """
    A product of routed experts, with permuting rows to them, the activation and the weighted sum: median of what 27
    tables of 16-bit experts take at no size (6.7 to 16.2 us; of 8-bit ones 11.8, of 4-bit ones 7).
    """
    gemm: dict[str, tuple[float, float, float]] = msgspec.field(default_factory=lambda: dict(_GEMM))
    """By compute dtype: compute efficiency, memory efficiency, m0 of the small-shape penalty."""
    dequantize: float = 0.95
    """Compute efficiency of weight-only products over that of 16-bit ones."""
    widened_experts: float = 0.4
    """
    The same of routed experts in 4 bits: their rows lie in many small tiles, each with its own weights to widen.

    With `widened_cycles` a grid over 680 shapes of 17 tables (MXFP4 and INT4 times 16 bits on A100, L40S, Hopper,
    Blackwell and RTX PRO 6000; aiconfigurator-core 0.12.0): off by 23 % in the middle, 52 % without the two.
    """
    widened_cycles: float = 0.08
    """Cycles of one multiprocessor for a byte of such weights, which its lanes widen on the way in. [1/byte]"""
    prefill_launch_s: float = 17e-6
    prefill_limit: float = 0.46
    prefill_narrow: float = 0.6
    """
    Of its peak in FP8, attention of prompts reaches so much of what it reaches of its peak in 16 bits: median of 42
    tables that hold both (0.5 to 0.78 on Hopper and Blackwell at 16,384 tokens; softmax stays in 32 bits).
    """
    prefill_half: float = 720.0
    """Query tokens at which prefill attention reaches half of its limit."""
    decode_memory: float = 0.74
    decode_occupancy: float = 0.05
    decode_launch_s: float = 14e-6
    elementwise_memory: float = 0.75
    gather_memory: float = 0.5
    state_space_compute: float = 0.25
    state_space_memory: float = 0.65
    convolution_compute: float = 0.6
    convolution_memory: float = 0.7
    link: float = 0.8
    """Bus bandwidth of large collectives over the link rate, inside a node."""
    link_small: float = 0.45
    """The same for messages of a few hundred KiB: the second regime."""
    network: float = 0.8
    """Bus bandwidth of large collectives over the network rate, between nodes."""
    host_link: float = 0.42
    """Collectives over PCIe with peer access, over the PCIe rate of one direction."""
    host_link_no_peer: float = 0.22
    """The same through host memory: no peer access between cards."""
    hop_s: float = 1.0e-6
    ring_step_s: float = 1.4e-6
    """
    One step of the library's ring over PCIe: with `collective_launch_s` within a tenth of the smallest messages of
    NCCL's all-reduces and gathers among 2, 4 and 8 L40S and RTX PRO 6000 (`physics.collectives.ring_steps`). [s]
    """
    ring_small: float = 0.65
    """Of the rate of large messages over PCIe, what small ones reach: 64 KiB to 1 MiB in those tables, less steps."""
    collective_launch_s: float = 4e-6
    network_hop_s: float = 8e-6


OWN_KERNELS: Final = Curve(
    own=True, grouped_launch_s=Curve().launch_s, widened_experts=Curve().dequantize, widened_cycles=0.0
)
"""Engines with kernels of their own: a product reads the rows of its experts where they lie, in one launch."""

VECTORS: Final = 0.5
"""
Of a processor's rate in 32 bits, products of an engine with kernels of its own, whatever the weights: llama.cpp's are
dot products in vector units, and experts of a mixture never reach matrix units (ggml-cpu/amx takes plain products
alone). 3.3 of 6.0 TFLOP/s on two Xeon 6226R (Gemma 3 27B in 8 bits, prompts of 512: measurements/rigs.csv). [-]
"""

CARD_MEMORY: Final = 0.94
"""
Share of GDDR's rate that products of few rows reach where no codes lie beside the data: Arc Pro B60 0.97 (vLLM), RTX
PRO 6000 0.93 and 0.94 (SGLang, vLLM), L40S 0.84 and 0.86 with codes, which cost 0.13 (aiconfigurator-core 0.12.0;
median of five matrices of 0.1 to 0.9 GB). The curve's 0.81 is mostly of server parts with stacked memory. llama.cpp's
kernels, of which no table is left, reach it as well: 311 rows on 15 parts are 5 % off with it, 14 % at 0.81 (XJD). [-]
"""

PROCESSOR: Final = Curve(
    overlaps=False,
    launch_s=1e-6,
    narrow_launch_s=1e-6,
    grouped_launch_s=1e-6,
    gemm={dtype: (1.0, 1.0, 0.0) for dtype in _GEMM},
    dequantize=1.0,
    widened_experts=1.0,
    widened_cycles=0.0,
    prefill_launch_s=1e-6,
    prefill_limit=1.0,
    prefill_half=0.0,
    decode_memory=1.0,
    decode_occupancy=0.0,
    decode_launch_s=1e-6,
    elementwise_memory=1.0,
    gather_memory=1.0,
)
"""
A processor whose own microbenchmarks give its peaks: rates that ran, and no multiprocessors that a small shape leaves
idle. What an engine's kernels reach of them is for its measurements to say. Launches are calls of a function (assumed).
A core that waits for a line of memory computes nothing meanwhile: steps of 1 to 16 rows and prompts of llama.cpp cost
the stream of weights plus a fixed time a row (measurements/own/engine.csv).
"""

_CONVERTED: Final = 0.35
"""
Of the rate of a library's products, llama.cpp's own with 16-bit weights. [-]

They convert their factors on the way into each multiplication (assumed cause). Prompts of 66 to 264 tokens reach 0.30
to 0.36 on an Intel core with AVX-512 (five models) and about 0.35 on an AMD core with AVX2 (two), what a further row of
a decode adds 0.25 on both (measurements/own/engine.csv).
"""
PROCESSOR_OWN: Final = msgspec.structs.replace(PROCESSOR, gemm={dtype: (_CONVERTED, 1.0, 0.0) for dtype in _GEMM})
"""The same of an engine with products of its own; no other engine with its own kernels was measured on a processor."""


NEURON: Final = Curve(collective_launch_s=58e-6, hop_s=0.0, ring_step_s=0.0)
"""
NeuronCores: an all-reduce of anything up to 256 KiB takes 58 us (AWS Neuron SDK documentation, nccom-test user guide,
example of two ranks, read 2026-11-23). That more ranks do not add to it is from decode steps of 24 and 32 cores.
"""
NEURON_RING_BYTES_PER_S: Final = 52.83 * 2**30
"""Bus bandwidth of an all-reduce of 1 GiB over NeuronLink-v2, by the same page: about one link of a torus. [bytes/s]"""


class Ladder(Record, kw_only=True, eq=False):
    """
    Everything measured that helps to predict one accelerator, for one family of kernels.

    `grids` is keyed by operator kind, format and variant ("gemm/bf16", "all_reduce/8"). Compared by
    identity, so results can be cached by it. `Ladder()` is the generic curve alone.
    """

    accelerator: str = ""
    family: str = ""
    """Whose kernels: vllm, sglang, trtllm …"""
    grids: Mapping[str, Grid] = {}
    curve: Curve = Curve()
    multiprocessors: float | None = None
    """Streaming multiprocessors, compute units or cores. [units]"""
    sustained: float = 1.0
    """Clock under sustained load over the clock that the peaks assume; below 1 on power-capped parts."""
    peer_access: bool | None = None
    """Whether cards read each other's memory over PCIe; absent = only data-centre parts."""
    inter_node_bytes_per_s: float | None = None
    """Network between nodes, one accelerator, one direction; absent = 50 GB/s (400 Gb/s). [bytes/s]"""
    notes: tuple[str, ...] = ()
