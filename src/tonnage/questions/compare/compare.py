"""The same requests served by several configurations: every one simulated, figures side by side, the best one named.

By default they are batches as they were, as they are, and prefill and decode apart. A configuration is the simulation
with some of its fields changed. Its traffic is not among them: every side answers the same requests, drawn from the
same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.calibration_use import each_once
from tonnage.domain.metrics import OBJECTIVES
from tonnage.domain.simulate import Simulated, Simulation
from tonnage.errors import BadRequest, echo
from tonnage.questions.compare.answer import COMPARE_SCHEMA, Compared, Comparing, Comparison
from tonnage.questions.simulate.simulate import simulate, simulation_of
from tonnage.units import show

MAX_SIDES: Final = 12
DYNAMIC_WAIT: Final = "50 ms"
"""How long the first of a dynamic batch waits for others unless a way says otherwise."""
MAX_SPLITS: Final = 7
"""Divisions of the replicas into prefill and decode that are tried; more are spread evenly."""


def configurations_of(fields: Mapping[str, Any]) -> Comparing:
    """
    The ways that a file or a set of flags asks for: `ways`, a mapping of name -> changed fields, or those by default.

    Raises
    ------
    TonnageError
        A way changes the traffic, is no mapping, or is no simulation.
    """
    base = {name: value for name, value in fields.items() if name != "ways"}
    given = fields.get("ways")
    notes: tuple[str, ...] = ()
    if given is None:
        simulation_of(base)  # a wrong field is the request's, not a way's
        given, notes = _usual_ways(base)
    if not isinstance(given, Mapping) or not given:
        raise BadRequest(f"ways must hold 'name: {{changed fields}}' lines, not '{echo(given)}'")
    if len(given) > MAX_SIDES:
        raise BadRequest(f"ways: {len(given)} are more than the {MAX_SIDES} that can be read side by side")
    return Comparing(
        ways=tuple((str(name), _way(base, str(name), changes)) for name, changes in given.items()), notes=notes
    )


def _way(base: Mapping[str, Any], name: str, changes: Any) -> Any:
    """The simulation of one way: the base with its changes laid over it; refuses a change of traffic."""
    changes = {} if changes is None else changes
    if not isinstance(changes, Mapping):
        raise BadRequest(f"ways.{echo(name)} must hold 'field: value' lines, not '{echo(changes)}'")
    if "traffic" in changes:
        raise BadRequest(f"ways.{echo(name)}: traffic cannot change; every way answers the same requests")
    merged = _merge_fields(base, changes)
    if merged.get("disaggregation") is not None and "replicas" not in changes:
        merged.pop("replicas", None)  # workers are counted instead
    try:
        return simulation_of(merged)
    except BadRequest as error:
        raise BadRequest(f"ways.{echo(name)}: {error}") from None


def _merge_fields(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with changes laid over them; mappings field by field."""
    found = dict(base)
    for name, value in changes.items():
        own = found.get(name)
        found[name] = _merge_fields(own, value) if isinstance(own, Mapping) and isinstance(value, Mapping) else value
    return found


