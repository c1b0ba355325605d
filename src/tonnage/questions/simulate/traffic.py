"""What a simulation's traffic comes to: one row for each request, with its time, lengths and prefix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tonnage.catalog.traces import Trace, find_trace, public_traces, read_trace
from tonnage.catalog.traffic import profile, session_profile, shape
from tonnage.domain.sessions import SessionProfile
from tonnage.domain.simulate import SimulationTraffic
from tonnage.errors import BadRequest, echo
from tonnage.record import Record
from tonnage.simulation import arrivals
from tonnage.simulation.simulated import Requests, requests_of

if TYPE_CHECKING:
    import numpy as np

    from tonnage.simulation.serving import Simulated as Run
    from tonnage.simulation.session_turns import Turns


MAX_REQUESTS = 20_000_000
OUT_OF_STEP = (0.9, 1.1)
"""Answers to clients of a service over the stated length: requests that are all alike and meet once end together."""
DAY_HOURS, WEEK_HOURS = 24, 168
SESSION_BLOCK = 128
"""Of drawn sessions: as fine as their prompts need, coarser than engines' blocks so that long runs fit. [tokens]"""
USUAL_REQUESTS = 20_000
"""Drawn where nobody says how many: they settle a 99th percentile."""


class Traced(Record, kw_only=True):
    """Requests, and what of them the rest of the house asks for."""

    requests: Requests
    prompt_mean: float
    output_mean: float
    longest: int
    """Longest prompt and answer. [tokens]"""
    hash_tokens: int | None = None
    notes: tuple[str, ...] = ()
    licence: str = ""


def traffic_of(asked: SimulationTraffic) -> Traced:
    """
    The requests of a traffic, in the order they are sent.

    Raises
    ------
    TonnageError
        The traffic contradicts itself, or its log cannot be read.
    """
    _check(asked)
    if asked.trace is not None:
        return _logged_traffic(asked)
    # Clients, bursts and hours of a day have times of their own, which sessions would contradict.
    plain = asked.process != "poisson" or asked.shape is not None or asked.hours or asked.cached_share > 0.0
    sessions = session_profile(asked.profile) if asked.reuse and asked.rate_per_s and not plain else None
    return _draw_traffic(asked) if sessions is None else _turns(asked, sessions)


def _check(asked: SimulationTraffic) -> None:
    """Refuses a traffic without exactly one source of lengths, without a load, or with what contradicts."""
    sources = [name for name in ("profile", "trace", "prompt_tokens") if getattr(asked, name) is not None]
    if len(sources) != 1:
        what = " and ".join(sources) + " contradict" if sources else "no lengths are given"
        raise BadRequest(f"traffic: {what}; give one of profile, trace, or prompt_tokens with output_tokens")
    if asked.prompt_tokens is not None and asked.output_tokens is None:
        raise BadRequest("traffic.output_tokens is missing; prompt_tokens alone says nothing of the answers")
    for name in ("prompt_tokens", "output_tokens"):
        tokens = getattr(asked, name)
        if tokens is not None and tokens < 1.0:
            raise BadRequest(f"traffic.{name} {tokens:g} must be at least 1; a request has a prompt and an answer")
    if asked.rate_per_s is not None and asked.concurrency is not None:
        raise BadRequest("traffic.rate and traffic.concurrency contradict; clients who wait set their own rate")
    if asked.rate_per_s is None and asked.concurrency is None and asked.trace is None:
        raise BadRequest("traffic: no load is given; write a rate such as 4/s, or a concurrency")
    if asked.num_requests is not None and not 1 <= asked.num_requests <= MAX_REQUESTS:
        raise BadRequest(f"traffic.requests {asked.num_requests} must be 1 to {MAX_REQUESTS:,}")
    if asked.shape is not None and asked.hours:
        raise BadRequest("traffic.shape and traffic.hours contradict; give one of them")
    if (asked.shape is not None or asked.hours) and asked.rate_per_s is None:
        raise BadRequest("traffic: a shape is of a mean rate; write rate, as in 4/s")
    if (asked.shape is not None or asked.hours) and asked.trace is not None:
        raise BadRequest("traffic: a log has hours of its own; leave out shape and hours")
    if not 0.0 <= asked.cached_share < 1.0:
        raise BadRequest(f"traffic.cached_share {asked.cached_share:g} must be at least 0 and below 1")


