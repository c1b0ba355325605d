"""
A plan of reinforcement learning as a document: what to rent, who generates and who trains; the step opened; pictures.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

from tonnage.catalog import accelerators_text, model_name, parts_asked, product
from tonnage.domain.answer import Quantity
from tonnage.questions.rl.question import RlOption, RlPlan
from tonnage.questions.train.page import electricity_of_run
from tonnage.report.charts.chart import Chart, axis, colour, layer_charts, led_by, memory_chart, names, records
from tonnage.report.document import Contents, Headline, Meter, Text
from tonnage.report.page import COST, PROVIDER, SURE, TERM, TIME, Page, at
from tonnage.report.screen import held_text, price_dates, risk, run_price, stale_text
from tonnage.report.wording import (
    bill_lines,
    chance,
    chance_text,
    meter,
    need_text,
    parts_table,
    plural,
    rental_text,
)
from tonnage.units import percent, show


def _risks(plan: RlPlan, best: RlOption) -> list[str | Text]:
    return [
        _memory_risk(plan, best),
        stale_text(best.bill, plan.provenance.made),
        held_text(best.bill, run=True),
        f"Off policy: {plan.off_policy}" if plan.off_policy else "",
        _next_split(plan),
        f"Cheaper, less sure: {plan.cheaper_at_risk}" if plan.cheaper_at_risk else "",
        _cores(best),
    ]


def _memory_risk(plan: RlPlan, best: RlOption) -> Text | str:
    """That the run may end for want of memory, where it holds less surely than asked for."""
    sure = chance(best.memory, best.limit_bytes)
    if sure is None or sure >= plan.request.confidence:
        return ""
    return risk(
        f"memory holds with a chance of {chance_text(sure)} only; try one step first, or give the run more "
        "accelerators (--count) or shorter responses (--max-response-tokens)."
    )


def _question(plan: RlPlan) -> list[str]:
    """Model, algorithm, steps, responses and limits, in parts of a line."""
    request = plan.request
    responses = f"{request.prompts_per_step:,} x {request.responses_per_prompt} responses"
    return [
        model_name(request.model),
        request.algorithm.upper(),
        f"{request.steps:,.0f} steps",
        f"{responses} of {request.response_tokens:,.0f}",
        f"{plural(request.staleness, 'step')} off policy" if request.staleness else "on policy",
        plural(request.count, "accelerator") if request.count else "",
        parts_asked(request.filters.accelerators),
        f"within {show(request.deadline_s, 's')}" if request.deadline_s else "",
        f"at most {show(request.budget_usd, 'USD')}" if request.budget_usd else "",
        price_dates(plan.provenance),
    ]


def _recommendation(_: RlPlan, best: RlOption) -> Headline:
    price, note = run_price(best.cost, wall_s=best.run.wall_s.value, usd_per_hour=best.bill.usd_per_hour)
    lead = f"{best.accelerators} x {product(best.case.accelerator)}"
    return Headline(lead, details=(_split(best), rental_text(best.bill)), price=price, price_note=note)


def _split(option: RlOption) -> str:
    """Layouts of both sides: "shared: rollout 16 x TP2, training EP8 DP32 ZeRO-1"."""
    trained = option.configuration.layout.label
    replica = f"rollout {option.replicas} x TP{option.case.rollout_layout.tp}"
    if option.shared:
        return f"shared: {replica}, training {trained}"
    return f"{option.rollout_accelerators} {replica}, {option.train_accelerators} training {trained}"


def _meters(plan: RlPlan, best: RlOption) -> list[Meter]:
    """The step with its phases, the run's time against the deadline, and memory of an accelerator that trains."""
    phases = (
        Meter(name, show(sum(phase.value for phase in best.phases if phase.name == name), "s"))
        for name in ("rollout", "training", "weights")
    )
    return [
        meter("step", best.step_s),
        *([Meter("bound by", best.binds)] if best.binds else []),
        *phases,
        meter("time", best.run.wall_s, limit=plan.request.deadline_s),
        meter("memory", best.memory, limit=best.limit_bytes),
    ]


def _next_split(plan: RlPlan) -> str:
    """
    The split of the same accelerators whose step is next to the first's; empty where they are shared or no other was
    predicted.
    """
    best = plan.options[0]
    others = sorted((s for s in plan.splits if s.rollout != best.rollout_accelerators), key=lambda s: s.step_s)
    if not others:
        return ""
    other = others[0]
    slower = other.step_s / best.step_s.value - 1.0
    return (
        f"Another split: {other.rollout} for rollout and {other.training} for training take {percent(slower)} "
        f"longer a step "
        f"(rollout {show(other.rollout_s, 's')}, training {show(other.training_s, 's')})."
    )


def _cores(best: RlOption) -> Text | str:
    need = next((need for need in best.needs if need.unit == "cores"), None)
    if need is None:
        return ""
    text = f"Rewards: {need.need:,.0f} CPU cores keep up with generation ({need.why})."
    return Text(text, kind="fact")


