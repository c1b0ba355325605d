"""How near does the simulator come to real request logs? Percentiles of each, from the physics and after a small fit.

Nothing of a log is kept but its percentiles (`measurements/logs.csv`), measured and predicted, so that the page is
printed without the logs; `tools/calibration/logs.py` writes them anew from a folder of logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tonnage_accuracy.records import LogErrors
from tonnage_accuracy.tables import read_checked

FILE: Final = "measurements/logs.csv"
COLUMNS: Final = ("log", "model", "accelerator", "layout", "engine", "requests", "by", "quantity",
                  "p50", "p90", "p95", "p99", "preemptions", "date", "source")  # fmt: skip
QUANTITIES: Final = ("ttft_s", "tpot_s", "e2e_s")
MEASURED: Final = "measured"


def read_facts(path: Path) -> list[dict[str, str]]:
    """Rows of the file of facts; none when it is not there."""
    return read_checked(path, COLUMNS)


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
