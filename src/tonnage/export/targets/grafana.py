"""
A Grafana dashboard of a plan: each latency beside its objective and the plan's own prediction, load beside capacity.

The data source is a variable of the dashboard, chosen where it is imported. Grafana replaces $name and {{name}} in
titles and legends, so that these hold our own words and the job's label alone.
"""

from __future__ import annotations

from typing import Final

from tonnage.export.kit import Deployment, Fields, Target, json_text
from tonnage.export.observe import Signal, Watched, watched
from tonnage.version import __version__

TARGET = Target(
    title="Grafana dashboard",
    version="10.1 and later",
    files=("dashboard.json",),
    start="import dashboard.json (Dashboards, New, Import), or put it into a provisioned folder",
    anywhere=True,
)
"""Source: grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model, read 2026-11-23."""
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION: Final = 39
"""Of dashboards written by Grafana 10.1 to 11; later ones migrate it."""
WIDTH: Final = 12
HEIGHT: Final = 8


def export(d: Deployment) -> str:
    """`dashboard.json`."""
    seen = watched(d)
    panels = [_panel(signal, place) for place, signal in enumerate(seen.signals)]
    dashboard: Fields = {
        "title": f"Tonnage: {seen.job}",
        "uid": f"tonnage-{seen.job}"[:40],
        "description": _about(seen),
        "tags": ["tonnage", "inference"],
        "editable": True,
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus"}]
        },
        "panels": panels,
    }
    return json_text(dashboard)


def _about(seen: Watched) -> str:
    missing = f" {seen.engine} states no {', '.join(seen.unwatched)}." if seen.unwatched else ""
    return (
        f"Written by Tonnage {__version__} for {TARGET.title} {TARGET.version}. Objectives are red, the plan's own "
        f'predictions dashed. Servers are those of the scrape job "{seen.job}", {seen.engine}.{missing}'
    )


def _panel(signal: Signal, place: int) -> Fields:
    """One signal as a panel, `place` counted from 0 in rows of two: planned value dashed, yellow and red lines."""
    targets = [_target("A", signal.expression, "now")]
    if signal.planned is not None:
        targets.append(_target("B", f"vector({signal.planned:g})", "planned"))
    colors = {"yellow": signal.warns_at, "red": signal.limit}
    steps: list[Fields] = [{"color": "green", "value": None}]
    steps += [{"color": color, "value": value} for color, value in colors.items() if value is not None]
    dashed = {
        "matcher": {"id": "byName", "options": "planned"},
        "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}}],
    }
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": signal.title,
        "datasource": SOURCE,
        "gridPos": {"x": WIDTH * (place % 2), "y": HEIGHT * (place // 2), "w": WIDTH, "h": HEIGHT},
        "targets": targets,
        "fieldConfig": {
            "defaults": {
                "unit": signal.unit,
                "min": 0,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {"thresholdsStyle": {"mode": "line" if len(steps) > 1 else "off"}},
            },
            "overrides": [dashed] if signal.planned is not None else [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _target(name: str, expression: str, legend: str) -> Fields:
    return {"refId": name, "expr": expression, "legendFormat": legend, "datasource": SOURCE}
