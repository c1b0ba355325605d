"""A lifecycle as a document: both halves and their one bill; then one kind for both, savings options, the timeline."""

from __future__ import annotations

from typing import Final

from tonnage.catalog import model_name, part_name, provider_name
from tonnage.questions.lifecycle.question import LifecyclePlan, SavingsOption
from tonnage.questions.serve.charts import serve_charts
from tonnage.questions.serve.page import PAGE as SERVE_PAGE
from tonnage.questions.serve.page import chance_name, latency_meters, serve_question
from tonnage.questions.train.page import PAGE as TRAIN_PAGE
from tonnage.questions.train.page import timeline_chart, train_question
from tonnage.report.charts.chart import Chart
from tonnage.report.document import (
    Block,
    Document,
    Meter,
    Section,
    Table,
    grid,
    sections,
)
from tonnage.report.page import WholePage, usd_table
from tonnage.report.screen import (
    ROWS,
    Pick,
    closest_break_even,
    first_screen,
    held_text,
    left_out,
    picks,
    price_dates,
    short_names,
    stale_text,
)
from tonnage.report.wording import chance_text, degrees, interval, meter, money, parts_table, spread_usd
from tonnage.units import percent, show

TYPES: Final = 8
"""Accelerators that could do both, under --why."""


def _document(plan: LifecyclePlan, *, most: int | None) -> Document:
    """The plan as blocks; `most` kinds of accelerator that could do both, None = as many as `--why` has."""
    why = _why(plan, kinds=most or TYPES)
    if plan.bill is None:
        return Document(first_screen(question=_question(plan), answer=plan.sentence, good=False), why)
    make, serve = plan.make.options[0], plan.serve.options[0]
    saving = max((one for one in plan.savings if one.saves_usd), key=lambda one: one.saves_usd or 0.0, default=None)
    first = first_screen(
        question=_question(plan),
        answer=f"{money(plan.bill.value)} in {plan.request.months:g} months: train on {make.accelerators} x "
        f"{part_name(make.configuration.accelerator)}, serve on {serve.accelerators} x "
        f"{part_name(serve.configuration.accelerator)}",
        meters=_meters(plan),
        table=_halves(plan),
        risks=[
            f"Cheaper: {_lever(saving)}." if saving and (saving.saves_usd or 0.0) > 0 else "",
            f"Single kind of accelerator: {plan.one_type_text}" if plan.one_type_text else "",
            held_text(serve.bill)
            or stale_text(serve.bill, plan.provenance.made)
            or closest_break_even(plan.serve.break_even),
        ],
        measure=plan.measure_first,
        rest=left_out(()),
    )
    return Document(first, why)


def _question(plan: LifecyclePlan) -> list[str]:
    """The model, how it is made and how it is served, in parts of a line."""
    request = plan.request
    again = f", {request.retrainings:g} retrainings" if request.retrainings else ""
    return [
        model_name(request.make.model),
        f"train, then serve for {request.months:g} months{again}",
        *train_question(request.make),
        *serve_question(request.serve),
        price_dates(plan.serve.provenance),
    ]


def _meters(plan: LifecyclePlan) -> list[Meter]:
    """Time of the training, latencies of the service, and what the whole life takes."""
    make, serve, asked = plan.make.options[0], plan.serve.options[0], plan.request.serve
    meters = [meter("training", make.run.wall_s, limit=plan.request.make.deadline_s)]
    meters += [one for one in latency_meters(asked.slo, serve.capacity) if one.limit]
    if serve.chance is not None:
        meters.append(Meter(chance_name(asked), chance_text(serve.chance)))
    if plan.serve_share is not None:
        meters.append(Meter("serving", f"{percent(plan.serve_share)} of the bill"))
    if plan.kwh is not None:
        meters.append(Meter("electricity", show(plan.kwh * 1e3, "Wh")))
    if plan.kg_co2 is not None:
        meters.append(Meter("CO2", f"{show(plan.kg_co2, 'count')} kg"))
    return meters


