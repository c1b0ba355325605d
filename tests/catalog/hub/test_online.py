"""The hub over HTTP, on this machine: found, gated, missing, broken, slow, redirected, huge, not JSON."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from tests.catalog.hub.files import CONFIG

from tonnage.catalog.hub import online, resolve
from tonnage.errors import BadFact, BadRequest

TOKEN = "hf_" + "verysecret"
FILES = {
    "own/found": {"config.json": CONFIG, "model.safetensors.index.json": {"metadata": {"total_size": 123456}}},
    "own/plain": {"config.json": CONFIG},
    "own/quant": {"config.json": CONFIG, "hf_quant_config.json": {"quantization": {"quant_algo": "NVFP4"}}},
    "own/oddindex": {"config.json": CONFIG, "model.safetensors.index.json": {"metadata": {"total_size": "many"}}},
    "own/list": {"config.json": [1, 2]},
    "own/notmodel": {"config.json": {"model_type": "llama"}},
}
STATUS = {"own/gated": 401, "own/private": 403, "own/broken": 500, "own/busy": 429}


class Hub(BaseHTTPRequestHandler):
    """A hub of a few repositories."""

    seen: ClassVar[list[tuple[str, str | None]]] = []
    other = ""

    def do_GET(self) -> None:
        Hub.seen.append((self.path, self.headers.get("Authorization")))
        maker, name, _, _, file = [*self.path.split("/")[1:6], "", "", "", ""][:5]
        repo = f"{maker}/{name}"
        if repo in STATUS:
            self.answer(STATUS[repo], b"no")
        elif repo == "own/moved":
            self.send_response(307)
            self.send_header("Location", f"{Hub.other}/own/found/resolve/main/{file}")
            self.end_headers()
        elif repo == "own/loop":
            self.send_response(302)
            self.send_header("Location", self.path)
            self.end_headers()
        elif repo == "own/elsewhere":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.end_headers()
        elif repo == "own/huge":
            self.answer(200, b'{"a": "' + b"x" * (5 << 20) + b'"}')
        elif repo == "own/notjson":
            self.answer(200, b"<html>sign in</html>")
        elif repo == "own/slow":
            time.sleep(3)
        elif repo == "own/short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{")
        elif file in FILES.get(repo, {}):
            self.answer(200, json.dumps(FILES[repo][file]).encode())
        else:
            self.answer(404, b"Entry not found")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


def serve() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    one, two = serve(), serve()
    Hub.seen, Hub.other = [], f"http://localhost:{two.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{one.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    for name in ("HF_HUB_OFFLINE", "TONNAGE_OFFLINE", "HF_HUB_CACHE", "http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield Hub
    one.shutdown()
    two.shutdown()
    one.server_close()
    two.server_close()


def test_a_model_is_found_with_the_size_of_its_weights(hub: type[Hub]) -> None:
    found = resolve("own/found")
    assert (found.id, found.hidden_size, found.stored_weight_bytes) == ("own/found", 64, 123456)
    assert resolve("own/plain").stored_weight_bytes is None
    assert resolve("own/oddindex").stored_weight_bytes is None
    assert resolve("own/quant").quantization == "nvfp4"


def test_a_revision_is_asked_for(hub: type[Hub]) -> None:
    resolve("hf:own/found@v2")
    assert hub.seen[0][0] == "/own/found/resolve/v2/config.json"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("own/gated", "answers 401: gated, private or misspelt; accept its licence on its page and set HF_TOKEN"),
        ("own/private", "answers 403"),
        ("own/none", "has no such model or no config.json"),
        ("own/broken", "answers 500"),
        ("own/busy", "answers 429"),
        ("own/loop", "answers 302"),
        ("own/elsewhere", "answers 302"),
        ("own/short", "broke off its answer"),
        ("meta-llama/Llama-3.1-9B", "did you mean '"),
    ],
)
def test_a_refusal_is_one_sentence(hub: type[Hub], name: str, expected: str) -> None:
    with pytest.raises(BadRequest) as problem:
        resolve(name)
    assert expected in str(problem.value)
    assert name in str(problem.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("own/huge", "more than 4194304 bytes"),
        ("own/notjson", "own/notjson/config.json: is not JSON"),
        ("own/list", "holds a list"),
        ("own/notmodel", "own/notmodel/config.json: 'num_attention_heads' is missing"),
    ],
)
def test_an_answer_that_is_no_config_is_a_bad_fact(hub: type[Hub], name: str, expected: str) -> None:
    with pytest.raises(BadFact) as problem:
        resolve(name)
    assert expected in str(problem.value)


def test_a_slow_hub_is_left(hub: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    start = time.monotonic()
    with pytest.raises(online.HubFailure, match="no answer in time"):
        online.fetch(online.Repository("own/slow"), "config.json", timeout_s=0.3)
    assert time.monotonic() - start < 2


def test_an_unreachable_hub(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(BadRequest, match=r"the hub at 127\.0\.0\.1 could not be asked"):
        resolve("own/found")


@pytest.mark.parametrize("endpoint", ["file:///etc", "ftp://127.0.0.1", "nonsense"])
def test_an_endpoint_must_be_an_address(monkeypatch: pytest.MonkeyPatch, hub: type[Hub], endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(BadRequest, match="HF_ENDPOINT"):
        resolve("own/found")


def test_the_token_goes_to_the_hub_alone_and_into_no_message(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert resolve("own/moved").hidden_size == 64
    sent = {path.split("/")[2]: header for path, header in hub.seen}
    assert sent == {"moved": f"Bearer {TOKEN}", "found": None}
    for name in ("own/gated", "own/none", "own/broken"):
        with pytest.raises(BadRequest) as problem:
            resolve(name)
        assert TOKEN not in str(problem.value)
        assert TOKEN not in repr(problem.value.__cause__)


def test_a_token_with_a_line_break_is_not_sent(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    monkeypatch.setenv("HF_TOKEN", "bad\r\nHost: elsewhere")
    assert resolve("own/found").hidden_size == 64
    assert hub.seen[0][1] is None


def test_known_names_and_offline_ask_nobody(hub: type[Hub]) -> None:
    resolve("meta-llama/Llama-3.1-8B-Instruct")
    resolve("Qwen/Qwen3-8B-AWQ")
    with pytest.raises(BadRequest):
        resolve("own/found", offline=True)
    assert hub.seen == []


def test_the_cache_of_other_tools_is_used_first(hub: type[Hub], tmp_path: Path) -> None:
    root = tmp_path / "cache" / "hub" / "models--own--cached"
    folder = root / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("abc123", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    found = resolve("own/cached", offline=True)
    assert (found.id, found.hidden_size) == ("own/cached", 64)
    assert hub.seen == []


@pytest.mark.parametrize(
    "spec", ["../etc/passwd", "a/../b", "http://huggingface.co/", "hf:one", "own/na me", "own/n\u00e4me"]
)
def test_what_is_no_id_is_never_asked_for(hub: type[Hub], spec: str) -> None:
    with pytest.raises((BadRequest, BadFact)):
        resolve(spec)
    assert hub.seen == []
