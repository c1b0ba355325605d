"""
The tools that an assistant sees, and the server of the Model Context Protocol that offers them.

A tool is named for what it answers. Its input schema holds the fields that most requests need; `request_fields` has the
others, which every tool takes too, so that a list of all tools stays short enough to be read before each question.
What a tool gives, as text and as structured content, is in `tool_results`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tonnage.catalog import Additions
from tonnage.domain.requests.field import Field
from tonnage.errors import TonnageError
from tonnage.questions.question import LLAMA_8B
from tonnage.record import Record
from tonnage.version import __version__
from tonnage.web.jobs import Jobs
from tonnage.web.measured import CHOICE
from tonnage.web.questions import QUESTIONS, Question, nest_form_names
from tonnage.web.records import Limits, Settings, TooLong
from tonnage.web.tool_results import CATALOGUE_KINDS, MOST_CASES, MOST_ROWS, MOST_SOURCES, PREDICT, TOOLS, Result
from tonnage.web.workers import stop_starts

INTERRUPTED: Final = 130
VEGA_LITE: Final = "application/vnd.vegalite.v6+json"
"""Of a picture: a specification with its data, as clients that draw Vega-Lite know it."""
ABOUT: Final = (
    "Plans accelerators for AI models. Quantities carry units ('4/s', '1 s', '80 GiB', '100B' tokens). Every number "
    "has a 90 % interval or a source; 'no' is an answer that names the limit and the nearest thing that works. A plan "
    "is kept as a file, which explain_plan and export_plan read. Fields beyond those shown: request_fields."
)
TEXT: Final = {"type": "string"}
RANK: Final = {"type": "integer", "minimum": 1, "description": "which option of the plan; 1 is the first"}
PLAN_FILE: Final = {"type": "string", "description": "the plan_file of a plan's result"}
COUNTED: Final = {CHOICE.name: {"enum": list(CHOICE.choices), "description": CHOICE.help}}
QUANTITY: Final = {
    "type": "object",
    "properties": {"value": {"type": "number"}, "low": {"type": "number"}, "high": {"type": "number"}, "unit": TEXT},
}
PLAN: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["headline", "feasible", "options", "plan_file"],
    "properties": {
        "headline": {"type": "string", "description": "the answer in one sentence"},
        "feasible": {"type": "boolean"},
        "options": {
            "type": "array",
            "description": "best first",
            "items": {"type": "object", "properties": {"accelerator": TEXT, "provider": TEXT, "cost": QUANTITY}},
        },
        "plan_file": {"type": ["string", "null"], "description": "null where it could not be written"},
    },
}
HEADLINE: Final[dict[str, Any]] = {"type": "object", "required": ["headline"], "properties": {"headline": TEXT}}


def _holds(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": [name], "properties": {name: schema}}


class Tool(Record):
    """What a client is told about one tool."""

    name: str
    title: str
    description: str
    properties: dict[str, Any]
    example: dict[str, Any]
    gives: dict[str, Any]
    """Schema of its structured content."""
    required: tuple[str, ...] = ()
    open_world: bool = False
    """It asks other machines."""
    more: bool = False
    """It takes fields that are not listed."""
    keeps: bool = False
    """It keeps its plan as a file; the same plan in the same file."""

    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments, with an example that runs."""
        return {
            "type": "object",
            "properties": self.properties,
            **({"required": list(self.required)} if self.required else {}),
            "additionalProperties": self.more,
            "examples": [self.example],
        }


def tool_list() -> tuple[Tool, ...]:
    """Every tool, questions first."""
    return (*(_question_tool(name, QUESTIONS[path]) for name, path in TOOLS.items()), *_OTHERS)


def _question_tool(name: str, question: Question) -> Tool:
    """The tool of a form: its essential fields, the others taken too."""
    # By averages where that is possible: the first answer comes at once.
    quick = {question.at_first: True} if question.at_first else {}
    shown = (*question.essentials, *((question.at_first,) if question.at_first else ()))
    return Tool(
        name,
        question.title,
        f"{question.about} More fields: request_fields.",
        properties=brief_schema(question.fields, shown, written=question.as_yaml),
        example={**nest_form_names(question.example), **quick},
        gives=PLAN if question.kind else HEADLINE,
        more=True,
        keeps=bool(question.kind),
    )


