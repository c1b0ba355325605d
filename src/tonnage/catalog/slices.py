"""Into which slices does an accelerator split, and what is one of them like? (NVIDIA: multi-instance GPU.)

A slice is an accelerator of its own: so many multiprocessors, and a share of the memory with its bandwidth and cache
that no neighbour can take. It has no link to others, and the bus to the host is shared. Names are the parent's with the
profile behind it: "h100-sxm5-80gb:1g.10gb". One accelerator is taken as split into slices of one kind.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import msgspec

from tonnage.catalog.rows import DATA, number, table
from tonnage.domain.accelerator import Accelerator, Fact, Link, Measured
from tonnage.errors import BadFact
from tonnage.units import GiB

__all__ = ["Slice", "multiprocessors_of_slice", "part_of", "parted", "slices_of"]

_NAMED: Final = re.compile(r"(?P<parent>.+?)(?::|\s+mig\s+)(?P<profile>\d+g\.\d+gb)", re.IGNORECASE)


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One profile of one accelerator."""

    accelerator: str
    profile: str
    most: int
    """Of this kind in one accelerator."""
    memory_share: float
    """Of memory, bandwidth and cache. [-]"""
    compute_share: float
    """Of the multiprocessors. [-]"""
    source: str
    memory_bytes: float | None = None
    """As the driver lists it; absent = the share of the whole. [bytes]"""
    multiprocessors: float | None = None
    decoders: float | None = None
    """Video decoders of its own. [-]"""

    @property
    def id(self) -> str:
        """The name of the part that it is."""
        return f"{self.accelerator}:{self.profile}"


def parted(name: str) -> tuple[str, str] | None:
    """
    The parent and the profile that a name of a slice means; absent for whole accelerators.

    Examples
    --------
    >>> parted("H100:1g.10gb"), parted("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), parted("h100")
    (('H100', '1g.10gb'), ('NVIDIA A100-SXM4-40GB', '1g.5gb'), None)
    """
    match = _NAMED.fullmatch(name.strip())
    return None if match is None else (match["parent"], match["profile"].lower())


def slices_of(accelerator: str) -> tuple[Slice, ...]:
    """The profiles of an accelerator, small ones first; none where it does not split or nobody listed them."""
    return _rows().get(accelerator, ())


def multiprocessors_of_slice(name: str) -> float | None:
    """Multiprocessors of the part with this id, where it is a slice whose driver lists them."""
    split = parted(name)
    if split is None:
        return None
    return next((one.multiprocessors for one in slices_of(split[0]) if one.profile == split[1]), None)


def part_of(whole: Accelerator, piece: Slice) -> Accelerator:
    """The slice as an accelerator. What it draws and costs by itself nobody states: absent."""
    memory = piece.memory_bytes or whole.driver_memory_bytes * piece.memory_share
    return msgspec.structs.replace(
        whole,
        id=piece.id,
        name=f"{whole.name} MIG {piece.profile}",
        aliases=(),
        memory_bytes=memory,
        usable_memory_bytes=memory,
        memory_bytes_per_s=whole.memory_bytes_per_s * piece.memory_share,
        peaks={dtype: peak * piece.compute_share for dtype, peak in whole.peaks.items()},
        link=Link(kind="none"),
        power_w=None,
        mig_slices=0,
        max_per_node=None,
        launch_price_usd=None,
        street_price_usd=None,
        measured=Measured(),
        calibrations={},
        fact=Fact(source=piece.source),
    )


@cache
def _rows() -> dict[str, tuple[Slice, ...]]:
    found: dict[str, list[Slice]] = {}
    widths = _widths()
    for row in table(DATA / "slices" / "profiles.csv"):
        name, profile = row["accelerator"], row["profile"]
        most, share = number(row, "most"), number(row, "memory_share")
        if most is None or share is None or not 0 < share <= 1 or most < 1 or parted(f"x:{profile}") is None:
            raise BadFact(f"slices: {name} {profile} needs most, and a memory_share of at most 1")
        mine, width = number(row, "multiprocessors"), widths.get(name)
        # Sevenths or quarters, as the guide counts; the multiprocessors themselves where the driver listed them.
        compute = mine / width if mine and width else int(profile[0]) / (4 if most * int(profile[0]) == 4 else 7)
        found.setdefault(name, []).append(
            Slice(
                accelerator=name, profile=profile, most=int(most), memory_share=share, compute_share=compute,
                source=row["source"], memory_bytes=number(row, "memory_gib", factor=GiB), multiprocessors=mine,
                decoders=number(row, "decoders"),
            )
        )  # fmt: skip
    return {name: tuple(some) for name, some in found.items()}


@cache
def _widths() -> dict[str, float]:
    rows = table(DATA / "efficiency" / "multiprocessors.csv")
    return {row["id"]: width for row in rows if (width := number(row, "multiprocessors")) is not None}
