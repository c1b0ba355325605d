"""
How long does a batch take through a network, under one engine? Operators -> seconds.

An operator takes the larger of arithmetic and traffic, smoothed, and no less than its energy over the power the part
may draw: small cards (T4, L4, A2) sustain a fraction of their peak at any batch for that reason. To it the
engine adds a start on the accelerator and, where the host issues operators one by one, host time that shows when the
accelerator is faster. Efficiencies belong to styles of networks, generations of accelerators, and engines.
"""

from __future__ import annotations

from itertools import pairwise
from math import log
from typing import Final

import msgspec

from tonnage.domain.accelerator import Accelerator, Measured
from tonnage.domain.offline import Offline, Runtime, Silicon
from tonnage.domain.precision import number_format
from tonnage.errors import Unmeasured
from tonnage.physics.diffusion import GROUP_NORM
from tonnage.physics.network import LAYER, PIXELS, TOKENS
from tonnage.physics.work import Operator, Work
from tonnage.record import Record

_SIXTEEN: Final = frozenset({"fp16", "bf16"})
_STANDS_IN: Final = {
    "fp4": ("fp8", "int8", "fp16"),
    "fp8": ("int8", "fp16"),
    "int8": ("fp8", "fp16"),
    "fp64": ("fp32",),
}
"""What an engine runs instead of a format the part does not multiply, best first."""
_SLOW_LINK: Final = 1.6e10
"""PCIe 3 x16, where no link is listed. [bytes/s]"""
_REDUCE_S: Final = 1e-5
"""Latency of a small all-reduce inside a node (measured NCCL tables on H100: 7 to 17 us). [s]"""
_LONG_FROM: Final = 4096.0
_LONG_TO: Final = 16384.0
"""Sequences over which attention gains: below are those of images and texts, beyond those of video. [tokens]"""
_TILE_ROWS: Final = 16
"""Fewer rows than tensor cores multiply at once are read past weights that every multiprocessor shares out. [rows]"""
_SHARP: Final = 4.0
"""Exponent of the smooth maximum for one operator (docs/physics.md 1)."""
_STYLE_OF: Final = {"convolution": "convolution", "attention_prefill": "attention", "attention_decode": "attention"}
"""Style of an operator whose name is not one itself."""
_SIMPLE: Final = frozenset(
    f"{where}{what}" for where in (PIXELS, TOKENS) for what in ("arithmetic", "copy", "resample", "other")
)
"""Passes that no function of a value slows down."""
_PACKED: Final = 2.0
"""Times that a product on a processor reads its weights: once to lay them out for its kernel, once to multiply."""
_TRACED_STYLE: Final = {f"{LAYER}grouped": "grouped", f"{LAYER}depthwise": "separable"}
"""Style of a traced convolution over groups of channels."""
_PLAIN_PASSES: Final = 6.7
"""Times a convolution's output crosses memory when nothing is fused: counted in ResNet-50, where every output is
written, normalised, activated and read again, and a third of them added to a shortcut."""
_PLAIN_TOUCH: Final = 1.75
"""Traffic of a transformer's element-wise passes, one by one, over the fused passes of a work list: BERT-base, ViT."""


class Machine(Record, kw_only=True):
    """One accelerator as an engine sees it."""

    peaks: dict[str, float]
    memory_bytes_per_s: float
    link_bytes_per_s: float
    """To the other ranks of a tensor-parallel group, one direction. [bytes/s]"""
    silicon: Silicon
    styles: dict[str, tuple[float, float]]
    """Share of the peak and relative traffic, by style."""
    power_w: float | None
    """Power left for work. [W]"""
    joule_per_flop: float | None
    joule_per_byte: float
    memory_share: float
    """Of the memory bandwidth that long passes reach. [-]"""
    start_s: float | None = None
    """From one operator to the next, where it was measured on this very part. [s]"""
    measured: Measured = Measured()
    """What microbenchmarks reached on this very part. Then operators cost what they cost alone, one after another."""
    tiles: float
    """Elements of a product's output at which half the peak is reached: each multiprocessor makes whole tiles. [-]"""


