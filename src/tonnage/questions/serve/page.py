"""A serving plan as a document: what to rent, objectives against limits, choices; then why, and an option opened."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import msgspec

from tonnage.catalog import model_name, parts_name, product, provider_name
from tonnage.catalog.checkpoints import chat_variant
from tonnage.catalog.models import loaded_as
from tonnage.domain.answer import Quantity
from tonnage.domain.metrics import SPEEDS, objectives, objectives_text
from tonnage.domain.plan import Capacity, ServeOption, ServePlan
from tonnage.domain.requests.common import Slo
from tonnage.domain.requests.serve import Serve
from tonnage.domain.serve_parts import FleetDay, FleetWay
from tonnage.engines.registry import engine_release
from tonnage.questions.serve.charts import serve_charts
from tonnage.questions.serve.page_option import option_parts
from tonnage.report.document import EVERY, Contents, Headline, Meter, Text
from tonnage.report.page import EVIDENCE, MEETS, PROVIDER, REGION, Cell, Page, at
from tonnage.report.screen import (
    Ranking,
    by_averages,
    capacity_meter,
    cheaper_stored,
    closest_break_even,
    held_text,
    loads_text,
    price_dates,
    risk,
    stale_text,
    used_of,
)
from tonnage.report.wording import account_texts, chance_text, degrees, expected_text, meter, money, plural, rental_text
from tonnage.units import percent, show

WORTH_A_LINE: Final = 0.02
"""Savings below are not said on the first screen. [-]"""
TOKENS_CHEAPER = 1.25
"""Times an API's price from which the first screen says so."""


def serve_question(request: Serve) -> list[str]:
    """The load and the objectives, in parts of a line."""
    lengths = request.lengths
    shape = f"{lengths.prompt_tokens:,.0f} in / {lengths.output_tokens:,.0f} out"
    parts = [f"{lengths.profile} ({shape})" if lengths.profile else f"{shape} tokens"]
    if request.rate_per_s is not None:
        peak = request.rate_per_s * request.shape.peak_to_mean
        parts.append(_rate(request.rate_per_s) + (f", peak {_rate(peak)}" if request.shape.peak_to_mean > 1 else ""))
    for count, noun in ((request.concurrency, "concurrent request"), (request.users, "user")):
        parts += [plural(count, noun)] if count is not None else []
    if request.shape.on_s and request.shape.off_s:
        parts.append(f"on {show(request.shape.on_s, 's')}, off {show(request.shape.off_s, 's')}")
    parts.append(objectives_text(request.slo) or "no objectives")
    filters = request.filters
    place = ["EU"] if filters.eu else []
    place += [*filters.countries, *filters.providers, *filters.regions, *map(str.upper, filters.certifications)]
    parts += [", ".join(place)] if place else []
    parts += [f"keeps {percent(request.quality_floor)} of the score"] if request.quality_floor else []
    return parts


def plan_question(plan: ServePlan) -> list[str]:
    """The model, the load and the objectives, and the dates of prices, in parts of a line."""
    return [model_name(plan.request.model), *serve_question(plan.request), price_dates(plan.provenance)]


def _rate(per_s: float) -> str:
    return show(per_s, "1/s").replace("/", " req/")


def _without_objectives(request: Serve) -> bool:
    return not objectives(request.slo)


def _of_frontier(plan: ServePlan) -> list[int]:
    """
    Positions of up to five options on the frontier of price and latency, where no objective is given; empty where one
    is.
    """
    return sorted(plan.frontier or (0,))[:5] if _without_objectives(plan.request) else []


def _ranking(plan: ServePlan) -> Ranking:
    """
    Price, and speed by the objective that has least room (share of its limit); TPOT in seconds where there is none.

    Beside a first option at a price that its seller states, the others have no speed: they are estimates.
    """
    slo, listed = plan.request.slo, any(option.bill.trust == "primary" for option in plan.options[:1])

    def speed(option: ServeOption) -> float:
        if listed and option.bill.trust != "primary":
            return math.inf
        seen = option.capacity
        tight = [
            value.value / limit for value, limit in ((seen.ttft_s, slo.ttft_s), (seen.tpot_s, slo.tpot_s)) if limit
        ]
        return max(tight) if tight else seen.tpot_s.value

    return Ranking(price=lambda option: option.bill.usd_per_hour, speed=speed)


