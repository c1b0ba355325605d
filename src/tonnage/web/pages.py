"""HTML of the pages: templates filled with a question's form and, when asked, its answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tonnage import catalog
from tonnage.catalog.models import model_ids
from tonnage.catalog.rows import data_version
from tonnage.catalog.traffic import profiles
from tonnage.domain.answer import Breakdown
from tonnage.domain.metrics import OBJECTIVES
from tonnage.domain.plan import ServePlan
from tonnage.domain.published import Near
from tonnage.domain.train_plan import TrainPlan
from tonnage.errors import NO_SIMULATOR
from tonnage.export import Offered, Written
from tonnage.questions.adopt.question import Adoption
from tonnage.questions.answers import choosable, explains, explanation_of
from tonnage.questions.budget.question import BudgetPlan
from tonnage.questions.check.page import values_text
from tonnage.questions.launchable import STARTED
from tonnage.questions.predict.page import UNVERIFIED
from tonnage.questions.question import LENGTHS
from tonnage.record import Record
from tonnage.report import html
from tonnage.report.document import Section, Table, grid
from tonnage.report.wording import figure_name
from tonnage.units import percent
from tonnage.version import __version__, can_simulate
from tonnage.web.inputs import group_fields, inputs_of, with_labels
from tonnage.web.listings import LISTINGS, ListingView, accuracy_rows, cheapest_rows, counts
from tonnage.web.measured import CHOICE, NONE
from tonnage.web.part import EVERY, PartView, part_charts
from tonnage.web.questions import QUESTIONS, Question, field_problems, nest_form_names
from tonnage.web.records import Kept, Limits
from tonnage.web.tuning import sliders
from tonnage.web.view import answer_view, linked_figures, linked_picture, without_commands
from tonnage.web.what_if import WhatIf, changes_text, form_fields, moved_figures, what_ifs

EXAMPLE: Final = "plan/serve"
"""The question on the front page."""
SHOWN_FIRST: Final = ("H100", "H200", "B200", "MI300X", "A100 80GB", "L40S")
"""Accelerators whose prices the front page shows."""
CATALOGUE: Final = (*((path, kind.title) for path, kind in LISTINGS.items()), ("accuracy", "Accuracy"))
NEAREST: Final = "Nearest measurements"
"""Section that marks of evidence lead to."""
MOST_TYPE: Final = 90
"""Of the types of a field. [characters]"""
PREDICTED: Final = {"cases": [{"kind": "serve", "model": "13B", "accelerator": "H200", "traffic": {"concurrency": 8},
                               "isl": 1024, "osl": 256}]}  # fmt: skip
"""Example of a prediction."""
LONGEST_RANK: Final = 12
"""Characters of what an address asks for as an option that are said again."""
FIGURES: Final = {
    **{one.title: f"{one.words} ({one.title})" for one in OBJECTIVES}, "output rate": "Output tokens/s",
    "prompt": "Prompt tokens/s, one request", "energy per token": "Energy per token", "memory": "Memory, serving",
    "peak memory": "Peak memory, training",
    "networks": "Latency of vision, audio and embedding", "training step": "Step time, training",
}  # fmt: skip
"""Figures of the accuracy table, written out."""
FIRST_CONTACT: Final = (
    "Measurements that nobody here had seen, of other sources and models, were predicted before they were opened"
)
"""As the README says it."""
LEFT_OUT: Final = {
    "first contact": ("First contact", "sources", f"{FIRST_CONTACT}: what to expect of a question of your own."),
    "its source": ("A source that no fit has seen", "sources", "Each row predicted as if its source were not there."),
    "its family": ("A model family that no fit has seen", "families",
                   "Each row predicted as if no model of its family had been seen."),
    "nothing (in sample)": ("In sample", "sources", "As shipped: the fits have read most of these rows."),
}  # fmt: skip
"""What each row of the report was predicted without -> heading, what errors are taken over, and a sentence."""


class Shown(Record, kw_only=True):
    """An answer on its page."""

    key: str
    answer: Any
    waits: bool = False
    """It holds until the simulated one is there."""
    every: bool = False
    """All options in the table."""
    option: str = "1"
    """Rank of the option that is chosen, as the address has it."""


def front_page(additions: catalog.Additions = catalog.NOTHING) -> str:
    """The first page: a question to send as it is, beside its answer; the catalogue; how accurate answers are."""
    question = QUESTIONS[EXAMPLE]
    figures = [row for row in accuracy_rows() if row["left out"] == "first contact"]
    rows = [
        (FIGURES.get(row["figure"], row["figure"]), row["mean of medians"], row["covered, mean"].replace("-", "–"),
         row["numbers"])
        for row in figures
    ]  # fmt: skip
    heads = ("quantity", "error>", "covered>", "numbers>")
    about = f"{FIRST_CONTACT} (means over sources of their medians), and the share that the 90 % intervals held."
    found = html.table(grid(heads, rows), caption="Accuracy")
    prices = html.table(
        grid(("accelerator", "memory>", "bandwidth>", "lowest $/h>"), cheapest_rows(additions, SHOWN_FIRST)),
        caption="Lowest on-demand prices",
    )
    return _asking(
        question, values=question.example, error="", front=True, counts=counts(additions),
        cheapest=Markup(prices), accuracy=Markup(f"<p class='note'>{about}</p>{found}"),
    )  # fmt: skip


def question_page(
    question: Question, *, given: Mapping[str, str], shown: Shown | None = None, error: str = "",
    additions: catalog.Additions = catalog.NOTHING,
) -> str:  # fmt: skip
    """A form, filled with what was asked or with the example; with an answer, the question as chips above it."""
    values = dict(given) or question.example
    if shown is None:
        found = field_problems(question, given, additions=additions) if error else {}
        first = re.match(r"[a-z0-9_.]+(?=: | is missing)", error)
        if not found and first is not None and any(field.name == first[0] for field in question.fields):
            found = {first[0]: error}
        problems = {name: with_labels(without_commands(why) or why, question) for name, why in found.items()}
        told = with_labels(without_commands(error) or error, question)
        return _asking(question, values=values, error=told, problems=problems)
    answer, key = shown.answer, shown.key
    ranks = [str(rank) for rank in range(1, 1 + max(1, choosable(answer)))]
    option = int(shown.option) if shown.option in ranks else 1
    asked = urlencode(given)
    chosen = f"&option={option}" if option > 1 else ""
    view = answer_view(answer, key=key, every=shown.every, option=option, path=question.path, given=given,
                       known=frozenset(field.name for field in question.fields))  # fmt: skip
    waits = shown.waits and view.estimate  # a training job's answer is never simulated
    figure = (
        ""
        if view.chart is None
        else html.figures(
            [view.chart], picture=lambda chart: linked_picture(chart, key=key, at_once=True, option=option)
        )
    )
    inputs = inputs_of(question, values)
    hidden = len(getattr(answer, "options", ())) - (len(view.table.rows) if view.table else 0)
    return _fill(
        "question.html",
        title=question.title, question=question, front=False, error="", problems={}, view=view, key=key,
        all_link=f"/{question.path}?{asked}{chosen}{'&all=true' if hidden > 0 else ''}#options",
        hidden=hidden if hidden > 0 else 0,
        chips=[one for one in inputs if one["value"]],
        essentials=[one for one in inputs if one["name"] in question.essentials],
        grouped=group_fields(one for one in inputs if one["name"] not in question.essentials and not one["value"]),
        figure=Markup(figure), blocks=Markup(view.blocks),
        tabs=[(name, Markup(content)) for name, content in view.tabs],
        link=f"{view.address}{chosen}", of=urlencode({"of": f"{question.path}?{asked}"}),
        left=urlencode({"left": f"{question.path}?{asked}"}),
        without=f"/{question.path}?{urlencode({**given, CHOICE.name: NONE})}",
        sliders=() if waits else sliders(answer, given),
        stop=f"/step/{question.path}?{asked}",
        changeable=bool(what_ifs(question.path, nest_form_names(given))),
        lost="" if shown.option in ranks else shown.option[:LONGEST_RANK],
        waits=f"/progress/{question.path}?{asked}" if waits else "",
        simulated=f"/{question.path}?{urlencode({k: v for k, v in given.items() if k != question.at_first})}",
        opens=isinstance(answer, ServePlan | TrainPlan) and bool(answer.options),
        starts=isinstance(answer, STARTED) and bool(answer.options),
        serves=_served(answer, given),
    )  # fmt: skip


def _served(answer: Any, given: Mapping[str, str]) -> str:
    """The address that plans, simulates and starts what a budget buys or should run instead; empty for others."""
    if isinstance(answer, Adoption) and answer.serve is not None and answer.serve.better is not None:
        words = shlex.split(answer.command)[3:]
        fields = {name.lstrip("-").replace("-", "_"): text for name, text in zip(words[1::2], words[2::2], strict=True)}
        return f"/plan/serve?{urlencode({'model': words[0], **fields})}"
    if not isinstance(answer, BudgetPlan) or not answer.models:
        return ""
    kept = {name: text for name, text in given.items() if name not in ("amount", "purpose")}
    best = answer.models[0]
    return f"/plan/serve?{urlencode({**kept, 'model': best.model, 'rate': f'{best.written_rate_per_s:g}/s'})}"


def _asking(
    question: Question, *, values: Mapping[str, Any], error: str, problems: Mapping[str, str] | None = None,
    front: bool = False, **more: Any,
) -> str:  # fmt: skip
    """A form without an answer; on the front page its empty fields stand among the others."""
    inputs = inputs_of(question, values, problems=problems or {})
    below = LENGTHS if any(one["cards"] for one in inputs) else ()  # own lengths stand beside the traffic
    first = {name: place for place, name in enumerate(dict.fromkeys((*question.essentials, *below)))}
    shown = [one for one in inputs if one["value"] or one["name"] in below] if front else inputs
    return _fill(
        "question.html",
        title="Tonnage" if front else question.title, question=question, front=front, error=error,
        problems=problems or {}, view=None, waits="",
        essentials=sorted(
            (one for one in shown if one["name"] in first),
            key=lambda one: (bool(one["cards"]) or one["name"] in below, first[one["name"]]),
        ),
        grouped=group_fields([one for one in inputs if one not in shown or one["name"] not in first]), **more,
    )  # fmt: skip


def example_page(key: str, kept: Kept, *, path: str) -> str:
    """The answer to the example of a form, beside it."""
    question = QUESTIONS[path]
    view = answer_view(kept.answer, key=key, path=path, given=question.example)
    return _fill("example.html", view=view, key=key, open=f"/{path}?{urlencode(question.example)}")


def listing_page(view: ListingView) -> str:
    """A table of the catalogue."""
    return _fill("listing.html", title=view.title, view=view, listing=view.path)


def part_page(view: PartView) -> str:
    """An accelerator of the catalogue."""
    key = f"accelerators/{view.card.accelerator.id}"
    return _fill(
        "part.html", title=catalog.part_name(view.card.accelerator.id), view=view, listing="accelerators",
        facts=Markup(html.table(view.facts, caption="Facts")), offers=Markup(html.table(view.offers, caption="Offers")),
        results=Markup(html.table(view.results, caption="Published results")),
        prices=Markup(linked_figures(view.prices, key=key)), held=Markup(linked_figures(view.held, key=key)),
    )  # fmt: skip


def accuracy_page() -> str:
    """How far predictions were off, on what no fit had seen first."""
    rows = accuracy_rows()
    tables = [
        (name, about, Markup(html.table(_accuracy_table(rows, group, of=of), caption=name)))
        for group, (name, of, about) in LEFT_OUT.items()
    ]
    held = linked_figures(part_charts(EVERY, additions=catalog.NOTHING), key=f"accelerators/{EVERY}")
    return _fill(
        "accuracy.html", title="Accuracy", tables=tables, held=Markup(held), mark=UNVERIFIED, listing="accuracy"
    )


def _accuracy_table(rows: Sequence[Mapping[str, str]], group: str, *, of: str) -> Table:
    """One table of the report: sources are codes in the file, and stand here without them; families are names."""
    heads = ("quantity", f"{of}>", "numbers>", "error, mean>", "error, median>", "worst error",
             "in 90 % interval>", "least", "± width>")  # fmt: skip
    found = []
    for row in (row for row in rows if row["left out"] == group):
        worst, least = row["worst group"], row["covered, least"]
        if of == "sources":
            worst, least = worst.partition(" ")[2], least.partition(" (")[0]
        cells = (row["groups"], row["numbers"], row["mean of medians"], row["median of medians"], worst,
                 row["covered, mean"], least, row["± width"])  # fmt: skip
        figure = FIGURES.get(row["figure"], row["figure"][:1].upper() + row["figure"][1:])
        found.append((figure, *("" if cell == "-" else cell for cell in cells)))
    return grid(heads, found)


def compare_page(columns: Sequence[tuple[str, Kept]], *, left: str, others: Sequence[tuple[str, str]]) -> str:
    """Kept answers side by side, and the sentences of others that could stand there."""
    answers = [found.answer for _, found in columns]
    told = []
    for (key, found), answer in zip(columns, answers, strict=True):
        view = answer_view(answer, key=key, path=found.path, given=form_fields(found.request))
        options = "" if view.table is None else html.blocks([view.table])
        told.append(
            {"title": QUESTIONS[found.path].title, "view": view, "key": key, "table": Markup(options + view.blocks)}
        )
    moved = moved_figures(*answers) if len(answers) == 2 else ()
    rows = [
        (figure_name(change.what), *values_text(change),
         "" if change.relative is None else "the "
         "same" if change.relative == 0 else percent(change.relative, 1, sign="+"))
        for change in moved
    ]  # fmt: skip
    heads = ("figure", "first>", "second>", "second over first>")
    table = html.table(grid(heads, rows), caption="Both, figure by figure") if rows else ""
    recent = [{"key": key, "text": sentence} for key, sentence in reversed(others)]
    return _fill("compare.html", title="Compare", columns=told, recent=recent, left=left,
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
    return _fill("what_ifs.html", title="What if", rows=rows, sentence=base[1].sentence)


def files_page(made: Written, *, key: str, asked: Mapping[str, str]) -> str:
    """Written files, to read and copy, and as one archive."""
    link = f"/export/{key}?{urlencode({name: text for name, text in asked.items() if text})}"
    about = (f"Start it with: {made.start}", *made.then)
    return _fill("files.html", title=f"{made.title}: files", about=about, files=made.files, link=link)


def targets_page(found: Offered, *, title: str, key: str, asked: Mapping[str, str]) -> str:
    """Where an option can be started, what is asked for first, and why not elsewhere."""
    asked_again = {name: text for name, text in asked.items() if text and name != "to"}
    why = next(iter(found.lacking.values()), "").partition(";")[0]
    refused = {name: reason.partition("; ")[0] for name, reason in found.refused.items()}
    return _fill("targets.html", title=f"Start {title}", key=key, found=found, why=why, refused=refused,
                 again=asked_again, of=urlencode(asked_again))  # fmt: skip


def numbers_page(
    kept: Kept, found: Breakdown | None, *, nearest: Sequence[Near], rank: int, key: str
) -> str:  # fmt: skip
    """An option of a plan opened: what each number is made of, and the times down to their kernels."""
    parts: list[tuple[str, Markup]] = []
    title = f"Option {rank}"
    if explains(kept.answer):
        document = explanation_of(kept.answer, rank=rank)
        parts = [
            (block.title, Markup(html.blocks(block.blocks))) for block in document.blocks if isinstance(block, Section)
        ]
    if found is not None:
        from tonnage.questions.explain.page import breakdown_document

        title = f"{title}: {found.label}"
        parts.append(("Where the times come from", Markup(html.blocks(breakdown_document(found).blocks))))
    if nearest:
        from tonnage.questions.predict.page import near_text

        told = "".join(f"<li>{html.escape(near_text(one))}</li>" for one in nearest)
        about = "Published results nearest to this option, and in what they differ: what its speed can be held against."
        parts.append((NEAREST, Markup(f"<p class='note'>{about}</p><ul class='plain'>{told}</ul>")))
    asked = urlencode(form_fields(kept.request))
    return _fill("numbers.html", title=title, parts=parts, back=f"/{kept.path}?{asked}", key=key)


def problem_page(why: str) -> str:
    """A sentence that says what was wrong."""
    return _fill("problem.html", title="Invalid request", why=without_commands(why) or why)


def api_page(*, origin: str, limits: Limits) -> str:
    """Every route of the API, from the document that programs read."""
    return _fill("api.html", title="HTTP API", origin=origin, routes=_routes(), limits=limits)


@lru_cache(maxsize=1)
def _routes() -> list[dict[str, Any]]:
    """Method, path and summary of each route, its example, its fields as a table, and its replies below status 500."""
    from tonnage.web.openapi import openapi

    found = []
    for path, operations in openapi()["paths"].items():
        for method, told in operations.items():
            content = told.get("requestBody", {}).get("content", {}).get("application/json", {})
            rows = [(one["name"], one["in"], one.get("description", "")) for one in told.get("parameters", ())]
            rows += _fields_of(content.get("schema", {}))
            fields = (
                html.table(grid(("field", "type", "what it says"), rows), caption=f"{method} {path}") if rows else ""
            )
            example = content.get("example", PREDICTED if path == "/predict" else None)
            answers = "; ".join(
                f"{status} {reply['description'][:1].lower()}{reply['description'][1:]}"
                for status, reply in sorted(told["responses"].items()) if status < "500"
            )  # fmt: skip
            found.append({"method": method.upper(), "path": path, "summary": told["summary"], "answers": answers,
                          "body": "" if example is None else msgspec.json.encode(example).decode(),
                          "fields": Markup(fields)})  # fmt: skip
    return found


def _fields_of(schema: Mapping[str, Any], group: str = "") -> list[tuple[str, str, str]]:
    """Fields of a request with their types and help, those of groups as group.field."""
    rows = []
    for name, told in schema.get("properties", {}).items():
        if "properties" in told:
            rows += _fields_of(told, f"{group}{name}.")
            continue
        kinds = [one.get("type", "") if "enum" not in one else " | ".join(map(str, one["enum"]))
                 for one in told.get("anyOf", [told])]  # fmt: skip
        kinds = [" or ".join(kind) if isinstance(kind, list) else kind for kind in kinds]
        words = dict.fromkeys(str(kind) for kind in kinds if kind and kind != "null")
        rows.append((f"{group}{name}", " or ".join(words)[:MOST_TYPE], told.get("description", "")))
    return rows


@lru_cache(maxsize=1)
def style() -> str:
    """The style sheet: that of reports, and what forms need beside it."""
    own: str = _environment().get_template("page.css").render()
    return html.STYLE + own


def _fill(name: str, **values: Any) -> str:
    """A template with those values and what all pages hold."""
    page: str = (
        _environment()
        .get_template(name)
        .render(
            questions=QUESTIONS.values(),
            version=__version__,
            data=data_version(),
            catalogue=CATALOGUE,
            simulates=can_simulate(),
            lacking=NO_SIMULATOR,
            **values,
        )
    )
    return page


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Templates, and the names that inputs complete."""
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
