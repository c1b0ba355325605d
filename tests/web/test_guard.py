"""A browser that shows another page cannot be used against its owner, nor can another machine without the token."""

from collections.abc import Iterator
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("litestar", reason="the web extra brings it")

FIT = {"model": "meta-llama/Llama-3.1-8B-Instruct", "accelerator": "H100", "context": "8k"}
TOKEN = "a-token-of-the-users-own"
JSON = {"accept": "application/json"}
LED = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture(scope="module")
def client(page_address: str) -> Iterator[Any]:
    with httpx.Client(base_url=page_address, timeout=60, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    "origin",
    ["[", "http://[", "http://[::1", "http://127.0.0.1:99999", "http://:80", "", "://", "file://", "x", "http:/"],
)
def test_a_malformed_origin_is_the_clients_mistake(client: Any, origin: str) -> None:
    for reply in (
        client.post("/fit", json=FIT, headers={"origin": origin}),
        client.get("/", headers={"origin": origin}),
    ):
        assert reply.status_code == 400 and "Origin" in reply.json()["error"]


def test_the_origin_is_the_pages_own_with_its_port(client: Any, page_address: str) -> None:
    port = int(page_address.rpartition(":")[2])
    for origin in (
        "http://127.0.0.1",
        f"http://127.0.0.1:{port + 1}",
        f"http://localhost:{port}",
        f"http://[::1]:{port}",
    ):
        assert client.post("/fit", json=FIT, headers={"origin": origin}).status_code == 403
    for host, origin in (
        ("127.0.0.1", "http://127.0.0.1"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost"),
        (f"127.0.0.1:{port}", page_address),
    ):
        assert client.post("/fit", json=FIT, headers={"host": host, "origin": origin}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "something-new"])
