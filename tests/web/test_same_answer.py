"""One question, four faces: command line, HTTP, Python and the page give the same bytes, for every kind of question."""

import contextlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command import told as answer_of

import tonnage
from tonnage.catalog import NOTHING
from tonnage.report.document import as_json
from tonnage.web.questions import QUESTIONS
from tonnage.web.tool_results import call

httpx = pytest.importorskip("httpx")

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
CASE = {
    "model": MODEL,
    "accelerator": "H100",
    "traffic": {"profile": "chat", "rate": "3/s", "requests": 800},
    "slo": {"ttft": "1 s", "tpot": "50 ms"},
}
SERVE = {"rate": "2/s", "traffic": "chat", "ttft": "1 s", "accelerator": "L40S"}
FINETUNE = {"method": "lora", "tokens": "4M", "accelerator": "L40S"}
WORKLOADS = [
    {"name": "chat", "model": MODEL, "rate": "2/s", "traffic": "chat", "ttft": "1 s"},
    {"name": "night", "kind": "batch", "model": MODEL, "items": "50k", "window": "22-6"},
]
COMMAND = f"vllm serve {MODEL} --max-model-len 16384 --max-num-seqs 64"


def _adopted(file: str, **fields: Any) -> Any:
    """Python takes the path of a file where the page takes its text."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".sh") as kept:
        kept.write(file)
        kept.flush()
        return tonnage.plan_from_file(kept.name, **fields)


def _explained(file: str) -> Any:
    return tonnage.explain(json.loads(file))


def _diagnosed(file: str, **fields: Any) -> Any:
    """A file of that name, where the page takes its text."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("file").write_text(file, encoding="utf-8")
        return tonnage.diagnose("file", **fields)


def _advised(file: str, page: str, log: str, **fields: Any) -> Any:
    """Files of all three, where the page takes their texts."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("run.sh").write_text(file, encoding="utf-8")
        Path("page").write_text(page, encoding="utf-8")
        Path("log").write_text(log, encoding="utf-8")
        return tonnage.advise("run.sh", "page", look={"log": "log"}, **fields)


def _traced(file: str) -> Any:
    """A file of that name, where the page takes its text."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("file").write_text(file, encoding="utf-8")
        return tonnage.trace("file")


METRICS = f"""\
vllm:num_requests_running{{model_name="{MODEL}"}} 31
vllm:num_requests_waiting{{model_name="{MODEL}"}} 42
vllm:kv_cache_usage_perc{{model_name="{MODEL}"}} 0.98
"""


