"""
The questions of `tonnage plan own`, `budget` and `lifecycle`, which hold those of others.

Accelerators that are there and what they are best used for; an amount of money and the most that it buys; a model that
is made and then served for some time.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from tonnage.domain.requests.common import MODEL
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    accelerator_field,
    objective_field,
    owning_field,
    search_field,
    training_field,
)
from tonnage.domain.requests.fleet import FleetWorkload
from tonnage.domain.requests.serve import Serve
from tonnage.domain.requests.train import FineTune, Train
from tonnage.record import SparseRecord

_FOUND: Final = frozenset({
    "model", "rate", "concurrency", "users", "think_time", "budget", "pools", "quick", "day", "on_for", "off_for",
})  # fmt: skip
"""Fields of a serving request whose load or money is found, or given otherwise."""
_BESIDE: Final = _FOUND | {
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


class Budget(SparseRecord, kw_only=True):
    """The largest load, the best model, or the best training run that an amount of money buys."""

    amount: Annotated[str, objective_field('what may be spent: "$3,000/month", "$4/h", "$50,000"')]
    """As written."""
    purpose: Annotated[
        Literal["serving", "training", "finetuning"],
        objective_field("what it is for: serving, training or finetuning; money without a time trains"),
    ] = "serving"
    model: Annotated[str | None, MODEL] = None
    """Absent = the best of those that people run, by published quality."""
    serve: Annotated[Serve | None, Group(without=_FOUND)] = None
    """Lengths, objectives and filters of the service."""
    rate_per_s: Annotated[
        float | None, Field("requests that the best model must carry: 2/s", "1/s", name="rate", high=1e7)
    ] = None
    tokens: Annotated[
        float | None, training_field("tokens there are to train on; else as many as pay", "tokens", high=1e16)
    ] = None
    deadline_s: Annotated[
        float | None,
        objective_field("longest time for a training run: 30 days", "s", name="deadline", high=20 * 8760 * 3600.0),
    ] = None
    usd_per_h: float | None = None
    """Of a service. [USD/h]"""
    usd: float | None = None
    """Of a training run. [USD]"""


class LifecycleRequest(SparseRecord, kw_only=True):
    """Make a model, then serve it for some time."""

    make: Annotated[
        Train | FineTune,
        msgspec.structs.replace(MODEL, name="model", help="made and served, where the groups name no other"),
        Group(of=FineTune, name="finetune", help="a field of `plan finetune`: method=lora"),
        Group(of=Train, name="train", help="a field of `plan train`, as often as needed"),
    ]
    serve: Annotated[Serve, Group(name="serve", help="a field of `plan serve`: rate=4/s")]
    months: Annotated[float, Field("in service", high=600.0)]
    """In service. [months]"""
    retrainings: Annotated[float, Field("times it is made again while it serves", low=MAY_BE_NOTHING, high=1e4)] = 0.0
    """Times the model is made again while it serves."""
    quick: Annotated[bool, search_field("both halves and their bill alone, serving by averages")] = False
    """Both halves and their bill alone, serving by averages: no one kind for both, no smaller ways."""
