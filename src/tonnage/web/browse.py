"""Handlers of what can be browsed and drawn: the catalogue's tables, an accelerator, accuracy, pictures."""

from __future__ import annotations

import re
from typing import Any, Final

from litestar import Response, get
from litestar.exceptions import HTTPException

from tonnage.errors import BadRequest, TonnageError
from tonnage.web.listings import LISTINGS
from tonnage.web.replies import (
    JSON,
    Asked,
    client_of,
    csv_reply,
    fields_of,
    html_reply,
    jobs_of,
    json_reply,
    made,
    still_here,
    wants_csv,
    wants_json,
)

CACHED: Final = {"cache-control": "private, max-age=3600"}
_CHART: Final = re.compile(r"([a-z-]{1,40}?)(?:-(\d{1,3}))?-((?:wide-|narrow-)?(?:light|dark))\.(svg|json)")


@get("/accuracy")
async def _accuracy(request: Asked) -> Response[str]:
    return html_reply(await made(request, "accuracy"))


def _list_route(path: str) -> Any:
    """GET of a table of the catalogue: a page, or CSV or JSON by `format` or `Accept`."""

    async def handle(request: Asked) -> Response[Any]:
        given = fields_of(request)
        form = given.pop("format", "json" if wants_json(request) else "csv" if wants_csv(request) else "html")
        if form not in ("html", "csv", "json"):
            raise BadRequest(f"format: csv or json is expected, not '{form[:20]}'")
        shown = await made(request, "listing", path=path, given=given, form=form)
        if form == "json":
            return json_reply(shown)
        return csv_reply(shown) if form == "csv" else html_reply(shown)

    return get(f"/{path}", name=f"list {path}")(handle)


@get("/accelerators/{part:str}")
async def _part(request: Asked) -> Response[Any]:
    """An accelerator of the catalogue as a page or as JSON."""
    form = "json" if wants_json(request) else "html"
    try:
        shown = await made(request, "part", name=request.path_params["part"], form=form)
    except TonnageError as wrong:
        raise HTTPException(status_code=404, detail=str(wrong)) from None
    return json_reply(shown.encode()) if form == "json" else html_reply(shown)


@get("/chart/{key:str}/{name:str}")
async def _chart(request: Asked) -> Response[bytes]:
    """One picture of a kept answer."""
    return await _drawn(request, "chart", kept=still_here(jobs_of(request), request.path_params["key"]))


@get("/chart/accelerators/{part:str}/{name:str}")
async def _part_chart(request: Asked) -> Response[bytes]:
    """One picture of an accelerator's page."""
    return await _drawn(request, "part_chart", part=request.path_params["part"])


async def _drawn(request: Asked, task: str, **of: object) -> Response[bytes]:
    """The picture that the end of the address names, drawn by a task."""
    name, drawn = request.path_params["name"], None
    match = _CHART.fullmatch(name)
    if match is not None:
        asked = {"name": match[1], "option": int(match[2] or 1), "theme": match[3], "form": match[4]}
        drawn = await jobs_of(request).pictures.run(task, {**of, **asked}, client=client_of(request))
    if drawn is None:
        raise HTTPException(status_code=404, detail=f"nothing has a picture '{name[:40]}' here")
    kind = JSON if match is not None and match[4] == "json" else "image/svg+xml"
    return Response(drawn, media_type=kind, headers=CACHED)


CATALOGUE: Final = (_accuracy, _part, _chart, _part_chart, *(_list_route(path) for path in LISTINGS))
"""Every handler of this module."""
