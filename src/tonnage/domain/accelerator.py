"""
One accelerator as its datasheet and its driver describe it, and what it needs from the machine around it.

Peaks are dense, per dtype; a dtype that is absent is not supported. Link rates are bytes per second of one accelerator
in one direction (vendors print both directions together). A multi-die card is what one program sees; `fraction` in a
case says that half of it is counted.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from tonnage.domain.calibration import Calibration
from tonnage.record import Record, SparseRecord

STATUSES: Final = ("released", "announced", "facts-only")
"""
Where a part stands: sold or rented; announced or told only by others than its vendor, so answered when named and never
put forward; without a published throughput of its operations, so that nothing is predicted for it.
"""


class Link(SparseRecord, kw_only=True):
    """A link between accelerators: kind, rate of one direction, and how many share it at full rate."""

    kind: str
    """nvlink4, nvlink3-bridge, xgmi, ici-3d, neuronlink, pcie5, ethernet, infiniband, none …"""
    bytes_per_s: float | None = None
    """One accelerator, one direction; absent = not published. [bytes/s]"""
    domain: int = 1
    """Accelerators in one full-rate domain; 1 = no such link."""


class Measured(SparseRecord, kw_only=True):
    """
    What microbenchmarks reached on this very part: shares of its listed peaks, which are then rates that ran.

    Absent = not measured; a model's own efficiency stands in.
    """

    product: float | None = None
    convolution: float | None = None
    depthwise: float | None = None
    attention: float | None = None
    start_s: float | None = None
    """From one small operation to the next. [s]"""
    passes: tuple[tuple[float, float], ...] = ()
    """Element-wise passes into fresh memory: bytes moved and their rate, small ones first. [bytes, bytes/s]"""
    functions: float | None = None
    """Most that passes with exponentials and sums reach (GELU, softmax, norms). [bytes/s]"""
    pooling: float | None = None
    """Bytes that pooling over windows reads and writes. [bytes/s]"""
    cache_bytes: float | None = None
    """Largest array that is copied faster than memory allows: weights up to this stay near. [bytes]"""


class Fact(SparseRecord, kw_only=True):
    """Where a row of facts comes from and what a second table said about it."""

    source: str
    cross_check: str = ""
    notes: str = ""
    checked: str = ""
    """Date of the last check, ISO; empty = the date of the catalogue."""


class Accelerator(SparseRecord, kw_only=True):
    """One accelerator. Absent = unknown, never zero."""

    id: str
    vendor: str
    name: str
    architecture: str
    segment: str
    """datacenter, cloud-only, workstation, consumer, edge, apple, cpu."""
    memory_bytes: float
    """As the vendor states it. [bytes]"""
    memory_bytes_per_s: float
    """Peak memory bandwidth. [bytes/s]"""
    peaks: dict[str, float]
    """Dense peak by dtype: fp64 fp64_tensor fp32 tf32 fp16 fp16_accum16 bf16 fp8 fp4 int8 int4. [FLOP/s]"""
    link: Link
    """Between accelerators of one node."""
    host_link: Link
    """To the host, usually PCIe."""
    fact: Fact
    status: str = "released"
    """One of STATUSES."""
    aliases: tuple[str, ...] = ()
    memory_type: str = ""
    usable_memory_bytes: float | None = None
    """Total as the driver reports it, before context and framework reserve. [bytes]"""
    compute_capability: str | None = None
    year: int | None = None
    form_factor: str = ""
    power_w: float | None = None
    """Board or module limit. [W]"""
    ecc: bool | None = None
    mig_slices: int = 0
    max_per_node: int | None = None
    launch_price_usd: float | None = None
    measured: Measured = Measured()
    """By microbenchmarks (`tonnage measure device`); empty for parts of the catalogue."""
    calibrations: dict[str, Calibration] = {}
    """The user's own (`tonnage calibrate`), by engine."""
    published: bool = False
    """Whether published rows of its stacks count as points of them (`--calibration published`)."""
    street_price_usd: float | None = None
    """An estimate unless the notes cite a seller. [USD]"""

    def of_share(self, share: float) -> Accelerator:
        """
        A share of the part as a device of its own, one die of two: its memory, bandwidth and peaks; power, prices and
        links stay.
        """
        return replace(
            self,
            memory_bytes=self.memory_bytes * share,
            usable_memory_bytes=self.driver_memory_bytes * share,
            memory_bytes_per_s=self.memory_bytes_per_s * share,
            peaks={dtype: peak * share for dtype, peak in self.peaks.items()},
        )

    def linked(self, per_node: int) -> int:
        """
        Accelerators that the fast link joins: its whole domain where that reaches beyond a machine (a rack), else at
        most the `per_node` of one.
        """
        beyond = self.link.domain > (self.max_per_node or 8)
        return self.link.domain if beyond else min(self.link.domain, per_node)

    @property
    def driver_memory_bytes(self) -> float:
        """Memory a process can see: the driver's total, else the vendor's figure. [bytes]"""
        return self.usable_memory_bytes or self.memory_bytes

    @property
    def visible_memory_bytes(self) -> float:
        """
        Memory that a CUDA process sees: what the driver lists, less what it keeps. [bytes]

        Logs give 79.18 GiB of H100's 79.65, 23.58 of RTX 3090's 24.0, 14.56 of T4's 15.0, 139.8 of H200's 140.4, 178.35
        of B200's 179.06: 450 MiB and 0.15 % fit all within 0.3 % (A100 keeps 0.4 % more). Apple lets a process wire
        three quarters of unified memory (Metal recommendedMaxWorkingSetSize); other vendors list what is usable.
        """
        listed = self.driver_memory_bytes
        if self.vendor == "Apple":
            return 0.75 * listed
        if self.vendor != "NVIDIA" or self.segment == "edge":
            return listed
        return listed - 450 * 2**20 - 0.0015 * listed

    def peak(self, dtype: str) -> float | None:
        """
        Dense peak that a dtype is computed at; absent = not supported. [FLOP/s]

        bf16, fp16 and tf32 that a part lacks run at its fp32 peak, as frameworks emulate them there; no other dtype has
        a fallback.
        """
        if dtype in self.peaks:
            return self.peaks[dtype]
        if dtype in {"bf16", "fp16"}:
            return self.peaks.get("fp32")
        if dtype == "tf32":
            return self.peaks.get("fp32")
        return None