def brief_schema(fields: Iterable[Field], shown: Iterable[str], *, written: Sequence[str]) -> dict[str, Any]:
    """
    Properties of those fields that are shown, groups nested: name, type, choices, help; `written` are lists or groups.

    The one place that reads the declarations of requests for assistants; readers of requests hold what is exact.
    """
    by_name = {field.name: field for field in fields}
    properties: dict[str, Any] = {}
    for name in shown:
        group, dot, inner = name.partition(".")
        if dot:
            groups = properties.setdefault(group, {"type": "object", "properties": {}})
            groups["properties"][inner] = _property(by_name[name])
        elif name in written:
            # A form takes them as YAML; so may an assistant.
            properties[name] = {"type": ["array", "object", "string"], "description": by_name[name].help}
        else:
            properties[name] = _property(by_name[name])
    return properties


def _property(field: Field) -> dict[str, Any]:
    types = {"flag": "boolean", "integer": ["integer", "string"], "list": ["array", "string"]}
    kind = types.get(field.reads, "string" if field.reads == "text" else ["string", "number"])
    unit = "" if field.reads in ("flag", "integer", "list", "text", "count") else f" [{field.reads}]"
    choices = {"enum": list(field.choices)} if field.choices and field.reads != "list" else {}
    return {**({} if choices else {"type": kind}), **choices, "description": field.help + unit}


_OTHERS: Final = (
    Tool(
        PREDICT,
        "What exact configurations do",
        "Latency, throughput, memory, whether they fit: up to 50 cases at once. Fields: request_fields.",
        properties={
            "cases": {"type": "array", "minItems": 1, "maxItems": MOST_CASES, "items": {"type": "object"}},
            **COUNTED,
        },
        required=("cases",),
        example={"cases": [{"kind": "serve", "model": LLAMA_8B, "accelerator": "H100", "isl": 1024, "osl": 256,
                            "traffic": {"concurrency": 8}}]},
        gives=_holds("results", {"type": "array", "items": {"type": "object"}}),
    ),
    Tool(
        "diagnose_bottleneck",
        "What limits a running server or training run",
        "The limit, by which evidence, and the next step. Sources: addresses of Prometheus or of a "
        "/metrics page, files of scrapes and measurements on this machine.",
        properties={
            "sources": {"type": "array", "minItems": 1, "maxItems": MOST_SOURCES, "items": TEXT},
            **{name: TEXT for name in ("window", "match", "baseline", "model", "accelerator")},
            **COUNTED,
        },
        required=("sources",),
        example={"sources": ["metrics.prom"]},
        gives=HEADLINE,
        open_world=True,
    ),
    Tool(
        "advise_service",
        "What to change in a service that runs",
        "Ranked changes with money, latencies, risk and the check to run before. file: what starts it, as "
        "text. Sources: addresses of its Prometheus or a /metrics page, files of scrapes and measurements.",
        properties={
            "file": TEXT,
            "sources": {"type": "array", "minItems": 1, "maxItems": MOST_SOURCES, "items": TEXT},
            "log": {"type": "string", "description": "file of the requests as a gateway logged them: replayed on each "
                    "change"},
            "upgrade": {"type": "string", "description": "a release whose change to expect, as vllm@0.27"},
            **{name: TEXT for name in ("window", "match", "reuse", "model", "accelerator", "rate", "ttft", "tpot",
                                       "provider")},
            "replicas": {"type": "integer", "minimum": 1},
            **COUNTED,
        },
        required=("file", "sources"),
        example={"file": f"vllm serve {LLAMA_8B}", "sources": ["metrics.prom"], "accelerator": "H100", "rate": "4/s",
                 "ttft": "1 s", "tpot": "50 ms"},
        gives=HEADLINE,
        open_world=True,
    ),
    Tool(
        "sessions_of_request_log",
        "Sessions of a request log",
        "Sessions, their turns and gaps, and how much of its prompts caches of some sizes find again; of a "
        "log with block ids (hash_ids, as Mooncake writes them).",
        properties={"log": {"type": "string", "description": "a file of CSV or JSON lines, gzipped or not, or the name "
                            "of a fetched public log"}},
        required=("log",),
        example={"log": "gateway.jsonl"},
        gives={"type": "object", "required": ["headline", "sessions"],
               "properties": {"headline": TEXT, "sessions": {"type": "object"}}},
    ),
    Tool(
        "search_catalogue",
        "Accelerators, models, offers and providers that are known",
        "What is known, with sources and dates of prices; offers are the cheapest first.",
        properties={
            "kind": {"enum": list(CATALOGUE_KINDS)},
            "names": {"type": "array", "items": TEXT, "description": "accelerators or models, as people write them"},
            "providers": {"type": "array", "items": TEXT},
            "countries": {"type": "array", "items": TEXT, "description": "two letters: DE, FI, US"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ROWS,
                      "description": "rows; 20 where it is left out"},
        },
        required=("kind",),
        example={"kind": "offers", "names": ["H100"], "countries": ["FI"], "limit": 5},
        gives=_holds("rows", {"type": "array", "items": {"type": "object"}}),
    ),
    Tool(
        "explain_plan",
        "Where the numbers of a plan come from",
        "Memory, bill and times of one option, down to operators with their measured evidence.",
        properties={"plan_file": PLAN_FILE, "option": RANK,
                    "number": {"type": "string", "description": "one time alone: TTFT, TPOT, step"}},
        required=("plan_file",),
        example={"plan_file": "plan.json", "option": 1},
        gives=HEADLINE,
    ),
    Tool(
        "export_plan",
        "The files that start a plan",
        "Files for an engine, by its name, or an orchestrator: kubernetes, skypilot, slurm and others; "
        "an unknown target is answered with all of them. Nothing is written.",
        properties={"plan_file": PLAN_FILE, "option": RANK,
                    "target": {"type": "string", "description":
                               "such as kubernetes; all; list = which can, why not"},
                    "checkpoint": {"type": "string", "description": "Hub checkpoint in the planned weight format"}},
        required=("plan_file", "target"),
        example={"plan_file": "plan.json", "target": "kubernetes"},
        gives=_holds("files", {"type": "object", "additionalProperties": TEXT}),
    ),
    Tool(
        "request_fields",
        "Every field of a tool",
        "All fields that a question takes, with unit, bounds, choices and help, as JSON Schema.",
        properties={"tool": {"enum": [*TOOLS, PREDICT]}},
        required=("tool",),
        example={"tool": "rent_or_buy"},
        gives=_holds("fields", {"type": "object"}),
    ),
)  # fmt: skip


