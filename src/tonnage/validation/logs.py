"""How near does the simulator come to real request logs? Percentiles of each, from the physics and after a small fit.

Nothing of a log is kept but its percentiles (`measurements/logs.csv`), measured and predicted, so that the page is
printed without the logs; `refresh_facts` writes them anew from a folder of logs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tonnage.domain.accuracy import LogErrors
from tonnage.domain.case import Links
from tonnage.errors import BadFact, echo
from tonnage.planning.deployment import THROUGH_HOST
from tonnage.planning.simulate.replay import QUANTITIES, EngineLog, Percentiles, from_physics, read_logs, replay_setup

__all__ = [
    "COLUMNS", "FILE", "HOSTED", "MEASURED", "PHYSICS", "facts_of", "log_errors", "read_facts", "refresh_facts",
    "write_facts",
]  # fmt: skip

FILE: Final = "measurements/logs.csv"
COLUMNS: Final = ("log", "model", "accelerator", "layout", "engine", "requests", "by", "quantity",
                  "p50", "p90", "p95", "p99", "preemptions", "date", "source")  # fmt: skip
SOURCE: Final = "casys-kaist/LLMServingSim bench/examples (MIT)"
MEASURED: Final = "measured"
PHYSICS: Final = "physics"
HOSTED: Final = "physics, links through the host"
"""Of logs of several accelerators beside each other: as if they had no peer access, which no log says."""


def refresh_facts(folder: Path, kept: Iterable[dict[str, str]], *, date: str) -> list[list[str]]:
    """
    Rows of the file of facts for the logs of a folder: measured and from the physics; rows by fits stay as they are.
    """
    rows: list[list[str]] = []
    for log in read_logs(folder):
        found, preemptions = from_physics(replay_setup(log))
        rows += facts_of(log, log.measured, by=MEASURED, date=date)
        rows += facts_of(log, found, by=PHYSICS, date=date, preemptions=preemptions)
        if log.layout.ranks > 1:
            found, preemptions = from_physics(replay_setup(log, links=Links(intra=THROUGH_HOST)))
            rows += facts_of(log, found, by=HOSTED, date=date, preemptions=preemptions)
    fitted = [row for row in kept if row["by"] not in (MEASURED, PHYSICS, HOSTED)]
    return rows + [[row[column] for column in COLUMNS] for row in fitted]


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


def write_facts(path: Path, rows: Iterable[list[str]]) -> None:
    """The file of facts."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)


def read_facts(path: Path) -> list[dict[str, str]]:
    """Rows of the file of facts; none when it is not there."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if any(row.get(column) is None for row in rows for column in COLUMNS):
        raise BadFact(f"'{echo(path.name)}' must have the columns {', '.join(COLUMNS)}")
    return rows


def log_errors(rows: Iterable[dict[str, str]]) -> tuple[LogErrors, ...]:
    """How far each prediction of the file is from what was measured."""
    values: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in rows:
        values.setdefault((row["log"], row["by"]), {})[row["quantity"]] = row
    found = []
    for (log, by), own in values.items():
        truth = values.get((log, MEASURED))
        if by == MEASURED or truth is None:
            continue
        errors = {
            name: tuple(float(own[name][p]) / float(truth[name][p]) - 1.0 for p in ("p50", "p90", "p95", "p99"))
            for name in QUANTITIES
        }
        line = own["ttft_s"]
        line = own["ttft_s"]
        told = {name: line[name] for name in ("model", "accelerator", "layout", "engine", "date", "source")}
        found.append(
            LogErrors(
                log=log,
                requests=int(line["requests"]),
                by=by,
                ttft=errors["ttft_s"],
                tpot=errors["tpot_s"],
                e2e=errors["e2e_s"],
                **told,
            )
        )
    return tuple(found)
