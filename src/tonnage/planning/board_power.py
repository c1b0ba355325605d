"""What boards draw under a served load, by the bytes they read and the products they do; scored on energy a token."""

from __future__ import annotations

import math
from typing import Final

from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.transformer import Tokens, step_work
from tonnage.physics.work import Operator
from tonnage.planning.deployment import Deployment
from tonnage.planning.host import LoadShare
from tonnage.simulation.step_parts import Placement

__all__ = ["WORKING_DRAW", "executed_flop", "serving_load"]

WORKING_DRAW: Final = 0.46
"""
What a board draws over its limit while kernels run back to back, before any byte or product: clocks at their highest,
schedulers, registers and on-chip memory. An idle board draws 0.25. [-]

This and the three below are one least-squares fit of 225 readings of ML.ENERGY (H100, vLLM 0.11, five model families,
8 to 2,047 sequences; measurements/energy_2.csv.gz): power within 8 % in the median. Fitted without a family, its energy
a token is met within 3 (Gemma 3) to 16 % (gpt-oss), 10 % in the median; the four numbers trade against each other then
(without Qwen3, half of the readings: 0.32, 0.46, 1.7 and 0.94). No other part was read. The sum agrees with decoding at
60 to 70 % of the limit, published for A100 and H100 (POLCA, arXiv 2308.12908).
"""
WEIGHT_DRAW: Final = 0.21
"""Further draw at the data sheet's memory rate, for weights streamed through products: 44 pJ a byte on an H100. [-]"""
VECTOR_DRAW: Final = 0.87
"""The same for cached keys and values and for element-wise operators: each byte passes the vector units. [-]"""
PRODUCT_DRAW: Final = 1.06
"""The same at the peak of the products' format: a sustained product meets the limit with clocks that fall. [-]"""
TILE_ROWS: Final = 16
"""Rows of the smallest tile that tensor cores multiply: an expert that few tokens reach fills it with padding."""
DRAW_SPREAD: Final = 1.25
"""90 % factor of the share: between boards, formats and operands (judgment). [-]"""


def serving_load(at: Deployment, *, running: float, tpot_s: float, requests_per_s: float) -> LoadShare:
    """
    What the boards of one replica draw under a steady load, by the bytes they read and the products they do.

    s = 0.46 + (0.21 w + 0.87 v) / (rated bytes/s) + 1.06 f / (peak FLOP/s), at most 1: w, v the bytes a second of
    weights and of everything else, f the FLOP a second with the padding of experts' tiles.

    Parameters
    ----------
    at : Deployment
        Model, accelerator, layout and formats.
    running : float
        Sequences that decode at a time, on the replica. [requests]
    tpot_s : float
        Time between two tokens of one of them. [s]
    requests_per_s : float
        Prompts that the replica takes. [1/s]
    """
    p, case = at.placement, at.case
    ranks = p.layout.dp * p.layout.pp
    tokens = Tokens(decodes=max(1.0, running / ranks), context=case.isl + case.osl / 2.0, emitted=running / ranks)
    drawn = _overdraw(p, tokens) / max(tpot_s, 1e-9)
    if case.isl > 0.0 and case.phase != "decode":
        drawn += _overdraw(p, Tokens(prompts=1.0, chunk=case.isl, emitted=1.0)) * requests_per_s / ranks
    value = min(1.0, WORKING_DRAW + drawn)
    source = (
        f"at work {WORKING_DRAW:g}, weights {WEIGHT_DRAW:g}, other bytes {VECTOR_DRAW:g} and products {PRODUCT_DRAW:g} "
        f"of the limit at the rated speeds"
    )
    return LoadShare(value=value, low=value / DRAW_SPREAD, high=min(1.0, value * DRAW_SPREAD), source=source)


def _overdraw(placement: Placement, tokens: Tokens) -> float:
    """Draw over the limit, times seconds, of one step of one rank."""
    p, seconds = placement, 0.0
    for op in step_work(p.model, tokens, precision=p.precision, layout=p.layout, domain=p.domain):
        each = WEIGHT_DRAW if op.kind in {"gemm", "grouped_gemm"} else VECTOR_DRAW
        moved = each * (op.read_bytes + op.write_bytes) / p.accelerator.memory_bytes_per_s
        made = PRODUCT_DRAW * executed_flop(op) / peak_flop_per_s(p.accelerator, op.compute) if op.flop else 0.0
        seconds += op.count * (moved + made)
    return seconds


def executed_flop(op: Operator) -> float:
    """FLOP that tensor cores execute, padding included. [FLOP]"""
    if op.kind != "grouped_gemm":
        return op.flop
    rows = math.ceil(op.m / op.groups / TILE_ROWS) * TILE_ROWS
    return max(op.flop, 2.0 * op.n * op.k * op.groups * rows)
