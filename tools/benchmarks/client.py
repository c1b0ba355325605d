"""
`python -m tools.benchmarks.client`: the measuring client's own delay under load, against a stub in its own process.

Wall time, unlike the other figures: a busy machine makes the client late, and that is what it reports. The last row is
how late a program with nothing to do is woken on this machine meanwhile, which no client can be better than; on a busy
one `chrt -f 10 python -m tools.benchmarks.client` shows the client's own part.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.benchmarks.measuring import Row

MOST_DELAY_MS = 5.0


def delay_ms(*, stub: list[str], load: dict[str, float], output_tokens: int) -> float:
    """p99 of the client's own delay under a load. [ms]"""
    from tonnage.domain.measurement import Load
    from tonnage.measure.records import Spec
    from tonnage.measure.serve import measure_serve

    server = subprocess.Popen([sys.executable, "-m", "tests.measure.stub", *stub], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        spec = Spec(
            url=url, kind="chat", model="stub", load=Load(**load), prompt_tokens=64, output_tokens=output_tokens
        )
        with tempfile.TemporaryDirectory() as folder:
            point = measure_serve(spec, Path(folder) / "log.jsonl").points[0]
    finally:
        server.kill()
        server.wait()
    assert point.failed == 0 and point.client_delay_s is not None
    return point.client_delay_s * 1e3


def idle_ms(*, seconds: float = 5.0) -> float:
    """p99 of how late an idle loop is woken: the machine's own part. [ms]"""
    from tonnage.measure.load import HEARTBEAT_S

    lags = []
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        time.sleep(HEARTBEAT_S)
        lags.append(time.perf_counter() - now - HEARTBEAT_S)
    return sorted(lags)[int(0.99 * len(lags))] * 1e3


def client() -> list[Row]:
    """Many short requests, and many streams at once."""
    rate = delay_ms(stub=["0.001", "0"], load={"rate_per_s": 2000.0, "requests": 6000, "warmup": 500}, output_tokens=4)
    streams = delay_ms(
        stub=["0.5", "0.25"], load={"concurrency": 1000, "requests": 1000, "warmup": 1000}, output_tokens=16
    )
    return [
        Row("client, own delay p99 at 2,000 requests/s", rate, "ms", MOST_DELAY_MS),
        Row("client, own delay p99 at 1,000 streams", streams, "ms", MOST_DELAY_MS),
        Row("this machine, delay p99 with nothing to do", idle_ms(), "ms", MOST_DELAY_MS),
    ]


if __name__ == "__main__":
    for row in client():
        print(f"{row.name:<45} {row.value:8.3g} {row.unit} <= {row.target:g}  {'met' if row.met else 'MISSED'}")
