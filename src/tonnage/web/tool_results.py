"""
What each tool for assistants gives: a report as Markdown, and the same as structured content.

A plan's whole record would drown its reader, so it is kept as a file in Tonnage's own folder and named in the result;
`explain_plan`, `export_plan` and the command line read that file.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from datetime import date
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import msgspec

from tonnage.catalog import Additions
from tonnage.catalog.rows import write_whole
from tonnage.errors import BadRequest, UnknownName
from tonnage.foreign import MOST_VALUES, check_values
from tonnage.questions.answers import blocks_of
from tonnage.questions.registry import KINDS
from tonnage.report.html import markdown
from tonnage.web.answering import answer_form, predict_each
from tonnage.web.measured import chosen
from tonnage.web.questions import QUESTIONS, parse_form_lists

TOP: Final = 5
"""Options in a result."""
SHARP: Final = 1.5
"""Pixels of a drawn picture over those of its plot."""
ROWS: Final = 20
"""Of a list of the catalogue, unless asked for otherwise."""
MOST_ROWS: Final = 200
MOST_CASES: Final = 50
MOST_SOURCES: Final = 8
TOOLS: Final[dict[str, str]] = {
    **{kind.tool or f"plan_{kind.name}": f"plan/{kind.name}" for kind in KINDS.values()},
    "check_memory_fit": "fit",
    "models_for_machine": "local",
    "rent_or_buy": "cost/rent-or-buy",
    "simulate_serving": "simulate",
    "compare_configurations": "compare/ways",
    "adopt_deployment": "adopt",
}
"""Name of a tool -> path of its question."""
PREDICT: Final = "predict_performance"
"""The tool whose fields are those of cases."""
CATALOGUE_KINDS: Final = ("accelerators", "models", "offers", "providers")


class Result(NamedTuple):
    """Of one tool."""

    text: str
    """Markdown, for a reader."""
    data: dict[str, Any]
    """What the tool's output schema says, for a program."""
    charts: tuple[tuple[str, str], ...] = ()
    """Pictures: the name of each, and its Vega-Lite specification with its data."""
    drawn: bytes = b""
    """The first of them as PNG; empty without the `plots` extra."""


def call(name: str, arguments: Mapping[str, Any], *, additions: Additions) -> Result:
    """
    The result of one tool.

    Raises
    ------
    TonnageError
        No such tool, or a wrong request.
    """
    check_values(arguments, where="the arguments", most=MOST_VALUES)
    if name in _CALLS:
        return _CALLS[name](*chosen(arguments, additions))
    if name not in TOOLS:
        raise UnknownName("tool", name, known=(*TOOLS, *_CALLS))
    question = QUESTIONS[TOOLS[name]]
    answer = answer_form(question, parse_form_lists(question, arguments), additions=additions)
    data: dict[str, Any] = {"headline": answer.sentence}
    if question.kind:
        data |= {"feasible": answer.feasible, "options": _options(answer), "plan_file": _keep(question.kind, answer)}
    return Result(markdown(blocks_of(answer, top=TOP)), data, *_charts(answer))


def _charts(answer: Any) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """
    The pictures of an answer, the most telling first, as clients that draw Vega-Lite take them; and that one drawn on
    white, for the others.
    """
    from tonnage.questions.answers import charts_of
    from tonnage.report.charts.chart import renderer, specification

    found = [(chart.name, specification(chart)) for chart in charts_of(answer)]
    drawn = b""
    if found and find_spec("vl_convert") is not None:
        drawn = renderer().vegalite_to_png({**found[0][1], "background": "white"}, scale=SHARP)
    return tuple((name, msgspec.json.encode(body).decode()) for name, body in found), drawn