class Taken(Record, kw_only=True):
    """Where the time of one pass goes. Arithmetic, traffic and starts sum to `device_s`. [s]"""

    arithmetic_s: float
    traffic_s: float
    start_s: float
    host_s: float
    call_s: float
    power_bound: bool

    @property
    def device_s(self) -> float:
        """Time on the accelerator. [s]"""
        return self.arithmetic_s + self.traffic_s + self.start_s

    @property
    def total_s(self) -> float:
        """One pass, alone. [s]"""
        return max(self.device_s, self.host_s) + self.call_s


def peak_of(peaks: dict[str, float], compute: str) -> tuple[float, str]:
    """
    The peak a format runs at and the format that runs: its own, the sibling of 16 bits, or what stands in for it.

    Raises
    ------
    Unmeasured
        The catalogue lists no peak that could run it.
    """
    if compute in _SIXTEEN:
        found = max(((peaks[name], name) for name in (*_SIXTEEN, "fp32") if name in peaks), default=None)
        if found is not None:
            return found
    for name in (compute, *_STANDS_IN.get(compute, ()), "fp32", "tf32", "bf16", "fp16"):
        if name in peaks:
            return peaks[name], name
    raise Unmeasured(f"no peak is known for {compute}; add one with --set ACCELERATOR.peaks.{compute}=…")


def machine_of(
    accelerator: Accelerator, silicon: Silicon, *, facts: Offline, fraction: float = 1.0, units: float | None = None
) -> Machine:
    """
    A catalogue part as an engine sees it, of so many multiprocessors (`units`), with its generation's energy per FLOP.

    `fraction` is the share of the part that one counted device is: 0.5 for one die of two. Rates measured on this very
    part take the place of fitted efficiencies.
    """
    power = accelerator.power_w
    joule = silicon.picojoule_per_flop
    own = accelerator.measured
    ran = own.product is not None
    return Machine(
        styles=_styles(accelerator, facts),
        peaks={name: value * fraction for name, value in accelerator.peaks.items()},
        memory_bytes_per_s=accelerator.memory_bytes_per_s * fraction,
        link_bytes_per_s=accelerator.link.bytes_per_s or accelerator.host_link.bytes_per_s or _SLOW_LINK,
        # Rates that ran on this very part need no efficiency of its kind, and its cache was measured with them.
        silicon=msgspec.structs.replace(silicon, efficiency=1.0, cache_s=0.0) if ran else silicon,
        power_w=None if power is None else power * fraction * (1.0 - facts.idle),
        joule_per_flop=None if joule is None else joule * 1e-12,
        joule_per_byte=facts.picojoule_per_byte * 1e-12,
        memory_share=1.0 if ran else facts.memory,
        start_s=own.start_s,
        measured=own,
        tiles=0.0 if silicon.host else facts.tile * (units or 0.0) * fraction,
    )


def _styles(accelerator: Accelerator, facts: Offline) -> dict[str, tuple[float, float]]:
    """
    Share of the peak that products reach, and traffic beside a plain network, by style of network (`Style`).

    Shares are fitted ones, or what ran on this very part where that was measured.
    """
    own = accelerator.measured
    shares = {
        "product": own.product,
        "attention": own.attention,
        "convolution": own.convolution,
        "grouped": own.convolution,
        "separable": own.depthwise,
    }
    return {style.name: (shares.get(style.name) or style.compute, style.passes) for style in facts.styles}


def pass_s(work: Work, *, machine: Machine, runtime: Runtime, facts: Offline) -> Taken:
    """
    One pass of a batch.

    Parameters
    ----------
    work : Work
        Operators of the whole batch on one accelerator.
    machine : Machine
        The accelerator.
    runtime : Runtime
        The engine in its mode.
    facts : Offline
        Shared numbers.
    """
    arithmetic = traffic = start = operators = 0.0
    bound = False
    held = sum(_weights(op) * op.count for op in work)
    for op in work:
        if machine.silicon.host and machine.measured.product is not None:
            flop_s, byte_s, limited = *_one_measured(op, machine, held), False
        else:
            flop_s, byte_s, limited = _one(op, machine, runtime, facts)
        arithmetic += flop_s * op.count
        traffic += byte_s * op.count
        bound = bound or limited
        if op.flop or not _is_fused(op, runtime):
            start += (machine.start_s or runtime.kernel_s * machine.silicon.start) * op.count
            operators += op.count
    if machine.silicon.host and not machine.start_s:
        # Nothing runs beside the host where the host is the device; a start that was measured holds its work.
        start += runtime.host_s * operators
    # A part that holds the whole network beside its arithmetic is told once to run it.
    alone = machine.silicon.host or machine.silicon.on_chip
    return Taken(
        arithmetic_s=arithmetic,
        traffic_s=traffic,
        start_s=start,
        host_s=0.0 if alone else runtime.host_s * operators,
        call_s=runtime.call_s,
        power_bound=bound,
    )


