"""What workers can be asked: questions, and whatever is made of kept answers (pages, pictures, files).

A kept answer travels as the bytes of its record (`kept`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.catalog import part_name
from tonnage.engines.registry import engine_title
from tonnage.errors import BadRequest
from tonnage.web.answering import answer_form, predict_each
from tonnage.web.measured import chosen
from tonnage.web.models import store_model, store_text, with_uploaded_models
from tonnage.web.questions import QUESTIONS, parse_form_lists
from tonnage.web.records import Kept, Settings
from tonnage.web.tool_results import Result, call

MAX_CASES: Final = 200
WIDTHS: Final = {"wide": 1080, "narrow": 290}
"""Of the plot of a leading chart: over the whole page, and on a phone. [px]"""


def ask(settings: Settings, *, path: str, request: dict[str, Any]) -> Kept:
    """The answer to one question."""
    question = QUESTIONS[path]
    inner = with_uploaded_models(parse_form_lists(question, request), folder=Path(settings.uploads))
    return _keep(path, request, answer_form(question, inner, additions=settings.additions, watch=settings.told))


def step(settings: Settings, *, request: dict[str, Any]) -> bytes:
    """What the first option is at one step of a slider, as JSON."""
    from tonnage.web.tuning import step_of

    inner = with_uploaded_models(parse_form_lists(QUESTIONS["plan/serve"], request), folder=Path(settings.uploads))
    inner, additions = chosen(inner, settings.additions)
    return msgspec.json.encode(step_of(inner, additions=additions))


def predict(settings: Settings, *, body: Mapping[str, Any]) -> bytes:
    """Many cases in, as many predictions or sentences out, in their order."""
    body, additions = chosen(body, settings.additions)
    cases = body.get("cases")
    if set(body) != {"cases"} or not isinstance(cases, list) or not 0 < len(cases) <= MAX_CASES:
        raise BadRequest(f"cases: a list of 1 to {MAX_CASES} cases is expected, and nothing beside it")

    uploaded = partial(with_uploaded_models, folder=Path(settings.uploads))
    return msgspec.json.encode({"results": predict_each(cases, additions=additions, before=uploaded)})


def tool(settings: Settings, *, name: str, arguments: dict[str, Any]) -> Result:
    """The result of one tool for assistants."""

    return call(name, arguments, additions=settings.additions)


def page(
    settings: Settings,
    *,
    path: str,
    given: Mapping[str, str],
    kept: tuple[str, Kept] | None,
    waits: bool,
    note: str,
    every: bool = False,
    option: str = "1",
) -> str:
    """A question's page: its form, and beside it an answer or a note."""
    from tonnage.web import pages

    shown = (
        None
        if kept is None
        else pages.Shown(key=kept[0], answer=kept[1].answer, waits=waits, every=every, option=option)
    )
    return pages.question_page(QUESTIONS[path], given=given, shown=shown, error=note, additions=settings.additions)


def front(settings: Settings) -> str:
    """The first page."""
    from tonnage.web import pages

    return pages.front_page(settings.additions)


def example(_: Settings, *, key: str, kept: Kept, path: str) -> str:
    """The answer beside the example of a form."""
    from tonnage.web import pages

    return pages.example_page(key, kept, path=path)


def listing(settings: Settings, *, path: str, given: Mapping[str, str], form: str) -> str | bytes:
    """A table of the catalogue as a page, as CSV or as JSON."""
    from tonnage.web import listings, pages

    if form == "csv":
        return listings.listing_csv(path, given, additions=settings.additions)
    if form == "json":
        return listings.listing_json(path, given, additions=settings.additions)
    return pages.listing_page(listings.listing_view(path, given, additions=settings.additions))


def part(settings: Settings, *, name: str, form: str) -> str:
    """An accelerator of the catalogue as a page or as JSON."""
    from tonnage.report.document import as_json
    from tonnage.web import pages
    from tonnage.web.part import part_card, part_view

    if form == "json":
        return as_json(part_card(name, additions=settings.additions)) + "\n"
    return pages.part_page(part_view(name, additions=settings.additions))


def part_chart(settings: Settings, *, part: str, name: str, option: int, theme: str, form: str) -> bytes | None:
    """One picture of an accelerator's page, as `chart` gives one of an answer."""
    from tonnage.web.part import part_charts

    charts = part_charts(part, additions=settings.additions) if option == 1 else ()
    return _drawn(charts, name=name, theme=theme, form=form)


def accuracy(_: Settings) -> str:
    """How far predictions were off."""
    from tonnage.web import pages

    return pages.accuracy_page()


def options(_: Settings, *, kept: Kept) -> str:
    """Every option of a kept answer as CSV, as its table shows them."""
    import csv
    import io

    from tonnage.questions.answers import document_of
    from tonnage.report.document import Table

    held = io.StringIO()
    found = next((one for one in document_of(kept.answer, every=True).first if isinstance(one, Table)), None)
    if found is not None:
        writer = csv.writer(held, lineterminator="\n")
        writer.writerow([column.head or "choice" for column in found.columns])
        writer.writerows(found.rows)
    return held.getvalue()


def compare(_: Settings, *, columns: Sequence[tuple[str, Kept]], left: str, others: Sequence[tuple[str, str]]) -> str:
    """The page of one or two kept answers side by side."""
    from tonnage.web import pages

    return pages.compare_page(columns, left=left, others=others)


