"""
A fleet plan as a document and as pictures: what to rent for all workloads; then instances, replicas, checks, others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.catalog import model_name, part_name, parts_name, provider_name, rejected_name, seller
from tonnage.domain.metrics import METRICS, OBJECTIVES, SPEEDS, Metric, objectives
from tonnage.engines.registry import engine_title
from tonnage.questions.fleet.answer import (
    FleetAlternative,
    FleetCheck,
    FleetPlan,
    FleetRun,
    FleetWorkload,
    HourRange,
    PoolInstances,
)
from tonnage.report.charts.chart import BELOW_NAME, Chart, axis, colour, named_rows, records, rows_px
from tonnage.report.document import (
    Block,
    Document,
    Headline,
    Meter,
    Table,
    Text,
    grid,
    sections,
)
from tonnage.report.page import WholePage, explained_whole
from tonnage.report.screen import ROWS, by_averages, dates_to, first_screen, left_out, no_plan, price_dates
from tonnage.report.wording import commitment_text, money, plural, shortages_text
from tonnage.units import percent, show, whole_percent

DAYS: Final = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su")
MOST_RANGES: Final = 7
HOURS_PER_MONTH: Final = 730.0
ROUNDING: Final = 1e-9
CENT: Final = 0.01
"""A difference of bills below which there is none. [USD]"""
PART: Final = 1e-6
"""From a whole count on, what is had for part of an hour only. [-]"""
LEFT_OUT: Final = 8
"""Accelerators left out that --why names."""


def _document(plan: FleetPlan, *, most: int | None) -> Document:
    """The plan as blocks; `most` kinds of instance in the table, None = as many as a first screen has."""
    if plan.bill is None:
        return Document(no_plan(plan, question=_question(plan), what="accelerators"), _why(plan))
    largest = sorted(plan.instances, key=lambda one: -one.usd_per_month)
    shown = largest[: most or ROWS]
    first = first_screen(
        question=_question(plan),
        answer=_recommendation(plan),
        meters=_meters(plan),
        table=_instances(shown, first=True),
        risks=_risks(plan, hidden=len(largest) - len(shown)),
        measure=plan.measure_first,
        rest=left_out(plan.rejected, what="accelerators", opened="; each line of the bill: tonnage explain"),
    )
    return Document(first, _why(plan))


def _question(plan: FleetPlan) -> list[str]:
    """The workloads, places, own machines and dates of prices, in parts of a line."""
    request = plan.request
    places = [*map(provider_name, request.filters.providers), *request.filters.regions]
    zones = f"{request.zones} zones" if request.zones > 1 else ""
    own = [f"own {parts_name(one.count, one.accelerator)}" for one in request.own]
    work = ", ".join(_workload(one) for one in request.workloads)
    return [
        f"{plural(len(request.workloads), 'workload')}: {work}",
        " ".join(places),
        zones,
        *own,
        price_dates(plan.provenance) or dates_to(one.as_of for one in plan.instances),
    ]


def _workload(one: FleetWorkload) -> str:
    asked = one.serve or one.infer or one.run
    model = f" ({model_name(asked.model)})" if asked is not None else ""
    return f"{one.name}{model}"


def _recommendation(plan: FleetPlan) -> Headline:
    """
    The most accelerators of each kind that stand at once, and the mean bill; no price where own machines alone do it.
    """
    assert plan.bill is not None
    most: dict[str, float] = {}
    for one in (one for one in plan.instances if not _cpu(one)):
        most[one.accelerator] = most.get(one.accelerator, 0.0) + plan.most_accelerators(one)
    kinds = ", ".join(parts_name(count, id) for id, count in most.items()) or "host cores"
    own = all(one.term == "own" for one in plan.instances)
    varies = any(len(one.hours) > 1 for one in plan.instances)
    lead = f"{'Up to ' if varies else ''}{kinds}"
    if own and not plan.bill.value:
        return Headline(lead, details=("no rent: own machines do",))
    hour = f"(${plan.bill.value / HOURS_PER_MONTH:,.2f}/h on average)"
    return Headline(lead, price=f"${plan.bill.value:,.0f}/month", price_note=hour)


def _cpu(one: PoolInstances) -> bool:
    return one.accelerator.startswith("cpu-")


def _sure(plan: FleetPlan, check: FleetCheck) -> str:
    """The chance of a workload's objectives in brackets, and the confidence asked for where it is below that."""
    if check.chance is None:
        return ""
    asked = next((w.confidence for w in plan.request.workloads if w.name == check.workload), 0.0)
    below = f", below the {whole_percent(asked)} asked for" if check.chance < asked - ROUNDING else ""
    return f" ({whole_percent(check.chance)}{below})"


