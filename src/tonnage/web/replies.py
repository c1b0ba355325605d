"""What requests ask for, by their address and headers, and the replies they get."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException

from tonnage.domain.requests.field import TAKEN
from tonnage.web.guard import NOT_ASKED, is_loopback, single_fields
from tonnage.web.jobs import Jobs, key_of
from tonnage.web.openapi import ANSWER_KEY
from tonnage.web.questions import QUESTIONS, nest_form_names
from tonnage.web.records import Kept

JSON: Final = "application/json"
STEPS_KEPT: Final = 4096
Asked = Request[Any, Any, Any]


def jobs_of(request: Asked) -> Jobs:
    """The questions under way."""
    found: Jobs = request.app.state.jobs
    return found


async def made(request: Asked, task: str, **arguments: object) -> Any:
    """What a quick task makes of kept answers, or of no more than its arguments."""
    return await jobs_of(request).quick.run(task, arguments, client=client_of(request))


def client_of(request: Asked) -> str:
    """Who asks, for taking turns: an address; on this machine, where all have the same, also the program."""
    host = request.client.host if request.client is not None else "localhost"
    return f"{host} {request.headers.get('user-agent', '')[:200]}" if is_loopback(host) else host


def fields_of(request: Asked) -> dict[str, str]:
    """Fields of the address, each once, in their order."""
    # As they were written: `multi_items` has them in no order.
    return {TAKEN.get(name, name): text for name, text in single_fields(request.query_params.items()).items()}


def still_here(jobs: Jobs, key: str) -> Kept:
    """The kept answer of that key."""
    found = jobs.kept(key)
    if found is None:
        raise HTTPException(status_code=404, detail="this answer is not kept any more; ask its question again")
    return found


async def answer_of(request: Asked, text: str) -> tuple[str, Kept]:
    """Key and answer of a kept key, or of a question's address: kept, or asked again (after a restart, say)."""
    jobs = jobs_of(request)
    path, mark, query = text.strip("/").partition("?")
    if not mark or path not in QUESTIONS or request.scope.get(NOT_ASKED):
        return text, still_here(jobs, text)
    given = single_fields(parse_qsl(query))
    for name in ("all", *(["option"] if QUESTIONS[path].kind else [])):  # of the page, not of the question
        given.pop(name, None)
    return await jobs.ask(path, request=nest_form_names(given), client=client_of(request))


async def kept_step(request: Asked) -> bytes:
    """A step of a slider as JSON: kept, or computed now."""
    if request.scope.get(NOT_ASKED):
        raise HTTPException(status_code=403, detail="requests from other sites are refused")
    asked, kept = nest_form_names(fields_of(request)), request.app.state.steps
    key = key_of("step", asked)
    if key not in kept:
        found = await jobs_of(request).plans.run("step", {"request": asked}, client=client_of(request))
        while len(kept) >= STEPS_KEPT:
            kept.pop(next(iter(kept)))
        kept[key] = found
    step: bytes = kept[key]
    return step


async def kept_of(request: Asked) -> Kept:
    """The kept answer of an address that holds its key; asked again where it is gone and `of` says its question."""
    key, question = request.path_params["key"], request.query_params.get("of", "")
    if question and jobs_of(request).kept(key) is None:
        return (await answer_of(request, question))[1]
    return still_here(jobs_of(request), key)


def wants_json(request: Asked) -> bool:
    """Whether a program asks."""
    accepted = request.headers.get("accept", "")
    return JSON in accepted and "text/html" not in accepted


def wants_csv(request: Asked) -> bool:
    """Whether a table is asked for."""
    accepted = request.headers.get("accept", "")
    return "text/csv" in accepted and "text/html" not in accepted


def csv_reply(text: str) -> Response[bytes]:
    """A table as a reply."""
    return Response(text.encode(), media_type="text/csv", headers={"vary": "accept"})


def html_reply(page: str, *, status: int = 200) -> Response[str]:
    """A page as a reply."""
    return Response(page, media_type=MediaType.HTML, status_code=status, headers={"vary": "accept"})


def answer_reply(key: str, kept: Kept) -> Response[bytes]:
    """An answer as a reply that says where it stays, and its key."""
    return json_reply(kept.document, headers={"content-location": f"/answer/{key}.json", ANSWER_KEY: key})


def json_reply(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """A document as a reply."""
    return Response(body, media_type=JSON, status_code=status, headers={"vary": "accept", **(headers or {})})