def _recommendation(plan: ServePlan, best: ServeOption) -> Headline:
    """The first option with its price, where it is rented, and how it runs."""
    c = best.configuration
    one = "unit" if c.pools else "replica"
    how = ", ".join((plural(best.replicas, one), degrees(c), c.precision.stored.upper(), *c.settings()))
    run = engine_release(c.engine.name, c.engine)
    lead = "Cheapest, no objective given: " if _without_objectives(plan.request) else ""
    parts = used_of(best, product(c.accelerator))
    return Headline(
        f"{lead}{parts}",
        details=(f"{how}, {run}", rental_text(best.bill)),
        price=f"${best.bill.usd_per_hour:,.2f}/h",
        beside=f"${best.usd_per_month:,.0f}/month",
    )


def latency_meters(slo: Slo, seen: Capacity) -> list[Meter]:
    """First token and later ones against their objectives; the chance is of all together: `chance_name` names it."""
    shown = ((f"{one.title} p{slo.percentile:g}", one.name) for one in SPEEDS)
    made = (meter(name, getattr(seen, field), limit=getattr(slo, field)) for name, field in shown)
    return [msgspec.structs.replace(one, chance="") for one in made]


def chance_name(request: Serve) -> str:
    """What the chance of an option is of."""
    return "chance of meeting " + ("all objectives" if len(objectives(request.slo)) > 1 else "it")


def _meters(plan: ServePlan, best: ServeOption) -> list[Meter]:
    """
    Latencies against objectives, the peak load against what all replicas take, and the chance of the first option.
    """
    slo, seen = plan.request.slo, best.capacity
    meters = latency_meters(slo, seen)
    most = best.replicas * seen.max_rate_per_s.value
    load = (plan.request.rate_per_s or 0.0) * plan.request.shape.peak_to_mean
    meters.append(
        capacity_meter(load=load, most=most)
        if load
        else Meter("capacity", f"{show(most, 'count')} req/s, headroom {percent(best.headroom)}")
    )
    return [*meters, *_certainty(plan, best)]


def _cells(plan: ServePlan, most: int | None) -> tuple[Cell, ...]:
    """Columns of the table of options; `most` is how many rows are shown."""
    rank = f"p{plan.request.slo.percentile:g}"
    return (
        # Of all options many differ in nothing else: the layout stays, on a second line where it has to.
        ("layout~" if most == EVERY else "layout<4", _layout),
        ("$/h>", lambda option: f"{option.bill.usd_per_hour:,.2f}"),
        *((f"{one.title} {rank}~", partial(_latency, one.name)) for one in SPEEDS),
        ("req/s>6", lambda o: show(o.replicas * o.capacity.max_rate_per_s.value, "count")),
        at(MEETS, 3), EVIDENCE, at(PROVIDER, 5), at(REGION, 7),
    )  # fmt: skip


def _layout(option: ServeOption) -> str:
    c = option.configuration
    return " ".join((f"{option.replicas}x{degrees(c)}", c.precision.stored.upper(), *c.settings()))


def _latency(name: str, option: ServeOption) -> str:
    """Value and bounds in one unit: "27 (22-34) ms"."""
    quantity: Quantity = getattr(option.capacity, name)
    factor, unit = (1.0, "s") if quantity.value >= 1 else (1e3, "ms")
    digits = 1 if factor == 1.0 else 0
    value = f"{quantity.value:.2g}" if 1.0 <= quantity.value < 99.5 else f"{quantity.value * factor:.0f}"
    if quantity.low is None or quantity.high is None:
        return f"{value} {unit}"
    return f"{value} ({quantity.low * factor:.{digits}f}-{quantity.high * factor:.{digits}f}) {unit}"


