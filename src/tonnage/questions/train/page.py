"""A training plan as a document: what to rent and for how long; then why, an option opened, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from tonnage.catalog import accelerators_text, model_name, part_name, parts_asked, product
from tonnage.domain.answer import Quantity
from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.train_plan import PAYS, FineTune, Milestone, RunOption, ScalingPoint, Train, TrainOption, TrainPlan
from tonnage.engines.registry import engine_title, software_spec
from tonnage.report.charts.chart import (
    Chart,
    axis,
    colour,
    layer_charts,
    led_by,
    log_axis,
    memory_chart,
    names,
    records,
)
from tonnage.report.charts.options import Axis, Point, options_chart, point_of
from tonnage.report.document import Contents, Headline, Meter, Text
from tonnage.report.page import COST, PROVIDER, REGION, SURE, TERM, TIME, Page, at
from tonnage.report.screen import closest_break_even, held_text, price_dates, run_price, stale_text
from tonnage.report.wording import bill_lines, interval, meter, need_text, offer_text, parts_table, plural, rental_text
from tonnage.units import percent, show, whole_percent


def train_question(request: Train | FineTune) -> list[str]:
    """The job and its limits, in parts of a line."""
    if isinstance(request, FineTune):
        how = (
            "full fine-tune"
            if request.method == "full"
            else {"lora": "LoRA", "qlora": "QLoRA", "dora": "DoRA"}.get(request.method, request.method)
        )
        how += f" r={request.lora_rank}" if request.method != "full" else ""
        how = how if request.objective == "sft" else f"{request.objective.upper()}, {how}"
        data = [f"{show(request.examples, 'count', digits=3)} examples"] if request.examples else []
        data += [show(request.tokens, "tokens")] if request.tokens and not request.examples else []
        each, packed = request.tokens_per_example or 0.0, request.packed and request.objective == "sft"
        parts = [how, ", ".join((*data, plural(request.epochs, "epoch")))]
        if packed and each <= request.seq_len and (each or request.tokens):
            parts.append(f"sequences of {request.seq_len:,}")
        elif each:
            parts.append(f"{each:,.0f} tokens each")
    else:
        parts = ["pre-training", show(request.tokens, "tokens")]
        parts += [f"sequences of {request.seq_len:,}"] if request.seq_len else []
    parts += [f"batch {request.global_batch:,}"] if request.global_batch else []
    parts += [plural(request.count, "accelerator")] if request.count else []
    parts += [parts_asked(request.filters.accelerators)]
    parts += [f"within {show(request.deadline_s, 's')}"] if request.deadline_s else []
    parts += [f"at most {show(request.budget_usd, 'USD')}"] if request.budget_usd else []
    return parts


def _question(plan: TrainPlan) -> list[str]:
    return [model_name(plan.request.model), *train_question(plan.request), price_dates(plan.provenance)]


def _recommendation(_: TrainPlan, best: TrainOption) -> Headline:
    c = best.configuration
    how = f"{c.layout.label}, {c.precision.upper()}, {c.software}"
    price, note = run_price(best.cost, wall_s=best.run.wall_s.value, usd_per_hour=best.bill.usd_per_hour)
    lead = f"{best.accelerators} x {product(c.accelerator)}"
    return Headline(lead, details=(how, rental_text(best.bill)), price=price, price_note=note)


def _meters(plan: TrainPlan, best: TrainOption) -> list[Meter]:
    wall, deadline, budget = best.run.wall_s, plan.request.deadline_s, plan.request.budget_usd
    return [
        meter("time", wall, limit=deadline),
        Meter("time, 9 in 10 runs", show(best.run.wall_p90_s, "s")),
        meter("cost", best.cost, limit=budget),
        meter("memory", best.memory, limit=best.limit_bytes),
        Meter("MFU", percent(best.mfu)),
        Meter("goodput", percent(best.run.useful_time_fraction.value)),
    ]  # fmt: skip


def _risks(plan: TrainPlan, best: TrainOption) -> list[str | Text]:
    """What could go wrong, and what could be cheaper or faster; an old price early, for it moves every figure."""
    return [
        _unsure(plan, best),
        _why_not_cheapest(plan),
        stale_text(best.bill, plan.provenance.made),
        held_text(best.bill, run=True),
        # It divides the bill, too.
        f"Faster stack: {plan.faster}" if plan.faster else "",
        f"Cheaper, less sure: {plan.cheaper_at_risk}" if plan.cheaper_at_risk else "",
        Text(f"Spot: {plan.spot}", asks={"term": "spot"}) if plan.spot else "",
        closest_break_even(plan.break_even),
        f"More accelerators: {plan.stops_paying}" if plan.stops_paying else "",
    ]


def _unsure(plan: TrainPlan, best: TrainOption) -> str:
    """That the first option is less sure than asked for; empty where it is not."""
    request, least = plan.request, plan.request.confidence
    if best.chance >= least:
        return ""
    limits = ["memory"] + ["deadline"] * bool(request.deadline_s) + ["budget"] * bool(request.budget_usd)
    kept = limits[0] if len(limits) == 1 else f"{', '.join(limits[:-1])} and {limits[-1]}"
    chance, wanted = whole_percent(best.chance), whole_percent(least)
    return f"Risk: a chance of {chance} to keep {kept}; no option has the {wanted} asked for."


def _why_not_cheapest(plan: TrainPlan) -> str:
    """Why a cheaper option, as sure, does not lead: people's work, which is on no bill; empty where none is."""
    named = {choice.name: plan.options[choice.option] for choice in plan.choices}
    other = named.get("cheapest")
    # Where no software was named, what a fine-tune runs in by habit needs no work.
    works = isinstance(plan.request, FineTune) and plan.request.framework is None
    if other is None or "recommended" not in named or not works:
        return ""
    if software_spec(other.configuration.software).plain_scripts:
        return ""
    name, price = accelerators_text(other), show(other.cost.value, "USD")
    return f"Not the cheapest: {name} at {price}, in {other.configuration.software}: a day of work to convert weights."