def _draw_traffic(asked: SimulationTraffic) -> Traced:
    """
    Requests drawn from a profile or around stated lengths, their times by the arrival process (all 0 for clients).
    """
    import numpy as np

    rng, n = arrivals.random(asked.seed), asked.num_requests or USUAL_REQUESTS
    notes: list[str] = []
    if asked.profile is not None:
        found = profile(asked.profile)
        lengths = found.lengths
        prompt = _by_quantiles(rng, n, found.prompt_quantiles, lengths.prompt_tokens)
        output = _by_quantiles(rng, n, found.output_quantiles, lengths.output_tokens)
        notes.append(f"lengths as in {found.source}" + ("" if found.prompt_quantiles else ": means only, all alike"))
    else:
        apart = asked.length_spread
        if apart is None and asked.concurrency and asked.start == "spread":
            apart = OUT_OF_STEP
            notes.append("answers within a tenth of the stated length, so that clients do not fall into step")
        prompt = _drawn_around(rng, n, asked.prompt_tokens or 1.0, asked.length_spread)
        output = _drawn_around(rng, n, asked.output_tokens or 1.0, apart)
    sent = np.zeros(n) if asked.concurrency else _times(asked, rng, notes=notes, n=n)
    sent = _shape_times(asked, sent, notes)
    requests = requests_of(
        sent,
        prompt,
        output=output,
        cached=(prompt * asked.cached_share).astype(np.int64),
        think_s=np.full(n, asked.think_s),
    )
    return _build_traced(requests, notes=tuple(notes))


def spread_starts(requests: Requests, asked: SimulationTraffic, *, life_s: float) -> Requests:
    """The same with the first request of each client at random within so long; as they are where that is 0."""
    import numpy as np

    if not life_s or not asked.concurrency:
        return requests
    sent = requests.sent_s.copy()
    first = sent[: asked.concurrency]
    first[:] = np.sort(arrivals.random(asked.seed).uniform(0.0, life_s, len(first)))
    return requests._replace(sent_s=sent)


def steady_part(run: Run, asked: SimulationTraffic, *, life_s: float) -> Run:
    """
    What is told of clients whose start was spread: requests sent once all have begun, while all go on.

    The whole run where that is less than a third of it, or nobody's start was spread.
    """
    import numpy as np

    sent = run.requests.sent_s
    if not life_s or run.partial or not len(sent):
        return run
    inside = np.isfinite(run.last_s) & (sent >= life_s) & (sent <= float(sent.max()) - life_s)
    if 3 * int(inside.sum()) < len(sent):
        return run
    columns = {name: getattr(run, name)[inside] for name in ("started_s", "first_s", "last_s", "preempted")}
    if len(run.replica) == len(sent):
        columns["replica"] = run.replica[inside]
    span_s = float(sent[inside].max() - sent[inside].min())
    return run._replace(requests=run.requests.pick(inside), span_s=span_s, **columns)


def _turns(asked: SimulationTraffic, profile: SessionProfile) -> Traced:
    """
    Turns drawn from a profile of sessions, as many as asked for (else `USUAL_REQUESTS`) at the rate asked for (else
    1/s); turns that begin with the same tokens share names of blocks.
    """
    import numpy as np

    from tonnage.simulation.sessions import draw_turns

    n = asked.num_requests or USUAL_REQUESTS
    # A run begins without open sessions: its first part, which is thrown away, has too many first turns.
    drawn = draw_turns(profile, turns_per_s=asked.rate_per_s or 1.0, turns=2 * n, seed=asked.seed)
    drawn = drawn._replace(**{name: getattr(drawn, name)[n:] for name in drawn._fields})
    offsets, ids = block_names(drawn, SESSION_BLOCK)
    requests = requests_of(
        drawn.sent_s - drawn.sent_s[0],
        drawn.prompt,
        output=drawn.output,
        blocks=(offsets, ids),
        think_s=np.full(n, asked.think_s),
    )
    notes = (
        f"sessions '{profile.name}': {profile.source}",
        "turns are sent when the profile says, whether or not the answer before them is there",
    )
    return _build_traced(requests, hash_tokens=SESSION_BLOCK, notes=notes)


