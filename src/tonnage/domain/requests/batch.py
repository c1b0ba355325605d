"""The question of `tonnage plan batch`: finish so many items by a deadline, as cheaply as possible."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.requests.common import CONFIDENCE, ENGINES, FORMATS, MODEL, QUALITY, Filters, Lengths
from tonnage.domain.requests.field import Field, Group

__all__ = ["Batch"]


class Batch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="batch"):
    """Finish N items by a deadline. They are independent, so that spot prices are looked at, too."""

    model: Annotated[str, MODEL]
    items: Annotated[float, Field(reads="count", high=1e13, help="prompts to answer: 50M")]
    lengths: Annotated[Lengths, Group(usual={"traffic": "batch"})]
    deadline_s: Annotated[
        float | None,
        Field(
            name="deadline",
            reads="s",
            group="Objectives",
            high=1e8,
            help="all answers by then: 8 h; without it the cheapest is taken",
        ),
    ] = None
    confidence: Annotated[float, CONFIDENCE] = 0.8
    """The plan is the cheapest option that keeps deadline and budget with at least this chance. [-]"""
    precisions: Annotated[tuple[str, ...], FORMATS] = ()
    quality_floor: Annotated[float | None, QUALITY] = None
    """Share of the score as released that other formats must keep by published evaluations. [-]"""
    engines: Annotated[tuple[str, ...], ENGINES] = (SERVING_ENGINE,)
    filters: Annotated[Filters, Group(usual={"term": ("on-demand", "spot")})] = Filters()
    budget_usd: Annotated[
        float | None,
        Field(name="budget", reads="USD", group="Objectives", high=1e12, help="most to spend on the whole job"),
    ] = None
