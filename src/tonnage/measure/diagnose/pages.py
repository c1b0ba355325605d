"""A page fetched from an address, once or over a window. Only the address that was given; no redirect, no proxy."""

from __future__ import annotations

import http.client
import time
from typing import Final
from urllib.parse import urlsplit

from tonnage.domain.diagnosis import Reading
from tonnage.errors import BadRequest, echo
from tonnage.measure.metrics import reading_of

__all__ = ["get", "watched"]

LARGEST: Final = 256 * 1024 * 1024
TIMEOUT_S: Final = 30.0


def get(url: str, *, key: str | None = None, form: bytes | None = None) -> tuple[int, bytes]:
    """
    Status and body of one request; with `form` a POST.

    Raises
    ------
    BadRequest
        The address is none, or nothing answers there.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host:
        raise BadRequest(f"'{echo(url)}' is no address such as http://127.0.0.1:9090")
    if parts.username or parts.password:
        raise BadRequest("keys do not belong into an address; put yours into the environment and name it by --key-env")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=TIMEOUT_S)
    headers = {"User-Agent": "tonnage"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("GET" if form is None else "POST", path, body=form, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(LARGEST)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise BadRequest(f"{echo(url)}: {str(reason).lower()}") from None
    finally:
        connection.close()


def watched(url: str, *, window_s: float, every_s: float, key: str | None = None) -> list[Reading]:
    """
    A metrics page read again and again over a window.

    Raises
    ------
    BadRequest
        There is no such page, or it holds no name that is known here.
    """
    parts = urlsplit(url)
    page_url = url if parts.path.rstrip("/").endswith("metrics") else f"{url.rstrip('/').removesuffix('/v1')}/metrics"
    end = time.monotonic() + window_s
    found: list[Reading] = []
    while True:
        status, page = get(page_url, key=key)
        if status != 200:
            raise BadRequest(f"{echo(page_url)}: http {status}; SGLang needs --enable-metrics, llama.cpp --metrics")
        reading = reading_of(page, at_s=time.monotonic())
        if reading is None:
            raise BadRequest(f"{echo(page_url)}: no metric of an engine or exporter that is known here")
        found.append(reading)
        left = end - time.monotonic()
        if left <= 0:
            return found
        time.sleep(min(every_s, left))