def _keep(kind: str, plan: Any) -> str | None:
    """The file a plan is kept in, the same for the same plan; None where the user's folder cannot be written."""
    from platformdirs import user_state_path

    from tonnage.report.document import as_json

    content = (as_json(plan) + "\n").encode()
    path = (
        user_state_path("tonnage", appauthor=False)
        / "plans"
        / f"{kind}-{hashlib.sha256(content).hexdigest()[:12]}.json"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError:
        return None
    return str(path)


def _options(plan: Any) -> list[dict[str, Any]]:
    """
    The first options of a plan, as plain values.

    Of a lifecycle the first of each half, of owned machines the first row of each group, of a budget its first model
    and its runs; of a fleet all its instances.
    """
    if hasattr(plan, "make"):
        halves = (("make", plan.make), ("serve", plan.serve))
        return [{"part": part, **option} for part, half in halves for option in _options(half)[:1]]
    if hasattr(plan, "groups"):
        return [{"group": one.name, **msgspec.to_builtins(row)} for one in plan.groups for row in one.rows[:1]][:TOP]
    if hasattr(plan, "models"):
        return [msgspec.to_builtins(one) for one in (*plan.models[:1], *plan.runs, *plan.tunes)][:TOP]
    if hasattr(plan, "instances"):
        found: list[dict[str, Any]] = [msgspec.to_builtins(line) for line in plan.instances]
        return found
    return [_option(rank, option) for rank, option in enumerate(plan.options[:TOP], 1)]


def _option(rank: int, option: Any) -> dict[str, Any]:
    """One option as plain values: what it runs on, its verdict, its offer and its cost with the interval."""
    at = getattr(option, "configuration", option)
    row: dict[str, Any] = {
        "rank": rank,
        "accelerator": at.accelerator,
        "accelerators": getattr(option, "accelerators", getattr(option, "count", None)),
        "basis": str(getattr(option, "basis", "")),
        "verdict": option.verdict,
    }
    if at is not option:
        row["configuration"] = msgspec.to_builtins(at)
    bill, cost = getattr(option, "bill", None), getattr(option, "cost", None)
    if bill is not None:
        row |= {"provider": bill.provider, "region": bill.region, "term": bill.term, "price_of": bill.as_of}
    if cost is not None:
        numbers = {"value": cost.value, "low": cost.low, "high": cost.high, "unit": cost.unit}
        row["cost"] = {name: value for name, value in numbers.items() if value is not None}
    return row


def _take(arguments: dict[str, Any], name: str, kind: type, *, otherwise: Any = None) -> Any:
    """One argument, taken out of the others; `otherwise` where it is absent. A wrong type or a long list is refused."""
    value = arguments.pop(name, otherwise)
    if value is otherwise:
        return value
    words = {str: "a text", int: "a whole number", list: "a list of texts"}
    wrong = not isinstance(value, kind) or isinstance(value, bool)
    if wrong or (kind is list and not all(isinstance(item, str) for item in value)):
        raise BadRequest(f"{name}: {words[kind]} is expected")
    most = MOST_SOURCES if name == "sources" else MOST_ROWS
    if kind is list and len(value) > most:
        raise BadRequest(f"{name}: {len(value):,} entries are more than {most}; ask for them in parts")
    return value


def _take_required(arguments: dict[str, Any], name: str) -> str:
    value = _take(arguments, name, str)
    if not value:
        raise BadRequest(f"{name}: it is missing, and must be given")
    found: str = value
    return found


def _nothing_else(arguments: dict[str, Any], *, known: tuple[str, ...]) -> None:
    if arguments:
        raise UnknownName("field", next(iter(arguments)), known=known)


def _predict(arguments: dict[str, Any], additions: Additions) -> Result:
    cases = arguments.get("cases")
    if not isinstance(cases, list) or not cases:
        raise BadRequest("cases: a list of at least one case is expected")
    if len(cases) > MOST_CASES:
        raise BadRequest(f"cases: {len(cases):,} are more than {MOST_CASES}; ask for them in parts")

    encoded = msgspec.json.encode(predict_each(cases, additions=additions))
    return Result(encoded.decode(), {"results": msgspec.json.decode(encoded)})


def _diagnose(arguments: dict[str, Any], additions: Additions) -> Result:
    """What limits a running system, from sources that this machine can read."""
    from tonnage.measure.diagnose.sources import diagnose, watch_of
    from tonnage.questions.adopt.service import stated_facts, with_plan

    sources, model = _take(arguments, "sources", list), arguments.pop("model", None)
    if not sources:
        raise BadRequest("sources: a list of addresses or files is expected")
    known = stated_facts(accelerator=arguments.pop("accelerator", None), model=model, additions=additions)
    baseline = arguments.pop("baseline", None)
    found = diagnose(*sources, watch=watch_of(arguments), baseline=baseline, known=known)
    answer = found if model is None else with_plan(found, model=model, additions=additions)
    return Result(markdown(blocks_of(answer)), {"headline": answer.sentence})


def _advised(arguments: dict[str, Any], additions: Additions) -> Result:
    """What to change in a service, from what starts it and sources that this machine can read."""
    from tonnage.adopt import read_running
    from tonnage.measure.diagnose.sources import watch_of
    from tonnage.measure.points import look_at_service
    from tonnage.questions.adopt.question import adopt_request
    from tonnage.questions.adopt.service import View, advise_service

    sources = _take(arguments, "sources", list)
    if not sources:
        raise BadRequest("sources: a list of addresses or files is expected")
    reuse, log = (_take(arguments, name, str) for name in ("reuse", "log"))
    watch = watch_of({name: arguments.pop(name) for name in ("window", "match") if name in arguments})
    asked = adopt_request(arguments, additions=additions)
    running = read_running(asked.file)
    looked = look_at_service(*sources, watch=watch)
    view = View(pages=looked.pages, reuse=reuse, measured=looked.measured, log=log)
    answer = advise_service(asked, running, found=looked.diagnosis, view=view, additions=additions)
    return Result(markdown(blocks_of(answer)), {"headline": answer.sentence})


def _trace(arguments: dict[str, Any], _: Additions) -> Result:
    from tonnage.questions.sessions.logs import trace_sessions

    log = _take_required(arguments, "log")
    _nothing_else(arguments, known=("log",))
    answer = trace_sessions(log)
    # The fitted profile is hundreds of quantiles; the text has its medians.
    record = msgspec.to_builtins(msgspec.structs.replace(answer, profile=None))
    return Result(markdown(blocks_of(answer)), {"headline": answer.sentence, "sessions": record}, *_charts(answer))


def _list(arguments: dict[str, Any], additions: Additions) -> Result:
    """A list of the catalogue: as the command line prints it to a pipe, and its rows."""
    from tonnage import catalog
    from tonnage.catalog import listings
    from tonnage.catalog.filters import Order, Wanted
    from tonnage.report.listing import show_listing

    kind = _take_required(arguments, "kind")
    if kind not in CATALOGUE_KINDS:
        raise UnknownName("kind", kind, known=CATALOGUE_KINDS)
    names = tuple(_take(arguments, "names", list, otherwise=()))
    providers = tuple(_take(arguments, "providers", list, otherwise=()))
    countries = tuple(_take(arguments, "countries", list, otherwise=()))
    order = Order(limit=min(MOST_ROWS, max(1, _take(arguments, "limit", int, otherwise=ROWS))))
    _nothing_else(arguments, known=("kind", "names", "providers", "countries", "limit"))
    if kind == "models":
        listing = listings.models_listing(catalog.models(), names=names, order=order, today=date.today())
    else:
        build = {
            "accelerators": listings.accelerators_listing,
            "offers": listings.offers_listing,
            "providers": listings.providers_listing,
        }[kind]
        wanted = Wanted(accelerators=names, providers=providers, countries=countries)
        listing = build(wanted, order=order, today=date.today(), additions=additions)
    rows = msgspec.json.decode(msgspec.json.encode(listing.rows))
    shown = io.StringIO()
    with redirect_stdout(shown):
        show_listing(listing)
    return Result(f"```text\n{shown.getvalue()}```", {"rows": rows})


def _explain(arguments: dict[str, Any], additions: Additions) -> Result:
    """An option of a kept plan opened, with its times where its kind has any."""
    from tonnage.questions.answers import explanation_of
    from tonnage.questions.ask import read_plan
    from tonnage.questions.explain.explain import explain_plan
    from tonnage.questions.explain.page import PLAN_DEPTH, breakdown_document

    path = _take_required(arguments, "plan_file")
    rank, number = _take(arguments, "option", int, otherwise=1), _take(arguments, "number", str)
    _nothing_else(arguments, known=("plan_file", "option", "number"))
    plan = read_plan(path)
    blocks = explanation_of(plan, rank=rank).blocks
    found = explain_plan(plan, rank=rank, additions=additions)
    if found is not None:
        blocks = (*blocks, *breakdown_document(found, depth=PLAN_DEPTH, only=number).blocks)
    return Result(markdown(blocks), {"headline": plan.sentence})


def _export(arguments: dict[str, Any], additions: Additions) -> Result:
    """The files that start an option of a kept plan; nothing is written."""
    from tonnage import export
    from tonnage.questions.ask import read_plan
    from tonnage.questions.launchable import launchable_option

    path, target = _take_required(arguments, "plan_file"), _take_required(arguments, "target")
    rank, checkpoint = _take(arguments, "option", int, otherwise=1), _take(arguments, "checkpoint", str)
    _nothing_else(arguments, known=("plan_file", "target", "option", "checkpoint"))
    export.check_target(target)  # an unknown target is told before the plan is read
    plan, option = launchable_option(read_plan(path), rank=rank, checkpoint=checkpoint, additions=additions)
    if target == export.LIST:
        found = export.offered(plan, option)
        return Result("\n".join(f"- {line}" for line in found.told()), {"files": {}, **found._asdict()})
    made = export.written(plan, option, to=target)
    shown = "\n".join(f"`{name}`\n\n```\n{text}```\n" for name, text in made.files.items())
    return Result("\n".join((shown, f"Start it with: {made.start}", *made.then)), {"files": made.files})


def _fields(arguments: dict[str, Any], _: Additions) -> Result:
    """All fields of a tool, as JSON Schema; of predictions those of each kind of case."""
    from tonnage.questions.request_schema import case_schemas
    from tonnage.web.openapi import request_schema

    name = _take_required(arguments, "tool")
    _nothing_else(arguments, known=("tool",))
    if name == PREDICT:
        kinds = {case["properties"]["kind"]["const"]: case["properties"] for case in case_schemas()}
        shown = "\n".join(f"- `{kind}`: {', '.join(f'`{field}`' for field in of)}" for kind, of in kinds.items())
        return Result(f"A case of each kind takes:\n\n{shown}", {"fields": kinds})
    if name not in TOOLS:
        raise UnknownName("tool", name, known=(*TOOLS, PREDICT))
    question = QUESTIONS[TOOLS[name]]
    shown = "\n".join(f"- `{field.name}`: {field.help}" for field in question.fields)
    return Result(shown, {"fields": request_schema(question)["properties"]})


_CALLS: Final[dict[str, Callable[[dict[str, Any], Additions], Result]]] = {
    PREDICT: _predict,
    "diagnose_bottleneck": _diagnose,
    "advise_service": _advised,
    "sessions_of_request_log": _trace,
    "search_catalogue": _list,
    "explain_plan": _explain,
    "export_plan": _export,
    "request_fields": _fields,
}
"""Tools that are no question of their own."""
