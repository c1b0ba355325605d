"""Any answer as a document, and the document on each face: printed, or HTML for pages, files and notebooks."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from tonnage.report.document import EVERY, Block, Document, Text
from tonnage.report.names import with_names
from tonnage.report.terminal import print_blocks

if TYPE_CHECKING:
    from tonnage.questions.charts import Chart


_LONG: Final[dict[str, str]] = {
    "LifecyclePlan": "questions.lifecycle.page:lifecycle_document",
    "FleetPlan": "questions.fleet.page:fleet_document",
    "OwnPlan": "questions.own.page:own_document",
    "BudgetPlan": "questions.budget.page:budget_document",
    "FitAnswer": "questions.fit.page:fit_document",
    "RentOrBuy": "questions.cost.page:rent_or_buy_document",
    "Diagnosis": "report.diagnose:diagnosis_document",
    "Check": "questions.check.page:check_document",
    "Verification": "questions.check.page:verification_document",
    "LocalAnswer": "questions.own.page_local:local_document",
    "Advice": "questions.adopt.page_advise:advice_document",
    "DataDiff": "report.data:diff_document",
}
"""
Name of an answer's type -> its report, as "package.module:function", so that one kind loads no other's. These take
`most`, the number of rows that are asked for.
"""
_SHORT: Final[dict[str, str]] = {
    "Simulated": "questions.simulate.page:simulation_document",
    "Comparison": "questions.simulate.page:comparison_document",
    "RlResult": "questions.predict.page:prediction_document",
    "Adoption": "questions.adopt.page:adoption_document",
    "TraceSessions": "questions.sessions.page:trace_document",
    "Breakdown": "questions.explain.page:breakdown_answer",
    "Measurement": "report.measure:measurement_document",
    "Capacity": "report.measure:capacity_document",
    "TrainBudget": "report.measure:budget_document",
    "DeviceMeasurement": "report.measure:device_document",
    "TrainMeasurement": "report.measure:train_measurement_document",
    "Calibrated": "questions.calibrate.page:calibrated_document",
    "MeasurePlan": "questions.calibrate.page:measure_plan_document",
    "History": "questions.calibrate.page:history_document",
    "Refreshed": "questions.calibrate.page:refreshed_document",
    "RefreshedModels": "questions.calibrate.page:refreshed_models_document",
    "Profile": "report.trace:profile_document",
    "Updated": "report.data:update_document",
}
"""The same of answers that are shown whole."""
_RANKED: Final = {
    "ServePlan": "serve",
    "TrainPlan": "train",
    "BatchPlan": "batch",
    "InferPlan": "infer",
    "RlPlan": "rl",
}
"""Name of a plan's type that ranks options -> the room of the page with its `PAGE`."""
_WHOLE: Final = {
    "FleetPlan": "questions.fleet.page:explain_fleet_plan",
    "LifecyclePlan": "questions.lifecycle.page:explain_lifecycle_plan",
    "OwnPlan": "questions.own.page:explain_own_plan",
    "BudgetPlan": "questions.budget.page:explain_budget_plan",
}
"""Name of a type of the other plans -> the report that opens its bill."""
DOCUMENTS: Final = frozenset((*_LONG, *_SHORT, *_RANKED))
"""Types that have a report."""
EXPLANATIONS: Final = frozenset((*_WHOLE, *_RANKED))
"""Types of plan that can be opened."""
_WRITTEN: Final = frozenset(
    {
        "DataDiff",
        "DeviceMeasurement",
        "History",
        "Measurement",
        "Profile",
        "Refreshed",
        "RefreshedModels",
        "TrainMeasurement",
        "Verification",
    }
)
"""Types whose ids stay as they are written: what stands in files, and what was fetched or measured."""

Answer = TypeVar("Answer")


def document_of(answer: Any, *, top: int | None = None, every: bool = False, **about: object) -> Document:
    """The answer as blocks; `top` options where it has many, or every one; otherwise the five of a first screen."""
    kind, most = type(answer).__name__, EVERY if every else top
    if kind in _RANKED:
        from tonnage.report.page import page_document

        return _finished(page_document(answer, _found(f"questions.{_RANKED[kind]}.page:PAGE"), most=most), answer)
    if kind in _LONG:
        return _finished(_found(_LONG[kind])(answer, most=most), answer)
    return _finished(_found(_SHORT[kind])(answer, **about), answer)