def _usual_ways(base: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """
    Static, dynamic and continuous batching, and divisions of the same accelerators into two pools, with notes on them;
    a note says why where there are no divisions.
    """
    given = base.get("disaggregation")
    whole: dict[str, Any] = {}
    if given is not None:
        split = simulation_of(base).disaggregation
        assert split is not None
        if split.prefill != split.decode:
            raise BadRequest("ways are missing: workers of unlike layouts have no usual ways to be compared with")
        whole = {
            "disaggregation": None,
            "layout": given["prefill"],
            "replicas": split.prefill_workers + split.decode_workers,
        }
    ways: dict[str, dict[str, Any]] = {
        "static": {**whole, "scheduler": {"batching": "static"}},
        "dynamic": {**whole, "scheduler": {"batching": "dynamic", "batch_wait": DYNAMIC_WAIT}},
        "continuous": whole,
    }
    notes = [f"dynamic batches wait {DYNAMIC_WAIT} to be filled; static ones start with whoever is there"]
    if given is not None:
        return {**ways, "disaggregated": {}}, tuple(notes)
    replicas = simulation_of(base).replicas
    apart = _why_not_apart(base, replicas)
    if apart:
        return ways, (*notes, apart)
    layout = base.get("layout") or {}
    step = max(1, -(-(replicas - 1) // MAX_SPLITS))
    for prefill in range(1, replicas, step):
        ways[f"disaggregated {prefill}+{replicas - prefill}"] = {
            "disaggregation": {
                "prefill_workers": prefill,
                "prefill": layout,
                "decode_workers": replicas - prefill,
                "decode": layout,
            }
        }
    return ways, (*notes, "disaggregated P+D: P workers for prompts, D for answers")


def _why_not_apart(base: Mapping[str, Any], replicas: int) -> str:
    """Why prompts apart from answers are not among the ways; empty = they are."""
    traffic = base.get("traffic")
    if base.get("scaling") is not None:
        return "prompts apart from answers are not compared: pools apart do not scale here"
    if isinstance(traffic, Mapping) and "concurrency" in traffic:
        return "prompts apart from answers are not compared: they need a rate, and clients set their own"
    if replicas < 2:
        return "prompts apart from answers are not compared: they need two replicas' accelerators (replicas: 2)"
    return ""


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
    lead = _best_side(found, counts)
    figures = [tuple(figures_of(one, count)) for one, count in zip(found, counts, strict=True)]
    shared = tuple(note for note in found[0].assumed if all(note in one.assumed for one in found))
    return Comparison(
        schema=COMPARE_SCHEMA,
        sentence=_sentence(names, found, counts, lead),
        kind="simulate",
        sides=names,
        figures=compare_figures(figures),
        best=None if lead is None else names[lead],
        fits=any(one.fits for one in found),
        partial=any(one.partial for one in found),
        simulations=tuple(found),
        calibrations=each_once(use for one in found for use in one.calibrations),
        assumed=(*asked.notes, *shared, *([found[0].licence] if found[0].licence else [])),
    )


def compare_figures(sides: list[tuple[Figure, ...]]) -> tuple[Compared, ...]:
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
    """Place of the best value; None where neither way is better, fewer than two are numbers, or all are alike."""
    numbers = [(value, i) for i, value in enumerate(values) if isinstance(value, float | int)]
    if more_is_worse is None or len(numbers) < 2 or len({value for value, _ in numbers}) == 1:
        return None
    return (min if more_is_worse else max)(numbers)[1]


def figures_of(found: Simulated, accelerators: int) -> Iterator[Figure]:
    """What is compared of a simulation, in the order it is told: rates are of all its accelerators."""
    yield "runs", "", "yes" if found.fits else "no", None
    yield "accelerators", "count", float(accelerators), True
    if found.slo_met is not None:
        yield "objectives", "", "met" if found.slo_met else "missed", None
        yield "goodput", "1/s", found.goodput_per_s, False
        yield "goodput of an accelerator", "1/s", _per_accelerator(found.goodput_per_s, accelerators), False
    for metric in OBJECTIVES:
        latency = getattr(found, metric.name)
        for share in ("p50", "p95", "p99"):
            seen = None if latency is None else getattr(latency, share)
            yield f"{share} {metric.title.lower()}", metric.unit, seen, metric.less_is_better
    yield "p99 ITL", "s", None if found.itl_s is None else found.itl_s.p99, True
    yield "requests answered", "1/s", found.requests_per_s, False
    yield "output tokens", "1/s", found.output_tokens_per_s, False
    yield "running together", "count", _mean_running(found), None
    yield "preemptions", "count", float(found.preemptions), True
    if found.refused:
        yield "refused", "count", float(found.refused), True


def _per_accelerator(value: float | None, accelerators: int) -> float | None:
    return None if value is None else value / accelerators


def _mean_running(found: Simulated) -> float | None:
    """Requests in flight on average; None without a timeline."""
    seen = found.occupancy
    return None if seen is None or not seen.running else sum(seen.running) / len(seen.running)


def _accelerators(way: Simulation) -> int:
    """Accelerators of all replicas, or of both pools."""
    split = way.disaggregation
    if split is None:
        return way.layout.ranks * way.replicas
    return sum(split.ranks)


def _best_side(found: list[Simulated], counts: list[int]) -> int | None:
    """
    The side with most answers within the objectives by an accelerator, of those that are alike the shortest answers at
    p95; without objectives those alone. None where fewer than two answer anything.
    """
    able = [i for i, one in enumerate(found) if one.e2e_s is not None]
    if len(able) < 2:
        return None
    slowest = [_p95(one) for one in found]
    goodput = [_per_accelerator(one.goodput_per_s, count) for one, count in zip(found, counts, strict=True)]
    most = max((value for value in goodput if value is not None), default=None)
    if most is not None and most > 0:
        able = [i for i in able if (goodput[i] or 0.0) >= (1.0 - ALIKE) * most]
    return min(able, key=lambda i: slowest[i])


def _p95(found: Simulated) -> float:
    """End-to-end latency at p95, the mean where only that is known; infinite where nothing was answered. [s]"""
    if found.e2e_s is None:
        return math.inf
    return found.e2e_s.mean if found.e2e_s.p95 is None else found.e2e_s.p95


def _sentence(names: tuple[str, ...], found: list[Simulated], counts: list[int], lead: int | None) -> str:
    """The best side with its goodput and latencies against the others'; why, where one side alone or none runs."""
    end = " (broken off: partial)" if any(one.partial for one in found) else ""
    if lead is None:
        able = [name for name, one in zip(names, found, strict=True) if one.e2e_s is not None]
        return f"Only {able[0]} runs{end}." if able else f"None of them runs: {found[0].why}{end}."
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
