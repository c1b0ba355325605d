"""
Sweeps of real servers on one core of this machine: rows of measurements/own/engine.csv.

Each model, prompt and load in turn, there and back (1, 2, 4, 4, 2, 1 clients), asked by the client of `tonnage measure
serve` from the other core; the faster half of all rounds counts, as in `measure quick`: two requests of each client
repeated themselves by a third. Seconds are as the client saw them; `server_cpu_share` is the server's share of its core
meanwhile, by which they are multiplied where a calibration reads them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Final, NamedTuple

from tools.own.servers import (
    VOCAB,
    engine_of,
    process_of,
    put_first,
    serving,
    serving_vllm,
    used_s,
    write_llama,
    write_vllm,
)
from tools.own.table import Row

from tonnage.domain.measurement import Load
from tonnage.measure.records import Log, Spec, read_log
from tonnage.measure.serve import measure_serve
from tonnage.measure.summary import undisturbed


class Size(NamedTuple):
    """What is served and asked on a kind of device."""

    models: dict[str, tuple[int, int, int]]
    """Hidden size, inner size and layers of a Llama, by the weight of its matrices in 16 bits."""
    levels: tuple[int, ...]
    prompts: tuple[int, ...]
    """[tokens]"""
    slots: int
    """Requests that the server runs at once."""


ON_A_CORE: Final = Size({"75MB": (768, 2048, 6), "365MB": (1024, 2816, 16)}, (1, 2, 4, 8, 16), (64, 256), 16)
ON_A_GPU: Final = Size({"2GB": (2048, 5632, 22), "13GB": (4096, 11008, 32)}, (1, 4, 16, 64), (128, 640), 64)
DTYPES: Final = {"llamacpp": "float16", "vllm": "float32"}
"""Of the weights on a processor."""
EACH: Final = 4
"""Requests of every client, each time that a load is measured."""
LEAST: Final = 12
"""Of all clients together."""
ANSWER: Final = 32
"""[tokens]"""


def sweeps(engine: str, device: str, folder: Path, *, python: Path, how: str, machine: str = "") -> Iterator[Row]:
    """
    Rows of one engine, as they are measured.

    Parameters
    ----------
    engine : str
        llamacpp or vllm.
    device : str
        File of one core, by `tonnage measure device`, or of an accelerator, where `machine` is its name.
    folder : Path
        For models and results.
    python : Path
        Of vLLM's environment.
    how : str
        How it was measured, for the table.
    machine : str
        Name of the accelerator; empty = one core of this machine.
    """
    size, dtype = (ON_A_GPU, "bfloat16") if machine else (ON_A_CORE, DTYPES[engine])
    both = os.sched_getaffinity(0)
    for name, (hidden, feed_forward, layers) in size.models.items():
        known: Row = {
            "engine": engine, "device": device, "accelerator_id": f"own-{Path(device).stem}",
            "model": f"{engine}-{name}", "dtype": dtype, "slots": size.slots,
            "hidden_size": hidden, "intermediate_size": feed_forward, "num_hidden_layers": layers, "vocab_size": VOCAB,
            "output_tokens": ANSWER, "repeat": 0, "date": date.today().isoformat(), "how": how,
            "machine": machine or f"{len(both)} CPUs, {_processor()}",
        }  # fmt: skip
        shape = {"hidden": hidden, "feed_forward": feed_forward, "layers": layers}
        with _served(engine, folder / name, shape, dtype=dtype, slots=size.slots, python=python) as (url, child):
            used_by: tuple[int, int | None] | None = None
            _asked(url, None, size.prompts[0], 1, folder)
            if not machine:
                used_by = child, put_first(child, max(both))
                os.sched_setaffinity(0, {min(both)})
            for prompt in size.prompts:
                seen: dict[int, list[tuple[Log, float]]] = {}
                for clients in (*size.levels, *reversed(size.levels)):
                    seen.setdefault(clients, []).append(_asked(url, used_by, prompt, clients, folder))
                yield from ({**known, **_row(clients, *zip(*twice, strict=True))} for clients, twice in seen.items())
            os.sched_setaffinity(0, both)


@contextmanager
def _served(
    engine: str, path: Path, shape: dict[str, int], *, dtype: str, slots: int, python: Path
) -> Iterator[tuple[str, int]]:
    """The address of a server, and the process that computes."""
    if engine == "vllm":
        write_vllm(python, path, **shape, dtype=dtype)
        with serving_vllm(python, path, slots=slots, dtype=dtype) as url:
            yield url, engine_of(url)
        return
    path = path.with_suffix(".gguf")
    write_llama(path, **shape)
    with serving(path, slots=slots) as url:
        yield url, process_of(url)
    path.unlink()


def _asked(
    url: str, used_by: tuple[int, int | None] | None, prompt: int, clients: int, folder: Path
) -> tuple[Log, float]:
    """What was asked and answered, and the server's share of its core."""
    load = Load(concurrency=clients, requests=max(LEAST, EACH * clients), warmup=clients, duration_s=900.0)
    spec = Spec(
        url=url,
        kind="completions",
        model="tiny",
        load=load,
        prompt_tokens=prompt,
        output_tokens=ANSWER,
        timeout_s=600.0,
    )
    begun, used = time.monotonic(), used_s(*used_by) if used_by else 0.0
    output = folder / f"{time.time_ns()}.jsonl"
    measure_serve(spec, output)
    share = min(1.0, (used_s(*used_by) - used) / (time.monotonic() - begun)) if used_by else 1.0
    return read_log(output), share


def _row(clients: int, logs: Sequence[Log], shares: Sequence[float]) -> Row:
    point = undisturbed(logs)
    assert point.ttft_s is not None and point.tpot_s is not None and point.prompt_tokens is not None
    return {
        "concurrency": clients, "requests": sum(len(log.outcomes) for log in logs),
        "prompt_tokens": round(point.prompt_tokens, 1), "ttft_s": f"{point.ttft_s.mean:.5f}",
        "tpot_s": f"{point.tpot_s.mean:.6f}", "server_cpu_share": f"{max(shares):.3f}",
    }  # fmt: skip


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
