"""Fields that say how many LoRA adapters share one base model, and how an engine keeps them."""

from __future__ import annotations

from typing import Annotated, Literal

from tonnage.domain.requests.field import MAY_BE_NOTHING, engine_field
from tonnage.record import SparseRecord

_GROUP = "Model and engine"


class AdapterFields(SparseRecord, kw_only=True):
    """LoRA adapters of a base model, each request for one of them."""

    adapters: Annotated[
        int | None, engine_field("LoRA adapters served on the model, each request for one", high=1e6)
    ] = None
    adapter_rank: Annotated[int, engine_field("their largest rank", high=65536)] = 16
    adapter_skew: Annotated[
        float,
        engine_field(
            "how unevenly they are asked for: exponent of Zipf's law; 0 = all alike, 1 = the second half as often",
            low=MAY_BE_NOTHING,
            high=10.0,
        ),
    ] = 0.0
    """The i-th most popular is asked for in proportion to i to the minus this. [-]"""
    adapter_targets: Annotated[
        str | None, engine_field("matrices that they adapt: 'q_proj,v_proj' or 'attention'; otherwise all linear")
    ] = None


class Adapters(SparseRecord, kw_only=True):
    """LoRA adapters as one configuration serves them."""

    count: int
    rank: int
    skew: float = 0.0
    """Exponent of Zipf's law. [-]"""
    targets: tuple[str, ...] = ()
    """Names of matrices; empty = every linear layer."""
    slots: int = 0
    """Adapters in an accelerator's memory at once; 0 = none, for each is merged into replicas of its own."""
    allocated: int = 0
    """Rank that each slot has room for, where the engine knows few sizes; 0 = the adapters' own."""

    @property
    def slot_rank(self) -> int:
        """Rank that each slot has room for."""
        return self.allocated or self.rank

    @property
    def kept(self) -> Literal["resident", "swapped", "merged"]:
        """Where they are: all in the accelerator's memory, some of them, or in the weights."""
        if not self.slots:
            return "merged"
        return "resident" if self.slots >= self.count else "swapped"

    @property
    def label(self) -> str:
        """In a few words: "64 LoRA resident", "64 LoRA swapped 8", "4 LoRA merged"."""
        return f"{self.count} LoRA {self.kept}{f' {self.slots}' if self.kept == 'swapped' else ''}"
