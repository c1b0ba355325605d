"""What runs where: which weight formats an engine has kernels for on an accelerator.

A peak in the datasheet is not a kernel: vLLM multiplies AWQ from Turing on, FP8 from Ada on, and
keeps FP8 weights at 16-bit arithmetic on Ampere. One CSV row per engine, vendor and set of
formats; the last matching row of a format wins, so newer hardware adds rows below, and `never` takes away.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import msgspec

from tonnage.catalog.rows import DATA, Row, table
from tonnage.domain.accelerator import Accelerator

__all__ = ["Support", "formats", "support"]

ANY = "*"


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's kernels for one weight format on one kind of accelerator."""

    at_16_bits: bool
    """The weights are stored so and multiplied at 16 bits."""
    note: str
    source: str


def support(engine: str, accelerator: Accelerator, *, weights: str) -> Support | None:
    """How the engine runs weights of this format there; None when it has no kernels for it."""
    known = formats(engine, accelerator)
    return known.get(weights) or known.get(ANY)


def formats(engine: str, accelerator: Accelerator) -> Mapping[str, Support]:
    """Every weight format the engine runs on the accelerator; empty when it does not run there at all."""
    is_cpu = accelerator.segment == "cpu"
    # TPUs are one architecture to the catalogue, and an engine knows some generations: a row may name parts, too.
    kinds = frozenset({accelerator.architecture, accelerator.id, *(("cpu",) if is_cpu else ())})
    return _formats(engine, accelerator.vendor, kinds, accelerator.compute_capability)


@cache
def _formats(
    engine: str, vendor: str, kinds: frozenset[str], capability: str | None
) -> Mapping[str, Support]:  # fmt: skip
    found: dict[str, Support] = {}
    for row in _rows():
        if row["engine"] == engine and _matches(row, vendor, kinds, capability):
            if row["multiplies"] == "never":
                for name in row["formats"].split(";"):
                    found.pop(name, None)
                continue
            runs = Support(at_16_bits=row["multiplies"] == "at 16 bits", note=row["note"], source=row["source"])
            found.update(dict.fromkeys(row["formats"].split(";"), runs))
    return MappingProxyType(found)


def _matches(row: Row, vendor: str, kinds: frozenset[str], capability: str | None) -> bool:
    if row["vendor"] not in {ANY, vendor}:
        return False
    if row["min_capability"]:
        return capability is not None and _at_least(capability, row["min_capability"])
    if not row["architectures"]:
        return True
    return not kinds.isdisjoint(row["architectures"].split(";"))


def _at_least(capability: str, least: str) -> bool:
    """Compute capabilities compare as numbers: 10.0 is above 8.9."""
    return tuple(map(int, capability.split("."))) >= tuple(map(int, least.split(".")))


@cache
def _rows() -> tuple[Row, ...]:
    return tuple(table(DATA / "engines" / "support.csv"))