def _surer(plan: FleetPlan) -> list[str]:
    """A line with the least confidence asked for, and what more of it costs; none where that was not looked for."""
    if plan.surer is None or plan.bill is None:
        return []
    # Work of host cores, which has no filters, has no confidence; a fleet of it alone has no `surer`.
    asked = {w.confidence for w in plan.request.workloads if w.filters is not None}
    stated = whole_percent(min(asked)) if len(asked) == 1 else f"{whole_percent(min(asked))} or more"
    more = f"{100 * plan.surer.more:.0f} points more"
    if plan.surer.usd_per_month is None:
        return [f"{stated} of each workload; no fleet has {more}"]
    extra = plan.surer.usd_per_month - plan.bill.value
    costs = "cost nothing more" if extra < CENT else f"cost {money(extra)} a month"
    bounds = "" if plan.surer.sought else ", by the bounds of both problems"
    return [f"{stated} of each workload; {more} {costs}{bounds}"]


def _meters(plan: FleetPlan) -> list[Meter]:
    """Each workload in its hardest hour as checked, runs of training, and how many failures hold."""
    meters = []
    normal = [check for check in plan.checks if not check.lost]
    for check in normal[:ROWS]:
        wanted = _limits(plan, check.workload)
        seen = ", ".join(
            f"{name} {show(value, 's')}" + (f" of {show(wanted[name], 's')}" if name in wanted else "")
            for name, value in _times(check)[:2]
        )
        at = f"p{check.percentile:g} " if check.requests else ""
        verdict = f"holds{_sure(plan, check)}" if check.meets else "MISSES"
        meters.append(Meter(f"{check.workload}:", f"{verdict}, {at}{seen}" if seen else verdict))
    meters += [Meter(f"{run.workload}:", _run_meter(run)) for run in plan.runs[: ROWS - len(meters)]]
    told = {one.workload for one in normal} | {run.workload for run in plan.runs}
    others = {one.workload: one for one in reversed(plan.replicas) if normal and one.workload not in told}
    for one in list(others.values())[: max(0, ROWS - len(meters))]:
        where = part_name(one.configuration.accelerator) if one.configuration else one.where
        when = _when(one.hours, what="replica", short=True)
        meters.append(Meter(f"{one.workload}:", f"replicas on {where}: {when}"))
    meters += [Meter("confidence asked for:", text) for text in _surer(plan)]
    lost = [check for check in plan.checks if check.lost]
    if lost:
        held = sum(check.meets for check in lost)
        meters.append(Meter("failures simulated:", f"{held} of {len(lost)} hold"))
    return meters


def _run_meter(run: FleetRun) -> str:
    """What a run takes of the hours that it has, and how surely."""
    where = "by itself" if run.passing else "on what stands"
    had = f"{show(run.wall_s.value, 's')} of {show(run.allowed_s, 's')} a run"
    return f"{run.accelerators} {where}, {had}, {whole_percent(run.chance)}"


