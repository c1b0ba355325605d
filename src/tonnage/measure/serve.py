"""
The whole run: open the file, size the prompt, apply one load or a sweep, and sum up.

What is next follows from the file alone, so that a run that was killed goes on where it was: stages
that ended are kept, the one under way sends the requests it lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tonnage.domain.diagnosis import Reading
from tonnage.domain.measurement import Load, Measurement
from tonnage.errors import BadRequest, echo
from tonnage.measure.beside import EVERY_S, cards_held, listening, moment, taken
from tonnage.measure.client import Connection, Target, close, key_of, open_connection, target_of
from tonnage.measure.clients import Clients
from tonnage.measure.knee import next_level
from tonnage.measure.load import Stage, faster_loop, words_for
from tonnage.measure.records import (
    Header,
    Log,
    Outcome,
    Scrape,
    Segment,
    Spec,
    StageEnd,
    append,
    check_bounds,
    create,
    read_log,
    reopen,
    sync,
)
from tonnage.measure.scrape import pages_of, state_of, watch
from tonnage.measure.served import refuse_unserved, served_at
from tonnage.measure.summary import measurement_of, point_of
from tonnage.record import Record
from tonnage.version import __version__

MAX_REQUESTS = 1_000_000
MAX_DURATION_S = 24 * 3600.0
MAX_CONCURRENCY = 4096
Following = tuple[int, Load, frozenset[int], float]
"""The stage to run: its number, its load, the requests that it has, the time that it has spent."""
Pages = tuple[tuple[Target, bool], ...]
"""Metrics pages, and whether the user named each."""
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
REQUESTS_EACH = 4
"""Requests that each place of a closed loop sends at least, in a sweep."""


class Progress(Record, kw_only=True):
    """Whom to tell: of a stage that begins, of a request that ended, of a stage that ended."""

    begin: Callable[[Load], None]
    step: Callable[[Outcome], None]
    end: Callable[[Load, StageEnd], None]


def check(spec: Spec) -> None:
    """Refuse what cannot be measured, before anything is sent."""
    load = spec.load
    check_bounds(
        ("--requests", load.requests, 1, MAX_REQUESTS),
        ("--duration", load.duration_s, 0.1, MAX_DURATION_S),
        ("prompt tokens", spec.prompt_tokens, 1, 10_000_000),
        ("output tokens", spec.output_tokens, 1, 1_000_000),
        ("--timeout", spec.timeout_s, 0.1, 24 * 3600.0),
        ("--concurrency", load.concurrency if load.concurrency is not None else 1, 1, MAX_CONCURRENCY),
        ("--rate", load.rate_per_s if load.rate_per_s is not None else 1.0, 1e-4, 1e5),
        ("--burstiness", load.burstiness, 1e-3, 1e3),
        ("--warmup", load.warmup, 0, MAX_REQUESTS),
    )


def measure_serve(
    spec: Spec,
    output: Path,
    *,
    resume: bool = False,
    key_env: str | None = None,
    progress: Progress | None = None,
    metrics: Sequence[str] = (),
    until_s: float = math.inf,
) -> Measurement:
    """
    Measure an endpoint and return what the file then says.

    Parameters
    ----------
    spec : Spec
        What to ask and how.
    output : Path
        File of results: new, or with `resume` the one to go on with.
    resume : bool
        Go on with a run that was interrupted; its first line must say the same as `spec`.
    key_env : str, optional
        Environment variable that holds the API key.
    progress : Progress, optional
        Whom to tell.
    metrics : sequence of str
        Metrics pages to read beside the requests, besides the server's own.
    until_s : float
        When it ends whatever is under way, by `time.perf_counter`. [s]
    """
    check(spec)
    target = target_of(spec.url, model=spec.model, kind=spec.kind)
    connection = open_connection(target, key=key_of(key_env))
    log = _resumable(spec, output) if resume else None
    clients = Clients(spec, output)
    _raise_file_limit()
    pages = pages_of(target, metrics)
    with asyncio.Runner(loop_factory=faster_loop()) as runner:
        runner.run(
            _run(spec, clients, output, connection=connection, log=log, progress=progress, pages=pages, until_s=until_s)
        )
    return measurement_of(read_log(output))


def _resumable(spec: Spec, output: Path) -> Log:
    """The log of a run to go on with; refused where it is absent or was measured with anything else."""
    if not output.exists():
        raise BadRequest(f"--resume: there is no file '{echo(output)}' to go on with")
    log = read_log(output)
    theirs = log.header.spec
    for field in spec.__struct_fields__:
        if getattr(theirs, field) != getattr(spec, field):
            said, wanted = echo(_text(getattr(theirs, field))), echo(_text(getattr(spec, field)))
            raise BadRequest(f"--resume: '{echo(output)}' was measured with {field} {said}, not {wanted}")
    return log


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def _run(
    spec: Spec,
    clients: Clients,
    output: Path,
    *,
    connection: Connection,
    log: Log | None,
    progress: Progress | None,
    pages: Pages,
    until_s: float,
) -> None:
    """Stage after stage, until the file asks for no more; the pages that the user named must answer first."""
    for page, named in pages:
        if named:
            await _require_page(page)
    salt = secrets.token_hex(8)
    refuse_unserved(await served_at(connection), connection.target)
    words = await words_for(connection, spec, salt=salt, until_s=until_s)
    if log is not None and log.segments:
        words = log.segments[0].words
    header = Header(spec=spec, version=__version__, date=_now())
    file = create(output, header) if log is None else reopen(output, log)
    again = _find_interrupted(log) if log is not None else None
    try:
        segment = 1 + max((one.segment for one in log.segments), default=-1) if log is not None else 0
        while (following := again or _next(read_log(output))) is not None:
            again = None
            number, load, done, spent_s = following
            append(file, Segment(segment=segment, stage=number, load=load, words=words, date=_now(), salt=salt))
            stage = Stage(
                connection=connection,
                spec=spec,
                load=load,
                stage=number,
                segment=segment,
                words=words,
                salt=salt,
                file=file,
                done=done,
                spent_s=spent_s,
                until_s=until_s,
            )
            await _stage(stage, clients, progress, pages)
            segment += 1
    finally:
        os.close(file)
        close(connection)


async def _require_page(page: Target) -> None:
    """Wait until the page that the user named was read once; refused where it cannot be, before anything is sent."""
    seen = asyncio.Event()

    def keep(reading: Reading) -> None:
        seen.set()

    watching = asyncio.create_task(watch(page, keep, named=True))
    waiter = asyncio.create_task(seen.wait())
    done, _ = await asyncio.wait({watching, waiter}, return_when=asyncio.FIRST_COMPLETED)
    for task in (watching, waiter):
        task.cancel()
    if watching in done:
        watching.result()


async def _stage(stage: Stage, clients: Clients, progress: Progress | None, pages: Pages) -> None:
    """One stage with its metrics pages beside it; its end is the last line that it writes."""
    if progress is not None:
        progress.begin(stage.load)
    readings: list[Reading] = []

    def keeper(page: Target) -> Callable[[Reading], None]:
        def keep(reading: Reading) -> None:
            append(stage.file, Scrape(segment=stage.segment, page=page.url, reading=reading))
            if reading.engine:
                readings.append(reading)

        return keep

    target = stage.connection.target
    pids = listening(target.port) if target.host in LOOPBACK else ()
    watchers = [asyncio.create_task(watch(page, keeper(page))) for page, _ in pages]
    cards: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    if pids:
        watchers.append(asyncio.create_task(_watch_cards(pids, cards.append)))
    before = moment(pids) if pids else None
    try:
        stop = await clients.run(stage, progress.step if progress is not None else None)
        behind = moment(pids) if pids else None
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
    end = StageEnd(
        stage=stage.stage,
        segment=stage.segment,
        stopped=stop.reason,
        fatal=stop.fatal,
        lag_s=stop.lag_s,
        server=state_of(readings),
        wrong=tuple(dict.fromkeys((*taken(before, behind), *(why for wrong, _ in cards for why in wrong)))),
        told=tuple(dict.fromkeys(what for _, told in cards for what in told)),
    )
    append(stage.file, end)
    sync(stage.file)
    if progress is not None:
        progress.end(stage.load, end)


async def _watch_cards(pids: Sequence[int], keep: Callable[[Any], None]) -> None:
    """What holds the cards of a server on this machine back, every few seconds until cancelled."""
    while True:
        await asyncio.sleep(EVERY_S)
        keep(await asyncio.to_thread(cards_held, pids))


def _next(log: Log) -> Following | None:
    """The stage to run: the one that was interrupted, or the one that the finished ones ask for."""
    spec = log.header.spec
    loads = {segment.stage: segment.load for segment in log.segments}
    open_stage = next((stage for stage in sorted(loads) if log.end_of(stage) is None), None)
    if open_stage is not None:
        outcomes = log.of_stage(open_stage)
        spent = [max(o.end_s for o in outcomes if o.segment == part) for part in {o.segment for o in outcomes}]
        return open_stage, loads[open_stage], frozenset(o.index for o in outcomes), sum(spent)
    if any(end is not None and end.fatal for end in map(log.end_of, loads)):
        return None
    if spec.sweep is None:
        return None if loads else (0, spec.load, frozenset(), 0.0)
    points = [
        replace(
            point_of(load, log.of_stage(stage), slo=spec.slo),
            stopped=end.stopped if (end := log.end_of(stage)) is not None else None,
        )
        for stage, load in loads.items()
    ]
    level = next_level(points, by=spec.sweep, slo=spec.slo, first=spec.load.level, most=spec.most or spec.load.level)
    return None if level is None else (len(loads), _at(spec.load, level), frozenset(), 0.0)


def _find_interrupted(log: Log) -> Following | None:
    """The stage that the server itself ended, to go on with: what failed is asked again."""
    loads = {segment.stage: segment.load for segment in log.segments}
    ended = next((stage for stage in sorted(loads) if (end := log.end_of(stage)) is not None and end.fatal), None)
    if ended is None:
        return None
    good = frozenset(o.index for o in log.of_stage(ended) if o.failure is None)
    return ended, loads[ended], good, 0.0


def _at(load: Load, level: float) -> Load:
    """The load of a sweep at a level, with enough requests to tell."""
    if load.rate_per_s is not None:
        return replace(load, rate_per_s=level)
    places = int(level)
    warmup = max(load.warmup, places) if load.warmup else 0
    return replace(load, concurrency=places, requests=max(load.requests, REQUESTS_EACH * places), warmup=warmup)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _raise_file_limit() -> None:
    """A connection is an open file: allow as many as the system lets us."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
