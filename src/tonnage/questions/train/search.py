"""The best arrangements of one job on a count of one accelerator: the search with its functions filled in.

Memory comes from `estimate.peak`, step time from `simulation.training`; the bound is what compute and
element-wise work alone take at the best shapes, so that nothing faster is ever cut off.
"""

from __future__ import annotations

from math import inf
from typing import Final

from msgspec.structs import replace

from tonnage.catalog.spreads import chance_within
from tonnage.core import train_estimate as estimate
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Quantity
from tonnage.domain.case import Links, TrainCaseLayout
from tonnage.domain.layout import TrainLayout
from tonnage.domain.model import Model, Moe
from tonnage.domain.precision import number_format
from tonnage.domain.training import Recompute, Situation, TrainSetup
from tonnage.engines.registry import software_of, usual_software
from tonnage.optimize.train_layouts import Found, Space, bubble_factor, search
from tonnage.physics.known import Known, remembered
from tonnage.physics.parameters import parameters
from tonnage.physics.training_memory import adapter_parameters, recipe
from tonnage.questions.train.job import Job
from tonnage.questions.train.setup import resolve_setup
from tonnage.record import Record
from tonnage.simulation.training import micro_batch_s, step_time

MEMORY_SURE: Final = 0.8
"""Chance of fitting by which arrangements are compared where no request states its confidence. [-]"""
_MOST: Final = 0.99
"""Chances of fitting beyond this count as equal: more free memory is worth no time. [-]"""

GAIN: Final = 0.03
"""Least gain in speed for which a global batch is doubled: larger batches learn less from each token. [-]"""

_ADMISSIBLE: Final = 0.98
"""Below the reference's own time, for shapes a little better than the reference's."""


ONE_RECOMPUTE_UNTIL: Final = 2022
"""Before selective recompute (arXiv 2205.05198) a run of that size recomputed every layer."""


class Place(Record, kw_only=True):
    """A count of one accelerator as it is joined."""

    accelerator: Accelerator
    count: int
    per_node: int
    """Accelerators of one instance. [accelerators]"""
    intra_link: str | None = None
    inter_bytes_per_s: float | None = None


class Floor(Record, kw_only=True):
    """What compute and element-wise work of one sequence take on one accelerator, by software and recomputation. [s]"""

    seconds: dict[tuple[str, str], float]

    @property
    def least(self) -> float:
        """The smallest of them. [s]"""
        return min(self.seconds.values())


def precision_on(accelerator: Accelerator, precision: str) -> str:
    """The wanted 16-bit format, or the one that the part has: Volta and Turing have no bf16."""
    if precision == "bf16" and "bf16" not in accelerator.peaks and "fp16" in accelerator.peaks:
        return "fp16"
    return precision


def fastest_arrangements(
    model: Model,
    place: Place,
    *,
    job: Job,
    known: Known | None = None,
    framework: str | None = None,
    recompute: Recompute | None = None,
    keep: int = 1,
) -> Found:
    """
    The fastest arrangements at every chance of fitting, those of the plainest software first.

    Where the batch is open, each group of software takes the smallest beyond which doubling it makes a sequence less
    than `GAIN` faster. What is found depends on no confidence, and that of one group on no other: `Found.likely` and
    the plan's rule choose among it. `known` are the passes that other searches for the job have timed.
    """
    of_case = remembered({} if known is None else known, (job.case, job.seq_len), made=Known)
    groups = [(framework,)] if framework else _frameworks(job, place)
    each = [
        _fastest_of_group(model, place, job=job, known=of_case, frameworks=names, recompute=recompute, keep=keep)
        for names in groups
    ]
    return replace(each[-1], best=tuple(one for found in each for one in found.best))


def _fastest_of_group(
    model: Model,
    place: Place,
    *,
    job: Job,
    known: Known,
    frameworks: tuple[str, ...],
    recompute: Recompute | None,
    keep: int,
) -> Found:
    """The fastest arrangements of software that is compared by speed alone, at the batch that it takes."""
    found = Found(best=())
    for batch in job.batches(place.count):
        of_batch = replace(job, global_batch=batch)
        space = Space(
            count=place.count,
            domain=_domain(place),
            global_batch=batch,
            templates=templates(model, place, job=of_batch, frameworks=frameworks),
            recompute=recompute,
        )
        larger = _search(space, known=known, keep=keep)
        if found.best and not (larger.best and _per_sequence(larger) * (1.0 + GAIN) < _per_sequence(found)):
            break
        found = larger
    return found


def _per_sequence(found: Found) -> float:
    """
    Time of a sequence in the fastest arrangement that surely fits, else in the surest; infinite where none fits. [s]
    """
    best = found.likely(MEMORY_SURE)
    return best.step_s / best.setup.global_batch if best is not None else inf


