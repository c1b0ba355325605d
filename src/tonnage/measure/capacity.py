"""How many replicas does a load need, by what one replica was measured to sustain?"""

from __future__ import annotations

import math

import msgspec

from tonnage.domain.measurement import CAPACITY_SCHEMA, Capacity, Measurement, Point
from tonnage.domain.workload import Slo
from tonnage.errors import BadRequest, Unmeasured
from tonnage.measure.knee import badness, meets

__all__ = ["Demand", "capacity_of", "sustained"]


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The load to be served, and what must stay free."""

    rate_per_s: float
    """Mean. [requests/s]"""
    peak_to_mean: float = 1.0
    headroom: float = 0.25
    """Share of each replica kept free at the peak. [-]"""
    spare: int = 0
    """Replicas that may fail at the peak without anyone noticing."""
    slo: Slo = Slo()


def sustained(measurement: Measurement, slo: Slo) -> Point:
    """
    The point that answers most requests per second among those that are sustained and meet the objectives.

    Raises
    ------
    Unmeasured
        No point does.
    """
    good = []
    for point in measurement.points:
        bad = badness(point, None, by="concurrency" if point.rate_per_s is None else "rate", slo=slo)
        if bad is None and point.requests_per_s:
            good.append(point)
    if not good:
        missed = {name for point in measurement.points if (name := meets(point, slo)) is not None}
        why = f" within the objectives ({', '.join(sorted(missed))} missed)" if missed else ""
        raise Unmeasured(f"no load in this measurement is sustained{why}; measure lower loads")
    return max(good, key=lambda point: point.requests_per_s or 0.0)


def capacity_of(measurement: Measurement, demand: Demand) -> Capacity:
    """
    Replicas for the peak, and the spare ones.

    replicas = ceil(peak / (sustained x (1 - headroom))) + spare. Load that is spread evenly is assumed; requests
    as long as those measured.
    """
    for name, value, low, high in (
        ("--rate", demand.rate_per_s, 1e-9, 1e9),
        ("--peak", demand.peak_to_mean, 1.0, 1e4),
        ("--headroom", demand.headroom, 0.0, 0.95),
        ("--spare", demand.spare, 0, 10_000),
    ):
        if not low <= value <= high:
            raise BadRequest(f"{name}: {value:g} is outside {low:g} to {high:g}")
    point = sustained(measurement, demand.slo)
    rate = point.requests_per_s or 0.0
    peak = demand.rate_per_s * demand.peak_to_mean
    usable = rate * (1.0 - demand.headroom)
    needed = math.ceil(peak / usable - 1e-9)
    return Capacity(
        schema=CAPACITY_SCHEMA,
        replicas=needed + demand.spare,
        needed=needed,
        spare=demand.spare,
        peak_per_s=peak,
        usable_per_s=usable,
        sustained_per_s=rate,
        level=point.level,
        headroom=demand.headroom,
        reasons=tuple(_reasons(measurement, point, demand=demand, needed=needed, usable=usable)),
    )


def _reasons(measurement: Measurement, point: Point, *, demand: Demand, needed: int, usable: float) -> list[str]:
    peak = demand.rate_per_s * demand.peak_to_mean
    kind = "requests/s offered" if point.rate_per_s is not None else "requests at once"
    found = [
        f"Measured at {point.level:g} {kind}: {point.requests_per_s:.4g} requests/s from {point.completed:,} requests.",
        f"At the peak each of {needed} carries {peak / needed:.4g} requests/s, "
        f"{peak / needed / (point.requests_per_s or math.nan):.0%} of what it sustains.",
    ]
    if needed > 1:
        found.append(f"One fewer would carry {peak / (needed - 1):.4g} requests/s each, above {usable:.4g}.")
    highest = max(measurement.points, key=lambda other: other.requests_per_s or 0.0)
    if highest is point and (measurement.knee is None or measurement.knee.limit == "none"):
        found.append("No higher load was measured, so one replica may sustain more: a sweep would tell.")
    if point.prompt_tokens is not None and point.output_tokens is not None:
        found.append(
            f"Holds for requests of about {point.prompt_tokens:.0f} prompt and {point.output_tokens:.0f} output tokens."
        )
    return found
