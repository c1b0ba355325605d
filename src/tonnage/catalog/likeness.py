"""What decides from whom a part may borrow measured kernels: width, clock, peak, bandwidth, kind of memory."""

from __future__ import annotations

import csv
from functools import lru_cache
from math import exp, inf, log
from pathlib import Path
from typing import Final, NamedTuple

from tonnage.catalog.accelerators import accelerators
from tonnage.catalog.hardware import multiprocessors_of_slice
from tonnage.domain.accelerator import Accelerator, parse_slice_name
from tonnage.record import Record

FOLDER: Final = Path(__file__).parent / "data" / "efficiency"
_ALL: Final = 0.98
"""Share of the memory that a driver shows at least where no codes are kept in it; with them 15 of 16 parts. [-]"""


class Die(NamedTuple):
    """Width and clock of one part, where known."""

    multiprocessors: float
    boost_clock_mhz: float | None


@lru_cache(maxsize=1)
def _dies() -> dict[str, Die]:
    with (FOLDER / "multiprocessors.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["id"]: Die(float(row["multiprocessors"]), float(row["boost_clock_mhz"] or 0) or None)
            for row in csv.DictReader(file)
        }


def die_of(name: str) -> Die | None:
    """The die of a part; of a slice, its own multiprocessors at the clock of the whole."""
    split = parse_slice_name(name)
    if split is None:
        return _dies().get(name)
    whole, own = _dies().get(split[0]), multiprocessors_of_slice(name)
    return None if whole is None or own is None else Die(own, whole.boost_clock_mhz)


def units_of_donor(accelerator: Accelerator) -> float | None:
    """
    Multiprocessors of a part whose number nobody lists: as many as give its 16-bit peak at the rate of those of the
    nearest part with the same compute capability. Without any, a part would have no limit that related parts have.
    """
    if accelerator.compute_capability is None:
        return None
    return _units_at_peak(accelerator.compute_capability, part_of(accelerator).peak)


@lru_cache(maxsize=128)
def _units_at_peak(capability: str, log_peak: float) -> float | None:
    kin = [
        (abs(other.peak - log_peak), name, die.multiprocessors * exp(log_peak - other.peak))
        for name, part in accelerators().items()
        if part.compute_capability == capability and (die := die_of(name)) is not None
        for other in (part_of(part),)
    ]
    return min(kin)[2] if kin else None


@lru_cache(maxsize=1)
def sustained_shares() -> dict[str, float]:
    """Share of the peak that long work keeps, by architecture. [-]"""
    with (FOLDER / "sustained.csv").open(newline="", encoding="utf-8") as file:
        return {row["architecture"]: float(row["share"]) for row in csv.DictReader(file)}


class Part(Record, kw_only=True):
    """What decides from whom an accelerator may borrow."""

    name: str
    capability: float
    """Compute capability; 0 for parts that run no CUDA kernels."""
    stacked: bool
    """Stacked memory (HBM) of server parts, not the GDDR of cards."""
    peak: float
    """Logarithm of the 16-bit peak."""
    bandwidth: float
    """Logarithm of the memory bandwidth."""
    half_rate: bool
    """Tensor cores run at half rate when they accumulate in 32 bits (GeForce)."""
    corrected: bool | None
    """GDDR6 that keeps its error-correcting codes beside the data, at the cost of bandwidth; none: not stated."""


def part_of(accelerator: Accelerator) -> Part:
    """What an accelerator is like."""
    best = max((accelerator.peaks.get(dtype, 0.0) for dtype in ("bf16", "fp16", "fp32")), default=0.0)
    capability = accelerator.compute_capability or ""
    cuda = capability.replace(".", "", 1).isdigit()
    return Part(
        name=accelerator.id,
        capability=float(capability) if cuda else 0.0,
        stacked=accelerator.memory_type.startswith("HBM"),
        peak=log(max(best, 1e9)),
        bandwidth=log(accelerator.memory_bytes_per_s),
        half_rate=accelerator.peaks.get("fp16_accum16", 0.0) > accelerator.peaks.get("fp16", inf),
        corrected=_keeps_codes(accelerator),
    )


def _keeps_codes(accelerator: Accelerator) -> bool | None:
    """
    Whether GDDR6 keeps codes beside the data as shipped; none: not stated, or other memory.

    A part that can may not: RTX cards of workstations come with it off, and the driver shows all of their memory (RTX
    A6000: 49,140 of 49,152 MiB), where an A40 or L40S shows a sixteenth less (46,068 MiB).
    """
    if not accelerator.memory_type.startswith("GDDR6"):
        return None
    shown = accelerator.driver_memory_bytes / accelerator.memory_bytes
    return False if accelerator.ecc and accelerator.segment == "workstation" and shown > _ALL else accelerator.ecc