REQUESTS = "timestamp,input_length,output_length\n" + "".join(f"{place * 100},1024,256\n" for place in range(200))
"""Ten requests a second, as a gateway logged them. [ms]"""
ASKED: dict[str, tuple[dict[str, Any], Callable[..., Any]]] = {
    "plan/serve": ({"model": MODEL, **SERVE}, tonnage.plan_serve),
    "plan/finetune": ({"model": MODEL, **FINETUNE}, tonnage.plan_finetune),
    "plan/train": ({"model": "1B", "tokens": "2B", "deadline": "30 days", "seq_len": "2048",
                    "accelerator": "H100"}, tonnage.plan_train),
    "plan/batch": ({"model": MODEL, "items": "100k", "deadline": "8 h", "prompt_tokens": "400",
                    "output_tokens": "60", "accelerator": "L40S"}, tonnage.plan_batch),
    "plan/infer": ({"model": "ultralytics/yolov8m", "streams": "20", "fps": "25", "latency": "200 ms"},
                   tonnage.plan_infer),
    "plan/rl": ({"model": MODEL, "steps": "50", "prompts_per_step": "16", "responses_per_prompt": "8",
                 "response_tokens": "1000", "accelerator": "H100", "count": "8"}, tonnage.plan_rl),
    "plan/lifecycle": ({"model": MODEL, "months": "12", "finetune": FINETUNE, "serve": SERVE, "quick": True},
                       tonnage.plan_lifecycle),
    "plan/fleet": ({"workloads": WORKLOADS, "provider": "gcp", "region": "europe-west4", "accelerator": "L4"},
                   tonnage.plan_fleet),
    "plan/own": ({"own": "2 x L40S, RTX 3060", "min_speed": "20", "workloads": WORKLOADS[:1], "provider": "gcp"},
                 tonnage.plan_own),
    "plan/budget": ({"amount": "$900/month", "model": MODEL, "traffic": "chat", "accelerator": "L40S"},
                    tonnage.plan_budget),
    "fit": ({"model": MODEL, "accelerator": "H100", "context": "8k"}, tonnage.fit),
    "local": ({"accelerator": "RTX 4090", "memory": "64 GB", "context": "8k"}, tonnage.local),
    "cost/rent-or-buy": ({"machine": "H100", "utilisation": "60 %", "country": "DE"}, tonnage.rent_or_buy),
    "simulate": (CASE, tonnage.simulate),
    "compare/ways": ({**CASE, "ways": {"small steps": {"engine_options": {"max_num_batched_tokens": 512}},
                                       "as it is": {}}}, tonnage.compare),
    "adopt": ({"file": COMMAND, "accelerator": "H100", "rate": "2/s", "provider": "lambda"}, _adopted),
    "advise": ({**QUESTIONS["advise"].example, "log": REQUESTS}, _advised),
    "explain": ({"file": json.dumps({"kind": "serve", "model": MODEL, "accelerator": "H100",
                                     "traffic": {"concurrency": 16}, "isl": 1024, "osl": 256})}, _explained),
    "diagnose": ({"file": METRICS, "accelerator": "H100"}, _diagnosed),
    "trace": (QUESTIONS["trace"].example, _traced),
}  # fmt: skip


@pytest.mark.parametrize("path", QUESTIONS)
def test_every_face_gives_the_same_bytes(path: str, page_address: str, tmp_path: Path) -> None:
    fields, function = ASKED[path]
    called = as_json(function(**fields)) + "\n"
    with httpx.Client(base_url=page_address, timeout=300, trust_env=False) as client:
        posted = client.post(f"/{path}", json=fields)
        assert posted.text == called
        asked = client.get(f"/{path}", params=_form(fields), headers={"accept": "application/json"})
        assert asked.text == called
        page = client.get(f"/{path}", params=_form(fields), headers={"accept": "text/html"}).text
        key = page.split("/answer/")[1].split(".json")[0]
        assert client.get(f"/answer/{key}.json").text == called
    with contextlib.chdir(tmp_path):
        printed = answer_of(*_command(path, fields, tmp_path), "--json")
    assert printed.output == called


def _form(fields: dict[str, Any]) -> dict[str, str]:
    """As a browser sends it: groups with dots, lists and ways as YAML (of which JSON is a part)."""
    flat: dict[str, str] = {}
    for name, value in fields.items():
        if isinstance(value, dict) and name != "ways":
            flat |= {f"{name}.{inner}": str(text) for inner, text in value.items()}
        else:
            flat[name] = value if isinstance(value, str) else json.dumps(value)
    return flat


def _command(path: str, fields: dict[str, Any], folder: Path) -> list[str]:
    if path == "fit":
        return ["fit", MODEL, "-a", "H100", "--context", "8k"]
    if path == "local":
        return ["local", "-a", "RTX 4090", "--memory", "64 GB", "--context", "8k"]
    if path == "cost/rent-or-buy":
        return ["cost", "rent-or-buy", "H100", "--utilisation", "60 %", "--country", "DE"]
    if path in ("explain", "diagnose", "trace"):
        (folder / "file").write_text(fields["file"])
        return [path, "file", *(["--accelerator", "H100"] if path == "diagnose" else [])]
    if path == "adopt":
        (folder / "run.sh").write_text(fields["file"])
        return ["adopt", str(folder / "run.sh"), "--accelerator", "H100", "--rate", "2/s", "--provider", "lambda"]
    if path == "advise":
        (folder / "run.sh").write_text(fields["file"])
        (folder / "page").write_text(fields["page"])
        (folder / "log").write_text(fields["log"])
        stated = [
            (f"--{name}", value) for name, value in {**fields, "log": "log"}.items() if name not in ("file", "page")
        ]
        return ["advise", "run.sh", "page", *(word for pair in stated for word in pair)]
    file = folder / "request.json"
    kind = QUESTIONS[path].kind
    file.write_text(json.dumps({**({"plan": kind} if kind else {}), **fields}))
    return [path.partition("/")[0], str(file)]