class ScaleUpDomain(SparseRecord, kw_only=True):
    """
    How many accelerators a fast fabric joins, and in which shape. Packages are counted, not dies.

    A name may count otherwise: the "NVL144" of 2025 is a rack of 72 packages with two dies each.
    """

    id: str
    accelerator: str
    name: str
    shape: str
    """switched: any pair at full rate; mesh: a link to some or all others; torus: a link to each neighbour."""
    packages: int
    packages_per_tray: int
    """Of one host or compute tray: what fails, is repaired and is rented together."""
    trays: int
    dims: tuple[int, ...] = ()
    """Sides of a torus, in packages; empty = not published, or no torus."""
    dies_per_package: int = 1
    spare_trays: int | None = None
    """Left out of large jobs by published practice; absent = none is published."""
    slices: tuple[tuple[int, ...], ...] = ()
    """Parts of a torus that are rented by themselves, small ones first; the table of the vendor may go on."""
    fact: Fact

    @property
    def usable_packages(self) -> int:
        """Of one large job, spare trays left out."""
        return self.packages - (self.spare_trays or 0) * self.packages_per_tray


class PublishedResult(Record, kw_only=True):
    """What somebody said an accelerator reached; nothing is derived from it."""

    accelerator: str
    model: str
    metric: str
    value: float
    unit: str
    conditions: str
    source: str
    as_of: str


class HostNeed(SparseRecord, kw_only=True):
    """Something the accelerators need from their host or storage, beside what the offer has."""

    name: str
    need: float
    unit: str
    has: float | None = None
    """Of the offer, for the same share of instances; absent = not listed."""
    enough: bool | None = None
    why: str = ""


_SLICE: Final = re.compile(r"(?P<parent>.+?)(?::|\s+mig\s+)(?P<profile>\d+g\.\d+gb)", re.IGNORECASE)


def parse_slice_name(name: str) -> tuple[str, str] | None:
    """
    The parent and the profile that a name of a slice means; absent for whole accelerators.

    Examples
    --------
    >>> parse_slice_name("H100:1g.10gb"), parse_slice_name("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), parse_slice_name("h100")
    (('H100', '1g.10gb'), ('NVIDIA A100-SXM4-40GB', '1g.5gb'), None)
    """
    match = _SLICE.fullmatch(name.strip())
    return None if match is None else (match["parent"], match["profile"].lower())
