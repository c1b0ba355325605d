"""What has been measured about an accelerator's kernels: grids on disk -> `Ladder`.

One file per accelerator and family of kernels, written by tools/calibration/build.py from published tables. For each
kind of operator the ladder takes the first grid it finds: this accelerator's with these kernels, this accelerator's
with another engine's, then the same from the most similar part of the same compute capability, then of the nearest.
"""

from __future__ import annotations

import csv
import zlib
from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import exp
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tonnage.catalog.accelerators import accelerators
from tonnage.catalog.likeness import FOLDER, Part, die_of, part_of, sustained_shares, units_of_donor
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.efficiency import (
    CARD_MEMORY,
    LOG_STEP,
    NEURON,
    NEURON_RING_BYTES_PER_S,
    OWN_KERNELS,
    PROCESSOR,
    PROCESSOR_OWN,
    RUNGS,
    VECTORS,
    WITNESSES,
    Curve,
    Grid,
    Ladder,
    Origin,
    Rung,
)
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.errors import BadFact
from tonnage.record import Record


class Provenance(Record, kw_only=True):
    """Where the grids of one file come from."""

    accelerator: str
    family: str
    package: str
    licence: str
    script: str
    date: str
    index: dict[str, tuple[int, int]]
    """Byte offset and length of each grid after the header."""


class _Block(Record, kw_only=True):
    kind: str
    axes: tuple[tuple[float, ...], ...]
    floor_s: float
    weights_bytes: float
    width: float
    source: str
    low_high: bytes
    """The low bytes of all values of the excess, then the high ones: alike beside alike, they take a sixth less."""


_decode_block = msgspec.msgpack.Decoder(_Block).decode
_decode_provenance = msgspec.msgpack.Decoder(Provenance).decode


def grids_by_accelerator() -> dict[str, tuple[str, ...]]:
    """Accelerators with grids of their own, and the families measured on each."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(FOLDER.glob("*.grids")):
        name, family = path.stem.rsplit(".", 1)
        found[name] = (*found.get(name, ()), family)
    return found


def provenance(accelerator_id: str, family: str) -> Provenance:
    """Provenance of one file of grids."""
    return _open(accelerator_id, family)[0]


def ladder(
    accelerator: Accelerator, *, family: str = SERVING_ENGINE, inter_node_bytes_per_s: float | None = None
) -> Ladder:
    """
    The ladder of one accelerator for one family of kernels.

    `family` is whose kernels run: an engine's, or library (PyTorch and the vendor's collectives: training,
    Transformers). One without tables (data/efficiency/families.csv) borrows those of the usual engine and a note says
    so; engines with kernels of their own (llama.cpp) get the generic curve.
    """
    notes: tuple[str, ...] = ()
    known = _families()
    bare = family in known and not known[family].grids
    if bare:
        notes = (f"{family} brings its own kernels, which nobody has tabulated: generic curve",)
        grids: Mapping[str, Grid] = {}
    else:
        if not any(family in families for families in _read_measured().values()):
            notes = (f"no kernel tables of {family}: those of {SERVING_ENGINE} stand in",)
        grids = _grids(part_of(accelerator), _order(family), known[family].exchanges if family in known else ())
    die = die_of(accelerator.id)
    # Peaks of a processor's own microbenchmarks are rates that ran: the curve of GPUs would take its share twice.
    ran = accelerator.segment == "cpu" and accelerator.measured.product is not None
    return Ladder(
        accelerator=accelerator.id,
        family=family,
        grids=grids,
        curve=_curve_of(accelerator, ran=ran, bare=bare),
        multiprocessors=die.multiprocessors if die else units_of_donor(accelerator),
        sustained=sustained_shares().get(accelerator.architecture, 1.0),
        inter_node_bytes_per_s=inter_node_bytes_per_s,
        notes=notes,
    )


def _curve_of(accelerator: Accelerator, *, ran: bool, bare: bool) -> Curve:
    """
    The curve of a part, `ran` if it was measured here, under an engine with kernels of its own if `bare`.

    On a measured processor libraries reach what the microbenchmarks, which call them, did; an engine's own products
    reach less. On another an engine's own run in its vector units. No processor has the tiles in which an accelerator
    widens experts of 4 bits, each with weights of its own: a core widens a block once for all rows.
    """
    if ran:
        return PROCESSOR_OWN if bare else PROCESSOR
    if bare and accelerator.segment == "cpu":
        lanes, peaks = accelerator.peaks["fp32"], accelerator.peaks
        products = {
            dtype: (VECTORS * lanes / peaks.get(dtype, peaks.get("bf16", lanes)), memory, 0.0)
            for dtype, (_, memory, _) in OWN_KERNELS.gemm.items()
        }
        return replace(OWN_KERNELS, overlaps=False, dequantize=1.0, widened_experts=1.0, gemm=products)
    if accelerator.segment == "cpu":
        return replace(Curve(), widened_experts=Curve().dequantize, widened_cycles=0.0)
    if bare and accelerator.vendor != "NVIDIA":
        return OWN_KERNELS  # what such kernels reach on others' cards was fitted over the plain curve
    return _curve(accelerator, OWN_KERNELS if bare else Curve())


def _curve(accelerator: Accelerator, usual: Curve) -> Curve:
    """The usual curve, or what is known of the part's kind of memory, or of the collectives of its own link."""
    link = accelerator.link
    if accelerator.memory_type.startswith("GDDR") and not part_of(accelerator).corrected:
        more = CARD_MEMORY / usual.gemm["bf16"][1]
        products = {dtype: (compute, memory * more, m0) for dtype, (compute, memory, m0) in usual.gemm.items()}
        return replace(usual, gemm=products)
    if not link.kind.startswith("neuronlink"):
        return usual
    if link.kind != "neuronlink-v2" or not link.bytes_per_s:
        return NEURON
    share = NEURON_RING_BYTES_PER_S / link.bytes_per_s
    return replace(NEURON, link=share, link_small=share)


