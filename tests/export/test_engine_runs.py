"""A plan's file for llama.cpp, run for real: its own flags start llama.cpp's server on a model of random weights."""

import json
import shlex
import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.command import told as command
from tests.export.plans import exported

import tonnage

pytest.importorskip("gguf", reason="the test makes a GGUF model: pip install gguf")
xllamacpp = pytest.importorskip("xllamacpp", reason="the test serves it: pip install xllamacpp")

from tests.measure.test_engine import write_model  # noqa: E402

PROMPT, ANSWER, CONTEXT = 100, 30, 1024
FLAGS = {
    "parallel": "n_parallel", "ctx-size": "n_ctx", "batch-size": "n_batch", "ubatch-size": "n_ubatch",
    "metrics": "endpoint_metrics",
}  # fmt: skip
"""Flags of `llama-server` -> fields of the same server inside this process."""
TYPES = {"cache-type-k": "cache_type_k", "cache-type-v": "cache_type_v"}
ELSEWHERE = {"hf-repo", "host", "port", "n-gpu-layers", "split-mode", "flash-attn"}
"""What the test answers for: where the model lies, where it listens, and that there is no accelerator."""


@pytest.fixture(scope="module")
def flags() -> dict[str, str]:
    """What `tonnage export --to llamacpp` writes for a plan, as flag -> value."""
    plan = tonnage.plan_serve(
        "meta-llama/Llama-3.2-1B-Instruct",
        rate="0.2/s",
        prompt_tokens=str(PROMPT),
        output_tokens=str(ANSWER),
        context=str(CONTEXT),
        engine="llamacpp",
        accelerator="RTX 4090",
        precision="gguf-q8_0",
        quick=True,
    )
    checkpoint = "bartowski/Llama-3.2-1B-Instruct-GGUF"
    script = exported(tonnage.to_dict(plan), "llamacpp", "--checkpoint", checkpoint)["serve.sh"]
    words = shlex.split(script[script.index("exec ") :].replace("\\\n", " "))
    assert words[1] == "llama-server"
    read: dict[str, str] = {}
    for word in words[2:]:
        if word.startswith("--"):
            last = word[2:]
            read[last] = ""
        else:
            read[last] = word
    return read


@pytest.fixture(scope="module")
def server(flags: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(Path(path))
    given = xllamacpp.CommonParams()
    for flag, value in flags.items():
        if flag in FLAGS:
            setattr(given, FLAGS[flag], int(value) if value else True)
        elif flag in TYPES:
            setattr(given, TYPES[flag], getattr(xllamacpp.ggml_type, f"GGML_TYPE_{value.upper()}"))
        else:
            assert flag in ELSEWHERE, f"the file gives --{flag}, which this test does not pass on"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        given.port = free.getsockname()[1]
    given.model.path, given.hostnames, given.cpuparams.n_threads = str(path), ["127.0.0.1"], 1
    started = xllamacpp.Server(given)
    yield started.listening_address
    del started


def test_the_engine_runs_with_the_plans_settings(flags: dict[str, str], server: str) -> None:
    told = _get(f"{server}/props")
    slots = int(flags["parallel"])
    assert told["total_slots"] == slots
    assert told["default_generation_settings"]["n_ctx"] == int(flags["ctx-size"]) // slots >= PROMPT + ANSWER


def test_it_answers_the_planned_lengths_for_everybody_at_once(flags: dict[str, str], server: str) -> None:
    slots = min(int(flags["parallel"]), 16)  # one thread answers here
    asked = [{"prompt": [10 + n] * PROMPT, "n_predict": ANSWER, "ignore_eos": True} for n in range(2 * slots)]
    with ThreadPoolExecutor(slots) as clients:
        answers = list(clients.map(lambda body: _get(f"{server}/completion", body), asked))
    assert [answer["tokens_predicted"] for answer in answers] == [ANSWER] * len(asked)
    assert all(answer["tokens_evaluated"] == PROMPT and not answer["truncated"] for answer in answers)
    with urllib.request.urlopen(f"{server}/metrics", timeout=60) as reply:
        assert b"llamacpp:tokens_predicted_total" in reply.read()


def _get(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def test_the_page_of_the_target_runs_from_the_file_to_the_alert_rules(server: str, tmp_path: Path) -> None:
    """The five commands of docs/how-to/start.md, on this server."""
    request, kept, own = (tmp_path / name for name in ("request.yaml", "plan.json", "own.toml"))
    model = _get(f"{server}/props")["model_path"]
    request.write_text(
        f"plan: serve\nmodel: {model}\nrate: 0.2/s\nprompt_tokens: 100\noutput_tokens: 30\n"
        "context: 1024\nengine: llamacpp\naccelerator: RTX 4090\nprecision: gguf-q8_0\nquick: true\n"
    )
    done = command("plan", request, "--today", "2026-11-21", "-o", kept)
    assert done.exit_code == 0, done.stderr
    written = command("export", kept, "--to", "llamacpp", "--checkpoint", "own/tiny-GGUF", "-o", tmp_path / "run")
    assert written.exit_code == 0, written.stderr
    asked = {"prompt": "Say hello.", "max_tokens": 4}
    assert _get(f"{server}/v1/completions", asked)["choices"]
    measured = command(
        "measure", "quick", f"{server}/v1", "--model", "tiny", "--as", model,
        "--accelerator", "RTX 4090", "--engine", "llamacpp", "--weights", "gguf-q8_0", "--most", 2, "--isl", 250,
        "--osl", 8, "--time", "60 s", "--output", tmp_path / "points", "--out", own,
    )  # fmt: skip
    if "the client's own lateness" in measured.stderr:
        pytest.skip("the machine is too busy to measure on: the measurement says so itself")
    assert measured.exit_code == 0 and own.is_file(), measured.output
    checked = command("check", request, "--baseline", kept, "--today", "2026-11-21", "--calibration", own)
    assert checked.exit_code in (0, 1, 3), checked.output
    assert (
        command(
            "export", kept, "--to", "prometheus", "--checkpoint", "own/tiny-GGUF", "-o", tmp_path / "watch"
        ).exit_code
        == 0
    )
    assert (tmp_path / "watch/tonnage.rules.yaml").is_file()
