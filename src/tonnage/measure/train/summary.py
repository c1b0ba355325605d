"""Records of all ranks -> one run: means of the steps that count, on the rank that the others wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tonnage.domain.train_measurement import (
    TRAIN_MEASUREMENT_SCHEMA,
    CheckpointTimes,
    RankSteps,
    StepTimes,
    TrainMeasurement,
    TrainMemory,
    TrainRun,
)
from tonnage.errors import BadFact
from tonnage.measure.train.records import PHASES, RankLog, Stepped

__all__ = ["measurement_of", "run_of"]

WARMUP: Final = 3
"""Steps left out at the start, where the user does not say: allocators, kernels and connections are set up. [-]"""
_MEMORY: Final = tuple(name for name in TrainMemory.__struct_fields__)


def run_of(ranks: Sequence[RankLog], *, warmup: int = WARMUP) -> TrainRun:
    """
    One run at one number of devices.

    Raises
    ------
    BadFact
        No rank has steps beyond the warm-up.
    """
    each = min((len(log.steps) for log in ranks), default=0)
    if each == 0:
        raise BadFact(
            "the run wrote no step: the probe sees optimizers of PyTorch (torch.optim); call step() of "
            "tonnage.probe() where another one steps"
        )
    left = min(warmup, each - 1)
    counted = {log.header.rank: log.steps[left:each] for log in ranks}
    found = [
        RankSteps(
            rank=log.header.rank,
            host=log.header.host,
            step_s=_mean([step.step_s for step in counted[log.header.rank]]),
            parts=_parts([step.phases for step in counted[log.header.rank]]),
        )
        for log in ranks
    ]
    # The rank that waits least for collectives is the one that the others wait for.
    slowest = min(found, key=lambda rank: rank.parts.communication_s or 0.0)
    own = counted[slowest.rank]
    times = sorted(step.step_s for step in own)
    hidden = [step.hidden_s for step in own if step.hidden_s is not None]
    world = ranks[0].header.world
    notes = (f"{left} of {each} steps are warm-up",) if left < warmup else ()
    missing = world - len(ranks)
    return TrainRun(
        devices=world,
        nodes=ranks[0].header.nodes,
        steps=len(own),
        warmup=left,
        step_s=slowest.step_s,
        step_p50_s=_rank(times, 0.5),
        step_p95_s=_rank(times, 0.95),
        step_most_s=times[-1],
        parts=slowest.parts,
        hidden_communication_s=_mean(hidden) if hidden else None,
        collective_bytes=_mean([step.collective_bytes for step in own]) or None,
        collectives=_collectives([step.collectives for step in own]),
        tokens_per_step=_mean([_all(counted, i, "tokens") for i in range(len(own))]) or None,
        samples_per_step=_mean([_all(counted, i, "samples") for i in range(len(own))]) or None,
        micro_batches=_mean([float(step.forwards) for step in own]) or None,
        memory=_memory(ranks),
        ranks=tuple(found),
        notes=(*notes, *((f"{missing} ranks wrote nothing: their samples are missing",) if missing else ())),
    )


def measurement_of(
    runs: Sequence[Sequence[RankLog]], *, warmup: int = WARMUP, command: str | None = None, stopped: str | None = None
) -> TrainMeasurement:
    """Runs of one command at several numbers of devices, smallest first, as one measurement."""
    found = sorted((run_of(ranks, warmup=warmup) for ranks in runs), key=lambda run: run.devices)
    first, last = runs[0][0].header, max(runs, key=lambda ranks: ranks[0].header.world)
    kept = last[0].held
    return TrainMeasurement(
        schema=TRAIN_MEASUREMENT_SCHEMA,
        tool="tonnage",
        tool_version=first.version or None,
        command=command,
        model=kept.model or None,
        device=first.device or None,
        kind=first.kind if first.kind in {"cpu", "cuda", "rocm", "xpu", "mps"} else None,  # type: ignore[arg-type]
        backend=last[0].header.backend or None,
        library=first.library or None,
        parallel=kept.parallel or None,
        parameters=kept.parameters,
        date=first.date or None,
        runs=tuple(_scaled(found)),
        checkpoint=_checkpoint(last),
        stopped=stopped,
        notes=_notes(found),
    )


def _notes(runs: Sequence[TrainRun]) -> tuple[str, ...]:
    notes = []
    if any(run.samples_per_step for run in runs) and any(run.devices > 1 for run in runs):
        notes.append("Samples are added over all ranks; with tensor or pipeline parallelism ranks share them.")
    return tuple(notes)


def _scaled(runs: Sequence[TrainRun]) -> list[TrainRun]:
    """Each run with its throughput per device over that of the smallest."""
    if len(runs) < 2:
        return list(runs)
    base = _per_device(runs[0])
    if base is None:
        return list(runs)
    shares = [(run, _per_device(run)) for run in runs]
    return [run if own is None else replace(run, efficiency=own / base) for run, own in shares]


def _per_device(run: TrainRun) -> float | None:
    rate = run.samples_per_s if run.samples_per_s is not None else run.tokens_per_s
    return None if rate is None else rate / run.devices


def _parts(phases: Sequence[dict[str, float]]) -> StepTimes:
    """Means by phase; one that no step had is absent."""
    seen = {name for step in phases for name in step}
    return StepTimes(**{f"{name}_s": _mean([s.get(name, 0.0) for s in phases]) for name in PHASES if name in seen})


def _collectives(counts: Sequence[dict[str, int]]) -> dict[str, float]:
    names = {name for step in counts for name in step}
    return {name: _mean([float(step.get(name, 0)) for step in counts]) for name in sorted(names)}


def _all(counted: Mapping[int, Sequence[Stepped]], index: int, field: str) -> float:
    return float(sum(getattr(steps[index], field) for steps in counted.values()))


def _memory(ranks: Sequence[RankLog]) -> TrainMemory:
    """The most of any rank, number by number."""
    values = {name: [getattr(log.held, name) for log in ranks] for name in _MEMORY}
    return TrainMemory(**{
        name: max(x for x in own if x is not None) for name, own in values.items() if any(x is not None for x in own)
    })  # fmt: skip


def _checkpoint(ranks: Sequence[RankLog]) -> CheckpointTimes | None:
    """Writes and restores; of a write that several ranks share the longest counts."""
    lines = [line for log in ranks for line in log.checkpoints]
    if not lines:
        return None
    writes = [[line.took_s for line in log.checkpoints if line.wrote] for log in ranks]
    reads = [[line.took_s for line in log.checkpoints if not line.wrote] for log in ranks]
    sizes = [line.size_bytes for line in lines if line.wrote and line.size_bytes is not None]
    return CheckpointTimes(
        writes=max(len(own) for own in writes),
        write_s=max((_mean(own) for own in writes if own), default=None),
        restore_s=max((_mean(own) for own in reads if own), default=None),
        size_bytes=max(sizes, default=None),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
