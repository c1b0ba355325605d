"""Questions over many rows: which are asked by `tonnage sweep`, which are scored by `tonnage accuracy`?"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from tonnage.domain.requests.field import Field, search_field
from tonnage.record import Record, SparseRecord

LeftOut = Literal["accelerator", "family", "engine", "source"]
By = Literal["engine", "accelerator", "family", "precision", "load"]


class AccuracyRequest(SparseRecord, kw_only=True):
    """Published measurements held against predictions. Absent = every usable row, by block alone."""

    files: tuple[str, ...] = ()
    """Tables with the columns of measurements/README.md; empty = those of the checkout."""
    blocks: Annotated[tuple[str, ...], Field("only this block; may be given several times", name="block")] = ()
    limit: Annotated[int | None, Field("at most this many rows of each block")] = None
    by: Annotated[By | None, Field("split each block further")] = None
    leave_out: Annotated[
        LeftOut | None, Field("score what fits say that never saw the row's group (tools/calibration/left_out.py)")
    ] = None
    predictor: Annotated[
        str | None, Field("score what this command answers to the same rows (docs/how-to/referee.md)")
    ] = None
    layouts: Annotated[bool, Field("hold published training layouts against the search too (15 s)")] = False
    workers: Annotated[int, search_field("processes", high=256)] = 1


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
