"""The application: one handler per address; each reads, asks at the desk, and shows."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from anyio import to_thread
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.response import ServerSentEvent, ServerSentEventMessage

from tonnage.catalog import NOTHING, Additions
from tonnage.errors import BadRequest, TonnageError
from tonnage.web import pages
from tonnage.web.desk import Busy, Desk, Kept, ask, begin, desk, follow, is_kept, kept
from tonnage.web.guard import LARGEST_BODY, LOOPBACK, Asgi, guarded, mapping, single
from tonnage.web.models import admitted, keep
from tonnage.web.openapi import openapi
from tonnage.web.questions import QUESTIONS, at_first, nested

__all__ = ["application"]

MOST_CASES: Final = 200
METHOD_NOT_ALLOWED: Final = 405
CACHED: Final = {"cache-control": "private, max-age=3600"}
JSON: Final = "application/json"
_CHART: Final = re.compile(r"([a-z-]{1,40})-(light|dark)\.svg")


def application(*, additions: Additions = NOTHING, hosts: tuple[str, ...] = LOOPBACK) -> Asgi:
    """
    The page and the API.

    Parameters
    ----------
    additions : Additions
        The user's own accelerators and offers, for every question.
    hosts : tuple of str
        Names this machine answers to.
    """
    uploads = tempfile.TemporaryDirectory(prefix="tonnage-")
    held = desk(additions=additions, uploads=Path(uploads.name))
    app = Litestar(
        route_handlers=[
            _index, _api, _document, _static, _answer, _chart, _compare, _what_ifs, _export, _models, _predict,
            _progress,
            *(_question(path) for path in QUESTIONS), *(_posted(path) for path in QUESTIONS),
        ],
        openapi_config=None,
        request_max_body_size=LARGEST_BODY,
        exception_handlers={
            Busy: partial(_said, status=503), TonnageError: partial(_said, status=400), HTTPException: _refused,
        },
        on_shutdown=[uploads.cleanup],
    )  # fmt: skip
    app.state.desk = held
    return guarded(_with_options(app), hosts=hosts)


def _with_options(app: Litestar) -> Asgi:
    """The application, which says what each address takes; the framework would say it for one handler of several."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        known = _methods(app, scope.get("path", "")) if scope.get("method") == "OPTIONS" else ""
        if not known:
            return await app(scope, receive, send)
        await send({"type": "http.response.start", "status": 204, "headers": [(b"allow", known.encode())]})
        await send({"type": "http.response.body", "body": b""})

    return serve


def _methods(app: Litestar, path: str) -> str:
    """As an `Allow` header lists them; empty for an address without a handler."""
    return ", ".join(sorted(map(str, app.route_handler_method_map.get(path.rstrip("/") or "/", {}))))


def _desk(request: Request[Any, Any, Any]) -> Desk:
    found: Desk = request.app.state.desk
    return found


@get("/", sync_to_thread=False)
def _index() -> Response[str]:
    return _html(pages.index_page())


@get("/api", sync_to_thread=False)
def _api(request: Request[Any, Any, Any]) -> Response[str]:
    return _html(pages.api_page(origin=f"http://{request.headers.get('host', 'localhost')}"))


@get("/openapi.json", sync_to_thread=False)
def _document() -> Response[bytes]:
    return _json(msgspec.json.encode(openapi()))


@get("/static/{name:str}", sync_to_thread=False)
def _static(request: Request[Any, Any, Any]) -> Response[bytes]:
    name = request.path_params["name"]
    if name == "style.css":
        return Response(pages.style().encode(), media_type="text/css", headers=CACHED)
    kinds = {"page.js": "text/javascript", "icon.svg": "image/svg+xml"}
    if name not in kinds:
        raise HTTPException(status_code=404, detail=f"no file '{name}'")
    content = files("tonnage.web").joinpath("static", name).read_bytes()
    return Response(content, media_type=kinds[name], headers=CACHED)


