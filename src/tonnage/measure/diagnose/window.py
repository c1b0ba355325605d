"""
What do readings over a window amount to, and where do they come from: a fetched page, or a Prometheus server.

Pages are read from the address that was given alone; no redirect, no proxy. Prometheus gets one query for all names
known here.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec.structs import replace

from tonnage.domain.diagnosis import Evidence, Histogram, LoadLevel, Reading
from tonnage.errors import BadFact, BadRequest, echo
from tonnage.fetch import open_url
from tonnage.measure.client import address_of
from tonnage.measure.files import json_in
from tonnage.measure.metrics import COUNTERS, Sample, all_names, reading_of, reading_of_samples
from tonnage.measure.summary import ratio, stated_values

PARTS: Final = 6
"""A window is cut into so many parts, to see load and latency move together."""
MIN_PART_REQUESTS: Final = 20
"""Requests that a part needs to have a 95th percentile. [requests]"""

THROTTLED: Final = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (driver)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""Bits of NVML's nvmlClocksEventReasons that slow the clock down; idle and a clock the user set are none."""


def evidence_of(readings: Sequence[Reading], *, source: str = "") -> Evidence:
    """
    All that readings of one system say; one reading alone holds totals since its servers started.

    A page that was read together with others (an engine's, its accelerators', its host's) is one of the readings;
    what only some of them state counts over those.
    """
    ordered = sorted(readings, key=lambda reading: reading.at_s)
    window = ordered[-1].at_s - ordered[0].at_s if ordered else 0.0
    found = Evidence(
        kinds=_kinds(ordered),
        sources=(source,) if source else (),
        engine=next((reading.engine for reading in ordered if reading.engine), None),
        accelerator=_word(ordered, "accelerator"),
        model=_word(ordered, "model"),
        kv=_word(ordered, "kv"),
        window_s=window or None,
        samples=len(ordered),
    )
    for part in (_serving(ordered, window), _accelerator(ordered, window), _host(ordered)):
        found = replace(found, **stated_values(part))
    return found


def merge_readings(parts: Sequence[Evidence]) -> Evidence:
    """Several sources as one: what an earlier one states wins, kinds and names of sources add up."""
    whole = parts[0]
    for part in parts[1:]:
        fresh = {
            name: getattr(part, name)
            for name in Evidence.__struct_fields__
            if getattr(whole, name) in (None, ()) and getattr(part, name) not in (None, ())
        }
        both = {"kinds": tuple(dict.fromkeys(whole.kinds + part.kinds)), "sources": whole.sources + part.sources}
        whole = replace(whole, **{**fresh, **both})
    return whole


def _kinds(readings: Sequence[Reading]) -> tuple[Any, ...]:
    names = {name for reading in readings for name in (*reading.values, *reading.histograms)}
    marks = (
        ("serving", {"running", "waiting", "ttft_s", "e2e_s", "queue_total_s"}),
        ("accelerator", {"utilisation", "tensor_active", "dram_active", "clock_reasons", "power_throttled_s"}),
        ("host", {"cpu_total_s", "disk_busy_s"}),
    )
    return tuple(kind for kind, mark in marks if mark & names)


def _word(readings: Sequence[Reading], name: str) -> str | None:
    return next((reading.names[name] for reading in readings if name in reading.names), None)


def _series(readings: Sequence[Reading], name: str) -> list[float]:
    return [reading.values[name] for reading in readings if name in reading.values]


def _mean(readings: Sequence[Reading], name: str) -> float | None:
    found = _series(readings, name)
    return sum(found) / len(found) if found else None


def _maximum(readings: Sequence[Reading], name: str) -> float | None:
    return max(_series(readings, name), default=None)


def growth(readings: Sequence[Reading], name: str) -> float | None:
    """What a counter grew by; a counter that falls was started anew. One reading: since its server started."""
    assert name in COUNTERS, name
    found = _series(readings, name)
    if len(found) < 2:
        return found[0] if found else None
    return sum(later - earlier if later >= earlier else later for earlier, later in itertools.pairwise(found))


def _window_increase(readings: Sequence[Reading], name: str) -> Histogram | None:
    """What a histogram took in over the window."""
    found = [reading.histograms[name] for reading in readings if name in reading.histograms]
    if len(found) < 2:
        return found[0] if found and found[0].count else None
    count = total = 0.0
    buckets: dict[float, float] = {}
    for earlier, later in itertools.pairwise(found):
        fresh = later.count < earlier.count
        count += later.count - (0.0 if fresh else earlier.count)
        total += later.total - (0.0 if fresh else earlier.total)
        before = {} if fresh else dict(earlier.buckets)
        for bound, value in later.buckets:
            buckets[bound] = buckets.get(bound, 0.0) + value - before.get(bound, 0.0)
    return Histogram(count=count, total=total, buckets=tuple(sorted(buckets.items()))) if count > 0 else None


