"""How long does a whole run take: steps, validation, checkpoints, interruptions, waiting, headroom?

`run_over_time` takes what is known of one step and one cluster and returns the run with its spread. Three things are
uncertain and independent: the step itself, the cluster's rate of interruptions (gamma over clusters) and time to
recover (log-normal); and a short run meets an interruption or not (Poisson). Their combinations are walked through on a
small grid, so that the same request always gives the same answer.

`spot_mix` is the Uniform Progress policy: spot while ahead of the line that ends at the deadline, on-demand when not.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Final

from tonnage.domain.answer import Basis, Quantity
from tonnage.domain.train_plan import Run
from tonnage.physics.goodput import (
    checkpoint_interval_s,
    gamma_quantile,
    gamma_shape,
    poisson_quantile,
    time_between_interruptions_s,
    useful_time_fraction,
)
from tonnage.record import Record

Z90: Final = 1.6449
"""Standard deviations to either end of a 90 % interval."""
Z80: Final = 1.2816
"""To the 90th percentile."""

_STRATA: Final = (-1.6449, -1.0364, -0.6745, -0.3853, -0.1257, 0.1257, 0.3853, 0.6745, 1.0364, 1.6449)
"""Middles of ten equally likely slices of the normal distribution."""
_COUNTS: Final = (0.1, 0.3, 0.5, 0.7, 0.9)


class Cluster(Record, kw_only=True):
    """What one job meets on one kind of cluster."""

    nodes: float
    """In nodes of eight accelerators, as rates are listed. [nodes]"""
    per_node_day: float
    """Interruptions per node and day, the middle of clusters; low and high hold 90 % of them. [1/day]"""
    per_node_day_low: float
    per_node_day_high: float
    restart_s: float
    """Detect, reschedule, start; loading the checkpoint comes on top. [s]"""
    restart_low_s: float
    restart_high_s: float
    start_s: float
    """First start of the job. [s]"""
    spot_up_s: float | None = None
    """Mean up-time of the whole spot allocation; absent = not on spot. [s]"""
    spot_down_s: float = 0.0
    """Mean time until a reclaimed spot allocation is back. [s]"""


class RunSpec(Record, kw_only=True):
    """One run, said in numbers."""

    steps: float
    step_s: float
    step_factor: float
    """90 % of such steps take between step / factor and step x factor. [-]"""
    validation: float
    """Time of validation over that of training. [-]"""
    headroom: float
    """Time kept for retries and experiments over that of the run. [-]"""
    checkpoint_bytes: float
    blocking_s: float
    """Time that training stands still for each checkpoint. [s]"""
    write_s: float
    """Time until a checkpoint is written; reading one takes as long. [s]"""
    cluster: Cluster
    spares: int = 0


def run_over_time(spec: RunSpec) -> Run:
    """
    The run and its spread.

    Its wall time is training and validation over the useful share of time, the first start, headroom over both, and
    waiting for spot capacity. It is infinite where clusters fail faster than they recover.
    """
    cluster = spec.cluster
    between = time_between_interruptions_s(
        nodes=cluster.nodes, per_node_day=cluster.per_node_day, spot_s=cluster.spot_up_s
    )
    recovery = cluster.restart_s + spec.write_s
    best = checkpoint_interval_s(blocking_s=spec.blocking_s, between_s=between, least_s=spec.write_s)
    training = spec.steps * spec.step_s
    validation = spec.validation * training
    work = training + validation
    interval = min(max(best, spec.step_s), work)
    useful = _useful_quantiles(spec, work=work, interval=interval)
    start = cluster.start_s + spec.write_s
    middle = work / useful.middle if useful.middle else float("inf")
    waiting = middle / cluster.spot_up_s * cluster.spot_down_s if cluster.spot_up_s else 0.0
    run_s = middle + start
    headroom = spec.headroom * run_s
    wall = run_s + headroom + waiting
    slower = useful.middle / useful.worst_90 if useful.worst_90 else float("inf")
    spread = sqrt(log(spec.step_factor) ** 2 + (Z90 / Z80 * log(slower)) ** 2) if slower < float("inf") else 50.0
    return Run(
        steps=spec.steps,
        training_s=training,
        validation_s=validation,
        start_s=start,
        headroom_s=headroom,
        waiting_s=waiting,
        wall_s=Quantity(value=wall, unit="s", basis=Basis.DERIVED).within(exp(spread)),
        wall_p90_s=wall * exp(spread * Z80 / Z90),
        useful_time_fraction=Quantity(
            value=useful.middle, unit="fraction", low=useful.low, high=useful.high, basis=Basis.DERIVED
        ),
        useful_p90=useful.worst_90,
        interruptions=middle / between,
        between_s=between,
        recovery_s=recovery,
        checkpoint_bytes=spec.checkpoint_bytes,
        blocking_s=spec.blocking_s,
        write_s=spec.write_s,
        checkpoint_interval_s=interval,
        spares=spec.spares,
    )


class _Useful(Record):
    low: float
    worst_90: float
    middle: float
    high: float


def _useful_quantiles(spec: RunSpec, *, work: float, interval: float) -> _Useful:
    """
    Useful time fraction over clusters and luck: 5 %, 10 %, 50 % and 95 % of runs have less; 0 without progress.

    `work` is training and validation, `interval` the time between checkpoints. [s]
    """
    found: list[float] = []
    c = spec.cluster
    shape = gamma_shape(low=c.per_node_day_low, high=c.per_node_day_high)
    width = log(c.restart_high_s / c.restart_low_s) / 2.0 / Z90
    quiet = work * (1.0 + spec.blocking_s / interval)
    for z in _STRATA:
        rate = c.per_node_day * gamma_quantile(shape=shape, z=z)
        between = time_between_interruptions_s(nodes=c.nodes, per_node_day=rate, spot_s=c.spot_up_s)
        for y in _STRATA[1::2]:
            recovery = c.restart_s * exp(width * y) + spec.write_s
            share = useful_time_fraction(
                interval_s=interval, blocking_s=spec.blocking_s, between_s=between, recovery_s=recovery
            )
            if share <= 0.0:
                found += [0.0] * len(_COUNTS)
                continue
            expected = work / share
            count = expected / between
            lost = max(0.0, expected - quiet) / count
            found += [work / (quiet + poisson_quantile(mean=count, p=p) * lost) for p in _COUNTS]
    found.sort()
    size = len(found)
    return _Useful(found[size // 20], found[size // 10], found[size // 2], found[size - 1 - size // 20])


class SpotMix(Record, kw_only=True):
    """A run that starts on spot and ends on time on on-demand instances."""

    on_demand_s: float
    usd: float


def spot_mix(
    *,
    work_s: float,
    deadline_s: float,
    spot_share: float,
    up_share: float,
    spot_usd_per_h: float,
    on_demand_usd_per_h: float,
) -> SpotMix | None:
    """
    The cheapest expected mix that meets a deadline: spot as long as on-demand can still catch up.

    On spot the run advances `spot_share` of wall time (availability times useful time) and is billed `up_share` of it.
    x hours on demand and T - x on spot do the work W when x + (T - x) g = W. None where not even all of the time on
    demand meets the deadline.

    Examples
    --------
    >>> mix = spot_mix(work_s=36e3, deadline_s=72e3, spot_share=0.4, up_share=0.5, spot_usd_per_h=1,
    ...                on_demand_usd_per_h=3)
    >>> round(mix.on_demand_s), round(mix.usd, 1)
    (12000, 18.3)
    """
    if work_s > deadline_s:
        return None
    behind = work_s - spot_share * deadline_s
    demand = behind / (1.0 - spot_share) if behind > 0.0 else 0.0
    spot = (work_s / spot_share if not demand else deadline_s - demand) * up_share
    usd = (demand * on_demand_usd_per_h + spot * spot_usd_per_h) / 3600
    return SpotMix(on_demand_s=demand, usd=usd)
