"""
Where questions are worked on: processes of this machine, or a Ray cluster; both do the same and may lose a worker.

Questions go out in chunks, large ones first, so that the last ones end together. Each process has a pool of its own, so
that one that dies takes only its chunk with it; that chunk is asked again, a few times at most. On Linux the processes
are forked from one that has loaded everything (`tonnage.sweep.ready`) and runs no threads: a worker starts, or starts
again, at no cost.

A worker asks each question of a chunk and keeps the numbers that were asked for. It gets plain values and gives plain
values, so that a process, another machine and this one do the same.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext
from typing import Any, Final

import msgspec

from tonnage.catalog import Additions, gather
from tonnage.errors import BadRequest, TonnageError, UnknownName, echo

Found = list[tuple[str, bytes]]
TRIES: Final = 3
"""Of one chunk, before the sweep gives up: a question that kills every worker must end."""
IN_FLIGHT: Final = 4
"""Chunks handed to Ray per core at once."""
MAX_CHUNK: Final = 64
SHARE: Final = 4
"""A chunk is this part of a worker's share of what is left: the first are large, the last ones single questions."""


def chunks_of(questions: Chunk, *, workers: int) -> Iterator[Chunk]:
    """All questions in their order, in chunks that shrink."""
    start = 0
    while start < len(questions):
        size = max(1, min(MAX_CHUNK, (len(questions) - start) // (SHARE * workers)))
        yield questions[start : start + size]
        start += size


def on_processes(
    ask: str, questions: Chunk, *, take: dict[str, str], folders: tuple[str, ...], workers: int
) -> Iterator[Found]:
    """
    Answers as they come, a chunk at a time, from processes of this machine; one worker works in this process.

    Raises
    ------
    TonnageError
        A chunk lost its worker `TRIES` times.
    """
    if workers == 1:
        for chunk in chunks_of(questions, workers=1):
            yield answer_chunk(ask, chunk, take=take, folders=folders)
        return
    waiting: deque[tuple[Chunk, int]] = deque((chunk, 0) for chunk in chunks_of(questions, workers=workers))
    simulated = ask in ("plan", "simulate") and not all(request.get("quick") for _, request in questions)
    context = _context(loaded=simulated)
    pools = [_pool(context) for _ in range(min(workers, len(waiting)))]
    idle = list(range(len(pools)))
    busy: dict[Future[Found], tuple[int, Chunk, int]] = {}
    try:
        while waiting or busy:
            while waiting and idle:
                place = idle.pop()
                chunk, lost = waiting.popleft()
                busy[pools[place].submit(answer_chunk, ask, chunk, take=take, folders=folders)] = (place, chunk, lost)
            for future in wait(busy, return_when=FIRST_COMPLETED).done:
                place, chunk, lost = busy.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    pools[place] = _pool(context)
                    if lost + 1 >= TRIES:
                        raise TonnageError(_lost_message(chunk)) from None
                    waiting.appendleft((chunk, lost + 1))
                idle.append(place)
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


def on_ray(
    ask: str, questions: Chunk, *, take: dict[str, str], folders: tuple[str, ...], address: str
) -> Iterator[Found]:
    """
    Answers as they come, a chunk at a time, from a Ray cluster ("local" = one on this machine).

    Raises
    ------
    BadRequest
        Ray is not installed, or the cluster cannot be reached.
    """
    if importlib.util.find_spec("ray") is None:
        raise BadRequest("--ray needs the 'ray' extra: pip install 'tonnage[ray]'")
    ray: Any = importlib.import_module("ray")
    try:
        ray.init(address=None if address == "local" else address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        told = f"--ray: the cluster at '{echo(address)}' cannot be reached: {error}"
        raise BadRequest(f"{told}; one that asks for a token wants it in RAY_AUTH_TOKEN") from None
    try:
        task = ray.remote(max_retries=TRIES - 1)(answer_chunk)
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        running: list[Any] = []
        for chunk in chunks_of(questions, workers=cores):
            if len(running) >= cores * IN_FLIGHT:
                done, running = ray.wait(running)
                yield from ray.get(done)
            running.append(task.remote(ask, chunk, take=take, folders=folders))
        while running:
            done, running = ray.wait(running)
            yield from ray.get(done)
    finally:
        ray.shutdown()


def _context(*, loaded: bool) -> BaseContext:
    # Forking this process could hang, for it may run threads; a fork server runs none. It is trusted on Linux alone:
    # elsewhere what numpy has loaded may not survive a fork.
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    if loaded:
        context.set_forkserver_preload(["tonnage.sweep.ready"])
    return context


def _pool(context: BaseContext) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max_workers=1, mp_context=context)


def _lost_message(chunk: Chunk) -> str:
    first = echo(chunk[0][1])
    return f"a worker died {TRIES} times on the same {len(chunk)} questions, the first of them {first}; out of memory?"


Chunk = tuple[tuple[str, dict[str, Any]], ...]
"""Key and request of each question."""

USUAL: Final[dict[str, dict[str, str]]] = {
    "plan": {
        "feasible": "feasible", "accelerator": "options.0.configuration.accelerator",
        "accelerators": "options.0.accelerators", "cost": "options.0.cost.value", "cost_low": "options.0.cost.low",
        "cost_high": "options.0.cost.high", "unit": "options.0.cost.unit", "provider": "options.0.bill.provider",
        "bill": "bill.value", "bill_low": "bill.low", "bill_high": "bill.high", "bill_unit": "bill.unit",
        "sentence": "sentence",
    },
    "plan infer": {
        "feasible": "feasible", "accelerator": "options.0.accelerator", "accelerators": "options.0.count",
        "usd_per_hour": "options.0.bill.usd_per_hour", "provider": "options.0.bill.provider", "sentence": "sentence",
    },
    "fit": {
        "fits": "fits", "accelerator": "rows.0.accelerator", "count": "rows.0.count", "bytes": "rows.0.memory.value",
        "limit_bytes": "rows.0.limit_bytes", "sentence": "sentence",
    },
    "simulate": {
        "fits": "fits", "requests": "requests", "ttft_p95_s": "ttft_s.p95", "tpot_p95_s": "tpot_s.p95",
        "e2e_p95_s": "e2e_s.p95", "requests_per_s": "requests_per_s", "preemptions": "preemptions",
        "capacity_per_s": "capacity.rate_per_s", "sentence": "sentence",
    },
    "predict": {
        "fits": "fits", "ttft_s": "ttft_s.mean", "tpot_s": "tpot_s.mean",
        "output_tokens_per_s": "output_tokens_per_s.value", "requests_per_s": "requests_per_s.value",
        "samples_per_s": "samples_per_s.value", "latency_s": "latency_s.value", "step_s": "step_s.value",
        "tokens_per_s_per_accelerator": "tokens_per_s_per_accelerator.value", "mfu": "mfu",
        "memory_peak_bytes": "memory_peak_bytes.value", "why": "why",
    },
}  # fmt: skip
"""
By what is asked, and where it differs by kind of answer: columns of a sweep that names none. An answer has those that
its kind has: a training step has no first token.
"""


def answer_chunk(ask: str, chunk: Chunk, *, take: dict[str, str], folders: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Key and row (JSON) of every question of a chunk; a wrong request is a row that says why."""
    additions = gather(paths=folders)
    return [(key, msgspec.json.encode(_row(ask, request, take, additions))) for key, request in chunk]


def pick_numbers(answer: Any, take: Mapping[str, str]) -> dict[str, Any]:
    """
    The named numbers of an answer; a place it has not (an option of an infeasible plan) is null.

    Raises
    ------
    UnknownName
        No such answer has a figure of that name.
    """
    return {name: msgspec.to_builtins(_at(answer, path)) for name, path in take.items()}


def usual_numbers(ask: str, answer: Any) -> dict[str, Any]:
    """The usual columns of an answer of its kind; null where this answer lacks what its kind has."""
    columns = USUAL.get(f"{ask} {answer.__struct_config__.tag}", USUAL[ask])
    return pick_numbers(answer, {name: path for name, path in columns.items() if hasattr(answer, path.split(".")[0])})


def _row(ask: str, request: dict[str, Any], take: Mapping[str, str], additions: Additions) -> dict[str, Any]:
    try:
        answer = _run_question(ask, request, additions)
        return (pick_numbers(answer, take) if take else usual_numbers(ask, answer)) | _measured(answer)
    except TonnageError as wrong:
        return {"error": str(wrong)}


def _measured(answer: Any) -> dict[str, str]:
    """The column that says which measurements moved the answer, and by how much; none where none did."""
    uses = getattr(answer, "calibrations", ())
    said = [
        f"{use.accelerator} {use.engine}: " + ", ".join(f"{one.quantity} x{one.factor:.3f}" for one in use.moved)
        for use in uses
    ]
    return {"calibrations": "; ".join(said)} if said else {}


def _run_question(ask: str, request: dict[str, Any], additions: Additions) -> Any:
    """The answer to one question of a sweep, by what it asks."""
    if ask == "plan":
        from tonnage.questions.ask import answer, kind_of

        kind, fields = kind_of(request, source="base")
        return answer(kind, fields, additions=additions)
    if ask == "fit":
        from tonnage.questions.fit.fit import fit
        from tonnage.questions.fit.question import fit_request

        return fit(fit_request(request), additions=additions)
    if ask == "simulate":
        from tonnage.questions.simulate.simulate import simulate, simulation_of

        return simulate(simulation_of(request), additions=additions)
    from tonnage.questions.predict.case_lines import case_of_object
    from tonnage.questions.predict.predict import predict

    return predict(case_of_object(request), additions=additions)


def _at(answer: Any, path: str) -> Any:
    """The value at a path of names and places: fields and figures of nouns, keys of mappings, items of lists."""
    value = answer
    for name in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list | tuple):
            value = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
        elif isinstance(value, msgspec.Struct):
            value = _figure(value, name, path=path)
        else:
            return None
    return value


def _figure(noun: msgspec.Struct, name: str, *, path: str) -> Any:
    """A field of a noun, or a figure derived from its fields."""
    kind = type(noun)
    derived = [own for own in dir(kind) if isinstance(getattr(kind, own), property)]
    known = [*kind.__struct_fields__, *derived]
    if name not in known:
        raise UnknownName(f"figure in take, '{echo(path)}'", name, known=known)
    return getattr(noun, name)