@pytest.mark.parametrize(("mode", "dest"), [("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("", "")])
def test_what_another_site_sends_is_refused(client: Any, site: str, mode: str, dest: str) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    for path in ("/fit?model=8B", "/fit", "/progress/fit?model=8B", "/chart/0/memory-dark.svg", "/compare?left=0"):
        assert client.get(path, headers=headers).status_code == 403
    assert client.post("/fit", json=FIT, headers=headers).status_code == 403


def test_a_question_that_another_site_links_to_is_shown_and_not_asked(client: Any) -> None:
    page = client.get("/fit", params=FIT, headers={**LED, "accept": "text/html"})
    assert page.status_code == 403 and 'value="8k"' in page.text and "press Answer" in page.text
    assert "/answer/" not in page.text
    assert client.get("/fit", params=FIT, headers={**LED, **JSON}).status_code == 403
    assert client.get("/fit", headers={**LED, "accept": "text/html"}).status_code == 200
    for path in ("/progress/fit?model=8B", "/answer/0", "/what-ifs/0", "/export/0?to=vllm"):
        assert client.get(path, headers=LED).status_code == 403
    own = {**LED, "sec-fetch-site": "none", "accept": "text/html"}
    assert "/answer/" in client.get("/fit", params=FIT, headers=own).text


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", ""]
)
def test_only_json_is_posted(client: Any, kind: str) -> None:
    for path in ("/fit", "/predict", "/models"):
        reply = client.post(path, content=b"{}", headers={"content-type": kind})
        assert reply.status_code == 415 and "application/json" in reply.json()["error"]
    assert client.post("/fit", content=b"{}").status_code == 415
    assert client.post("/fit", json=FIT, headers={"content-type": "Application/JSON; charset=utf-8"}).status_code == 200


@pytest.mark.parametrize("name", ["origin", "content-type", "sec-fetch-site"])
def test_what_is_checked_is_given_once(client: Any, name: str) -> None:
    twice = [(name, "x"), (name, "y"), ("content-type", "application/json")]
    reply = client.post("/fit", content=b"{}", headers=twice)
    assert reply.status_code == 400


def test_head_tells_what_get_would_and_asks_nothing(client: Any) -> None:
    for path in ("/", "/api", "/fit", "/fit?model=no-such-model", "/static/page.js", "/health"):
        reply = client.head(path)
        assert reply.status_code == 200 and not reply.content and int(reply.headers["content-length"]) > 0
    assert client.head("/nothing").status_code == 404


def test_long_answers_are_compressed_for_who_can_read_that(client: Any) -> None:
    plain = client.get("/fit", params=FIT, headers={**JSON, "accept-encoding": "identity"})
    packed = client.get("/fit", params=FIT, headers={**JSON, "accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
    assert packed.text == plain.text and packed.num_bytes_downloaded < plain.num_bytes_downloaded / 2
    assert "accept" in plain.headers["vary"].lower()


def test_a_watchdog_asks_by_any_name(client: Any) -> None:
    reply = client.get("/health", headers={"host": "pod.example"})
    assert reply.json()["status"] == "ok" and reply.headers["cache-control"] == "no-store"


def test_other_machines_need_the_token(started: Any) -> None:
    with (
        started(token=TOKEN) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        wrong = [{"authorization": word} for word in ("Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}")]
        wrong += [{"authorization": f"Bearer {TOKEN[:-1]}"}, {}]
        name = f"tonnage_token_{address.rpartition(':')[2]}"
        wrong += [{"cookie": f"{name}={value}"} for value in (TOKEN[:4], "", TOKEN[1:])]
        wrong += [{"cookie": f"{name}0={TOKEN}"}, {"cookie": f"tonnage_token={TOKEN}"}]
        for headers in wrong:
            for path in ("/", "/fit", "/static/page.js", "/?token=x", f"/?token={TOKEN[:-1]}", "/answer/0"):
                reply = client.get(path, headers=headers)
                assert reply.status_code == 401 and reply.headers["www-authenticate"] == "Bearer"
        assert client.get("/health").status_code == 200
        assert client.post("/fit", json=FIT, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        led = client.get("/fit", params={"token": TOKEN, "model": "8B & more"})
        assert led.status_code == 303 and led.headers["location"] == "/fit?model=8B+%26+more"
        assert "HttpOnly" in led.headers["set-cookie"] and "SameSite=Strict" in led.headers["set-cookie"]
        assert client.get("/").status_code == 200, "the cookie is the token"
        client.cookies.clear()
        away = client.get(f"//attacker.example/?token={TOKEN}")
        assert not away.headers.get("location", "/").startswith("//")


HOSTILE = {
    "x-forwarded-host": "attacker.example", "x-forwarded-proto": "https", "x-forwarded-for": "127.0.0.1",
    "x-forwarded-port": "1", "x-forwarded-prefix": "//attacker.example", "x-real-ip": "127.0.0.1",
    "forwarded": "for=127.0.0.1;host=attacker.example;proto=https", "x-original-url": "/answer/0",
    "x-rewrite-url": "/answer/0", "x-http-method-override": "POST", "x-host": "attacker.example", "via": "1.1 attacker",
}  # fmt: skip
ROUTES = (
    "/", "/example", "/accuracy", "/api", "/openapi.json", "/static/page.js", "/static/vega.js", "/health", "/fit",
    "/fit?model=8B&accelerator=H100", "/plan/serve", "/models", "/accelerators?format=json", "/prices?format=csv",
    "/answer/0", "/chart/0/memory-dark.svg", "/compare?left=0", "/what-ifs/0", "/export/0", "/numbers/0",
    "/progress/none", "/nothing",
)  # fmt: skip


@pytest.mark.parametrize("path", ROUTES)
def test_what_a_proxy_says_changes_no_answer(client: Any, path: str) -> None:
    plain, proxied = client.get(path), client.get(path, headers=HOSTILE)
    assert proxied.status_code == plain.status_code and proxied.content == plain.content
    assert "attacker" not in proxied.text + str(proxied.headers)
