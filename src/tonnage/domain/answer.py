"""A number that can say where it came from.

`Quantity` carries value, unit, the 90 % interval, the basis and the parts that sum to it. A total
is only as well founded as its weakest part, so the basis of a sum is the weakest basis in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

__all__ = ["Basis", "Part", "Quantity", "Verdict", "weakest"]


class Basis(StrEnum):
    """How a number is founded, strongest first."""

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    DERIVED = "derived"
    ASSUMED = "assumed"


_STRENGTH = {basis: rank for rank, basis in enumerate(Basis)}


def weakest(bases: Iterable[Basis]) -> Basis:
    """The basis of a number made from numbers with these bases; `derived` for none."""
    return max(bases, key=_STRENGTH.__getitem__, default=Basis.DERIVED)


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One summand of a quantity, in the unit of the whole."""

    name: str
    value: float
    basis: Basis = Basis.DERIVED
    source: str = ""
    """Formula or fact it comes from, in a few words or as a source key."""


class Quantity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A value with unit, interval, basis and parts.

    `low` and `high` bound 90 % of what measurements of such cases show; both are absent when the
    number is exact (a count, a price as listed). Parts, when present, sum to the value.
    """

    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    basis: Basis = Basis.DERIVED
    parts: tuple[Part, ...] = ()

    @classmethod
    def of_parts(cls, unit: str, parts: Iterable[Part]) -> Quantity:
        """The sum of parts; its basis is the weakest of theirs that contributes."""
        kept = tuple(part for part in parts if part.value != 0)
        total = sum(part.value for part in kept)
        return cls(value=total, unit=unit, basis=weakest(part.basis for part in kept), parts=kept)

    def within(self, factor: float, *, least: float = 0.0, above: float | None = None) -> Quantity:
        """
        The same value with the interval value / factor … value x factor (factor >= 1), never below `least`.

        `above`: the factor of the upper end where that differs.
        """
        low = max(self.value / factor, min(least, self.value))
        return msgspec.structs.replace(self, low=low, high=self.value * (above or factor))

    def part(self, name: str) -> float:
        """Value of one part by name; 0 when the sum has no such part."""
        return sum(part.value for part in self.parts if part.name == name)


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Whether something works; when it does not, which limit binds, by how much, and what would work.

    `limit` is a short stable name ("memory", "ttft", "tp", "region"); `short_by` is in `unit`.
    """

    ok: bool
    limit: str | None = None
    reason: str | None = None
    short_by: float | None = None
    unit: str | None = None
    nearest: str | None = None
