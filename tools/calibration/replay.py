"""A real engine's request log, played again: the log's arrivals, lengths and settings, our steps and scheduler.

A log is a folder's `NAME__vllm_requests.jsonl.gz` (one line a request: lengths, when the engine queued it, first and
last token) and `NAME__vllm_meta.json.gz` (model, version, settings), as LLMServingSim publishes them. TTFT counts
from the engine's queue. Beside the steps that a user's case gets (`from_physics`) stand steps by datasheet and generic
curve with a few factors (`stretch_model`), which one log may set and another test.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tonnage import catalog
from tonnage.core.deployment import Deployment, resolve
from tonnage.core.replica import replica_arrays
from tonnage.domain.case import Links, ServeCase, Traffic
from tonnage.domain.engine_spec import Overheads
from tonnage.domain.layout import Layout
from tonnage.errors import BadFact, echo
from tonnage.physics.parameters import active_parameters
from tonnage.simulation.simulated import Limits, ReplicaArrays, Requests, StepArrays, requests_of, step_arrays
from tonnage.simulation.step_parts import Placement
from tonnage.simulation.steps import StepGrid, step_grid, step_table
from tonnage_accuracy.logs import QUANTITIES

if TYPE_CHECKING:
    from tonnage.simulation.serving import Simulated

Percentiles = dict[str, tuple[float, ...]]
"""The 50th, 90th, 95th and 99th percentile of each quantity."""


class EngineLog(NamedTuple):
    """One log: what was run, with which settings, and the requests in the order the engine queued them."""

    name: str
    model: str
    accelerator: str
    layout: Layout
    version: str
    options: dict[str, Any]
    num_blocks: int | None
    """Blocks of the cache, where the engine said it."""
    requests: Requests
    measured: Percentiles


class Replayed(NamedTuple):
    """A log's configuration, ready to be played: the replica by the physics, and its steps opened."""

    log: EngineLog
    at: Deployment
    replica: ReplicaArrays
    requests: Requests


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """The few numbers that a log may be used to set; everything else stays the physics'."""

    memory: float = 1.0
    """Factor on what memory bandwidth bounds. [-]"""
    compute: float = 1.0
    """Factor on what arithmetic bounds. [-]"""
    step_s: float = 0.0
    """Host time of a step. [s]"""


def read_logs(folder: Path) -> list[EngineLog]:
    """
    Every log of a folder.

    Raises
    ------
    BadFact
        No log is there.
    """
    names = sorted(path.name.removesuffix("__vllm_requests.jsonl.gz") for path in folder.glob("*__vllm_requests.*"))
    if not names:
        raise BadFact(
            f"'{echo(folder)}' holds no NAME__vllm_requests.jsonl.gz; see llmservingsim in the list of traces"
        )
    return [read_log(folder, name) for name in names]


def read_log(folder: Path, name: str) -> EngineLog:
    """
    One log by its name.

    Raises
    ------
    BadFact
        A file is missing or damaged, or lacks a column.
    """
    import numpy as np

    try:
        meta = json.loads(gzip.decompress((folder / f"{name}__vllm_meta.json.gz").read_bytes()))
        lines = gzip.decompress((folder / f"{name}__vllm_requests.jsonl.gz").read_bytes()).splitlines()
        rows = sorted((json.loads(line) for line in lines), key=lambda row: float(row["queued_ts"]))
        keys = ("queued_ts", "first_token_ts", "last_token_ts", "input_toks", "output_toks")
        queued, first, last, prompt, output = (np.array([float(row[key]) for row in rows]) for key in keys)
        asked = meta["engine_kwargs"]
        tp, dp = int(asked["tensor_parallel_size"]), int(asked["data_parallel_size"])
        layout = Layout(tp=tp, dp=dp, ep=tp * dp if asked["enable_expert_parallel"] else 1)
        named = ("max_num_seqs", "max_num_batched_tokens", "max_model_len")
        options = {key: asked[key] for key in named if asked.get(key) is not None}
        blocks = meta.get("kv_cache", {}).get("num_gpu_blocks")
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise BadFact(f"log '{echo(name)}' cannot be read ({type(error).__name__}: {echo(error)})") from None
    gaps = np.maximum(output - 1, 1)
    columns = dict(zip(QUANTITIES, (first - queued, (last - first) / gaps, last - queued), strict=True))
    return EngineLog(
        name=name,
        model=str(meta["model"]),
        accelerator=name.split("_", 1)[0],
        layout=layout,
        version=str(meta["vllm_version"]),
        options=options,
        num_blocks=None if blocks is None else int(blocks),
        requests=requests_of(queued - queued[0], prompt.astype(np.int64), output=output.astype(np.int64)),
        measured=_percentiles(columns),
    )


