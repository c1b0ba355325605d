"""What does a frozen reference add to the memory of preference tuning?

DPO and KTO compare the policy with the model it started from. A whole policy needs that model beside it: 16-bit
weights, sharded as the policy's are where full sharding is on, without gradients or states. Adapters need none, for
the base without them is the reference. Log-probabilities that were cached before the run need none either. Objectives
without a reference (ORPO, SimPO, reward models) add nothing here; that a pair of answers passes together is counted in
the activations (`TrainSetup.sequences`).
"""

from __future__ import annotations

from typing import Final, Protocol

from tonnage.domain.answer import Quantity
from tonnage.domain.training import OBJECTIVES, TrainSetup

__all__ = ["REFERENCE", "reference_parts"]

REFERENCE: Final = "reference model"
"""Name of the part."""
_BYTES: Final = 2.0
"""Of a weight of the reference: 16 bits, or 32 where the policy trains in them. [bytes/parameter]"""


class _Held(Protocol):
    """Parameters of one rank before data-parallel sharding."""

    @property
    def dense(self) -> float: ...
    @property
    def experts(self) -> float: ...
    @property
    def ends(self) -> float: ...


def reference_parts(held: _Held, setup: TrainSetup, *, ranks: tuple[int, int]) -> tuple[Quantity, ...]:
    """The reference's weights on one rank; `ranks` share one copy of dense and of expert parameters. [bytes]"""
    if not OBJECTIVES[setup.objective].reference or setup.reference == "cached" or setup.adapter:
        return ()
    dense, experts = held.dense + held.ends, held.experts
    if setup.layout.sharding in {"zero3", "fsdp", "hsdp"}:
        dense, experts = dense / ranks[0], experts / ranks[1]
    width = 2.0 * _BYTES if setup.precision in {"fp32", "tf32"} else _BYTES
    return (Quantity(name=REFERENCE, value=width * (dense + experts), source="weights as they are loaded, frozen"),)
