"""Advice on a service that is alive: its own metrics page, and a Prometheus that scrapes it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import tonnage

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
REPLICAS, RATE = 4, 10.0
COUNTERS = {
    "vllm:request_success_total": 1.0,
    "vllm:prompt_tokens_total": 1024.0,
    "vllm:generation_tokens_total": 256.0,
    "vllm:time_to_first_token_seconds_sum": 0.9,
    "vllm:time_to_first_token_seconds_count": 1.0,
    "vllm:request_queue_time_seconds_sum": 0.86,
    "vllm:request_queue_time_seconds_count": 1.0,
    "vllm:inter_token_latency_seconds_sum": 255 * 0.0082,
    "vllm:inter_token_latency_seconds_count": 255.0,
    "vllm:e2e_request_latency_seconds_sum": 3.0,
    "vllm:e2e_request_latency_seconds_count": 1.0,
}
"""What a request adds."""
GAUGES = {"vllm:num_requests_running": 8.0, "vllm:num_requests_waiting": 3.0, "vllm:kv_cache_usage_perc": 0.1}


def page(at_s: float) -> str:
    """One replica's page: a quarter of the requests so far."""
    done = RATE / REPLICAS * at_s
    return "".join(f"{name} {value:.6f}\n" for name, value in values(done).items())


def values(requests: float) -> dict[str, float]:
    return {**{name: each * requests for name, each in COUNTERS.items()}, **GAUGES}


def range_of(query: dict[str, list[str]]) -> str:
    """`query_range` of a Prometheus that scrapes every replica."""
    first, last = float(query["start"][0]), float(query["end"][0])
    moments = [first + (last - first) * part / 10 for part in range(11)]
    series = [
        {
            "metric": {"__name__": name, "instance": f"replica-{place}:8000", "job": "llm"},
            "values": [[at, f"{values(RATE / REPLICAS * (at - first + 3600))[name]:.6f}"] for at in moments],
        }
        for name in values(0.0)
        for place in range(REPLICAS)
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})


@contextmanager
def served(answer: Callable[[str, dict[str, list[str]]], str | None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _reply(self, form: str) -> None:
            asked = urlsplit(self.path)
            text = answer(asked.path, {**parse_qs(asked.query), **parse_qs(form)})
            self.send_response(404 if text is None else 200)
            body = (text or "").encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._reply("")

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def command(tmp_path: Path) -> str:
    file = tmp_path / "serve.sh"
    file.write_text(f"vllm serve {MODEL} --max-model-len 32768 --max-num-seqs 8\n")
    return str(file)


ASKED = {"accelerator": "H100", "replicas": REPLICAS, "ttft": "1 s", "tpot": "30 ms", "provider": "lambda"}


def test_a_live_metrics_page_is_watched_and_advised(command: str) -> None:
    start = time.monotonic()

    def answer(path: str, _: object) -> str | None:
        return page(1000.0 + time.monotonic() - start) if path == "/metrics" else None

    with served(answer) as address:
        found = tonnage.advise(command, address, look={"window": "1 s", "every": "0.2 s"}, **ASKED)  # type: ignore[arg-type]
    # The clock of a busy machine stretches the window and the requests in it alike.
    assert found.seen.rate_per_s == pytest.approx(RATE, rel=0.5)
    assert found.seen.prompt_tokens == pytest.approx(1024, rel=1e-3) and found.seen.tpot_s == pytest.approx(
        0.0082, rel=0.01
    )
    assert "calibrated by its own latencies" in found.calibrated
    assert "batch limit" in {action.name for action in found.actions}


def test_a_prometheus_shows_the_whole_service(command: str) -> None:
    def answer(path: str, query: dict[str, list[str]]) -> str | None:
        if path == "/api/v1/query":
            return json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})
        return range_of(query) if path == "/api/v1/query_range" else None

    with served(answer) as address:
        found = tonnage.advise(command, address, look={"window": "1 h"}, **ASKED)  # type: ignore[arg-type]
        plain = tonnage.advise(command, address, calibrate=False, upgrade="vllm@0.6.0", **ASKED)  # type: ignore[arg-type]
    assert found.seen.rate_per_s == pytest.approx(RATE, rel=0.02)
    assert found.today.replicas == REPLICAS and not plain.calibrated
    action = next(one for one in found.actions if one.name == "batch limit")
    assert action.state.replicas < REPLICAS and action.usd_per_month > 0
    change = next(one for one in plain.actions if one.name == "upgrade")
    assert "vllm 0.6.0 instead of" in change.change and "TPOT +" in change.change, "an older release is slower"
    assert "one replica of 4" in change.check and "--baseline" in change.check
