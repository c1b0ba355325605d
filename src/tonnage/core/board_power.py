"""
What do boards draw under a load? Operators become shares of the peaks, and those a share of its limit (`pricing`).

Served loads and networks are one state: all work of a step over its time, as the fit took it. Scored on energy a token.
Training steps have phases of their own (`questions.train.power`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.core.deployment import Deployment
from tonnage.core.host import LoadShare
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.case import ServeCase
from tonnage.domain.layout import Disaggregation
from tonnage.physics.efficiency import peak_flop_per_s
from tonnage.physics.transformer import Tokens
from tonnage.physics.work import Operator
from tonnage.pricing.energy import (
    IDLE_DRAW,
    PRODUCT_DRAW,
    VECTOR_DRAW,
    WEIGHT_DRAW,
    WORKING_DRAW,
    board_share,
    busy_share,
)
from tonnage.simulation.capacity import Point
from tonnage.simulation.simulated import Served
from tonnage.simulation.step_parts import Placement, placed_work

__all__ = ["WORKING_DRAW"]

TILE_ROWS: Final = 16
"""Rows of the smallest tile that tensor cores multiply: an expert that few tokens reach fills it with padding."""
DRAW_SPREAD: Final = 1.25
"""90 % factor of the share: between boards, formats and operands (judgment). [-]"""


class Used(NamedTuple):
    """
    Time that work takes of one board at its peak rates: memory for weights and for all else, matrix units. [s]

    Divided by the time that passes, it is the share of each peak in use [-], which `share_of` takes.
    """

    weights: float = 0.0
    others: float = 0.0
    products: float = 0.0

    def plus(self, more: Used) -> Used:
        """The sum of both, part by part."""
        return Used(*(a + b for a, b in zip(self, more, strict=True)))

    def times(self, factor: float) -> Used:
        """So many times the work."""
        return Used(*(factor * each for each in self))


def serving_load(
    at: Deployment,
    *,
    running: float,
    tpot_s: float,
    requests_per_s: float,
    workers: tuple[int, int] | None = None,
) -> LoadShare:
    """
    What the boards of one replica draw under a steady load, by the bytes they read and the products they do.

    The mean board's share of its power limit, over all time; with `workers`, the mean over the boards of both pools.

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
    workers : (int, int), optional
        Of a unit of separate pools, workers that read prompts and workers that decode, each of this deployment's
        layout; absent = the same accelerators do both, as where none reads prompts alone.
    """
    p, case = at.placement, at.case
    prefill, decode = workers or (0, 1)
    # A mean over boards: each pool counts by its share of them.
    all_workers = prefill + decode
    prefill_share, decode_share = (prefill / all_workers, decode / all_workers) if prefill else (1.0, 1.0)
    used = _decoding(p, case, running=running / decode, tpot_s=tpot_s).times(decode_share)
    if case.isl > 0.0 and case.phase != "decode":
        prompts = _reading(p, case, requests_per_s=requests_per_s / (prefill or decode))
        used = used.plus(prompts.times(prefill_share))
    # Fewer sequences than pipeline stages leave stages without one: cards that hold a part of the layers each.
    active = min(1.0, max(1.0, running) / p.layout.pp)
    return share_of(used, busy=active)


def arriving_load(at: Deployment, *, rate_per_s: float, tpot_s: float, e2e_s: float) -> tuple[LoadShare, float]:
    """
    The load of a replica whose requests arrive by themselves, while it has at least one; and for what share of time.

    `serving_load` of the busy time [-], and the share of time that is busy [-]: gaps between arrivals are not in the
    first, so whoever wants the mean over all time weighs it with the second.

    Parameters
    ----------
    rate_per_s : float
        Of one replica. [1/s]
    tpot_s, e2e_s : float
        Means at that rate. [s]
    """
    busy = busy_share(mean_requests=max(1e-9, rate_per_s * e2e_s))
    running = rate_per_s * max(0.0, at.case.osl - 1.0) * tpot_s
    return serving_load(at, running=running / busy, tpot_s=tpot_s, requests_per_s=rate_per_s / busy), busy


def steady_load(at: Deployment, point: Point) -> tuple[LoadShare, float]:
    """`arriving_load` at a point of a replica's steady state: the load while busy, and the share of time busy."""
    whole = point.means(at.case.osl)["e2e_s"]
    return arriving_load(at, rate_per_s=point.rate_per_s, tpot_s=point.tpot_mean_s, e2e_s=whole)


