"""
What is inside an accelerator, and what is it part of: slices, video decoders, fast domains, published results.

A slice (NVIDIA: multi-instance GPU) is an accelerator of its own: so many multiprocessors, and a share of the memory
with its bandwidth and cache that no neighbour can take. It has no link to others, and the bus to the host is shared.
Names are the parent's with the profile behind it: "h100-sxm5-80gb:1g.10gb". One accelerator is taken as split into
slices of one kind. Video decoders are published stream counts, one row a part and codec. A scale-up domain is the
fabric that joins accelerators; results are of parts for which nothing is predicted.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tonnage.catalog.rows import DATA, Row, number, read_rows, table
from tonnage.domain.accelerator import (
    Accelerator,
    Fact,
    Link,
    Measured,
    PublishedResult,
    ScaleUpDomain,
    parse_slice_name,
)
from tonnage.errors import BadFact
from tonnage.record import Record
from tonnage.units import GiB


class Slice(Record, kw_only=True):
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


def slices_of(accelerator: str) -> tuple[Slice, ...]:
    """The profiles of an accelerator, small ones first; none where it does not split or nobody listed them."""
    return _rows().get(accelerator, ())


class MemorySizes(Record, kw_only=True):
    """The sizes of memory that a part with one memory for processor and graphics is sold with."""

    accelerator: str
    sizes_gib: str
    source: str


@cache
def _memory_sizes() -> dict[str, tuple[int, ...]]:
    rows = read_rows(DATA / "memory" / "sizes.csv", MemorySizes)
    return {row.accelerator: tuple(map(int, row.sizes_gib.split(";"))) for row in rows}


def memory_sizes(accelerator: str) -> tuple[int, ...]:
    """
    Sizes of memory that a part is sold with, the smallest first; empty = one alone, or not known. [GiB]

    Examples
    --------
    >>> memory_sizes("m3-ultra"), memory_sizes("rtx-3090")
    ((96, 256, 512), ())
    """
    return _memory_sizes().get(accelerator, ())


def with_memory_of(gib: float) -> tuple[str, ...]:
    """Parts that are sold with that size of memory."""
    return tuple(name for name, sizes in _memory_sizes().items() if gib in sizes)


def multiprocessors_of(name: str) -> float | None:
    """Multiprocessors, compute units or cores of an accelerator or slice; none where its die is not known. [units]"""
    return _multiprocessors().get(name) or multiprocessors_of_slice(name)


def multiprocessors_of_slice(name: str) -> float | None:
    """Multiprocessors of the part with this id, where it is a slice whose driver lists them."""
    split = parse_slice_name(name)
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
    """The profiles by accelerator, in the order of the table, with the share of multiprocessors that each has."""
    found: dict[str, list[Slice]] = {}
    widths = _multiprocessors()
    for row in table(DATA / "slices" / "profiles.csv"):
        name, profile = row["accelerator"], row["profile"]
        most, share = number(row, "most"), number(row, "memory_share")
        if most is None or share is None or not 0 < share <= 1 or most < 1 or parse_slice_name(f"x:{profile}") is None:
            raise BadFact(f"slices: {name} {profile} needs most, and a memory_share of at most 1")
        mine, width = number(row, "multiprocessors"), widths.get(name)
        # Sevenths or quarters, as the guide counts; the multiprocessors themselves where the driver listed them.
        compute = mine / width if mine and width else int(profile[0]) / (4 if most * int(profile[0]) == 4 else 7)
        found.setdefault(name, []).append(
            Slice(
                accelerator=name,
                profile=profile,
                most=int(most),
                memory_share=share,
                compute_share=compute,
                source=row["source"],
                memory_bytes=number(row, "memory_gib", factor=GiB),
                multiprocessors=mine,
                decoders=number(row, "decoders"),
            )
        )
    return {name: tuple(some) for name, some in found.items()}


@cache
def _multiprocessors() -> dict[str, float]:
    """Multiprocessors by id, of accelerators whose die is listed. [units]"""
    rows = table(DATA / "efficiency" / "multiprocessors.csv")
    return {row["id"]: width for row in rows if (width := number(row, "multiprocessors")) is not None}


CODECS: Final = ("h264", "hevc")
PIXELS_PER_STREAM: Final = 1920.0 * 1080.0 * 30.0
"""Of a stream of 1,080 lines at 30 frames a second. [px/s]"""


class Decoder(Record, kw_only=True):
    """The video decoders of one part, all together."""

    accelerator: str
    pixels_per_s: Annotated[float, Meta(gt=0)]
    source: str
    codec: Literal["h264", "hevc"]
    """The row's own; another than asked for where only that is published."""