def _weights(op: Operator) -> float:
    """Weights that one execution of a product reads; 0 of all else. [bytes]"""
    return op.stored_bytes if op.flop and op.kind in {"gemm", "convolution"} else 0.0


def _one_measured(op: Operator, machine: Machine, held: float) -> tuple[float, float]:
    """
    Arithmetic and traffic of one execution on a processor whose own rates were measured; they add up, for one core does
    both. [s, s]

    Products read their weights twice, for libraries pack them first. `held` are the weights of the whole network: those
    of one that the cache does not hold come from memory each time. [bytes]
    """
    own, weights = machine.measured, _weights(op)
    rest = max(op.read_bytes + op.write_bytes - weights, 0.0)
    near = _pass_rate(own.passes, rest) or machine.memory_bytes_per_s
    if not op.flop:
        most = own.pooling if op.name.endswith(": pooling") else None if op.name in _SIMPLE else own.functions
        return 0.0, rest / min(near, most or near)
    far = machine.memory_bytes_per_s if held > (own.cache_bytes or 0.0) else near
    compute, _ = machine.styles.get(op.name) or machine.styles[_style(op)]
    peak, _ = peak_of(machine.peaks, op.compute)
    packed = _PACKED if op.m > 1 else 1.0
    return op.flop / (peak * compute), packed * weights / far + rest / near


def _pass_rate(passes: tuple[tuple[float, float], ...], moved: float) -> float | None:
    """Rate of a pass that moves so many bytes, between the (bytes, rate) that were measured; absent without any."""
    if not passes:
        return None
    if moved <= passes[0][0]:
        return passes[0][1]
    for (size, rate), (larger, slower) in pairwise(passes):
        if moved <= larger:
            share = log(moved / size) / log(larger / size)
            return float(rate ** (1 - share) * slower**share)
    return passes[-1][1]


def _is_fused(op: Operator, runtime: Runtime) -> bool:
    """Whether an element-wise pass runs inside a product. A group norm spans pixels and channels: it never does."""
    return runtime.fused and not op.name.startswith(GROUP_NORM)


def _style(op: Operator) -> str:
    return _TRACED_STYLE.get(op.name) or _STYLE_OF.get(op.kind, "product")


def _unfused_share(op: Operator, runtime: Runtime) -> float:
    """
    Traffic of an element-wise pass to memory, over what the work list says of it; more than 1 of passes one by one. [-]

    Of traced passes it is the share that the engine does not fuse.
    """
    if op.name.startswith(PIXELS):
        return min(max(runtime.passes - 2.0, 0.0) / (_PLAIN_PASSES - 2.0), 1.0)
    if op.name.startswith(TOKENS):
        return runtime.touch / _PLAIN_TOUCH
    if op.name.startswith(GROUP_NORM):
        return max(runtime.touch, 1.0) / (_PLAIN_TOUCH if op.name.endswith("traced") else 1.0)
    return runtime.touch


