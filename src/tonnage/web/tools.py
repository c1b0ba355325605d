"""The same questions as tools for assistants: a server of the Model Context Protocol, over standard input and output.

One tool per question; its input schema comes from the field tables, its result is the report as Markdown, since a
whole plan as JSON would drown the reader.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, Final

import msgspec

from tonnage.catalog import Additions
from tonnage.errors import BadRequest, TonnageError, UnknownName
from tonnage.report.answers import blocks_of
from tonnage.report.markdown import markdown
from tonnage.version import __version__
from tonnage.web.jobs import Jobs
from tonnage.web.limits import Limits, TooLong
from tonnage.web.openapi import request_schema
from tonnage.web.questions import QUESTIONS, Question, answered, opened
from tonnage.web.worker import Settings

__all__ = ["TOOLS", "call", "serve", "tool_list"]

INTERRUPTED: Final = 130
TOP: Final = 5
"""Options in a result."""
ABOUT: Final = (
    "Plans accelerators for AI models. Quantities carry units ('4/s', '1 s', '80 GiB', '100B' tokens). Every number "
    "has a 90 % interval or a source; 'cannot' is an answer that names the limit and the nearest thing that works."
)
TOOLS: Final[dict[str, str]] = {path.replace("/", "_").replace("-", "_"): path for path in QUESTIONS}
"""Name of a tool -> path of its question."""
CASES: Final = "predict"
DIAGNOSE: Final = "diagnose"


def tool_list() -> list[dict[str, Any]]:
    """Name, description and input schema of every tool."""
    asked = [
        {"name": name, "description": _about(QUESTIONS[path]), "schema": request_schema(QUESTIONS[path])}
        for name, path in TOOLS.items()
    ]
    cases = {
        "name": CASES,
        "description": "What exact configurations do: latency, throughput, memory, whether they fit.",
        "schema": {
            "type": "object",
            "required": ["cases"],
            "properties": {"cases": {"type": "array", "minItems": 1, "maxItems": 50, "items": {"type": "object"}}},
        },
    }
    limits = {
        "name": DIAGNOSE,
        "description": "What limits a running server or training run, by which evidence, and the next step. Sources: "
        "addresses of Prometheus or of a /metrics page, files of scrapes and measurements on this machine.",
        "schema": {
            "type": "object",
            "required": ["sources"],
            "properties": {
                "sources": {"type": "array", "minItems": 1, "maxItems": 8, "items": {"type": "string"}},
                **{name: {"type": "string"} for name in ("window", "match", "baseline", "model", "accelerator")},
            },
        },
    }
    return [*asked, cases, limits]


def call(name: str, arguments: dict[str, Any], *, additions: Additions) -> str:
    """
    The result of one tool, as text.

    Raises
    ------
    TonnageError
        No such tool, or a wrong request.
    """
    if name == CASES:
        return _predicted(arguments, additions)
    if name == DIAGNOSE:
        return _diagnosed(arguments, additions)
    if name not in TOOLS:
        raise UnknownName("tool", name, known=(*TOOLS, CASES, DIAGNOSE))
    question = QUESTIONS[TOOLS[name]]
    answer = answered(question, opened(question, arguments), additions=additions)
    return markdown(blocks_of(answer, top=TOP))


def serve(*, additions: Additions, limits: Limits) -> None:
    """Answer on standard input and output until it closes; each call in a worker that can be killed."""
    jobs = Jobs(Settings(additions=additions, memory_bytes=limits.memory_bytes), limits=limits)

    def end(*_: object) -> None:
        # A thread reads standard input, and would wait there for another line.
        jobs.kill()
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    asyncio.run(_serve(jobs))


async def _serve(jobs: Jobs) -> None:
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    async def on_list_tools(_: Any, __: Any) -> Any:
        tools = [
            types.Tool(name=t["name"], description=t["description"], input_schema=t["schema"]) for t in tool_list()
        ]
        return types.ListToolsResult(tools=tools)

    async def on_call_tool(_: Any, asked: Any) -> Any:
        try:
            told = await _called(jobs, asked.name, dict(asked.arguments or {}))
            wrong = False
        except TonnageError as error:
            told, wrong = str(error), True
        return types.CallToolResult(content=[types.TextContent(type="text", text=told)], is_error=wrong)

    server = Server(
        "tonnage", version=__version__, instructions=ABOUT, on_list_tools=on_list_tools, on_call_tool=on_call_tool
    )
    await jobs.warm()
    try:
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())
    finally:
        jobs.kill()


async def _called(jobs: Jobs, name: str, arguments: dict[str, Any]) -> str:
    """The result of one tool from a worker; cancelling this kills it."""
    path = TOOLS.get(name, "")
    instead = QUESTIONS[path].instead if path else "ask for less at once"
    try:
        told: str = await jobs.lane_of(path).run("tool", {"name": name, "arguments": arguments}, client="assistant")
    except TooLong as late:
        raise TooLong(f"{late}; {instead}") from None
    return told


def _about(question: Question) -> str:
    fields = ", ".join(question.essentials)
    return f"{question.title}. Fields: {fields}; the schema has the others. Example: {_text(question.example)}"


def _predicted(arguments: dict[str, Any], additions: Additions) -> str:
    from tonnage.planning.predict.case_lines import case_of_object
    from tonnage.planning.predict.predict import predict

    cases = arguments.get("cases")
    if not isinstance(cases, list) or not cases:
        raise BadRequest("cases: a list of at least one case is expected")

    def one(case: Any) -> Any:
        try:
            return predict(case_of_object(case), additions=additions)
        except TonnageError as wrong:
            return {"error": str(wrong)}

    return _text([one(case) for case in cases])


def _diagnosed(arguments: dict[str, Any], additions: Additions) -> str:
    from tonnage.measure.diagnose.sources import diagnose, watch_of
    from tonnage.planning.remedy import known_of, with_plan

    given = dict(arguments)
    sources, model = given.pop("sources", None), given.pop("model", None)
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise BadRequest("sources: a list of addresses or files is expected")
    known = known_of(accelerator=given.pop("accelerator", None), model=model, additions=additions)
    baseline = given.pop("baseline", None)
    found = diagnose(*sources, watch=watch_of(given), baseline=baseline, known=known)
    return markdown(blocks_of(found if model is None else with_plan(found, model=model, additions=additions)))


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