def _question(path: str) -> Any:
    """GET of a form: the empty form, or the answer to the fields in its address, as HTML or JSON."""
    question = QUESTIONS[path]

    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        given = single(request.query_params.multi_items())
        if _wants_json(request):
            return _json(pages.document((await ask(_desk(request), path, request=nested(given)))[1]))
        if not given:
            return _html(pages.question_page(question, given={}))
        held, whole, first = _desk(request), nested(given), at_first(question, given)
        try:
            waits = first is not None and not is_kept(held, path, request=whole)
            key, answer = await ask(held, path, request=first if waits and first is not None else whole)
            shown = pages.Shown(key=key, answer=answer, waits=waits)
            page = await to_thread.run_sync(lambda: pages.question_page(question, given=given, shown=shown))
            if waits:
                begin(held, path, request=whole)
        except Busy:
            raise
        except TonnageError as wrong:
            return _html(pages.question_page(question, given=given, error=str(wrong)), status=400)
        return _html(page)

    return get(f"/{path}", name=f"form {path}")(handle)


def _posted(path: str) -> Any:
    """POST of a question: fields as JSON in, the answer as JSON out."""

    async def handle(request: Request[Any, Any, Any]) -> Response[bytes]:
        _, answer = await ask(_desk(request), path, request=mapping(await request.body()))
        return _json(pages.document(answer))

    return post(f"/{path}", name=f"ask {path}", status_code=200)(handle)