def _percentiles(columns: dict[str, Any]) -> Percentiles:
    import numpy as np

    return {
        name: tuple(float(x) for x in np.nanpercentile(values, (50, 90, 95, 99))) for name, values in columns.items()
    }


def replay_setup(log: EngineLog, *, links: Links | None = None) -> Replayed:
    """The log's configuration as the planner would set it up; logs do not say how accelerators reach each other."""
    prompt, output = float(log.requests.prompt.mean()), float(log.requests.output.mean())
    case = ServeCase(
        model=log.model,
        accelerator=catalog.accelerator(log.accelerator).id,
        traffic=Traffic(rate_per_s=1.0),
        isl=prompt,
        osl=output,
        layout=log.layout,
        engine="vllm",
        engine_version=log.version,
        engine_options=log.options,
        links=links or Links(),
    )
    at = resolve(case)
    longest = int((log.requests.prompt + log.requests.output).max())
    replica = replica_arrays(
        at, prompt_tokens=prompt, output_tokens=output, kv_tokens=at.pool.tokens, options={"longest": longest}
    )
    requests = log.requests
    if at.engine.prefix_caching:
        from tonnage.simulation.serving import with_own_blocks

        requests = with_own_blocks(requests, replica.limits.block_tokens)
    return Replayed(log=log, at=at, replica=replica, requests=requests)


def from_physics(replay: Replayed) -> tuple[Percentiles, int]:
    """
    The log as a user's case is predicted, and preemptions.

    Kernel tables and the engine's factors, nothing from the log.
    """
    return _play(replay.replica._replace(delivery_s=0.0), replay.requests)


def _play(replica: ReplicaArrays, requests: Requests) -> tuple[Percentiles, int]:
    from tonnage.simulation.serving import simulate

    run: Simulated = simulate(replica, requests=requests)
    return _percentiles({name: getattr(run, name) for name in QUANTITIES}), int(run.preempted.sum())


def stretch_model(replay: Replayed) -> Callable[[Stretch], tuple[Percentiles, int]]:
    """
    The log by datasheet and generic curve, as a function of a `Stretch`: no table or fit of one part enters.

    The cache is as large as the engine said, where its log keeps that.
    """
    at, limits = replay.at, replay.replica.limits
    if replay.log.num_blocks is not None:
        limits = limits._replace(num_blocks=replay.log.num_blocks)
    prompt, output = float(replay.requests.prompt.mean()), float(replay.requests.output.mean())
    bare = msgspec.structs.replace(at.placement, ladder=msgspec.structs.replace(at.placement.ladder, grids={}))
    together = max(1.0, min(float(limits.max_num_seqs), limits.num_blocks * limits.block_tokens / prompt))
    grid = step_grid(bare, batch=together, context=prompt + output, chunk=float(limits.budget), prompt=prompt)
    half_rate = _half_rate(bare, grid, limits)

    def play(stretch: Stretch) -> tuple[Percentiles, int]:
        compute = stretch.compute if half_rate is None else half_rate
        factors = Overheads(
            memory=stretch.memory,
            attention=stretch.memory,
            touch=stretch.memory,
            compute=compute,
            prefill_attention=compute,
            step_s=stretch.step_s,
        )
        return _play(ReplicaArrays(_arrays(grid, factors, limits), limits), replay.requests)

    return play


def _arrays(grid: StepGrid, factors: Overheads, limits: Limits) -> StepArrays:
    return step_arrays(step_table(grid, factors), max_num_seqs=limits.max_num_seqs, budget=limits.budget)


def _half_rate(placement: Placement, grid: StepGrid, limits: Limits) -> float | None:
    """
    The factor at which a full step runs at the listed peak, for parts that accumulate at half rate; absent for others.

    GeForce parts halve their tensor cores when they accumulate in 32 bits. What keeps others below their peak (power,
    operands) does not reach these: they run at it, and clock above what it is listed for.
    """
    peaks, layout = placement.accelerator.peaks, placement.layout
    if peaks.get("fp16_accum16", 0.0) <= peaks.get("fp16", 0.0):
        return None
    flop = 2.0 * active_parameters(placement.model).value * limits.budget / (layout.tp * layout.pp)
    return flop / peaks["bf16"] / float(_arrays(grid, Overheads(), limits).mixed_s[limits.budget])
