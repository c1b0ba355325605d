"""How long until a new instance serves its first token: the machine, the weights, the engine's warm-up?

Two published starts of one model were timed part by part: from nothing, and with weights on the node's own disk and
compiled code kept. The parts that move the weights grow with them, the rest is taken as it was. The machine's own
time is what its provider states.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from tonnage import catalog
from tonnage.catalog import provider_name
from tonnage.domain.answer import Basis, Quantity
from tonnage.record import Record

StartFrom = Literal["network", "disk", "cached"]
"""Where weights and compiled code are: fetched; weights on the node; compiled code there, too."""

TIMED_WEIGHT_BYTES: Final = 16.06e9
"""Llama-3.1-8B in bf16, whose starts were timed. [bytes]"""


class Timed(Record, kw_only=True):
    """One start of the timed model, by part. [s]"""

    download_s: float
    load_s: float
    compile_s: float
    graphs_s: float
    engine_s: float
    """Imports and engine initialisation."""
    source: str


_COLD: Final = Timed(
    download_s=61.0,
    load_s=33.0,
    compile_s=52.0,
    graphs_s=54.0,
    engine_s=94.0,
    source="cold start of Llama-3.1-8B on L40S under Kubernetes, 294 s timed by part",
)
STARTS: Final[dict[StartFrom, Timed]] = {
    "network": _COLD,
    "disk": msgspec.structs.replace(_COLD, download_s=0.0),
    "cached": Timed(
        download_s=0.0, load_s=18.0, compile_s=23.0, graphs_s=7.0, engine_s=34.0,
        source="the same with caches and fewer graph sizes, 82 s timed by part",
    ),
}  # fmt: skip
UNKNOWN_PROVISIONING_S: Final = 300.0
"""Where a provider states nothing: the upper end of what most of them state. [s]"""

_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")


class ColdStart(Record, kw_only=True):
    """How long a new instance takes until it serves, by part. [s]"""

    provisioning_s: float
    weights_s: float
    """Download and load."""
    warm_up_s: float
    """Compilation, graph capture, engine."""
    parts: tuple[Quantity, ...]
    """The same opened; those that take no time are left out."""
    source: str

    @property
    def total_s(self) -> float:
        """All parts together. [s]"""
        return self.provisioning_s + self.weights_s + self.warm_up_s


def cold_start(
    *, weight_bytes: float, provider: str, start_from: StartFrom = "network", graphs: bool = True
) -> ColdStart:
    """
    The start of one new instance of a provider, from its order to the first token.

    Parameters
    ----------
    weight_bytes : number
        Of one replica; download and load grow with them. [bytes]
    start_from : str, optional
        Where weights and compiled code are; the default fetches both.
    graphs : bool, optional
        The engine captures graphs of its steps.
    """
    machine, whose = _provisioning(provider)
    timed, size = STARTS[start_from], weight_bytes / TIMED_WEIGHT_BYTES
    scaled = f"{timed.source}, with the size of the weights"
    parts = tuple(
        Quantity(name=name, value=value, basis=basis, source=source)
        for name, value, basis, source in (
            ("machine", machine, Basis.ASSUMED, whose),
            ("weights over the network", timed.download_s * size, Basis.DERIVED, scaled),
            ("weights into memory", timed.load_s * size, Basis.DERIVED, scaled),
            ("compilation", timed.compile_s, Basis.ASSUMED, timed.source),
            ("graph capture", timed.graphs_s if graphs else 0.0, Basis.ASSUMED, timed.source),
            ("engine and imports", timed.engine_s, Basis.ASSUMED, timed.source),
        )
    )
    return ColdStart(
        provisioning_s=machine,
        weights_s=parts[1].value + parts[2].value,
        warm_up_s=sum(part.value for part in parts[3:]),
        parts=tuple(part for part in parts if part.value),
        source=f"{whose}; {scaled}",
    )


def _provisioning(provider: str) -> tuple[float, str]:
    """
    Time until the provider's machine is there, and who says so. [s]

    The upper end of what the provider states; `UNKNOWN_PROVISIONING_S` where it states nothing or is not known.
    """
    known = catalog.providers().get(provider)
    stated = _RANGE.match(known.facts.get("provisioning_time_s", "")) if known is not None else None
    if stated is None:
        return (
            UNKNOWN_PROVISIONING_S,
            f"{provider_name(provider)} states nothing: {UNKNOWN_PROVISIONING_S:.0f} s assumed",
        )
    return float(stated[2] or stated[1]), f"{provider_name(provider)} states {stated[0]} s"
