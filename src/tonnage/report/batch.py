"""A batch plan as a document: what finishes in time for least; then the time-cost trade-off, and one option opened."""

from __future__ import annotations

from typing import Final

from tonnage.domain.batch_plan import BatchOption, BatchPlan, TradeOff
from tonnage.report.document import Block, Column, Document, Meter, Table, grid, section, text_section
from tonnage.report.names import engine_title, model_name, product, provider_name, with_names
from tonnage.report.screen import (
    Pick,
    Ranking,
    cheaper_stored,
    closest_break_even,
    columns_of,
    first_screen,
    held_text,
    left_out,
    no_plan,
    parts_of,
    price_dates,
    rows_shown,
    run_price,
    short_names,
    stale_text,
    used_of,
)
from tonnage.report.wording import (
    break_even_text,
    chance_text,
    degrees,
    interval,
    made_note,
    meter,
    money,
    need_text,
    option_at_rank,
    parts_table,
    percent,
    plural,
    rejections,
    rental_text,
    shortages_text,
    spread_usd,
    value_with_bounds,
)
from tonnage.units import show

__all__ = ["batch_document", "explain_batch_plan"]

SHOWN: Final = 8
"""Options whose verdict stands under --why."""
RANKING: Final = Ranking(price=lambda option: option.cost.value, speed=lambda option: option.wall_s.value)


def batch_document(plan: BatchPlan, *, top: int | None = None, every: bool = False) -> Document:
    """The plan as blocks; `top` options in the table, or every one."""
    if not plan.options:
        return with_names(
            Document(first=no_plan(plan, question=_question(plan), what="configurations"), why=_why(plan))
        )
    rows, best = rows_shown(plan, RANKING, top=top, every=every), plan.options[0]
    first = first_screen(
        question=_question(plan),
        answer=_recommendation(best),
        meters=_meters(plan, best),
        table=_table([plan.options[row.place] for row in rows], rows),
        risks=_risks(plan, best),
        measure=plan.measure_first,
        rest=left_out(plan.rejected, hidden=len(plan.options) - len(rows)),
    )
    return with_names(Document(first=first, why=_why(plan)))


def _question(plan: BatchPlan) -> list[str]:
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


def _recommendation(best: BatchOption) -> str:
    c = best.configuration
    how = f"{plural(best.replicas, 'replica')}, {degrees(c)}, {c.precision.stored.upper()}"
    run = engine_title(c.engine.name, c.engine)
    price = run_price(best.cost, wall_s=best.wall_s.value, usd_per_hour=best.bill.usd_per_hour)
    parts = used_of(best.accelerators, best.bill, name=product(c.accelerator))
    return f"{parts}   {how}, {run}   {rental_text(best.bill)}   {price}"


def _meters(plan: BatchPlan, best: BatchOption) -> list[Meter]:
    deadline, budget = plan.request.deadline_s, plan.request.budget_usd
    return [
        meter("time", best.wall_s, limit=deadline, joint=best.chance),
        meter("cost", best.cost, limit=budget, joint=best.chance),
        Meter(name="rate", value=show(best.replicas * best.items_per_s.value, "1/s")),
        Meter(name="per 1k items", value=f"${show(best.usd_per_thousand_items, 'count')}"),
        Meter(name="per 1M output tokens", value=f"${show(best.usd_per_million_output_tokens, 'count')}"),
    ]  # fmt: skip


def _table(options: list[BatchOption], rows: list[Pick]) -> Table:
    short = short_names(o.configuration.accelerator for o in options)
    columns = (
        Column("", spare=1), Column("accelerators", wraps=True), Column("layout", spare=4), Column("time", wraps=True),
        Column("cost", wraps=True), Column("$/1k items", True, spare=5), Column("kWh", True, spare=7),
        Column("kg CO2", True, spare=8), Column("evidence"), Column("provider", spare=3), Column("term", spare=2),
        Column("region", spare=6),
    )  # fmt: skip
    cells = [
        (
            label,
            used_of(o.accelerators, o.bill, name=short[o.configuration.accelerator]),
            f"{o.replicas}x{degrees(o.configuration)} {o.configuration.precision.stored.upper()}",
            interval(o.wall_s),
            spread_usd(o.cost),
            f"{o.usd_per_thousand_items:,.3g}",
            "" if o.kwh is None else f"{o.kwh:,.0f}",
            "" if o.kg_co2 is None else f"{o.kg_co2:,.0f}",
            o.basis + ("" if o.chance is None else f", {chance_text(o.chance)}"),
            provider_name(o.bill.provider),
            o.bill.term,
            o.bill.region,
        )
        for label, o in zip(columns_of(rows), options, strict=True)
    ]
    return Table(columns=columns, rows=tuple(cells), options=tuple(row.place for row in rows))


def _risks(plan: BatchPlan, best: BatchOption) -> list[str]:
    return [
        held_text(best.bill, run=True),
        _cheaper(plan, best),
        _spot(plan),
        *cheaper_stored(plan.rejected),
        stale_text(best.bill, plan.provenance.made),
        closest_break_even(plan.break_even),
    ]