def decoder(accelerator: str, *, codec: str) -> Decoder | None:
    """The decoders of a part for a codec; HEVC borrows H.264's rate, which is never the higher one. None = unknown."""
    rows = _decoders()
    for name in (codec, "h264") if codec == "hevc" else (codec,):
        if (accelerator, name) in rows:
            return rows[accelerator, name]
    return None


@cache
def _decoders() -> dict[tuple[str, str], Decoder]:
    rows = read_rows(DATA / "media" / "decoders.csv", Decoder, pixels_per_s=("streams_1080p30", PIXELS_PER_STREAM))
    return {(row.accelerator, row.codec): row for row in rows}


SHAPES: Final = ("switched", "mesh", "torus")


def scale_up_domains(accelerator: str) -> tuple[ScaleUpDomain, ...]:
    """
    The fast domains that are built of the accelerator with this id, small ones first; none where nobody listed one.

    Examples
    --------
    >>> [(one.name, one.packages, one.dims) for one in scale_up_domains("trainium2")]
    [('trn2.48xlarge', 16, (4, 4)), ('Trn2 UltraServer', 64, (4, 4, 4))]
    """
    return tuple(sorted((one for one in _domains() if one.accelerator == accelerator), key=lambda one: one.packages))


def published_results(accelerator: str) -> tuple[PublishedResult, ...]:
    """Results that were published of the accelerator with this id, in the order of the table."""
    return tuple(one for one in _results() if one.accelerator == accelerator)


@cache
def _domains() -> tuple[ScaleUpDomain, ...]:
    return tuple(_domain(row) for row in table(DATA / "domains" / "domains.csv"))


def _domain(row: Row) -> ScaleUpDomain:
    """A fast domain from its row; trays and sides must hold as many packages as it says."""
    packages, per_tray, trays = (_count(row, column) for column in ("packages", "packages_per_tray", "trays"))
    dims = _sides(row["dims"])
    if row["shape"] not in SHAPES:
        raise BadFact(f"{row['id']}: shape is '{row['shape']}', but one of {', '.join(SHAPES)} is expected")
    if per_tray * trays != packages or (dims and prod(dims) != packages):
        raise BadFact(f"{row['id']}: {packages} packages, but its trays or its sides hold another number")
    return ScaleUpDomain(
        id=row["id"],
        accelerator=row["accelerator"],
        name=row["name"],
        shape=row["shape"],
        packages=packages,
        packages_per_tray=per_tray,
        trays=trays,
        dims=dims,
        dies_per_package=_count(row, "dies_per_package"),
        spare_trays=_count(row, "spare_trays") if row["spare_trays"] else None,
        slices=tuple(_sides(text) for text in row["slices"].split(";") if text),
        fact=Fact(source=row["source"], notes=row["notes"], checked=row["checked"]),
    )


def _count(row: Row, column: str) -> int:
    value = number(row, column)
    if value is None or value < 1 or value != int(value):
        raise BadFact(f"{row['id']}: {column} is '{row[column]}', but a whole number above 0 is expected")
    return int(value)


def _sides(text: str) -> tuple[int, ...]:
    return tuple(int(side) for side in text.split("x") if side)


@cache
def _results() -> tuple[PublishedResult, ...]:
    return read_rows(DATA / "results" / "published.csv", PublishedResult)