def _search(space: Space, *, known: Known, keep: int) -> Found:
    """The search of one space with memory, chance of fitting, step time and its lower bounds filled in."""
    least = floor(space.templates)
    driver_bytes, layers = space.templates[0].accelerator.driver_memory_bytes, space.templates[0].model.depth
    error = {kind.software.name: estimate.errors(kind).spread("memory_peak_bytes") for kind in space.templates}
    busy: dict[tuple[object, ...], float] = {}

    def over(setup: TrainSetup) -> float:
        return estimate.peak(setup, known=known).value - driver_bytes

    def chance(setup: TrainSetup, over: float) -> float:
        peak = driver_bytes + over
        need = Quantity(value=peak, unit="bytes").spread(error[setup.software.name])
        fits = chance_within(need, driver_bytes)
        return fits if fits < _MOST else 1.0

    def seconds(setup: TrainSetup) -> float:
        return step_time(setup, known=known).value

    def roofline(setup: TrainSetup) -> float:
        each = least.seconds[setup.software.name, setup.recompute]
        return each * setup.global_batch / space.count * bubble_factor(setup, layers=layers)

    def shaped(setup: TrainSetup) -> float:
        """What the micro-batch's shapes and the exchange inside layers take, whatever the pipeline and sharding."""
        layout = setup.layout
        key = (setup.software.name, setup.recompute, layout.tp, layout.cp, layout.ep, setup.micro_batch)
        if key not in busy:
            busy[key] = micro_batch_s(setup, known=known)
        turns = setup.num_micro_batches * bubble_factor(setup, layers=layers) / layout.pp
        return _ADMISSIBLE * busy[key] * turns

    return search(space, fits=over, chance=chance, seconds=seconds, bounds=(roofline, shaped), keep=keep)


def templates(model: Model, place: Place, *, job: Job, frameworks: tuple[str, ...] = ()) -> tuple[TrainSetup, ...]:
    """
    A setup for each family of software with everything that the layout does not change; layout, batches and
    recomputation are the search's to fill in.
    """
    found: dict[str, TrainSetup] = {}
    for name in frameworks or [name for group in _frameworks(job, place) for name in group]:
        case = replace(
            job.case,
            accelerator=place.accelerator.id,
            accelerators_per_node=min(place.per_node, place.count),
            links=Links(intra=place.intra_link, inter_bytes_per_s=place.inter_bytes_per_s),
            layout=TrainCaseLayout(tp=1, pp=1, vpp=1, cp=1, ep=1, sharding="none"),
            precision=precision_on(place.accelerator, job.case.precision),
            micro_batch=1,
            global_batch=1,
            seq_len=job.seq_len,
            recompute="none",
            framework=name,
        )
        setup = resolve_setup(case, model=model, accelerator=place.accelerator).setup
        found.setdefault(setup.software.name, setup)
    return tuple(found.values())


def runs_on(framework: str | None, accelerator: Accelerator) -> bool:
    """
    Whether software of that name runs on a part: Google's take what is written for them alone, the others anything.

    Examples
    --------
    >>> from tonnage import catalog
    >>> [runs_on(name, catalog.accelerator("tpu-v5e")) for name in ("megatron", "maxtext", None)]
    [False, True, True]
    """
    if framework is None or accelerator.vendor.lower() != "google":
        return True
    return any(situation == "tpu" for situation, _ in software_of(framework).usual)


def _frameworks(job: Job, place: Place) -> list[tuple[str, ...]]:
    """
    Software looked at when the request names none: groups in order, the plainest first.
    """
    if place.accelerator.vendor.lower() == "google":
        situation: Situation = "tpu"
    elif job.case.method == "pretrain":
        situation = "pretrain" if place.count > 1 else "pretrain_alone"
    else:
        situation = "finetune_whole" if job.case.method == "full" and place.count > 1 else "finetune"
    return [tuple(spec.example for spec in group) for group in usual_software(situation)]


def floor(kinds: tuple[TrainSetup, ...]) -> Floor:
    """Seconds of one sequence on one accelerator that no arrangement undercuts, by software and recomputation."""
    layers = kinds[0].model.layers
    experts = max((g.feed_forward.num_experts for g in layers if isinstance(g.feed_forward, Moe)), default=1)
    batch = max(1, min(16, 65536 // max(1, kinds[0].seq_len)))
    found: dict[tuple[str, str], float] = {}
    for kind in kinds:
        for mode in ("none", "selective", "full"):
            ideal = replace(
                kind, layout=TrainLayout(ep=experts), micro_batch=batch, num_micro_batches=1, recompute=mode
            )
            step = step_time(ideal)
            busy = step.part("compute") + step.part("element-wise")
            found[kind.software.name, mode] = _ADMISSIBLE * busy / batch
    return Floor(seconds=found)


def state_bytes(setup: TrainSetup) -> float:
    """Persistent state of all ranks together, before any activation; of adapters the frozen weights alone. [bytes]"""
    each = number_format(setup.weights).bytes if setup.adapter else recipe(setup).total
    return parameters(setup.model).value * each


def trained_parameters(setup: TrainSetup) -> float:
    """Parameters that a checkpoint holds. [parameters]"""
    return adapter_parameters(setup) if setup.adapter else parameters(setup.model).value


def _domain(place: Place) -> int:
    """Accelerators that tensor parallelism may join: the fast link's, else the instance's."""
    joined = place.accelerator.linked(place.per_node) if place.intra_link != "pcie" else 1
    return min(max(place.per_node, joined), place.count)
