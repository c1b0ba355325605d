"""What the guard turns away, request by request, without a server: each of its conditions decides somewhere."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("litestar", reason="the web extra brings it")

from tonnage.errors import BadRequest
from tonnage.web.guard import guard_app, json_object, single_fields

TOKEN = "a-token-of-the-users-own"
OWN = {"host": "localhost:8042"}
CROSS = {"sec-fetch-site": "cross-site"}
LED = {**CROSS, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


def status(
    *more: tuple[str, str], path: str = "/fit", method: str = "GET", query: str = "", token: str = "", **headers: str
) -> int:
    """What comes of one request: 200 where it is let through."""
    given = {**OWN, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http", "path": path, "method": method, "query_string": query.encode(), "server": ("127.0.0.1", 8042),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in (*given.items(), *more) if value],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(guard_app(app, hosts=("localhost",), token=token)(scope, None, send))
    names = {name for name, _ in sent[0]["headers"]}
    assert {b"content-security-policy", b"x-content-type-options"} <= names
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (200, {}),
        (200, {"host": "127.0.0.1"}),
        (403, {"host": "attacker.example"}),
        (403, {"host": "127.0.0.2"}),
        (403, {"host": ""}),
        (403, {"host": "localhost/x"}),
        (403, {"host": "a@localhost"}),
        (200, {"origin": "http://localhost:8042"}),
        (403, {"origin": "http://localhost:8043"}),
        (403, {"origin": "null"}),
        (400, {"origin": "localhost:8042"}),
        (400, {"origin": "ftp://localhost:8042"}),
        (400, {"origin": "http://["}),
        (403, CROSS),
        (200, {**CROSS, "path": "/"}),
        (403, {**CROSS, "path": "/", "query": "a=1"}),
        (403, {**CROSS, "path": "/", "method": "POST", "content-type": "application/json"}),
        (200, LED),
        (403, {**LED, "path": "/answer/0"}),
        (403, {**LED, "method": "POST", "content-type": "application/json"}),
        (200, {"method": "POST", "content-type": "application/json; charset=utf-8"}),
        (415, {"method": "POST", "content-type": "text/plain"}),
        (415, {"method": "POST"}),
        (200, {"method": "POST", "path": "/answer/0"}),
    ],
)
def test_each_request_is_let_through_or_turned_away(found: int, asked: dict[str, str]) -> None:
    assert status(**{name.replace("-", "_"): value for name, value in asked.items()}) == found


@pytest.mark.parametrize("name", ["host", "origin", "content-type", "sec-fetch-site"])
def test_what_decides_is_given_once(name: str) -> None:
    value = {"host": "localhost:8042", "origin": "http://localhost:8042", "sec-fetch-site": "none"}.get(name, "x")
    assert status((name, value)) == (400 if name == "host" else 200)
    assert status((name, value), (name, value)) == 400


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (401, {}),
        (200, {"authorization": f"Bearer {TOKEN}"}),
        (401, {"authorization": f"Bearer {TOKEN[:-1]}"}),
        (401, {"authorization": f"Bearer {TOKEN}x"}),
        (401, {"authorization": f"Basic {TOKEN}"}),
        (401, {"authorization": TOKEN}),
        (200, {"cookie": f"a=b; tonnage_token_8042={TOKEN}"}),
        (401, {"cookie": f"tonnage_token_8043={TOKEN}"}),
        (401, {"cookie": f"tonnage_token_8042={TOKEN[:-1]}"}),
        (303, {"query": f"token={TOKEN}"}),
        (401, {"query": f"token={TOKEN[:-1]}"}),
        (401, {"query": f"token={TOKEN}", "method": "POST", "content_type": "application/json"}),
        (200, {"path": "/health"}),
        (403, {"host": "attacker.example", "authorization": f"Bearer {TOKEN}"}),
    ],
)
def test_a_token_is_known_whole_or_not_at_all(found: int, asked: dict[str, str]) -> None:
    assert status(token=TOKEN, **asked) == found


@pytest.mark.parametrize(
    "body", ["[1]", "{", '{"a": 1, "a": 2}', '{"a\\u202e": 1}', json.dumps({"a": [1] * 60_000}), "[" * 60 + "]" * 60]
)
def test_a_body_is_one_sound_object(body: str) -> None:
    with pytest.raises(BadRequest):
        json_object(body.encode())


def test_a_field_of_a_query_has_one_value() -> None:
    assert single_fields([("a", "1"), ("a", "1"), ("b", "")]) == {"a": "1"}
    with pytest.raises(BadRequest, match="gives 'a' twice"):
        single_fields([("a", "1"), ("a", "2")])
