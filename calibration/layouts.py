"""Are published layouts near the best that the search finds?

For every measured pre-training row that prints its tensor and pipeline degrees, the step of the printed layout is
compared with that of the best arrangement of the same job: same software, batch, sequence, and recomputation where it
is printed. Of a sweep (rows of one block with the same job) only the fastest measured row counts: the others were
printed because they are slower. `python calibration/layouts.py` prints the share of rows within 5 % and the furthest.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from tonnage import catalog
from tonnage.accuracy.rows import Row, number, read_rows, text
from tonnage.accuracy.train_cases import train_case
from tonnage.catalog.training import training_coefficients
from tonnage.engine.training import step_time
from tonnage.errors import TonnageError
from tonnage.nouns.case import TrainCase
from tonnage.nouns.model import Model
from tonnage.planner.train.job import Job
from tonnage.planner.train.search import Place, arranged
from tonnage.planner.train.setup import resolve_setup

ROWS = Path(__file__).parents[1] / "measurements" / "training.csv.gz"
NEAR = 1.05


def compared(case: TrainCase) -> tuple[float, str, str] | None:
    """Step of the printed layout over the best found, and both in words."""
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
    found = arranged(
        model, place, job=job, coefficients=coefficients, framework=case.framework, recompute=case.recompute
    )
    if not found.best:
        return None
    best = found.best[0].setup
    # What the row's era and settings fix stays as in the printed run; only the arrangement differs.
    same = replace(
        printed.setup, layout=best.layout, micro_batch=best.micro_batch, num_micro_batches=best.num_micro_batches,
        recompute=best.recompute,
    )  # fmt: skip
    times = [
        step_time(model, accelerator=accelerator, setup=setup, coefficients=coefficients).value
        for setup in (printed.setup, same)
    ]
    return times[0] / times[1], _words(printed.setup), _words(same)


def _words(setup: object) -> str:
    layout = setup.layout  # type: ignore[attr-defined]
    degrees = " ".join(
        f"{n}{getattr(layout, n)}" for n in ("tp", "pp", "vpp", "cp", "ep", "dp") if getattr(layout, n) > 1
    )
    return f"{degrees} mb{setup.micro_batch} {setup.recompute}"  # type: ignore[attr-defined]


def _used(rows: Iterable[Row]) -> list[Row]:
    """The fastest measured row of each job of a block."""
    fastest: dict[tuple[str, ...], tuple[float, Row]] = {}
    for row in rows:
        step = number(row, "step_time_s_eff")
        if not row.usable or not step:
            continue
        names = ("model_id", "layers", "hidden", "accelerator_id", "num_accel", "global_batch", "seq_len", "engine",
                 "act_precision")  # fmt: skip
        key = (row.block, *(text(row, name) for name in names))
        if key not in fastest or step < fastest[key][0]:
            fastest[key] = (step, row)
    return [row for _, row in fastest.values()]


def main() -> int:
    """Print the share of rows within 5 %, by block and in all."""
    ratios: dict[str, list[float]] = defaultdict(list)
    far: list[tuple[float, str]] = []
    for row in _used(read_rows(ROWS)):
        try:
            found = compared(train_case(row))
        except TonnageError:
            continue
        if found is not None:
            ratios[row.block].append(found[0])
            far.append((found[0], f"{row.id}: printed {found[1]}, best {found[2]}"))
    for block, values in sorted(ratios.items()):
        print(f"{block:40} {len(values):4} rows, {sum(v <= NEAR for v in values) / len(values):.0%} within 5 %")
    every = [value for values in ratios.values() for value in values]
    print(f"{'all':40} {len(every):4} rows, {sum(v <= NEAR for v in every) / len(every):.0%} within 5 %")
    for value, words in sorted(far, reverse=True)[: int(sys.argv[1]) if len(sys.argv) > 1 else 10]:
        print(f"  {value:.2f}x {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