def _halves(plan: LifecyclePlan) -> Table:
    """A row a half, and below it the half's other choices: either may be taken, for the halves share no machine."""
    heads = ("", "accelerators~", "how<3", "speed", "cost", "meets>", "evidence", "provider<2")
    shown = [half.options[pick.place].configuration for half in (plan.make, plan.serve) for pick in picks(half)]
    short = short_names(one.accelerator for one in shown)
    rows = [
        (
            _choice("train", pick),
            f"{make.accelerators} x {short[make.configuration.accelerator]}",
            make.configuration.precision.upper(),
            interval(make.run.wall_s),
            f"{spread_usd(make.cost)} each",
            chance_text(make.chance),
            str(make.basis),
            provider_name(make.bill.provider),
        )
        for pick in picks(plan.make)
        for make in (plan.make.options[pick.place],)
    ]
    rows += [
        (
            _choice("serve", pick),
            f"{serve.accelerators} x {short[serve.configuration.accelerator]}",
            f"{serve.replicas}x{degrees(serve.configuration)} {serve.configuration.precision.stored.upper()}",
            f"TPOT {interval(serve.capacity.tpot_s)}",
            f"{money(serve.usd_per_month)}/month",
            chance_text(serve.chance),
            str(serve.basis),
            provider_name(serve.bill.provider),
        )
        for pick in picks(plan.serve)
        for serve in (plan.serve.options[pick.place],)
    ]
    return grid(heads, rows)


def _choice(half: str, pick: Pick) -> str:
    """The plan takes the first of a half; its other choices are named."""
    return half if pick.place == 0 else f"  {pick.name}"


def _why(plan: LifecyclePlan, *, kinds: int) -> tuple[Section, ...]:
    """Sections of `--why`; what the halves assume as well is said once."""
    carbon = "carbon: a grid is not known" if plan.kg_co2 is None else f"{plan.kg_co2:,.0f} kg CO2"
    electricity = "electricity: the power of an accelerator of one half is not published"
    if plan.kwh is not None:
        electricity = f"{plan.kwh:,.0f} kWh with hosts and cooling; {carbon}"
    assumed = (*plan.provenance.assumed, *plan.make.provenance.assumed, *plan.serve.provenance.assumed)
    # What the life says of its prices, its halves need not say again.
    again = [text for text in assumed if text not in plan.provenance.assumed and text.startswith("prices exclude VAT")]
    nearest = plan.binding.nearest if plan.binding is not None else None
    return sections(
        {
            "Answer": plan.sentence,
            "Training": plan.make.sentence,
            "Serving": plan.serve.sentence,
            "Bill": () if plan.bill is None else (usd_table(plan.bill), electricity),
            "One kind of accelerator for both": (plan.one_type_text, _types(plan, kinds)),
            "Savings options": [_lever(lever) for lever in plan.savings],
            "Timeline": [
                f"{show(stone.after_s, 's') if stone.after_s else 'start'}: {stone.what}" for stone in plan.timeline
            ],
            "Nearest": nearest,
            "Assumptions": dict.fromkeys(text for text in assumed if text not in again),
        }
    )


def _types(plan: LifecyclePlan, kinds: int) -> Table:
    """Kinds of accelerator that could do both, with the cost of the whole life."""
    rows = [
        (
            part_name(one.accelerator),
            f"{one.make_usd:,.0f}",
            f"{one.serve_usd:,.0f}",
            f"{one.total_usd:,.0f}",
            f"{one.times_the_mix:.2f}x",
        )
        for one in plan.one_type[:kinds]
    ]
    return grid(["accelerator", "training, $>", "serving, $>", "both, $>", "of the mix>"], rows)


def _lever(lever: SavingsOption) -> str:
    if lever.usd is None or lever.saves_usd is None:
        return f"{lever.change}: {lever.what}"
    quality = f" ({lever.quality})" if lever.quality else ""
    return f"{lever.change}: {money(lever.usd)}, {lever.what}{quality}"


def _opened(plan: LifecyclePlan, *, rank: int) -> Document:
    """
    The life, then both of its plans opened; `rank` chooses the option of each.

    Raises
    ------
    BadRequest
        A half has no option of that rank.
    """
    why: list[Block] = list(_why(plan, kinds=ROWS))
    if plan.bill is not None:
        why += sections({"The whole bill, opened": parts_table(plan.bill)})
    for title, half in (
        ("Training", TRAIN_PAGE.opened(plan.make, rank=rank)),
        ("Serving", SERVE_PAGE.opened(plan.serve, rank=rank)),
    ):
        why += [
            Section(f"{title}: {block.title}", block.blocks) if isinstance(block, Section) else block
            for block in half.why
        ]
    question = first_screen(question=_question(plan), answer=plan.sentence, good=plan.feasible)
    return Document(question, tuple(why))


def _charts(plan: LifecyclePlan) -> tuple[Chart | None, ...]:
    return (*serve_charts(plan.serve), timeline_chart(plan.timeline))


PAGE: Final = WholePage(document=_document, opened=_opened, charts=_charts)
