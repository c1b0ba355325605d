"""The application: one handler per address; each reads, has the work done by a worker, and shows."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from importlib.resources import files
from typing import Any, Final

import msgspec
from litestar import Litestar, Response, get, post
from litestar.config.compression import CompressionConfig
from litestar.exceptions import HTTPException, NotFoundException
from litestar.response import ServerSentEvent, ServerSentEventMessage
from litestar.response.base import ASGIResponse

from tonnage.catalog import NOTHING, Additions
from tonnage.errors import BadRequest, TonnageError, UnknownName
from tonnage.version import __version__
from tonnage.web import pages
from tonnage.web.bounded import bound_body
from tonnage.web.browse import CACHED, CATALOGUE
from tonnage.web.guard import (
    HEALTH,
    LOOPBACK,
    NOT_ASKED,
    Asgi,
    error_document,
    guard_app,
    json_object,
)
from tonnage.web.jobs import Jobs, key_of
from tonnage.web.openapi import openapi
from tonnage.web.questions import QUESTIONS, at_first, nest_form_names
from tonnage.web.records import Busy, Kept, Limits, Settings, TooLong, TooMuchMemory, WorkerLost
from tonnage.web.replies import (
    Asked,
    answer_of,
    answer_reply,
    client_of,
    csv_reply,
    fields_of,
    html_reply,
    jobs_of,
    json_reply,
    kept_of,
    kept_step,
    made,
    still_here,
    wants_json,
)

METHOD_NOT_ALLOWED: Final = 405
COMPRESSION: Final = CompressionConfig(backend="gzip", gzip_compress_level=5, minimum_size=1000, exclude="/progress/")
STATUSES: Final[dict[type[TonnageError], int]] = {Busy: 503, TooLong: 504, TooMuchMemory: 507, WorkerLost: 500}
NOT_ASKED_NOTE: Final = (
    "Another site led you here, so that nothing was asked yet. If the form says what you want to know, press Answer."
)

_ONE_NAME: Final = re.compile(r"\{[^}:]*(?::(?!path)[^}]*)?\}")
"""A name in the address of a handler, which holds no slash."""


def application(
    *, additions: Additions = NOTHING, hosts: tuple[str, ...] = LOOPBACK, limits: Limits | None = None, token: str = ""
) -> Asgi:
    """
    The page and the API.

    Parameters
    ----------
    additions : Additions
        The user's own accelerators and offers, for every question.
    hosts : tuple of str
        Names this machine answers to.
    limits : Limits
        Of time, memory and waiting; the usual ones where none are given.
    token : str
        What every request must know; empty asks for none.
    """
    limits = limits or Limits()
    uploads = tempfile.TemporaryDirectory(prefix="tonnage-")
    settings = Settings(additions=additions, uploads=uploads.name, memory_bytes=limits.memory_bytes)
    jobs = Jobs(settings, limits=limits)
    app = Litestar(
        route_handlers=[
            _index,
            _example,
            *CATALOGUE,
            _vega,
            _api,
            _document,
            _static,
            _answer,
            _compare,
            _what_ifs,
            _step,
            _export,
            _numbers,
            _models,
            _files,
            _predict,
            _progress,
            _health,
            *(_question(path) for path in QUESTIONS),
            *(_post_route(path) for path in QUESTIONS),
        ],
        openapi_config=None,
        compression_config=COMPRESSION,
        exception_handlers={
            **{kind: partial(_error_response, status=status) for kind, status in STATUSES.items()},
            TonnageError: partial(_error_response, status=400),
            HTTPException: _refusal_response,
        },
        on_startup=[jobs.warm],
        on_shutdown=[jobs.kill, uploads.cleanup],
    )
    app.state.jobs, app.state.vega, app.state.steps = jobs, None, {}
    return guard_app(bound_body(_with_options(app), limits=limits), hosts=hosts, token=token)


def _with_options(app: Litestar) -> Asgi:
    """The application, which says what each address takes; the framework would say it for one handler of several."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        known = _methods(app, scope.get("path", "")) if scope.get("method") == "OPTIONS" else ""
        if not known:
            return await app(scope, receive, send)
        await ASGIResponse(status_code=204, headers={"allow": known})(scope, receive, send)

    return serve


