"""What timing a training step needs to know beside the work, and what of an exchange nothing hides."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tonnage.domain.training import TrainSetup
from tonnage.physics.training_time import Network, training_operator_s
from tonnage.physics.work import Operator

__all__ = ["Exchange", "Times", "Turn", "exposed_s"]


class Exchange(NamedTuple):
    """One exchange between ranks: what it takes, and what of it nothing hides. [s]"""

    name: str
    spent_s: float
    exposed_s: float
    runs: float = 1.0
    operator: Operator | None = None


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Setup and links of one step."""

    setup: TrainSetup
    links: Network

    def of(self, ops: tuple[Operator, ...], kind: str | None = None) -> float:
        """Operators one after the other; `kind` "compute" or "elementwise" takes only those. [s]"""
        return sum(
            op.count * training_operator_s(op, self.setup)
            for op in ops
            if kind is None or (op.kind == "elementwise") == (kind == "elementwise")
        )

    def named(self, name: str, seconds: float, *, how: str = "") -> float:
        """The same seconds; a step that is explained keeps the name and how they come about. [s]"""
        return seconds

    def exposed(self, each: Exchange) -> float:
        """What of all runs of an exchange nothing hides. [s]"""
        return each.runs * each.exposed_s


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one micro-batch takes on one stage, forward and backward."""

    compute: float
    elementwise: float
    exchange: float
    """TP, CP and EP communication that nothing hides."""
    host: float
    """Launches beyond what the device's own work hides."""
    backward: float
    """Share of the whole that exchange of gradients can hide behind. [s]"""
    weights: float = 0.0
    """Of that, gradients of weights, which nothing waits for. [s]"""

    @property
    def total(self) -> float:
        """All of it. [s]"""
        return self.compute + self.elementwise + self.exchange + self.host


def exposed_s(spent: float, compute: float, *, overlap: float) -> float:
    """What is left of an exchange: the share that never overlaps, and what compute is too short to hide."""
    return (1 - overlap) * spent + max(0.0, overlap * spent - compute)
