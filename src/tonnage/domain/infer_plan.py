"""A plan for models that do not decode text: cameras, images, audio, embeddings, on how many accelerators.

`tonnage plan infer` returns one; its JSON is of the same schema as other plans, `kind` is "infer".
"""

from __future__ import annotations

from tonnage.domain.accelerator import HostNeed
from tonnage.domain.answer import Quantity
from tonnage.domain.cost import EnergyUse, SampleCosts
from tonnage.domain.plan import Bill, RankedPlan
from tonnage.domain.requests.infer import Infer, Video
from tonnage.record import SparseRecord

__all__ = ["Infer", "Video"]


class InferOption(SparseRecord, kw_only=True):
    """One kind of accelerator in one format, as many as the load needs."""

    accelerator: str
    count: int
    precision: str
    engine: str
    batch: int
    """Samples that run together at this load."""
    capacity_per_s: Quantity
    """Of one accelerator. [1/s]"""
    latency_s: Quantity
    """Mean, at this load: filling the batch, waiting, running. [s]"""
    used: float
    """Share of the capacity that the load takes. [-]"""
    arithmetic_used: float
    """Share of the peak arithmetic that the load takes. [-]"""
    memory: Quantity
    """Of one accelerator. [bytes]"""
    basis: str
    binds: str
    """What sets the count: inference, decode, one is enough."""
    streams_per_accelerator: float | None = None
    """Streams that one could carry with the headroom kept."""
    decode_used: float | None = None
    """Share of the video decoders' capacity; absent where nobody published it or the host decodes. [-]"""
    bill: Bill | None = None
    """Absent where nobody rents it: a part to buy."""
    price_usd: float | None = None
    """What the parts cost to buy. [USD]"""
    power_w: float | None = None
    """Mean draw of all of them at this load, boards alone. [W]"""
    battery_h: float | None = None
    costs: SampleCosts | None = None
    """Absent where nobody rents it."""
    energy: EnergyUse | None = None
    """Hosts and cooling included; absent for parts that are bought."""
    source: str = ""
    """Of the decoders' rate."""
    limit_bytes: float | None = None
    """What a driver leaves of one accelerator's memory. [bytes]"""
    needs: tuple[HostNeed, ...] = ()
    """What one instance must bring; empty where nobody rents it."""
    chance: float | None = None
    """Of carrying the load, and in time where a latency is asked for. [-]"""
    sure: bool = True
    """The chance is at least the confidence asked for."""
    verdict: str = ""


class InferPlan(RankedPlan[Infer, InferOption], kw_only=True, tag_field="kind", tag="infer"):
    """The answer to a request for inference without decoding."""

    smaller: str = ""
    """The smallest part that would do alone, beside the first option."""
