"""
The hub over HTTP, on this machine: found, gated, missing, broken, slow, redirected, huge, not JSON.

The server below answers as a hub does: each file's commit and ETag in the headers of a HEAD request, then its bytes.
"""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from tests.catalog.hub.files import CONFIG, llama_tensors, write_safetensors
from tests.patience import PATIENCE_S

from tonnage.catalog.hub import online
from tonnage.catalog.hub.resolve import resolve
from tonnage.errors import BadFact, BadRequest, UnknownName

constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra 'hub'")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
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

    seen: ClassVar[list[tuple[str, str, str | None]]] = []
    over: ClassVar[threading.Event]
    """That the test has ended: until then a hub that does not finish goes on."""
    other = ""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        Hub.seen.append((self.command, self.path, self.headers.get("Authorization")))
        maker, name, _, _, file = [*self.path.split("/")[1:6], "", "", "", ""][:5]
        repo = f"{maker}/{name}"
        head = self.command == "HEAD"
        if repo in STATUS:
            self.answer(STATUS[repo], b"no")
        elif repo == "own/moved":
            self.redirect(f"{Hub.other}/own/found/resolve/main/{file}")
        elif repo == "own/loop" and not head:
            self.redirect(self.path)
        elif repo == "own/elsewhere":
            self.redirect("file:///etc/hostname")
        elif repo == "own/huge":
            self.answer(200, b'{"a": "' + b"x" * (5 << 20) + b'"}')
        elif repo == "own/swells":
            self.answer(200, b"{}" if head else b" " * (25 << 20), announce=head)
        elif repo == "own/notjson":
            self.answer(200, b"<html>sign in</html>")
        elif repo == "own/nohub":
            self.answer(200, b"{}", hub=False)
        elif repo == "own/slow" or (repo == "own/hangs" and not head):
            Hub.over.wait(PATIENCE_S)
        elif repo == "own/drips" and not head:
            self.drip()
        elif repo == "own/short":
            self.answer(200, b"{", length=1000)
        elif repo in {"own/loop", "own/hangs", "own/drips"}:
            self.answer(200, b"{}")
        elif file in FILES.get(repo, {}):
            self.answer(200, json.dumps(FILES[repo][file]).encode())
        else:
            self.answer(404, b"Entry not found", code="EntryNotFound" if repo in FILES else "RepoNotFound")

    def answer(
        self, status: int, body: bytes, *, hub: bool = True, announce: bool = True, length: int = 0, code: str = ""
    ) -> None:
        self.send_response(status)
        if hub:
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{abs(hash((self.path, len(body))))}"')
        if code:
            self.send_header("X-Error-Code", code)
        if announce:
            self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        if self.command == "GET":
            self.write(body)

    def redirect(self, address: str) -> None:
        self.send_response(307)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-ETag", f'"{abs(hash(self.path))}"')
        self.send_header("X-Linked-Size", str(len(json.dumps(FILES["own/found"].get("config.json")))))
        self.send_header("Location", address)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        while self.write(b" ") and not Hub.over.wait(0.05):
            pass

    def write(self, body: bytes) -> bool:
        """Send, and say whether somebody was still there."""
        try:
            self.wfile.write(body)
            self.wfile.flush()
        except OSError:
            return False
        return True

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


def serve() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    one, two = serve(), serve()
    Hub.over = threading.Event()
    Hub.seen, Hub.other = [], f"http://localhost:{two.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{one.server_port}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_HUB_OFFLINE", "TONNAGE_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield Hub
    Hub.over.set()
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
    assert hub.seen[0][1] == "/own/found/resolve/v2/config.json"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("own/gated", "answers 401: gated, private or misspelt; accept its licence on its page and set HF_TOKEN"),
        ("own/private", "answers 403"),
        ("own/none", "has no such model or no config.json"),
        ("own/broken", "answers 500"),
        ("own/busy", "answers 429"),
        ("own/loop", "could not be asked (TooManyRedirects)"),
        ("own/elsewhere", "own/elsewhere': the hub"),
        ("own/nohub", "could not be asked (FileMetadataError)"),
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
        ("own/swells", "more than 4194304 bytes"),
        ("own/notjson", "own/notjson/config.json: is not JSON"),
        ("own/list", "holds a list"),
        ("own/notmodel", "own/notmodel/config.json: 'num_attention_heads' is missing"),
    ],
)
def test_an_answer_that_is_no_config_is_a_bad_fact(hub: type[Hub], name: str, expected: str) -> None:
    with pytest.raises(BadFact) as problem:
        resolve(name)
    assert expected in str(problem.value)