# Why


def _why(plan: TrainPlan, best: TrainOption) -> dict[str, Contents]:
    """Sections of `--why` on an option."""
    return {
        "Cheaper, at a risk": plan.cheaper_at_risk,
        "Cost against time: nothing else is both cheaper and faster": _frontier(plan),
        "Memory of the fullest accelerator": f"{interval(best.memory)} of {show(best.limit_bytes, 'bytes')}: "
        f"{_parts(best.memory)}",
        "One step": _parts(best.step_s),
        "The run": _run(best),
        "Timeline": _timeline(best),
        "Host and storage": [need_text(need) for need in best.needs],
        "More accelerators": plan.stops_paying,
        "Spot": plan.spot,
    }


def _option_parts(plan: TrainPlan, option: TrainOption) -> dict[str, Contents]:
    """Sections of one option opened; scaling is known of the first alone."""
    return {
        "Memory of one accelerator": parts_table(option.memory),
        "One step": parts_table(option.step_s),
        "The run": _run(option),
        "Timeline": _timeline(option),
        "Host and storage": [need_text(need) for need in option.needs],
        "Cost of the run": parts_table(option.cost),
        "Bill": _bill(option),
        "Other offers": [offer_text(bill) for bill in option.other_offers],
        "Scaling": [_point(point) for point in plan.scaling if option is plan.options[0]],
    }


def _frontier(plan: TrainPlan) -> list[str]:
    """Options of the frontier, cheapest first, each with its price and speed over the cheapest's."""
    points = sorted((plan.options[index] for index in plan.frontier), key=lambda option: option.cost.value)
    summary = []
    for option in points:
        usd, wall = option.cost.value, option.run.wall_s.value
        sure = "" if option.sure else ", unsure"
        beside = ""
        if option is not points[0]:
            faster = points[0].run.wall_s.value / wall
            beside = f" ({usd / points[0].cost.value:.2f}x the price, {faster:.3g}x as fast)"
        summary.append(f"{show(wall, 's')} for {show(usd, 'USD')}: {accelerators_text(option)}{beside}{sure}")
    return summary


