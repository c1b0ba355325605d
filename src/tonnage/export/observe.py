"""
What to watch of a plan that runs: objectives, load and cache as PromQL over the engine's own metrics page.

A plan says which TTFT it promised at which percentile, how many requests a second it was made for, how many it takes
and on how many replicas. Each becomes a `Signal`: an expression over names that the engine documents (`metrics.toml` in
`engines/data`), the planned value and the limit. Series renamed between releases are joined by `or`. Servers
are found by the scrape job alone, so that no name of a plan file enters an expression; what an engine does not state is
named in `unwatched` instead of guessed.
"""

from __future__ import annotations

from tonnage.domain.answer import Quantity
from tonnage.domain.engine_spec import Series, ServerMetrics
from tonnage.domain.metrics import OBJECTIVES
from tonnage.domain.plan import ServeOption, ServePlan
from tonnage.engines.registry import engine_spec, metrics_of
from tonnage.errors import BadRequest
from tonnage.export.deployment import Deployment
from tonnage.record import Record


class Signal(Record, kw_only=True):
    """One number of a running service beside its plan."""

    name: str
    """TTFT, TPOT, E2E, load, running, waiting, KV cache, preemptions, replicas."""
    title: str
    expression: str
    unit: str
    """As Grafana spells it: s, reqps, short, percentunit."""
    planned: float | None = None
    """Predicted at the planned load."""
    high: float | None = None
    """End of the prediction's 90 % interval."""
    limit: float | None = None
    """Objective, or most that the plan takes."""

    @property
    def warns_at(self) -> float | None:
        """The end of the prediction, where the objective allows more."""
        return None if self.high is None or (self.limit is not None and self.high >= self.limit) else self.high


class Watched(Record, kw_only=True):
    """A plan as its monitoring reads it."""

    job: str
    """Scrape job: letters, digits and dashes."""
    engine: str
    """Its title."""
    turned_on: str
    """What it takes to have the page; empty = it is there."""
    signals: tuple[Signal, ...]
    unwatched: tuple[str, ...]
    """Objectives that the engine's page does not state."""

    def signal(self, name: str) -> Signal | None:
        """The signal of that name; absent = the engine does not state it, or the plan has no such number."""
        return next((one for one in self.signals if one.name == name), None)


def watched(d: Deployment) -> Watched:
    """
    A served option as signals.

    Raises
    ------
    BadRequest
        Nobody documented a metrics page of its engine.
    """
    plan, option, job, page = d.plan, d.option, d.name, metrics_of(d.engine.name)
    assert isinstance(plan, ServePlan) and isinstance(option, ServeOption)
    title = engine_spec(d.engine.name).title
    if page is None:
        raise BadRequest(f"{title} has no documented metrics page; its latencies can be measured from outside")
    latencies, unwatched = _latencies(plan, option, page, job)
    replicas = Signal(
        name="replicas",
        title="replicas that answer",
        expression=f'(sum(up{{job="{job}"}}) or vector(0))',
        unit="short",
        planned=float(option.replicas),
    )
    return Watched(
        job=job,
        engine=title,
        turned_on=page.turned_on,
        signals=(*latencies, *_load(plan, option, page, job), *_state(page, job), replicas),
        unwatched=tuple(unwatched),
    )


def _latencies(plan: ServePlan, option: ServeOption, page: ServerMetrics, job: str) -> tuple[list[Signal], list[str]]:
    """
    Signals of the latencies that the engine's page states, and objectives of those that it does not.

    Predictions stand beside percentiles alone: a page that gives means is not compared with them.
    """
    slo, found, unwatched = plan.request.slo, list[Signal](), list[str]()
    for metric in OBJECTIVES:
        limit: float | None = getattr(slo, metric.name)
        predicted: Quantity | None = getattr(option.capacity, metric.name, None)
        expression, how = _latency(page, metric.name, job, percentile=slo.percentile)
        if how == "mean":
            predicted = None
        if expression:
            found.append(
                Signal(
                    name=metric.title,
                    title=f"{metric.title} {how}",
                    expression=expression,
                    unit="s",
                    planned=predicted.value if predicted else None,
                    high=predicted.high if predicted else None,
                    limit=limit,
                )
            )
        elif limit is not None:
            unwatched.append(metric.title)
    return found, unwatched


def _latency(page: ServerMetrics, key: str, job: str, *, percentile: float) -> tuple[str, str]:
    """Expression of a latency, and what it is of its requests: "p95", or "mean" where a page has totals alone."""
    series = page.series.get(key)
    if series is not None and series.kind == "histogram":
        parts = (
            f"histogram_quantile({percentile / 100:g}, sum by (le) (rate({name}_bucket{_where(series, job)}[5m])))"
            for name in series.names
        )
        # Without parentheses a comparison would hold for the last of the alternatives alone.
        return f"({' or '.join(parts)})", f"p{percentile:g}"
    seconds, tokens = page.series.get("decode_total_s"), page.series.get("output_tokens")
    if key == "tpot_s" and seconds is not None and tokens is not None:
        return f"({_level(seconds, job)} / {_level(tokens, job)})", "mean"
    return "", ""


def _load(plan: ServePlan, option: ServeOption, page: ServerMetrics, job: str) -> list[Signal]:
    """
    Requests a second of all replicas; by output tokens where the page does not count requests, none where neither.

    Planned is the peak, and the limit is what all replicas take.
    """
    request = plan.request
    counted = (
        ("requests", "requests/s", "reqps", 1.0),
        ("output_tokens", "output tokens/s", "short", request.lengths.output_tokens),
    )
    for key, title, unit, each in counted:
        if (series := page.series.get(key)) is not None:
            rate, most = request.rate_per_s, option.replicas * option.capacity.max_rate_per_s.value
            peak = None if rate is None else rate * request.shape.peak_to_mean * each
            expression = _level(series, job)
            return [Signal(name="load", title=title, expression=expression, unit=unit, planned=peak, limit=most * each)]
    return []


def _state(page: ServerMetrics, job: str) -> list[Signal]:
    """Signals of the batch and the cache that the engine's page states, without planned values."""
    known = (
        ("running", "requests running", "running", "short"),
        ("waiting", "requests waiting", "waiting", "short"),
        ("KV cache", "KV cache in use, fullest replica", "kv_used", "percentunit"),
        ("preemptions", "preemptions/s", "preemptions", "short"),
    )
    return [
        Signal(name=name, title=title, expression=_level(page.series[key], job), unit=unit)
        for name, title, key, unit in known
        if key in page.series
    ]


def _level(series: Series, job: str) -> str:
    """Of all servers: what a counter grows by in a second, the sum or the largest of a gauge."""
    how = "sum(rate({}[5m]))" if series.kind == "counter" else "sum({})" if series.over == "sum" else "max({})"
    expression = " or ".join(how.format(name + _where(series, job)) for name in series.names)
    return f"({expression})" if series.scale == 1.0 else f"(({expression}) * {series.scale:g})"


def _where(series: Series, job: str) -> str:
    """Names of labels and their values are the engines' tables', the job is letters, digits and dashes."""
    return "{" + ", ".join(f'{label}="{value}"' for label, value in (("job", job), *series.where)) + "}"
