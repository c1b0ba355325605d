"""Any answer as a document, and the document on each face: printed, or HTML for pages, files and notebooks."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from tonnage.report.document import EVERY, Block, Document, Text
from tonnage.report.terminal import print_blocks

if TYPE_CHECKING:
    from tonnage.questions.question import Question
    from tonnage.report.charts.chart import Chart


class _Shown(NamedTuple):
    """Where an answer that is no plan is shown, as "package.module:function", so that one kind loads no other's."""

    report: str
    charts: str = ""
    cut: bool = True
    """The report takes `most`, the number of rows that are asked for; others show an answer whole."""


_SHOWN: Final[dict[str, _Shown]] = {
    "FitAnswer": _Shown("questions.fit.page:fit_document", charts="questions.fit.page:fit_charts"),
    "RentOrBuy": _Shown("questions.cost.page:rent_or_buy_document", charts="questions.cost.page:cost_charts"),
    "Diagnosis": _Shown("report.measure:diagnosis_document"),
    "Check": _Shown("questions.check.page:check_document"),
    "Verification": _Shown("questions.check.page:verification_document"),
    "LocalAnswer": _Shown("questions.own.local_page:local_document", charts="questions.own.charts:local_charts"),
    "Advice": _Shown("questions.adopt.page:advice_document", charts="questions.adopt.page:advice_charts"),
    "DataDiff": _Shown("report.listing:diff_document"),
    "Simulated": _Shown(
        "questions.simulate.page:simulation_document", charts="questions.simulate.page:simulation_charts", cut=False
    ),
    "Comparison": _Shown(
        "questions.simulate.page:comparison_document", charts="questions.simulate.page:comparison_charts", cut=False
    ),
    "RlResult": _Shown("questions.predict.page:prediction_document", cut=False),
    "Adoption": _Shown(
        "questions.adopt.page:adoption_document", charts="questions.adopt.page:adoption_charts", cut=False
    ),
    "TraceSessions": _Shown(
        "questions.sessions.page:trace_document", charts="questions.serve.charts:trace_charts", cut=False
    ),
    "Breakdown": _Shown("questions.explain.page:breakdown_answer", cut=False),
    "Measurement": _Shown("report.measure:measurement_document", cut=False),
    "Capacity": _Shown("report.capacity:capacity_document", cut=False),
    "TrainBudget": _Shown("report.capacity:budget_document", cut=False),
    "DeviceMeasurement": _Shown("report.measure:device_document", cut=False),
    "Acceptance": _Shown("report.acceptance:acceptance_document", cut=False),
    "TrainMeasurement": _Shown("report.measure:train_measurement_document", cut=False),
    "Calibrated": _Shown("questions.calibrate.page:calibrated_document", cut=False),
    "MeasurePlan": _Shown("questions.calibrate.page:measure_plan_document", cut=False),
    "HistoryComparison": _Shown("questions.calibrate.page:comparison_document", cut=False),
    "History": _Shown("questions.calibrate.page:history_document", cut=False),
    "Refreshed": _Shown("questions.calibrate.page:refreshed_document", cut=False),
    "RefreshedModels": _Shown("questions.calibrate.page:refreshed_models_document", cut=False),
    "Profile": _Shown("report.measure:profile_document", cut=False),
    "Updated": _Shown("report.listing:update_document", cut=False),
}
"""By the name of the answer's type; plans are shown by the `PAGE` of their room."""
Answer = TypeVar("Answer")


def _kind_of(answer: Any) -> Question | None:
    """The kind of plan that an answer is; other answers load none of them."""
    if type(answer).__name__ in _SHOWN:
        return None
    from tonnage.questions.registry import kind_of_answer

    return kind_of_answer(answer)


def document_of(
    answer: Any, *, top: int | None = None, every: bool = False, rank: int = 1, **about: object
) -> Document:
    """
    The answer as blocks; `top` options where it has many, or every one; otherwise the five of a first screen.

    `rank` is that of the option it is about, where the answer lets one be chosen (`choosable`).
    """
    most = EVERY if every else top
    if (kind := _kind_of(answer)) is not None:
        page = kind.find("page", "PAGE")
        if rank == 1:
            return _finished(page.document(answer, most=most), answer)
        if answer.measure_first is not None:
            from tonnage.core.measure_first import first_of

            answer = msgspec.structs.replace(answer, measure_first=first_of(answer, of=rank - 1))
        return _finished(page.document(answer, most=most, rank=rank), answer)
    shown = _SHOWN[type(answer).__name__]
    return _finished(_import_function(shown.report)(answer, **({"most": most} if shown.cut else about)), answer)


def explanation_of(plan: Any, *, rank: int = 1) -> Document:
    """
    What an option of a plan is made of: each number with its parts, their basis and where they come from.

    Raises
    ------
    BadRequest
        The plan has no option of that rank.
    """
    kind = _kind_of(plan)
    assert kind is not None, "whoever asks has looked whether it explains"
    return _finished(kind.find("page", "PAGE").opened(plan, rank=rank), plan)


def charts_of(answer: Any, *, rank: int = 1) -> tuple[Chart, ...]:
    """The pictures of an answer, of the option of that rank, the most telling first; none for kinds without."""
    if (kind := _kind_of(answer)) is not None:
        drawn = kind.find("page", "PAGE").charts(answer, *([rank] if rank > 1 else []))
    else:
        shown = _SHOWN.get(type(answer).__name__)
        drawn = _import_function(shown.charts)(answer) if shown is not None and shown.charts else ()
    return tuple(chart for chart in drawn if chart is not None)


def _finished(document: Document, answer: Any) -> Document:
    """The document with the measurements that moved its numbers, if any did."""
    if not getattr(answer, "calibrations", ()):
        return document
    from tonnage.report.measured import with_measured

    return with_measured(document, answer)


def works(answer: Any) -> bool:
    """Whether what is asked for can be done; true of answers that have no such verdict."""
    return bool(getattr(answer, "feasible", getattr(answer, "fits", True)))


def explains(answer: Any) -> bool:
    """Whether its options can be opened one by one."""
    return _kind_of(answer) is not None


def choosable(answer: Any) -> int:
    """How many options there are to choose from, which the answer is then about; 0 where it ranks none."""
    kind = _kind_of(answer)
    return len(answer.options) if kind is not None and getattr(kind.find("page", "PAGE"), "linked", False) else 0


def _import_function(where: str) -> Any:
    """What stands at "module:function", imported now."""
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
    document = document_of(answer, top=top, every=every, rank=1, **about)
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
    answer : an answer that `document_of` shows
    picture : callable, optional
        The HTML that shows a chart; absent = the drawing itself, inline.
    """
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
    from tonnage.report.html import save

    page = fragment(answer) if path.lower().endswith(".html") else ""
    save(charts_of(answer), path, title=f"Tonnage: {answer.sentence}", page=page)


def _show_breakdown(answer: Any) -> str:
    """The best option with where each number comes from, closed; empty for answers without options."""
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
    from tonnage.report import html
    from tonnage.report.charts.chart import Chart
    from tonnage.report.document import grid

    drawn = importlib.util.find_spec("vl_convert") is not None
    if isinstance(answer, Chart):
        table = html.table(grid(answer.columns, answer.rows), caption=answer.title)
        return html.scoped(html.figures([answer]) if drawn else table)
    if drawn:
        return html.scoped(fragment(answer))
    return html.scoped(fragment(answer, picture=lambda chart: f"<p>{html.escape(chart.title)}</p>"))
