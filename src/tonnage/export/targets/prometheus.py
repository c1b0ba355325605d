"""
Alert rules of a plan for Prometheus: its own objectives, its load, its cache and its replicas.

Latency objectives page; what the plan no longer covers (more load than planned, latencies beyond the prediction's
interval, a service that stands idle) warns, for then a plan is made again. Templates of annotations hold our own words
and the job's label alone: Prometheus would run what a name from a plan file holds in braces.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import Deployment, Fields, Files, Target
from tonnage.export.observe import Signal, Watched, watched
from tonnage.units import show

TARGET = Target(
    name="prometheus",
    title="Prometheus alert rules",
    version="2.42 and later",
    files=("tonnage.rules.yaml",),
    start="promtool check rules tonnage.rules.yaml; name it under rule_files of prometheus.yml",
)
"""Source: prometheus.io/docs/prometheus/latest/configuration/alerting_rules, read 2026-11-23."""
IDLE: Final = 0.5
"""Of the planned peak: a service that stays below for a day was made for other traffic. [-]"""
FULL: Final = 0.95
"""Of the cache: beyond, requests are put back and computed again. [-]"""
Rule = Fields


def export(d: Deployment) -> Files:
    """`tonnage.rules.yaml`."""
    seen = watched(d)
    rules = [*_objectives(seen), *_load(seen), *_state(seen)]
    lines = [
        *seen.deployment.lines,
        f'Scrape the servers under job_name "{seen.job}": every rule looks for that job.',
        *([f"Its page: {seen.turned_on}."] if seen.turned_on else []),
        *(f"{name}: {seen.engine} states none; measure it from outside." for name in seen.unwatched),
    ]
    groups = [{"name": f"tonnage-{seen.job}", "interval": "30s", "rules": rules}]
    return {"tonnage.rules.yaml": TARGET.yaml(lines, {"groups": groups})}


def _objectives(seen: Watched) -> list[Rule]:
    """For each latency a critical rule at its objective, and a warning at the end of its prediction."""
    rules: list[Rule] = []
    for signal in seen.signals:
        if signal.unit != "s":
            continue
        if signal.limit is not None:
            rules.append(
                _rule(
                    seen,
                    f"{signal.name}OverObjective",
                    f"{signal.expression} > {signal.limit:g}",
                    "5m",
                    "critical",
                    f"{signal.title} is over the objective of {show(signal.limit, 's')}",
                    "{{ $value | humanizeDuration }}",
                )
            )
        if signal.warns_at is not None:
            rules.append(
                _rule(
                    seen,
                    f"{signal.name}BeyondPrediction",
                    f"{signal.expression} > {signal.warns_at:g}",
                    "30m",
                    "warning",
                    f"{signal.title} is beyond the plan's 90 % interval, which ends at {show(signal.warns_at, 's')}; "
                    "measure the server and plan again",
                    "{{ $value | humanizeDuration }}",
                )
            )
    return rules


def _load(seen: Watched) -> list[Rule]:
    """Rules of load: over capacity, over the planned peak for an hour, and under half of it for a day."""
    load = seen.signal("load")
    if load is None:
        return []
    rules = []
    if load.limit is not None and load.limit > 0.0:
        told = f"more {load.title} than all replicas take within the objectives, {load.limit:,.4g}"
        rules.append(_above(seen, "LoadOverCapacity", load, load.limit, "5m", "critical", told))
    if load.planned is not None and load.planned > 0.0:
        told = f"more {load.title} than the planned peak of {load.planned:,.4g}; plan again"
        rules.append(_above(seen, "LoadOverPlan", load, load.planned, "1h", "warning", told))
        quiet = f"max_over_time({load.expression}[1d:5m]) < {IDLE * load.planned:g}"
        told = f"not half of the planned peak of {load.planned:,.4g} {load.title} in a day; tonnage advise"
        rules.append(_rule(seen, "FleetTooLarge", quiet, "1d", "info", told, "{{ $value | humanize }}"))
    return rules


def _state(seen: Watched) -> list[Rule]:
    """Rules of the queue, the cache and the replicas, as far as the engine's page states them."""
    rules = []
    waiting, running, cache = (seen.signal(name) for name in ("waiting", "running", "KV cache"))
    if waiting is not None and running is not None:
        queue = f"{waiting.expression} > {running.expression}"
        told = "more requests wait than run; the batch limit or the cache is too small, or replicas are missing"
        rules.append(_rule(seen, "QueueLongerThanBatch", queue, "10m", "warning", told, "{{ $value | humanize }}"))
    if cache is not None:
        told = "the KV cache is full; requests are put back and computed again"
        rules.append(_above(seen, "CacheFull", cache, FULL, "10m", "warning", told))
    replicas = seen.signal("replicas")
    if replicas is not None and replicas.planned is not None:
        fewer = f"{replicas.expression} < {replicas.planned:g}"
        told = f"fewer replicas answer than the {replicas.planned:g} of the plan"
        rules.append(_rule(seen, "ReplicasMissing", fewer, "5m", "critical", told, "{{ $value | humanize }}"))
    return rules


def _above(seen: Watched, name: str, signal: Signal, limit: float, lasting: str, severity: str, told: str) -> Rule:
    return _rule(seen, name, f"{signal.expression} > {limit:g}", lasting, severity, told, "{{ $value | humanize }}")


def _rule(seen: Watched, name: str, expression: str, lasting: str, severity: str, told: str, value: str) -> Rule:
    return {
        "alert": f"Tonnage{name}",
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity, "plan": seen.job},
        "annotations": {"summary": f"{seen.job}: {told}", "description": f"now {value}"},
    }
