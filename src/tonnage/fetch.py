"""Files over HTTP: from the host that was named and no other, within a time for all of it."""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit

from tonnage.errors import BadFact, echo

T = TypeVar("T")
SILENCE_S: Final = 30.0
"""Without a byte. [s]"""


@contextmanager
def open_url(
    url: str, *, within_s: float, headers: dict[str, str], form: bytes | None = None, direct: bool = False
) -> Iterator[http.client.HTTPResponse]:
    """
    What an address answers, for a `with` block that reads it.

    Parameters
    ----------
    within_s : float
        For the connection, the answer and the block. [s]
    form : bytes, optional
        Posted; otherwise the address is read with GET.
    direct : bool
        No proxy and no redirect, and answers of every status are the block's to judge.

    Raises
    ------
    BadFact
        Nobody answers, not in time, with an error, or from another host; also when reading breaks off.
    """
    sockets: list[socket.socket] = []
    with _cut_off(sockets, within_s) as late:
        try:
            request = urllib.request.Request(url, data=form, headers=headers)
            with _opener(sockets, direct).open(request, timeout=min(SILENCE_S, within_s)) as answer:
                yield answer
        except HTTPError as error:
            raise BadFact(f"'{echo(url)}' answers {error.code} {echo(error.reason)}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            if not late.is_set():
                raise BadFact(f"'{echo(url)}' cannot be reached: {echo(_reason(error))}") from None
        if late.is_set():
            raise BadFact(f"'{echo(url)}' did not come within {within_s:g} s; try again, or another address")


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    return str(getattr(cause, "strerror", None) or cause).lower() or type(cause).__name__


@contextmanager
def _cut_off(sockets: list[socket.socket], within_s: float) -> Iterator[threading.Event]:
    """Shut the sockets of the list after that time, however often a byte arrives; the event tells that it was done."""
    late = threading.Event()

    def shut() -> None:
        late.set()
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(within_s, shut)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        for one in sockets:
            one.close()


def in_time(work: Callable[[], T], seconds: float) -> T:
    """What `work` gives, or TimeoutError; its thread is left behind, for a name look-up can hang for ever."""
    given: list[T | Exception] = []

    def run() -> None:
        try:
            given.append(work())
        except Exception as problem:
            given.append(problem)

    thread = threading.Thread(target=run, name="fetch", daemon=True)
    thread.start()
    thread.join(seconds)
    if not given:
        raise TimeoutError
    if isinstance(given[0], Exception):
        raise given[0]
    return given[0]


def _opener(sockets: list[socket.socket], direct: bool) -> urllib.request.OpenerDirector:
    """urllib's own for http(s) alone; its connections put their sockets on the list, its redirects stay on the host."""
    plain, secure = urllib.request.HTTPHandler(), urllib.request.HTTPSHandler()
    moved = urllib.request.HTTPRedirectHandler()
    follow = moved.redirect_request

    def redirect(req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not _stays(req.full_url, newurl):
            raise BadFact(
                f"'{echo(req.full_url)}' leads to another host, '{echo(urlsplit(newurl).netloc)}', which is not asked; "
                "name that address if you trust it"
            )
        return follow(req, fp, code, msg, headers, newurl)

    vars(plain)["http_open"] = lambda req: plain.do_open(_noting(http.client.HTTPConnection, sockets), req)
    vars(secure)["https_open"] = lambda req: secure.do_open(_noting(http.client.HTTPSConnection, sockets), req)
    vars(moved)["redirect_request"] = redirect
    errors = urllib.request.HTTPErrorProcessor(), urllib.request.HTTPDefaultErrorHandler()
    found = urllib.request.OpenerDirector()
    followed = () if direct else (urllib.request.ProxyHandler(), moved, *errors)
    for handler in (plain, secure, urllib.request.UnknownHandler(), *followed):
        found.add_handler(handler)
    return found


def _stays(before: str, after: str) -> bool:
    """Whether a redirect stays on host and port; from http to https is one that does."""
    old, new = urlsplit(before), urlsplit(after)
    if old.hostname != new.hostname:
        return False
    safer = (old.scheme, new.scheme) == ("http", "https") and not old.port and not new.port
    return safer or (old.scheme, old.port) == (new.scheme, new.port)


def _noting(kind: type[http.client.HTTPConnection], sockets: list[socket.socket]) -> Any:
    """A maker of connections; a second handle of each socket is put on the list before the first byte passes."""

    def connect(*given: Any) -> socket.socket:
        found = socket.create_connection(*given)
        sockets.append(found.dup())  # TLS takes the first one away, and a handshake can drip as well
        return found

    def make(host: str, **options: Any) -> http.client.HTTPConnection:
        made = kind(host, **options)
        vars(made)["_create_connection"] = connect
        return made

    return make
