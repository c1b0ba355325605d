"""A plan of reinforcement learning as a document: what to rent, who generates and who trains, and the step opened."""

from __future__ import annotations

from typing import Final

from tonnage.domain.answer import Quantity
from tonnage.domain.requests.rl import Rl
from tonnage.domain.rl_plan import RlOption, RlPlan
from tonnage.report.document import Block, Column, Document, Meter, Table, section, text_section
from tonnage.report.names import model_name, product, provider_name, with_names
from tonnage.report.screen import (
    Pick,
    Ranking,
    columns_of,
    explain_option,
    first_screen,
    held_text,
    left_out,
    no_plan,
    price_dates,
    rows_shown,
    run_price,
    short_names,
    stale_text,
)
from tonnage.report.train import electricity_of_run
from tonnage.report.wording import (
    bill_lines,
    chance,
    chance_text,
    decisions,
    interval,
    limits,
    need_text,
    parts_table,
    plural,
    rejections,
    rental_text,
    spread_usd,
)
from tonnage.units import show

__all__ = ["explain_rl_plan", "rl_document", "rl_question"]

SHOWN: Final = 8
"""Options whose verdict stands under --why."""
RANKING: Final = Ranking(price=lambda option: option.cost.value, speed=lambda option: option.run.wall_s.value)


def rl_document(plan: RlPlan, *, top: int | None = None, every: bool = False) -> Document:
    """The plan as blocks; `top` options in the table, or every one."""
    if not plan.options:
        return with_names(Document(first=no_plan(plan, question=_question(plan), what="accelerators"), why=_why(plan)))
    rows, best = rows_shown(plan, RANKING, top=top, every=every), plan.options[0]
    first = first_screen(
        question=_question(plan),
        answer=_recommendation(best),
        meters=_meters(plan, best),
        table=_table([plan.options[row.place] for row in rows], rows),
        risks=[
            _memory_risk(plan, best),
            held_text(best.bill, run=True),
            f"Off policy: {plan.off_policy}" if plan.off_policy else "",
            _next_split(plan),
            f"Cheaper, less sure: {plan.cheaper_at_risk}" if plan.cheaper_at_risk else "",
            _cores(best),
            stale_text(best.bill, plan.provenance.made),
        ],
        measure=plan.measure_first,
        rest=left_out(plan.rejected, hidden=len(plan.options) - len(rows)),
    )
    return with_names(Document(first=first, why=_why(plan)))


def _memory_risk(plan: RlPlan, best: RlOption) -> str:
    """That the run may end for want of memory, where it holds less surely than asked for."""
    sure = chance(best.memory, best.limit_bytes)
    if sure is None or sure >= plan.request.confidence:
        return ""
    return (
        f"Risk: memory holds with a chance of {chance_text(sure)} only; try one step first, or give the run more "
        "accelerators (--count) or shorter responses (--max-response-tokens)."
    )


def rl_question(request: Rl) -> list[str]:
    """The steps and their limits, in parts of a line."""
    responses = f"{request.prompts_per_step:,} x {request.responses_per_prompt} responses"
    parts = [request.algorithm.upper(), f"{request.steps:,.0f} steps", f"{responses} of {request.response_tokens:,.0f}"]
    parts += [f"{plural(request.staleness, 'step')} off policy"] if request.staleness else ["on policy"]
    parts += [plural(request.count, "accelerator")] if request.count else []
    parts += [product(id) for id in request.filters.accelerators[:2]]
    parts += [f"within {show(request.deadline_s, 's')}"] if request.deadline_s else []
    parts += [f"at most {show(request.budget_usd, 'USD')}"] if request.budget_usd else []
    return parts


def _question(plan: RlPlan) -> list[str]:
    return [model_name(plan.request.model), *rl_question(plan.request), price_dates(plan.provenance)]


def _recommendation(best: RlOption) -> str:
    price = run_price(best.cost, wall_s=best.run.wall_s.value, usd_per_hour=best.bill.usd_per_hour)
    return (
        f"{best.accelerators} x {product(best.case.accelerator)}   {_split(best)}   {rental_text(best.bill)}   {price}"
    )


def _split(option: RlOption) -> str:
    """Layouts of both sides: "shared: rollout 16 x TP2, training EP8 DP32 ZeRO-1"."""
    replica = f"rollout {option.replicas} x TP{option.case.rollout_layout.tp}"
    if option.shared:
        return f"shared: {replica}, training {_degrees(option)}"
    return f"{option.rollout_accelerators} {replica}, {option.train_accelerators} training {_degrees(option)}"


def _degrees(option: RlOption) -> str:
    return " ".join(option.configuration.layout.degrees()).upper() or "single accelerator"


def _phase(option: RlOption, name: str) -> float:
    """Seconds of a phase of the step, wherever in the tree it stands."""
    phases = [phase for part in option.step.parts for phase in (part.parts if part.rule == "max" else (part,))]
    return sum(phase.value for phase in phases if phase.name == name)