def serve(*, additions: Additions, limits: Limits) -> None:
    """Answer on standard input and output until it closes; each call in a worker that can be killed."""
    jobs = Jobs(Settings(additions=additions, memory_bytes=limits.memory_bytes), limits=limits)

    def end(*_: object) -> None:
        # A thread reads standard input, and would wait there for another line.
        stop_starts()
        jobs.kill()
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    asyncio.run(_serve(jobs))


async def _serve(jobs: Jobs) -> None:
    """Offer the tools on standard input and output until these close; then kill the workers."""
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    def offered(tool: Tool) -> Any:
        # A plan is kept in Tonnage's own folder, nothing else changes; the same question has the same answer and file.
        hints = types.ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.keeps,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=tool.open_world,
        )
        return types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema(),
            output_schema=tool.gives,
            annotations=hints,
        )

    async def on_list_tools(_: Any, __: Any) -> Any:
        return types.ListToolsResult(tools=[offered(tool) for tool in tool_list()])

    async def on_call_tool(_: Any, asked: Any) -> Any:
        try:
            found = await _call(jobs, asked.name, dict(asked.arguments or {}))
        except TonnageError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        text = types.TextContent(type="text", text=found.text)
        for_eyes = types.Annotations(audience=["user"])  # the assistant has the same numbers in the text
        drawn: list[Any] = []
        if found.drawn:
            data = base64.b64encode(found.drawn).decode()
            drawn = [types.ImageContent(type="image", data=data, mime_type="image/png", annotations=for_eyes)]
        drawn += [
            types.EmbeddedResource(
                type="resource",
                resource=types.TextResourceContents(uri=f"tonnage://chart/{name}", mime_type=VEGA_LITE, text=body),
                annotations=for_eyes,
            )
            for name, body in found.charts
        ]
        return types.CallToolResult(content=[text, *drawn], structured_content=found.data)

    server = Server(
        "tonnage", version=__version__, instructions=ABOUT, on_list_tools=on_list_tools, on_call_tool=on_call_tool
    )
    await jobs.warm()
    try:
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())
    finally:
        jobs.kill()


async def _call(jobs: Jobs, name: str, arguments: dict[str, Any]) -> Result:
    """The result of one tool from a worker; cancelling this kills it."""
    path = TOOLS.get(name, "")
    instead = QUESTIONS[path].instead if path else "ask for less at once"
    try:
        found: Result = await jobs.lane_of(path).run("tool", {"name": name, "arguments": arguments}, client="assistant")
    except TooLong as late:
        raise TooLong(f"{late}; {instead}") from None
    return found
