"""
Is training predicted well enough where it matters? Groups of training rows, each beside the error it may have.

The groups are those that a user would name: language models, one source's tables, TPUs, fine-tuning, peak memory,
growth with the number of accelerators, networks of images on one device. A row counts once, by the first speed that it
prints. *Left out* is what fits say that never saw the row's source (or accelerator); the bounds are the project's own.

For every measured pre-training row that prints its tensor and pipeline degrees, the step of the printed layout is
compared with that of the best arrangement of the same job: same software, batch and sequence, and recomputation where
the row or its era fixes it. Of a sweep (rows of one block with the same job) the fastest measured row is what somebody
would use; the others were printed because they are slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import exp, log, log2
from typing import Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.domain.case import TrainCase
from tonnage.domain.model import Model
from tonnage.domain.training import TrainSetup
from tonnage.errors import TonnageError
from tonnage.questions.train.job import Job
from tonnage.questions.train.search import MEMORY_SURE, ONE_RECOMPUTE_UNTIL, Place, fastest_arrangements
from tonnage.questions.train.setup import resolve_setup
from tonnage.record import Record
from tonnage.simulation.training import step_time
from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.left_out import LeftOut, left_out_scores
from tonnage_accuracy.metrics import absolute_error_share, quantile
from tonnage_accuracy.quantities import SPEEDS
from tonnage_accuracy.records import Figure
from tonnage_accuracy.rows import Row, count, number, text
from tonnage_accuracy.scoring import Score, error_shares, median_figures
from tonnage_accuracy.train_cases import train_case

NEAR: Final = 1.05
"""Step over that of the best found, up to which a published layout counts as near it."""

SOURCES: Final = {
    "BLOOM": ("bloom", "bloom-prod"),
    "Megatron": ("megatron20", "megatron21", "korth22"),
    "llm-foundry": ("foundry",),
    "NeMo": ("nemo",),
    "vTrain (in no fit)": ("vtrain",),
}
"""Published tables by who published them, and their blocks."""

SMALL: Final = "images, BERT, Transformer-XL"
TUNED: Final = "LoRA, QLoRA, full fine-tuning"

Stored = Mapping[str, Mapping[tuple[str, str], LeftOut]]
"""Predictions without a row's group, by kind of group."""

Pick = Callable[[Row], bool]


class Speed(Record):
    """A row with the one speed that it counts by."""

    row: Row
    score: Score

    @property
    def error(self) -> float:
        """|predicted - measured| / measured. [-]"""
        return absolute_error_share(predicted=self.score.predicted or 0.0, measured=self.score.measured or 0.0)

    @property
    def factor(self) -> float:
        """Predicted over measured step time, whatever is printed. [-]"""
        ratio = (self.score.predicted or 0.0) / (self.score.measured or 1.0)
        return ratio if self.score.quantity == "step_time_s" else 1.0 / ratio


def speeds_of(rows: Iterable[Row], scores: Iterable[Score]) -> list[Speed]:
    """The predicted speed of every row that prints one."""
    first: dict[str, Score] = {}
    for item in scores:
        if item.kind == "train" and item.quantity in SPEEDS and item.predicted and item.measured:
            known = first.get(item.id)
            if known is None or SPEEDS.index(item.quantity) < SPEEDS.index(known.quantity):
                first[item.id] = item
    return [Speed(row, first[row.id]) for row in rows if row.id in first]


