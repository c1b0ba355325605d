"""Seconds of one operator inside a training step, and of one exchange between ranks (`simulation.training` adds).

Training runs few, large, long kernels at the power limit, so a handful of shares describes them better
than grids of single kernels do: the share of the peak that long products reach, what is lost on short
sides, what attention and element-wise work reach. All come from `TrainCoefficients`, fitted on published
steps; the roofline and its rounded knee are those of `efficiency.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log2
from typing import Final

from tonnage.domain.accelerator import Accelerator
from tonnage.domain.training import TrainCoefficients, TrainSetup
from tonnage.physics.collectives import level_bytes
from tonnage.physics.efficiency import peak_flop_per_s, smooth_max
from tonnage.physics.work import Operator
from tonnage.record import Record

_HEAD_HALF: Final = 32.0
"""Head width at which attention loses half: 64 wide heads reach 0.83 of what 128 wide ones do (measured
FlashAttention tables, H100 and B200)."""

_NARROW: Final = frozenset({"fp8", "fp4", "int8"})

_HALF_RATE_SHARE: Final = 0.98
"""Most of its listed 16-bit peak that a half-rate part reaches: RTX 4090, 4096 x 14336 with 512 to 2,048 rows, 0.97 to
0.998 (kernel times that LLMServingSim publishes, September 2026)."""

_WITHOUT_CODES: Final = 1.13
"""Bandwidth of GDDR without error-correcting codes beside the data over that with them: a product of one row reads 0.93
of an RTX 4090's and 0.83 of an L40S's (the same source)."""

_SCAN: Final = 0.09
"""What chunked scans reach over long products: with those at 0.7, 0.063 of the 16-bit peak. 8,192 tokens of 64 states
of 128 x 128 take 1.1 and 1.6 ms on H100 (TensorRT-LLM's and SGLang's Triton kernels, which training runs, too), 0.9 and
0.9 on B200, 0.07 to 0.10 and 0.05 of the peak (aiconfigurator-core 0.12.0). [-]"""

_MEETING: Final = 4.0
"""Power at which the limits of memory and of what multiprocessors ask for meet, as in a roofline."""


def product_share(*, share: float, half: float, m: float, n: float, k: float) -> float:
    """
    Share of the peak that one matrix product reaches.

    e = s / ((1 + h / m) (1 + h / n) (1 + h / k))

    Parameters
    ----------
    share : number
        s, of a product with three long sides. [-]
    half : number
        h, length of a side at which half is lost: tiles that do not fill, pipelines that do not start. [values]
    m : number
        Rows. [-]
    n : number
        Columns. [-]
    k : number
        Inner side. [-]

    Returns
    -------
    number
        Share of the dense peak. [-]

    Valid
    -----
    Sides of a tile (about 128) and longer.

    Source
    ------
    Form of vTrain's single-node fit; values fitted in tools/calibration/training.py.

    Examples
    --------
    >>> print(f"{product_share(share=0.8, half=100, m=900, n=900, k=900):.3f}")
    0.583
    """
    return share / ((1.0 + half / max(m, 1.0)) * (1.0 + half / max(n, 1.0)) * (1.0 + half / max(k, 1.0)))


def training_operator_s(op: Operator, setup: TrainSetup) -> float:
    """One execution of a compute operator inside a training step; exchanges are `transfer_s`. [s]"""
    accelerator, coefficients = setup.accelerator, setup.coefficients
    moved_bytes = op.read_bytes + op.write_bytes
    if op.kind == "elementwise":
        return moved_bytes / eager_bytes_per_s(setup) * coefficients.passes[setup.software.fitted]
    moved_s = moved_bytes / sustained_bytes_per_s(setup)
    share = _share(op, setup)
    if op.kind == "attention_prefill":
        reach = op.context / (op.context + coefficients.attention_half)
        table = coefficients.attention
        kernel = table["native"] if setup.native_attention else by_architecture(table, accelerator.architecture)
        share *= kernel * reach * op.head_dim / (op.head_dim + _HEAD_HALF)
    elif op.kind == "state_space":
        share *= _SCAN
    else:
        share = product_share(share=share, half=coefficients.gemm_half, m=op.m, n=op.n, k=op.k)
        if op.kind == "grouped_gemm":
            share *= coefficients.expert["fused" if setup.fused_experts else "*"]
        if op.compute not in {"fp32", "tf32"}:
            share *= _alignment(op, coefficients)
    share = half_rate_share(accelerator, op.compute, share=share)
    compute_s = op.flop / (training_peak(accelerator, op.compute) * share)
    return smooth_max(compute_s=compute_s, memory_s=moved_s)


def training_peak(accelerator: Accelerator, dtype: str) -> float:
    """
    Peak at which training multiplies: products accumulate in 32 bits. [FLOP/s]

    Where 16-bit arithmetic is slower than 32-bit (Pascal's GeForce), libraries store 16 bits and multiply 32.
    """
    peak = peak_flop_per_s(accelerator, dtype)
    return max(peak, accelerator.peaks.get("fp32", 0.0)) if dtype in {"fp16", "bf16"} else peak


def half_rate_share(accelerator: Accelerator, dtype: str, *, share: float) -> float:
    """
    Share of the listed peak where tensor cores halve their rate to accumulate in 32 bits (GeForce).

    What holds a kernel below the full rate (operands, power, short sides) binds less at half of it.
    """
    listed = accelerator.peaks.get("fp16", 0.0)
    full = accelerator.peaks.get("fp16_accum16", 0.0)
    if dtype not in {"fp16", "bf16", "tf32"} or not 0 < listed < full:
        return share
    return max(share, min(_HALF_RATE_SHARE, share * full / listed))


def sustained_bytes_per_s(setup: TrainSetup) -> float:
    """
    Memory bandwidth that element-wise work reaches. [bytes/s]

    Stacked memory is harder to fill than GDDR, and GDDR that keeps codes beside the data gives up bandwidth for them.
    """
    accelerator = setup.accelerator
    kind = next((kind for kind in ("HBM", "GDDR") if accelerator.memory_type.startswith(kind)), "*")
    codes = _WITHOUT_CODES if kind == "GDDR" and accelerator.ecc is False else 1.0
    return accelerator.memory_bytes_per_s * setup.coefficients.memory[kind] * codes


def eager_bytes_per_s(setup: TrainSetup) -> float:
    """The same for one operator after the other, each of which keeps only so much in flight. [bytes/s]"""
    rate = sustained_bytes_per_s(setup)
    if not setup.software.kernel_by_kernel or setup.multiprocessors is None or setup.accelerator.vendor != "NVIDIA":
        return rate
    asked = setup.multiprocessors * setup.coefficients.eager_stream
    return float((rate**-_MEETING + asked**-_MEETING) ** (-1.0 / _MEETING))


def _alignment(op: Operator, coefficients: TrainCoefficients) -> float:
    """Tensor cores want contiguous sides in whole rows of 16 bytes, and reach their best in multiples of 64 values."""
    if any(side % 8 for side in (op.n, op.k)):
        return coefficients.unaligned
    return coefficients.ragged if any(side % 64 for side in (op.n, op.k)) else 1.0


def _share(op: Operator, setup: TrainSetup) -> float:
    """Share of its format's peak that a long product reaches; formats without units count as 16 bits. [-]"""
    accelerator, coefficients = setup.accelerator, setup.coefficients
    wide = by_architecture(coefficients.gemm, accelerator.architecture)
    if op.compute == "fp4" and op.compute in accelerator.peaks:
        return coefficients.narrow["fp4"]
    if op.compute in _NARROW and op.compute in accelerator.peaks:
        return _narrow_share(accelerator, op.compute, coefficients)
    if op.compute == "fp32":
        return wide * coefficients.single
    return wide * coefficients.wide if op.compute == "tf32" else wide


def by_architecture(table: Mapping[str, float], architecture: str) -> float:
    """
    The number of an architecture: its own, else of the one that it grew from, else of all the others ("*").

    "Blackwell Ultra" grew from "Blackwell", "CDNA4" from "CDNA".
    """
    for name in (architecture, architecture.partition(" ")[0], architecture.rstrip("0123456789")):
        if name in table:
            return table[name]
    return table["*"]


def _narrow_share(accelerator: Accelerator, compute: str, coefficients: TrainCoefficients) -> float:
    """Share of the peak of 8-bit products: what their kernels reach, at most what the board's power limit lets them."""
    kernels = by_architecture(coefficients.narrow, accelerator.architecture)
    energy = by_architecture(coefficients.narrow_energy, accelerator.architecture)
    if not energy or not accelerator.power_w:
        return kernels
    return min(kernels, accelerator.power_w / (energy * 1e-12 * accelerator.peaks[compute]))


class Network(Record, kw_only=True):
    """Links of one job: inside the fast domain and between domains, as collectives use them. [bytes/s]"""

    domain: int
    """Accelerators of one node, or of one fabric of direct links where that is larger."""
    linked: int
    """Accelerators joined by a direct link; larger groups of a domain go through the host."""
    inside: float
    """Collective rate of one accelerator over the direct link."""
    host: float
    """The same through the host."""
    outside: float
    """Collective rate of one accelerator between domains."""
    hop_s: float = 5e-6


_DEFAULT_NETWORK: Final = {"Pascal": 12.5e9, "Volta": 12.5e9, "Turing": 12.5e9, "Ampere": 25e9}
"""One adapter per accelerator of the era: 100 Gb/s, 200 Gb/s; 400 Gb/s since. [bytes/s]"""


def network(setup: TrainSetup) -> Network:
    """The links of a job: stated where the setup says so, else its accelerator's own and its era's."""
    accelerator, coefficients = setup.accelerator, setup.coefficients
    link, node = accelerator.link, setup.accelerators_per_node
    host = (accelerator.host_link.bytes_per_s or 16e9) * coefficients.host_link
    direct = setup.intra not in {"pcie", "none"} and bool(link.bytes_per_s) and link.domain > 1
    if accelerator.segment == "consumer":
        host *= min(1.0, 2.0 / max(1, min(node, setup.layout.ranks)))  # no peer access: all share the host's memory
    linked = max(accelerator.linked(node), node if setup.intra in {"nvlink", "xgmi", "ici"} else 1) if direct else 1
    inside = (link.bytes_per_s or 0.0) * coefficients.link if direct else host
    stated = setup.inter_bytes_per_s or _DEFAULT_NETWORK.get(accelerator.architecture, 50e9)
    return Network(
        domain=max(node, linked), linked=linked, inside=inside, host=host, outside=stated * coefficients.network
    )


def transfer_s(kind: str, message_bytes: float, *, ranks: int, stride: int, links: Network) -> float:
    """
    Seconds of one collective over `ranks` ranks that lie `stride` apart in the job.

    A group whose neighbours share a domain uses its fast links and crosses between domains with as
    many adapters as it has ranks in each; a group of one rank per domain has one adapter each.
    """
    if ranks <= 1 or message_bytes <= 0:
        return 0.0
    per_domain = max(1, min(ranks, links.domain // max(1, stride)))
    sent = level_bytes(kind, message_bytes, ranks=ranks, per_domain=per_domain)
    rate = links.inside if per_domain * stride <= links.linked else links.host
    inside, outside = sent.inside / rate if sent.inside else 0.0, sent.outside / links.outside
    # Rings of gathers and scatters stream through both links at once; reductions finish one before the other.
    seconds = inside + outside if kind == "all_reduce" else max(inside, outside)
    return seconds + (2.0 if kind == "all_reduce" else 1.0) * links.hop_s * ceil(log2(ranks))
