"""Who may ask: what stands between the network, or a browser's other pages, and the planner.

The page is meant for the machine it runs on. A name that is not that machine's is refused, so that another site cannot
point its own name at it (DNS rebinding). A request that another site sends, also another port of this machine, is
refused; where such a site only links to a question, its form is shown and not asked. Whoever asks from another machine
needs the server's token.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from litestar.datastructures import Headers
from litestar.response.base import ASGIResponse

from tonnage.catalog.hub.fields import decode_json
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.foreign import MOST_VALUES, check_values
from tonnage.web.questions import QUESTIONS

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
LARGEST_BODY: Final = 1024 * 1024
"""Of a request; a configuration file is a few KB. [bytes]"""
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
HEALTH: Final = "/health"
READ_ONLY: Final = frozenset({
    "", "example", "accuracy", "api", "openapi.json", "static", "answer", "chart", "what-ifs", "step", "export",
    "numbers", "progress", "accelerators", "prices",
})  # fmt: skip
"""First parts of addresses that take no POST, whatever its type: they say so (405) and do nothing."""
NOT_ASKED: Final = "tonnage.not_asked"
"""Key of a request's scope: another site leads here, so that the question is shown and not asked."""
COOKIE: Final = "tonnage_token_"
"""And the server's port: browsers keep one jar for all ports of a machine, where two servers would take turns."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


Refusal = tuple[int, str]
"""Status, and why a request goes no further."""


def guard_app(app: Asgi, *, hosts: tuple[str, ...], token: str) -> Asgi:
    """
    The application behind the checks, with the security headers on whatever it sends.

    Parameters
    ----------
    hosts : tuple of str
        Names that the server answers to.
    token : str
        What every request must know; empty asks for none.
    """

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)

        async def sealed(message: Any) -> None:
            if message["type"] == "http.response.start":
                held = list(message.get("headers", []))
                message = {**message, "headers": held + [(k.encode(), v.encode()) for k, v in HEADERS.items()]}
            await send(message)

        if scope["path"] == HEALTH:  # a watchdog asks by whatever name it knows, and learns nothing
            return await app(scope, receive, sealed)
        given = Headers(scope["headers"])
        refusal = _refusal(scope, given, hosts)
        if refusal is not None:
            return await sentence(refusal[1], status=refusal[0])(scope, receive, sealed)
        if token and not _knows(scope, given, token=token):
            if scope["method"] == "GET" and _is(dict(_query(scope)).get("token", ""), token):
                return await _remembered(scope, token)(scope, receive, sealed)
            told = "this server asks for its token: open the address that it printed when it started, or send it as"
            why = f"{told} 'Authorization: Bearer TOKEN'"
            reply = sentence(why, status=401, headers={"www-authenticate": "Bearer"})
            return await reply(scope, receive, sealed)
        if _is_led(scope, given):
            scope = {**scope, NOT_ASKED: True}
        await app(scope, receive, sealed)

    return serve


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def json_object(body: bytes) -> dict[str, Any]:
    """
    The JSON object of a request body.

    Raises
    ------
    BadRequest
        Not JSON, not an object, a name given twice, nested too deeply, or a text that cannot be shown.
    """
    try:
        value = decode_json(body or b"{}", where="the body")
        check_values(value, where="the body", most=MOST_VALUES)
    except BadFact as error:
        raise BadRequest(str(error)) from None
    if not isinstance(value, dict):
        raise BadRequest("the body must be one JSON object of fields")
    return value


def single_fields(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """
    The fields of a query that are not empty, each of which may stand once.

    Raises
    ------
    BadRequest
        A field given twice, with two values: which is meant nobody can know.
    """
    found: dict[str, str] = {}
    for name, value in fields:
        if value and found.setdefault(name, value) != value:
            raise BadRequest(f"the query gives '{echo(name)}' twice; keep one")
    return found


def error_document(why: str) -> bytes:
    """A sentence about what was wrong."""
    return msgspec.json.encode({"schema": "tonnage.error/1", "error": why})


def sentence(why: str, *, status: int, headers: dict[str, str] | None = None) -> ASGIResponse:
    """A reply of one sentence."""
    return ASGIResponse(body=error_document(why), status_code=status, headers=headers)


def _refusal(scope: Any, given: Headers, hosts: tuple[str, ...]) -> Refusal | None:
    if any(len(given.getall(name, [])) > 1 for name in ("host", "origin", "content-type", "sec-fetch-site")):
        return (400, "Host, Origin, Content-Type and Sec-Fetch-Site may each be given once")
    netloc = _netloc(given.get("host", ""), "http")
    if netloc is None or not (netloc[0] in hosts or _is_own_address(netloc[0], scope)):
        host = echo(given.get("host", ""))
        return (403, f"this page answers to {', '.join(dict.fromkeys(hosts))}, not to '{host}'")
    return _from_elsewhere(scope, given) or _wrong_type(scope, given)


def _from_elsewhere(scope: Any, given: Headers) -> Refusal | None:
    """Why a browser that shows another site's page may not ask this; None where it may, or where no other site asks."""
    origin = given.get("origin")
    if origin is not None and origin != "null":
        scheme, _, rest = origin.partition("://")
        if scheme not in DEFAULT_PORTS or _netloc(rest, scheme) is None:
            return (400, f"Origin: '{echo(origin)}' is no origin; one looks like http://localhost:8042")
        if _netloc(rest, scheme) != _netloc(given["host"], scheme):
            return (403, "requests from other sites are refused")
    if origin == "null" or (_is_cross(given) and not _is_led(scope, given) and not _is_light(scope)):
        return (403, "requests from other sites are refused")
    if _is_cross(given) and scope["method"] not in ("GET", "HEAD"):
        return (403, "requests from other sites are refused")
    return None


