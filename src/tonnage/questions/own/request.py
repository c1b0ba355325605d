"""Accelerators that are there and what they are best used for."""

from __future__ import annotations

from typing import Annotated, Final

from tonnage.domain.requests.common import MODEL
from tonnage.domain.requests.field import (
    Group,
    accelerator_field,
    objective_field,
    owning_field,
)
from tonnage.domain.requests.serve import Serve
from tonnage.questions.budget.request import FOUND
from tonnage.questions.fleet.request import FleetWorkload
from tonnage.record import SparseRecord

_BESIDE: Final = FOUND | {
    "ttft", "tpot", "e2e", "peak_to_mean", "own", "adapters", "adapter_rank", "adapter_skew", "adapter_targets",
}  # fmt: skip
"""Fields of a serving request that a group of accelerators has no use for, or that follow from others."""


class OwnedGroup(SparseRecord, kw_only=True):
    """Equal accelerators that are there."""

    name: str
    """As it was written, with the catalogue's name of the part."""
    accelerator: str
    count: int
    per_node: int
    """Of one machine; what is left over sits in smaller ones."""
    memory_bytes: float | None = None
    """Of one, where the part is sold with several sizes. [bytes]"""


class Own(SparseRecord, kw_only=True):
    """What accelerators that are there serve best, what they share, and what is missing."""

    own: Annotated[
        tuple[OwnedGroup, ...], accelerator_field("what is there: 8 x A100 80GB, 4 x L40S, M4 Max 64GB", "list")
    ]
    serve: Annotated[Serve, Group(without=_BESIDE)]
    """Lengths of requests, and filters on what may be rented beside."""
    model: Annotated[str | None, MODEL] = None
    """Absent = those that people run, by published quality."""
    workloads: Annotated[
        tuple[FleetWorkload, ...],
        Group(name="workloads", many=True, help="what they shall carry, with the fields of `plan fleet`"),
    ] = ()
    min_speed: Annotated[float, objective_field("output of one request, in tokens/s: 20", high=1e4)] = 20.0
    """[tokens/s]"""
    host_bytes: Annotated[
        float | None,
        accelerator_field("of the machine around a consumer's card", "bytes", name="host_memory", high=1e14),
    ] = None
    engine_stated: bool = False
    """The serving engines of `serve` were asked for: they answer on a person's own card, too."""
    one_box: Annotated[bool, accelerator_field("all groups sit in one machine, and may share a model")] = False
    network_bytes_per_s: Annotated[
        float | None,
        accelerator_field(
            "between machines, to run one model over all of them (RPC): 10 Gbit/s", "bytes/s", name="network", high=1e13
        ),
    ] = None
    site_power_w: Annotated[
        float | None, owning_field("what the site may draw: 2 MW", "W", name="site_power", high=1e11)
    ] = None
    rack_power_w: Annotated[
        float | None, owning_field("what one rack may draw: 40 kW", "W", name="rack_power", high=1e7)
    ] = None
    electricity: Annotated[float | None, owning_field("what power costs: $0.15/kWh", "USD/kWh", high=10.0)] = None
    """[USD/kWh]"""
