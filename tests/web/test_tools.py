"""The tools for assistants, through the protocol's own client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
from tools.attack.server import LONG

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
    assert told.startswith("- Llama 3.1 8B") and "**1 x NVIDIA H100 SXM5 80 GB" in told and "|---:|" in told


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


def test_a_tool_that_takes_too_long_is_stopped_and_says_what_to_ask() -> None:
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    arguments = ["-m", "tonnage", "mcp", "--time-limit", "2 s"]

    async def talk() -> tuple[str, bool, str]:
        started = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with stdio_client(started) as (reads, writes), ClientSession(reads, writes) as session:
            await session.initialize()
            long = await session.call_tool("simulate", LONG)
            good = await session.call_tool("fit", FIT)
            return long.content[0].text, bool(long.is_error), good.content[0].text

    told, wrong, good = asyncio.run(asyncio.wait_for(talk(), 120))
    assert wrong and "longer than 2 s and was stopped" in told and "traffic.requests: 20000" in told
    assert "fits" in good


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent as a signal")
@pytest.mark.parametrize("answered", [False, True])
def test_ctrl_c_ends_the_server_of_tools_in_silence(answered: bool) -> None:
    """While it starts, and while it waits for a line."""
    pytest.importorskip("mcp")
    command = [sys.executable, "-m", "tonnage", "mcp"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None and process.stdout is not None
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    process.stdin.write(json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    assert b"tonnage" in process.stdout.readline()
    if answered:
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "fit", "arguments": FIT}}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        process.stdin.write(json.dumps(ready).encode() + b"\n" + json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        assert b"fits" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and told == b""
