"""HTML of the pages: templates filled with a question's form and, when asked, its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tonnage import catalog
from tonnage.catalog.models import model_ids
from tonnage.catalog.traffic import profiles
from tonnage.domain.breakdown import Breakdown
from tonnage.domain.plan import ServePlan
from tonnage.domain.requests.field import Field
from tonnage.domain.train_plan import TrainPlan
from tonnage.report import html
from tonnage.report.answers import fragment
from tonnage.report.charts import Chart
from tonnage.version import __version__
from tonnage.web.kept import Kept
from tonnage.web.limits import Limits
from tonnage.web.questions import QUESTIONS, Question, nest_form_names
from tonnage.web.what_if import WhatIf, changes_text, moves, value, what_ifs

__all__ = [
    "Shown", "answer_fragment", "api_page", "compare_page", "error_document", "files_page", "index_page",
    "numbers_page", "problem_page", "question_page", "style", "what_ifs_page",
]  # fmt: skip


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """An answer on its page."""

    key: str
    answer: Any
    waits: bool = False
    """It holds until the simulated one is there."""


def index_page() -> str:
    """The first page: which question is yours?"""
    return _filled("index.html", title="Tonnage")


def question_page(question: Question, *, given: Mapping[str, str], shown: Shown | None = None, error: str = "") -> str:
    """A form, filled with what was asked or with the example, and the answer beside it."""
    values = dict(given) or question.example
    answer, key = (shown.answer, shown.key) if shown is not None else (None, "")
    asked = urlencode(given)
    return _filled(
        "question.html",
        title=question.title,
        question=question,
        essentials=_inputs(question, values, shown_first=True),
        others=_inputs(question, values, shown_first=False),
        error=error,
        key=key,
        answer=None if answer is None else Markup(answer_fragment(answer, key=key)),
        link=f"/{question.path}?{asked}",
        changeable=shown is not None and bool(what_ifs(question.path, nest_form_names(given))),
        waits=f"/progress/{question.path}?{asked}" if shown is not None and shown.waits else "",
        opens=isinstance(answer, ServePlan | TrainPlan) and bool(answer.options),
        targets=_targets() if isinstance(answer, ServePlan) and answer.options else (),
    )


def compare_page(columns: Sequence[tuple[str, Kept]], *, others: Sequence[tuple[str, str]]) -> str:
    """Kept answers side by side, and the sentences of others that could stand there."""
    answers = [found.answer for _, found in columns]
    told = [
        {"title": QUESTIONS[found.path].title, "answer": Markup(answer_fragment(answer, key=key))}
        for (key, found), answer in zip(columns, answers, strict=True)
    ]
    moved = moves(*answers) if len(answers) == 2 else ()
    rows = [
        (change.what, value(change.before, change.unit), value(change.now, change.unit),
         "" if change.relative is None else "the same" if change.relative == 0 else f"{change.relative:+.1%}")
        for change in moved
    ]  # fmt: skip
    heads = ("figure", "first", "second", "second over first")
    table = html.table(heads, rows, numeric=(False, True, True, True), caption="Both, figure by figure") if rows else ""
    recent = [{"key": key, "text": sentence} for key, sentence in reversed(others)]
    return _filled("compare.html", title="Compare", columns=told, recent=recent, left=columns[0][0],
                   table=Markup(table))  # fmt: skip


def what_ifs_page(path: str, *, base: tuple[str, Any], asked: Sequence[tuple[WhatIf, str, Any]]) -> str:
    """Changes of a question: what each moves, with links to its answer and to both side by side."""
    rows = [
        {
            "says": change.says,
            "moves": changes_text(base[1], answer) if key else str(answer),
            "sentence": answer.sentence if key else "",
            "link": f"/{path}?{urlencode(change.fields)}",
            "beside": f"/compare?{urlencode({'left': base[0], 'right': key})}" if key else "",
        }
        for change, key, answer in asked
    ]
    return _filled("what_ifs.html", title="What if", rows=rows, sentence=base[1].sentence)


def files_page(files: Mapping[str, str], *, title: str, about: str) -> str:
    """Written files, to read and copy."""
    return _filled("files.html", title=title, about=about, files=files)


def numbers_page(found: Breakdown) -> str:
    """A number's tree: each part with its seconds, its share and what it rests on."""
    from tonnage.report.breakdown import breakdown_document

    shown = html.blocks(breakdown_document(found).blocks)
    return _filled("numbers.html", title=f"Where the times come from: {found.label}", shown=Markup(shown))


def problem_page(why: str) -> str:
    """A sentence that says what was wrong."""
    return _filled("problem.html", title="Invalid request", why=why)


def api_page(*, origin: str, limits: Limits) -> str:
    """How programs ask."""
    bodies = {path: _one_line(nest_form_names(question.example)) for path, question in QUESTIONS.items()}
    return _filled("api.html", title="HTTP API", origin=origin, bodies=bodies, limits=limits)


def answer_fragment(answer: Any, *, key: str) -> str:
    """The answer as HTML, its pictures fetched by themselves."""
    return fragment(answer, picture=lambda chart: _linked(chart, key))


@lru_cache(maxsize=1)
def style() -> str:
    """The style sheet: that of reports, and what forms need beside it."""
    own: str = _environment().get_template("page.css").render()
    return html.STYLE + own


def _linked(chart: Chart, key: str) -> str:
    """A picture fetched by itself, in the reader's light or dark, so that the text never waits for it."""
    base = f"/chart/{key}/{chart.name}"
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{base}-dark.svg">'
        f'<img src="{base}-light.svg" alt="{html.escape(chart.says)}" loading="lazy"></picture>'
    )


def _inputs(question: Question, values: Mapping[str, str], *, shown_first: bool) -> list[dict[str, Any]]:
    first = set(question.essentials)
    fields = [field for field in question.fields if (field.name in first) is shown_first]
    if shown_first:
        fields.sort(key=lambda field: question.essentials.index(field.name))
    return [_input(field, values.get(field.name, ""), written=field.name in question.written) for field in fields]


def _input(field: Field, value: Any, *, written: bool) -> dict[str, Any]:
    last = field.name.rpartition(".")[2]
    choices = ("true", "false") if field.reads == "flag" else field.choices
    return {
        "name": field.name,
        "label": field.name.replace("_", " ").replace(".", ": "),
        "help": field.help,
        "value": str(value),
        "rows": max(3, str(value).count("\n") + 1) if written else 0,
        "choices": choices if field.reads in ("flag", "text") else (),
        "list": {"model": "models", "accelerator": "accelerators", "exclude": "accelerators", "traffic": "profiles",
                 "profile": "profiles"}.get(last, ""),
    }  # fmt: skip


def _filled(name: str, **values: Any) -> str:
    page: str = _environment().get_template(name).render(questions=QUESTIONS.values(), version=__version__, **values)
    return page


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tonnage.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.globals.update(
        models=model_ids(catalog.NOTHING),
        accelerators=tuple(catalog.accelerators()),
        profiles=tuple(profiles()),
    )
    return environment


@lru_cache(maxsize=1)
def _targets() -> tuple[str, ...]:
    from tonnage.export import known_targets

    return tuple(name for name, target in known_targets().items() if "serve" in target.kinds)


def _one_line(request: Mapping[str, Any]) -> str:
    return msgspec.json.encode(request).decode()


def error_document(why: str) -> bytes:
    """A sentence about what was wrong."""
    return msgspec.json.encode({"schema": "tonnage.error/1", "error": why})
