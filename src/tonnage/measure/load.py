"""
How is load applied? One stage: requests at a rate (open loop), or so many at once (closed loop).

An open loop sends when the schedule says, whatever the server does, and its latencies count from the scheduled time: a
client or server that falls behind cannot hide it (coordinated omission). A closed loop sends when an answer is
complete. Both stop by themselves when the server fails or cannot follow. The client watches itself: how late it sends,
and how late a heartbeat of 10 ms runs, which is how late it would notice a token.

Prompts are random words, different in every request of every load of every run (each start draws a salt), as many as
make the wanted tokens. No tokenizer: the server's own count of two prompts says how many tokens a word is, and how many
the chat template adds. Prompts differ from their first word on, so that no prefix cache answers for the engine.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from tonnage.domain.measurement import Load
from tonnage.errors import BadRequest, TonnageError
from tonnage.measure.client import Connection, Reply, ask, request_bytes
from tonnage.measure.records import Outcome, Spec, append
from tonnage.record import Record

MAX_IN_FLIGHT: Final = 4096
"""Requests that an open loop may have unanswered before it counts as over-saturated."""
MAX_FAILURES: Final = 20
"""Failures in a row that stop a stage."""
LOST_SERVER_AFTER: Final = 3
LOST_SERVER: Final = frozenset({"refused", "reset", "cut", "unreachable"})
"""A stage whose last requests all fail like this has lost its server, not reached its limit."""
FAILING_SHARE: Final = 0.5
"""Share of failures that stops a stage, once there are enough to tell."""
MIN_OUTCOMES: Final = 60
GRACE_S: Final = 2.0
"""Time for answers under way when a stage is stopped."""
HEARTBEAT_S: Final = 0.010
STAGGER_S: Final = 0.001
"""Between the first requests of two places of a closed loop: a thousand that start as one stay a burst to the end."""
PREPARED_BYTES: Final = 32 * 1024 * 1024
PREPARED_REQUESTS: Final = 20_000
"""Requests that are written out before a stage starts: writing one takes a tenth of a millisecond."""


class Stage(Record, kw_only=True):
    """One stage of one start of the client: what to send, through which connection, into which file."""

    connection: Connection
    spec: Spec
    load: Load
    stage: int
    """Place of this load in the run, from 0."""
    segment: int
    """Place of this start of the client in the run, from 0."""
    words: int
    """Of a prompt."""
    salt: str
    """Of this start of the client: no earlier one has sent its prompts."""
    file: int
    done: frozenset[int] = frozenset()
    """Requests an earlier start has measured."""
    spent_s: float = 0.0
    """Time an earlier start has used of the duration."""
    until_s: float = math.inf
    """When the run ends whatever is under way, by `time.perf_counter`. [s]"""


class Stop(Record, kw_only=True):
    """How a stage ended."""

    reason: str | None
    """Why it ended before its bounds; None = it did not."""
    fatal: bool
    """The server fails: another stage would too."""
    lag_s: float | None
    """How late the client's heartbeat ran, p99; None = no request that counts was sent. [s]"""


class _Tally(msgspec.Struct, kw_only=True):
    """What a running stage counts."""

    start_s: float
    sent: int = 0
    counting: bool = False
    """A request that counts has been sent."""
    completed: int = 0
    failed: int = 0
    streak: int = 0
    """Failures since the last answer."""
    last: str | None = None
    """Kind of the last failure."""
    reason: str | None = None
    fatal: bool = False
    error: TonnageError | None = None
    over_time: bool = False
    """The run has ended."""

    @property
    def over(self) -> bool:
        return self.reason is not None or self.error is not None or self.over_time


def gaps(load: Load, seed: int) -> Iterator[float]:
    """Seconds between arrivals: constant, exponential (Poisson), or gamma with the shape `burstiness`."""
    rate = load.rate_per_s or 0.0
    draw = random.Random(f"arrivals/{seed}")
    while True:
        if load.arrivals == "constant":
            yield 1.0 / rate
        elif load.arrivals == "gamma":
            yield draw.gammavariate(load.burstiness, 1.0 / (rate * load.burstiness))
        else:
            yield draw.expovariate(rate)