@pytest.mark.parametrize("name", ["/etc/hostname", "./src", "../x", "~/models/x", "/proc/self/environ"])
def test_a_file_that_is_adopted_names_no_path_of_this_machine(name: str) -> None:
    from tonnage.errors import BadRequest
    from tonnage.web.answering import answer_form

    request = {"file": f"vllm serve {name}", "accelerator": "H100"}
    with pytest.raises(BadRequest, match="is a path"):
        answer_form(QUESTIONS["adopt"], request, additions=NOTHING)
    case = json.dumps({"kind": "serve", "model": name, "accelerator": "H100", "isl": 8, "osl": 8})
    for text in (case, f"[{case}]", f"{case}\n{case}"):
        with pytest.raises(BadRequest, match="is a path"):
            answer_form(QUESTIONS["explain"], {"file": text}, additions=NOTHING)


def test_a_log_of_hundreds_of_requests_is_the_same_for_assistants_too(page_address: str, tmp_path: Path) -> None:
    """With its halves compared; an assistant gets all but the quantiles of the fitted profile."""
    rows = ((k, [k % 9, *range(100 * (k % 9) + 9, 100 * (k % 9) + 10 + k // 9)]) for k in range(400))
    log = "".join(f'{{"time": {1000 * k}, "input_len": {512 * len(ids)}, "output_len": 9, "hash_ids": {ids}}}\n'
                  for k, ids in rows)  # fmt: skip
    called = as_json(_traced(log)) + "\n"
    with httpx.Client(base_url=page_address, timeout=300, trust_env=False) as client:
        assert client.post("/trace", json={"file": log}).text == called
        for bad, says in HOSTILE_LOGS:
            reply = client.post("/trace", json={"file": bad})
            assert reply.status_code == 400 and says in reply.json()["error"] and "\n" not in reply.json()["error"]
            assert "/" not in reply.json()["error"].partition("expected")[0], "no path of this machine"
    with contextlib.chdir(tmp_path):
        Path("file").write_text(log, encoding="utf-8")
        assert answer_of("trace", "file", "--json").output == called
        told = call("sessions_of_request_log", {"log": "file"}, additions=NOTHING)
    whole = json.loads(called)
    assert len(whole["curve"]) == 6 and whole.pop("profile")
    assert json.loads(as_json(told.data["sessions"])) == whole and told.data["headline"] == whole["sentence"]
    assert "predicted from the first" in told.text and "Fitted sessions" in told.text


REQUEST = '{"time": 1, "input_len": 5, "output_len": 1, "hash_ids": [1]}'
HOSTILE_LOGS = (
    (" \n ", "file"),
    ("mooncake-conversation", "line 1 has no time"),
    ("/etc/hostname", "line 1 has no time"),
    ("[" * 50_000, "line 1 has no time"),
    ("{" * 50_000, "line 1 is not a JSON object"),
    ('{"time": 1e999, "input_len": 5, "output_len": 1}', "line 1"),
    (REQUEST.replace("[1]", '{"a": 1}'), "hash_ids must be a list"),
    (f"{REQUEST}\n{REQUEST.replace('5', '-5')}", "line 2: prompt length"),
    (f"{REQUEST}\n{REQUEST.replace('time', 'tyme')}", "line 2 has no time"),
    (f"{REQUEST}\n{REQUEST.replace('1,', '0,', 1)}", "earlier than the request before it"),
    ("time,input_len,output_len\n", "holds no requests"),
)
"""Texts that are no log, and what is said of them."""