def block_names(turns: Turns, size: int) -> tuple[Any, Any]:
    """
    Where the names of each turn begin, and the names (numbers) of its whole prompt blocks of `size` tokens, flat: equal
    names hold equal tokens.

    A turn begins with the names common to its group, then has those of the tokens that it keeps of the turn before in
    its session, then new ones. A first turn (an infinite gap) keeps none.
    """
    import numpy as np

    chains: dict[int, list[int]] = {}
    rows: list[list[int]] = []
    wide = 1 + int(turns.shared.max(initial=0)) // size
    name = wide * (1 + int(turns.group.max(initial=0)))
    columns = (turns.session, turns.group, turns.shared, turns.kept, turns.prompt, turns.context, turns.gap_s)
    for session, group, shared, kept, prompt, context, gap in zip(*(x.tolist() for x in columns), strict=True):
        common = shared // size
        chain = [] if gap == np.inf else chains.get(session, [])
        chain = [*(group * wide + i for i in range(common)), *chain[common : max(common, kept // size)]]
        more = context // size - len(chain)
        chain += range(name, name + more)
        name += max(0, more)
        chains[session] = chain
        rows.append(chain[: prompt // size])
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    flat = np.array([block for row in rows for block in row], np.int64)
    return offsets, np.unique(flat, return_inverse=True)[1]


def _shape_times(asked: SimulationTraffic, sent: Any, notes: list[str]) -> Any:
    """Times that follow the hours of a day or a week at the same mean rate; as they are where none are stated."""
    hours = asked.hours
    if asked.shape is not None:
        known = shape(asked.shape)
        hours = known.hours
        notes.append(f"rate by the hour as {known.what}: {known.source}")
    if not hours:
        return sent
    span = len(hours) * 3600.0 if len(hours) in (DAY_HOURS, WEEK_HOURS) else 86400.0
    return arrivals.diurnal(sent, hours=hours, day_s=span)


def scaled_lengths(requests: Requests, *, prompt_tokens: float, output_tokens: float) -> Requests:
    """
    The same requests with their lengths stretched to these means; a mean within 5 % is left as it was drawn. [tokens]
    """
    import numpy as np

    def to(lengths: Any, mean: float) -> Any:
        share = mean / float(lengths.mean())
        # Drawn lengths miss their mean by chance: only another mean is another traffic.
        return lengths if abs(share - 1.0) < 0.05 else np.maximum(1, np.rint(lengths * share)).astype(np.int64)

    return requests._replace(prompt=to(requests.prompt, prompt_tokens), output=to(requests.output, output_tokens))


def _build_traced(requests: Requests, **more: Any) -> Traced:
    return Traced(
        requests=requests,
        prompt_mean=float(requests.prompt.mean()),
        output_mean=float(requests.output.mean()),
        longest=int((requests.prompt + requests.output).max()),
        **more,
    )


def _by_quantiles(rng: np.random.Generator, n: int, quantiles: tuple[tuple[float, float], ...], mean: float) -> Any:
    """Lengths drawn by a profile's quantiles; all at the mean where it has none. [tokens]"""
    if not quantiles:
        return arrivals.fixed_lengths(n, mean)
    shares, tokens = zip(*quantiles, strict=True)
    return arrivals.draw_lengths(rng, n, quantiles=arrivals.Quantiles(shares, tokens, mean))


def _drawn_around(rng: np.random.Generator, n: int, tokens: float, spread: tuple[float, float] | None) -> Any:
    """Lengths drawn within a spread around a number; all alike without one. [tokens]"""
    if spread is None:
        return arrivals.fixed_lengths(n, tokens)
    return arrivals.spread_lengths(rng, n, nominal=tokens, spread=spread)


def _times(asked: SimulationTraffic, rng: np.random.Generator, *, notes: list[str], n: int) -> Any:
    """Times of arrivals by the process that is asked for, at the mean rate. [s]"""
    import numpy as np

    rate = asked.rate_per_s or 1.0
    if asked.process == "even":
        return np.arange(n) / rate
    if asked.process == "gamma":
        return arrivals.gamma_renewal(rng, n, rate_per_s=rate, variation=asked.variation)
    if asked.process == "on-off":
        return arrivals.on_off(rng, n, rate_per_s=rate, on_s=asked.on_s, off_s=asked.off_s)
    if asked.process == "wandering":
        known = dict(profile(asked.profile).dispersions) if asked.profile else {}
        dispersion = asked.dispersion or known.get(asked.window_s)
        if dispersion is None:
            windows = ", ".join(f"{w:g}" for w in known) or "none"
            raise BadRequest(
                f"traffic.dispersion is missing: variance over mean of the requests in {asked.window_s:g} s"
                f" (the profile knows windows of {windows} s)"
            )
        notes.append(f"rate wanders: variance over mean {dispersion:g} in {asked.window_s:g} s")
        return arrivals.doubly_stochastic(rng, n, rate_per_s=rate, dispersion=dispersion, window_s=asked.window_s)
    notes.append("arrivals are Poisson, which real ones are not: process: wandering is nearer to them")
    return arrivals.poisson(rng, n, rate_per_s=rate)


def _logged_traffic(asked: SimulationTraffic) -> Traced:
    """Requests of a log as they were, stretched to a stated rate; the first of them where a number is asked for."""
    import numpy as np

    trace = read_trace(find_trace(str(asked.trace)), limit=asked.num_requests or MAX_REQUESTS + 1)
    if len(trace.sent_s) > MAX_REQUESTS:
        raise BadRequest(
            f"'{echo(asked.trace)}' holds more than {MAX_REQUESTS:,} requests; play a part of it (requests)"
        )
    rng = arrivals.random(asked.seed)
    recorded = np.frombuffer(trace.sent_s, np.float64).copy()
    sent = arrivals.spread_over_clock_step(rng, recorded)
    notes = [f"{len(sent):,} requests of {trace.source}", *trace.remarks]
    if sent is not recorded:
        notes.append("times are spread over the step of the clock that stamped them")
    if asked.rate_per_s is not None:
        sent = arrivals.at_rate(sent, asked.rate_per_s)
        notes.append(f"stretched in time to {asked.rate_per_s:g} requests/s")
    prompt, output = (np.frombuffer(column, np.int64).copy() for column in (trace.prompt, trace.output))
    requests = requests_of(
        np.zeros(len(sent)) if asked.concurrency else sent,
        prompt,
        output=output,
        cached=None if trace.hash_tokens else (prompt * asked.cached_share).astype(np.int64),
        think_s=np.full(len(sent), asked.think_s),
        blocks=full_blocks(trace, prompt),
    )
    return _build_traced(requests, hash_tokens=trace.hash_tokens, notes=tuple(notes), licence=licence_of(trace))


def full_blocks(trace: Trace, prompt: Any) -> tuple[Any, Any] | None:
    """
    Offsets and ids of whole blocks only: the last, partly filled one is never found again. None where the log has no
    ids.
    """
    import numpy as np

    if not trace.hash_tokens:
        return None
    offsets, ids = (np.frombuffer(column, np.int64) for column in (trace.offsets, trace.blocks))
    counts = np.diff(offsets)
    whole = np.minimum(counts, prompt // trace.hash_tokens)
    place = np.arange(len(ids)) - np.repeat(offsets[:-1], counts)
    return np.concatenate(([0], np.cumsum(whole))), ids[place < np.repeat(whole, counts)]


def licence_of(trace: Trace) -> str:
    """Licence and citation of a public log: a fetched one by its name, another by its length and its file's name."""
    stem = Path(trace.source).name.partition(".")[0]
    for known in public_traces().values():
        words = known.name.replace("-", "_").split("_")
        alike = known.requests == len(trace.sent_s) and any(word in trace.source for word in words)
        if stem == known.name or alike:
            return f"{known.repository}, {known.licence}; cite {known.cite}"
    return ""
