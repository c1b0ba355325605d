"""
What has been published? A compact copy of the usable rows of the repository's measurements.

The measurements themselves stay outside the package; `tools/calibration/published.py` writes this table from them:
what ran,
what was measured, when and where it stands. docs/decisions/0007-published-results-travel.md says why.
"""

from __future__ import annotations

import csv
import gzip
import io
from functools import cache
from importlib.resources import files
from typing import Any, Final

from tonnage.domain.published import Published
from tonnage.errors import BadFact

__all__ = ["COLUMNS", "MEASURED", "published"]

MEASURED: Final = (
    "ttft_ms", "tpot_ms", "e2e_ms", "output_tokens_per_s", "total_tokens_per_s", "samples_per_s", "energy_per_token_j",
    "memory_gb", "step_time_s", "tokens_per_s_per_accel", "samples_per_s_per_accel", "peak_mem_gb",
)  # fmt: skip
"""Measured numbers that the table keeps."""

_TEXTS: Final = (
    "id", "kind", "model", "family", "accelerator", "engine", "version", "weights", "layout", "load", "date", "source",
)  # fmt: skip
_NUMBERS: Final = ("parameters", "active_parameters", "count", "size", "isl", "osl")
COLUMNS: Final = (*_TEXTS, *_NUMBERS, *MEASURED)


@cache
def published() -> tuple[Published, ...]:
    """
    Every published result, in the order of the table.

    Raises
    ------
    BadFact
        The table is not what this release expects.
    """
    packed = (files("tonnage.catalog") / "data" / "published" / "results.csv.gz").read_bytes()
    reader = csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise BadFact(f"published/results.csv.gz: columns must be {', '.join(COLUMNS)}")
    return tuple(_result(line) for line in reader)


def _result(line: dict[str, str]) -> Published:
    stated: dict[str, Any] = {name: line[name] for name in _TEXTS}
    stated |= {name: float(line[name]) if line[name] else None for name in _NUMBERS}
    return Published(**stated, measured={name: float(line[name]) for name in MEASURED if line[name]})