def _why(plan: RlPlan, best: RlOption) -> dict[str, Contents]:
    """Sections of `--why` on an option."""
    return {
        "One step": _tree_lines(best.step),
        "Splits of these accelerators": [
            f"{s.rollout} + {s.training}: rollout {show(s.rollout_s, 's')}, training {show(s.training_s, 's')}, step "
            f"{show(s.step_s, 's')}"
            for s in plan.splits
        ],
        "Off policy": plan.off_policy,
        "Cheaper, at a risk": plan.cheaper_at_risk,
        "Rates": _rates(best),
        "Host and storage": [need_text(need) for need in best.needs],
    }


def _rates(option: RlOption) -> list[str]:
    """Tokens per second of both sides, and electricity of the run."""
    trained = option.tokens_per_s_per_accelerator
    return [
        f"{trained.value:,.0f} tokens/s trained on per accelerator, both sides counted",
        f"{option.rollout_tokens_per_s_per_accelerator:,.0f} tokens/s generated per accelerator that generates",
        *electricity_of_run(option, tokens=option.run.steps * _step_tokens(option)),
    ]


def _step_tokens(option: RlOption) -> float:
    """Prompts, observations and responses of a step. [tokens]"""
    case = option.case
    return case.responses * (case.given_tokens + case.response_tokens)


def _tree_lines(node: Quantity, depth: int = 0) -> list[str]:
    """The tree of a step, a line a part; of parts that run beside each other the longest counts."""
    told = f" ({node.how})" if node.how else ""
    lines = [f"{'  ' * depth}{node.name}: {show(node.value, node.unit)}{told}"]
    return [*lines, *(line for part in node.parts for line in _tree_lines(part, depth + 1))]


def _option_parts(plan: RlPlan, option: RlOption) -> dict[str, Contents]:
    return {
        "One step": _tree_lines(option.step),
        "Memory of an accelerator that trains": parts_table(option.memory),
        "Memory of an accelerator that generates": parts_table(option.rollout_memory),
        "Rates": _rates(option),
        "Host and storage": [need_text(need) for need in option.needs],
        "Cost of the run": parts_table(option.cost),
        "Bill": bill_lines(option.bill),
    }


CELLS: Final = (
    ("split~4", _split),
    ("step>", lambda option: show(option.step_s.value, "s")), TIME, COST,
    ("binds<5", lambda option: option.binds),
    ("tokens/s each>6", lambda o: f"{o.tokens_per_s_per_accelerator.value:,.0f}"),
    SURE, at(PROVIDER, 3), at(TERM, 7),
)  # fmt: skip


MOST_OPTIONS: Final = 6
"""Of reinforcement learning whose memory and phases are drawn."""


def rl_charts(plan: RlPlan, rank: int = 1) -> tuple[Chart | None, ...]:
    """Every picture of a feasible plan, of the option of that rank; none where nothing works."""
    if not plan.options:
        return ()
    return (_phases(plan, rank), memory_chart(led_by(plan.options, rank, most=MOST_OPTIONS), accelerators_text))


def _phases(plan: RlPlan, rank: int) -> Chart:
    """
    A step on a timeline: of the splits where accelerators generate or train alone, both from its start, else of the
    option of that rank, one phase after the other.
    """
    rows: list[tuple[Any, ...]] = []
    if plan.splits:
        what = "accelerators that generate + that train"
        for split in plan.splits:
            label = f"{split.rollout} + {split.training}"
            rows += [(label, "rollout", 0.0, split.rollout_s), (label, "training", 0.0, split.training_s)]
    else:
        what, phases = "", plan.options[rank - 1].phases
        ends = list(accumulate(phase.value for phase in phases))
        rows = [("step", one.name, *span) for one, *span in zip(phases, (0.0, *ends[:-1]), ends, strict=True)]
    columns = ("where", "phase", "begins", "ends")
    body = layer_charts(
        records(columns, rows),
        {
            "mark": {"type": "bar", "tooltip": {"content": "data"}},
            "encoding": {
                "y": names("where" if plan.splits else "phase", what),
                "x": axis("begins", "seconds since the step began (a shorter step is better)"),
                "x2": {"field": "ends"},
                "color": {**colour("phase"), **({} if plan.splits else {"legend": None})},
                **({"yOffset": {"field": "phase"}} if plan.splits else {}),
            },
        },
    )
    longest = max(rows, key=lambda row: row[3] - row[2])
    return Chart(
        "phases",
        "A step as a timeline",
        f"When each phase of a step begins and ends; the longest is {longest[1]}"
        f"{f' of {longest[0]}' if plan.splits else ''} with {show(longest[3] - longest[2], 's')}.",
        body=body,
        columns=(what or "of", "phase", "begins", "ends"),
        rows=tuple((where, phase, show(begins, "s"), show(ends, "s")) for where, phase, begins, ends in rows),
    )


PAGE: Final = Page(
    charts=rl_charts,
    question=_question,
    answer=_recommendation,
    meters=_meters,
    cells=lambda *_: CELLS,
    risks=_risks,
    why=_why,
    name=accelerators_text,
    parts=_option_parts,
    ruled_out="Ruled out, or at least twice as expensive",
    looked=lambda plan: f"{plan.evaluated} layouts evaluated",
    hosts=False,
    linked=False,
)