async def run_stage(
    stage: Stage, progress: Any = None, *, share: tuple[int, int] = (0, 1), begin: Callable[[], float] | None = None
) -> Stop:
    """
    Apply the load; every outcome is in the file when this returns.

    Parameters
    ----------
    stage : Stage
        What to send, and where results go.
    progress : callable, optional
        Called with each outcome.
    share : tuple of int
        (k, n): of an open loop's arrivals every n-th is sent here, from the k-th; others send the rest.
    begin : callable, optional
        Called once requests are prepared; returns when the first arrival is counted from, by `time.perf_counter`. [s]
    """
    left = [i for i in range(stage.load.warmup + stage.load.requests) if i not in stage.done]
    made = _prepare_requests(stage, left[share[0] :: share[1]])
    tally = _Tally(start_s=begin() if begin is not None else time.perf_counter())
    lags: list[float] = []
    gc.disable()  # a collection takes milliseconds, and would stand in every latency; answers hold no cycles
    heart = asyncio.create_task(_beat(lags, tally))
    try:
        if stage.load.concurrency is not None:
            await _run_closed_loop(stage, left, made=made, tally=tally, progress=progress)
        else:
            await _open(stage, left, share=share, made=made, tally=tally, progress=progress)
        if not tally.over and tally.streak >= LOST_SERVER_AFTER and tally.last in LOST_SERVER:
            tally.reason = f"the server is gone: the last {tally.streak} requests failed (last: {tally.last})"
            tally.fatal = True
    finally:
        heart.cancel()
        gc.enable()
    if tally.error is not None:
        raise tally.error
    lags.sort()
    lag = lags[min(len(lags) - 1, int(0.99 * len(lags)))] if lags else None
    return Stop(reason=tally.reason, fatal=tally.fatal, lag_s=lag)


async def _beat(lags: list[float], tally: _Tally) -> None:
    """Notes how late it runs once a request that counts is under way: warm-up opens the connections, and counts not."""
    while True:
        due = time.perf_counter() + HEARTBEAT_S
        await asyncio.sleep(HEARTBEAT_S)
        if tally.counting:
            lags.append(max(0.0, time.perf_counter() - due))


def _prepare_requests(stage: Stage, left: list[int]) -> dict[int, bytes]:
    """Requests written out before the clock starts, as many as a bound of memory allows."""
    made: dict[int, bytes] = {}
    size = 0
    for index in left:
        if size > PREPARED_BYTES or len(made) >= PREPARED_REQUESTS:
            break
        made[index] = _bytes(stage, index)
        size += len(made[index])
    return made


async def _open(
    stage: Stage, left: list[int], *, share: tuple[int, int], made: dict[int, bytes], tally: _Tally, progress: Any
) -> None:
    """The open loop: requests are sent when they are due, whatever is unanswered; too many unanswered end it."""
    tasks: set[asyncio.Task[None]] = set()
    due = 0.0
    arrivals = zip(left, gaps(stage.load, stage.spec.seed + stage.segment), strict=False)
    for place, (index, gap) in enumerate(arrivals):
        due += gap
        if place % share[1] != share[0]:
            continue
        data = made.pop(index, None) or _bytes(stage, index)
        if due + stage.spent_s > stage.load.duration_s:
            break
        wait = tally.start_s + due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        if len(tasks) >= MAX_IN_FLIGHT:
            tally.reason = f"over-saturated: {len(tasks)} requests are unanswered"
        if tally.over:
            break
        if wait <= 0 and tally.sent % 64 == 0:
            await asyncio.sleep(0)  # behind schedule: still let answers in
        task = asyncio.create_task(_send_one(stage, index, data=data, intended_s=due, tally=tally, progress=progress))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await _drain(tasks, tally)


async def _run_closed_loop(
    stage: Stage, left: list[int], *, made: dict[int, bytes], tally: _Tally, progress: Any
) -> None:
    """The closed loop: each of so many places sends its next request when its last one has ended."""
    queue = iter(left)

    async def worker(place: int) -> None:
        await asyncio.sleep(place * STAGGER_S)
        for index in queue:
            data = made.pop(index, None) or _bytes(stage, index)
            now = time.perf_counter() - tally.start_s
            if tally.over or now + stage.spent_s > stage.load.duration_s:
                return
            await _send_one(stage, index, data=data, intended_s=now, tally=tally, progress=progress)

    await _drain({asyncio.create_task(worker(place)) for place in range(stage.load.concurrency or 1)}, tally)


