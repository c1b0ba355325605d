"""
Alert rules of a plan for Prometheus: its own objectives, its load, its cache and its replicas.

Latency objectives page; what the plan no longer covers (more load than planned, latencies beyond the prediction's
interval, a service that stands idle) warns, for then a plan is made again. Templates of annotations hold our own words
and the job's label alone: Prometheus would run what a name from a plan file holds in braces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.export.kit import Deployment, Fields, Target
from tonnage.export.observe import Signal, Watched, watched
from tonnage.units import show

TARGET = Target(
    title="Prometheus alert rules",
    version="2.42 and later",
    files=("tonnage.rules.yaml",),
    start="promtool check rules tonnage.rules.yaml; name it under rule_files of prometheus.yml",
    anywhere=True,
)
"""Source: prometheus.io/docs/prometheus/latest/configuration/alerting_rules, read 2026-11-23."""
IDLE: Final = 0.5
"""Of the planned peak: a service that stays below for a day was made for other traffic. [-]"""
FULL: Final = 0.95
"""Of the cache: beyond, requests are put back and computed again. [-]"""
Rule = tuple[str, str, str, str, str]
"""Name, what holds when it fires, for how long, severity, and what is told."""


def export(d: Deployment) -> str:
    """`tonnage.rules.yaml`."""
    seen = watched(d)
    rules = [_alert(seen, rule, "humanizeDuration") for rule in _objectives(seen)]
    rules += [_alert(seen, rule, "humanize") for rule in (*_load(seen), *_state(seen))]
    lines = [
        *d.lines,
        f'Scrape the servers under job_name "{seen.job}": every rule looks for that job.',
        *([f"Its page: {seen.turned_on}."] if seen.turned_on else []),
        *(f"{name}: {seen.engine} states none; measure it from outside." for name in seen.unwatched),
    ]
    groups = [{"name": f"tonnage-{seen.job}", "interval": "30s", "rules": rules}]
    return TARGET.yaml(lines, {"groups": groups})


def _alert(seen: Watched, rule: Rule, shown: str) -> Fields:
    """One rule as Prometheus reads it; `shown` is the function of its templates that writes the value."""
    name, expression, lasting, severity, told = rule
    return {
        "alert": f"Tonnage{name}",
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity, "plan": seen.job},
        "annotations": {"summary": f"{seen.job}: {told}", "description": f"now {{{{ $value | {shown} }}}}"},
    }


def _objectives(seen: Watched) -> Iterator[Rule]:
    """For each latency a critical rule at its objective, and a warning at the end of its prediction."""
    for signal in (signal for signal in seen.signals if signal.unit == "s"):
        if signal.limit is not None:
            told = f"{signal.title} is over the objective of {show(signal.limit, 's')}"
            yield f"{signal.name}OverObjective", _above(signal, signal.limit), "5m", "critical", told
        if signal.warns_at is not None:
            told = (
                f"{signal.title} is beyond the plan's 90 % interval, which ends at {show(signal.warns_at, 's')}; "
                "measure the server and plan again"
            )
            yield f"{signal.name}BeyondPrediction", _above(signal, signal.warns_at), "30m", "warning", told


def _load(seen: Watched) -> Iterator[Rule]:
    """Rules of load: over capacity, over the planned peak for an hour, and under half of it for a day."""
    load = seen.signal("load")
    if load is None:
        return
    if load.limit:
        told = f"more {load.title} than all replicas take within the objectives, {load.limit:,.4g}"
        yield "LoadOverCapacity", _above(load, load.limit), "5m", "critical", told
    if load.planned:
        told = f"more {load.title} than the planned peak of {load.planned:,.4g}; plan again"
        yield "LoadOverPlan", _above(load, load.planned), "1h", "warning", told
        quiet = f"max_over_time({load.expression}[1d:5m]) < {IDLE * load.planned:g}"
        told = f"not half of the planned peak of {load.planned:,.4g} {load.title} in a day; tonnage advise"
        yield "FleetTooLarge", quiet, "1d", "info", told


def _state(seen: Watched) -> Iterator[Rule]:
    """Rules of the queue, the cache and the replicas, as far as the engine's page states them."""
    waiting, running, cache, replicas = map(seen.signal, ("waiting", "running", "KV cache", "replicas"))
    if waiting and running:
        told = "more requests wait than run; the batch limit or the cache is too small, or replicas are missing"
        yield "QueueLongerThanBatch", f"{waiting.expression} > {running.expression}", "10m", "warning", told
    if cache:
        told = "the KV cache is full; requests are put back and computed again"
        yield "CacheFull", _above(cache, FULL), "10m", "warning", told
    if replicas:
        told = f"fewer replicas answer than the {replicas.planned:g} of the plan"
        yield "ReplicasMissing", f"{replicas.expression} < {replicas.planned:g}", "5m", "critical", told


def _above(signal: Signal, limit: float) -> str:
    return f"{signal.expression} > {limit:g}"
