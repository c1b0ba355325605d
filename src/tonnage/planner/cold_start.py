"""How long until a new instance serves its first token: the machine, the weights, the engine's warm-up?

One published cold start was timed part by part; the parts that move the weights grow with them, the rest is taken as
it was. The machine's own time is what its provider states.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from tonnage import catalog

__all__ = ["ColdStart", "cold_start"]

TIMED_WEIGHT_BYTES: Final = 16.06e9
"""Llama-3.1-8B in bf16, whose start was timed. [bytes]"""
DOWNLOAD_S: Final = 61.0
LOAD_S: Final = 33.0
WARM_UP_S: Final = 200.0
"""Compilation 10 + 42, graph capture 54, engine initialisation and imports 94. [s]"""
SOURCE: Final = (
    "cold start of Llama-3.1-8B on L40S under Kubernetes, 294 s timed by part: download 61, weights 33, compilation "
    "52, graphs 54, engine and imports 94"
)
UNKNOWN_PROVISIONING_S: Final = 300.0
"""Where a provider states nothing: the upper end of what most of them state. [s]"""

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


class ColdStart(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of a start from nothing. [s]"""

    provisioning_s: float
    weights_s: float
    """Download and load."""
    warm_up_s: float
    source: str

    @property
    def total_s(self) -> float:
        """[s]"""
        return self.provisioning_s + self.weights_s + self.warm_up_s


def cold_start(*, weight_bytes: float, provider: str) -> ColdStart:
    """A start from nothing on an instance of this provider, with weights of that size to fetch."""
    known = catalog.providers().get(provider)
    stated = _RANGE.match(known.facts.get("provisioning_time_s", "")) if known is not None else None
    machine = float(stated[2] or stated[1]) if stated else UNKNOWN_PROVISIONING_S
    whose = f"{provider} states {stated[0]} s" if stated else f"{provider} states nothing: {machine:.0f} s assumed"
    return ColdStart(
        provisioning_s=machine,
        weights_s=(DOWNLOAD_S + LOAD_S) * weight_bytes / TIMED_WEIGHT_BYTES,
        warm_up_s=WARM_UP_S,
        source=f"{whose}; {SOURCE}, with the size of the weights",
    )