@post("/predict", status_code=200)
async def _predict(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Many cases in, as many predictions or sentences out, in their order."""
    from tonnage.planner.predict.case_lines import case_of_object
    from tonnage.planner.predict.predict import predict

    body = mapping(await request.body())
    cases = body.get("cases")
    if set(body) != {"cases"} or not isinstance(cases, list) or not 0 < len(cases) <= MOST_CASES:
        raise BadRequest(f"cases: a list of 1 to {MOST_CASES} cases is expected, and nothing beside it")
    held = _desk(request)

    def one(case: Any) -> Any:
        try:
            return predict(case_of_object(admitted(case, folder=held.uploads)), additions=held.additions)
        except TonnageError as wrong:
            return {"error": str(wrong)}

    results = await to_thread.run_sync(lambda: [one(case) for case in cases], limiter=held.places)
    return _json(msgspec.json.encode({"results": results}))


@get("/progress/{question:path}")
async def _progress(request: Request[Any, Any, Any]) -> ServerSentEvent:
    """How far the answer to these fields is; it waits where the form looks for it."""
    path = str(request.path_params["question"]).strip("/")
    if path not in QUESTIONS:
        raise HTTPException(status_code=404, detail=f"no question '{path[:40]}'")
    given = nested(single(request.query_params.multi_items()))
    held = _desk(request)

    async def events() -> AsyncIterator[ServerSentEventMessage]:
        end: dict[str, str] = {}
        try:
            async for done, total in follow(held, path, request=given):
                yield ServerSentEventMessage(event="progress", data=_text({"done": done, "total": total}))
        except TonnageError as wrong:
            end = {"error": str(wrong)}
        yield ServerSentEventMessage(event="end", data=_text(end))

    return ServerSentEvent(events())


@get("/answer/{name:str}", sync_to_thread=False)
def _answer(request: Request[Any, Any, Any]) -> Response[bytes]:
    """A kept answer, as JSON."""
    name: str = request.path_params["name"]
    return _json(pages.document(_still_here(_desk(request), name.removesuffix(".json")).answer))


@get("/chart/{key:str}/{name:str}")
async def _chart(request: Request[Any, Any, Any]) -> Response[bytes]:
    """One picture of a kept answer."""
    from tonnage.report.charts import charts_of
    from tonnage.report.charts.svg import svg

    name = request.path_params["name"]
    match = _CHART.fullmatch(name)
    answer = _still_here(_desk(request), request.path_params["key"]).answer
    chart = next((chart for chart in charts_of(answer) if match and chart.name == match[1]), None)
    if chart is None or match is None:
        raise HTTPException(status_code=404, detail=f"this answer has no picture '{name[:40]}'")
    drawn = await to_thread.run_sync(lambda: svg(chart, theme=match[2]))
    return Response(drawn.encode(), media_type="image/svg+xml", headers=CACHED)


@get("/compare")
async def _compare(request: Request[Any, Any, Any]) -> Response[str]:
    """One or two kept answers side by side, and the others that could stand there."""
    held = _desk(request)
    keys = [key for name in ("left", "right") if (key := request.query_params.get(name))]
    if not keys:
        raise BadRequest("compare: name a kept answer, /compare?left=KEY&right=KEY; each answer has a link to it")
    columns = [(key, _still_here(held, key)) for key in keys]
    others = [(key, found) for key, found in held.answers.items() if key not in keys]
    page = await to_thread.run_sync(lambda: pages.compare_page(columns, others=others))
    return _html(page)


@get("/what-ifs/{key:str}")
async def _what_ifs(request: Request[Any, Any, Any]) -> Response[str]:
    """A kept question changed in a few ways, and what each moves."""
    from tonnage.web.what_if import WhatIf, form_fields, request_of, what_ifs

    held = _desk(request)
    key = request.path_params["key"]
    found = _still_here(held, key)
    first = QUESTIONS[found.path].at_first
    changes = what_ifs(found.path, found.request)
    # By averages on both sides, where that is possible: like is compared with like, and at once.
    same = WhatIf(says="", fields=form_fields(found.request))
    base_key, base = await ask(held, found.path, request=request_of(same, at_first=first))
    asked = []
    for change in changes:
        try:
            asked.append((change, *await ask(held, found.path, request=request_of(change, at_first=first))))
        except Busy:
            raise
        except TonnageError as wrong:
            asked.append((change, "", wrong))
    return _html(pages.what_ifs_page(found.path, base=(base_key, base), asked=asked))


@get("/export/{key:str}")
async def _export(request: Request[Any, Any, Any]) -> Response[Any]:
    """The files that start a kept plan on a target."""
    from tonnage import handoff
    from tonnage.planner.startable import startable

    held, target = _desk(request), request.query_params.get("to", "")
    found = _still_here(held, request.path_params["key"])
    handoff.target_module(target)
    rank = request.query_params.get("option", "1")
    if not rank.isdecimal() or not 0 < int(rank) < 1000:
        raise BadRequest(f"option: '{rank[:20]}' is not the rank of an option")
    plan, option = startable(found.answer, rank=int(rank), additions=held.additions)
    written = handoff.export(plan, option, to=target)
    if _wants_json(request):
        return _json(msgspec.json.encode({"files": written}))
    known = handoff.known_targets()[target]
    return _html(pages.files_page(written, title=f"{known.title}: files", about=f"Start it with: {known.start}"))


@post("/models", status_code=200)
async def _models(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Keep an uploaded config.json; the name that questions can use for it."""
    body = await request.body()
    return _json(msgspec.json.encode({"model": keep(mapping(body), body, folder=_desk(request).uploads)}))


def _still_here(held: Desk, key: str) -> Kept:
    found = kept(held, key)
    if found is None:
        raise HTTPException(status_code=404, detail="this answer is not kept any more; ask its question again")
    return found


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _wants_json(request: Request[Any, Any, Any]) -> bool:
    accepted = request.headers.get("accept", "")
    return JSON in accepted and "text/html" not in accepted


def _html(page: str, *, status: int = 200) -> Response[str]:
    return Response(page, media_type=MediaType.HTML, status_code=status)


def _json(body: bytes, *, status: int = 200) -> Response[bytes]:
    return Response(body, media_type=JSON, status_code=status)


def _said(request: Request[Any, Any, Any], wrong: TonnageError, *, status: int) -> Response[Any]:
    return _problem(request, str(wrong), status=status)


def _refused(request: Request[Any, Any, Any], wrong: HTTPException) -> Response[Any]:
    answer = _problem(request, wrong.detail or "refused", status=wrong.status_code)
    if wrong.status_code == METHOD_NOT_ALLOWED:
        answer.headers["allow"] = _methods(request.app, request.url.path)
    return answer


def _problem(request: Request[Any, Any, Any], why: str, *, status: int) -> Response[Any]:
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return _html(pages.problem_page(why), status=status)
    return _json(pages.error_document(why), status=status)
