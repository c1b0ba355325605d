"""How near do request logs, played again, come to what their engines did? For a terminal and for the accuracy page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.domain.accuracy import LogErrors

__all__ = ["log_page", "log_rows"]

HEADER: Final = ("log", "model", "layout", "predicted by", "TTFT p50 / p90 / p95 / p99", "TPOT", "E2E", "largest")
PHYSICS: Final = "physics"

_HEAD: Final = """## Request logs of real engines, played again

Arrivals, lengths and settings are the log's; steps and scheduler are ours. Predicted over measured, less one, at each
percentile. *physics*: as a user's case is predicted, nothing taken from the log. *links through the host*: the same
for two accelerators that do not reach each other's memory over PCIe (`links.intra` = `pcie-host`); the logs do not
say whether theirs did. *fitted on*: datasheet and generic curve, no kernel table, with three numbers (what memory
bounds, what arithmetic bounds, host time of a step) set by the percentiles of that one log, and the size of the cache
as the engine printed it. These logs bring requests faster than their engines answer, so a queue grows until the last
has come: an error of the rate comes back twice or more in TTFT.
`python tools/calibration/logs.py FOLDER --write` refreshes the table from the logs."""


def log_rows(errors: Sequence[LogErrors]) -> list[tuple[str, ...]]:
    """Header and one row per log and prediction; none without logs."""
    rows = [_row(line) for line in sorted(errors, key=lambda line: (line.by != PHYSICS, line.by, line.log))]
    return [HEADER, *rows] if rows else []


def log_page(errors: Sequence[LogErrors]) -> list[str]:
    """The section of the page; nothing without logs."""
    if not errors:
        return []
    header, *rows = log_rows(errors)
    lines = [header, tuple("---" for _ in header), *rows]
    sources = "; ".join(sorted({f"{line.source}, predicted {line.date}" for line in errors}))
    return [_HEAD, "\n".join("| " + " | ".join(line) + " |" for line in lines), f"Logs: {sources}."]


def _row(line: LogErrors) -> tuple[str, ...]:
    largest = max(abs(error) for error in (*line.ttft, *line.tpot, *line.e2e))
    return (
        line.accelerator,
        line.model.rpartition("/")[2],
        line.layout,
        line.by,
        *(" / ".join(f"{error:+.0%}" for error in errors) for errors in (line.ttft, line.tpot, line.e2e)),
        f"{largest:.0%}",
    )
