"""Adapters in a placement: its steps run their products, and requests wait for those that no slot holds."""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.domain.layout import Engine
from tonnage.physics.adapters import adapter_bytes
from tonnage.physics.offload import LINK_SHARE
from tonnage.simulation.adapters import misses
from tonnage.simulation.step_parts import Placement

__all__ = ["load_s", "with_adapters"]

SLOW_HOST_LINK: Final = 16e9
"""To the host, where the catalogue does not know the link: PCIe 3.0 x16. [bytes/s]"""


def load_s(placement: Placement) -> float:
    """Copying one adapter from the host to every rank at once. [s]"""
    p = placement
    if p.adapters is None:
        return 0.0
    held = adapter_bytes(p.model, rank=p.adapters.rank, targets=p.adapters.targets, layout=p.layout)
    return held / (LINK_SHARE * (p.accelerator.host_link.bytes_per_s or SLOW_HOST_LINK))


def with_adapters(placement: Placement, engine: Engine, *, isl: float) -> Placement:
    """The placement whose steps run adapters, and load those that are missing before the prompts that need them."""
    if engine.adapters is None or not engine.adapters.slots:
        return placement
    made = msgspec.structs.replace(placement, adapters=engine.adapters)
    fixed, each = placement.encoder_s
    waits = misses(engine.adapters) * load_s(made) / max(1.0, isl)
    return msgspec.structs.replace(made, encoder_s=(fixed, each + waits))