def _spot(plan: BatchPlan) -> str:
    """The cheapest option on spot against the cheapest on demand, whichever is recommended."""
    cheapest = {
        term: min((o for o in plan.options if o.bill.term == term), key=lambda o: o.cost.value, default=None)
        for term in ("spot", "on-demand")
    }
    spot, firm = cheapest["spot"], cheapest["on-demand"]
    if spot is None or firm is None or spot.cost.value >= firm.cost.value:
        return ""
    saves = percent(1.0 - spot.cost.value / firm.cost.value)
    return (
        f"Spot saves {saves}: {money(spot.cost.value)} in {show(spot.wall_s.value, 's')} against "
        f"{money(firm.cost.value)} on demand on {parts_of(firm.accelerators, firm.configuration.accelerator)}; "
        f"preempted spot instances are in that time."
    )


def _cheaper(plan: BatchPlan, best: BatchOption) -> str:
    """The cheapest option that is less likely to be in time than asked for."""
    unsure = [option for option in plan.options if not option.sure and option.cost.value < best.cost.value]
    if not unsure:
        return ""
    option = min(unsure, key=lambda each: each.cost.value)
    return (
        f"Cheaper, less likely: {parts_of(option.accelerators, option.configuration.accelerator)} {option.bill.term}, "
        f"{money(option.cost.value)} in {interval(option.wall_s)}, {chance_text(option.chance)} to be in time."
    )


# Why


def _why(plan: BatchPlan) -> tuple[Block, ...]:
    shown = plan.options[:SHOWN]
    tie = " [not distinguishable from option 1 (within error)]"
    blocks: list[Block] = [
        *text_section("Answer", [plan.sentence] if plan.options else []),
        *text_section(
            "Why this one, why not the others",
            [f"{i + 1}. {o.verdict}{tie if o.ties and i else ''}" for i, o in enumerate(shown)],
        ),
        *section("Time-cost trade-off: nothing else is both cheaper and faster", _frontier(plan.frontier)),
        *text_section("More expensive but faster: one accelerator against one", plan.card_for_card),
        *text_section("Spot or on-demand", [plan.spot_against] if plan.spot_against else []),
        *text_section("What would change this", [break_even_text(flip) for flip in plan.break_even]),
        *text_section(
            "Hosts too small for the accelerators",
            [f"{i + 1}. {text}" for i, o in enumerate(shown) if (text := shortages_text(o.needs))],
        ),
        *text_section("Quality impact of quantisation", [change.told for change in plan.quality]),
        *text_section("What relaxing one constraint buys", plan.relaxing),
        *rejections("Ruled out", plan.rejected),
        *text_section("Assumptions", plan.provenance.assumed),
        *text_section(
            "Inputs",
            [
                f"{plan.evaluated} configurations evaluated",
                *(f"{name}: {day}" for name, day in sorted(plan.provenance.catalogue.items())),
            ],
        ),
    ]
    return tuple(blocks)


def _frontier(frontier: tuple[TradeOff, ...]) -> Table | None:
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
    return grid(heads, rows) if rows else None


def explain_batch_plan(plan: BatchPlan, *, rank: int = 1) -> Document:
    """
    What the option of that rank is made of; a plan without options says why.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    if not plan.options:
        return batch_document(plan)
    option = option_at_rank(plan.options, rank)
    blocks: list[Block] = [
        *section(f"Option {rank}: {option.configuration.label()}", option.verdict),
        *section("Cost of the job", parts_table(option.cost)),
        *section("Memory of one accelerator", parts_table(option.memory)),
        *text_section("Time", _time(plan, option)),
        *text_section("Electricity and carbon", _energy(option)),
        *text_section("What the host must bring", [need_text(need) for need in option.needs]),
        *text_section("Sources", [*option.sources, *(option.energy.sources if option.energy else ())]),
        *text_section("Assumptions", plan.provenance.assumed),
        made_note(plan.provenance),
    ]
    question = first_screen(question=_question(plan), answer=plan.sentence, good=plan.feasible)
    return with_names(Document(first=question, why=tuple(blocks)))


def _time(plan: BatchPlan, option: BatchOption) -> list[str]:
    each, wall = option.items_per_s, option.wall_s
    summary = [
        f"{option.replicas} replicas x {value_with_bounds(each)} = {show(option.replicas * each.value, '1/s')}",
        f"{show(option.start_s, 's')} until the first token; each instance is charged {option.billed_hours:,.2f} h",
        f"done after {value_with_bounds(wall)}",
    ]
    if option.useful < 1:
        summary.append(
            f"{option.useful:.1%} of its running time is useful; capacity is there {option.available:.0%} of the time"
        )
    if plan.request.deadline_s is not None:
        summary.append(f"allowed: {show(plan.request.deadline_s, 's')}")
    return summary


def _energy(option: BatchOption) -> list[str]:
    if option.kwh is None or option.energy is None:
        return ["the accelerator's power is not published"]
    carbon = "the grid of this region is not known" if option.kg_co2 is None else f"{option.kg_co2:,.1f} kg CO2"
    return [f"{option.kwh:,.1f} kWh at {show(option.energy.power_w, 'W')} with PUE {option.energy.pue:g}; {carbon}"]