class _Family(NamedTuple):
    """Whose grids serve one family of kernels."""

    grids: tuple[str, ...]
    """Families whose grids stand in for one another, best first; none: kernels of its own that nobody tabulated."""
    exchanges: tuple[str, ...]
    """The family whose collectives it calls; none: those of its grids."""
    not_served: tuple[str, ...]
    """Starts of the keys of its grids that timed another kernel than runs; others' come first on the same part."""
    not_lent: tuple[str, ...] = ()
    """Starts of those that timed a kernel which no other engine runs."""
    routes: tuple[str, ...] = ()
    """Starts of the keys of its grids that were timed from the router's logits on: choosing experts is in them."""


@lru_cache(maxsize=1)
def _families() -> dict[str, _Family]:
    with (FOLDER / "families.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["family"]: _Family(*(tuple(row[name].split()) for name in _Family._fields))
            for row in csv.DictReader(file)
        }


def _order(family: str) -> tuple[str, ...]:
    """Families whose grids serve one, its own first; those of the usual engine behind where nothing else is stated."""
    known = _families()
    return known[family].grids if family in known else (family, *known[SERVING_ENGINE].grids)


class _Place(NamedTuple):
    """Where a grid lies, and what it is changed by."""

    donor: str
    family: str
    at: int
    length: int
    rung: Rung
    alike: _Likeness


class _Grids(Mapping[str, Grid]):
    """Grids by key, each decoded when somebody asks for it: a model uses ten of a hundred."""

    def __init__(self, places: dict[str, _Place]) -> None:
        self._places = places
        self._read: dict[str, Grid] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __getitem__(self, key: str) -> Grid:
        if (found := self.get(key)) is None:
            raise KeyError(key)
        return found

    def get(self, key: str, default: Grid | None = None) -> Grid | None:  # type: ignore[override] # of any type
        """The grid of a key, with where it was read: the file, its package and its date."""
        if key in self._read or key not in self._places:
            return self._read.get(key, default)
        donor, family, at, length, rung, alike = self._places[key]
        header, body = _open(donor, family)
        file = f"{donor}.{family}.grids"
        origin = Origin(key=key, accelerator=donor, file=file, package=header.package, date=header.date)
        found = _grid(body[at : at + length], rung, alike, origin)
        if key.startswith(_families()[family].routes if family in _families() else ()):
            found = replace(found, routes=True)
        self._read[key] = found
        return found


@lru_cache(maxsize=128)
def _grids(part: Part, families: tuple[str, ...], exchanges: tuple[str, ...] = ()) -> Mapping[str, Grid]:
    """
    For each key the grid of the best donor; collectives of those families first, where any are named.

    Of 16-bit experts the other engines' grids of that donor as well, as `WITNESSES`.
    """
    chosen: dict[str, _Place] = {}
    for donor, rung in _donors(part):
        alike = _OWN if rung == "own" else _likeness(donor, part)
        foreign = () if rung == "own" or _grouped(part.name) == _grouped(donor) else _LATENT
        for family, key, (at, length) in _offered(donor, families, exchanges):
            if key.startswith(foreign) or (rung != "own" and not _lends(key, donor, part.name)):
                continue
            place = _Place(donor, family, at, length, rung, alike)
            first = chosen.setdefault(key, place)
            if key.startswith(_WITNESSED) and first.donor == donor and first.family != family:
                next((end for end in WITNESSES if chosen.setdefault(key + end, place).family == family), None)
    return _Grids(chosen) if chosen else {}