async def _drain(tasks: set[asyncio.Task[None]], tally: _Tally) -> None:
    """Wait for what is under way: as long as its own limits allow, or a grace once the stage is stopped."""
    until: float | None = None
    while tasks:
        if tally.over and until is None:
            until = time.perf_counter() + GRACE_S
        done, pending = await asyncio.wait(set(tasks), timeout=0.25, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        tasks.difference_update(done)
        if until is not None and time.perf_counter() > until:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            return


def faster_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: half the time between bytes that arrive and the clock that is read."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _bytes(stage: Stage, index: int) -> bytes:
    spec, shared = stage.spec, round(stage.spec.shared * stage.words)
    text = prompt(salt=f"{stage.salt}/{stage.stage}", index=index, words=stage.words - shared)
    if shared:
        text = f"{prompt(salt=stage.salt, index=SHARED, words=shared)} {text}"
    return request_bytes(stage.connection, prompt=text, output_tokens=spec.output_tokens, ignore_eos=spec.ignore_eos)


async def _send_one(stage: Stage, index: int, *, data: bytes, intended_s: float, tally: _Tally, progress: Any) -> None:
    """One request, from sending to its counted line in the file; a file that cannot be written ends the stage."""
    tally.sent += 1
    tally.counting = tally.counting or index >= stage.load.warmup
    left_s = stage.until_s - time.perf_counter()
    reply = await ask(stage.connection, data, timeout_s=max(0.0, min(stage.spec.timeout_s, left_s)))
    if reply.failure == "timeout" and left_s < stage.spec.timeout_s:
        tally.over_time = True  # cut off by the end of the run, which is no failure of the server
        return
    outcome = outcome_of(reply, stage, index=index, intended_s=intended_s, start_s=tally.start_s)
    try:
        append(stage.file, outcome)
    except TonnageError as error:
        tally.error = error
        return
    _count(outcome, tally)
    if progress is not None:
        progress(outcome)


def _count(outcome: Outcome, tally: _Tally) -> None:
    """Counts an outcome; failures in a row, or too large a share of failures, end the stage and the run."""
    if outcome.failure is None:
        tally.completed += 1
        tally.streak = 0
        return
    tally.failed += 1
    tally.streak += 1
    tally.last = outcome.failure
    ended = tally.failed + tally.completed
    why = f"(last: {outcome.failure}: {outcome.detail})"
    if tally.streak >= MAX_FAILURES:
        tally.reason, tally.fatal = f"{tally.streak} requests in a row failed {why}", True
    elif ended >= MIN_OUTCOMES and tally.failed > FAILING_SHARE * ended:
        tally.reason, tally.fatal = f"{tally.failed} of {ended} requests failed {why}", True


def outcome_of(reply: Reply, stage: Stage, *, index: int, intended_s: float, start_s: float) -> Outcome:
    """A reply as a line of results, its times since the start of the segment."""
    tokens, miscounted = _tokens(reply, stage.spec.output_tokens)

    def since(moment: float | None) -> float | None:
        return None if moment is None else round(moment - start_s, 7)

    ok = reply.failure is None
    return Outcome(
        segment=stage.segment,
        stage=stage.stage,
        index=index,
        warmup=index < stage.load.warmup,
        intended_s=round(intended_s, 7),
        sent_s=round(reply.sent_s - start_s, 7),
        first_s=since(reply.first_s),
        last_s=since(reply.last_s),
        end_s=round(time.perf_counter() - start_s, 7),
        gap_s=tuple(round(later - earlier, 7) for earlier, later in itertools.pairwise(reply.token_s)),
        prompt_tokens=reply.prompt_tokens if _is_count(reply.prompt_tokens) else None,
        cached_tokens=_cached(reply),
        answered_as="" if is_same_model(reply.model, stage.spec.model) else (reply.model or ""),
        output_tokens=tokens if ok else None,
        miscounted=miscounted if ok else None,
        resent=reply.resent,
        failure=reply.failure,
        detail=reply.detail,
        server_prompt_s=reply.prompt_s,
        server_predicted_s=reply.predicted_s,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _cached(reply: Reply) -> int | None:
    """Prompt tokens from the server's cache; nothing where the count cannot be."""
    said, whole = reply.cached_tokens, reply.prompt_tokens
    return said if said == 0 or (_is_count(said) and _is_count(whole) and said <= whole) else None


def _tokens(reply: Reply, wanted: int) -> tuple[int, str | None]:
    """Tokens of the answer, and what is wrong with the server's count where events with text are counted instead."""
    seen, said = len(reply.token_s), reply.output_tokens
    if said is None:
        return seen, "absent"
    if not _is_count(said):
        return seen, "not a count"
    if said < seen:
        return seen, "fewer tokens than events with text"
    if said > max(wanted, seen):
        return seen, "more tokens than asked for"
    return said, None


_TEXT: Final = """
    air all and ask bad bag bar bed big box boy bus but buy can car cat cow cup cut day dog door down dry ear eat
    egg end eye far fat few fire fish fly food foot for fun game get girl give go good hand hard hat head help her hill
    his home horse hot house how ice job jump key king land last law leg let lie life light line lip list long look lot
    love low make man map may meat men milk mind moon more move name near net new night nine nose not now oil old one
    open out own page part pay pen pig plan play pot put rain read red rest rice ring road rock room rose run sad salt
    same sea see set she ship shop show sing sit six sky sleep slow small snow soap son song star stone sun table tail
    tall tea ten time tip top town toy tree try two walk wall war warm wash way west wet white why wife win wind wine
    wood word work year yes you"""
WORDS: Final = tuple(_TEXT.split())
PROBE_TOKENS: Final = 2
FIRST_PROBE: Final = -1
SHARED: Final = -10
"""Index of the words that all prompts of a run begin with."""


def is_same_model(said: str | None, asked: str) -> bool:
    """
    Whether an answer's name for its model is the one that was asked, with a date, a path or a file's end around it.

    Examples
    --------
    >>> is_same_model("gpt-4-0613", "gpt-4"), is_same_model("/models/Qwen3-8B.gguf", "qwen3-8b")
    (True, True)
    >>> is_same_model("llama3.1:8b", "llama3.2:1b")
    False
    """
    if not said:
        return True
    names = said.lower(), asked.lower()
    return any(re.search(rf"(?<![a-z0-9]){re.escape(a)}(?![a-z0-9])", b) for a, b in (names, names[::-1]))


def prompt(*, salt: str, index: int, words: int) -> str:
    """The words of one request; the same salt and index give the same."""
    return " ".join(random.Random(f"{salt}/{index}").choices(WORDS, k=words))


async def words_for(connection: Connection, spec: Spec, *, salt: str, until_s: float = math.inf) -> int:
    """
    Words that make up the wanted prompt, by the server's own count of two probes.

    A server that does not count gets three words for four tokens, as English has. `salt` is the run's: probes have
    indexes that no request of it has.

    Raises
    ------
    BadRequest
        The server cannot be reached or refuses the request: nothing can be measured.
    """
    short, long = max(1, spec.prompt_tokens // 4), max(2, (spec.prompt_tokens * 3) // 4)
    counts = []
    for number, words in enumerate((short, long)):
        text = prompt(salt=salt, index=FIRST_PROBE - number, words=words)
        data = request_bytes(
            connection, prompt=text, output_tokens=min(PROBE_TOKENS, spec.output_tokens), ignore_eos=spec.ignore_eos
        )
        left_s = max(0.0, min(spec.timeout_s, until_s - time.perf_counter()))
        reply = await ask(connection, data, timeout_s=left_s)
        if reply.failure is not None and reply.failure != "empty":
            raise BadRequest(_why(reply, connection, spec))
        counts.append(reply.prompt_tokens)
    few, many = counts
    if not isinstance(few, int) or not isinstance(many, int) or not many > few > 0:
        return max(1, spec.prompt_tokens * 3 // 4)
    per_word = (many - few) / (long - short)
    return max(1, round((spec.prompt_tokens - (few - per_word * short)) / per_word))


def _why(reply: Reply, connection: Connection, spec: Spec) -> str:
    """The first request failed: one sentence with what to do."""
    where = connection.target.url
    status = reply.status or 0
    if reply.failure == "refused":
        return f"{where}: connection refused; is the server running, and is the port right?"
    if status in {401, 403}:
        return f"{where}: the server wants another key ({reply.failure}: {reply.detail}); see --key-env"
    if status == 404:
        return f"{where}: no such path or model '{spec.model}' (http 404: {reply.detail}); see --endpoint and --model"
    if status in {400, 422} and spec.ignore_eos:
        return (
            f"{where}: the server refuses the request ({reply.failure}: {reply.detail}); "
            "one that knows only OpenAI's own fields needs --no-ignore-eos"
        )
    if status in {429, 503}:
        return f"{where}: the server turns requests away ({reply.failure}: {reply.detail}); wait until it has room"
    return f"{where}: the first request failed ({reply.failure}: {reply.detail})"