def training_figures(
    rows: Sequence[Row], scores: Sequence[Score], *, stored: Stored | None = None, out_of_memory: Sequence[Score] = ()
) -> tuple[Figure, ...]:
    """
    Every group beside its bound; groups without rows are left away.

    Parameters
    ----------
    rows, scores : sequence
        Rows and what was predicted for them; rows of other kinds are passed over.
    stored : mapping, optional
        Left-out predictions by kind of group (`left_out.left_out_predictions`).
    out_of_memory : sequence of Score, optional
        Scores of runs that did not fit.
    """
    rows = [row for row in rows if row.layout == "training"]
    own = [item for item in scores if item.kind == "train"]
    unseen = {kind: left_out_scores(own, known) for kind, known in (stored or {}).items() if known}
    speeds, no_source, no_part = (
        speeds_of(rows, scores) for scores in (own, unseen.get("source", ()), unseen.get("accelerator", ()))
    )
    seen = [speed for speed in speeds if speed.row.block != "vtrain"]
    language = scaling_errors(speed for speed in seen if _language(speed.row))
    small = scaling_errors((speed for speed in seen if _small(speed.row)), per_doubling=False)
    peaks, tuned = [item for item in own if item.quantity == "peak_mem_gb"], {row.id for row in rows if _is_tuned(row)}
    step, peak = "median error of the step", "median error of peak memory"
    medians = (
        ("language models", step, _errors(speeds, _taught), 0.09),
        ("language models", "the same, its source left out", _errors(no_source, _taught), 0.13),
        *((group, step, _errors(speeds, partial(_in_blocks, blocks)), 0.12) for group, blocks in SOURCES.items()),
        ("TPU", step, _errors(speeds, _tpu), 0.20),
        ("TPU", "the same, its source left out", _errors(no_source, _tpu), 0.20),
        ("language models", "median error of growth per doubling of accelerators", language, 0.04),
        (SMALL, "median error of growth from one count to the next", small, 0.10),
        (TUNED, step, _errors(speeds, _is_tuned), 0.18),
        (TUNED, peak, error_shares(item for item in peaks if item.id in tuned), 0.08),
        ("all peaks", peak, error_shares(peaks), 0.07),
    )
    networks = (
        (SMALL, "median error of the step on one device", _errors(speeds, _one_device), 0.15),
        (SMALL, "the same, its accelerator left out", _errors(no_part, _one_device), 0.22),
    )
    found = [
        *median_figures(medians),
        *_memory_figures(error_shares(peaks), (*own, *out_of_memory)),
        *median_figures(networks),
    ]
    return tuple(figure for figure in found if figure.rows)


def _language(row: Row) -> bool:
    return text(row, "kind") in {"llm", "moe"}


def _tpu(row: Row) -> bool:
    return text(row, "accelerator_id").startswith("tpu")


def _is_tuned(row: Row) -> bool:
    return _language(row) and text(row, "method") in {"lora", "qlora", "full-ft"}


def _small(row: Row) -> bool:
    """Networks of images, BERT and Transformer-XL, as two collections of benchmarks ran them."""
    return row.block in {"lambda", "dle"}


def _one_device(row: Row) -> bool:
    return _small(row) and count(row, "num_accel") == 1


def _taught(row: Row) -> bool:
    """Language models of sources that fits have read."""
    return _language(row) and row.block != "vtrain"


def _in_blocks(blocks: tuple[str, ...], row: Row) -> bool:
    return row.block in blocks


def _errors(speeds: Iterable[Speed], pick: Pick) -> list[float]:
    return [speed.error for speed in speeds if pick(speed.row)]


def scaling_errors(speeds: Iterable[Speed], *, per_doubling: bool = True) -> list[float]:
    """
    Error of the growth from one count to the next of the same job, whole or per doubling of the accelerators.

    The same job: source, model, lengths, formats, what each rank does; only the data-parallel ranks grow.
    """

    def job(speed: Speed) -> tuple[str, ...]:
        names = (
            "source",
            "model",
            "accelerator_id",
            "accelerator",
            "accel_per_node",
            "engine",
            "framework",
            "year",
            "act_precision",
            "seq_len",
            "image_px",
            "method",
            "tp",
            "pp",
            "vpp",
            "cp",
            "ep",
            "sharding",
            "micro_batch",
            "act_ckpt",
            "flash_attn",
        )
        return (speed.row.block, *(text(speed.row, name) for name in names))

    found: list[float] = []
    for same in group_by(speeds, job).values():
        by_count = group_by(same, lambda speed: count(speed.row, "num_accel") or 1)
        means = [
            (number, sum(log(speed.factor) for speed in own) / len(own)) for number, own in sorted(by_count.items())
        ]
        for (few, before), (many, after) in pairwise(means):
            found.append(exp(abs(after - before) / (log2(many / few) if per_doubling else 1.0)) - 1.0)
    return found