def _risks(plan: ServePlan, best: ServeOption) -> list[str | Text]:
    """What could be cheaper, and what could go wrong; the largest first."""
    told: list[str | Text] = [*by_averages(plan), loads_text(plan.model, best.configuration.precision.stored)]
    told += [stale_text(best.bill, plan.provenance.made), _tail_risk(plan, best)]
    told += [held_text(best.bill), _base_text(plan.day)]
    if plan.sessions is not None:
        from tonnage.questions.sessions.page import cache_line

        told += [Text(line, kind="fact")] if (line := cache_line(plan)) else []
    told += [plan.images.sentence] if plan.images is not None else []
    if not plan.request.precisions and best.configuration.precision.weights == "nvfp4":
        told += [
            Text(f"Quality: {change.told}.", kind="check") for change in plan.quality if change.what.startswith("nvfp4")
        ][:1]
    if _without_objectives(plan.request):
        told.append(
            "No objective is given, so no option is the best: this is the frontier of price and latency; "
            "--ttft or --tpot picks one."
        )
    if plan.pools is not None and plan.pools.saves > WORTH_A_LINE:
        pools = plan.pools
        text = (
            f"Cheaper with disaggregated serving: {pools.units} x {pools.prefill_workers}P{pools.decode_workers}D, "
            f"{parts_name(pools.accelerators, pools.configuration.accelerator)} at "
            f"${pools.bill.usd_per_hour:,.2f}/h, saves {percent(pools.saves)} (simulated)."
        )
        told.append(Text(text, asks={"pools": "true"}))
    if plan.cheaper_at_risk:
        told.append(f"Cheaper, less likely: {plan.cheaper_at_risk}")
    loaded = loaded_as(plan.request.model, id=str(plan.model.get("id", "")))
    if plan.request.lengths.profile == "chat" and (tuned := chat_variant(loaded)) is not None:
        told.append(risk(f"{loaded} is the base model, which completes texts; {tuned} answers a chat."))
    told += cheaper_stored(plan.rejected)
    if plan.tokens is not None and plan.tokens.times >= TOKENS_CHEAPER:
        told.append(plan.tokens.sentence)
    return [*told, closest_break_even(plan.break_even), _failure(plan)]


WIDE: Final = 2.0
"""Prompts at the 95th percentile over the mean, from which averages say little of the slowest first tokens. [-]"""
NEAR: Final = 0.5
"""Share of its objective from which TTFT is near it. [-]"""


def _tail_risk(plan: ServePlan, best: ServeOption) -> Text | str:
    """A warning that long prompts decide TTFT and were not simulated, where it is near its objective; else empty."""
    lengths, limit = plan.request.lengths, plan.request.slo.ttft_s
    longest = lengths.prompt_p95 or 0.0
    wide = longest >= WIDE * lengths.prompt_tokens
    if not (plan.request.quick and wide and limit and best.capacity.ttft_s.value >= NEAR * limit):
        return ""
    return risk(
        f"by averages (--quick), while one prompt in twenty has {longest:,.0f} tokens or more and TTFT is near "
        "its limit; simulated, the same load may take half as many again."
    )


def _certainty(plan: ServePlan, best: ServeOption) -> list[Meter]:
    """The chance of the first option, and what ten more points of it cost; empty without objectives."""
    if best.chance is None:
        return []
    asked, held = percent(plan.request.confidence), chance_text(best.chance)
    name = chance_name(plan.request)
    if not best.sure:
        return [Meter(name, f"{held}: no option has the {asked} asked for")]
    more = next((one for one in plan.confidence_prices if one.confidence > plan.request.confidence + 1e-9), None)
    if more is None:
        return [Meter(name, f"{held}, {asked} asked for")]
    extra = more.usd_per_hour - best.bill.usd_per_hour
    costs = "costs no more" if extra < 0.005 else f"costs ${extra:,.2f}/h more"
    return [Meter(name, f"{held}, {asked} asked for; {percent(more.confidence)} {costs}")]


def _tokens(plan: ServePlan) -> list[str]:
    """What the APIs of the model charge, with their pages; empty where none is known."""
    if plan.tokens is None:
        return []
    rest = [
        f"{provider_name(one.provider)}: ${one.usd_per_million_input:.3g} input, "
        f"{'no price' if one.usd_per_million_cached_input is None else f'${one.usd_per_million_cached_input:.3g}'} "
        f"cached input, ${one.usd_per_million_output:.3g} output per 1M tokens; "
        f"${show(one.usd_per_hour, 'count')}/h for this load ({one.page}; {one.as_of})"
        for one in plan.tokens.options
    ]
    return [plan.tokens.sentence, *rest, "no input taken as cached; an API's latency and weight format are its own"]