def _offered(
    donor: str, families: tuple[str, ...], exchanges: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Grids of one part, best first: family, key and place; last those that timed another kernel than runs."""
    known = [family for family in (*families, "library") if family in measured_families(donor)]
    for last_resort in (False, True):
        for family in known:
            about = _families().get(family, _Family((), (), ()))
            kept = () if family == families[0] else about.not_lent
            for key, place in _open(donor, family)[0].index.items():
                served = not key.startswith(about.not_served)
                served &= not exchanges or family in exchanges or key.partition("/")[0] not in _EXCHANGES
                if (served or last_resort) and not key.startswith(kept):
                    yield family, key, place


_WITNESSED: Final = "grouped_gemm/bf16"
"""Start of the keys whose other engines' grids are kept beside the first."""
_EXCHANGES: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
"""Kinds of grids whose keys go on with a number of ranks."""


def _lends(key: str, donor: str, name: str) -> bool:
    """Whether another part's grid says something of this one: no exchange where only one of both leaves the board."""
    kind, *rest = key.split("/")
    if "local" in rest or kind not in _EXCHANGES:
        return "local" not in rest
    boards = [accelerators()[one].max_per_node for one in (donor, name) if one in accelerators()]
    return len({board is None or int(rest[0]) <= board for board in boards}) == 1


_LATENT: Final = ("mla_decode", "mla_absorbed")
"""Keys of latent attention, whose kernels are written for one kind of matrix unit."""


def _grouped(name: str) -> bool:
    """
    Whether warp groups of this part multiply together: Hopper's and server Blackwell's units (wgmma, tcgen05).

    Latent attention has kernels of its own there (FlashMLA, CUTLASS's); other parts run Triton's.
    """
    return 9.0 <= part_of(accelerators()[name]).capability < 12.0 if name in accelerators() else False


@lru_cache(maxsize=1)
def _read_measured() -> dict[str, tuple[str, ...]]:
    return grids_by_accelerator()


def measured_families(name: str) -> tuple[str, ...]:
    """Families with grids of this accelerator."""
    return _read_measured().get(name, ())


def _donors(part: Part) -> list[tuple[str, Rung]]:
    """
    Measured accelerators that may stand in, best first.

    The same part; the same compute capability; then the vendor's nearest capability with the same kind
    of memory: server parts (HBM) and cards (GDDR) differ more than neighbouring generations do.
    """
    catalogue = accelerators()
    found: list[tuple[int, float, float, str]] = []
    for donor in _read_measured():
        if donor == part.name:
            found.append((0, 0.0, 0.0, donor))
        elif donor in catalogue:
            other = part_of(catalogue[donor])
            size = abs(other.peak - part.peak) + abs(other.bandwidth - part.bandwidth)
            if part.capability and other.capability == part.capability:
                found.append((1, 0.0, size, donor))
            elif part.capability and other.capability:
                rung = 2 if other.stacked == part.stacked else 3
                found.append((rung, abs(other.capability - part.capability), size, donor))
    return [(donor, RUNGS[rung]) for rung, _, _, donor in sorted(found)]


@lru_cache(maxsize=64)
def _open(name: str, family: str) -> tuple[Provenance, bytes]:
    path = FOLDER / f"{name}.{family}.grids"
    try:
        data = path.read_bytes()
        size = int.from_bytes(data[:4], "little")
        return _decode_provenance(data[4 : 4 + size]), data[4 + size :]
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"efficiency grids {path.name}: {error}; run tools/calibration/build.py again") from error


class _Likeness(NamedTuple):
    """What a borrowed time is changed by; all 1 for a part's own."""

    crowding: float
    """Multiprocessors of the donor over ours."""
    slower: float
    """Clock of the donor over ours: launches and dependent steps take cycles."""
    arithmetic: float
    """Share of our peak that products reach, over the donor's share of its own."""
    memory: float
    """The same of the bandwidth."""