def _methods(app: Litestar, path: str) -> str:
    """As an `Allow` header lists them; empty for an address without a handler."""
    wanted = path.rstrip("/") or "/"
    known = set(map(str, app.route_handler_method_map.get(wanted, {})))
    for template, methods in () if known else app.route_handler_method_map.items():
        if "{" in template and re.fullmatch(re.sub(r"\{[^}]*:path\}", ".+", _ONE_NAME.sub("[^/]+", template)), wanted):
            known |= set(map(str, methods))
    return ", ".join(sorted(known | ({"HEAD"} if "GET" in known else set())))


@get(HEALTH, sync_to_thread=False)
def _health(request: Asked) -> Response[bytes]:
    """For a watchdog: the server answers; its workers may be busy."""
    line = jobs_of(request).plans.line
    state = {
        "schema": "tonnage.health/1",
        "status": "ok",
        "version": __version__,
        "working": line.taken,
        "waiting": line.length,
    }
    return json_reply(msgspec.json.encode(state), headers={"cache-control": "no-store"})


@get("/")
async def _index(request: Asked) -> Response[str]:
    return html_reply(await made(request, "front"))


@get("/example")
async def _example(request: Asked) -> Response[str]:
    """The answer to a form's example, by averages where that is possible; kept like any other."""
    jobs, client, path = jobs_of(request), client_of(request), request.query_params.get("of", pages.EXAMPLE)
    if path not in QUESTIONS:
        raise HTTPException(status_code=404, detail=f"no question '{path[:40]}'")
    question = QUESTIONS[path]
    asked = at_first(question, question.example) or nest_form_names(question.example)
    key, kept = await jobs.ask(question.path, request=asked, client=client)
    return html_reply(await made(request, "example", key=key, kept=kept, path=path))


@get("/api", sync_to_thread=False)
def _api(request: Asked) -> Response[str]:
    return html_reply(
        pages.api_page(origin=f"http://{request.headers.get('host', 'localhost')}", limits=jobs_of(request).limits)
    )


@get("/openapi.json", sync_to_thread=False)
def _document() -> Response[bytes]:
    return json_reply(msgspec.json.encode(openapi()))


@get("/static/{name:str}", sync_to_thread=False)
def _static(request: Asked) -> Response[bytes]:
    name = request.path_params["name"]
    if name == "style.css":
        return Response(pages.style().encode(), media_type="text/css", headers=CACHED)
    kinds = {"page.js": "text/javascript", "icon.svg": "image/svg+xml"}
    if name not in kinds:
        raise HTTPException(status_code=404, detail=f"no file '{name}'")
    content = files("tonnage.web").joinpath("static", name).read_bytes()
    return Response(content, media_type=kinds[name], headers=CACHED)