def changes(_: Settings, *, kept: Kept) -> tuple[dict[str, Any], list[tuple[Any, dict[str, Any]]]]:
    """The kept question's request to compare with, and each change with its own, at the fidelity of the answer."""
    from tonnage.web.what_if import WhatIf, form_fields, request_of, what_ifs

    first = QUESTIONS[kept.path].at_first
    first = first if first in kept.request else ""
    base = request_of(WhatIf(says="", fields=form_fields(kept.request)), at_first=first)
    found = what_ifs(kept.path, kept.request)
    return base, [(change, request_of(change, at_first=first)) for change in found]


def changes_page(
    _: Settings, *, path: str, base: tuple[str, Kept], asked: Sequence[tuple[Any, str, Kept | str]]
) -> str:
    """What each change of a question moves."""
    from tonnage.web import pages

    found = [(change, key, told.answer if isinstance(told, Kept) else told) for change, key, told in asked]
    return pages.what_ifs_page(path, base=(base[0], base[1].answer), asked=found)


def chart(_: Settings, *, kept: Kept, name: str, option: int, theme: str, form: str) -> bytes | None:
    """One picture of a kept answer, drawn or as its Vega-Lite document; absent where it has none of that name."""
    from tonnage.questions.answers import charts_of, choosable

    answer = kept.answer
    if option > 1 and option > choosable(answer):
        return None
    return _drawn(charts_of(answer, rank=option), name=name, theme=theme, form=form)


def _drawn(charts: Sequence[Any], *, name: str, theme: str, form: str) -> bytes | None:
    """The chart of that name, drawn or as its Vega-Lite document; absent where there is none."""
    from tonnage.report.charts.chart import WIDTH, specification, svg

    found = next((found for found in charts if found.name == name), None)
    if found is None:
        return None
    width, _dash, theme = theme.rpartition("-")
    found = msgspec.structs.replace(found, title="")  # which stands above it on the page
    return (
        msgspec.json.encode(specification(found, theme=theme))
        if form == "json"
        else svg(found, theme=theme, width=WIDTHS.get(width, WIDTH)).encode()
    )


def vega(_: Settings) -> bytes:
    """The library that draws charts in a browser, from the package that draws them here."""
    from tonnage.report.charts.chart import renderer

    bundle: str = renderer().javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.encode()


def export(settings: Settings, *, kept: Kept, key: str, asked: dict[str, str]) -> tuple[Any, str, bytes]:
    """
    The files that start a kept plan on a target, their page and their archive; where it can be started, where none is
    named.
    """
    from tonnage import export
    from tonnage.questions.launchable import launchable_option
    from tonnage.web import pages

    archive = asked.pop("archive")
    target, checkpoint = asked["to"] or (export.EVERY if archive else ""), asked["checkpoint"] or None
    if target:
        export.check_target(target)
    rank = _rank(asked["option"] or "1")
    plan, option = launchable_option(kept.answer, rank=rank, checkpoint=checkpoint, additions=settings.additions)
    if target in ("", export.LIST):
        found = export.offered(plan, option)
        page = pages.targets_page(
            found, title=option.configuration.label(part_name, engine_title), key=key, asked=asked
        )
        return found._asdict(), page, b""
    made = export.written(plan, option, to=target)
    page = "" if archive else pages.files_page(made, key=key, asked=asked)
    return {"files": made.files}, page, export.archive(made.files) if archive else b""


def numbers(settings: Settings, *, kept: Kept, rank: str, key: str) -> tuple[bytes, str]:
    """The times of a kept plan's option, opened: as JSON, and their page."""
    from tonnage.core.near import near
    from tonnage.questions.answers import explains
    from tonnage.questions.explain.explain import case_of_option, explain_plan
    from tonnage.report.document import as_json
    from tonnage.web import pages

    additions = chosen(kept.request, settings.additions)[1]
    case = case_of_option(kept.answer, _rank(rank))
    nearest = () if case is None else near(case, additions=additions)
    found = explain_plan(kept.answer, rank=_rank(rank), additions=additions)
    if found is None and not explains(kept.answer):
        raise BadRequest("this answer has no times to open; plans with an option have")
    return as_json(found).encode(), pages.numbers_page(kept, found, nearest=nearest, rank=_rank(rank), key=key)


def _rank(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) < 1000):
        raise BadRequest(f"option: '{text[:20]}' is not the rank of an option")
    return int(text)


def keep_model(settings: Settings, *, config: Mapping[str, Any], text: bytes) -> str:
    """The name under which questions can use an uploaded configuration."""
    return store_model(config, text, folder=Path(settings.uploads))


def keep_text(settings: Settings, *, text: str) -> str:
    """The name under which questions can use a text that is too long for an address."""
    return store_text(text, folder=Path(settings.uploads))


def _keep(path: str, request: dict[str, Any], answer: Any) -> Kept:
    from tonnage.report.document import as_json

    return Kept(
        path=path,
        request=request,
        document=(as_json(answer) + "\n").encode(),
        sentence=answer.sentence,
        record=pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL),
    )


_EVERY: Final[tuple[Callable[..., Any], ...]] = (
    ask,
    step,
    predict,
    tool,
    page,
    front,
    example,
    listing,
    part,
    part_chart,
    accuracy,
    options,
    compare,
    changes,
    changes_page,
    chart,
    vega,
    export,
    numbers,
    keep_model,
    keep_text,
)
TASKS: Final[dict[str, Callable[..., Any]]] = {task.__name__: task for task in _EVERY}
"""Name -> function of what the server's tasks share, of how far it is, and of its own arguments."""
