"""The tools for assistants, through the protocol's own client."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tonnage.catalog import NOTHING
from tonnage.errors import TonnageError
from tonnage.web.tools import TOOLS, call, tool_list

FIT = {"model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "H100", "context": "8k"}


def test_every_question_is_a_tool_with_a_schema() -> None:
    tools = {tool["name"]: tool for tool in tool_list()}
    assert set(tools) == {*TOOLS, "predict", "diagnose"}
    assert tools["plan_serve"]["schema"]["properties"]["rate"]["description"]
    assert tools["plan_lifecycle"]["schema"]["properties"]["serve"]["properties"]["ttft"]


def test_a_result_is_the_report_as_markdown() -> None:
    told = call("fit", FIT, additions=NOTHING)
    assert told.startswith("**") and "fits 1 x H100" in told.splitlines()[0] and "|---:|" in told


def test_what_is_wrong_is_a_sentence() -> None:
    for name, arguments in (("fitt", {}), ("fit", {"modle": 1}), ("predict", {"cases": 3})):
        with pytest.raises(TonnageError):
            call(name, arguments, additions=NOTHING)
    assert "error" in call("predict", {"cases": [{"kind": "serve"}]}, additions=NOTHING)


def test_the_server_speaks_the_protocol() -> None:
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def talk() -> tuple[set[str], str, bool]:
        started = StdioServerParameters(command=sys.executable, args=["-m", "tonnage", "mcp"], env=dict(os.environ))
        async with stdio_client(started) as (reads, writes), ClientSession(reads, writes) as session:
            await session.initialize()
            names = {tool.name for tool in (await session.list_tools()).tools}
            good = await session.call_tool("fit", FIT)
            bad = await session.call_tool("fit", {"model": "no such model"})
            return names, good.content[0].text, bool(bad.is_error)

    names, told, wrong = asyncio.run(asyncio.wait_for(talk(), 60))
    assert names == {*TOOLS, "predict", "diagnose"} and "fits" in told and wrong