def explanation_of(plan: Any, *, rank: int = 1) -> Document:
    """
    What an option of a plan is made of: each number with its parts, their basis and where they come from.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    kind = type(plan).__name__
    if kind in _RANKED:
        from tonnage.report.page import explained

        return _finished(explained(plan, _found(f"questions.{_RANKED[kind]}.page:PAGE"), rank=rank), plan)
    return _finished(_found(_WHOLE[kind])(plan, rank=rank), plan)


def _finished(document: Document, answer: Any) -> Document:
    """The document with names in place of ids, and with the measurements that moved its numbers, if any did."""
    if type(answer).__name__ not in _WRITTEN:
        document = with_names(document)
    if not getattr(answer, "calibrations", ()):
        return document
    from tonnage.report.measured import with_measured

    return with_measured(document, answer)


def works(answer: Any) -> bool:
    """Whether what is asked for can be done; true of answers that have no such verdict."""
    return bool(getattr(answer, "feasible", getattr(answer, "fits", True)))


def explains(answer: Any) -> bool:
    """Whether its options can be opened one by one."""
    return type(answer).__name__ in EXPLANATIONS


def _found(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(f"tonnage.{module}"), name)


def blocks_of(answer: Any, *, top: int | None = None) -> tuple[Block, ...]:
    """First screen and reasons, in one row of blocks."""
    return document_of(answer, top=top).blocks


# Faces


def show_document(document: Document, *, why: bool = False) -> None:
    """Print the first screen; with `why` the reasons below it."""
    print_blocks(document.blocks if why else document.first)


def show(
    answer: Any,
    *,
    top: int | None = None,
    every: bool = False,
    why: bool = False,
    question: Sequence[str] = (),
    **about: object,
) -> None:
    """
    Print an answer: its first screen, with `why` the reasons below it.

    `question` stands above an answer that does not hold its own: a simulation, a comparison; `about` goes on.
    """
    document = document_of(answer, top=top, every=every, **about)
    if question:
        asked = Text(" · ".join(filter(None, question)), kind="asked")
        document = msgspec.structs.replace(document, first=(asked, *document.first))
    show_document(document, why=why)


def fragment(answer: Any, *, picture: Callable[[Chart], str] | None = None) -> str:
    """
    The answer as HTML without a page around it: sentence, first screen, pictures with tables, the reasons; closed at
    its end, the best option of a plan with where each of its numbers comes from.

    Parameters
    ----------
    answer : an answer of `DOCUMENTS`
    picture : callable, optional
        The HTML that shows a chart; absent = the drawing itself, inline.
    """
    from tonnage.questions.charts import charts_of
    from tonnage.report import html

    document = document_of(answer)
    sentence = f'<p class="sentence{"" if works(answer) else " no"}" role="status">{html.escape(answer.sentence)}</p>'
    first = html.blocks(document.first, without=answer.sentence)
    pictures = html.figures(charts_of(answer), picture=picture)
    return sentence + first + pictures + html.report(document.why, without=answer.sentence) + _show_breakdown(answer)


def plot(answer: Any, path: str) -> None:
    """
    Draw an answer into a file: .svg, .png, or .html with the whole report.

    Raises
    ------
    BadRequest
        Another suffix, nothing to draw, the `plots` extra missing, or the file cannot be written.
    """
    from tonnage.questions.charts import charts_of
    from tonnage.report.picture import save

    page = fragment(answer) if path.lower().endswith(".html") else ""
    save(charts_of(answer), path, title=f"Tonnage: {answer.sentence}", page=page)


def _show_breakdown(answer: Any) -> str:
    if not explains(answer) or not getattr(answer, "options", ()):
        return ""
    from tonnage.report import html

    blocks = explanation_of(answer).why
    return html.folding_section("Where each number comes from", html.report(blocks, without=answer.sentence))


# Notebooks ask whatever they show for `_repr_html_`. Structs of the domain know nothing of reports, so the method is
# given to an answer's type from here, the first time one is made through the Python API.


def with_html_view(answer: Answer) -> Answer:
    """The same answer; its type can now show itself as HTML."""
    kind: Any = type(answer)
    if not hasattr(kind, "_repr_html_"):
        kind._repr_html_ = _as_html
    return answer


def _as_html(answer: Any) -> str:
    """An answer or chart as a notebook shows it, in its own style; tables stand in without the `plots` extra."""
    from tonnage.questions.charts.chart import Chart
    from tonnage.report import html
    from tonnage.report.document import grid

    drawn = importlib.util.find_spec("vl_convert") is not None
    if isinstance(answer, Chart):
        table = html.table(grid(answer.columns, answer.rows), caption=answer.title)
        return html.scoped(html.figures([answer]) if drawn else table)
    if drawn:
        return html.scoped(fragment(answer))
    return html.scoped(fragment(answer, picture=lambda chart: f"<p>{html.escape(chart.title)}</p>"))
