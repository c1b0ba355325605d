"""How fast is the serving simulator? Requests per second of one core, on traffic whose statistics are published."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tools.benchmarks.measuring import Row, best_of

N = 100_000
EXAMPLE = "examples/simulate-chat-8b.yaml"


def simulator() -> list[Row]:
    """Simulated requests per CPU second, and a search for capacity within objectives."""
    replica = _replica(1155.0, 211.0)
    rows = [
        Row("simulate, a whole command, compiling", _compiled(), "CPU s", 20.0),
        Row("simulate, chat at 6/s, 100k requests", _speed(replica, _chat(6.0)), "per CPU s", 3e5, more_is_better=True),
        Row("simulate, 1k in 8k out, preempting", _preempting(), "per CPU s", 6e4, more_is_better=True),
        Row("simulate, 1.4 M requests in one run", _seconds(replica, _chat(6.0, 1_400_000)), "CPU s", 10.0),
        Row("capacity within objectives, 20k requests", _search(replica), "CPU s", 2.0),
    ]
    trace = _trace("mooncake_fast25_conversation.jsonl.gz")
    if trace is not None:
        rows.append(Row("simulate, prefix blocks of a log", _hashed(trace), "per CPU s", 5e4, more_is_better=True))
    return rows


def _compiled() -> float:
    """A short simulation that finds nothing compiled."""
    with tempfile.TemporaryDirectory() as empty, patch.dict(os.environ, {"NUMBA_CACHE_DIR": empty}):
        return best_of(1, ["simulate", EXAMPLE]).cpu_s


def _replica(prompt: float, output: float, **more: Any) -> Any:
    """An 8B model on one H100 under vLLM."""
    from tonnage.core.deployment import resolve
    from tonnage.core.replica import replica_arrays
    from tonnage.domain.case import ServeCase, Traffic

    case = ServeCase(
        model="meta-llama/Llama-3.1-8B-Instruct",
        accelerator="h100-sxm5-80gb",
        traffic=Traffic(rate_per_s=1.0),
        isl=prompt,
        osl=output,
    )
    at = resolve(case)
    return replica_arrays(at, prompt_tokens=prompt, output_tokens=output, kv_tokens=at.pool.tokens, options=more)


def _chat(rate: float, n: int = N) -> Any:
    from tonnage.domain.simulate import SimulationTraffic
    from tonnage.questions.simulate.traffic import traffic_of

    return traffic_of(SimulationTraffic(profile="chat", rate_per_s=rate, num_requests=n)).requests


def _seconds(replica: Any, requests: Any) -> float:
    from tonnage.simulation.serving import simulate

    start = time.process_time()
    simulate(replica, requests=requests)
    return time.process_time() - start


def _speed(replica: Any, requests: Any) -> float:
    _seconds(replica, requests)  # compiles, or loads what was compiled
    return len(requests.prompt) / min(_seconds(replica, requests) for _ in range(3))


def _preempting() -> float:
    from tonnage.domain.simulate import SimulationTraffic
    from tonnage.questions.simulate.traffic import traffic_of

    replica = _replica(1000.0, 8000.0)
    traffic = SimulationTraffic(prompt_tokens=1000.0, output_tokens=8000.0, rate_per_s=1.0, num_requests=20_000)
    return _speed(replica, traffic_of(traffic).requests)


def _search(replica: Any) -> float:
    from tonnage.domain.requests.common import Slo
    from tonnage.simulation.arrivals import stretched
    from tonnage.simulation.slo import slo_capacity

    requests = _chat(1.0, 20_000)
    start = time.process_time()
    slo_capacity(replica._replace(delivery_s=0.0), sent=stretched(requests), slo=Slo(ttft_s=1.0, tpot_s=0.03))
    return time.process_time() - start


def _hashed(path: Path) -> float:
    from tonnage.domain.simulate import SimulationTraffic
    from tonnage.questions.simulate.traffic import traffic_of

    traced = traffic_of(SimulationTraffic(trace=str(path)))
    replica = _replica(traced.prompt_mean, traced.output_mean, block_tokens=traced.hash_tokens)
    return _speed(replica, traced.requests)


def _trace(name: str) -> Path | None:
    """A public log in the folder named by TONNAGE_TRACES, or beside the checkout."""
    named = os.environ.get("TONNAGE_TRACES")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data" / "traces"
    return folder / name if (folder / name).exists() else None
