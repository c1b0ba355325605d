"""
Two factors and a host time from one request log, tested on the others: what does a log of one GPU say of another?

    python -m tools.calibration.logs FOLDER [--write]

Steps by datasheet and generic curve, no kernel table and no fit of any part (`replay.stretch_model`), with
three numbers set by the twelve percentiles of one log: what memory bounds, what arithmetic bounds, host time of a step.
Parts that accumulate at half rate run their products at the listed peak, whatever the log says. With --write the
percentiles go to measurements/logs.csv, beside those measured and those of the physics.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tools.calibration.replay import (
    EngineLog,
    Percentiles,
    Stretch,
    from_physics,
    read_logs,
    replay_setup,
    stretch_model,
)

from tonnage.core.deployment import THROUGH_HOST
from tonnage.domain.case import Links
from tonnage_accuracy.logs import COLUMNS, FILE, MEASURED, QUANTITIES, log_errors
from tonnage_accuracy.tables import write_table

SOURCE = "casys-kaist/LLMServingSim bench/examples (MIT)"
PHYSICS = "physics"
HOSTED = "physics, links through the host"
"""Of logs of several accelerators beside each other: as if they had no peer access, which no log says."""
ROOT = Path(__file__).parents[2]
STEPS = (0.25, 0.1, 0.04, 0.015, 0.006)
"""Widths of the search in the logarithm of each factor, one after the other."""
MEMORY = (0.6, 0.8, 1.0, 1.2)
HOST_S = (2e-4, 1e-3, 4e-3)
"""Where searches begin: memory, arithmetic and host trade against each other, so one alone ends where it began."""
FITTED_ON = ("RTX4090_Llama-3.1-8B", "RTXPRO6000_Llama-3.1-8B")
"""Logs of one accelerator each: no collective enters. Both logs of the same model on two kinds of GPU."""


def refresh_facts(folder: Path, *, date: str) -> list[list[str]]:
    """Rows of the file of facts for the logs of a folder: measured and from the physics."""
    rows: list[list[str]] = []
    for log in read_logs(folder):
        found, preemptions = from_physics(replay_setup(log))
        rows += facts_of(log, log.measured, by=MEASURED, date=date)
        rows += facts_of(log, found, by=PHYSICS, date=date, preemptions=preemptions)
        if log.layout.ranks > 1:
            found, preemptions = from_physics(replay_setup(log, links=Links(intra=THROUGH_HOST)))
            rows += facts_of(log, found, by=HOSTED, date=date, preemptions=preemptions)
    return rows


def facts_of(
    log: EngineLog, found: Percentiles, *, by: str, date: str, preemptions: int | None = None
) -> list[list[str]]:
    """Rows of the file of facts: percentiles of one log, measured or by one prediction."""
    layout = "x".join(f"{name}{getattr(log.layout, name)}" for name in ("tp", "dp", "ep"))
    told = "" if preemptions is None else str(preemptions)
    return [
        [
            log.name,
            log.model,
            log.accelerator,
            layout,
            f"vllm {log.version}",
            str(len(log.requests.prompt)),
            by,
            name,
            *(f"{value:.5g}" for value in found[name]),
            told,
            date,
            SOURCE,
        ]
        for name in QUANTITIES
    ]


def loss(found: Percentiles, measured: Percentiles) -> float:
    """Mean square of the logarithm of predicted over measured."""
    pairs = [(f, m) for name in QUANTITIES for f, m in zip(found[name], measured[name], strict=True)]
    return sum(math.log(f / m) ** 2 for f, m in pairs) / len(pairs)


def fit(log: EngineLog) -> Stretch:
    """The factors that come nearest to one log: pattern searches from several places, the lowest of their ends."""
    play = stretch_model(replay_setup(log))

    def of(point: tuple[float, ...]) -> float:
        return loss(play(stretch(point))[0], log.measured)

    ends = [search(of, (math.log(memory), 0.0, math.log(host))) for memory, host in itertools.product(MEMORY, HOST_S)]
    return stretch(min(ends)[1])


def search(of: Callable[[tuple[float, ...]], float], start: tuple[float, ...]) -> tuple[float, tuple[float, ...]]:
    """Lowest value and its place by steps along each axis, ever smaller."""
    best, lowest = start, of(start)
    for width in STEPS:
        better = True
        while better:
            better = False
            for i, sign in itertools.product(range(len(start)), (1.0, -1.0)):
                tried = tuple(x + (sign * width if k == i else 0.0) for k, x in enumerate(best))
                if (found := of(tried)) < lowest * 0.9999:
                    best, lowest, better = tried, found, True
    return lowest, best


def stretch(point: tuple[float, ...]) -> Stretch:
    """Factors from their logarithms; a host below a tenth of a millisecond is none."""
    memory, compute, host = (math.exp(x) for x in point)
    return Stretch(memory=memory, compute=compute, step_s=host if host > 1e-4 else 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    date = datetime.now(UTC).date().isoformat()
    logs = {log.name: log for log in read_logs(asked.folder)}
    plays: dict[str, Callable[[Stretch], tuple[Percentiles, int]]] = {
        name: stretch_model(replay_setup(log)) for name, log in logs.items()
    }
    rows = refresh_facts(asked.folder, date=date)
    for source in FITTED_ON:
        own = fit(logs[source])
        print(f"{source}: memory {own.memory:.3f}, compute {own.compute:.3f}, host {own.step_s * 1e3:.2f} ms")
        for name, log in logs.items():
            found, preemptions = plays[name](own)
            rows += facts_of(log, found, by=f"fitted on {source}", date=date, preemptions=preemptions)
    for line in log_errors([dict(zip(COLUMNS, row, strict=True)) for row in rows]):
        shown = "  ".join(" ".join(f"{e:+4.0%}" for e in errors) for errors in (line.ttft, line.tpot, line.e2e))
        print(f"{line.log:42} {line.by:32} {shown}")
    if asked.write:
        write_table(ROOT / FILE, [COLUMNS, *rows])


if __name__ == "__main__":
    main()
