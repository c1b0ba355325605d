"""Any answer as a document, and the document on each face: printed, or HTML for pages, files and notebooks."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from tonnage.report.document import Block, Document, Text
from tonnage.report.terminal import print_blocks

if TYPE_CHECKING:
    from tonnage.report.charts import Chart

__all__ = [
    "DOCUMENTS",
    "EXPLANATIONS",
    "blocks_of",
    "document_of",
    "explains",
    "explanation_of",
    "fragment",
    "plot",
    "show",
    "show_document",
    "with_html_view",
]  # fmt: skip

DOCUMENTS: Final[dict[str, str]] = {
    "ServePlan": "tonnage.report.serve:serve_document",
    "TrainPlan": "tonnage.report.train:train_document",
    "BatchPlan": "tonnage.report.batch:batch_document",
    "LifecyclePlan": "tonnage.report.lifecycle:lifecycle_document",
    "InferPlan": "tonnage.report.infer:infer_document",
    "FleetPlan": "tonnage.report.fleet:fleet_document",
    "FitAnswer": "tonnage.report.fit:fit_document",
    "RentOrBuy": "tonnage.report.cost:rent_or_buy_document",
    "Simulated": "tonnage.report.simulation:simulation_document",
    "Diagnosis": "tonnage.report.diagnose:diagnosis_document",
    "Comparison": "tonnage.report.simulation:comparison_document",
    "Check": "tonnage.report.check:check_document",
    "Verification": "tonnage.report.check:verification_document",
    "LocalAnswer": "tonnage.report.local:local_document",
    "Adoption": "tonnage.report.adopt:adoption_document",
    "Advice": "tonnage.report.advise:advice_document",
    "TraceSessions": "tonnage.report.sessions:trace_document",
    "Breakdown": "tonnage.report.breakdown:breakdown_answer",
    "RlPlan": "tonnage.report.rl:rl_document",
    "OwnPlan": "tonnage.report.own:own_document",
    "BudgetPlan": "tonnage.report.budget:budget_document",
}
"""
Name of an answer's type -> its report, as "module:function", so that one kind loads no other's; each report takes the
answer, `top` and `every`.
"""

EXPLANATIONS: Final[dict[str, str]] = {
    "ServePlan": "tonnage.report.serve_option:explain_serve_plan",
    "TrainPlan": "tonnage.report.train:explain_train_plan",
    "BatchPlan": "tonnage.report.batch:explain_batch_plan",
    "InferPlan": "tonnage.report.infer:explain_infer_plan",
    "FleetPlan": "tonnage.report.fleet:explain_fleet_plan",
    "LifecyclePlan": "tonnage.report.lifecycle:explain_lifecycle_plan",
    "RlPlan": "tonnage.report.rl:explain_rl_plan",
    "OwnPlan": "tonnage.report.own:explain_own_plan",
    "BudgetPlan": "tonnage.report.budget:explain_budget_plan",
}
"""Name of a plan's type -> the report that opens one of its options, or its bill where it has none to choose from."""

Answer = TypeVar("Answer")


def document_of(answer: Any, *, top: int | None = None, every: bool = False) -> Document:
    """The answer as blocks; `top` options where it has many, or every one; otherwise the five of a first screen."""
    document: Document = _report(DOCUMENTS, answer)(answer, top=top, every=every)
    return _measured(document, answer)


def explanation_of(plan: Any, *, rank: int = 1) -> Document:
    """
    What an option of a plan is made of: each number with its parts, their basis and where they come from.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    document: Document = _report(EXPLANATIONS, plan)(plan, rank=rank)
    return _measured(document, plan)


def _measured(document: Document, answer: Any) -> Document:
    """The document with the measurements that moved its numbers, if any did."""
    if not getattr(answer, "calibrations", ()):
        return document
    from tonnage.report.measured import with_measured

    return with_measured(document, answer)


def explains(answer: Any) -> bool:
    """Whether its options can be opened one by one."""
    return type(answer).__name__ in EXPLANATIONS


def _report(by: dict[str, str], answer: Any) -> Callable[..., Document]:
    module, _, name = by[type(answer).__name__].partition(":")
    report: Callable[..., Document] = getattr(importlib.import_module(module), name)
    return report


def blocks_of(answer: Any, *, top: int | None = None) -> tuple[Block, ...]:
    """First screen and reasons, in one row of blocks."""
    return document_of(answer, top=top).blocks


# Faces


def show_document(document: Document, *, why: bool = False) -> None:
    """Print the first screen; with `why` the reasons below it."""
    print_blocks(document.blocks if why else document.first)


def show(
    answer: Any, *, top: int | None = None, every: bool = False, why: bool = False, question: Sequence[str] = ()
) -> None:
    """
    Print an answer: its first screen, with `why` the reasons below it.

    `question` stands above an answer that does not hold its own: a simulation, a comparison.
    """
    document = document_of(answer, top=top, every=every)
    if question:
        asked = Text(text=" · ".join(part for part in question if part))
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
    from tonnage.report import html
    from tonnage.report.charts import charts_of

    document = document_of(answer)
    good = getattr(answer, "feasible", getattr(answer, "fits", True))
    sentence = f'<p class="sentence{"" if good else " no"}" role="status">{html.escape(answer.sentence)}</p>'
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
    from tonnage.report.charts import charts_of
    from tonnage.report.picture import save

    page = fragment(answer) if path.lower().endswith(".html") else ""
    save(charts_of(answer), path, title=f"Tonnage: {answer.sentence}", page=page)


def _show_breakdown(answer: Any) -> str:
    if type(answer).__name__ not in EXPLANATIONS or not getattr(answer, "options", ()):
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
    from tonnage.report import html
    from tonnage.report.charts.chart import Chart

    drawn = importlib.util.find_spec("vl_convert") is not None
    if isinstance(answer, Chart):
        table = html.table(answer.columns, answer.rows, caption=answer.title)
        return html.scoped(html.figures([answer]) if drawn else table)
    if drawn:
        return html.scoped(fragment(answer))
    return html.scoped(fragment(answer, picture=lambda chart: f"<p>{html.escape(chart.title)}</p>"))
