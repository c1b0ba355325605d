"""A model that is made and then served for some time."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.common import MODEL
from tonnage.domain.requests.field import (
    MAY_BE_NOTHING,
    Field,
    Group,
    search_field,
)
from tonnage.domain.requests.serve import Serve
from tonnage.domain.requests.train import FineTune, Train
from tonnage.record import SparseRecord


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
