"""The question of `tonnage accuracy`: which measured rows are predicted, and how is what comes out split?"""

from __future__ import annotations

from typing import Annotated, Literal

from tonnage.domain.requests.field import Field, search_field
from tonnage.record import SparseRecord

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
