"""How does a stated layout stand beside the best arrangement of the same job?

Same software, batch and sequence, and recomputation where the case or its era fixes it.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.case import TrainCase
from tonnage.domain.model import Model
from tonnage.domain.training import TrainSetup
from tonnage.planning.train.job import Job
from tonnage.planning.train.search import MEMORY_SURE, Place, fastest_arrangements
from tonnage.planning.train.setup import resolve_setup
from tonnage.simulation.training import step_time

__all__ = ["over_best_layout"]

ONE_RECOMPUTE_UNTIL: Final = 2022
"""Before selective recompute (arXiv 2205.05198) a run of that size recomputed every layer."""


def over_best_layout(case: TrainCase) -> tuple[float, TrainSetup, TrainSetup] | None:
    """
    Step of the stated layout over that of the best, and both; none where too little is stated or it does not fit.

    Raises
    ------
    TonnageError
        The case cannot be resolved.
    """
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
        kind="train",
        method="pretrain",
        sequences=1e6,
        seq_len=case.seq_len,
        global_batch=case.global_batch,
        precision=case.precision,
        optimizer=case.optimizer,
    )
    place = Place(
        accelerator=accelerator,
        count=case.count,
        per_node=printed.setup.accelerators_per_node,
        intra_link=case.links.intra,
        inter_bytes_per_s=case.links.inter_bytes_per_s,
    )
    early = case.year is not None and case.year < ONE_RECOMPUTE_UNTIL
    found = fastest_arrangements(
        model,
        place,
        job=job,
        coefficients=coefficients,
        framework=case.framework,
        recompute=case.recompute or (printed.setup.recompute if early else None),
    )
    likely = found.likely(MEMORY_SURE)
    if likely is None:
        return None
    best = likely.setup
    # What the row's era and settings fix stays as in the printed run; only the arrangement differs.
    same = replace(
        printed.setup,
        layout=best.layout,
        micro_batch=best.micro_batch,
        num_micro_batches=best.num_micro_batches,
        recompute=best.recompute,
        recompute_share=best.recompute_share,
    )
    times = [
        step_time(model, accelerator=accelerator, setup=setup, coefficients=coefficients).value
        for setup in (printed.setup, same)
    ]
    return times[0] / times[1], printed.setup, same