def percentile(found: Histogram, rank: float) -> float | None:
    """
    The value below which a share `rank` lies, evenly spread inside its bucket; absent beyond the last bucket.

    Examples
    --------
    >>> percentile(Histogram(count=10, total=5.0, buckets=((0.5, 5.0), (1.0, 10.0))), 0.9)
    0.9
    """
    wanted, below, start = rank * found.count, 0.0, 0.0
    for bound, count in found.buckets:
        if count >= wanted and count > below:
            return start + (bound - start) * (wanted - below) / (count - below)
        below, start = count, bound
    return None


def _average(found: Histogram | None) -> float | None:
    return None if found is None else ratio(found.total, found.count)


def _cached_share(readings: Sequence[Reading]) -> float | None:
    """
    Of prompt tokens, those that a prefix cache had.

    vLLM, SGLang and TensorRT-LLM count what was looked up; llama.cpp's prompt tokens are those that it computed.
    """
    cached, computed = growth(readings, "cached_tokens"), growth(readings, "prompt_tokens")
    if cached is None:
        return _mean(readings, "cache_hit_rate")
    return ratio(cached, growth(readings, "queried_tokens") or cached + (computed or 0.0))


def _serving(readings: Sequence[Reading], window: float) -> dict[str, Any]:
    """
    The fields of `Evidence` about a server; None where no page states them.

    Latencies and lengths are means of the requests that ended in the window (since the server started, of a single
    reading); what runs, waits and lies in the cache is the mean, or the most, over readings.
    """
    hist: Callable[[str], Histogram | None] = lambda name: _window_increase(readings, name)  # noqa: E731
    e2e, ttft = hist("e2e_s"), hist("ttft_s")
    finished = growth(readings, "requests")
    done = e2e.count if e2e is not None else finished
    prompt = ratio(growth(readings, "prompt_tokens"), done) or _average(hist("prompt_length"))
    output = ratio(growth(readings, "output_tokens"), done) or _average(hist("output_length"))
    aborted = growth(readings, "aborted")
    waiting = "waiting" if _series(readings, "waiting") else "pending"
    kv = _series(readings, "kv_used") or [
        reading.values["kv_used_blocks"] / reading.values["kv_blocks"]
        for reading in readings
        if reading.values.get("kv_blocks") and "kv_used_blocks" in reading.values
    ]
    idle = [
        not reading.values["running"] and not reading.values.get(waiting, 0.0)
        for reading in readings
        if "running" in reading.values
    ]
    return {
        "requests": done,
        "failed_share": ratio(aborted, (done or 0.0) + (aborted or 0.0)),
        "requests_per_s": ratio(done, window),
        "prompt_tokens": prompt,
        "output_tokens": output,
        "running": _mean(readings, "running"),
        "running_most": _maximum(readings, "running"),
        "running_limit": _maximum(readings, "running_limit"),
        "waiting": _mean(readings, waiting),
        "waiting_most": _maximum(readings, waiting),
        "idle_share": sum(idle) / len(idle) if len(idle) > 1 else None,
        "kv_used": sum(kv) / len(kv) if kv else None,
        "kv_used_most": max(kv, default=None),
        "preemptions": growth(readings, "preemptions"),
        "cached_share": _cached_share(readings),
        "queue_s": _average(hist("queue_s")) if hist("queue_s") else ratio(growth(readings, "queue_total_s"), finished),
        "prefill_s": _average(hist("prefill_s")),
        "ttft_s": _average(ttft),
        "ttft_p95_s": percentile(ttft, 0.95) if ttft is not None else None,
        "tpot_s": _average(hist("tpot_s")),
        "e2e_s": _average(e2e) if e2e is not None else ratio(growth(readings, "e2e_total_s"), finished),
        "e2e_p95_s": percentile(e2e, 0.95) if e2e is not None else None,
        "levels": _levels(readings, window),
    }


def _levels(readings: Sequence[Reading], window: float) -> tuple[LoadLevel, ...] | None:
    """Parts of the window as loads, those with too few requests left out."""
    if len(readings) < 2 * PARTS or not window:
        return None
    found = []
    for number in range(PARTS):
        low = readings[0].at_s + window * number / PARTS
        high = readings[0].at_s + window * (number + 1) / PARTS
        part = [reading for reading in readings if low - 1e-9 <= reading.at_s <= high + 1e-9]
        took = _window_increase(part, "e2e_s") if len(part) > 1 else None
        span = part[-1].at_s - part[0].at_s if part else 0.0
        if took is None or took.count < MIN_PART_REQUESTS or not span:
            continue
        p95 = percentile(took, 0.95)
        at_once = [r.values["running"] + r.values.get("waiting", 0.0) for r in part if "running" in r.values]
        if p95 is not None and at_once:
            level = sum(at_once) / len(at_once)
            found.append(LoadLevel(level=level, requests_per_s=took.count / span, p95_s=p95, requests=took.count))
    return tuple(sorted(found, key=lambda level: level.level)) or None


