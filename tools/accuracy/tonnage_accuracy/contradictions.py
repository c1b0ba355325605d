"""
Which measured rows cannot be of the run that they state? By arithmetic alone: no prediction is asked.

Hand-run files of a later date hold another image or other lengths than the rows beside them. And where some row of a
model, part and engine states more tokens than the part's peak could multiply, prefixes came from a cache or prompts
were shorter, so that the rows beside it are no better known. Such rows are scored like all others; they teach no width
(`tools/calibration/intervals.py`), and decisions are given with and without them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage import catalog
from tonnage.core.header import model_facts
from tonnage.domain.case import ServeCase
from tonnage.domain.precision import number_format
from tonnage_accuracy.cases import case_of
from tonnage_accuracy.grouping import group_by
from tonnage_accuracy.rows import Row, number, text

MOST_OF_PEAK: Final = 0.75
"""Share of the data-sheet peak that no whole engine sustains (large FP8 products alone reach 0.7). [-]"""


def contradicting(rows: Iterable[Row]) -> set[str]:
    """Ids of rows that do not say what ran."""
    rows = list(rows)
    found = {row.id for row in rows if text(row, "provenance") == "local_file" and text(row, "measured")}
    for own in group_by(rows, lambda row: (row.block, text(row, "provenance"), *_run(row))).values():
        if any(_share_of_peak(row) > MOST_OF_PEAK for row in own):
            found |= {row.id for row in own}
    return found


def _run(row: Row) -> tuple[str, str, str]:
    return text(row, "model_id"), text(row, "accelerator_id"), text(row, "engine")


def _share_of_peak(row: Row) -> float:
    """Products of the stated tokens over the peak, in a closed loop with stated latencies; 0 where not known. [-]"""
    if row.layout != "serving":
        return 0.0
    case = case_of(row)
    if not isinstance(case, ServeCase) or case.precision is None or case.disaggregation is not None:
        return 0.0
    each_s = (number(row, "silicon_ttft_ms") or 0.0) / 1e3 + case.osl * (number(row, "silicon_tpot_ms") or 0.0) / 1e3
    peak = catalog.accelerator(case.accelerator).peak(number_format(case.precision.activations).compute)
    if not each_s or not peak or not case.traffic.concurrency:
        return 0.0
    tokens = (number(row, "isl_tokens") or 0.0) + (number(row, "osl_tokens") or 0.0)
    flop = 2 * model_facts(catalog.model(str(case.model)))["active_parameters"] * tokens
    return float(case.traffic.concurrency / each_s * flop / ((number(row, "num_accelerators") or 1.0) * peak))
