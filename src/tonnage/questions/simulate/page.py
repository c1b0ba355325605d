"""
A simulation, or several answers side by side, as documents and pictures: percentiles against objectives, rates, times.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from tonnage.catalog import model_name, product
from tonnage.domain.answer import doubt
from tonnage.domain.case import Latency
from tonnage.domain.metrics import LATENCIES, METRICS, OBJECTIVES, objectives_text
from tonnage.domain.simulate import FleetSeen, Occupancy, Simulated, Simulation
from tonnage.engines.registry import engine_release
from tonnage.questions.compare.answer import Compared, Comparison
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, log_axis, names, records
from tonnage.report.document import Column, Document, Meter, Note, Table, Text, grid, sections
from tonnage.report.screen import first_screen
from tonnage.report.wording import figure_name, span
from tonnage.units import percent, show

BARS: Final = " ▁▂▃▄▅▆▇█"
WIDTH: Final = 60
"""Characters of a line over time."""
BEST: Final = "*"
WIDE: Final = 5
"""Sides beyond which a row is a side, so that the table stays as wide as a terminal."""
FIRST_ROWS: Final = 12
TELLING: Final = ("goodput", "p95 ttft", "p95 tpot", "p95 e2e", "output tokens", "accelerators", "cost", "ttft", "tpot",
                  "step", "fits")  # fmt: skip
"""Figures of many sides; all of them are in the JSON."""


def simulation_document(found: Simulated) -> Document:
    """A simulation as blocks."""
    good = found.slo_met is not False and found.fits
    if found.ttft_s is None:
        first = first_screen(question=[], answer=found.sentence, good=good, rest=Note(hint="Assumptions: --why."))
        return Document(first, sections({"Assumptions": found.assumed}))
    risks = [found.why] if found.why and not good else []
    if found.capacity is not None:
        c = found.capacity
        risks.append(
            f"One replica sustains {show(c.low_per_s, 'count')} req/s within the objectives; first tokens queue beyond "
            f"{show(c.knee_per_s, 'count')} req/s."
        )
    first = first_screen(
        question=[],
        answer=found.sentence,
        good=good,
        meters=_meters(found),
        table=_latencies(found),
        risks=risks,
        rest=Note(hint="Rates, use over time, assumptions: --why; a row for each request: --requests FILE."),
    )
    why = sections(
        {
            "Rates": _rates(found),
            "Replicas": _fleet(found.fleet) if found.fleet is not None else None,
            "Over time": _over_time(found.occupancy) if found.occupancy else None,
            "Capacity of one replica within the objectives": _capacity(found),
            "Assumptions": [*found.assumed, *([found.licence] if found.licence else [])],
        }
    )
    return Document(first, why)


def simulation_question(asked: Simulation) -> list[str]:
    """What is simulated, in parts of a line: model, accelerators, engine, traffic, objectives."""
    name = asked.model if isinstance(asked.model, str) else str(dict(asked.model).get("id", "a model of your own"))
    traffic, layout = asked.traffic, asked.layout
    count = layout.ranks * asked.replicas
    load = f"{traffic.concurrency} clients" if traffic.concurrency is not None else ""
    load = f"{show(traffic.rate_per_s, 'count')} req/s" if traffic.rate_per_s is not None else load
    shape = traffic.profile or (traffic.trace and "a request log") or ""
    if traffic.prompt_tokens is not None and traffic.output_tokens is not None:
        shape = f"{traffic.prompt_tokens:,.0f} in / {traffic.output_tokens:,.0f} out"
    goal = (objectives_text(asked.slo) if asked.slo is not None else "") or "no objectives"
    pools = asked.disaggregation
    split = f"{count} x" if pools is None else f"{pools.prefill_workers}P{pools.decode_workers}D on"
    machine = f"{split} {product(asked.accelerator)}"
    return [model_name(name), machine, engine_release(asked.engine), shape, load, goal]


def _meters(found: Simulated) -> list[Meter]:
    """Rates of all replicas, the share that met the objectives, power and cache."""
    meters = [Meter("requests", f"{show(found.requests_per_s or 0.0, 'count')} req/s")]
    if found.goodput_per_s is not None and found.requests_per_s:
        met = found.goodput_per_s / found.requests_per_s
        meters.append(
            Meter("serving goodput", f"{show(found.goodput_per_s, 'count')} req/s ({percent(met)} of requests)")
        )
    meters.append(Meter("output", f"{_three(found.output_tokens_per_s or 0.0)} tokens/s"))
    if found.board_w is not None:
        meters.append(Meter("power each", show(found.board_w.value, "W")))
    if found.occupancy is not None:
        shares = found.occupancy.cache_share
        meters.append(Meter("KV cache", f"{percent(sum(shares) / len(shares))} used, at most {percent(max(shares))}"))
    return meters


def _three(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"


def _latencies(found: Simulated) -> Table:
    heads = ("", "mean>3", "p50>2", "p90>4", "p95>", "p99>1", "mean, 90 % interval>")
    rows = [(metric.words.lower(), getattr(found, metric.name)) for metric in LATENCIES]
    rows.insert(1, ("  queueing delay", found.queue_s))
    return grid(heads, [(name, *_cells(latency)) for name, latency in rows if latency is not None])


def _cells(latency: Latency) -> list[str]:
    values = (latency.mean, latency.p50, latency.p90, latency.p95, latency.p99)
    cells = ["" if value is None else show(value, "s") for value in values]
    if latency.low is None or latency.high is None:
        return [*cells, ""]
    return [*cells, span(latency.low, latency.high, unit="s") + doubt(latency.certified)]


def _rates(found: Simulated) -> list[str]:
    """What was answered, found again, preempted and refused, in lines."""
    said = [
        f"{found.requests:,} requests in {show(found.span_s or 0.0, 's')}: "
        f"{show(found.requests_per_s or 0.0, 'count')}/s, {found.output_tokens_per_s:,.0f} output tokens/s"
    ]
    if found.goodput_per_s is not None:
        said.append(f"{show(found.goodput_per_s, 'count')}/s met every objective at once")
    if found.cached_share:
        said.append(f"{percent(found.cached_share, 1)} of prompt tokens were in the cache")
    if found.preemptions:
        said.append(f"{found.preemptions:,} preemptions: what had been computed was computed again")
    if found.refused:
        said.append(f"{found.refused:,} requests refused: longer than the cache")
    return said


def _capacity(found: Simulated) -> list[str]:
    c = found.capacity
    if c is None:
        return []
    return [
        f"{show(c.low_per_s, 'count')}/s to plan with; {show(c.rate_per_s, 'count')}/s found, "
        f"at most {show(c.high_per_s, 'count')}/s",
        c.why,
        f"first tokens begin to queue beyond {show(c.knee_per_s, 'count')}/s; {c.simulations} simulations",
    ]


def _fleet(fleet: FleetSeen) -> list[str]:
    said = [
        f"{fleet.mean_replicas:.3g} of {fleet.replicas} on, on average: {fleet.paid_replica_hours:,.1f} replica-hours,"
        f" {percent(fleet.wasted_share)} less than all of them all the time"
    ]
    if fleet.cold_hits:
        said.append(
            f"{fleet.cold_hits:,} requests ({percent(fleet.cold_share, 2)}) found none ready and waited for a start"
        )
    return said


def _over_time(seen: Occupancy) -> list[str]:
    """Each column of the timeline as a line of bars, with its mean and most."""
    rows = (
        ("running", seen.running, "{:,.0f}".format), ("waiting", seen.waiting, "{:,.0f}".format),
        ("cache", seen.cache_share, percent), ("tokens/s", seen.output_tokens_per_s, "{:,.0f}".format),
    )  # fmt: skip
    return [
        f"{name:<9}{_line(values)}  mean {form(sum(values) / len(values))}, most {form(max(values))}"
        for name, values, form in rows
    ]


def _line(values: tuple[float, ...]) -> str:
    """A line of bars, the highest of each stretch."""
    top = max(values) or 1.0
    size = min(WIDTH, len(values))
    edges = [round(i * len(values) / size) for i in range(size + 1)]
    highest = [max(values[a:b]) for a, b in pairwise(edges)]
    return "".join(BARS[min(len(BARS) - 1, round(value / top * (len(BARS) - 1)))] for value in highest)


# Several answers side by side


def comparison_document(found: Comparison) -> Document:
    """Several answers side by side as blocks: one row a figure, the best of each marked."""
    wide = len(found.sides) > WIDE
    whole = _by_side(found) if wide else _by_figure(found, found.figures)
    telling = [row for row in found.figures if row.what in TELLING] or list(found.figures)
    short = whole if wide else _by_figure(found, tuple(telling[:FIRST_ROWS]))
    first = first_screen(
        question=[],
        answer=found.sentence,
        good=found.fits,
        table=short,
        risks=[Text(f"{text[:1].upper()}{text[1:]}.", kind="fact") for text in found.assumed[:1]],
        rest=Note(f"{BEST} best of its kind.", hint=f"All {len(found.figures)} figures, assumptions: --why."),
    )
    why = sections({"Every figure": (whole, Note(f"{BEST} best of its kind")), "Assumptions": found.assumed})
    return Document(first, why)


def _by_figure(found: Comparison, figures: tuple[Compared, ...]) -> Table:
    """A row for each figure."""
    columns = (Column(""), *(Column(side, number=True, wraps=True) for side in found.sides))
    return grid(
        columns, [(figure_name(row.what), *(_cell(row, i) for i in range(len(found.sides)))) for row in figures]
    )


def _by_side(found: Comparison) -> Table:
    """A row for each side, with the figures that say most."""
    rows = [row for row in found.figures if row.what in TELLING]
    columns = (Column("", wraps=True), *(Column(figure_name(row.what), number=True, wraps=True) for row in rows))
    return grid(columns, [(side, *(_cell(row, i) for row in rows)) for i, side in enumerate(found.sides)])


def _cell(row: Compared, place: int) -> str:
    value = row.values[place]
    if value is None:
        return ""
    text = value if isinstance(value, str) else _show_rate(value, row.unit)
    return f"{text} {BEST}" if row.best == place else text


def _show_rate(value: float, unit: str) -> str:
    """A rate in one unit for every side, so that a row can be compared at a glance."""
    if unit == "1/s":
        return f"{value:,.0f}/s" if value >= 1000 else f"{value:.3g}/s"
    return show(value, unit) if unit else f"{value:,.3g}"


GREY: Final = "#7f7f7f"
"""Of marks that stand for no colour, on either ground."""
PERCENTILES: Final = ("p50", "p90", "p95", "p99")


def simulation_charts(found: Simulated) -> tuple[Chart | None, ...]:
    """Latencies and the timeline; none when nothing could run."""
    return _latency_chart(found), _occupancy_chart(found)


def _latency_chart(found: Simulated) -> Chart | None:
    """Percentiles of each latency; None where nothing was answered."""
    values = [
        (METRICS[name].title, percentile, seconds)
        for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s")
        if (latency := getattr(found, name)) is not None
        for percentile in PERCENTILES
        if (seconds := getattr(latency, percentile))
    ]
    if not values:
        return None
    body: dict[str, Any] = {
        "data": records(("latency", "percentile", "seconds"), values),
        "mark": {"type": "point", "filled": True, "size": 90, "tooltip": True},
        "encoding": {
            "y": names("latency"),
            "x": log_axis("seconds", "seconds (left is better)", over=[value[2] for value in values]),
            "color": colour("percentile"),
        },
    }
    return Chart(
        "latency",
        "Latency by percentile",
        "Percentiles of time to first token, per output token, of inter-token and end-to-end latency.",
        body=body,
        columns=("latency", "percentile", "value"),
        rows=tuple((name, percentile, show(seconds, "s")) for name, percentile, seconds in values),
        height=160,
    )


def _occupancy_chart(found: Simulated) -> Chart | None:
    """Requests running and waiting, and the share of the cache in use, over time; None without a timeline."""
    seen = found.occupancy
    if seen is None or len(seen.at_s) < 2:
        return None
    values = [
        (at, kind, number)
        for kind, column in (("running", seen.running), ("waiting", seen.waiting))
        for at, number in zip(seen.at_s, column, strict=True)
    ]
    cache = list(zip(seen.at_s, seen.cache_share, strict=True))
    x = axis("at", "seconds")
    body = layer_charts(
        records(("at", "kind", "requests"), values),
        {
            "mark": {"type": "line", "tooltip": True},
            "encoding": {
                "x": x,
                "y": axis("requests", "requests"),
                "color": colour("kind"),
            },
        },
        {
            "data": records(("at", "share"), cache),
            "mark": {"type": "area", "fillOpacity": 0.18, "line": {"strokeWidth": 1}, "tooltip": True},
            "encoding": {"x": x, "y": axis("share", "share of the cache in use", axis={"format": "%"})},
        },
    )
    step = max(1, len(seen.at_s) // 24)
    return Chart(
        "timeline",
        "What happened over time",
        "Requests running and waiting, and how full the cache was (shaded).",
        body={**body, "resolve": {"scale": {"y": "independent"}}},
        columns=("after", "running", "waiting", "cache in use"),
        rows=tuple(
            (show(at, "s"), f"{running:,.1f}", f"{waiting:,.1f}", percent(share))
            for at, running, waiting, share in list(
                zip(seen.at_s, seen.running, seen.waiting, seen.cache_share, strict=True)
            )[::step]
        ),
    )


COMPARED_AT: Final = ("p50", "p95", "p99")


def comparison_charts(found: Comparison) -> tuple[Chart, ...]:
    """Latencies by side; none where the sides have no percentiles."""
    figures = {row.what: row.values for row in found.figures}
    values = [
        (side, metric.title, percentile, seconds)
        for metric in OBJECTIVES
        for percentile in COMPARED_AT
        for side, seconds in zip(found.sides, figures.get(f"{percentile} {metric.title.lower()}", ()), strict=False)
        if isinstance(seconds, float) and seconds > 0
    ]
    if not values:
        return ()
    body: dict[str, Any] = {
        "data": records(("side", "latency", "percentile", "seconds"), values),
        "mark": {"type": "point", "filled": True, "size": 80, "tooltip": True},
        "encoding": {
            "y": names("side"),
            "x": log_axis("seconds", "seconds (left is better)", over=[value[3] for value in values]),
            "color": colour("latency"),
            "shape": {**colour("percentile"), "legend": {"symbolFillColor": GREY, "symbolStrokeColor": GREY}},
        },
    }
    chart = Chart(
        "comparison",
        "Latency of each way",
        "Percentiles of time to first token, per output token, and of the whole answer, for every side.",
        body=body,
        columns=("side", "latency", "percentile", "value"),
        rows=tuple((side, name, percentile, show(seconds, "s")) for side, name, percentile, seconds in values),
        height=60 + 40 * len(found.sides),
    )
    return (chart,)
