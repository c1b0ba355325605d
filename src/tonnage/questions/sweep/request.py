"""The question of `tonnage sweep`: which grid of questions is asked, and what of each answer is kept?"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from tonnage.domain.requests.field import Field, search_field
from tonnage.record import Record

Ask = Literal["plan", "fit", "simulate", "predict"]


class Sweep(Record, kw_only=True):
    """What a sweep file says, and where its questions are worked on."""

    ask: Annotated[Ask, Field("what is asked at each point", name="sweep")]
    base: Annotated[dict[str, Any], Field("fields that all points share")] = {}
    grid: Annotated[dict[str, tuple[Any, ...]], Field("field, with dots for groups, and the list of its values")]
    take: Annotated[
        dict[str, str], Field("column and its path into the answer, options.0.cost.value; absent = the usual ones")
    ] = {}
    workers: Annotated[int | None, search_field("processes; absent = one a core", high=1024)] = None
    ray: Annotated[str | None, search_field("work on this Ray cluster instead; local = one on this machine")] = None

    @property
    def size(self) -> int:
        """Points of the grid."""
        return math.prod(len(values) for values in self.grid.values())
