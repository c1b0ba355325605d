"""
A page fetched from an address, once or over a window, and what a Prometheus server has stored of a system.

Only the address that was given; no redirect, no proxy. Prometheus gets one query for all names known here.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from tonnage.domain.diagnosis import Reading
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.fetch import cut_off
from tonnage.measure.files import json_in
from tonnage.measure.metrics import Sample, all_names, reading_of, reading_of_samples

MAX_PAGE_BYTES: Final = 256 * 1024 * 1024
TIMEOUT_S: Final = 30.0
WITHIN_S: Final = 120.0
"""Without a byte, and for all of an answer. [s]"""


def get_page(url: str, *, key: str | None, form: bytes | None = None) -> tuple[int, bytes]:
    """
    Status and body of one request; with `form` a POST.

    Raises
    ------
    BadRequest
        The address is none, or nothing answers there in time and size.
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
    found = 0, b""
    sockets: list[socket.socket] = []
    with cut_off(sockets, WITHIN_S) as late:
        try:
            connection.connect()
            sockets.append(connection.sock)
            connection.request("GET" if form is None else "POST", path, body=form, headers=headers)
            answer = connection.getresponse()
            found = answer.status, answer.read(MAX_PAGE_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            if not late.is_set():
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise BadRequest(f"{echo(url)}: {str(reason).lower()}") from None
        finally:
            connection.close()
    if late.is_set():
        raise BadRequest(f"{echo(url)}: the answer did not come within {WITHIN_S:g} s")
    if len(found[1]) > MAX_PAGE_BYTES:
        raise BadRequest(f"{echo(url)}: the answer has more than {MAX_PAGE_BYTES >> 20} MiB; ask for less")
    return found


def watch_page(url: str, *, window_s: float, every_s: float, key: str | None) -> list[Reading]:
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
        status, page = get_page(page_url, key=key)
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


MAX_POINTS: Final = 600
"""Of a window; Prometheus itself refuses more than 11,000. [-]"""


def is_prometheus(url: str, *, key: str | None) -> bool:
    """Whether a Prometheus (or Thanos, Mimir, VictoriaMetrics) answers at this address."""
    status, body = get_page(f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': 'vector(1)'})}", key=key)
    found = json_in(body)
    return status == 200 and isinstance(found, dict) and found.get("status") == "success"


def readings_between(url: str, *, window_s: float, match: str | None, key: str | None) -> list[Reading]:
    """
    Everything known here that the server has of the last `window_s`, as readings at its steps.

    Parameters
    ----------
    match : str
        Labels that series must have, as PromQL writes them: 'job="llm", pod="a"'.

    Raises
    ------
    BadRequest
        The server refuses the query.
    """
    step = max(1.0, window_s / MAX_POINTS)
    names = "|".join(re.escape(name).replace("\\", "\\\\") for name in all_names())
    labels = f'__name__=~"{names}"' + (f", {match}" if match else "")
    now = time.time()
    asked = {"query": f"{{{labels}}}", "start": f"{now - window_s:.3f}", "end": f"{now:.3f}", "step": f"{step:g}"}
    status, body = get_page(f"{url.rstrip('/')}/api/v1/query_range", key=key, form=urlencode(asked).encode())
    found = json_in(body)
    if not isinstance(found, dict):
        raise BadRequest(f"{echo(url)}: the query was answered by http {status} and no JSON")
    if status != 200 or found.get("status") != "success":
        raise BadRequest(f"{echo(url)}: the query was refused (http {status}: {echo(found.get('error', ''))})")
    return _readings(found["data"]["result"], url=url)


def _readings(series: list[dict[str, Any]], *, url: str) -> list[Reading]:
    moments: dict[float, list[Sample]] = {}
    try:
        for one in series:
            labels = dict(one["metric"])
            name = labels.pop("__name__")
            for at_s, value in one["values"]:
                moments.setdefault(float(at_s), []).append((name, labels, float(value)))
    except (KeyError, TypeError, ValueError):
        raise BadFact(f"{echo(url)}: the answer to the query is not one of Prometheus") from None
    found = (reading_of_samples(samples, at_s=at_s) for at_s, samples in sorted(moments.items()))
    return [reading for reading in found if reading is not None]
