"""What has a Prometheus server stored of this system? One query for all names known here, over a window."""

from __future__ import annotations

import re
import time
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from tonnage.domain.diagnosis import Reading
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.measure.diagnose.pages import get
from tonnage.measure.metrics import Sample, all_names, reading_of_samples

__all__ = ["is_prometheus", "readings_between"]

MOST_POINTS: Final = 600
"""Of a window; Prometheus itself refuses more than 11,000. [-]"""


def is_prometheus(url: str, *, key: str | None = None) -> bool:
    """Whether a Prometheus (or Thanos, Mimir, VictoriaMetrics) answers at this address."""
    status, body = get(f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': 'vector(1)'})}", key=key)
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return status == 200 and isinstance(found, dict) and found.get("status") == "success"


def readings_between(
    url: str, *, window_s: float, step_s: float | None = None, match: str | None = None, key: str | None = None
) -> list[Reading]:
    """
    Everything known here that the server has of the last `window_s`, as readings at its steps.

    Parameters
    ----------
    match : str, optional
        Labels that series must have, as PromQL writes them: 'job="llm", pod="a"'.

    Raises
    ------
    BadRequest
        The server refuses the query.
    """
    step = step_s or max(1.0, window_s / MOST_POINTS)
    names = "|".join(re.escape(name).replace("\\", "\\\\") for name in all_names())
    labels = f'__name__=~"{names}"' + (f", {match}" if match else "")
    now = time.time()
    asked = {"query": f"{{{labels}}}", "start": f"{now - window_s:.3f}", "end": f"{now:.3f}", "step": f"{step:g}"}
    status, body = get(f"{url.rstrip('/')}/api/v1/query_range", key=key, form=urlencode(asked).encode())
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadRequest(f"{echo(url)}: the query was answered by http {status} and no JSON") from None
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