def _accelerator(readings: Sequence[Reading], window: float) -> dict[str, Any]:
    """
    The fields of `Evidence` about accelerators: means over the readings, of memory and temperature the most.

    Time throttled and rates of traffic and work are counters: over the window, and unknown of a single reading.
    """
    used, free = _maximum(readings, "memory_used_bytes"), _maximum(readings, "memory_free_bytes")
    whole = _maximum(readings, "memory_bytes") or (None if used is None or free is None else used + free)
    bits = {int(value) for value in _series(readings, "clock_reasons")}
    power, heat = growth(readings, "power_throttled_s"), growth(readings, "thermal_throttled_s")
    over = len(readings) > 1 and window
    return {
        **{
            name: _mean(readings, name)
            for name in ("utilisation", "sm_active", "tensor_active", "dram_active", "power_w")
        },
        "temperature_c": _maximum(readings, "temperature_c"),
        "memory_used_share": ratio(used, whole),
        "memory_capacity_bytes": whole,
        "power_throttled_share": min(1.0, power / window) if over and power is not None else None,
        "thermal_throttled_share": min(1.0, heat / window) if over and heat is not None else None,
        "throttle_reasons": tuple(name for bit, name in THROTTLED.items() if any(value & bit for value in bits))
        or None,
        # An engine that does not count its work exports zero, which is not none done.
        "flop_per_s": ratio(growth(readings, "flop_each") or None, window) if over else None,
        "memory_bytes_per_s": ratio(growth(readings, "read_bytes_each") or None, window) if over else None,
        "link_bytes_per_s": ratio(growth(readings, "link_bytes"), window) if over else None,
    }


def _host(readings: Sequence[Reading]) -> dict[str, Any]:
    """Shares of the window in which processors (all together) and the busiest disk worked; none of one reading. [-]"""
    if len(readings) < 2:
        return {}
    total, idle, iowait = (growth(readings, f"cpu_{name}_s") for name in ("total", "idle", "iowait"))
    window = readings[-1].at_s - readings[0].at_s
    disk = growth(readings, "disk_busy_s")
    waits = 0.0 if iowait is None else iowait
    return {
        "cpu_busy": None if total is None or not total or idle is None else max(0.0, 1.0 - (idle + waits) / total),
        "cpu_iowait": None if total is None or not total or iowait is None else iowait / total,
        "disk_busy": None if disk is None or not window else min(1.0, disk / window),
    }


MAX_PAGE_BYTES: Final = 256 * 1024 * 1024
WITHIN_S: Final = 120.0
"""For all of an answer. [s]"""


def get_page(url: str, *, key: str | None, form: bytes | None = None) -> tuple[int, bytes]:
    """
    Status and body of one request; with `form` a POST, with `key` under a bearer token.

    Raises
    ------
    TonnageError
        The address is none, or nothing answers there in time and size.
    """
    parts = address_of(url)
    if parts is None:
        raise BadRequest(f"'{echo(url)}' is no address such as http://127.0.0.1:9090")
    if parts.username or parts.password:
        raise BadRequest("keys do not belong into an address; put yours into the environment and name it by --key-env")
    headers = {"User-Agent": "tonnage"} | ({"Authorization": f"Bearer {key}"} if key else {})
    with open_url(parts.geturl(), within_s=WITHIN_S, headers=headers, form=form, direct=True) as answer:
        found = answer.status, answer.read(MAX_PAGE_BYTES + 1)
    if len(found[1]) > MAX_PAGE_BYTES:
        raise BadRequest(f"'{echo(url)}' answers with more than {MAX_PAGE_BYTES >> 20} MiB; ask for less")
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
    """Whether a Prometheus (or Thanos, Mimir, VictoriaMetrics) answers here; refused where nothing answers."""
    status, body = get_page(f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': 'vector(1)'})}", key=key)
    found = json_in(body)
    return status == 200 and isinstance(found, dict) and found.get("status") == "success"


def readings_between(url: str, *, window_s: float, match: str | None, key: str | None) -> list[Reading]:
    """
    Everything known here that the server has of the last `window_s`, as readings at its steps; empty where it has none.

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
    query = {"query": f"{{{labels}}}", "start": f"{now - window_s:.3f}", "end": f"{now:.3f}", "step": f"{step:g}"}
    status, body = get_page(f"{url.rstrip('/')}/api/v1/query_range", key=key, form=urlencode(query).encode())
    found = json_in(body)
    if not isinstance(found, dict):
        raise BadRequest(f"{echo(url)}: the query was answered by http {status} and no JSON")
    if status != 200 or found.get("status") != "success":
        raise BadRequest(f"{echo(url)}: the query was refused (http {status}: {echo(found.get('error', ''))})")
    return _readings(found["data"]["result"], url=url)


def _readings(series: list[dict[str, Any]], *, url: str) -> list[Reading]:
    """The series of a range query, turned into one reading for each of its moments."""
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