def _failure(plan: ServePlan) -> Text | str:
    """What it takes to go on after a failure, where the first option would not."""
    more = next((choice for choice in plan.sizes if getattr(choice, "replicas", 0) > plan.options[0].replicas), None)
    if more is None:
        return ""
    one = "unit" if plan.options[0].configuration.pools else "replica"
    text = f"Survives the loss of any one {one} with {more.accelerators} accelerators: ${more.usd_per_hour:,.2f}/h."
    return Text(text, asks={"spare_replicas": "1"} if one == "replica" else {})


# Why


def _why(plan: ServePlan, option: ServeOption) -> dict[str, Contents]:
    """Sections of `--why`, each absent where the plan has nothing of it; some are known of the first option alone."""
    leads = option is plan.options[0]
    return {
        "What the money buys": account_texts(option),
        "Buy tokens instead": _tokens(plan),
        "Cheaper, at a risk": plan.cheaper_at_risk,
        "Why not fewer": plan.why_not_fewer if leads else None,
        "Headroom": [
            f"{one.name}: {plural(one.accelerators, 'accelerator')}, ${one.usd_per_hour:,.2f}/h, {one.covers}"
            for one in plan.sizes
            if leads
        ],
        **_opened(plan),
        "Disaggregated serving": plan.pools.sentence if plan.pools else None,
        **(_day(plan.day) if plan.day is not None else {}),
    }


def _opened(plan: ServePlan) -> dict[str, Contents]:
    """Of a plan with sessions or images what only such plans have."""
    found: dict[str, Contents] = {}
    if plan.sessions is not None:
        from tonnage.questions.sessions.page import session_sections

        found |= session_sections(plan)
    if plan.images is not None:
        from tonnage.questions.serve.page_option import image_sections

        found |= image_sections(plan)
    return found


def _day(day: FleetDay) -> dict[str, Contents]:
    """The ways of sizing the fleet over the period, then how each was computed."""
    ways = [*map(_way, day.ways), f"cheapest that meets the objectives: {day.best}"]
    how = [
        *(f"{way.name}: {way.arithmetic}{'; ' + way.note if way.note else ''}" for way in day.ways),
        f"a start takes {show(day.cold_start.value, 's')}: "
        + " + ".join(f"{part.name} {show(part.value, 's')}" for part in day.cold_start.parts),
        f"following the load saves {percent(day.wasted_share)} of what the peak costs; the fleet for the peak leaves "
        f"{day.valleys.replica_hours_per_day:,.1f} replica-hours a day unused (${day.valleys.usd_per_day:,.2f}): "
        f"{show(day.valleys.output_tokens_per_day / 1e6, 'count')}M output tokens of batch work",
    ]
    return {f"While the load varies ({day.shape})": ways, "How it was computed": how}


def _base_text(day: FleetDay | None) -> str:
    """How much of the fleet is worth committing and what that saves; empty where nothing is."""
    way = next((way for way in day.ways if way.committed), None) if day is not None else None
    if way is None:
        return ""
    held, peak = way.commitment, way.replicas_most - way.committed
    stops = ""
    if held is not None and held.stops_paying is not None:
        stops = f" Stops paying if on-demand prices fall by over {percent(held.stops_paying)} ({expected_text(held)})."
    return (
        f"Base and burst: {plural(way.committed, 'replica')} committed ({way.base}), up to {peak} on demand: "
        f"{money(way.usd_per_month)}/month, {percent(way.saves)} less than all on demand"
        f"{f'; {way.note}' if way.note else ''}.{stops}"
    )


def _way(way: FleetWay) -> str:
    replicas = f"{way.replicas_mean:.3g} replica{'' if way.replicas_mean == 1 else 's'} on average"
    cold = f", {percent(way.cold_share, 2)} of requests wait for a start" if way.cold_share else ""
    missed = "" if way.meets else ", misses the objectives"
    return f"{way.name}: {replicas}, ${way.usd_per_hour:,.2f}/h, ${way.usd_per_month:,.0f} a month{cold}{missed}"


PAGE: Final = Page(
    charts=serve_charts,
    question=plan_question, ranking=_ranking, few=_of_frontier, answer=_recommendation, meters=_meters, cells=_cells,
    risks=_risks, why=_why, parts=option_parts,
    tried="configurations", used=used_of,
    looked=lambda plan: f"{plan.evaluated} configurations evaluated, {plan.simulated} of them simulated",
)  # fmt: skip