@pytest.mark.parametrize("name", ["own/slow", "own/hangs", "own/drips", "own/short"])
def test_a_hub_that_does_not_finish_is_left(hub: type[Hub], name: str) -> None:
    """It does not finish before the test does: whoever waited for it would wait for good."""
    with pytest.raises(online.HubFailure, match=r"no answer in time|RemoteProtocolError"):
        online.fetch(online.Repository(name), "config.json", timeout_s=0.2)


def test_what_is_kept_is_bounded_as_what_comes(hub: type[Hub]) -> None:
    online.fetch(online.Repository("own/found"), "config.json")
    with pytest.raises(BadFact, match=r"larger|more than|too large|at most"):
        online.fetch(online.Repository("own/found"), "config.json", limit=10, offline=True)


def test_an_unreachable_hub(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(BadRequest, match=r"the hub at 127\.0\.0\.1 could not be asked"):
        resolve("own/found")


@pytest.mark.parametrize("endpoint", ["file:///etc", "ftp://127.0.0.1", "nonsense", "https://"])
def test_an_endpoint_must_be_an_address(monkeypatch: pytest.MonkeyPatch, hub: type[Hub], endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(BadRequest, match="HF_ENDPOINT"):
        resolve("own/found")


def test_the_token_goes_to_the_hub_alone_and_into_no_message_or_log(
    monkeypatch: pytest.MonkeyPatch, hub: type[Hub], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    caplog.set_level(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    assert resolve("own/moved").hidden_size == 64
    sent = {(path.split("/")[2], header) for _, path, header in hub.seen}
    assert sent == {("moved", f"Bearer {TOKEN}"), ("found", None)}
    for name in ("own/gated", "own/private", "own/none", "own/broken", "own/loop", "own/nohub", "own/notjson"):
        with pytest.raises((BadRequest, BadFact)) as problem:
            resolve(name)
        assert TOKEN not in str(problem.value)
        assert TOKEN not in repr(problem.value.__cause__)
    assert caplog.records
    assert TOKEN not in caplog.text


def test_an_endpoint_with_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"http://me:{TOKEN}@127.0.0.1:9")
    with pytest.raises(BadRequest, match=r"the hub at 127\.0\.0\.1 could not be asked") as problem:
        resolve("own/found")
    assert TOKEN not in str(problem.value)


def test_a_line_break_in_a_token_adds_no_header(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    monkeypatch.setenv("HF_TOKEN", "bad\r\nX-Other: 1")
    assert resolve("own/found").hidden_size == 64
    assert {header for _, _, header in hub.seen} == {"Bearer badX-Other: 1"}


def test_known_names_and_offline_ask_nobody(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    resolve("meta-llama/Llama-3.1-8B-Instruct")
    resolve("Qwen/Qwen3-8B-AWQ")
    with pytest.raises(UnknownName):
        resolve("own/found", offline=True)
    for name in ("HF_HUB_OFFLINE", "TONNAGE_OFFLINE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            with pytest.raises(UnknownName):
                resolve("own/found")
    assert hub.seen == []


def test_what_was_found_once_is_found_offline(hub: type[Hub]) -> None:
    found = resolve("own/found")
    hub.seen.clear()
    assert resolve("own/found", offline=True) == found
    assert hub.seen == []


def test_a_hub_that_went_away_leaves_the_cache(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    found = resolve("own/found")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert resolve("own/found") == found


def test_weights_of_other_tools_on_this_machine_are_read(hub: type[Hub], tmp_path: Path) -> None:
    root = tmp_path / "cache" / "models--own--cached"
    folder = root / "snapshots" / "abc123"
    folder.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("abc123", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    size = write_safetensors(folder / "model.safetensors", llama_tensors())
    found = resolve("own/cached")
    assert (found.id, found.hidden_size, found.stored_weight_bytes) == ("own/cached", 64, size)
    assert hub.seen == []


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, hub: type[Hub]) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BadRequest, match=r"pip install 'tonnage\[hub\]'") as problem:
        resolve("meta-llama/Llama-3.1-9B")
    assert "did you mean" in str(problem.value)
    assert hub.seen == []


@pytest.mark.parametrize(
    "arguments",
    [("fit", "meta-llama/Llama-3.1-8B", "--accelerator", "H200"), ("catalog", "models", "--help"), ("--help",)],
)
def test_a_catalogued_model_needs_nothing_of_a_network(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys; sys.argv[0] = 'tonnage'; import tonnage.cli\n"
        "try: tonnage.cli.main()\nexcept SystemExit: pass\n"
        "heavy = {'huggingface_hub', 'httpx', 'http.client', 'ssl', 'urllib.request', 'asyncio', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "spec", ["../etc/passwd", "a/../b", "http://huggingface.co/", "hf:one", "own/na me", "own/n\u00e4me"]
)
def test_what_is_no_id_is_never_asked_for(hub: type[Hub], spec: str) -> None:
    with pytest.raises((BadRequest, BadFact)):
        resolve(spec)
    assert hub.seen == []