_REACHED: Final = 0.8  # of the roofline: what excesses are stored over (physics.efficiency.model_s)
_OWN: Final = _Likeness(1.0, 1.0, 1.0, 1.0)
_HALF_RATE_SHARE: Final = 0.98
"""
Share of the listed peak that large products of a half-rate part reach: what keeps others below (power, operands) binds
only beyond it. RTX 4090, bf16, 4096 x 14336: 0.97 with 512 rows, 0.985 with 1,024, 0.998 with 2,048 (kernel times
that LLMServingSim publishes, MIT, profiler/perf/RTX4090, September 2026).
"""
_WITHOUT_CODES: Final = 1.13
"""
Share of GDDR6's bandwidth without codes beside the data over that with them: a product of one row reads 0.94 and 0.92
of an RTX 4090's (the same source), 0.83 of an L40S's (its own grids).
"""


@lru_cache(maxsize=64)
def _likeness(donor: str, part: Part) -> _Likeness:
    """What changes a donor's times into those of the part; 1 for what the dies of both do not say."""
    other = part_of(accelerators()[donor])
    arithmetic = 1.0
    if part.half_rate and not other.half_rate:
        arithmetic = max(1.0, _HALF_RATE_SHARE / _plateau(donor))
    memory = _WITHOUT_CODES if other.corrected and part.corrected is False else 1.0
    theirs, ours = die_of(donor), die_of(part.name)
    if theirs is None or ours is None:
        return _Likeness(1.0, 1.0, arithmetic, memory)
    crowding = _crowding(theirs.multiprocessors / ours.multiprocessors, faster=exp(other.bandwidth - part.bandwidth))
    if theirs.boost_clock_mhz is None or ours.boost_clock_mhz is None:
        return _Likeness(crowding, 1.0, arithmetic, memory)
    slower = theirs.boost_clock_mhz / ours.boost_clock_mhz
    if part.capability == other.capability:  # the same silicon: a multiprocessor's peak is what its clock makes of it
        peak_each = exp(other.peak - part.peak) * ours.multiprocessors / theirs.multiprocessors
        slower = min(slower, max(1.0, peak_each))
    return _Likeness(crowding, slower, arithmetic, memory)


def _crowding(units: float, *, faster: float) -> float:
    """
    How many times as much the donor must have to do at once to be as busy: its multiprocessors over ours.

    No more than its bandwidth over ours where it is the larger part: what fills a memory is bytes in flight, and fewer
    multiprocessors before the same memory do not fill it with less. Nor less than that where it is the smaller part:
    more of them before a slower memory do not need more.

    Examples
    --------
    >>> _crowding(9.4, faster=6.6), _crowding(15.7, faster=6.6), _crowding(1.1, faster=0.9), _crowding(0.8, faster=0.5)
    (6.6, 6.6, 1.0, 0.8)
    >>> _crowding(0.8, faster=2.4), _crowding(0.8, faster=0.9)
    (1.0, 0.9)
    """
    return max(min(units, max(1.0, faster)), min(1.0, faster))


@lru_cache(maxsize=16)
def _plateau(name: str) -> float:
    """Share of its peak that a part's large 16-bit products reach: their median, with the best family of kernels."""
    medians: list[float] = []
    for family in measured_families(name):
        header, body = _open(name, family)
        if (place := header.index.get("gemm/bf16")) is None:
            continue
        grid = _grid(body[place[0] : sum(place)], "own", _OWN)
        n, k, m = (
            [place for place, at in enumerate(axis) if exp(at) >= least]
            for axis, least in zip(grid.axes, (2048, 2048, 1024), strict=True)
        )
        columns, depth = len(grid.axes[1]), len(grid.axes[2])
        kept = [grid.excess[(row * columns + column) * depth + cell] for row, column, cell in product(n, k, m)]
        medians.append(_REACHED * exp(-LOG_STEP * median(kept)))
    return max(medians, default=_HALF_RATE_SHARE)


@lru_cache(maxsize=2048)
def _grid(block: bytes, rung: Rung, alike: _Likeness, origin: Origin | None = None) -> Grid:
    """One packed table, with what makes it that of the accelerator for which it stands in."""
    fields = _decode_block(zlib.decompress(block))
    joined = bytearray(len(fields.low_high))
    joined[0::2], joined[1::2] = fields.low_high[: len(joined) // 2], fields.low_high[len(joined) // 2 :]
    values = array("h")
    values.frombytes(joined)
    kept: dict[str, Any] = {key: getattr(fields, key) for key in _Block.__struct_fields__ if key != "low_high"}
    if kept["kind"] != "collective":  # a message waits for links and other ranks, not for its own multiprocessors
        kept["floor_s"] *= alike.slower
    kept |= {"crowding": alike.crowding, "arithmetic": alike.arithmetic, "memory": alike.memory}
    return Grid(**kept, excess=values, rung=rung, origin=origin)
