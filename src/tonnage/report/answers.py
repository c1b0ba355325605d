"""Any answer, shown: which report prints it, and the same report as HTML for pages, files and notebooks."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, Final

from tonnage.domain.batch_plan import BatchPlan
from tonnage.domain.compare import Comparison
from tonnage.domain.cost import RentOrBuy
from tonnage.domain.diagnosis import Diagnosis
from tonnage.domain.fit import FitAnswer
from tonnage.domain.fleet_plan import FleetPlan
from tonnage.domain.infer_plan import InferPlan
from tonnage.domain.lifecycle import LifecyclePlan
from tonnage.domain.machine import LocalAnswer
from tonnage.domain.plan import ServePlan
from tonnage.domain.simulate import Simulated
from tonnage.domain.train_plan import TrainPlan
from tonnage.report import html
from tonnage.report.charts import Chart, charts_of
from tonnage.report.console import Block, recorded
from tonnage.units import show as quantity

__all__ = ["EXPLAINED_BY", "SHOWN_BY", "blocks_of", "explain", "fragment", "plot", "show"]

SHOWN_BY: Final[dict[type, str]] = {
    ServePlan: "tonnage.report.plan:show_plan",
    TrainPlan: "tonnage.report.train_plan:show_train_plan",
    BatchPlan: "tonnage.report.batch:show_batch_plan",
    LifecyclePlan: "tonnage.report.lifecycle:show_lifecycle_plan",
    InferPlan: "tonnage.report.infer:show_infer_plan",
    FleetPlan: "tonnage.report.fleet:show_fleet_plan",
    FitAnswer: "tonnage.report.memory:show_fit",
    LocalAnswer: "tonnage.report.local:show_local",
    RentOrBuy: "tonnage.report.cost:show_rent_or_buy",
    Simulated: "tonnage.report.simulate:show_simulation",
    Diagnosis: "tonnage.report.diagnose:show_diagnosis",
    Comparison: "tonnage.report.compare:show_comparison",
}
"""Kind of answer -> the report that prints it, as "module:function"."""

EXPLAINED_BY: Final[dict[type, str]] = {
    ServePlan: "tonnage.report.explain:show_explanation",
    TrainPlan: "tonnage.report.train_plan:explain_train_plan",
    BatchPlan: "tonnage.report.batch:explain_batch_plan",
    InferPlan: "tonnage.report.explain_kinds:explain_infer_plan",
    FleetPlan: "tonnage.report.explain_kinds:explain_fleet_plan",
    LifecyclePlan: "tonnage.report.explain_kinds:explain_lifecycle_plan",
}
"""Kind of plan -> the report that opens one of its options, or its bill where it has none to choose from."""
TOP: Final = 12


def show(answer: Any, *, top: int = TOP) -> None:
    """Print an answer; `top` options where it has many."""
    _told(SHOWN_BY, answer, top=top)


def explain(plan: Any, *, rank: int = 1) -> None:
    """
    Print what an option of a plan is made of: each number with its parts, their basis and where they come from.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    _told(EXPLAINED_BY, plan, rank=rank)


def _told(by: dict[type, str], answer: Any, **wanted: int) -> None:
    module, _, name = by[type(answer)].partition(":")
    report: Callable[..., None] = getattr(importlib.import_module(module), name)
    known = inspect.signature(report).parameters
    report(answer, **{name: value for name, value in wanted.items() if name in known})


def blocks_of(answer: Any, *, top: int = TOP) -> tuple[Block, ...]:
    """What `show` prints, as blocks."""
    return recorded(show, answer, top=top)


def fragment(answer: Any, *, picture: Callable[[Chart], str] | None = None) -> str:
    """
    The answer as HTML without a page around it: sentence, cards, pictures with tables, the whole report; closed at its
    end, the best option of a plan with where each of its numbers comes from.

    Parameters
    ----------
    answer : an answer of `SHOWN_BY`
    picture : callable, optional
        The HTML that shows a chart; absent = the drawing itself, inline.
    """
    good = getattr(answer, "feasible", getattr(answer, "fits", True))
    sentence = f'<p class="sentence{"" if good else " no"}" role="status">{html.escape(answer.sentence)}</p>'
    rest = [block for block in blocks_of(answer) if block.text.strip() != answer.sentence.strip()]
    drawn = html.figures(charts_of(answer), picture=picture)
    return sentence + html.cards(_cards(answer)) + drawn + html.report(rest) + _opened(answer)


def plot(answer: Any, path: str) -> None:
    """
    Draw an answer into a file: .svg, .png, or .html with the whole report.

    Raises
    ------
    BadRequest
        Another suffix, nothing to draw, the `plots` extra missing, or the file cannot be written.
    """
    from tonnage.report.picture import save

    page = fragment(answer) if path.lower().endswith(".html") else ""
    save(charts_of(answer), path, title=f"Tonnage: {answer.sentence}", page=page)


def _cards(answer: Any) -> list[tuple[str, str, str]]:
    """Minimum, recommended, comfortable; none for answers without."""
    return [
        (choice.name, f"{choice.accelerators} for {quantity(choice.usd_per_hour, 'USD/h')}", choice.covers)
        for choice in getattr(answer, "choices", ())
    ]


def _opened(answer: Any) -> str:
    if type(answer) not in EXPLAINED_BY or not getattr(answer, "options", ()):
        return ""
    blocks = [block for block in recorded(explain, answer) if block.text.strip() != answer.sentence.strip()]
    return html.folded("Where each number comes from", html.report(blocks))