def _parts(quantity: Quantity) -> str:
    return ", ".join(f"{part.name} {show(part.value, quantity.unit)}" for part in quantity.parts)


def _run(option: TrainOption) -> list[str]:
    """The run in lines: steps, other time, interruptions, checkpoints, goodput, accelerator hours, electricity."""
    run, c = option.run, option.configuration
    useful = run.useful_time_fraction
    between = show(run.between_s, "s")
    energy = f", {show(option.energy_wh, 'Wh')} drawn by the accelerators" if option.energy_wh else ""
    waiting = f", waiting for spot capacity {show(run.waiting_s, 's')}" if run.waiting_s else ""
    return [
        f"{run.steps:,.0f} steps of {c.global_batch:,} x {c.seq_len:,} tokens, {interval(option.step_s)} each: "
        f"{show(run.training_s, 's')}",
        f"validation {show(run.validation_s, 's')}, start {show(run.start_s, 's')}, headroom for retries and "
        f"experiments {show(run.headroom_s, 's')}{waiting}; in all {interval(run.wall_s)}, P90 "
        f"{show(run.wall_p90_s, 's')}",
        f"an interruption every {between} ({run.interruptions:.1f} expected), {show(run.recovery_s, 's')} to recover, "
        f"{run.spares} spare instances",
        f"a checkpoint of {show(run.checkpoint_bytes, 'bytes')} every {show(run.checkpoint_interval_s, 's')} blocks "
        f"{show(run.blocking_s, 's')} and is written in {show(run.write_s, 's')}",
        f"training goodput {percent(useful.value, 1)} "
        f"({percent(useful.low or 0, 1)}-{percent(useful.high or 0, 1)}) of the time, P90 at least "
        f"{percent(run.useful_p90, 1)}",
        f"{_rounded(option.accelerator_hours)} accelerator hours{energy}",
        *_electricity(option),
    ]


