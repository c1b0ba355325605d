"""What do the recorded requests amount to? From a file of results to a `Measurement`.

Warm-up is left out. Latencies count from the intended time of sending; rates over the time from the
first request to the last token, summed over the segments of a stage that was interrupted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import asdict, replace

from tonnage.domain.measurement import (
    MAX_CACHED_SHARE,
    MEASUREMENT_SCHEMA,
    UNUSABLE,
    Latency,
    Load,
    Measurement,
    Point,
)
from tonnage.domain.requests.common import Slo
from tonnage.measure.beside import marked
from tonnage.measure.knee import knee_of
from tonnage.measure.records import Log, Outcome
from tonnage.simulation.metrics import e2e_s, goodput_per_s, stated, summary, tpot_s, ttft_s
from tonnage.units import percent

SLOW_CLIENT_S = 0.005
MAX_LATE_SHARE = 0.05
"""Of the median time to first token, that the client's own lateness may be."""
MIN_LATE_S = 0.001
"""Below which a clock and a scheduler cannot tell."""
MIN_REQUESTS = 30


def stated_values(found: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of some values, by name."""
    return {name: value for name, value in found.items() if value is not None}


def ratio(total: float | None, count: float | None) -> float | None:
    """A total over what it is of; absent where one is not known or nothing is counted."""
    return total / count if total is not None and count else None


def latency(values: Sequence[float]) -> Latency | None:
    """Mean and percentiles; absent without values."""
    found = summary(values) if len(values) else None
    return None if found is None else Latency(**asdict(found))


def stated_latency(
    said: Mapping[str, Any], names: Mapping[str, str], *, at: str = "{}", unit: float = 1.0, count: int | None = None
) -> Latency | None:
    """
    The statistics that a report states; one that it lacks is absent, and the latency where it has none.

    Parameters
    ----------
    said : mapping
        The report.
    names : mapping
        Our statistic -> the report's word for it.
    at : str
        The report's field, with that word in place of {}.
    unit : float
        How many of its units are a second. [1/s]
    count : int, optional
        Requests or gaps.
    """
    found = stated_values({ours: said.get(at.format(theirs)) for ours, theirs in names.items()})
    known = {ours: float(value) / unit for ours, value in found.items()}
    return Latency(count=count, **known) if known else None


def times_of(answers: Iterable[tuple[float, float | None, float | None, float]]) -> dict[str, list[float]]:
    """TTFT, TPOT (NaN of one token) and E2E of answers: sent, first and last token [s], output tokens."""
    rows = list(answers)
    return {
        "ttft_s": [ttft_s(sent_s=sent, first_s=first) for sent, first, _, _ in rows],
        "tpot_s": [tpot_s(first_s=first, last_s=last, output_tokens=tokens) for _, first, last, tokens in rows],
        "e2e_s": [e2e_s(sent_s=sent, last_s=last) for sent, _, last, _ in rows],
    }


def with_latencies(point: Point, times: Mapping[str, Sequence[float]]) -> Point:
    """The point with a latency of each list of times, what is not a number left out."""
    found = {name: latency([value for value in values if not math.isnan(value)]) for name, values in times.items()}
    return replace(point, **found)


def point_of(load: Load, outcomes: Iterable[Outcome], *, slo: Slo, lag_s: float | None = None) -> Point:
    """
    One stage in the words of `tonnage.simulation.metrics`; `lag_s` is how late the client's heartbeat ran.

    What failed counts as failed alone. Rates are absent where no time passed, tokens of prompts and answers together
    where the server did not count every prompt.
    """
    counted = [outcome for outcome in outcomes if not outcome.warmup]
    good = [outcome for outcome in counted if outcome.failure is None and outcome.first_s is not None]
    span = sum(_span_s(counted, segment) for segment in {outcome.segment for outcome in counted})
    times = times_of((o.intended_s, o.first_s, o.last_s, o.output_tokens or 1) for o in good)
    written = sum(o.output_tokens or 0 for o in good)
    read = [o.prompt_tokens for o in good if o.prompt_tokens is not None]
    late = latency([o.sent_s - o.intended_s for o in counted])
    delays = [value for value in (late.p99 if late else None, lag_s) if value is not None]
    lengths = [o.output_tokens for o in good if o.output_tokens is not None]
    point = Point(
        rate_per_s=load.rate_per_s,
        concurrency=load.concurrency,
        requests=len(counted),
        completed=len(good),
        failures=dict(Counter(o.failure for o in counted if o.failure is not None)),
        duration_s=span or None,
        arrivals_s=sum(_arrivals_s(counted, segment) for segment in {o.segment for o in counted}) or None,
        prompt_tokens=ratio(sum(read), len(read)),
        output_tokens=ratio(written, len(good)),
        output_least=min(lengths, default=None),
        output_most=max(lengths, default=None),
        requests_per_s=ratio(len(good), span),
        output_tokens_per_s=ratio(written, span),
        total_tokens_per_s=ratio(written + sum(read), span) if len(read) == len(good) > 0 else None,
        goodput_per_s=goodput_per_s(times, slo, span_s=span) if stated(slo) and span > 0 else None,
        client_delay_s=max(delays, default=None),
        cached_share=_cached_share(good),
    )
    return with_latencies(point, {**times, "itl_s": [gap for o in good for gap in o.gap_s]})


def _cached_share(good: Sequence[Outcome]) -> float | None:
    """Of the prompt tokens, those from the server's cache; a server that says it of some (vLLM) had none of others."""
    if all(o.cached_tokens is None for o in good):
        return None
    return sum(o.cached_tokens or 0 for o in good) / max(1, sum(o.prompt_tokens or 0 for o in good))


def _span_s(outcomes: Sequence[Outcome], segment: int) -> float:
    own = [outcome for outcome in outcomes if outcome.segment == segment]
    return max(outcome.last_s or outcome.end_s for outcome in own) - min(outcome.intended_s for outcome in own)


def _arrivals_s(outcomes: Sequence[Outcome], segment: int) -> float:
    intended = [outcome.intended_s for outcome in outcomes if outcome.segment == segment]
    return max(intended) - min(intended)


def measurement_of(log: Log) -> Measurement:
    """The whole file: a point for each stage, the knee of a sweep, and what to know about it."""
    spec = log.header.spec
    loads = {segment.stage: segment.load for segment in log.segments}
    points = []
    for stage, load in sorted(loads.items()):
        end = log.end_of(stage)
        point = point_of(load, log.of_stage(stage), slo=spec.slo, lag_s=end.lag_s if end else None)
        stopped = end.stopped if end is not None else "interrupted; --resume goes on with it"
        server = end.server if end else None
        cached = point.cached_share if point.cached_share is not None or server is None else server.cached_share
        points.append(replace(point, stopped=stopped, server=server, cached_share=cached))
    ends = [end for stage in sorted(loads) if (end := log.end_of(stage)) is not None]
    fatal = next((end.stopped for end in ends if end.fatal), None)
    return Measurement(
        schema=MEASUREMENT_SCHEMA,
        tool="tonnage",
        tool_version=log.header.version,
        model=spec.model,
        url=spec.url,
        date=log.header.date,
        slo=spec.slo,
        points=tuple(points),
        knee=knee_of(points, by=spec.sweep, slo=spec.slo) if spec.sweep else None,
        stopped=fatal,
        notes=tuple(_notes(log, points)),
    )


def is_late(point: Point) -> bool:
    """Whether the client was later than a measurement may hide, by what it measured and by what a clock can tell."""
    return (point.client_delay_s or 0.0) > MIN_LATE_S and _late_share(point) > MAX_LATE_SHARE


def _late_share(point: Point) -> float:
    """The client's lateness at p99 over the median time to first token."""
    median = None if point.ttft_s is None else point.ttft_s.p50
    return 0.0 if not median or point.client_delay_s is None else point.client_delay_s / median


def cached_notes(points: Sequence[Point], *, shared: float = 0.0) -> Iterable[str]:
    """What a prefix cache has done for the loads, by the server's own count; `shared` is what was to be in it."""
    known = [(point.cached_share, point.level) for point in points if point.cached_share is not None]
    if not known:
        return
    share, level = max(known)
    if shared:
        yield (
            f"A warm cache, as asked: prompts share {percent(shared)}, and {percent(share)} of the prompt tokens at "
            f"load "
            f"{level:g} came from the server's prefix cache."
        )
    elif share > MAX_CACHED_SHARE:
        yield (
            f"{UNUSABLE}: {percent(share)} of the prompt tokens at load {level:g} came from the server's prefix "
            f"cache, over "
            f"the {percent(MAX_CACHED_SHARE)} that a chat template may be: their work was not done; give longer "
            f"prompts, or "
            "start the server without its prefix cache."
        )
    else:
        yield f"By the server's own count its prefix cache held {percent(share, 1)} of the prompt tokens at most."


def _other_notes(log: Log) -> Iterable[str]:
    """Another model behind the address, other load, and answers that grow slower or faster while nothing changes."""
    spec = log.header.spec
    other = Counter(o.answered_as for o in log.outcomes if o.answered_as)
    for name, count in other.most_common(1):
        yield f"{UNUSABLE}: {count} answers are of the model '{name}', not of '{spec.model}'; name what is served."
    stages = sorted({segment.stage for segment in log.segments})
    ends = [end for stage in stages if (end := log.end_of(stage)) is not None]
    loads = {segment.stage: segment.load for segment in log.segments}
    wrong = [why for end in ends for why in end.wrong]
    for stage in stages:
        load, end = loads[stage], log.end_of(stage)
        running = end.server.running if end is not None and end.server is not None else None
        if load.concurrency is not None and running is not None and running > load.concurrency + 0.5:
            wrong.append(f"the server ran {running:g} requests at once, and {load.concurrency} are of this run")
        wrong += _drifted(_paces(log.of_stage(stage), load), load)
    yield from marked(wrong, (what for end in ends for what in end.told), busy=spec.busy)


DRIFT: Final = 1.2
"""Of times per token, from the first to the last part of a load under which nothing changes. [-]"""
SURE: Final = 3.3
"""Standard deviations of ranks from which on a drift is no chance: once in a thousand loads. [-]"""


def drift_of(each: Sequence[float]) -> float | None:
    """
    Times of the last third of a load over those of its first; None where they may be equal: by ranks (Mann and
    Whitney), or of few in each half, of which all later ones must lie beyond all earlier ones.
    """
    part = max(len(each) // 3, min(6, len(each) // 2))
    early, late = sorted(each[:part]), sorted(each[-part:])
    if len(each) < 8 or early[0] <= 0.0:
        return None
    change = late[len(late) // 2] / early[len(early) // 2]
    above = sum((b > a) + 0.5 * (b == a) for a in early for b in late) - part * part / 2
    needed = SURE * (part * part * (2 * part + 1) / 12.0) ** 0.5 if part > 6 else part * part / 2
    return change if abs(above) >= needed and not 1.0 / DRIFT < change < DRIFT else None


def _drifted(each: Sequence[float], load: Load) -> Iterable[str]:
    """That a load grew slower or faster by the times that it took, a sentence's end; nothing where it did not."""
    if (drift := drift_of(each)) is not None:
        change = f"{percent(abs(drift - 1.0))} {'slower' if drift > 1 else 'faster'}"
        yield f"answers at load {load.level:g} grew {change} towards its end: heat, a limit or other load"


def drifts_between(logs: Sequence[Log]) -> Iterable[str]:
    """The same of one load that was measured several times, as notes."""
    spec = logs[0].header.spec
    each = [pace for log in logs for pace in _paces(log.outcomes, spec.load)]
    return marked(_drifted(each, spec.load), (), busy=spec.busy)


def _paces(outcomes: Iterable[Outcome], load: Load) -> list[float]:
    """Times per token as answers came: of a closed loop's rounds from sending on, of others' answers without waits."""
    if load.concurrency is not None:
        return [_round_s(one) for one in _rounds(outcomes, load.concurrency)]
    return [tpot_s(first_s=o.first_s, last_s=o.last_s, output_tokens=o.output_tokens) for (o,) in _rounds(outcomes, 1)]


def _rounds(outcomes: Iterable[Outcome], places: int) -> list[Sequence[Outcome]]:
    """Answers of so many clients, one of each at a time: they share steps, and whose prompts delay whose is luck."""
    good = (o for o in outcomes if not o.warmup and o.failure is None)
    whole = [o for o in good if o.first_s and o.last_s and (o.output_tokens or 0) > 1]
    whole.sort(key=lambda o: o.first_s or 0.0)
    return [whole[k : k + places] for k in range(0, len(whole) + 1 - places, places)]


def _round_s(answers: Sequence[Outcome]) -> float:
    """Mean time of a round's answers from sending on, of one token. [s]"""
    return sum(((o.last_s or 0.0) - o.intended_s) / (o.output_tokens or 1) for o in answers) / len(answers)


def undisturbed(logs: Sequence[Log]) -> Point:
    """
    One load of a closed loop that was measured several times: its times are those of the faster half of all its rounds.

    What else goes on on a machine only adds to a round's time, which luck among its answers does not. Rates are clients
    over the time of a request (Little).
    """
    points = [measurement_of(log).points[0] for log in logs]
    whole, places = max(points, key=lambda point: point.failed), logs[0].header.spec.load.concurrency or 1
    rounds = sorted((one for log in logs for one in _rounds(log.outcomes, places)), key=_round_s)
    good = [o for one in rounds[: (len(rounds) + 1) // 2] for o in one]
    if not good:
        return whole
    kept = with_latencies(whole, times_of((o.intended_s, o.first_s, o.last_s, o.output_tokens or 1) for o in good))
    rate = places * len(good) / sum((o.last_s or 0.0) - o.intended_s for o in good)
    tokens = rate * sum(o.output_tokens or 0 for o in good) / len(good)
    return replace(kept, requests_per_s=rate, output_tokens_per_s=tokens)


def _notes(log: Log, points: Sequence[Point]) -> Iterable[str]:
    """What a reader must know before using the numbers."""
    late = [point for point in points if is_late(point)]
    if late:
        first = max(late, key=_late_share)
        yield (
            f"{UNUSABLE}: at {len(late)} of {len(points)} loads the client's own lateness is over "
            f"{percent(MAX_LATE_SHARE)} of the median time to first token, up to {percent(_late_share(first))} at load "
            f"{first.level:g}; measure from a machine with a free core, or with less load."
        )
    yield from cached_notes(points, shared=log.header.spec.shared)
    yield from _other_notes(log)
    worst = max((point.client_delay_s or 0.0 for point in points), default=0.0)
    if worst > SLOW_CLIENT_S:
        yield (
            f"This client itself was late by {worst * 1e3:.1f} ms at p99, which is part of every latency here; "
            "give it a free core or less load."
        )
    good = [o for o in log.outcomes if o.failure is None and not o.warmup]
    wrong = Counter(o.miscounted for o in good if o.miscounted is not None)
    for what, count in wrong.most_common():
        yield f"The server's count of output tokens is {what} in {count} answers; events with text are counted there."
    resent = sum(1 for o in log.outcomes if o.resent)
    if resent:
        yield f"The server closed a waiting connection as {resent} requests went out; they were sent again at once."
    events = sum(1 + len(o.gap_s) for o in good)
    tokens = sum(o.output_tokens or 0 for o in good)
    if events and tokens > 1.02 * events:
        yield f"An event carries {tokens / events:.2f} tokens on average: ITL counts events, TPOT tokens."
    read = [o.prompt_tokens for o in good if o.prompt_tokens is not None]
    planned = log.header.spec.prompt_tokens
    if read and abs(sum(read) / len(read) / planned - 1.0) > 0.05:
        yield f"Prompts have {sum(read) / len(read):.0f} tokens by the server's count instead of {planned}."
    short = [o for o in good if o.output_tokens is not None and o.output_tokens < log.header.spec.output_tokens]
    if good and len(short) > 0.05 * len(good):
        yield f"{len(short)} of {len(good)} answers ended before {log.header.spec.output_tokens} tokens."
    for point in points:
        if 0 < point.completed < MIN_REQUESTS:
            yield (
                f"Load {point.level:g}: percentiles above the median of {point.completed} requests are little more "
                "than the slowest one."
            )
