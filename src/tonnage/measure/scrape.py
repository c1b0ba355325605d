"""What does the server say of itself? Its metrics page, beside the requests.

Pages are fetched from the host that is measured and from no other, kept as bytes, and read after the
stage, so that reading them delays no timestamp. Names are mapped by engine; a page without any of
them says nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Final

from tonnage.measure.client import Target
from tonnage.nouns.measurement import ServerState

__all__ = ["ENGINES", "fetch", "state_of", "watch"]

EVERY_S: Final = 1.0
LARGEST_PAGE: Final = 4 * 1024 * 1024
TIMEOUT_S: Final = 2.0

ENGINES: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv_used": "vllm:kv_cache_usage_perc",
        "prompt_tokens": "vllm:prompt_tokens_total",
        "output_tokens": "vllm:generation_tokens_total",
        "preemptions": "vllm:num_preemptions_total",
    },
    "sglang": {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "kv_used": "sglang:token_usage",
        "prompt_tokens": "sglang:prompt_tokens_total",
        "output_tokens": "sglang:generation_tokens_total",
    },
    "llama.cpp": {
        "running": "llamacpp:requests_processing",
        "waiting": "llamacpp:requests_deferred",
        "prompt_tokens": "llamacpp:prompt_tokens_total",
        "output_tokens": "llamacpp:tokens_predicted_total",
    },
    "tgi": {"running": "tgi_batch_current_size", "waiting": "tgi_queue_size"},
}
"""Engine to our names to its own. Gauges are summed over labels: one page is one server."""

_COUNTERS: Final = ("prompt_tokens", "output_tokens", "preemptions")


async def fetch(target: Target, path: str = "/metrics") -> bytes | None:
    """The page, or nothing when the server has none. Plain HTTP/1.0: the answer ends with its connection."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection(target.host, target.port, ssl=target.tls or None)
            host = f"[{target.host}]" if ":" in target.host else target.host
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{target.port}\r\n\r\n".encode())
            page = b""
            while part := await reader.read(65_536):
                page += part
                if len(page) > LARGEST_PAGE:
                    break
            writer.close()
    except (OSError, TimeoutError):
        return None
    head, _, body = page.partition(b"\r\n\r\n")
    return body if b" 200" in head.partition(b"\r\n")[0] else None


async def watch(target: Target, pages: list[bytes]) -> None:
    """Collect pages until cancelled; stops by itself where there is none."""
    while (page := await fetch(target)) is not None:
        pages.append(page)
        await asyncio.sleep(EVERY_S)


def state_of(pages: Sequence[bytes]) -> ServerState | None:
    """The most that gauges showed and the growth of counters over the pages."""
    for engine, names in ENGINES.items():
        series = {ours: [v for page in pages if (v := _value(page, name)) is not None] for ours, name in names.items()}
        if not any(series.values()):
            continue
        found = {
            ours: (values[-1] - values[0] if ours in _COUNTERS else max(values))
            for ours, values in series.items()
            if values and (ours not in _COUNTERS or len(values) > 1)
        }
        return ServerState(engine=engine, **found)
    return None


def _value(page: bytes, name: str) -> float | None:
    lines = re.findall(rb"^%s(?:\{[^\n]*\})? +([0-9.eE+-]+)" % re.escape(name.encode()), page, re.MULTILINE)
    try:
        return sum(float(line) for line in lines) if lines else None
    except ValueError:
        return None
