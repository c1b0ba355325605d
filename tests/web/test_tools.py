"""The tools for assistants, through the protocol's own client."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S
from tests.web.narrow import narrowed
from tools.attack.server import LONG

from tonnage.catalog import NOTHING
from tonnage.errors import TonnageError
from tonnage.questions.ask import answer, read_plan
from tonnage.report.document import as_json
from tonnage.web.questions import QUESTIONS
from tonnage.web.tool_results import TOOLS, call
from tonnage.web.tools import tool_list

FIT = {"model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "H100", "context": "8k"}
SCRAPE = Path(__file__).parents[2] / "examples" / "reports" / "vllm-metrics.prom"
MAX_LIST_BYTES = 40_000
SERVE = {"model": "meta-llama/Llama-3.1-8B-Instruct", "rate": "4/s", "traffic": "chat", "accelerator": "H100"}


def test_every_question_is_a_tool_with_its_essential_fields() -> None:
    tools = {tool.name: tool for tool in tool_list()}
    # Which have tools that take files.
    assert set(TOOLS.values()) == set(QUESTIONS) - {"explain", "diagnose", "advise", "trace"}
    assert {"explain_plan", "diagnose_bottleneck", "advise_service", "sessions_of_request_log"} <= set(tools)
    for name, path in TOOLS.items():
        shown = {field.partition(".")[0] for field in QUESTIONS[path].essentials}
        assert shown <= set(tools[name].properties), name
    assert tools["plan_serving"].properties["rate"]["description"].endswith("[1/s]")
    assert tools["plan_training_then_serving"].properties["serve"]["properties"]["ttft"]


def test_the_fields_left_out_are_told_and_taken() -> None:
    fields = call("request_fields", {"tool": "plan_serving"}, additions=NOTHING).data["fields"]
    (plan,) = (tool for tool in tool_list() if tool.name == "plan_serving")
    assert len(fields) > 2 * len(plan.properties)
    assert plan.input_schema()["additionalProperties"] and "cold_start" in set(fields) - set(plan.properties)


def test_a_result_is_the_report_as_markdown() -> None:
    told = call("check_memory_fit", FIT, additions=NOTHING)
    assert "**" in told.text and "|---:|" in told.text and told.data["headline"]


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("check_memory_fitt", {}, "check_memory_fit"),
        ("check_memory_fit", {"modle": 1}, "modle"),
        ("predict_performance", {"cases": 3}, "cases: a list"),
        ("predict_performance", {"cases": []}, "cases: a list of at least one case"),
        ("predict_performance", {"cases": [{}] * 51}, "51 are more than 50"),
        ("search_catalogue", {"kind": "offers", "names": ["H100"] * 201}, "201 entries are more than 200"),
        ("diagnose_bottleneck", {"sources": ["a.prom"] * 9}, "9 entries are more than 8"),
        ("search_catalogue", {"kind": "prices"}, "offers"),
        ("search_catalogue", {"kind": "offers", "names": "H100"}, "names: a list of texts"),
        ("search_catalogue", {"kind": "offers", "name": ["H100"]}, "names"),
        ("export_plan", {"target": "vllm"}, "plan_file: it is missing"),
        ("export_plan", {"plan_file": "none.json", "target": "vlm"}, "vllm"),
        ("explain_plan", {"plan_file": "none.json"}, "none.json"),
        ("explain_plan", {"plan_file": "none.json", "option": True}, "option: a whole number"),
        ("request_fields", {"tool": "plan"}, "plan_"),
        ("sessions_of_request_log", {}, "log: it is missing"),
        ("sessions_of_request_log", {"log": "none.jsonl"}, "none.jsonl"),
        ("sessions_of_request_log", {"log": ["none.jsonl"]}, "log: a text"),
        ("sessions_of_request_log", {"log": "none.jsonl", "top": 3}, "top"),
    ],
)
def test_what_is_wrong_is_a_sentence(name: str, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TonnageError, match=says):
        call(name, arguments, additions=NOTHING)


def test_an_inventory_is_asked_about_the_model_that_is_named() -> None:
    asked = {"own": "M3 Ultra 512GB", "model": "deepseek-ai/DeepSeek-R1"}
    told = call("plan_owned_accelerators", asked, additions=NOTHING)
    assert "DeepSeek R1 on M3 Ultra" in told.text and "Distill" not in told.text


def test_the_catalogue_is_told_as_rows_and_as_a_table() -> None:
    found = call("search_catalogue", {"kind": "accelerators", "names": ["H100"], "limit": 3}, additions=NOTHING)
    assert found.data["rows"][0]["id"] == "h100-sxm5-80gb" and "h100-sxm5-80gb" in found.text


def test_one_wrong_case_leaves_the_others_their_answers() -> None:
    assert "error" in call("predict_performance", {"cases": [{"kind": "serve"}]}, additions=NOTHING).text


def test_a_setting_that_no_engine_has_is_refused() -> None:
    case = {"kind": "serve", "model": "13B", "accelerator": "H200", "isl": 100, "osl": 50, "traffic": {"batch": 1}}
    asked = {"cases": [{**case, "engine_options": {"max_num_seq": 1}}]}
    assert "did you mean 'max_num_seqs'" in call("predict_performance", asked, additions=NOTHING).text


def test_a_folder_that_cannot_be_written_costs_the_file_and_not_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "taken"))
    found = call("plan_batch_inference", {"model": "8B", "items": "1M", "accelerator": "L4"}, additions=NOTHING)
    assert found.data["plan_file"] is None and found.data["options"]


def test_what_cache_buys_is_a_picture_beside_its_text() -> None:
    asked = {**SERVE, "traffic": "agent", "accelerator": "H100", "ttft": "4 s", "tpot": "50 ms", "quick": True}
    found = call("plan_serving", asked, additions=NOTHING)
    charts = dict(found.charts)
    assert json.loads(charts["cache"])["title"], charts.keys()
    assert found.drawn.startswith(b"\x89PNG") or find_spec("vl_convert") is None


def test_every_example_runs_through_the_protocols_own_client(tmp_path: Path) -> None:
    """Each tool's example, against its own output schema, which the client checks; the list stays short."""
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    (tmp_path / "metrics.prom").write_bytes(SCRAPE.read_bytes())
    (tmp_path / "gateway.jsonl").write_text(QUESTIONS["trace"].example["file"], encoding="utf-8")
    plan = answer("serve", {**SERVE, "quick": True})
    (tmp_path / "plan.json").write_text(as_json(plan), encoding="utf-8")

    async def talk() -> None:
        # As long as a busy machine needs; a question's own limit is tested below.
        command = ["-m", "tonnage", "mcp", "--time-limit", f"{PATIENCE_S:g} s"]
        own = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        started = StdioServerParameters(command=sys.executable, args=command, env=own, cwd=tmp_path)
        async with stdio_client(started) as (reads, writes), ClientSession(reads, writes) as session:
            await session.initialize()
            listed = await session.list_tools()
            assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) < MAX_LIST_BYTES
            assert {tool.name for tool in listed.tools} == {tool.name for tool in tool_list()}
            pictures: set[str] = set()
            for tool in listed.tools:
                keeps = "plan_file" in tool.output_schema["properties"]
                assert tool.annotations.read_only_hint is not keeps and tool.annotations.idempotent_hint
                assert not tool.annotations.destructive_hint
                (example,) = tool.input_schema["examples"]
                found = await session.call_tool(tool.name, narrowed(TOOLS.get(tool.name, ""), example))
                assert not found.is_error, f"{tool.name}: {found.content[0].text}"
                assert found.structured_content and found.content[0].text, tool.name
                resources = [one for one in found.content[1:] if one.type == "resource"]
                images = [one for one in found.content[1:] if one.type == "image"]
                assert len(images) == (bool(resources) and find_spec("vl_convert") is not None), tool.name
                assert all(base64.b64decode(one.data).startswith(b"\x89PNG") for one in images)
                assert all(one.annotations.audience == ["user"] for one in images), tool.name
                for drawn in resources:
                    shown = json.loads(drawn.resource.text)
                    assert drawn.annotations.audience == ["user"] and "vega-lite" in shown["$schema"], tool.name
                pictures |= {str(drawn.resource.uri).rpartition("/")[2] for drawn in resources}
                if file := found.structured_content.get("plan_file"):
                    assert read_plan(file).sentence == found.structured_content["headline"]
            assert {"phases", "frontier"} <= pictures, pictures  # rollout against training time among them
            bad = await session.call_tool("check_memory_fit", {"model": "no such model"})
            assert bad.is_error and "no such model" in bad.content[0].text

    asyncio.run(asyncio.wait_for(talk(), PATIENCE_S))


def test_a_tool_that_takes_too_long_is_stopped_and_says_what_to_ask() -> None:
    pytest.importorskip("mcp")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    arguments = ["-m", "tonnage", "mcp", "--time-limit", "2 s"]

    async def talk() -> tuple[str, bool, str]:
        started = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
        async with stdio_client(started) as (reads, writes), ClientSession(reads, writes) as session:
            await session.initialize()
            long = await session.call_tool("simulate_serving", LONG)
            good = await session.call_tool("check_memory_fit", FIT)
            while "was stopped" in good.content[0].text:  # a busy machine left it no time
                good = await session.call_tool("check_memory_fit", FIT)
            return long.content[0].text, bool(long.is_error), good.content[0].text

    told, wrong, good = asyncio.run(asyncio.wait_for(talk(), PATIENCE_S))
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
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    process.stdin.write(json.dumps(hello).encode() + b"\n")
    process.stdin.flush()
    assert b"tonnage" in process.stdout.readline()
    if answered:
        call = {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "check_memory_fit", "arguments": FIT},
        }
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        process.stdin.write(json.dumps(ready).encode() + b"\n" + json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        assert b"fits" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and told == b""
