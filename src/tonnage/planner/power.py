"""How much electricity do accelerators draw with everything around them: hosts, fans, cooling?

The most a machine draws is a row of the ownership table where somebody published it. Elsewhere the board's own limit
is multiplied by what whole machines draw over their boards, the median of the published ones.
"""

from __future__ import annotations

from functools import cache
from statistics import median
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.errors import Unmeasured
from tonnage.nouns.accelerator import Accelerator

__all__ = ["SERVING_LOAD", "TRAINING_LOAD", "LoadShare", "MachinePower", "host_factor", "machine_power"]


class MachinePower(msgspec.Struct, frozen=True, kw_only=True):
    """The most a machine draws, and the boards' share of it. [W]"""

    watts: float
    low: float
    high: float
    board_watts: float
    source: str


class LoadShare(msgspec.Struct, frozen=True, kw_only=True):
    """Mean draw of a working machine over the most it draws. [-]"""

    value: float
    low: float
    high: float
    source: str


SERVING_LOAD: Final = LoadShare(
    value=0.6, low=0.4, high=0.8, source="ownership table, typical_load_factor: inference 0.4 to 0.8 of the maximum"
)

TRAINING_LOAD: Final = LoadShare(
    value=0.9,
    low=0.8,
    high=1.0,
    source="ownership table, typical_load_factor: training near 0.85 to 0.95 of the maximum",
)


@cache
def host_factor() -> tuple[float, float, float]:
    """What whole machines draw over their boards' limits: median, least and most of the published ones. [-]"""
    parts = catalog.accelerators()
    ratios = []
    for server in catalog.servers().values():
        board = parts[server.accelerator].power_w
        if server.power and board:
            ratios.append(catalog.parameter("server_power_max", server.power).value / (server.count * board))
    return median(ratios), min(ratios), max(ratios)


def machine_power(accelerator: Accelerator, *, count: float) -> MachinePower:
    """
    The most that `count` accelerators and their hosts draw.

    Raises
    ------
    Unmeasured
        Nobody published the accelerator's power.
    """
    board = accelerator.power_w
    if board is None:
        raise Unmeasured(
            f"the power of {accelerator.id} is not published; give it with --set {accelerator.id}.power='300 W'"
        )
    middle, least, most = host_factor()
    known = next((s for s in catalog.servers().values() if s.accelerator == accelerator.id and s.power), None)
    unchanged = catalog.accelerators().get(accelerator.id)
    if known is not None and unchanged is not None and unchanged.power_w == board:
        row = catalog.parameter("server_power_max", known.power)
        watts = row.value / known.count * count
        return MachinePower(
            watts=watts, low=watts, high=watts, board_watts=board * count, source=f"{known.power}: {row.source}"
        )
    source = (
        f"{count:g} x {board:g} W board limit x {middle:.2f} for the host: median of published machines "
        f"({least:.2f} to {most:.2f})"
    )
    boards = board * count
    return MachinePower(
        watts=boards * middle, low=boards * least, high=boards * most, board_watts=boards, source=source
    )
