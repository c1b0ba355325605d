"""The numbers of one configuration, opened: trees of quantities whose leaves are operators and overheads."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tonnage.domain.answer import Quantity
from tonnage.domain.calibration import CalibrationUse

__all__ = ["BREAKDOWN_SCHEMA", "Breakdown"]

BREAKDOWN_SCHEMA: Final = "tonnage.breakdown/1"


class Breakdown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The numbers of one configuration, opened; `tonnage explain --json` prints it."""

    schema: str
    kind: Literal["serve", "train"]
    label: str
    """The configuration in a few words."""
    numbers: tuple[Quantity, ...] = ()
    """Serving: TTFT, TPOT, end-to-end latency, rates. Training: step time, rate."""
    calibrations: tuple[CalibrationUse, ...] = ()
    """Measurements that moved these numbers: the user's own, or published ones that were asked for."""
    notes: tuple[str, ...] = ()
    """What is assumed, and what could not be opened."""
    id: str | None = None

    @property
    def sentence(self) -> str:
        """What is opened, as other answers say what they found."""
        return self.label