def _question(path: str) -> Any:
    """
    GET of a form: the empty form, or the answer to the fields in its address, as HTML or JSON.

    A page whose whole answer takes long holds the one by averages first, while the whole is worked on. What is wrong
    with the fields stands on the page; a link of another site shows the form and asks nothing.
    """
    question = QUESTIONS[path]

    async def handle(request: Asked) -> Response[Any]:
        jobs, client, given = jobs_of(request), client_of(request), fields_of(request)
        every, option = given.pop("all", "") == "true", given.pop("option", "1") if question.kind else "1"
        if wants_json(request):
            if request.scope.get(NOT_ASKED):
                raise HTTPException(status_code=403, detail="requests from other sites are refused")
            return answer_reply(*await jobs.ask(path, request=nest_form_names(given), client=client))
        if not given:
            return html_reply(pages.question_page(question, given={}))

        async def page(kept: tuple[str, Kept] | None, *, waits: bool = False, note: str = "") -> str:
            shown: str = await made(
                request, "page", path=path, given=given, kept=kept, waits=waits, note=note, every=every, option=option
            )
            return shown

        if request.scope.get(NOT_ASKED):
            return html_reply(await page(None, note=NOT_ASKED_NOTE), status=403)
        try:
            whole, first = nest_form_names(given), at_first(question, given)
            waits = first is not None and jobs.kept(key_of(path, whole)) is None
            kept = await jobs.ask(path, request=first if waits and first is not None else whole, client=client)
        except TonnageError as wrong:
            if type(wrong) in STATUSES and not isinstance(wrong, TooLong | TooMuchMemory):
                raise
            return html_reply(await page(None, note=str(wrong)), status=STATUSES.get(type(wrong), 400))
        shown = await page(kept, waits=waits)
        if waits:
            jobs.begin(path, request=whole, client=client)
        return html_reply(shown)

    return get(f"/{path}", name=f"form {path}")(handle)


def _post_route(path: str) -> Any:
    """POST of a question: fields as JSON in, the answer as JSON out."""

    async def handle(request: Asked) -> Response[bytes]:
        asked = json_object(await request.body())
        return answer_reply(*await jobs_of(request).ask(path, request=asked, client=client_of(request)))

    return post(f"/{path}", name=f"ask {path}", status_code=200)(handle)


@post("/predict", status_code=200)
async def _predict(request: Asked) -> Response[bytes]:
    """Many cases in, as many predictions or sentences out, in their order."""
    body = json_object(await request.body())
    try:
        return json_reply(await jobs_of(request).plans.run("predict", {"body": body}, client=client_of(request)))
    except TooLong as late:
        raise TooLong(f"{late}; send fewer cases at once") from None


@get("/progress/{question:path}")
async def _progress(request: Asked) -> ServerSentEvent:
    """Events that say how far the answer to these fields is; once there it is kept, and the form's page finds it."""
    path = str(request.path_params["question"]).strip("/")
    if path not in QUESTIONS:
        raise HTTPException(status_code=404, detail=f"no question '{path[:40]}'")
    jobs, client, given = jobs_of(request), client_of(request), nest_form_names(fields_of(request))

    async def events() -> AsyncIterator[ServerSentEventMessage]:
        async for event, figures in jobs.follow(path, request=given, client=client):
            yield ServerSentEventMessage(event=event, data=msgspec.json.encode(figures).decode())

    return ServerSentEvent(events())


@get("/answer/{name:str}")
async def _answer(request: Asked) -> Response[Any]:
    """A kept answer, as JSON; its options as CSV."""
    name: str = request.path_params["name"]
    jobs = jobs_of(request)
    if name.endswith(".csv"):
        found = still_here(jobs, name.removesuffix(".csv"))
        return csv_reply(await made(request, "options", kept=found))
    return json_reply(still_here(jobs_of(request), name.removesuffix(".json")).document)


@get("/static/vega.js")
async def _vega(request: Asked) -> Response[bytes]:
    """The library that draws charts to be explored; without the `plots` extra pages keep their tables."""
    kept = request.app.state
    if kept.vega is None:
        kept.vega = await jobs_of(request).pictures.run("vega", {}, client=client_of(request))
    return Response(kept.vega, media_type="text/javascript", headers=CACHED)


@get("/compare")
async def _compare(request: Asked) -> Response[str]:
    """One or two answers side by side, each by its key or its question; and others that could stand there."""
    jobs = jobs_of(request)
    named = [text for name in ("left", "right") if (text := request.query_params.get(name))]
    if not named:
        raise BadRequest(
            "compare: name an answer by its key or by its question's address, /compare?left=fit?model=8B; "
            "each answer has a link to it"
        )
    columns = [await answer_of(request, text) for text in named]
    others = jobs.sentences([key for key, _ in columns])
    return html_reply(await made(request, "compare", columns=columns, left=named[0], others=others))