def _wrong_type(scope: Any, given: Headers) -> Refusal | None:
    """
    Why a POST that is not JSON goes no further: another site's form can send any type but that; None where it may.

    Addresses that take no POST say so themselves.
    """
    kind = given.get("content-type", "").partition(";")[0].strip().lower()
    path = scope["path"].strip("/")
    read_only = path == "compare" or path.partition("/")[0] in READ_ONLY
    if scope["method"] != "POST" or kind == "application/json" or read_only:
        return None
    was = f"not '{echo(kind)}'" if kind else "and none was given"
    return (415, f"Content-Type: application/json is expected, {was}; with curl, use --json")


def _is_cross(given: Headers) -> bool:
    return given.get("sec-fetch-site", "none") not in ("same-origin", "none")


def _is_led(scope: Any, given: Headers) -> bool:
    """Whether a person followed a link of another site to one of the forms."""
    navigates = given.get("sec-fetch-mode") == "navigate" and given.get("sec-fetch-dest") == "document"
    return _is_cross(given) and navigates and scope["path"].strip("/") in QUESTIONS


def _is_light(scope: Any) -> bool:
    """Whether an address costs nothing, whoever asks."""
    path: str = scope["path"]
    return not scope["query_string"] and (path in ("/", "/api", "/openapi.json") or path.startswith("/static/"))


def _netloc(text: str, scheme: str) -> tuple[str, int] | None:
    """Name and port of 'name:port', or of '[::1]:port'; None of anything else."""
    try:
        parts = urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return name.lower(), DEFAULT_PORTS[scheme] if port is None else port


def _is_own_address(name: str, scope: Any) -> bool:
    """Whether the name is the very address that was connected to, which no other site can make its own."""
    try:
        return ip_address(name) == ip_address((scope.get("server") or ("",))[0])
    except ValueError:
        return False


def _cookie(scope: Any) -> str:
    return f"{COOKIE}{(scope.get('server') or ('', 0))[1]}"


def _knows(scope: Any, given: Headers, *, token: str) -> bool:
    scheme, _, sent = given.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and _is(sent.strip(), token):
        return True
    cookies = (part.strip().partition("=") for part in given.get("cookie", "").split(";"))
    return any(name == _cookie(scope) and _is(value, token) for name, _, value in cookies)


def _is(sent: str, token: str) -> bool:
    return hmac.compare_digest(sent.encode(), token.encode())


def _query(scope: Any) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _remembered(scope: Any, token: str) -> ASGIResponse:
    """A reply that lets the browser keep the token, and takes it out of the address."""
    rest = urlencode([(name, value) for name, value in _query(scope) if name != "token"])
    # A path of two slashes would be another host.
    path = "/" + scope["path"].lstrip("/\\")
    headers = {
        "location": (path + (f"?{rest}" if rest else "")).encode("ascii", "ignore").decode(),
        "set-cookie": f"{_cookie(scope)}={token}; HttpOnly; SameSite=Strict; Path=/",
        "cache-control": "no-store",
    }
    return ASGIResponse(status_code=303, headers=headers)