def _run_text(run: FleetRun) -> str:
    where = "on hourly instances of its own" if run.passing else "on what others leave of the instances"
    low, high = (show(end, "s") if end is not None else "?" for end in (run.wall_s.low, run.wall_s.high))
    return (
        f"{run.workload}: {run.configuration.label(part_name, engine_title)} {where}; a run every "
        f"{show(run.every_s, 's')} takes {show(run.wall_s.value, 's')} ({low}-{high}) and has "
        f"{show(run.allowed_s, 's')}: chance {whole_percent(run.chance)}"
    )


def _times(check: FleetCheck, latencies: Sequence[Metric] = OBJECTIVES) -> list[tuple[str, float]]:
    """What was seen of each latency. [s]"""
    seen = ((metric.title, getattr(check, metric.name)) for metric in latencies)
    return [(title, value) for title, value in seen if value is not None]


def _limits(plan: FleetPlan, workload: str) -> dict[str, float]:
    """Objectives of a workload by name. [s]"""
    asked = next((one for one in plan.request.workloads if one.name == workload), None)
    if asked is None:
        return {}
    if asked.serve is not None:
        return {metric.title: limit for metric, limit in objectives(asked.serve.slo)}
    return (
        {} if asked.infer is None or asked.infer.latency_s is None else {METRICS["e2e_s"].title: asked.infer.latency_s}
    )


def _risks(plan: FleetPlan, *, hidden: int) -> list[str | Text]:
    """What binds, what else would do, and commitments; `hidden` = kinds of instance that the table leaves out."""
    cheaper = max(plan.binds, key=lambda one: one.saves_usd_per_month, default=None)
    other = next((one for one in plan.alternatives if one.more is not None and one.more > 0), None)
    held = max(
        (one for one in plan.instances if one.commitment is not None), key=lambda one: one.usd_per_month, default=None
    )
    return [
        *by_averages(plan),
        commitment_text(held.commitment) if held else "",
        f"Cheaper without the limit {cheaper.name}: {cheaper.relaxed} would save "
        f"{money(cheaper.saves_usd_per_month)} a month."
        if cheaper and cheaper.saves_usd_per_month > 0
        else "",
        f"Alternative: {_other(other)}." if other else "",
        f"{plural(hidden, 'more kind')} of instance in the bill: --all." if hidden > 0 else "",
    ]


# Why


def _why(plan: FleetPlan, *, left: int = LEFT_OUT) -> tuple[Block, ...]:
    """Sections of `--why`; of accelerators that were ruled out, the first `left`."""
    slices = any(one.slice for one in plan.replicas)
    saved = [
        f"{limit.name}: {limit.relaxed} would save {show(limit.saves_usd_per_month, 'USD')} a month"
        for limit in plan.binds
    ]
    looked = f"{plan.evaluated} configurations evaluated, {plan.simulated} simulated"
    return sections(
        {
            "Answer": plan.sentence,
            "Instances, by the hour": _instances(plan.instances),
            "Replicas on them": (
                _replicas(plan),
                "what slices take is computed by their share of the accelerator; no slice has been measured"
                if slices
                else None,
            ),
            "One month": _bill(plan),
            "Simulated in its hardest hour": [_check(check) for check in plan.checks],
            "Runs of training": [_run_text(run) for run in plan.runs],
            "Other fleets": [_other(one) for one in plan.alternatives],
            "What binds": saved,
            "Hosts too small for the accelerators": [
                f"{one.workload} on {one.where}: {text}" for one in plan.replicas if (text := shortages_text(one.needs))
            ],
            "Ruled out": [f"{rejected_name(one.what)}: {one.verdict.reason or 'no'}" for one in plan.rejected[:left]],
            "How sure": f"{looked}; at most {percent(plan.gap, 1)} cheaper by another choice of the same replicas"
            if plan.bill is not None
            else None,
            "Assumptions": plan.provenance.assumed,
        }
    )


def _opened(plan: FleetPlan, *, rank: int) -> Document:
    """The plan with every line of its bill and all that was left out, each with where it comes from."""
    why = _why(plan, left=len(plan.rejected))
    return explained_whole(plan, why, question=_question(plan), bill=plan.bill, title="The month's bill, opened")


