"""The same requests served in several ways: every way simulated, their figures side by side, the best one named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.compare import COMPARE_SCHEMA, Compared, Comparing, Comparison
from tonnage.domain.simulate import Simulated, Simulation
from tonnage.planning.simulate.simulate import simulate
from tonnage.units import show

__all__ = ["compare", "compared", "figures_of"]

ALIKE: Final = 0.01
"""Goodputs this near are alike; the shorter answers decide."""
Figure = tuple[str, str, float | str | None, bool | None]
"""Name, unit, value, and whether more is worse (absent: neither way is)."""


def compare(
    asked: Comparing, *, additions: Additions = catalog.NOTHING, watch: Callable[[int, int], None] | None = None
) -> Comparison:
    """
    Each way under the same requests.

    A run that is broken off ends the comparison with what is done, marked partial.

    Raises
    ------
    TonnageError
        A way names something unknown, or the traffic cannot be read. That nothing fits is an answer.
    """
    found: list[Simulated] = []
    for _, way in asked.ways:
        found.append(simulate(msgspec.structs.replace(way, capacity=False), additions=additions, watch=watch))
        if found[-1].partial:
            break
    ways = asked.ways[: len(found)]
    names = tuple(name for name, _ in ways)
    counts = [_accelerators(way) for _, way in ways]
    lead = _lead(found, counts)
    figures = [tuple(figures_of(one, count)) for one, count in zip(found, counts, strict=True)]
    shared = tuple(note for note in found[0].assumed if all(note in one.assumed for one in found))
    return Comparison(
        schema=COMPARE_SCHEMA,
        sentence=_sentence(names, found, counts, lead),
        kind="simulate",
        sides=names,
        figures=compared(figures),
        best=None if lead is None else names[lead],
        fits=any(one.fits for one in found),
        partial=any(one.partial for one in found),
        simulations=tuple(found),
        assumed=(*asked.notes, *shared, *([found[0].licence] if found[0].licence else [])),
    )


def compared(sides: list[tuple[Figure, ...]]) -> tuple[Compared, ...]:
    """Figures by name, with the best side of each; a name that no side knows drops out."""
    names = dict.fromkeys(figure[0] for side in sides for figure in side)
    tables = [{figure[0]: figure for figure in side} for side in sides]
    rows = []
    for name in names:
        known = next(table[name] for table in tables if name in table)
        values = tuple(table[name][2] if name in table else None for table in tables)
        if all(value is None for value in values):
            continue
        rows.append(Compared(what=name, unit=known[1], values=values, best=_best(values, known[3])))
    return tuple(rows)


def _best(values: tuple[float | str | None, ...], more_is_worse: bool | None) -> int | None:
    numbers = [(value, i) for i, value in enumerate(values) if isinstance(value, float | int)]
    if more_is_worse is None or len(numbers) < 2 or len({value for value, _ in numbers}) == 1:
        return None
    return (min if more_is_worse else max)(numbers)[1]


def figures_of(found: Simulated, accelerators: int) -> Iterator[Figure]:
    """What is compared of a simulation, in the order it is told."""
    yield "runs", "", "yes" if found.fits else "no", None
    yield "accelerators", "count", float(accelerators), True
    if found.slo_met is not None:
        yield "objectives", "", "met" if found.slo_met else "missed", None
        yield "goodput", "1/s", found.goodput_per_s, False
        yield "goodput of an accelerator", "1/s", _each(found.goodput_per_s, accelerators), False
    for name, latency in (("ttft", found.ttft_s), ("tpot", found.tpot_s), ("e2e", found.e2e_s)):
        for share in ("p50", "p95", "p99"):
            yield f"{share} {name}", "s", None if latency is None else getattr(latency, share), True
    yield "p99 between tokens", "s", None if found.itl_s is None else found.itl_s.p99, True
    yield "requests answered", "1/s", found.requests_per_s, False
    yield "output tokens", "1/s", found.output_tokens_per_s, False
    yield "running together", "count", _mean_running(found), None
    yield "preemptions", "count", float(found.preemptions), True
    if found.refused:
        yield "refused", "count", float(found.refused), True


def _each(value: float | None, accelerators: int) -> float | None:
    return None if value is None else value / accelerators


def _mean_running(found: Simulated) -> float | None:
    seen = found.occupancy
    return None if seen is None or not seen.running else sum(seen.running) / len(seen.running)


def _accelerators(way: Simulation) -> int:
    split = way.disaggregation
    if split is None:
        return way.layout.ranks * way.replicas
    return split.prefill.ranks * split.prefill_workers + split.decode.ranks * split.decode_workers


def _lead(found: list[Simulated], counts: list[int]) -> int | None:
    """Most answers within the objectives by an accelerator; without objectives, the shortest answers at p95."""
    able = [i for i, one in enumerate(found) if one.e2e_s is not None]
    if len(able) < 2:
        return None
    slowest = [_p95(one) for one in found]
    goodput = [_each(one.goodput_per_s, count) for one, count in zip(found, counts, strict=True)]
    most = max((value for value in goodput if value is not None), default=None)
    if most is not None and most > 0:
        able = [i for i in able if (goodput[i] or 0.0) >= (1.0 - ALIKE) * most]
    return min(able, key=lambda i: slowest[i])


def _p95(found: Simulated) -> float:
    if found.e2e_s is None:
        return math.inf
    return found.e2e_s.mean if found.e2e_s.p95 is None else found.e2e_s.p95


def _sentence(names: tuple[str, ...], found: list[Simulated], counts: list[int], lead: int | None) -> str:
    end = " (broken off: partial)" if any(one.partial for one in found) else ""
    if lead is None:
        able = [name for name, one in zip(names, found, strict=True) if one.e2e_s is not None]
        return (f"Only {able[0]} runs{end}." if able else f"None of them runs: {found[0].why}{end}.")  # fmt: skip
    best = found[lead]
    others = [i for i in range(len(names)) if i != lead and found[i].e2e_s is not None]
    soonest = ", ".join(f"{names[i]} {show(_p95(found[i]), 's')}" for i in others)
    goodput, e2e = best.goodput_per_s, f"p95 end to end {show(_p95(best), 's')}"
    if goodput is None:
        return f"Best is {names[lead]}: {e2e} ({soonest}){end}."
    if goodput <= 0:
        return f"Nothing meets the objectives; best is {names[lead]}: {e2e} ({soonest}){end}."
    most = (1.0 - ALIKE) * goodput / counts[lead]
    alike = [i for i in others if (found[i].goodput_per_s or 0.0) / counts[i] >= most]
    if alike:
        soonest = ", ".join(f"{names[i]} {show(_p95(found[i]), 's')}" for i in alike)
        return (
            f"Best is {names[lead]}: as many within the objectives as any, {goodput:.3g}/s, and {e2e} ({soonest}){end}."
        )
    said = ", ".join(f"{names[i]} {found[i].goodput_per_s or 0.0:.3g}/s" for i in others)
    each = f", {goodput / counts[lead]:.3g}/s for each accelerator" if len(set(counts)) > 1 else ""
    return (
        f"Best is {names[lead]}: {goodput:.3g}/s of {best.requests_per_s or 0.0:.3g}/s within the objectives{each} "
        f"({said}){end}."
    )