def _memory_figures(peaks: Sequence[float], scores: Iterable[Score]) -> list[Figure]:
    verdicts = [
        (bool(item.predicted), bool(item.measured))
        for item in scores
        if item.kind == "train" and item.quantity == "fits" and item.predicted is not None and item.block != "vtrain"
    ]
    right = sum(said == ran for said, ran in verdicts) / len(verdicts) if verdicts else None
    unsafe = sum(said and not ran for said, ran in verdicts) / len(verdicts) if verdicts else None
    return [
        Figure(
            group="all peaks",
            figure="nine in ten are nearer than",
            rows=len(peaks),
            value=quantile(peaks, 0.9),
            at_most=0.20,
        ),
        Figure(group="fits or not", figure="share right", rows=len(verdicts), value=right, at_least=0.96),
        Figure(
            group="fits or not", figure="share said to fit that did not", rows=len(verdicts), value=unsafe, at_most=0.01
        ),
    ]


def layout_figures(compared: Sequence[Compared]) -> tuple[Figure, ...]:
    """How often a published layout is within 5 % of the best found; nothing where none was compared."""

    def share(own: Sequence[Compared]) -> float | None:
        return sum(one.ratio <= NEAR for one in own) / len(own) if own else None

    fastest = [one for one in compared if one.fastest]
    choices = (
        ("the fastest row of each sweep", fastest, 0.70),
        ("of these, software that splits layers or tensors", [one for one in fastest if one.degrees], None),
        ("every row, the slower ones of sweeps too", list(compared), None),
    )
    return tuple(
        Figure(
            group="published layouts",
            figure=f"within 5 % of our best: {name}",
            rows=len(own),
            value=share(own),
            at_least=least,
        )
        for name, own, least in choices
        if own
    )


class Compared(Record, kw_only=True):
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


def _over_best_layout(case: TrainCase) -> tuple[float, TrainSetup, TrainSetup] | None:
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
    accelerator = catalog.accelerator(case.accelerator)
    printed = resolve_setup(case, model=model, accelerator=accelerator)
    if not printed.fits or printed.setup.global_batch != case.global_batch:
        return None
    job = Job(
        kind="train",
        case=TrainCase(
            model=model.id, accelerator=case.accelerator, precision=case.precision, optimizer=case.optimizer
        ),
        sequences=1e6,
        seq_len=case.seq_len,
        global_batch=case.global_batch,
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
    return step_time(printed.setup).value / step_time(same).value, printed.setup, same


def compared_layouts(rows: Iterable[Row]) -> Iterator[Compared]:
    """Every usable row that prints a layout which fits."""
    rows = [row for row in rows if row.layout == "training" and row.usable]
    used = {row.id for row in _fastest_rows(rows)}
    for row in rows:
        try:
            found = _over_best_layout(train_case(row))
        except TonnageError:
            continue
        if found is not None:
            ratio, printed, best = found
            yield Compared(
                id=row.id,
                block=row.block,
                ratio=ratio,
                fastest=row.id in used,
                degrees=printed.software.model_parallel,
                printed=_words(printed),
                best=_words(best),
            )


def _fastest_rows(rows: Iterable[Row]) -> list[Row]:
    """The fastest measured row of each job of a block."""
    fastest: dict[tuple[str, ...], tuple[float, Row]] = {}
    for row in rows:
        step = number(row, "step_time_s_eff")
        if not step:
            continue
        names = (
            "model_id",
            "layers",
            "hidden",
            "accelerator_id",
            "num_accel",
            "global_batch",
            "seq_len",
            "engine",
            "act_precision",
        )
        key = (row.block, *(text(row, name) for name in names))
        if key not in fastest or step < fastest[key][0]:
            fastest[key] = (step, row)
    return [row for _, row in fastest.values()]


def _words(setup: TrainSetup) -> str:
    return f"{' '.join(setup.layout.degrees())} mb{setup.micro_batch} {setup.recompute}"