def _instances(shown: Sequence[PoolInstances], *, first: bool = False) -> Table:
    """Instances by offer and term; on the first screen (`first`) with fewer columns wide and hours in short."""
    rows = [
        (
            part_name(one.accelerator) if _cpu(one) else parts_name(one.accelerators_per_instance, one.accelerator),
            one.term,
            f"{one.usd_per_instance_hour:,.2f}",
            f"{one.usd_per_month:,.0f}",
            _when(one.hours, what="instance", short=first),
            seller(one),
            one.instance_type,
        )
        for one in shown
    ]
    text = "<" if first else "~"
    heads = (f"accelerators{text}", "term", "$/h each>2", "$/month>", "instances~", f"provider{text}3", "type<4")
    return grid(heads, rows)


def _replicas(plan: FleetPlan) -> Table:
    """
    Replicas by workload: what one takes of each bucket (tokens/s of a run), the share of requests they carry, and the
    mean draw of one accelerator.
    """
    rows = []
    for one in plan.replicas:
        spot = "" if one.firm else " (spot)"
        trained = next((run for run in plan.runs if run.workload == one.workload), None)
        run = one.configuration.label(lambda _: "", engine_title).strip() if one.configuration else "virtual cores"
        run = trained.configuration.label(part_name, engine_title) if trained is not None else run
        run = f"slice {one.slice} {run}" if one.slice else run
        takes = " / ".join(f"{rate:.3g}" for rate in one.capacity_per_s)
        carries = " / ".join(percent(share) for share in one.carries)
        draws = show(one.board_w.value, "W") if one.board_w is not None else ""
        rows.append(
            (
                one.workload,
                one.where + spot,
                run,
                takes + (" tokens/s" if trained else "/s" if takes else ""),
                carries,
                draws,
                _when(one.hours, what="replica"),
            )
        )
    return grid(["workload~", "on~", "as~", "each takes>", "carries>", "power each>", "replicas, when~"], rows)


def _bill(plan: FleetPlan) -> Table | None:
    if plan.bill is None:
        return None
    rows = [(_line(part.name), f"{part.value:,.2f}", part.source.partition(":")[0]) for part in plan.bill.parts]
    return grid(["line~", "USD>", "from~"], [*rows, ("total", f"{plan.bill.value:,.2f}", "")], total=True)


def _line(name: str) -> str:
    """A line of the bill, whose first word may be the id of a provider, as people write it."""
    first, *rest = name.split(" ", 1)
    return " ".join((provider_name(first), *rest))


def _check(check: FleetCheck) -> str:
    """A check in a sentence; of samples the mean latency, which is computed."""
    hour = f"{DAYS[check.hour // 24 % 7]} " if check.hour >= 24 else ""
    times = [f"{name} {show(value, 's')}" for name, value in _times(check, SPEEDS)]
    if not times and check.e2e_s is not None:
        times = [f"mean latency {show(check.e2e_s, 's')}, computed"]
    held = times if not check.requests else [f"p{check.percentile:g} {', '.join(times)}"]
    lost = f" without {check.lost}" if check.lost else ""
    sure = f" with a chance of {whole_percent(check.chance)}" if check.chance is not None else ""
    verdict = f"holds{sure}" if check.meets else "misses"
    return (
        f"{check.workload}{lost}: {verdict} at {hour}{check.hour % 24}:00 with {show(check.rate_per_s, '1/s')} on "
        f"{plural(check.replicas, 'replica')}: {', '.join(held) or 'nothing completed'}"
    )