def predicted_load(at: Deployment, found: Served, *, arrivals: bool, split: Disaggregation | None = None) -> LoadShare:
    """
    Share of its power limit that the mean board of a replica draws over time, the gaps between arrivals included. [-]

    Parameters
    ----------
    arrivals : bool
        Requests come by themselves; clients that wait for their answers leave no gap.
    split : Disaggregation, optional
        Separate pools, each at its own layout: the mean over the boards of both, whatever `arrivals` says.
    """
    case, rate, tpot_s = at.case, found.requests_per_s, found.tpot_s
    running = found.running if case.phase == "decode" else rate * max(0.0, case.osl - 1.0) * tpot_s
    if split is not None:
        reads, writes = (replace(at.placement, layout=layout) for layout in (split.prefill, split.decode))
        read = _reading(reads, case, requests_per_s=rate / split.prefill_workers)
        written = _decoding(writes, case, running=running / split.decode_workers, tpot_s=tpot_s)
        first, second = split.ranks
        return spread((first * share_of(read).value + second * share_of(written).value) / (first + second), SUM)
    if arrivals:
        load, busy = arriving_load(at, rate_per_s=rate, tpot_s=tpot_s, e2e_s=found.e2e_s)
    else:
        load, busy = serving_load(at, running=running, tpot_s=tpot_s, requests_per_s=rate), 1.0
    # Cards that hold whole layers each take turns at one request.
    busy /= case.layout.ranks if case.split_mode == "layer" else 1
    return load if busy == 1.0 else spread(busy * load.value + (1.0 - busy) * IDLE_DRAW, SUM)


def _decoding(p: Placement, case: ServeCase, *, running: float, tpot_s: float) -> Used:
    """Shares of one rank's peaks that decode steps take; each gives every running sequence a token."""
    each = running / (p.layout.dp * p.layout.pp)
    tokens = Tokens(decodes=max(1.0, each), context=case.isl + case.osl / 2.0, emitted=each)
    return _of_step(p, tokens).times(1.0 / max(tpot_s, 1e-9))


def _reading(p: Placement, case: ServeCase, *, requests_per_s: float) -> Used:
    """Shares of one rank's peaks that prompts take which arrive at that rate on the replica."""
    prompt = _of_step(p, Tokens(prompts=1.0, chunk=case.isl, emitted=1.0))
    return prompt.times(requests_per_s / (p.layout.dp * p.layout.pp))


def work_load(work: Iterable[Operator], *, seconds: float, accelerator: Accelerator) -> LoadShare:
    """What a board draws that does this work in so many seconds, again and again; the same sum as in serving."""
    return share_of(used_by(work, accelerator).times(1.0 / max(seconds, 1e-9)))


def share_of(used: Used, busy: float = 1.0) -> LoadShare:
    """
    The mean load of a board over all time.

    `used` are shares of its peaks over all time; all of that work falls into the share `busy` of the time. [-]
    """
    while_busy = used.times(1.0 / busy)
    value = board_share(weights=while_busy.weights, others=while_busy.others, products=while_busy.products, busy=busy)
    return spread(value, SUM)


SUM: Final = (
    f"at work {WORKING_DRAW:g}, weights {WEIGHT_DRAW:g}, other bytes {VECTOR_DRAW:g} and products {PRODUCT_DRAW:g} "
    f"of the limit at the rated speeds"
)
"""The model in words, as plans cite it."""


def spread(value: float, source: str) -> LoadShare:
    """A share of the limit with the interval that holds for all of them."""
    return LoadShare(value=value, low=value / DRAW_SPREAD, high=min(1.0, value * DRAW_SPREAD), source=source)


def watts_of(load: LoadShare, accelerator: Accelerator, *, share: float = 1.0) -> Quantity | None:
    """
    Mean draw of one accelerator, or of the share of one that is counted; absent where its limit is not published. [W]

    Parameters
    ----------
    share : float, optional
        Of the catalogue's part that one counted device is: one die of two. [-]
    """
    if accelerator.power_w is None:
        return None
    limit = accelerator.power_w * share
    low, high = limit * load.low, limit * load.high
    return Quantity(value=limit * load.value, unit="W", low=low, high=high, basis=Basis.DERIVED)


def _of_step(placement: Placement, tokens: Tokens) -> Used:
    """What one step takes of one rank's peaks. [s]"""
    return used_by(placed_work(placement, tokens), placement.accelerator)


def used_by(work: Iterable[Operator], accelerator: Accelerator) -> Used:
    """What work takes of one board's peaks: bytes over the rated bandwidth, FLOP over the peak of their format. [s]"""
    weights = others = products = 0.0
    for op in work:
        moved = op.count * (op.read_bytes + op.write_bytes) / accelerator.memory_bytes_per_s
        if op.kind in {"gemm", "grouped_gemm"}:
            weights += moved
        else:
            others += moved
        if op.flop:
            products += op.count * executed_flop(op) / peak_flop_per_s(accelerator, op.compute)
    return Used(weights, others, products)


def executed_flop(op: Operator) -> float:
    """FLOP that tensor cores execute in one call of the operator; experts' rows are filled up to whole tiles. [FLOP]"""
    if op.kind != "grouped_gemm":
        return op.flop
    rows = math.ceil(op.m / op.groups / TILE_ROWS) * TILE_ROWS
    return max(op.flop, 2.0 * op.n * op.k * op.groups * rows)
