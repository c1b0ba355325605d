"""
An inference plan as a document: which parts carry the load, how much of them it uses; then why, pictures, one opened.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.catalog import model_name, part_name, parts_name, product, provider_name
from tonnage.domain.answer import Quantity
from tonnage.domain.infer_plan import InferOption, InferPlan
from tonnage.engines.registry import engine_release
from tonnage.report.charts.chart import Chart, led_by, memory_chart
from tonnage.report.charts.options import Axis, options_chart, point_of
from tonnage.report.document import UNKNOWN, Contents, Headline, Meter, Text
from tonnage.report.page import EVIDENCE, SHOWN, Page
from tonnage.report.screen import Ranking, held_text, price_dates, stale_text
from tonnage.report.wording import (
    bill_lines,
    chance_text,
    interval,
    meter,
    money,
    parts_table,
    plural,
    rental_text,
    shortages_text,
)
from tonnage.units import percent, show

SELDOM: Final = 0.1
"""Rates below are said by the hour. [1/s]"""
WHOLE: Final = 10.0
"""Numbers from here on have no decimals."""


def _risks(plan: InferPlan, best: InferOption) -> list[str | Text]:
    return [
        held_text(best.bill),
        f"Smaller: {plan.smaller}" if plan.smaller else "",
        stale_text(best.bill, plan.provenance.made),
        f"Host: {text}" if (text := shortages_text(best.needs)) else "",
    ]


def _ranking(plan: InferPlan) -> Ranking:
    """By the hour, or by the price of the parts where nobody rents the first."""
    rented = plan.options[0].bill is not None

    def price(option: InferOption) -> float:
        if rented:
            return float("inf") if option.bill is None else option.bill.usd_per_hour
        return float("inf") if option.price_usd is None else option.price_usd

    return Ranking(price=price, speed=lambda option: option.latency_s.value)


def _question(plan: InferPlan) -> list[str]:
    """The model, the load and its shapes, the objective, in parts of a line."""
    request, video = plan.request, plan.request.video
    parts = [model_name(request.model)]
    if video is not None:
        size = f", {video.frame_px[0]}x{video.frame_px[1]} {video.codec.upper()}"
        parts.append(f"{plural(video.streams, 'stream')} at {video.frames_per_s:g} frames/s{size}")
    else:
        parts.append(_load(plan))
    shapes = (("sequences of", request.seq_len, "tokens"), ("images of", request.resolution, "px"),
              ("", request.steps, "steps"), ("clips of", request.frames, "frames"))  # fmt: skip
    parts += [f"{lead} {number:,} {unit}".strip() for lead, number, unit in shapes if number]
    parts += [f"mean latency <= {show(request.latency_s, 's')}"] if request.latency_s else ["no latency objective"]
    parts += [f"{show(request.battery_wh, 'Wh')} battery"] if request.battery_wh else []
    parts += [f"for {request.hours:g} h"] if request.hours else []
    return [*parts, price_dates(plan.provenance)]


def _load(plan: InferPlan) -> str:
    """ "5 samples/s"; audio by hours an hour, which is what its rate counts."""
    rate = plan.request.rate_per_s
    if any(option.costs is not None and option.costs.usd_per_audio_hour is not None for option in plan.options):
        return f"{rate:,.4g} h of audio per hour"
    return show(rate, "1/s").replace("k/s", ",000/s").replace("/", " samples/")


def _recommendation(_: InferPlan, best: InferOption) -> Headline:
    run = f"{best.precision.upper()}, batch {best.batch}, {engine_release(best.engine)}"
    lead = f"{best.count} x {product(best.accelerator)}"
    if best.bill is not None:
        month = f"${best.costs.usd_per_month:,.0f}/month" if best.costs else ""
        price = f"${best.bill.usd_per_hour:,.2f}/h"
        return Headline(lead, details=(run, rental_text(best.bill)), price=price, beside=month)
    if best.price_usd is not None:
        return Headline(lead, details=(run,), price=f"{money(best.price_usd)} to buy")
    return Headline(lead, details=(run, "price not published"))


def _meters(plan: InferPlan, best: InferOption) -> list[Meter]:
    """Latency against its objective, the load against what all accelerators take, power, and the battery."""
    battery = best.battery_h
    return [
        msgspec.structs.replace(
            meter("mean latency", best.latency_s, limit=plan.request.latency_s), chance=chance_text(best.chance)
        ),
        Meter(
            "capacity",
            _capacity(best.count, best.capacity_per_s),
            used=percent(best.used),
            share=best.used,
        ),
        *([Meter("power", show(best.power_w, "W"))] if best.power_w is not None else []),
        *(
            [
                Meter(
                    "battery",
                    f"{battery:.3g} h",
                    limit=f"{plan.request.hours:g} h" if plan.request.hours else "",
                )
            ]
            if battery is not None
            else []
        ),
    ]


def _cost(option: InferOption) -> str:
    if option.bill is not None:
        return f"${option.bill.usd_per_hour:,.2f}/h"
    return money(option.price_usd) if option.price_usd is not None else UNKNOWN


def _capacity(count: int, each: Quantity) -> str:
    """What so many take, with its interval; by the hour where samples are seldom."""
    unit, times = ("/h", 3600.0 * count) if each.value * count < SELDOM else ("/s", float(count))
    numbers = [times * (one or 0.0) for one in (each.value, each.low, each.high)]
    value, low, high = (f"{number:,.0f}" if number >= WHOLE else f"{number:.2g}" for number in numbers)
    return f"{value}{unit} ({low}-{high})" if each.low is not None and each.high is not None else f"{value}{unit}"


# Why


def _why(plan: InferPlan, option: InferOption) -> dict[str, Contents]:
    shown = plan.options[:SHOWN]
    return {
        "What the money buys": account_lines(option),
        "Sources of decoder rates": sorted({option.source for option in shown if option.source}),
        "Smaller": plan.smaller,
    }


def account_lines(option: InferOption) -> list[str]:
    """
    The offer with its date; cost by month, thousand, hour of sound or camera; kWh and CO2. Empty where nobody rents it.
    """
    bill, costs, use = option.bill, option.costs, option.energy
    if bill is None or costs is None:
        return []
    old = ", an old price: check it" if bill.stale else ""
    where = " ".join((provider_name(bill.provider), str(bill.instances), "x", bill.instance_type, bill.region)).strip()
    summary = [
        f"{show(bill.usd_per_hour, 'USD/h')} at {where} ({bill.term}, {bill.as_of}{old}): "
        f"${costs.usd_per_month:,.0f} a month of 730 h, without VAT"
    ]
    if costs.usd_per_thousand is not None and costs.usd_per_thousand_full is not None:
        summary.append(
            f"{show(costs.usd_per_thousand, 'USD')} per thousand at this load, "
            f"{show(costs.usd_per_thousand_full, 'USD')} at full use; at most "
            f"{show(costs.per_s_per_usd_hour, '1/s')} for each dollar an hour"
        )
    if costs.usd_per_audio_hour is not None and costs.usd_per_audio_hour_full is not None:
        summary.append(
            f"{show(costs.usd_per_audio_hour, 'USD')} per hour of audio at this load, "
            f"{show(costs.usd_per_audio_hour_full, 'USD')} at full use; at most "
            f"{costs.per_s_per_usd_hour:,.0f} hours of audio for a dollar"
        )
    if costs.usd_per_stream_month is not None:
        summary.append(f"{show(costs.usd_per_stream_month, 'USD')} a month for each stream")
    if use is not None:
        carbon = "the grid of this region is not known"
        if use.kg_co2_per_month is not None:
            carbon = f"{use.kg_co2_per_month:,.3g} kg CO2 a month ({use.grid}, {use.grams_per_kwh:g} g/kWh)"
        summary.append(f"{use.kwh_per_month:,.3g} kWh a month with hosts and cooling; {carbon}")
    return summary


def _option_parts(plan: InferPlan, option: InferOption) -> dict[str, Contents]:
    return {
        "Memory of one accelerator": parts_table(option.memory),
        "What one does, and how many that takes": _count(plan, option),
        "Bill": bill_lines(option.bill) if option.bill is not None else None,
        "What the money buys": account_lines(option),
        "Sources of decoder rates": option.source,
    }


def _count(plan: InferPlan, option: InferOption) -> list[str]:
    """How the number of accelerators comes about."""
    load, each = plan.request.rate_per_s, option.capacity_per_s
    whole = option.count * each.value
    return [
        f"one takes {each.shown()} in batches of {option.batch}, basis {option.basis}",
        f"{show(load, '1/s')} / ({option.count} x {show(each.value, '1/s')}) = {percent(load / whole)} in use; "
        f"what sets the count: {option.binds}",
        f"arithmetic in use: {percent(option.arithmetic_used, 1)} of the peak",
        *([] if option.decode_used is None else [f"video decoders in use: {percent(option.decode_used)}"]),
        f"latency {show(option.latency_s.value, 's')}: filling the batch, waiting, running",
    ]


CELLS: Final = (
    ("format<4", lambda option: option.precision.upper()),
    ("batch>8", lambda option: str(option.batch)),
    ("cost>", _cost),
    ("latency~", lambda option: interval(option.latency_s)),
    ("capacity~", lambda option: _capacity(option.count, option.capacity_per_s)),
    ("used>6", lambda option: percent(option.used)),
    ("power>7", lambda o: UNKNOWN if o.power_w is None else show(o.power_w, "W")),
    EVIDENCE,
    ("engine<5", lambda option: engine_release(option.engine)),
    ("provider<3", lambda option: provider_name(option.bill.provider) if option.bill else "to buy"),
)


def infer_charts(plan: InferPlan, rank: int = 1) -> tuple[Chart | None, ...]:
    """Latency against price, and memory of the first options and that of that rank."""
    return (_latency_and_price(plan, rank), memory_chart(led_by(plan.options, rank, most=5), _infer_label))


def _latency_and_price(plan: InferPlan, chosen: int) -> Chart | None:
    """Latency against the price of an hour; None where nothing is rented."""
    points = [
        point_of(
            _infer_label(option),
            option.latency_s,
            scale=1e3,
            usd=option.bill.usd_per_hour,
            evidence=str(option.basis),
            rank=rank,
            bill=option.bill,
        )
        for rank, option in enumerate(plan.options, 1)
        if option.bill is not None
    ]
    limit = plan.request.latency_s
    time = Axis("mean latency", "ms", None if limit is None else 1e3 * limit)
    return options_chart(points, time=time, money=Axis("Price", "USD/h"), chosen=chosen)


def _infer_label(option: InferOption) -> str:
    return f"{parts_name(option.count, option.accelerator)} {option.precision.upper()}"


PAGE: Final = Page(
    charts=infer_charts,
    question=_question,
    ranking=_ranking,
    answer=_recommendation,
    meters=_meters,
    cells=lambda *_: CELLS,
    risks=_risks,
    why=_why,
    name=lambda option: f"{parts_name(option.count, option.accelerator)} {option.precision} {option.engine}",
    parts=_option_parts,
    lost="accelerators",
    used=lambda option, name: f"{option.count} x {name}",
    lead=lambda option: f"{part_name(option.accelerator)}: ",
)
