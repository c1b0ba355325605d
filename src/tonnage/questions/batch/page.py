"""A batch plan as a document: what finishes in time for least; then the time-cost trade-off, and one option opened."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tonnage.catalog import model_name, product
from tonnage.domain.batch_plan import BatchOption, BatchPlan, TradeOff, cheapest_on
from tonnage.engines.registry import engine_release
from tonnage.questions.train.page import batch_charts
from tonnage.report.document import Contents, Headline, Meter, Table, Text, grid
from tonnage.report.page import COST, PROVIDER, REGION, TERM, TIME, Page, at
from tonnage.report.screen import (
    cheaper_stored,
    closest_break_even,
    held_text,
    loads_text,
    parts_of,
    price_dates,
    run_price,
    stale_text,
    used_of,
)
from tonnage.report.wording import (
    chance_text,
    degrees,
    interval,
    meter,
    money,
    need_text,
    parts_table,
    plural,
    rental_text,
)
from tonnage.units import percent, show


def _question(plan: BatchPlan) -> list[str]:
    """The job with its deadline and limits, in parts of a line."""
    request = plan.request
    lengths = request.lengths
    return [
        model_name(request.model),
        f"{request.items:,.0f} items of {lengths.prompt_tokens:,.0f} in / {lengths.output_tokens:,.0f} out tokens",
        f"within {show(request.deadline_s, 's')}" if request.deadline_s else "no deadline",
        f"at most {show(request.budget_usd, 'USD')}" if request.budget_usd else "",
        f"at most {plural(request.filters.max_count, 'accelerator')}" if request.filters.max_count else "",
        price_dates(plan.provenance),
    ]


def _recommendation(_: BatchPlan, best: BatchOption) -> Headline:
    c = best.configuration
    how = f"{plural(best.replicas, 'replica')}, {degrees(c)}, {c.precision.stored.upper()}"
    run = engine_release(c.engine.name, c.engine)
    price, note = run_price(best.cost, wall_s=best.wall_s.value, usd_per_hour=best.bill.usd_per_hour)
    parts = used_of(best, product(c.accelerator))
    return Headline(parts, details=(f"{how}, {run}", rental_text(best.bill)), price=price, price_note=note)


def _meters(plan: BatchPlan, best: BatchOption) -> list[Meter]:
    """Time and cost against their limits, the rate of all replicas, and what so many items or tokens cost."""
    deadline, budget = plan.request.deadline_s, plan.request.budget_usd
    limited = [meter("time", best.wall_s, limit=deadline, joint=best.chance),
               meter("cost", best.cost, limit=budget, joint=best.chance)]  # fmt: skip
    if not (deadline and budget):  # of a single limit the chance is the one that ranks
        limited = [replace(one, chance=chance_text(best.chance) if one.limit else "") for one in limited]
    return [
        *limited,
        Meter("rate", show(best.replicas * best.items_per_s.value, "1/s")),
        Meter("per 1k items", f"${show(best.usd_per_thousand_items, 'count')}"),
        Meter("per 1M output tokens", f"${show(best.usd_per_million_output_tokens, 'count')}"),
    ]  # fmt: skip


def _layout(option: BatchOption) -> str:
    c = option.configuration
    return f"{option.replicas}x{degrees(c)} {c.precision.stored.upper()}"


def _whole(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _risks(plan: BatchPlan, best: BatchOption) -> list[str | Text]:
    return [
        stale_text(best.bill, plan.provenance.made),
        held_text(best.bill, run=True),
        _cheaper(plan, best),
        _spot(plan),
        loads_text(plan.model, best.configuration.precision.stored),
        *cheaper_stored(plan.rejected),
        closest_break_even(plan.break_even),
    ]


def _spot(plan: BatchPlan) -> str:
    """
    The cheapest option on spot against the cheapest on demand, whichever is recommended; empty where spot costs no less
    or either is missing.
    """
    spot, firm = (cheapest_on(term, plan.options) for term in ("spot", "on-demand"))
    if spot is None or firm is None or spot.cost.value >= firm.cost.value:
        return ""
    saves = percent(1.0 - spot.cost.value / firm.cost.value)
    return (
        f"Spot saves {saves}: {money(spot.cost.value)} in {show(spot.wall_s.value, 's')} against "
        f"{money(firm.cost.value)} on demand on {parts_of(firm.accelerators, firm.configuration.accelerator)}; "
        f"preempted spot instances are in that time."
    )


def _cheaper(plan: BatchPlan, best: BatchOption) -> str:
    """
    The cheapest option that is less likely to be in time than asked for, where it costs less than `best`; else empty.
    """
    unsure = [option for option in plan.options if not option.sure and option.cost.value < best.cost.value]
    if not unsure:
        return ""
    option = min(unsure, key=lambda each: each.cost.value)
    return (
        f"Cheaper, less likely: {parts_of(option.accelerators, option.configuration.accelerator)} {option.bill.term}, "
        f"{money(option.cost.value)} in {interval(option.wall_s)}, {chance_text(option.chance)} to be in time."
    )


# Why


def _why(plan: BatchPlan, _: BatchOption) -> dict[str, Contents]:
    return {
        "Time-cost trade-off: nothing else is both cheaper and faster": _frontier(plan.frontier),
        "More expensive but faster: one accelerator against one": plan.card_for_card,
        "Spot or on-demand": plan.spot_against,
    }


def _frontier(frontier: tuple[TradeOff, ...]) -> Table:
    """Options of which no other is both cheaper and faster; price and speed over the cheapest's."""
    rows = [
        (
            show(point.wall_s, "s"),
            show(point.usd, "USD"),
            f"{point.times_the_price:.2f}x",
            f"{point.times_faster:,.3g}x",
            str(point.accelerators),
            point.term,
            point.label,
        )
        for point in frontier
    ]
    heads = ["time>", "cost>", "price>", "speed>", "accelerators>", "term", "configuration~"]
    return grid(heads, rows)