def _one(op: Operator, machine: Machine, runtime: Runtime, facts: Offline) -> tuple[float, float, bool]:
    """Arithmetic and traffic seconds of one execution (they sum to its time), and whether power sets it."""
    if op.kind == "all_reduce":
        share = 2.0 * (op.ranks - 1) / op.ranks
        return 0.0, _REDUCE_S + share * op.message_bytes / (machine.link_bytes_per_s * facts.memory), False
    compute, passes = machine.styles.get(op.name) or machine.styles[_style(op)]
    moved = _bytes_moved(op, runtime, machine, passes)
    memory_s = moved / (machine.memory_bytes_per_s * machine.memory_share)
    if not op.flop:
        return 0.0, memory_s, False
    peak, ran = peak_of(machine.peaks, _operand_format(op, machine, runtime))
    if runtime.half_sums and op.kind == "gemm" and ran in _SIXTEEN:
        peak = max(peak, machine.peaks.get("fp16_accum16", 0.0))
    share = (
        compute * machine.silicon.efficiency * runtime.products * (runtime.narrow if ran in {"int8", "fp8"} else 1.0)
    )
    if op.kind == "attention_prefill" and not machine.measured.attention:
        share *= _long_attention_factor(op, facts)
    lost = machine.tiles / _outputs(op, machine) if op.m >= _TILE_ROWS and op.kind != "attention_decode" else 0.0
    compute_s = op.flop / (peak * share) * (1.0 + lost)
    # The layers of a network known by its totals are not bound alike: some wait for arithmetic, others for memory.
    # The efficiency of convolutions was fitted on such networks, so that traced ones add up in the same way.
    adds = op.name in machine.styles or (op.kind == "convolution" and op.name.startswith(LAYER))
    sharp = 1.0 if adds else _SHARP
    taken = (compute_s**sharp + memory_s**sharp) ** (1.0 / sharp)
    limited = False
    if machine.power_w is not None and machine.joule_per_flop is not None:
        joule = op.flop * machine.joule_per_flop * facts.energy.get(ran, 1.0) + moved * machine.joule_per_byte
        if joule / machine.power_w > taken:
            taken, limited = joule / machine.power_w, True
    part = compute_s / (compute_s + memory_s)
    return taken * part, taken * (1.0 - part), limited


def _outputs(op: Operator, machine: Machine) -> float:
    """Values that one execution makes, which multiprocessors share out in tiles."""
    if op.kind == "gemm" or (op.kind == "convolution" and op.name not in machine.styles):
        return max(op.m, 1.0) * max(op.n, 1.0) * op.groups
    return max(op.write_bytes / max(number_format(op.compute).bytes, 1.0), 1.0)


def _long_attention_factor(op: Operator, facts: Offline) -> float:
    """
    Rate of attention over long sequences, over that at images and texts: 1 up to 4,096 tokens, most from 16,384. [-]

    Rows of scores amortise what each block starts and ends with.
    """
    if op.context <= _LONG_FROM:
        return 1.0
    return float(facts.long_attention ** min(log(op.context / _LONG_FROM) / log(_LONG_TO / _LONG_FROM), 1.0))


def _operand_format(op: Operator, machine: Machine, runtime: Runtime) -> str:
    """The format an engine multiplies in."""
    narrows = runtime.tf32 and op.kind == "convolution" and op.compute == "fp32"
    return "tf32" if narrows and machine.peaks.get("tf32", 0.0) > machine.peaks.get("fp32", 0.0) else op.compute


def _bytes_moved(op: Operator, runtime: Runtime, machine: Machine, passes: float) -> float:
    """Bytes that cross device memory in one execution: weights, and what the cache cannot keep of the rest."""
    if machine.silicon.on_chip:
        return 0.0
    weights = op.stored_bytes if op.flop else 0.0
    rest = max(op.read_bytes + op.write_bytes - weights, 0.0)
    if not op.flop:
        rest *= _unfused_share(op, runtime)
    elif op.name.startswith(LAYER) and op.kind == "convolution":
        pass  # what follows it is listed apart
    elif op.kind == "convolution":
        rest *= runtime.passes * passes / 2.0
    elif op.kind == "attention_prefill" and runtime.scores:
        keys = op.n or (op.m / op.batch if op.batch else op.m)
        wide = op.compute in {"fp32", "tf32"}
        if wide or keys > runtime.fused_tokens:
            rest += runtime.scores * op.heads * op.m * keys * number_format(op.compute).bytes
    kept = machine.silicon.cache_s * machine.memory_bytes_per_s
    return weights + rest * rest / (rest + kept) if kept else weights + rest