@get("/what-ifs/{key:str}")
async def _what_ifs(request: Asked) -> Response[str]:
    """A kept question changed in a few ways, and what each moves."""
    jobs, client = jobs_of(request), client_of(request)
    found = await kept_of(request)
    same, changes = await made(request, "changes", kept=found)
    base = await jobs.ask(found.path, request=same, client=client)
    asked: list[tuple[Any, str, Kept | str]] = []
    for change, changed in changes:
        try:
            asked.append((change, *await jobs.ask(found.path, request=changed, client=client)))
        except Busy:
            raise
        except TonnageError as wrong:
            asked.append((change, "", str(wrong)))
    return html_reply(await made(request, "changes_page", path=found.path, base=base, asked=asked))


@get("/step/plan/serve")
async def _step(request: Asked) -> Response[bytes]:
    """Cost and replicas of a question to serve: a step of a slider."""
    return json_reply(await kept_step(request))


@get("/export/{key:str}")
async def _export(request: Asked) -> Response[Any]:
    """The files that start a kept plan on a target, or their archive; without a target, where it can be started."""
    key = request.path_params["key"]
    found = await kept_of(request)
    asked = {name: request.query_params.get(name, "") for name in ("to", "option", "checkpoint", "of", "archive")}
    reply, page, archive = await made(request, "export", kept=found, key=key, asked=asked)
    if archive:
        name = f"tonnage-{asked['to'] or 'start'}.zip"
        return Response(
            archive, media_type="application/zip", headers={"content-disposition": f'attachment; filename="{name}"'}
        )
    return json_reply(msgspec.json.encode(reply)) if wants_json(request) else html_reply(page)


@get("/numbers/{key:str}")
async def _numbers(request: Asked) -> Response[Any]:
    """TTFT, TPOT or the step time of a kept plan's option, opened down to operators and overheads."""
    found = await kept_of(request)
    rank = request.query_params.get("option", "1")
    key = request.path_params["key"]
    document, page = await made(request, "numbers", kept=found, rank=rank, key=key)
    return json_reply(document) if wants_json(request) else html_reply(page)


@post("/models", status_code=200)
async def _models(request: Asked) -> Response[bytes]:
    """Keep an uploaded config.json; the name that questions can use for it."""
    body = await request.body()
    name = await made(request, "keep_model", config=json_object(body), text=body)
    return json_reply(msgspec.json.encode({"model": name}))


@post("/files", status_code=200)
async def _files(request: Asked) -> Response[bytes]:
    """Keep a text that is too long for an address; the name that a question's `file` can hold for it."""
    body = json_object(await request.body())
    text = body.get("text")
    if set(body) != {"text"} or not isinstance(text, str) or not text.strip():
        raise BadRequest("text: the content of a file is expected, and nothing beside it")
    name = await made(request, "keep_text", text=text)
    return json_reply(msgspec.json.encode({"file": name}))


def _error_response(request: Asked, wrong: TonnageError, *, status: int) -> Response[Any]:
    answer = _problem(request, str(wrong), status=status)
    if isinstance(wrong, Busy):
        answer.headers["retry-after"] = str(math.ceil(wrong.retry_s))
    return answer


def _refusal_response(request: Asked, wrong: HTTPException) -> Response[Any]:
    why = wrong.detail or "refused"
    if isinstance(wrong, NotFoundException):
        known = (path for path in request.app.route_handler_method_map if "{" not in path)
        why = str(UnknownName("page", request.url.path, known=known))
    answer = _problem(request, why, status=wrong.status_code)
    if wrong.status_code == METHOD_NOT_ALLOWED:
        answer.headers["allow"] = _methods(request.app, request.url.path)
    return answer


def _problem(request: Asked, why: str, *, status: int) -> Response[Any]:
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return html_reply(pages.problem_page(why), status=status)
    return json_reply(error_document(why), status=status)