def _parts(plan: BatchPlan, option: BatchOption) -> dict[str, Contents]:
    return {
        "Cost of the job": parts_table(option.cost),
        "Memory of one accelerator": parts_table(option.memory),
        "Time": _time(plan, option),
        "Electricity and carbon": _energy(option),
        "What the host must bring": [need_text(need) for need in option.needs],
        "Sources": [*option.sources, *(option.energy.sources if option.energy else ())],
    }


def _time(plan: BatchPlan, option: BatchOption) -> list[str]:
    """How the time comes about, and what of it spot capacity takes."""
    each, wall = option.items_per_s, option.wall_s
    summary = [
        f"{option.replicas} replicas x {each.shown()} = {show(option.replicas * each.value, '1/s')}",
        f"{show(option.start_s, 's')} until the first token; each instance is charged {option.billed_hours:,.2f} h",
        f"done after {wall.shown()}",
    ]
    if option.useful < 1:
        summary.append(
            f"{percent(option.useful, 1)} of its running time is useful; capacity is there "
            f"{percent(option.available)} of the time"
        )
    if plan.request.deadline_s is not None:
        summary.append(f"allowed: {show(plan.request.deadline_s, 's')}")
    return summary


def _energy(option: BatchOption) -> list[str]:
    if option.kwh is None or option.energy is None:
        return ["the accelerator's power is not published"]
    carbon = "the grid of this region is not known" if option.kg_co2 is None else f"{option.kg_co2:,.1f} kg CO2"
    return [f"{option.kwh:,.1f} kWh at {show(option.energy.power_w, 'W')} with PUE {option.energy.pue:g}; {carbon}"]


CELLS: Final = (
    ("layout<4", _layout), TIME, COST,
    ("$/1k items>5", lambda option: f"{option.usd_per_thousand_items:,.3g}"),
    ("kWh>7", lambda option: _whole(option.kwh)),
    ("kg CO2>8", lambda option: _whole(option.kg_co2)),
    ("evidence", lambda o: o.basis + ("" if o.chance is None else f", {chance_text(o.chance)}")),
    at(PROVIDER, 3), at(TERM, 2), at(REGION, 6),
)  # fmt: skip
PAGE: Final = Page(
    charts=batch_charts,
    question=_question, answer=_recommendation, meters=_meters,
    cells=lambda *_: CELLS, risks=_risks, why=_why, parts=_parts,
    tried="configurations", used=used_of,
    looked=lambda plan: f"{plan.evaluated} configurations evaluated",
)  # fmt: skip