def _rounded(number: float) -> str:
    """A whole number, or two digits of a small one."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _timeline(option: TrainOption) -> list[str]:
    """Date, and how long after the start."""
    after = [f"+{show(point.after_s, 's')}" if point.after_s else "" for point in option.timeline]
    return [f"{point.date}  {late:>10}  {point.what}" for point, late in zip(option.timeline, after, strict=True)]


def _electricity(option: TrainOption) -> list[str]:
    run, c = option.run, option.configuration
    return electricity_of_run(option, tokens=run.steps * c.global_batch * c.seq_len)


def electricity_of_run(option: RunOption, *, tokens: float) -> list[str]:
    """
    kWh and CO2 of the run, and of a million tokens trained on; empty where the accelerator's power is not published.
    """
    use, millions = option.energy, tokens / 1e6
    if option.kwh is None or use is None:
        return []
    summary = (
        f"{show(option.kwh * 1e3, 'Wh')} with hosts and cooling (mean {show(use.power_w, 'W')}, "
        f"{show(use.power_w_low, 'W')}-{show(use.power_w_high, 'W')}, PUE {use.pue:g}), "
        f"{option.kwh / millions:.3g} kWh per million tokens"
    )
    if option.kg_co2 is None:
        return [f"{summary}; carbon: the grid of this region is not known"]
    grid = f"{use.grid}, {use.grams_per_kwh:g} g/kWh"
    return [f"{summary}; {_rounded(option.kg_co2)} kg CO2, {option.kg_co2 / millions * 1e3:.3g} g per million ({grid})"]


def _point(point: ScalingPoint) -> str:
    usd = f", {show(point.usd, 'USD')}" if point.usd is not None else ""
    time = f", run {show(point.wall_s, 's')}" if point.wall_s is not None else ""
    return (
        f"{point.kind} {point.count}: step {show(point.step_s, 's')}, {point.tokens_per_s:,.0f} tokens/s, efficiency "
        f"{percent(point.efficiency)}{time}{usd} ({point.layout})"
    )


def _bill(option: TrainOption) -> list[str]:
    bill = option.bill
    billed = show(option.run.billed_s, "s")
    beside = "".join(
        f" + {part.name} {show(part.value, 'USD')}" for part in option.cost.parts if part.name == "storage"
    )
    total = f"{show(bill.usd_per_hour, 'USD/h')} for {billed}{beside} = {interval(option.cost)}"
    return [*bill_lines(bill), total, *([bill.notes] if bill.notes else [])]


CELLS: Final = (
    ("layout<4", lambda option: option.configuration.layout.label), TIME, COST,
    ("MFU>5", lambda option: percent(option.mfu)),
    ("memory>6", lambda option: percent(option.memory.value / option.limit_bytes)),
    SURE, at(PROVIDER, 3), at(REGION, 7), at(TERM, 8),
)  # fmt: skip


MOST_STACKS: Final = 4
HOUR_S: Final = 3600.0
LATE: Final = 0.8
"""Of the axis: milestones beyond it have their time on their left. [-]"""
BATCHES: Final = {"strong": "same batch (strong)", "weak": "batch grows (weak)"}
"""Kind of curve -> what it holds."""
DAYS_FROM: Final = 72.0
"""Jobs that last longer are drawn in days. [h]"""


def train_charts(plan: TrainPlan, rank: int = 1) -> tuple[Chart | None, ...]:
    """Every picture of a feasible plan, of the option of that rank; none when nothing works."""
    if not plan.options:
        return ()
    points = [_plotted(n, option, option.run.wall_s) for n, option in enumerate(plan.options, 1)]
    return (
        _time_and_cost(points, deadline_s=plan.request.deadline_s, rank=rank),
        _scaling(plan),
        memory_chart(led_by(plan.options, rank, most=MOST_STACKS), _label),
        timeline_chart(plan.options[rank - 1].timeline),
    )


def batch_charts(plan: BatchPlan, rank: int = 1) -> tuple[Chart | None, ...]:
    """Every picture of a feasible plan, of the option of that rank; none when nothing works."""
    if not plan.options:
        return ()
    points = [_plotted(n, option, option.wall_s) for n, option in enumerate(plan.options, 1)]
    drawn = _time_and_cost(points, deadline_s=plan.request.deadline_s, rank=rank)
    return (drawn, memory_chart(led_by(plan.options, rank, most=MOST_STACKS), _label))


def _plotted(rank: int, option: TrainOption | BatchOption, wall_s: Quantity) -> Point:
    return point_of(
        accelerators_text(option),
        wall_s,
        scale=1.0 / HOUR_S,
        usd=option.cost.value,
        evidence=str(option.basis),
        rank=rank,
        bill=option.bill,
    )


def _label(option: TrainOption | BatchOption) -> str:
    return option.configuration.label(part_name, engine_title)


def _time_and_cost(points: Sequence[Point], *, deadline_s: float | None, rank: int) -> Chart | None:
    """Options by duration and cost of the whole job, in hours (as points hold them), or days where hours are many."""
    limit = deadline_s or 0.0
    scale, unit = (24.0, "days") if points and max(points[0].value, limit / HOUR_S) > DAYS_FROM else (1.0, "h")
    scaled = [p._replace(value=p.value / scale, low=p.low / scale, high=p.high / scale) for p in points]
    time = Axis("time", unit, limit / HOUR_S / scale if limit else None)
    return options_chart(scaled, time=time, money=Axis("Cost", "USD of the job"), chosen=rank)


def _scaling(plan: TrainPlan) -> Chart | None:
    """Speed over the number of accelerators, beside perfect scaling; None with fewer than three counts."""
    if len({point.count for point in plan.scaling}) < 3:
        return None
    values = [(BATCHES[point.kind], point.count, point.tokens_per_s, point.efficiency) for point in plan.scaling]
    first = plan.scaling[0]
    perfect = [("perfect", n, first.tokens_per_s * n / first.count) for n in sorted({v[1] for v in values})]
    x = axis("count", "accelerators", kind="ordinal", axis={"labelAngle": 0})
    rates = (*(point.tokens_per_s for point in plan.scaling), *(rate for _, _, rate in perfect))
    y = log_axis("tokens", "tokens/s of the whole job", over=rates)
    body = layer_charts(
        records(("kind", "count", "tokens", "efficiency"), values),
        {
            "data": records(("kind", "count", "tokens"), perfect),
            "mark": {"type": "line", "strokeDash": [4, 4]},
            "encoding": {"x": x, "y": y},
        },
        *_end_layers(plan, x=x),
        {
            "mark": {"type": "line", "point": True, "tooltip": {"content": "data"}},
            "encoding": {"x": x, "y": y, "color": colour("kind")},
        },
    )
    told = plan.stops_paying
    where = f" {told[0].upper()}{told[1:]}." if told else ""
    return Chart(
        "scaling",
        "What more accelerators bring",
        f"Speed over the number of accelerators; dashed is perfect scaling.{where}",
        body=body,
        columns=("batch held", "accelerators", "tokens/s", "efficiency"),
        rows=tuple(
            (BATCHES[p.kind], f"{p.count:,}", f"{p.tokens_per_s:,.0f}", percent(p.efficiency)) for p in plan.scaling
        ),
    )


def _end_layers(plan: TrainPlan, *, x: dict[str, Any]) -> list[dict[str, Any]]:
    """A line at the count from which on a doubling brings too little, with its name; nothing where none was found."""
    strong = [point for point in plan.scaling if point.kind == "strong"]
    last = next((a.count for a, b in pairwise(strong) if b.step_s * PAYS > a.step_s), None)
    if last is None:
        return []
    where = records(("count", "says"), [(last, f"pays up to {last:,}")])
    return [
        {"data": where, "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.7}, "encoding": {"x": x}},
        {
            "data": where,
            "mark": {"type": "text", "align": "right", "dx": -5, "y": 8},
            "encoding": {"x": x, "text": {"field": "says"}},
        },
    ]


def timeline_chart(milestones: tuple[Milestone, ...]) -> Chart | None:
    """The milestones along the run; None where fewer than two."""
    if len(milestones) < 2:
        return None
    last = milestones[-1].after_s
    unit, each = ("days", 24.0 * HOUR_S) if last > DAYS_FROM * HOUR_S else ("hours", HOUR_S)
    values = [
        (
            0.0,
            m.after_s / each,
            m.what.split(";")[0],
            m.date,
            show(m.after_s, "s") if m.after_s else "",
            m.after_s > 0.8 * last,
        )
        for m in milestones
    ]
    x = axis("after", f"{unit} after the start")
    y = names("what")
    body = layer_charts(
        records(("start", "after", "what", "date", "says", "late"), values),
        {
            "mark": {"type": "rule", "opacity": 0.6},
            "encoding": {"x": {**x, "field": "start"}, "x2": {"field": "after"}, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "tooltip": {"content": "data"}},
            "encoding": {"x": x, "y": y},
        },
        *(
            {
                "transform": [{"filter": when}],
                "mark": {"type": "text", "align": side, "dx": dx, "dy": dy},
                "encoding": {"x": x, "y": y, "text": {"field": "says"}},
            }
            for when, side, dx, dy in (("!datum.late", "left", 9, 1), ("datum.late", "right", -8, -8))
        ),
    )
    return Chart(
        "timeline",
        "The run over time",
        f"Milestones by {unit} after the start.",
        body=body,
        columns=("milestone", "after", "date"),
        rows=tuple((m.what, show(m.after_s, "s"), m.date) for m in milestones),
        height=28 * len(milestones) + 20,
    )


PAGE: Final = Page(
    charts=train_charts,
    question=_question,
    answer=_recommendation,
    meters=_meters,
    cells=lambda *_: CELLS,
    risks=_risks,
    why=_why,
    parts=_option_parts,
    ruled_out="Ruled out, or at least twice as expensive",
    looked=lambda plan: f"{plan.evaluated} layouts evaluated",
    hosts=False,
)
