"""
Are published layouts near the best that the search finds?

For every measured pre-training row that prints its tensor and pipeline degrees, the step of the printed layout is
compared with that of the best arrangement of the same job: same software, batch and sequence, and recomputation where
the row or its era fixes it. Of a sweep (rows of one block with the same job) the fastest measured row is what somebody
would use; the others were printed because they are slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tonnage.domain.training import TrainSetup
from tonnage.errors import TonnageError
from tonnage.planning.train.stated_layout import over_best_layout
from tonnage.validation.rows import Row, number, text
from tonnage.validation.train_cases import train_case

__all__ = ["Compared", "compared_layouts"]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A published layout beside the best found."""

    id: str
    block: str
    ratio: float
    """Step of the published layout over that of the best. [-]"""
    fastest: bool
    """The fastest measured row of its sweep."""
    degrees: bool
    """Whether its software splits layers or tensors, so that there is much to choose."""
    printed: str
    best: str


def compared_layouts(rows: Iterable[Row]) -> Iterator[Compared]:
    """Every usable row that prints a layout which fits."""
    rows = [row for row in rows if row.layout == "training" and row.usable]
    used = {row.id for row in _used(rows)}
    for row in rows:
        try:
            found = over_best_layout(train_case(row))
        except TonnageError:
            continue
        if found is not None:
            ratio, printed, best = found
            yield Compared(
                id=row.id, block=row.block, ratio=ratio, fastest=row.id in used,
                degrees=printed.software.model_parallel, printed=_words(printed), best=_words(best),
            )  # fmt: skip


def _used(rows: Iterable[Row]) -> list[Row]:
    """The fastest measured row of each job of a block."""
    fastest: dict[tuple[str, ...], tuple[float, Row]] = {}
    for row in rows:
        step = number(row, "step_time_s_eff")
        if not step:
            continue
        names = ("model_id", "layers", "hidden", "accelerator_id", "num_accel", "global_batch", "seq_len", "engine",
                 "act_precision")  # fmt: skip
        key = (row.block, *(text(row, name) for name in names))
        if key not in fastest or step < fastest[key][0]:
            fastest[key] = (step, row)
    return [row for _, row in fastest.values()]


def _words(setup: TrainSetup) -> str:
    degrees = ((name, getattr(setup.layout, name)) for name in ("tp", "pp", "vpp", "cp", "ep", "dp"))
    shown = " ".join(f"{name}{degree}" for name, degree in degrees if degree > 1)
    return f"{shown} mb{setup.micro_batch} {setup.recompute}"
