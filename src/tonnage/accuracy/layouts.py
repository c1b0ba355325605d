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
from msgspec.structs import replace

from tonnage import catalog
from tonnage.accuracy.rows import Row, number, text
from tonnage.accuracy.train_cases import train_case
from tonnage.catalog.training import training_coefficients
from tonnage.engine.training import step_time
from tonnage.errors import TonnageError
from tonnage.nouns.case import TrainCase
from tonnage.nouns.model import Model
from tonnage.nouns.training import TrainSetup
from tonnage.planner.train.job import Job
from tonnage.planner.train.search import Place, arranged
from tonnage.planner.train.setup import resolve_setup

__all__ = ["Compared", "compared_layouts"]

ONE_RECOMPUTE_UNTIL = 2022
"""Before selective recompute (arXiv 2205.05198) a run of that size recomputed every layer."""


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
            found = _compared(train_case(row))
        except TonnageError:
            continue
        if found is not None:
            ratio, printed, best = found
            yield Compared(
                id=row.id, block=row.block, ratio=ratio, fastest=row.id in used,
                degrees=printed.software in {"megatron", "deepspeed"}, printed=_words(printed), best=_words(best),
            )  # fmt: skip


def _compared(case: TrainCase) -> tuple[float, TrainSetup, TrainSetup] | None:
    stated = case.layout.tp and case.layout.pp and case.global_batch and case.seq_len and case.count > 1
    if not stated or case.method != "pretrain" or case.accelerator_fraction < 1:
        return None
    assert case.global_batch and case.seq_len
    model = case.model if isinstance(case.model, Model) else catalog.model(case.model)
    accelerator, coefficients = catalog.accelerator(case.accelerator), training_coefficients()
    printed = resolve_setup(case, model=model, accelerator=accelerator, coefficients=coefficients)
    if not printed.fits or printed.setup.global_batch != case.global_batch:
        return None
    job = Job(
        kind="train", method="pretrain", sequences=1e6, seq_len=case.seq_len, global_batch=case.global_batch,
        precision=case.precision, optimizer=case.optimizer,
    )  # fmt: skip
    place = Place(
        accelerator=accelerator, count=case.count, per_node=printed.setup.accelerators_per_node,
        intra_link=case.links.intra, inter_bytes_per_s=case.links.inter_bytes_per_s,
    )  # fmt: skip
    early = case.year is not None and case.year < ONE_RECOMPUTE_UNTIL
    found = arranged(
        model, place, job=job, coefficients=coefficients, framework=case.framework,
        recompute=case.recompute or (printed.setup.recompute if early else None),
    )  # fmt: skip
    if not found.best:
        return None
    best = found.best[0].setup
    # What the row's era and settings fix stays as in the printed run; only the arrangement differs.
    same = replace(
        printed.setup, layout=best.layout, micro_batch=best.micro_batch, num_micro_batches=best.num_micro_batches,
        recompute=best.recompute, recompute_share=best.recompute_share,
    )  # fmt: skip
    times = [
        step_time(model, accelerator=accelerator, setup=setup, coefficients=coefficients).value
        for setup in (printed.setup, same)
    ]
    return times[0] / times[1], printed.setup, same


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
