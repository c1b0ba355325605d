"""What a budget buys, as a document: the largest rate or the best models, or runs and fine-tunes; then the laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tonnage.catalog import accelerators_text, model_name, parts_name
from tonnage.catalog.standings import score_text, told_standings
from tonnage.domain.plan import option_at_rank
from tonnage.domain.requests.common import Slo
from tonnage.pricing.bills import HOURS_PER_MONTH
from tonnage.questions.budget.question import OPTIMAL, Affordable, AffordableRun, BudgetPlan
from tonnage.questions.serve.page import chance_name, latency_meters, serve_question
from tonnage.questions.serve.question import command_of
from tonnage.report.charts.chart import Chart, axis, limit_line, log_axis, named_points, records
from tonnage.report.document import (
    UNKNOWN,
    Block,
    Document,
    Headline,
    Meter,
    Note,
    Section,
    Table,
    Text,
    grid,
    sections,
)
from tonnage.report.page import WholePage, explained_whole
from tonnage.report.screen import first_screen, held_text, price_dates, stale_text
from tonnage.report.wording import chance_text, degrees, meter, money, rental_text, spread_usd
from tonnage.units import percent, show

REST: Final = "Why, assumptions, sources: --why."
Screen = Callable[..., tuple[Block, ...]]
"""A first screen whose question, measurement and last line are given."""


def _document(plan: BudgetPlan, *, most: int | None) -> Document:
    """The plan as blocks; `most` models in the table, None = every one."""
    screen = partial(first_screen, question=_question(plan), measure=plan.measure_first, rest=Note(hint=REST))
    if plan.models:
        first = _serving(plan, plan.models[: most or len(plan.models)], screen=screen)
    elif plan.runs:
        first = _runs(plan, screen=screen)
    else:
        first = screen(answer=plan.sentence, good=plan.feasible, table=_tunes(plan))
    return Document(first, _why(plan))


def _opened(plan: BudgetPlan, *, rank: int) -> Document:
    """
    The plan with the bill of its first line opened; `rank` is checked to be a line of it and changes nothing.

    Raises
    ------
    BadRequest
        It has no line of that rank.
    """
    option_at_rank(plan.models or plan.runs or plan.tunes or (plan,), rank)
    title = "Bill of the first, opened"
    return explained_whole(plan, _why(plan), question=_question(plan), bill=plan.bill, title=title)


def _question(plan: BudgetPlan) -> list[str]:
    """The amount with what it is for and what is asked of it, in parts of a line."""
    request = plan.request
    named = [] if request.model is None else [model_name(request.model)]
    limits = [f"within {show(request.deadline_s, 's')}"] if request.deadline_s else []
    if request.purpose != "serving":
        return [*named, f"{request.amount} for {request.purpose}", *limits]
    asked = serve_question(request.serve)[:1] + serve_question(request.serve)[2:] if request.serve else []
    rate = f"{show(request.rate_per_s, '1/s')}" if request.rate_per_s else ""
    return [*named, request.amount, rate, *asked, price_dates(plan.provenance)]


def _serving(plan: BudgetPlan, models: Sequence[Affordable], *, screen: Screen) -> tuple[Block, ...]:
    """The first screen of a service: the first model at its rate, and from which rate on it costs more."""
    best = plan.models[0]
    option, request = best.option, plan.request
    rate = show(best.rate_per_s, "1/s").replace("/s", " req/s")
    of = model_name(best.model)
    meters = [
        Meter("tokens", f"{best.output_tokens_per_s:,.0f} output tokens/s"),
        *latency_meters(request.serve.slo if request.serve else Slo(), option.capacity),
    ]
    if request.serve and option.chance is not None:
        meters.append(Meter(chance_name(request.serve), chance_text(option.chance)))
    if request.usd_per_h:
        spent = best.usd_per_month / (request.usd_per_h * HOURS_PER_MONTH)
        meters.append(Meter("budget used", percent(spent)))
    ends = best.next_rate_per_s
    beyond = f"${best.next_usd_per_month:,.0f}/month" if best.next_usd_per_month else "more than the budget"
    step = f"From {show(ends, 'count', digits=4)} req/s on it costs {beyond}." if ends and request.model else ""
    assert request.serve is not None, "a service was asked for"
    command = command_of(replace(request.serve, model=best.model, rate_per_s=best.written_rate_per_s))
    return screen(
        answer=Headline(
            f"{rate} of {of}",
            details=(accelerators_text(option), rental_text(option.bill)),
            price=f"${best.usd_per_month:,.0f}/month",
        ),
        meters=meters,
        table=_models(models, benchmark=plan.benchmark),
        risks=[
            step,
            held_text(option.bill) or stale_text(option.bill, plan.provenance.made),
            f"Its plan: `{command}`.",
        ],
    )


def _models(models: Sequence[Affordable], *, benchmark: str) -> Table:
    """Models within the budget at their rates, a row each; accelerators and dollars a month are of all replicas."""
    heads = ("model", f"{benchmark}>", "req/s>", "tokens/s>1", "accelerators", "layout<3", "meets>", "$/month>",
             "evidence<2")  # fmt: skip
    rows = [
        (
            model_name(one.model),
            score_text(one.stands) or UNKNOWN,
            show(one.rate_per_s, "count"),
            f"{one.output_tokens_per_s:,.0f}",
            accelerators_text(one.option),
            f"{degrees(one.option.configuration)} {one.option.configuration.precision.stored.upper()}",
            chance_text(one.option.chance),
            f"{one.usd_per_month:,.0f}",
            str(one.option.basis),
        )
        for one in models
    ]
    return grid(heads, rows)


def _runs(plan: BudgetPlan, *, screen: Screen) -> tuple[Block, ...]:
    """The first screen of training: the compute-optimal run, other sizes for the same money, and what serving saves."""
    first = plan.runs[0]
    cut = max((one for one in plan.runs if one.saves_share), key=lambda one: one.saves_share or 0.0, default=None)
    spread: str | Text = ""
    if plan.optimal_range is not None:
        low, high = plan.optimal_range
        text = f"Published laws put the compute-optimal size between {_size(low)} and {_size(high)}"
        spread = Text(f"{text}{'' if first.name == OPTIMAL else ', on more tokens than there are'}.", kind="fact")
    saves = ""
    if cut is not None and cut.saves_share and cut.pays_after_tokens:
        saves = (
            f"{_size(cut.parameters)} on {_size(cut.tokens)} tokens serves {percent(cut.saves_share)} cheaper than the "
            f"optimal size of its loss: pays off after {_size(cut.pays_after_tokens)} output tokens."
        )
    tuned = ", ".join(
        f"{model_name(one.model)} by {one.method} on {_size(one.tokens)} tokens" for one in plan.tunes[:2]
    )
    return screen(
        answer=Headline(
            f"{_size(first.parameters)} parameters on {_size(first.tokens)} tokens",
            details=(
                parts_name(first.configuration.count, first.configuration.accelerator),
                show(first.wall_s, "s"),
            ),
            price=money(first.cost.value),
        ),
        meters=[meter("cost", first.cost, limit=plan.request.usd)],
        table=_sizes(plan.runs),
        risks=[spread, saves, f"Or fine-tune: {tuned}." if tuned else ""],
    )


def _size(count: float) -> str:
    """ "2.91B", "58B", "1.2T"."""
    for unit, factor in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if count >= 0.9995 * factor:
            return f"{count / factor:.3g}{unit}"
    return f"{count:,.0f}"


def _sizes(runs: tuple[AffordableRun, ...]) -> Table:
    """Sizes for the same money: loss by the laws, cost of training, and price of serving afterwards."""
    heads = ("size", "parameters>", "tokens>", "tokens/parameter>2", "loss (laws)>", "accelerators", "time>", "cost>",
             "$/M out>1")  # fmt: skip
    rows = [
        (
            one.name,
            _size(one.parameters),
            _size(one.tokens),
            f"{one.tokens / one.parameters:,.0f}",
            f"{one.loss:.2f} ({one.loss_low:.2f}-{one.loss_high:.2f})",
            parts_name(one.configuration.count, one.configuration.accelerator),
            show(one.wall_s, "s"),
            money(one.cost.value),
            UNKNOWN if one.usd_per_million_output_tokens is None else f"{one.usd_per_million_output_tokens:.3g}",
        )
        for one in runs
    ]
    return grid(heads, rows)


def _tunes(plan: BudgetPlan) -> Table:
    """Fine-tunes for the same money: tokens of one pass, time, cost."""
    rows = [
        (
            model_name(one.model),
            one.method,
            _size(one.tokens),
            parts_name(one.configuration.count, one.configuration.accelerator),
            show(one.wall_s, "s"),
            spread_usd(one.cost),
        )
        for one in plan.tunes
    ]
    return grid(["model", "method", "tokens>", "accelerators", "time>", "cost>"], rows)


def _why(plan: BudgetPlan) -> tuple[Section, ...]:
    """Sections of `--why`."""
    laws = [
        f"{law.name}: L = {law.irreducible:g} + {law.parameter_factor:g} / N^{law.parameter_exponent:g} + "
        f"{law.token_factor:g} / D^{law.token_exponent:g}; {law.source}"
        for law in plan.laws
    ]
    bills = [
        f"{model_name(one.model)}: {one.option.replicas} replicas, {rental_text(one.option.bill)}, "
        f"price of {one.option.bill.as_of}"
        for one in plan.models
    ]
    quality = [
        *([f"scores are {plan.benchmark} of the released weights as each publisher ran it"] if plan.models else []),
        *told_standings({one.model: one.stands for one in plan.models}, plan.benchmark),
    ]
    return sections(
        {
            "Answer": plan.sentence,
            "Bills": bills,
            "Fine-tunes for the same money, one pass": _tunes(plan),
            "Laws": laws,
            "Assumptions": [*plan.provenance.assumed, *quality],
        }
    )


def _charts(plan: BudgetPlan) -> tuple[Chart | None, ...]:
    """What the money buys: rates of one model by their cost, models by score, or sizes by loss."""
    if len(plan.models) == 1 and plan.models[0].priced:
        return (_rates(plan, plan.models[0]),)
    points = [(model_name(one.model), one.usd_per_month, one.stands.score) for one in plan.models if one.stands]
    if len(points) > 1:
        return (_bought(points, f"{plan.benchmark} as published (up is better)", plan=plan),)
    return (_losses(plan.runs),) if len(plan.runs) > 1 else ()


def _usd_per_month(plan: BudgetPlan) -> float:
    return (plan.request.usd_per_h or 0.0) * HOURS_PER_MONTH


def _budget_line(plan: BudgetPlan, channel: str) -> tuple[dict[str, Any], ...]:
    usd = _usd_per_month(plan)
    return (limit_line(channel, usd, says=f"budget {money(usd)}"),) if usd else ()


def _rates(plan: BudgetPlan, best: Affordable) -> Chart:
    """Cost a month over the rate, as far as the search priced it, up to the least rate beyond the budget."""
    path = list(best.priced)
    if best.next_rate_per_s and best.next_usd_per_month:
        path.append((best.next_rate_per_s, best.next_usd_per_month))
    x = axis("x", f"mean rate of {model_name(best.model)}, req/s (right is more)", scale={"domainMin": 0})
    y = axis("y", "USD/month", scale={"domainMin": 0})
    steps = {"data": records(("x", "y"), path),
             "mark": {"type": "line", "interpolate": "step-before", "strokeWidth": 1.5, "opacity": 0.8},
             "encoding": {"x": x, "y": y}}  # fmt: skip
    name = f"{show(best.rate_per_s, 'count')} req/s, ${best.usd_per_month:,.0f}"
    points = [(name, best.rate_per_s, best.usd_per_month)]
    points += [("", rate, usd) for rate, usd in path if rate != best.rate_per_s]
    return Chart(
        "buys",
        "Cost against the rate",
        "Each point is a rate that the search priced, at the cheapest option within the objectives; the largest within "
        "the budget is ringed.",
        body=named_points(x, y, points=points, under=(steps, *_budget_line(plan, "y"))),
        columns=("req/s", "USD/month"),
        rows=tuple((show(rate, "count"), f"{usd:,.0f}") for rate, usd in sorted(path)),
    )


def _bought(points: Sequence[tuple[str, float, float]], title: str, *, plan: BudgetPlan) -> Chart:
    """Published scores of models over what the rate costs with each."""
    x = axis("x", "USD/month (left is cheaper)", scale={"domainMin": 0})
    y = axis("y", title, scale={"zero": False, "padding": 30})
    return Chart(
        "buys",
        "Quality against cost",
        "Each point is a model that carries the rate within the budget; the best by published score is ringed.",
        body=named_points(x, y, points=points, under=_budget_line(plan, "x"), reach=_usd_per_month(plan)),
        columns=("model", "USD/month", plan.benchmark),
        rows=tuple((name, f"{usd:,.0f}", f"{score:.1f}") for name, usd, score in points),
    )


def _losses(runs: Sequence[AffordableRun]) -> Chart:
    """Loss by the laws over the tokens of each size, with the least and the most of the laws."""
    x = log_axis("x", "billions of tokens to train on, log scale", over=[run.tokens / 1e9 for run in runs], room=1.6)
    y = axis("y", "loss by the laws, nats/token (down is better)", scale={"zero": False, "padding": 24})
    spread = {"data": records(("x", "y", "high"), [(run.tokens / 1e9, run.loss_low, run.loss_high) for run in runs]),
              "mark": {"type": "rule", "style": "interval"},
              "encoding": {"x": x, "y": y, "y2": {"field": "high"}}}  # fmt: skip
    return Chart(
        "buys",
        "Sizes for the same money",
        "Each point is a size of model with the tokens that the budget trains it on; lines go from the least to the "
        "most loss of the published laws, the first size is ringed.",
        body=named_points(
            x, y, points=[(_size(run.parameters), run.tokens / 1e9, run.loss) for run in runs], under=(spread,)
        ),
        columns=("parameters", "tokens", "loss", "of the laws"),
        rows=tuple(
            (_size(run.parameters), _size(run.tokens), f"{run.loss:.2f}", f"{run.loss_low:.2f}-{run.loss_high:.2f}")
            for run in runs
        ),
    )


PAGE: Final = WholePage(document=_document, opened=_opened, charts=_charts)
