"""What has been measured about an accelerator's kernels: grids on disk -> `Ladder`.

One file per accelerator and family of kernels (calibration/build.py writes them, from published kernel
tables). For each kind of operator the ladder takes the first grid it finds: this accelerator's with
these kernels, this accelerator's with another engine's, then the same from the most similar part of the
same compute capability, then of the same architecture.
"""

from __future__ import annotations

import zlib
from array import array
from functools import lru_cache
from math import log
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.catalog.accelerators import accelerators
from tonnage.errors import BadFact
from tonnage.nouns.accelerator import Accelerator
from tonnage.physics.efficiency import RUNGS, Grid, Ladder, Machine, Rung

__all__ = ["Stamp", "ladder", "measured", "stamp"]

FOLDER: Final = Path(__file__).parent / "data" / "efficiency"

_ORDER: Final = {
    "vllm": ("vllm", "sglang", "trtllm"),
    "sglang": ("sglang", "vllm", "trtllm"),
    "trtllm": ("trtllm", "vllm", "sglang"),
    "library": ("library", "vllm", "sglang", "trtllm"),
}
"""Families whose grids stand in for one another, best first; `library` is PyTorch with the vendor's libraries."""

_OWN_KERNELS: Final = frozenset({"llama.cpp", "ollama", "mlx", "exllamav2"})
"""Engines that share no kernels with the measured ones: the generic curve alone."""


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """Where the grids of one file come from."""

    accelerator: str
    family: str
    package: str
    licence: str
    script: str
    date: str
    index: dict[str, tuple[int, int]]
    """Byte offset and length of each grid after the header."""


class _Block(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    axes: tuple[tuple[float, ...], ...]
    floor_s: float
    weights_bytes: float
    width: float
    source: str
    machine: Machine
    log_s: bytes


_decode_block = msgspec.msgpack.Decoder(_Block).decode
_decode_stamp = msgspec.msgpack.Decoder(Stamp).decode


def measured() -> dict[str, tuple[str, ...]]:
    """Accelerators with grids of their own, and the families measured on each."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(FOLDER.glob("*.grids")):
        name, family = path.stem.rsplit(".", 1)
        found[name] = (*found.get(name, ()), family)
    return found


def stamp(accelerator_id: str, family: str) -> Stamp:
    """Provenance of one file of grids."""
    return _open(accelerator_id, family)[0]


def ladder(accelerator: Accelerator, *, family: str = "vllm", inter_node_bytes_per_s: float | None = None) -> Ladder:
    """
    The ladder of one accelerator for one family of kernels.

    `family` is whose kernels run: vllm, sglang, trtllm, or library (PyTorch and the vendor's
    collectives: training, Transformers). Another engine borrows vllm's and a note says so; engines
    with kernels of their own (llama.cpp) get the generic curve.
    """
    notes: tuple[str, ...] = ()
    if family in _OWN_KERNELS:
        notes = (f"{family} brings its own kernels, which nobody has tabulated: generic curve",)
        grids: dict[str, Grid] = {}
    else:
        if family not in _ORDER:
            notes = (f"no kernel tables of {family}: those of vllm stand in",)
        grids = _grids(
            accelerator.id,
            accelerator.architecture,
            accelerator.compute_capability or "",
            _ORDER.get(family, _ORDER["vllm"]),
            _size(accelerator),
        )
    facts = _facts()
    return Ladder(
        accelerator=accelerator.id,
        family=family,
        grids=grids,
        multiprocessors=facts.multiprocessors.get(accelerator.id),
        spread=facts.spread,
        inter_node_bytes_per_s=inter_node_bytes_per_s,
        notes=notes,
    )


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    multiprocessors: dict[str, float] = {}
    spread: dict[str, dict[str, float]] = {}


@lru_cache(maxsize=1)
def _facts() -> _Facts:
    path = FOLDER / "facts.toml"
    return msgspec.toml.decode(path.read_bytes(), type=_Facts, strict=False) if path.exists() else _Facts()


def _size(accelerator: Accelerator) -> tuple[float, float]:
    best = max((accelerator.peaks.get(dtype, 0.0) for dtype in ("bf16", "fp16", "fp32")), default=0.0)
    return (log(max(best, 1e9)), log(accelerator.memory_bytes_per_s))


@lru_cache(maxsize=128)
def _grids(
    name: str, architecture: str, capability: str, families: tuple[str, ...], size: tuple[float, float]
) -> dict[str, Grid]:
    """For each key the grid of the best donor."""
    chosen: dict[str, Grid] = {}
    for donor, rung in _donors(name, architecture, capability, size):
        for family in (*families, "library"):
            if family not in measured_families(donor):
                continue
            header, body = _open(donor, family)
            for key, (at, length) in header.index.items():
                if key not in chosen:
                    chosen[key] = _grid(donor, family, body[at : at + length], rung)
    return chosen


@lru_cache(maxsize=1)
def _measured() -> dict[str, tuple[str, ...]]:
    return measured()


def measured_families(name: str) -> tuple[str, ...]:
    """Families with grids of this accelerator."""
    return _measured().get(name, ())


def _donors(name: str, architecture: str, capability: str, size: tuple[float, float]) -> list[tuple[str, Rung]]:
    """Measured accelerators that may stand in, best first: same part, same capability, same architecture."""
    catalogue = accelerators()
    found: list[tuple[int, float, str]] = []
    for donor in _measured():
        other = catalogue.get(donor)
        if donor == name:
            found.append((0, 0.0, donor))
        elif other is not None:
            distance = sum(abs(a - b) for a, b in zip(_size(other), size, strict=True))
            if capability and other.compute_capability == capability:
                found.append((1, distance, donor))
            elif other.architecture.split(maxsplit=1)[0] == architecture.split(maxsplit=1)[0]:
                found.append((2, distance, donor))
    return [(donor, RUNGS[rung]) for rung, _, donor in sorted(found)]


@lru_cache(maxsize=64)
def _open(name: str, family: str) -> tuple[Stamp, bytes]:
    path = FOLDER / f"{name}.{family}.grids"
    try:
        data = path.read_bytes()
        size = int.from_bytes(data[:4], "little")
        return _decode_stamp(data[4 : 4 + size]), data[4 + size :]
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFact(f"efficiency grids {path.name}: {error}; run calibration/build.py again") from error


@lru_cache(maxsize=2048)
def _grid(name: str, family: str, block: bytes, rung: Rung) -> Grid:
    fields = _decode_block(zlib.decompress(block))
    values = array("h")
    values.frombytes(fields.log_s)
    plain: dict[str, Any] = {key: getattr(fields, key) for key in _Block.__struct_fields__ if key != "log_s"}
    return Grid(**plain, log_s=values, rung=rung)
