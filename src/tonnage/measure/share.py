"""
Measured points as rows of `measurements/`: what everybody can learn from, and nothing that says who measured.

Only the columns of `COLUMNS` are written: no host, address, path, user, machine or prompt. The id is a hash of the row
itself, so that the same point is never counted twice.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tonnage.domain.measurement import Measurement, Point
from tonnage.errors import BadRequest

COLUMNS: Final = (
    "id", "block", "year", "model_id", "accelerator_id", "num_accel", "num_accel_total", "engine", "engine_version",
    "weight_precision", "tp", "pp", "load", "concurrency_or_batch", "request_rate_qps", "requests_per_client",
    "isl_tokens", "osl_tokens", "ttft_mean_ms", "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "tpot_mean_ms",
    "tpot_p50_ms", "tpot_p99_ms", "output_tokens_per_s_total", "usable",
)  # fmt: skip
BLOCK: Final = "OWN"
_FAILING: Final = 0.05
"""Share of failed requests above which a load is not what it says. [-]"""

Cells = dict[str, str]


def shared_rows(found: Measurement, stack: Mapping[str, str | int | None]) -> list[Cells]:
    """
    The rows of a measurement; loads of which too many requests failed, or that lack lengths or latencies, are left out.

    Parameters
    ----------
    found : Measurement
        What was measured.
    stack : mapping
        What it does not say of itself: model_id, accelerator_id, engine, engine_version, weight_precision, tp, pp.

    Raises
    ------
    BadRequest
        No point has answered requests of known lengths at a known load.
    """
    rows = [cells for point in found.points if (cells := _row(point, found, stack)) is not None]
    if not rows:
        raise BadRequest(
            "nothing to share: a row needs answered requests, their mean lengths, a load, and TTFT or TPOT"
        )
    return rows


def as_csv(rows: Iterable[Cells]) -> str:
    """The rows as a table that `tonnage accuracy` scores; columns that no row fills are left out."""
    rows = list(rows)
    used = [name for name in COLUMNS if any(row.get(name) for row in rows)]
    text = io.StringIO()
    writer = csv.DictWriter(text, used, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(point: Point, found: Measurement, stack: Mapping[str, str | int | None]) -> Cells | None:
    """The cells of one load: milliseconds, and accelerators of one replica; None where it cannot be shared."""
    if not point.completed or point.failed > _FAILING * (point.requests or point.completed):
        return None
    if not point.prompt_tokens or not point.output_tokens or not point.level or not (point.ttft_s or point.tpot_s):
        return None
    ranks = int(stack.get("tp") or 1) * int(stack.get("pp") or 1)
    cells: dict[str, object] = {
        **stack,
        "block": BLOCK,
        "year": (found.date or "")[:4],
        "num_accel": ranks,
        "num_accel_total": ranks,
        "load": "open_loop" if point.rate_per_s is not None else "closed_loop",
        "concurrency_or_batch": None if point.concurrency is None else round(point.concurrency),
        "request_rate_qps": point.rate_per_s,
        "isl_tokens": point.prompt_tokens,
        "osl_tokens": point.output_tokens,
        "output_tokens_per_s_total": point.output_tokens_per_s,
        "usable": 1,
        "requests_per_client": _requests_per_client(point),
        **_statistics(point),
    }
    told = {name: _text(value) for name, value in cells.items() if value not in (None, "")}
    told["id"] = f"{BLOCK}-{hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest()[:12]}"
    return told


def _requests_per_client(point: Point) -> int | None:
    """Of a closed loop; None of an open one."""
    if not point.concurrency or not point.requests:
        return None
    return max(1, round(point.requests / point.concurrency))


def _statistics(point: Point) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    kinds: Sequence[str] = ("mean", "p50", "p95", "p99")
    for name, latency in (("ttft", point.ttft_s), ("tpot", point.tpot_s)):
        for kind in kinds:
            value = getattr(latency, kind, None)
            found[f"{name}_{kind}_ms"] = None if value is None else value * 1e3
    return {name: value for name, value in found.items() if name in COLUMNS}


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