def _other(one: FleetAlternative) -> str:
    """An alternative with what it costs a month and how much more that is."""
    if one.usd_per_month is None:
        return f"{one.name}: {one.what}"
    if one.more is None:
        return f"{one.name}: {money(one.usd_per_month)} a month ({one.what})"
    more = one.more
    apart = (
        "no more expensive"
        if more == 0
        else "the same within the gap"
        if abs(more) < 0.005
        else percent(more, sign="+")
    )
    return f"{one.name}: {money(one.usd_per_month)} a month, {apart} ({one.what})"


def _when(hours: tuple[HourRange, ...], *, what: str, short: bool = False) -> str:
    """Runs of hours; where they change often, from fewest to most; what is had for part of an hour, by the month."""
    mean = sum(one.count * (one.stop - one.start) for one in hours) / hours[-1].stop
    if any(abs(one.count - round(one.count)) > PART for one in hours):
        return f"{mean * HOURS_PER_MONTH:,.3g} {what} hours a month"
    if len(hours) == 1:
        return f"{show(hours[0].count, 'count')} always"
    if short or len(hours) > MOST_RANGES:
        counts = [one.count for one in hours]
        return f"{show(min(counts), 'count')} to {show(max(counts), 'count')}, mean {show(mean, 'count')}"
    return ", ".join(f"{show(one.count, 'count')} at {one.start}-{one.stop}h" for one in hours if one.count)


MOST_LINES: Final = 12


def fleet_charts(plan: FleetPlan) -> tuple[Chart | None, ...]:
    """Instances by the hour and the bill; none when nothing carries the load."""
    return _by_hour(plan), _bill_chart(plan)


def _by_hour(plan: FleetPlan) -> Chart | None:
    """Instances that stand in each hour of the day or the week, on top of each other; None where none do."""
    if not plan.instances:
        return None
    values = [
        (_label(one), hour, span.count)
        for one in plan.instances
        for span in one.hours
        for hour in range(span.start, span.stop)
    ]
    # A run of part of an hour holds its instances for that part only.
    whole = all(float(count).is_integer() for _, _, count in values)
    body = {
        "data": records(("instance", "hour", "count"), values),
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "x": axis(
                "hour",
                f"hour of the {'week' if plan.period_h > 24 else 'day'}",
                kind="ordinal",
                axis={"labelAngle": 0, "labelOverlap": True},
            ),
            "y": axis(
                "count",
                "instances" if whole else "instances, mean of the hour",
                aggregate="sum",
                stack="zero",
                axis={"tickMinStep": 1} if whole else {},
            ),
            "color": {**colour("instance"), "legend": {"columns": 1, "labelLimit": 0}},
        },
    }
    return Chart(
        "hours",
        "Instances by the hour",
        "How many stand in each hour, a colour for each offer and term."
        + ("" if whole else " Parts of one: for a part of the hour."),
        body=body,
        columns=("instance", "hours", "how many"),
        rows=tuple(
            (_label(one), f"{span.start}-{span.stop} h", f"{span.count:g}")
            for one in plan.instances
            for span in one.hours
        ),
    )


def _bill_chart(plan: FleetPlan) -> Chart | None:
    """Lines of the bill of one month, the largest first; None without a bill."""
    if plan.bill is None or not plan.bill.parts:
        return None
    parts = sorted(plan.bill.parts, key=lambda part: -part.value)[:MOST_LINES]
    body = {
        "data": records(("line", "usd"), [(_line(part.name), part.value) for part in parts]),
        "mark": BELOW_NAME,
        "encoding": {"y": named_rows("line"), "x": axis("usd", "USD a month")},
    }
    return Chart(
        "bill",
        "Where the month's money goes",
        "Lines of the bill of one month, the largest first.",
        body=body,
        columns=("line", "USD a month"),
        rows=tuple((_line(part.name), f"{part.value:,.2f}") for part in parts),
        height=rows_px(len(parts)),
    )


def _label(one: PoolInstances) -> str:
    return " ".join(filter(None, (provider_name(one.provider), one.instance_type, one.term)))


PAGE: Final = WholePage(document=_document, opened=_opened, charts=fleet_charts)
