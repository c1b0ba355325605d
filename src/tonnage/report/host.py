"""Host needs as lines: each need beside what the offer lists, and which of them are too little."""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.nouns.host import HostNeed
from tonnage.units import show

__all__ = ["need_text", "starving"]


def need_text(need: HostNeed) -> str:
    """One need, what the offer has, and why."""
    told = f"{need.name}: {show(need.need, need.unit)}"
    if need.has is not None:
        told += f" of {show(need.has, need.unit)}" + ("" if need.enough else " - too little")
    return f"{told} ({need.why})" if need.why else told


def starving(needs: Iterable[HostNeed]) -> str:
    """What the offer has too little of; empty when nothing that it lists is."""
    return "; ".join(
        f"{need.name} {show(need.need, need.unit)}, the offer has {show(need.has or 0.0, need.unit)}"
        for need in needs
        if need.enough is False
    )
