"""The audit log: a line for each question, with what was asked and never the token."""

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tonnage.cli import root
from tonnage.errors import BadRequest
from tonnage.web.audit import with_audit, writer_of


async def answering(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/broken":
        raise RuntimeError("the answer failed")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def lines(tmp_path: Path, *asked: tuple[str, str, bytes, list[bytes]]) -> list[dict[str, Any]]:
    path = tmp_path / "audit.jsonl"
    file = writer_of(str(path))
    app = with_audit(answering, file)

    async def ask(method: str, target: str, query: bytes, parts: list[bytes]) -> None:
        messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        messages.append({"type": "http.request", "body": b"", "more_body": False})

        async def receive() -> Any:
            return messages.pop(0)

        async def send(_: Any) -> None: ...

        scope = {"type": "http", "method": method, "path": target, "query_string": query, "client": ("10.0.0.7", 5)}
        await app(scope, receive, send)

    for method, target, query, parts in asked:
        with contextlib.suppress(RuntimeError):
            asyncio.run(ask(method, target, query, parts))
    os.close(file)
    assert path.stat().st_mode & 0o077 == 0 or os.name == "nt"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_questions_are_written_and_nothing_else(tmp_path: Path) -> None:
    found = lines(
        tmp_path,
        ("GET", "/", b"", []),
        ("GET", "/fit", b"model=8B&token=secret-of-mine", []),
        ("POST", "/plan/serve", b"", [b'{"model": ', b'"8B"}']),
        ("POST", "/broken", b"", [b"{}"]),
    )
    assert [one["path"] for one in found] == ["/fit", "/plan/serve", "/broken"]
    assert found[0]["fields"] == {"model": "8B"} and "secret-of-mine" not in json.dumps(found)
    assert json.loads(found[1]["body"]) == {"model": "8B"}
    assert [one.get("status", 0) for one in found] == [200, 200, 0]
    assert all(one["client"] == "10.0.0.7" and len(one["data"]) == 12 and one["at"] for one in found)


def test_a_large_body_is_cut(tmp_path: Path) -> None:
    (found,) = lines(tmp_path, ("POST", "/predict", b"", [b"x" * 60_000, b"y" * 60_000]))
    assert len(found["body"]) == 64 * 1024


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"--audit: .* cannot be written"):
        writer_of(str(tmp_path / "none" / "audit.jsonl"))


def test_the_server_is_set_by_environment() -> None:
    done = CliRunner().invoke(root, ["web"], env={"TONNAGE_WEB_PORT": "a lot"}, prog_name="tonnage")
    assert done.exit_code == 2 and "a lot" in done.stderr