def _meters(plan: RlPlan, best: RlOption) -> list[Meter]:
    request = plan.request
    wall = Meter(name="time", value=show(best.run.wall_s.value, "s"), interval=limits(best.run.wall_s))
    if request.deadline_s is not None:
        wall = Meter(
            name="time",
            value=show(best.run.wall_s.value, "s"),
            limit=show(request.deadline_s, "s"),
            interval=limits(best.run.wall_s),
            chance=chance_text(chance(best.run.wall_s, request.deadline_s)),
            share=best.run.wall_s.value / request.deadline_s,
        )
    return [
        Meter(name="step", value=show(best.step_s.value, "s"), interval=limits(best.step_s)),
        *([Meter(name="bound by", value=best.binds)] if best.binds else []),
        Meter(name="rollout", value=show(_phase(best, "rollout"), "s")),
        Meter(name="training", value=show(_phase(best, "training"), "s")),
        Meter(name="weights", value=show(_phase(best, "weights"), "s")),
        wall,
        Meter(
            name="memory", value=show(best.memory.value, "bytes"), limit=show(best.limit_bytes, "bytes"),
            interval=limits(best.memory), chance=chance_text(chance(best.memory, best.limit_bytes)),
            share=best.memory.value / best.limit_bytes,
        ),
    ]  # fmt: skip


def _table(options: list[RlOption], rows: list[Pick]) -> Table:
    short = short_names(option.case.accelerator for option in options)
    columns = (
        Column("", spare=1), Column("accelerators", wraps=True), Column("split", wraps=True, spare=4),
        Column("step", True), Column("time", wraps=True), Column("cost", wraps=True), Column("binds", spare=5),
        Column("tokens/s each", True, spare=6), Column("evidence"), Column("provider", spare=3),
        Column("term", spare=7),
    )  # fmt: skip
    cells = [
        (
            label,
            f"{o.accelerators} x {short[o.case.accelerator]}",
            _split(o),
            show(o.step_s.value, "s"),
            interval(o.run.wall_s),
            spread_usd(o.cost),
            o.binds,
            f"{o.tokens_per_s_per_accelerator.value:,.0f}",
            o.basis + ("" if o.sure else ", unsure"),
            provider_name(o.bill.provider),
            o.bill.term,
        )
        for label, o in zip(columns_of(rows), options, strict=True)
    ]
    return Table(columns=columns, rows=tuple(cells))


def _next_split(plan: RlPlan) -> str:
    """The split that comes nearest to the first's."""
    best = plan.options[0]
    others = sorted((s for s in plan.splits if s.rollout != best.rollout_accelerators), key=lambda s: s.step_s)
    if not others:
        return ""
    other = others[0]
    slower = other.step_s / best.step_s.value - 1.0
    return (
        f"Another split: {other.rollout} for rollout and {other.training} for training take {slower:.0%} longer a step "
        f"(rollout {show(other.rollout_s, 's')}, training {show(other.training_s, 's')})."
    )


def _cores(best: RlOption) -> str:
    need = next((need for need in best.needs if need.unit == "cores"), None)
    return f"Rewards: {need.need:,.0f} CPU cores keep up with generation ({need.why})." if need else ""


def _why(plan: RlPlan) -> tuple[Block, ...]:
    blocks: list[Block] = [*text_section("Answer", [plan.sentence] if plan.options else [])]
    if plan.options:
        best, shown = plan.options[0], plan.options[:SHOWN]
        blocks += [
            *text_section("Why this one, why not the others", [f"{i}. {o.verdict}" for i, o in enumerate(shown, 1)]),
            *text_section("One step", _tree_lines(best.step)),
            *text_section("Splits of these accelerators", _splits(plan)),
            *text_section("Off policy", [plan.off_policy] if plan.off_policy else []),
            *text_section("Cheaper, at a risk", [plan.cheaper_at_risk] if plan.cheaper_at_risk else []),
            *text_section("Rates", _rates(best)),
            *text_section("Host and storage", [need_text(need) for need in best.needs]),
        ]
    blocks += [
        *decisions(plan.trail),
        *text_section("What relaxing one constraint buys", plan.relaxing),
        *rejections("Ruled out, or at least twice as expensive", plan.rejected),
        *text_section("Assumptions", plan.provenance.assumed),
        *text_section(
            "Inputs",
            [
                f"{plan.evaluated} layouts evaluated",
                *(f"{name}: {day}" for name, day in sorted(plan.provenance.catalogue.items())),
            ],
        ),
    ]
    return tuple(blocks)


def _splits(plan: RlPlan) -> list[str]:
    return [
        f"{s.rollout} + {s.training}: rollout {show(s.rollout_s, 's')}, training {show(s.training_s, 's')}, step "
        f"{show(s.step_s, 's')}"
        for s in plan.splits
    ]


def _rates(option: RlOption) -> list[str]:
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


def explain_rl_plan(plan: RlPlan, *, rank: int = 1) -> Document:
    """What the option of that rank is made of; a BadRequest where the plan has none of that rank."""
    return explain_option(
        plan,
        rank,
        question=_question(plan),
        name=lambda option: f"{option.accelerators} x {option.case.accelerator}",
        parts=_option_parts,
    )


def _option_parts(plan: RlPlan, option: RlOption) -> list[Block]:
    return [
        *text_section("One step", _tree_lines(option.step)),
        *section("Memory of an accelerator that trains", parts_table(option.memory)),
        *section("Memory of an accelerator that generates", parts_table(option.rollout_memory)),
        *text_section("Rates", _rates(option)),
        *text_section("Host and storage", [need_text(need) for need in option.needs]),
        *section("Cost of the run", parts_table(option.cost)),
        *text_section("Bill", bill_lines(option.bill)),
    ]
